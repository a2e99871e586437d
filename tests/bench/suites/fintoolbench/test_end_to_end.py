"""FinToolBench's own questions from end to end: real agents, judge and gateway; the model and the
upstreams are simulated.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from bench.models.simulated import ModelFaults
from bench.record import Ending, EpisodeRecord
from bench.runs.metrics import RunMetrics
from bench.runs.reader import Run
from bench.suites import load_suite
from bench.suites.fintoolbench.suite import LabelledTasks
from bench.suites.suite import Suite
from manifests import Catalog
from tests.support.commands import finbench
from tests.support.simulated_runs import NO_FAULTS, played

pytestmark = pytest.mark.anyio

MODEL = "gpt-x"
"""Asked for by a name that says nothing of it: the simulated model says who it is."""

MANY_FAULTS = ModelFaults(
    bad_json=0.1,
    unknown_tool=0.1,
    refusal=0.05,
    empty=0.1,
    rate_limited=0.1,
    server_error=0.1,
    cut=0.05,
    garbage=0.02,
    too_many_calls=0.02,
    length=0.05,
    judge_invalid=0.1,
)


MAIN = [metric.name for metric in LabelledTasks.metrics if metric.is_main]


async def records_of(
    agent: str, suite: Suite, faults: ModelFaults, catalog: Catalog, folder: Path
) -> tuple[list[EpisodeRecord], dict[str, Any]]:
    await played(
        suite,
        catalog,
        folder / "run",
        agent=agent,
        judge="llm",
        model=MODEL,
        faults=faults,
        episodes=len(suite.tasks),
        concurrency=32,
        top_k=20,
    )
    metrics = RunMetrics(LabelledTasks)
    records = []
    for record in Run.open(folder / "run").records():
        metrics.add(record)
        if isinstance(record, EpisodeRecord):
            records.append(record)
    assert metrics.result() == json.loads((folder / "run/metrics.json").read_bytes())
    about = json.loads((folder / "run/run.json").read_bytes())
    assert about["answered_by"] == {side: ["simulated-planner"] for side in ("agent", "judge")}
    told = await to_thread.run_sync(finbench, "compare", *[str(folder / "run")] * 2)
    assert "the model is simulated, so none tells of a real one; the judge is sim" in told.stderr
    return records, metrics.result()


@pytest.mark.parametrize("size", [16, pytest.param(295, marks=pytest.mark.soak)])
@pytest.mark.parametrize("faults", [NO_FAULTS, MANY_FAULTS], ids=["sound", "faulty"])
@pytest.mark.parametrize("agent", ["llm", "fatr"])
async def test_an_agent_with_a_model_leaves_complete_traces_and_all_metrics(
    agent: str,
    faults: ModelFaults,
    size: int,
    questions: Path,
    catalog: Catalog,
    tmp_path: Path,
) -> None:
    whole = load_suite("fintoolbench", questions)
    suite = LabelledTasks(name=whole.name, tasks=whole.tasks[:: len(whole.tasks) // size][:size])
    records, metrics = await records_of(agent, suite, faults, catalog, tmp_path)
    assert sorted(record.id for record in records) == sorted(task.id for task in suite.tasks)
    for record in records:
        assert 0 < len(record.candidate_tools) <= 20
        assert record.model_calls, "every request to the model is in the record"
        assert record.judgement is not None
        assert Ending(record.ending).is_error == (record.error is not None)
        assert all(call.step <= 5 for call in record.tool_calls)
    assert [name for name in MAIN if metrics[name] is None] == []
    endings = Counter(record.ending for record in records)
    asked = metrics["usage"]["model_calls"]
    if faults == NO_FAULTS:
        assert set(endings) == {"answer"}
        assert asked["failed"] == metrics["judged"]["invalid"] == 0
    else:
        assert endings["agent_error"] == 0, "what a model does wrong is not the agent"
        assert endings["refusal"] > 0
        assert asked["attempts"] > asked["calls"], "429 and 5xx were tried again"
        assert metrics["judged"]["invalid"] > 0
        assert {"invalid_arguments", "unknown_tool"} <= {
            call.code for record in records for call in record.tool_calls
        }
    print(agent, dict(endings), {name: metrics[name] for name in MAIN})  # noqa: T201

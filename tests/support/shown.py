"""Runs by hand as reports, tables and pages show them: with metrics, and with hostile texts."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from bench.record import EpisodeRecord, ModelCallRecord, ToolVerdict
from bench.runs.metrics import RunMetrics
from bench.suites.fintoolbench.suite import LabelledTasks
from tests.support.runs import call, episode, write_run

EVIL = "</script><img src=x onerror='document.title=1'>\x1b[2J\u202e\u2028<!--{{7*7}}\"&"


def hostile() -> EpisodeRecord:
    """Everything that a trace can say, said by somebody who is up to something."""
    made = replace(call(2, EVIL, EVIL), tool_name=EVIL, parameters={EVIL: EVIL}, observed=EVIL)
    found = episode(77, call(), replace(made, output={"error": EVIL}), scores=[0.5, 1])
    asked = ModelCallRecord(1, EVIL, EVIL, 0.0, 900.0, error=EVIL, input_tokens=1_200)
    found = replace(found, question=EVIL, category=EVIL, execution_result=EVIL, response=[EVIL])
    found = replace(found, ground_truth=EVIL, ending=EVIL, labelled_tools=[EVIL], error=EVIL)
    found = replace(found, source_dataset=EVIL, model_calls=[asked], candidate_tools=[EVIL, "a"])
    assert found.judgement is not None
    found.judgement.judge = EVIL
    found.judgement.tools = [ToolVerdict(EVIL, timeliness=True, intent=False, domain=None)]
    return found


def write_scored(path: Path, episodes: Sequence[EpisodeRecord], /, **about: Any) -> Path:
    """A run of the suite `starter` with the metrics of its episodes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    said = {"suite": "starter", "started_at": 1_700_000_000.0, "episodes": len(episodes)}
    run, metrics = write_run(path, episodes, **{**said, **about}), RunMetrics(LabelledTasks)
    for record in episodes:
        metrics.add(record)
    (run / "metrics.json").write_bytes(orjson.dumps(metrics.result()))
    return run

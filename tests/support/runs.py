"""Runs on disk, made by hand."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from bench.record import EpisodeRecord, Judgement, ModelCallRecord, ToolCallRecord, ToolVerdict
from bench.runs.metrics import RunMetrics
from bench.suites.fintoolbench.suite import LabelledTasks

ABOUT = {"suite": "known", "suite_digest": "d1", "agent": "llm", "judge": "rules", "seed": 0}

EVIL = "</script><img src=x onerror='document.title=1'>\x1b[2J\u202e\u2028<!--{{7*7}}\"&"


def call(step: int = 1, code: str | None = None, fault: str | None = None) -> ToolCallRecord:
    return ToolCallRecord(
        step=step,
        tool_name="get_coin",
        parameters={"uuid": "a"},
        output={"error": "no"} if code else "42",
        ok=code is None,
        code=code,
        fault=fault,
        source=None if code else "live",
        call_id="",
        elapsed_ms=5.0,
    )


def episode(
    number: int, *calls: ToolCallRecord, repeat: int = 0, scores: Iterable[float] = (), **more: Any
) -> EpisodeRecord:
    """One that passes if its last call does."""
    task = f"task_{number}"
    return EpisodeRecord(
        episode=f"{task}.{repeat}",
        id=task,
        repeat=repeat,
        source_dataset="known",
        category=f"category {number % 3}",
        question=f"What is the price of coin {number}?",
        setting="llm",
        ground_truth="42",
        candidate_tools=["get_coin"],
        labelled_tools=["get_coin"],
        started_at=1_700_000_000.0 + number,
        elapsed_ms=1_000.0,
        tool_calls=list(calls),
        execution_result="42",
        judgement=Judgement("rules", "numeric", list(scores)),
        **more,
    )


def failing(number: int, code: str = "invalid_arguments", fault: str = "agent") -> EpisodeRecord:
    return episode(number, call(), call(2, code, fault))


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


def lines_of(file: Path | str) -> list[dict[str, Any]]:
    """The records in a file of JSON Lines."""
    return [orjson.loads(line) for line in Path(file).read_bytes().splitlines()]


def about(out: Path | str) -> dict[str, Any]:
    """The content of `run.json`."""
    found: dict[str, Any] = orjson.loads(Path(out, "run.json").read_bytes())
    return found


def write_scored(path: Path, episodes: Sequence[EpisodeRecord], /, **about: Any) -> Path:
    """A run of the suite `starter` with the metrics of its episodes."""
    said = {"suite": "starter", "started_at": 1_700_000_000.0, "episodes": len(episodes)}
    run, metrics = write_run(path, episodes, **{**said, **about}), RunMetrics(LabelledTasks)
    for record in episodes:
        metrics.add(record)
    (run / "metrics.json").write_bytes(orjson.dumps(metrics.result()))
    return run


def write_run(path: Path, episodes: Iterable[EpisodeRecord], /, **about: Any) -> Path:
    path.mkdir(parents=True)
    (path / "run.json").write_bytes(orjson.dumps({**ABOUT, "ended": "complete", **about}))
    (path / "episodes.jsonl").write_bytes(
        b"".join(orjson.dumps(e, option=orjson.OPT_APPEND_NEWLINE) for e in episodes)
    )
    (path / "calls.jsonl").touch()
    return path

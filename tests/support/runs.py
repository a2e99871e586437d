"""Runs on disk, made by hand."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson

from bench.record import EpisodeRecord, Judgement, ToolCallRecord
from tests.support.checkout import ROOT

SNAPSHOT = ROOT / "tests" / "bench" / "runs" / "data" / "recorded.snap"
"""Answers to some of the calls of the starter suite; the others fail."""

ABOUT = {"suite": "known", "suite_digest": "d1", "agent": "llm", "judge": "rules", "seed": 0}


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


def lines_of(file: Path | str) -> list[dict[str, Any]]:
    """The records in a file of JSON Lines."""
    return [orjson.loads(line) for line in Path(file).read_bytes().splitlines()]


def about(out: Path | str) -> dict[str, Any]:
    """The content of `run.json`."""
    found: dict[str, Any] = orjson.loads(Path(out, "run.json").read_bytes())
    return found


def write_run(path: Path, episodes: Iterable[EpisodeRecord], /, **about: Any) -> Path:
    path.mkdir()
    (path / "run.json").write_bytes(orjson.dumps({**ABOUT, "ended": "complete", **about}))
    (path / "episodes.jsonl").write_bytes(
        b"".join(orjson.dumps(e, option=orjson.OPT_APPEND_NEWLINE) for e in episodes)
    )
    (path / "calls.jsonl").touch()
    return path

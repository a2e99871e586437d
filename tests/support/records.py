"""Records of episodes and calls, made by hand."""

from typing import Any

from bench.record import EpisodeRecord, ToolCallRecord
from gateway import CallRecord


def made(step: int, ok: bool = True, output: Any = "[]") -> ToolCallRecord:
    return ToolCallRecord(step, "t", {}, output, ok, None, None, "live", "1", 1.0)


def episode(*calls: ToolCallRecord, error: str | None = None) -> EpisodeRecord:
    return EpisodeRecord(
        episode="e",
        id="t",
        repeat=0,
        source_dataset="s",
        category="equity",
        question="?",
        setting="scripted",
        ground_truth="",
        candidate_tools=[],
        started_at=0.0,
        tool_calls=list(calls),
        error=error,
    )


def call(
    ok: bool = True,
    source: str = "live",
    tool: str = "t",
    ms: float = 1.0,
    host: str | None = None,
    code: str = "timeout",
) -> CallRecord:
    failed, fault = (None, None) if ok else (code, "tool")
    return CallRecord(
        *("1", 0.0, tool, host, {}, ok, failed, fault, None, source if ok else None, "live"),
        *(0.0, 1, ms, None, None, 0, None, None),
    )

"""What an episode leaves behind: one record, a superset of FinToolBench's trace line
(arXiv 2603.08262 and its public evaluator), so that its evaluator reads ours.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any


@dataclass  # without slots, as `CallRecord`
class ToolCallRecord:
    """One call as the agent saw it.

    `step` counts rounds from 1. `output` is what came back, shortened to `OUTPUT_CHARS`, or
    `{"error": message}`; `ok`, `code` and `fault` are the typed outcome beside it; `source` is the
    answer's provenance; `call_id` finds the call in `calls.jsonl`.
    """

    step: int
    tool_name: str
    parameters: dict[str, Any]
    output: str | dict[str, Any]
    ok: bool
    code: str | None
    fault: str | None
    source: str | None
    call_id: str
    elapsed_ms: float


@dataclass
class EpisodeRecord:
    """One episode. `error` is why it ended early, None for one that ran to its answer.

    `episode` is unique in a run; `id` names the task and `repeat` counts its repetitions from 0.
    Times are Unix seconds and milliseconds.
    """

    episode: str
    id: str
    repeat: int
    source_dataset: str
    category: str
    question: str
    setting: str
    ground_truth: str
    candidate_tools: list[str]
    started_at: float
    elapsed_ms: float = 0.0
    tool_calls: list[ToolCallRecord] = field(default_factory=list)
    response: list[str] = field(default_factory=list)
    execution_result: str = ""
    error: str | None = None


def is_infrastructure(faults: Collection[str | None]) -> bool:
    """Whether a round whose calls failed by these faults failed through nobody but a quota or the
    gateway, which says nothing about the agent.
    """
    return bool(faults) and {"quota", "gateway"}.issuperset(faults)


OUTPUT_CHARS = 500
"""Longest output kept in a record, as FinToolBench bounds what goes back to its planner."""

"""The record of an episode, a superset of FinToolBench's trace line (arXiv 2603.08262 and its
public evaluator), so that its evaluator reads ours.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Protocol

from pydantic import BeforeValidator, Field, TypeAdapter

from bench.question import language_of

MOST = 2**53
"""No figure of a run is larger; JavaScript and Parquet represent it exactly."""

LAST_SECOND = 253_402_300_799
"""Unix time of the end of the year 9999, the latest that a date can have."""

Whole = Annotated[int, Field(ge=-MOST, le=MOST)]
Figure = Annotated[float, Field(ge=-MOST, le=MOST, allow_inf_nan=False)]
Share = Annotated[Figure, Field(ge=0, le=1)]
Time = Annotated[float, Field(ge=0, le=LAST_SECOND, allow_inf_nan=False)]


DRIVER = -1
"""The step of the calls by which the driver opens and closes the session of an episode."""


class Ending(StrEnum):
    """How an episode ended: by the agent's decision, at a limit, or by a fault."""

    ANSWER = "answer"
    REFUSAL = "refusal"
    EMPTY = "empty"
    ROUNDS = "rounds"
    CALLS = "calls"
    TIME = "time"
    TOKENS = "tokens"
    AGENT_ERROR = "agent_error"
    MODEL_ERROR = "model_error"
    ENVIRONMENT_ERROR = "environment_error"
    LOST = "lost"

    @property
    def is_error(self) -> bool:
        return self not in (Ending.ANSWER, Ending.REFUSAL, Ending.EMPTY)


@dataclass  # without slots, as `CallRecord`
class ToolCallRecord:
    """One call as the agent saw it.

    `step` counts rounds from 1; it is `DRIVER` for calls of the driver itself. `output` is the
    result, shortened to `OUTPUT_CHARS`, or `{"error": message}`. `ok`, `code` and `fault` are the
    typed outcome; `source` is the answer's provenance. `call_id` finds the call in `calls.jsonl`;
    it is empty for a call that the driver refused to make. `observed` is what the agent read in
    place of the whole output. `at` is Unix time at the start.
    """

    step: Whole
    tool_name: str
    parameters: dict[str, Any]
    output: str | dict[str, Any]
    ok: bool
    code: str | None
    fault: str | None
    source: str | None
    call_id: str
    elapsed_ms: Figure
    at: Time = 0.0
    observed: str | None = None


@dataclass
class ModelCallRecord:
    """One request to a model: before which round (from 1), its purpose, its cost.

    `purpose` is `act`, `constraints`, `reduce` or `final`; for a judge it is `judge`, with step 0.
    `attempts` counts all tries, also those that failed by time or connection before anything was
    sent. `finish` is the model's reason to stop; `error` says why there is no answer. `model` was
    asked for; `answered_by` is the model that answered, as its endpoint says, None if it does not.
    `reasoning` are the thoughts that the endpoint sent beside the answer, up to `REASONING_CHARS`.
    `reply` is what a judge's model answered, with its reasons, up to `REPLY_CHARS`.
    """

    step: Whole
    purpose: str
    model: str
    at: Time
    elapsed_ms: Figure
    attempts: Whole = 1
    input_tokens: Whole = 0
    cached_tokens: Whole = 0
    output_tokens: Whole = 0
    finish: str | None = None
    error: str | None = None
    answered_by: str | None = None
    reasoning: str = ""
    reply: str = ""


@dataclass
class ToolVerdict:
    """Whether a called tool's tags match what the question needs; None where not judged."""

    tool: str
    timeliness: bool | None = None
    intent: bool | None = None
    domain: bool | None = None


OPTIONAL = ("by_metric", "extracted", "invalid_tools", "rounded")
"""Fields of a judgement that count only where they are not empty."""


@dataclass
class Judgement:
    """A judge's findings on an episode.

    `kind` is the answer type by the gold answer. `scores` are those of the judge's valid answers
    (FinToolBench's judge is asked three times); `invalid` counts the other answers. `by_metric` has
    the valid scores of a judge that scores several metrics. `extracted` is the answer that a judge
    read from the agent's text. `tools` are the verdicts on the called tools, and `invalid_tools`
    counts those on which it was asked for a verdict and gave none. `rounded` counts
    scores that were not given as one of those that the kind allows. `model_calls` are the judge's
    own requests to a model, not the agent's.
    """

    judge: str
    kind: str
    scores: list[Share] = field(default_factory=list)
    invalid: Whole = 0
    tools: list[ToolVerdict] = field(default_factory=list)
    model_calls: list[ModelCallRecord] = field(default_factory=list)
    by_metric: dict[str, list[Figure]] = field(default_factory=dict)
    extracted: str = ""
    invalid_tools: Whole = 0
    rounded: Whole = 0

    @property
    def is_empty(self) -> bool:
        """Whether the judge had nothing to score."""
        return not (self.scores or self.by_metric or self.invalid)

    @property
    def is_valid(self) -> bool:
        """Whether the judge scored the episode, or had nothing to score."""
        return bool(self.scores or self.by_metric or not self.invalid)

    def fields(self) -> dict[str, Any]:
        """Its fields by name, without empty ones that few judges have (`OPTIONAL`)."""
        return {name: value for name, value in vars(self).items() if value or name not in OPTIONAL}


@dataclass
class FailedJudgement(Judgement):
    """An invalid judgement in place of one that the judge did not give; `error` says why."""

    error: str = ""


_FAILED: TypeAdapter[FailedJudgement] = TypeAdapter(FailedJudgement)


def _told_apart(value: object) -> object:
    """A failed judgement as read from a file; a union would name its types in every error."""
    is_failed = isinstance(value, dict) and "error" in value
    return _FAILED.validate_python(value) if is_failed else value


@dataclass
class EpisodeRecord:
    """One episode. `error` is why it ended early, None for one that ran to its answer.

    `episode` is unique in a run; `id` names the task and `repeat` counts its repetitions from 0.
    Times are Unix seconds and milliseconds. `labelled_tools` are those of the task's labels,
    `labelled_arguments` their arguments in the same order (None where any will do; empty in a suite
    that does not compare them), and `candidate_tools` the tools that the agent was offered.
    """

    episode: str
    id: str
    repeat: Whole
    source_dataset: str
    category: str
    question: str
    setting: str
    ground_truth: str
    candidate_tools: list[str]
    started_at: Time
    elapsed_ms: Figure = 0.0
    tool_calls: list[ToolCallRecord] = field(default_factory=list)
    response: list[str] = field(default_factory=list)
    execution_result: str = ""
    error: str | None = None
    ending: str = Ending.ANSWER.value
    labelled_tools: list[str] = field(default_factory=list)
    model_calls: list[ModelCallRecord] = field(default_factory=list)
    judgement: Annotated[Judgement | None, BeforeValidator(_told_apart)] = None
    labelled_arguments: list[dict[str, Any] | None] = field(default_factory=list)
    difficulty: str = ""

    @property
    def language(self) -> str:
        return language_of(self.question)

    @property
    def source(self) -> str:
        return self.source_dataset

    @property
    def tokens(self) -> int:
        return sum(call.input_tokens + call.output_tokens for call in self.model_calls)

    @property
    def agent_calls(self) -> list[ToolCallRecord]:
        """The calls of the agent, without those by which the driver opened and closed a session."""
        return [call for call in self.tool_calls if call.step != DRIVER]

    @property
    def cache_hit_rate(self) -> float | None:
        """Share of the answered calls that were answered from the cache, fresh or stale."""
        sources = [call.source for call in self.tool_calls if call.ok]
        hits = sources.count("cached") + sources.count("stale")
        return hits / len(sources) if sources else None

    @property
    def last_round(self) -> list[ToolCallRecord]:
        """The calls with the highest step."""
        last: list[ToolCallRecord] = []
        for call in self.tool_calls:
            if last and call.step > last[0].step:
                last.clear()
            if not last or call.step == last[0].step:
                last.append(call)
        return last


@dataclass
class Checkpoint:
    """What an episode added to its record since its last checkpoint. There is one whenever the
    state of its session can be made again, so an interrupted episode goes on after the last one.
    `elapsed_ms` is that of the whole episode until then.
    """

    episode: str
    started_at: Time
    elapsed_ms: Figure
    tool_calls: list[ToolCallRecord]
    response: list[str]
    model_calls: list[ModelCallRecord]


class Failed(Protocol):
    """What of a failed call says whose fault it was."""

    @property
    def code(self) -> str | None: ...

    @property
    def fault(self) -> str | None: ...


_NOBODYS = frozenset({"not_subscribed", "circuit_open", "upstream_unreachable"})
"""Codes of errors of a tool that no choice of an agent could have avoided."""


def is_infrastructure(failed: Collection[Failed]) -> bool:
    """Whether a round in which these calls failed did so only because of a quota, the gateway, a
    missing subscription, an open breaker or an upstream that can't be reached, which says nothing
    about the agent.
    """
    return bool(failed) and all(
        call.fault in ("quota", "gateway") or call.code in _NOBODYS for call in failed
    )


def storable(text: str) -> str:
    """`text`, replacing what UTF-8 can't hold."""
    return text.encode("utf-8", "replace").decode()


REASONING_CHARS = 20_000
"""The longest thoughts of a model in a record."""

REPLY_CHARS = 2_000
"""The longest answer of a judge's model in a record."""

OUTPUT_CHARS = 500
"""The longest output in a record; FinToolBench bounds what its planner gets in the same way."""

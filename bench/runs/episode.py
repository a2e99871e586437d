"""Writes what happens in an episode into its record.

Everything in a record can be stored in a file and is bounded, whatever the agent gave.
"""

import time
from dataclasses import replace
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError

from bench.agents import Episode, ModelCallRecord, ToolCall
from bench.agents.agent import LONGEST_TEXT
from bench.record import (
    OUTPUT_CHARS,
    REASONING_CHARS,
    Ending,
    EpisodeRecord,
    ToolCallRecord,
    storable,
)
from bench.suites.suite import Suite
from bench.task import Task
from gateway import ErrorCode, Result
from gateway.api.requests import MAX_BODY
from gateway.errors import CallError
from gateway.pipeline.bind import masked, redacted

ERROR_CHARS = 1_000
"""The longest error in a record."""

WITHHELD = "[answers of transactional tools are not recorded]"
"""Replaces an output that may hold a secret of the caller."""

NAME_CHARS = 128
"""The longest tool name with which a call is made."""

ARGUMENTS_BYTES = MAX_BODY
"""The longest arguments with which a call is made, as JSON: over HTTP they are a body."""

AGENT_BYTES = 4 * 2**20
"""How much an agent may say in an episode: its texts, and its arguments as JSON."""

MODEL_CALLS = 10_000
"""The most requests to models in an episode's record."""

REQUEST_BYTES = 4_096
"""The longest record of one request to a model, as JSON, without what the model thought."""

THOUGHTS_CHARS = 10**6
"""How much of a model's thoughts the record of an episode holds."""

FEW, SHORT = 32, 1_000
"""So many arguments, with values of so many characters, are encoded without a further look."""

_SCALARS = {str, int, float, bool, type(None)}

_MODEL_CALL: TypeAdapter[ModelCallRecord] = TypeAdapter(ModelCallRecord)


Observed = tuple[int, dict[int, str]]
"""The number of replies of a round, and what the agent read in place of some of them."""

CANCELLED, FAULT = ErrorCode.CANCELLED.value, ErrorCode.CANCELLED.fault


def name_of(task: Task, repeat: int) -> str:
    return f"{task.id}.{repeat}"


def begun(suite: Suite, task: Task, repeat: int, agent: str) -> EpisodeRecord:
    """The record of an episode that begins now."""
    labelled = [call.name for call in task.tools]
    return EpisodeRecord(
        episode=name_of(task, repeat),
        id=task.id,
        repeat=repeat,
        source_dataset=task.source_dataset or suite.name,
        category=task.category,
        question=task.question,
        setting=storable(agent[:NAME_CHARS]),
        ground_truth=task.answer,
        candidate_tools=labelled,
        started_at=round(time.time(), 3),
        labelled_tools=labelled,
        labelled_arguments=suite.arguments_of(task),
        difficulty=task.difficulty,
    )


def end(record: EpisodeRecord, ending: Ending, text: str) -> None:
    """End the episode without an answer; `text` says why."""
    record.ending, record.error = ending.value, storable(text[:ERROR_CHARS])


def within_bounds(call: ToolCall) -> tuple[ToolCall, int]:
    """The call and the bytes of its arguments as JSON. A call that is too large is replaced by one
    that says what is too large and holds an excerpt.
    """
    if len(call.tool) > NAME_CHARS:
        text = f"the name of a tool has at most {NAME_CHARS} characters, not {len(call.tool)}"
        return within_bounds(replace(call, tool=call.tool[:NAME_CHARS], problem=text))
    values = call.arguments.values()
    is_plain = len(values) <= FEW and {*map(type, values)} <= _SCALARS
    if is_plain and max(map(len, map(str, values)), default=0) <= SHORT:
        try:
            size = len(orjson.dumps(call.arguments))
        except (TypeError, RecursionError):
            size = 0
    else:
        size = _json_bytes(call.arguments)
    if size <= ARGUMENTS_BYTES:
        return call, size
    text = f"the arguments have at most {ARGUMENTS_BYTES} bytes as JSON, these have over {size - 1}"
    excerpt = {"too_large": {"bytes": size, "arguments": redacted(call.arguments)}}
    return ToolCall(call.tool, excerpt, problem=call.problem or text), _json_bytes(excerpt)


def _json_bytes(arguments: dict[str, Any]) -> int:
    """Bytes of arguments as JSON; 0 where they can't be encoded. Arguments that are far too large
    are not encoded: the result is then a lower bound, which is over `ARGUMENTS_BYTES`.
    """
    size, left = 0, [arguments]
    while left and size <= ARGUMENTS_BYTES:
        value: Any = left.pop()
        if isinstance(value, str):
            size += len(value)
        elif isinstance(value, list | tuple | dict):
            size += 2 * len(value)  # each element with its comma
            if size <= ARGUMENTS_BYTES:
                left.extend(value)
                left.extend(value.values() if isinstance(value, dict) else ())
    try:
        return size if size > ARGUMENTS_BYTES else len(orjson.dumps(arguments))
    except (TypeError, RecursionError):
        return 0


def pending(call: ToolCall, step: int) -> ToolCallRecord:
    """The record of a call that is about to be made; its arguments are masked."""
    try:
        parameters = masked(call.arguments)
        orjson.dumps(parameters)
    except (TypeError, RecursionError) as error:
        parameters = {"not_json": storable(str(error)[:ERROR_CHARS])}
    return ToolCallRecord(  # by place: names would double the time that this takes
        step,
        call.tool if call.tool.isascii() else storable(call.tool),
        parameters,
        {"error": "the episode ended before the answer came"},
        False,
        CANCELLED,
        FAULT,
        None,
        "",
        0.0,
        round(time.time(), 3),
    )


def refused(code: ErrorCode, text: str, call: ToolCall) -> Result:
    """The result of a call that the driver refuses to make."""
    message = f"{storable(call.tool[:64])}: {storable(text[:ERROR_CHARS])}"
    return Result(call.tool, "", error=CallError(code, message))


def answered(made: ToolCallRecord, result: Result, *, is_withheld: bool = False) -> Result:
    """Record the result of a call; of a withheld one only that there was a result."""
    error = result.error
    if error is None:
        made.output = WITHHELD if is_withheld else result.text(OUTPUT_CHARS)
        made.ok, made.code, made.fault, made.source = True, None, None, result.source
    else:
        made.output = {"error": storable(error.message[:ERROR_CHARS])}
        made.code, made.fault = error.code.value, error.fault
    made.call_id, made.elapsed_ms = result.call_id, result.elapsed_ms
    return result


def note_left(episode: Episode, rounds: list[Observed], record: EpisodeRecord) -> None:
    """Record what the agent left in its episode: its requests to models, and the texts that it read
    in place of whole replies. Each text goes to the call that it belongs to.
    """
    record.model_calls, wrong = requests_of(episode.model_calls)
    wrong = wrong or note_observed(rounds, record)
    if wrong is not None and record.error is None:
        end(record, Ending.AGENT_ERROR, f"agent: {wrong}")


def requests_of(noted: object) -> tuple[list[ModelCallRecord], str | None]:
    """The requests as a reader of the file will read them, and what is wrong with them, if
    anything.
    """
    found: list[ModelCallRecord] = []
    listed = noted if isinstance(noted, list) else [noted]
    room = THOUGHTS_CHARS
    for call in listed[:MODEL_CALLS]:
        try:
            if not isinstance(call, ModelCallRecord) or not isinstance(call.reasoning, str):
                continue
            text = orjson.dumps(replace(call, reasoning=""))
            if len(text) <= REQUEST_BYTES:
                kept = _MODEL_CALL.validate_json(text)
                kept.reasoning = storable(call.reasoning[: min(REASONING_CHARS, room)])
                room -= len(kept.reasoning)
                found.append(kept)
        except (TypeError, ValidationError):
            continue
    if len(found) == len(listed):
        return found, None
    return found, (
        f"`model_calls` of an episode is a list of ModelCallRecords, at most {MODEL_CALLS} of at "
        f"most {REQUEST_BYTES} bytes"
    )


def note_observed(rounds: list[Observed], record: EpisodeRecord) -> str | None:
    """Record the texts; returns what is wrong, if anything."""
    first, room, wrong = 0, LONGEST_TEXT, None
    for replies, observed in rounds:
        for place, text in observed.items():
            if place not in range(replies) or not isinstance(text, str):
                wrong = "`observed` of a round takes a text at the place of a reply"
            elif len(text) > room:
                wrong = f"`observed` takes at most {LONGEST_TEXT} characters in an episode"
            else:
                made = record.agent_calls[first + place]
                made.observed = WITHHELD if made.output == WITHHELD else storable(text)
                room -= len(text)
        first += replies
    return wrong

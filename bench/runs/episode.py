"""What goes on in an episode, written into its record, in which everything is fit for a file and
within bounds, whatever its agent gave.
"""

import asyncio
import time
from dataclasses import replace
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError

from bench.agents import Episode, ModelCallRecord, Round, ToolCall, Turn
from bench.agents.agent import LONGEST_TEXT
from bench.client import Reply
from bench.record import OUTPUT_CHARS, Ending, EpisodeRecord, ToolCallRecord, storable
from gateway import ErrorCode
from gateway.api.requests import MAX_BODY
from gateway.bind import masked, redacted

ERROR_CHARS = 1_000
"""Longest error kept in a record."""

WITHHELD = "[answers of transactional tools are not recorded]"
"""In place of an output that may hold a secret of whoever made the call."""

NAME_CHARS = 128
"""Longest name of a tool that is let out."""

ARGUMENTS_BYTES = MAX_BODY
"""Longest arguments of a call that is let out, as JSON: over HTTP they are a body."""

SAID_BYTES = 4 * 2**20
"""What an agent may say in an episode: texts, and arguments as JSON."""

MODEL_CALLS = 10_000
"""Most requests to models that an episode's record holds."""

REQUEST_BYTES = 4_096
"""Longest record of one of them, as JSON."""

_MODEL_CALL: TypeAdapter[ModelCallRecord] = TypeAdapter(ModelCallRecord)


def end(record: EpisodeRecord, ending: Ending, text: str) -> None:
    """The episode came to no answer; `text` says why."""
    record.ending, record.error = ending.value, storable(text[:ERROR_CHARS])


def words_of(error: BaseException) -> str:
    """An exception in words, whatever it makes of itself."""
    if type(error) is asyncio.CancelledError:
        return "CancelledError: something that it waited for was cancelled"
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException:  # noqa: BLE001
        return type(error).__name__


def within_bounds(call: ToolCall) -> tuple[ToolCall, int]:
    """The call, or in its place one that says what is too large and holds an excerpt; and the bytes
    of its arguments as JSON.
    """
    if len(call.tool) > NAME_CHARS:
        text = f"the name of a tool has at most {NAME_CHARS} characters, not {len(call.tool)}"
        return within_bounds(replace(call, tool=call.tool[:NAME_CHARS], problem=text))
    size = _json_bytes(call.arguments)
    if size <= ARGUMENTS_BYTES:
        return call, size
    text = f"the arguments have at most {ARGUMENTS_BYTES} bytes as JSON, these have over {size - 1}"
    excerpt = {"too_large": {"bytes": size, "arguments": redacted(call.arguments)}}
    return ToolCall(call.tool, excerpt, problem=call.problem or text), _json_bytes(excerpt)


def _json_bytes(arguments: dict[str, Any]) -> int:
    """Bytes of arguments as JSON; 0 where they are none. Of what is far too large, which is not
    encoded for this, at least as many as they have over the bound.
    """
    size, left = 0, [arguments]
    while left and size <= ARGUMENTS_BYTES:
        value: Any = left.pop()
        if isinstance(value, str):
            size += len(value)
        elif isinstance(value, list | tuple | dict):
            size += 2 * len(value)  # each with its comma
            if size <= ARGUMENTS_BYTES:
                left.extend(value)
                left.extend(value.values() if isinstance(value, dict) else ())
    if size > ARGUMENTS_BYTES:
        return size
    try:
        return len(orjson.dumps(arguments))
    except (TypeError, RecursionError):
        return 0


def text_bytes(turn: Turn) -> int:
    """Bytes of what a turn says."""
    return len(turn.response.encode("utf-8", "replace")) + len(
        turn.answer.encode("utf-8", "replace")
    )


def pending(call: ToolCall, step: int) -> ToolCallRecord:
    """The record of a call that is about to be made."""
    return ToolCallRecord(
        step=step,
        tool_name=storable(call.tool),
        parameters=_parameters(call),
        output={"error": "the episode ended before the answer came"},
        ok=False,
        code=ErrorCode.CANCELLED.value,
        fault=ErrorCode.CANCELLED.fault,
        source=None,
        call_id="",
        elapsed_ms=0.0,
        at=round(time.time(), 3),
    )


def _parameters(call: ToolCall) -> dict[str, Any]:
    """Its arguments as a record can hold them."""
    try:
        arguments = masked(call.arguments)
        orjson.dumps(arguments)
    except (TypeError, RecursionError) as error:
        return {"not_json": storable(str(error)[:ERROR_CHARS])}
    return arguments


def refused(code: ErrorCode, text: str, call: ToolCall) -> Reply:
    """The reply to a call that the driver does not let out."""
    message = f"{storable(call.tool[:64])}: {storable(text[:ERROR_CHARS])}"
    return Reply(False, "", code=code.value, fault=code.fault, message=message)


def answered(made: ToolCallRecord, reply: Reply, *, is_withheld: bool = False) -> Reply:
    """Note what a call brought, or where that is withheld, that it brought something."""
    if not reply.ok:
        made.output = {"error": storable((reply.message or "")[:ERROR_CHARS])}
    else:
        made.output = WITHHELD if is_withheld else reply.text(OUTPUT_CHARS)
    made.ok, made.code, made.fault = reply.ok, reply.code, reply.fault
    made.source, made.call_id, made.elapsed_ms = reply.source, reply.call_id, reply.elapsed_ms
    return reply


def note_left(episode: Episode, rounds: list[Round], record: EpisodeRecord) -> None:
    """What the agent left in its episode: its requests to models; and what it read in place of
    whole replies, which goes to the calls that brought them.
    """
    wrong = _note_requests(episode.model_calls, record) or _note_observed(rounds, record)
    if wrong is not None and record.error is None:
        end(record, Ending.AGENT_ERROR, f"agent: {wrong}")


def _note_requests(noted: object, record: EpisodeRecord) -> str | None:
    """What is wrong with them, if something is. They are read as they will be from the file."""
    record.model_calls = []
    listed = noted if isinstance(noted, list) else [noted]
    for call in listed[:MODEL_CALLS]:
        try:
            text = orjson.dumps(call if isinstance(call, ModelCallRecord) else None)
            if len(text) <= REQUEST_BYTES:
                record.model_calls.append(_MODEL_CALL.validate_json(text))
        except (TypeError, ValidationError):
            continue
    if len(record.model_calls) == len(listed):
        return None
    return (
        f"`model_calls` of an episode is a list of ModelCallRecords, at most {MODEL_CALLS} of at "
        f"most {REQUEST_BYTES} bytes"
    )


def _note_observed(rounds: list[Round], record: EpisodeRecord) -> str | None:
    """What is wrong with it, if something is."""
    first, room, wrong = 0, LONGEST_TEXT, None
    for played in rounds:
        for place, text in played.observed.items():
            if place not in range(len(played.replies)) or not isinstance(text, str):
                wrong = "`observed` of a round takes a text at the place of a reply"
            elif len(text) > room:
                wrong = f"`observed` takes at most {LONGEST_TEXT} characters in an episode"
            else:
                made = record.tool_calls[first + place]
                made.observed = WITHHELD if made.output == WITHHELD else storable(text)
                room -= len(text)
        first += len(played.replies)
    return wrong

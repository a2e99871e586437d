"""What goes on in an episode, written into its record, in which everything is fit for a file."""

import time
from typing import Any

import orjson

from bench.agents import Episode, ModelCallRecord, Round, ToolCall
from bench.client import Reply
from bench.record import OUTPUT_CHARS, Ending, EpisodeRecord, ToolCallRecord, storable
from gateway import ErrorCode
from gateway.bind import masked

ERROR_CHARS = 1_000
"""Longest error kept in a record."""

WITHHELD = "[answers of transactional tools are not recorded]"
"""In place of an output that may hold a secret of whoever made the call."""


def end(record: EpisodeRecord, ending: Ending, text: str) -> None:
    """The episode came to no answer; `text` says why."""
    record.ending, record.error = ending.value, storable(text[:ERROR_CHARS])


def words_of(error: BaseException) -> str:
    """An exception in words, whatever it makes of itself."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001
        return type(error).__name__


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
        return {"not_json": storable(str(error))}
    return arguments


def refused(code: ErrorCode, text: str, call: ToolCall) -> Reply:
    """The reply to a call that the driver does not let out."""
    message = f"{storable(call.tool)[:64]}: {storable(text)}"
    return Reply(False, "", code=code.value, fault=code.fault, message=message)


def answered(made: ToolCallRecord, reply: Reply, *, is_withheld: bool = False) -> Reply:
    """Note what a call brought, or where that is withheld, that it brought something."""
    if not reply.ok:
        made.output = {"error": storable(reply.message or "")}
    else:
        made.output = WITHHELD if is_withheld else reply.text(OUTPUT_CHARS)
    made.ok, made.code, made.fault = reply.ok, reply.code, reply.fault
    made.source, made.call_id, made.elapsed_ms = reply.source, reply.call_id, reply.elapsed_ms
    return reply


def note_left(episode: Episode, rounds: list[Round], record: EpisodeRecord) -> None:
    """What the agent left in its episode: its requests to models; and what it read in place of
    whole replies, which goes to the calls that brought them.
    """
    wrong = None
    noted: object = episode.model_calls
    listed = noted if isinstance(noted, list) else [noted]
    record.model_calls = [call for call in listed if isinstance(call, ModelCallRecord)]
    if len(record.model_calls) < len(listed):
        wrong = "`model_calls` of an episode is a list of ModelCallRecords"
    first = 0
    for played in rounds:
        for place, text in played.observed.items():
            if place in range(len(played.replies)) and isinstance(text, str):
                made = record.tool_calls[first + place]
                made.observed = WITHHELD if made.output == WITHHELD else storable(text)
            else:
                wrong = "`observed` of a round takes a text at the place of a reply"
        first += len(played.replies)
    if wrong is not None and record.error is None:
        end(record, Ending.AGENT_ERROR, f"agent: {wrong}")

"""All that went to models and came from them in an episode: its transcript.

The client of a model adds each request to the transcript of its context (`TRANSCRIPT`), if there is
one. The first messages of a request are mostly those of an earlier one, and are kept once. What
looks like a credential among the arguments of a call is masked, as in records.
"""

import base64
import binascii
import re
import sys
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

import orjson
from pydantic import TypeAdapter, ValidationError

from adapters.mask import mask_of
from bench.models.completion import Completion
from bench.record import ModelCallRecord, storable
from gateway.pipeline.bind import REDACTED, masked

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

TRANSCRIPT: ContextVar["Transcript | None"] = ContextVar("transcript", default=None)
"""Where requests of the current context are kept, if they are."""

MOST_BYTES = 4 * 2**20
"""How much of an episode is kept; of the requests after that only their number is."""

EARLIER = 8
"""So many earlier requests are compared with a new one."""

LEVEL = 3
"""Level 6 takes 2.5 times as long for 5 % less."""

QUICK_BYTES, SLOW_BYTES = 2**16, 2**13
"""So many bytes, and so many of calls, which are masked, are a line within 2 ms."""

MOST_SECRETS = 5_000
"""Requests with more texts to mask are left out: masking these would take minutes."""

SECRET_CHARS = 8
"""A shorter text of a withheld answer is no secret, and masking it would mask words."""

UNREADABLE_CHARS = 2_000
"""How much is kept of arguments that are not JSON."""

_VALUE = r"""("(?:\\.|[^"\\])*"?|'(?:\\.|[^'\\])*'?|(?i:(?:bearer|basic)\s+)?[^\s,{}\[\]]+)"""
_PAIR = re.compile(rf"""(["']?)\b(?P<name>[A-Za-z][\w-]{{0,63}})\1\s*[:=]\s*{_VALUE}""")
_QUERY = re.compile(r"(?<=[?&])(?P<name>[A-Za-z][\w-]{0,63})=[^&\s#]+")

_CELLS = re.compile(r"[\n\t,|\"]|: ")

By = Literal["agent", "judge"]


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request to a model and its answer.

    `step`, `purpose` and `model` are those of its `ModelCallRecord`. `messages` and `tools` are as
    they were sent. `answer` has the parts that the model gave of `content`, `reasoning`,
    `tool_calls`, `refusal` and `finish_reason`; it is None if none came, and `error` says why.
    """

    step: int
    purpose: str
    model: str
    messages: list[Any]
    tools: list[Any]
    tool_choice: str | None
    answer: dict[str, Any] | None
    error: str | None


@dataclass(slots=True)
class TranscriptLine:
    """A line of `transcripts.jsonl`: requests of an episode that began at the Unix time `began`,
    from its agent or its judge. `zstd` holds them (RFC 8878, in base64): a JSON array in which a
    request has the first `kept` messages of the one at the place `after`, then its own, and the
    tools of the one at the place `tools`, if that is a number. `left_out` counts further requests.
    """

    episode: str
    began: float
    by: By
    requests: int
    left_out: int
    zstd: str

    def exchanges(self) -> list[Exchange]:
        """Raises `ValueError` for content that no run wrote."""
        try:
            packed = base64.b64decode(self.zstd, validate=True)
            decompressor = zstd.ZstdDecompressor()
            kept = _KEPT.validate_json(decompressor.decompress(packed, MOST_STORED))
            if not decompressor.eof or decompressor.unused_data:
                raise ValueError("it is longer than a transcript can be")
        except (binascii.Error, zstd.ZstdError, ValidationError) as error:
            raise ValueError(f"no transcript: {error}") from error
        found: list[Exchange] = []
        room = MOST_KEPT
        for one in kept:
            tools, before = one.tools, list[Any]()
            places = (one.after, tools if isinstance(tools, int) else -1)
            if max(places) >= len(found) or (isinstance(tools, int) and tools < 0):
                raise ValueError("no transcript: a request refers to none before it")
            if one.after >= 0:
                before = found[one.after].messages[: max(one.kept, 0)]
            room -= len(before)
            if room < 0:
                raise ValueError("no transcript: its requests have more messages than an episode")
            found.append(
                Exchange(
                    *(one.step, one.purpose, one.model, [*before, *one.messages]),
                    found[tools].tools if isinstance(tools, int) else tools,
                    *(one.tool_choice, one.answer, one.error),
                )
            )
        return found


MOST_KEPT = 1_000_000
"""The most messages that the requests of one line have in common with others: those of a
conversation of 1,000 rounds.
"""

MOST_STORED = 2 * MOST_BYTES
"""The most bytes of the requests of one line: masking makes texts longer, and ends hold more."""


@dataclass(slots=True)
class _Kept:
    step: int
    purpose: str
    model: str
    messages: list[Any]
    tools: list[Any] | int
    after: int = -1
    kept: int = 0
    tool_choice: str | None = None
    answer: dict[str, Any] | None = None
    error: str | None = None


_KEPT: TypeAdapter[list[_Kept]] = TypeAdapter(list[_Kept])


@dataclass(slots=True)
class _Request:
    head: dict[str, Any]
    messages: Sequence[bytes]
    tools: Sequence[bytes]
    completion: Completion | None


class Transcript:
    """The requests of one episode since the last `line`. `secrets` are masked in all of them."""

    def __init__(self) -> None:
        self.secrets: set[str] = set()
        self._withheld: list[bytes | str] = []
        self._begin()

    def _begin(self) -> None:
        self.size = self._slow = self._left_out = 0
        self._requests: list[_Request] = []
        self._sent: dict[int, tuple[Sequence[bytes], Sequence[bytes]]] = {}

    def __bool__(self) -> bool:
        return bool(self._requests or self._left_out)

    @property
    def is_quick(self) -> bool:
        """Whether `line` takes less than some milliseconds."""
        return self.size < QUICK_BYTES and self._slow < SLOW_BYTES and not self._withheld

    def add(
        self,
        record: ModelCallRecord,
        messages: Sequence[bytes],
        tools: Sequence[bytes],
        tool_choice: str | None,
        completion: Completion | None,
    ) -> None:
        """Keep a request, whose messages and tools are JSON, and its answer, if one came."""
        after, kept, offered = -1, 0, -1
        for place, (earlier, of_earlier) in self._sent.items():
            if (same := _alike(earlier, messages)) >= max(kept, 1):
                after, kept = place, same
            if tools and of_earlier == tools:
                offered = place
        new, own = messages[kept:], tools if offered < 0 else ()
        said, calls = 0, 0
        if completion is not None:
            said = len(completion.content) + len(completion.reasoning)
            calls = sum(len(call.arguments) for call in completion.calls)
        size = sum(map(len, new)) + sum(map(len, own)) + said + calls
        if self.size + size > MOST_BYTES:
            self._left_out += 1
            return
        self.size += size
        self._slow += calls + sum(len(text) for text in new if b'"tool_calls"' in text)
        head: dict[str, Any] = {
            "step": record.step,
            "purpose": record.purpose,
            "model": record.model,
            "after": after,
            "kept": kept,
            "tool_choice": tool_choice,
            "error": record.error,
        }
        if offered >= 0:
            head["tools"] = offered
        place = len(self._requests)
        self._requests.append(_Request(head, new, own, completion))
        before = self._sent[after][0][:kept] if kept else ()  # its bytes, so they are held once
        self._sent[place] = ([*before, *new], tools)
        self._sent.pop(place - EARLIER, None)

    def withhold(self, data: bytes | str) -> None:
        """Mask the texts and numbers of an answer, which is JSON, wherever they occur. A shortened
        table is masked cell by cell and word by word.
        """
        self._withheld.append(data)

    def line(self, episode: str, began: float, by: By) -> TranscriptLine:
        """What was kept, which is then forgotten here. It may take long where it is not
        `is_quick`, and another thread may do it.
        """
        requests, left_out = self._requests, self._left_out
        self._begin()
        for data in self._withheld:
            self.secrets.update(_texts_of(data))
        self._withheld = []
        if len(self.secrets) > MOST_SECRETS:  # masking so many would take minutes
            requests, left_out = [], left_out + len(requests)
        text = b"[" + b",".join(map(_written, requests)) + b"]"
        mask = mask_of(frozenset(self.secrets)) if requests and self.secrets else None
        if mask is not None and mask.is_in(text):
            text = orjson.dumps(mask.value(orjson.loads(text)))
        packed = base64.b64encode(zstd.compress(text, LEVEL)).decode()
        return TranscriptLine(episode, began, by, len(requests), left_out, packed)


def _texts_of(data: bytes | str) -> Iterator[str]:
    left: list[Any] = [orjson.loads(data)]
    while left:
        part = left.pop()
        if isinstance(part, dict | list):
            left += part.values() if isinstance(part, dict) else part
        elif part is not None and not isinstance(part, bool):
            text = str(part)
            pieces = {text, *_CELLS.split(text), *text.split()}
            yield from (piece for piece in pieces if len(piece) >= SECRET_CHARS)


def _written(request: _Request) -> bytes:
    """A request as JSON, without what looks like a credential among the arguments of its calls."""
    answer = None if request.completion is None else _answer(request.completion)
    messages = [
        _without_credentials(text) if b'"tool_calls"' in text else text for text in request.messages
    ]
    parts = [orjson.dumps({**request.head, "answer": answer})[:-1]]
    parts += [b',"messages":[', b",".join(messages), b"]"]
    if "tools" not in request.head:
        parts += [b',"tools":[', b",".join(request.tools), b"]"]
    return b"".join((*parts, b"}"))


def _alike(first: Sequence[bytes], second: Sequence[bytes]) -> int:
    """How many messages at the start of both are the same."""
    number = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        number += 1
    return number


def _answer(completion: Completion) -> dict[str, Any]:
    calls = [
        {"id": call.id, "name": storable(call.name), "arguments": _legible(call.arguments)}
        for call in completion.calls
    ]
    said = {
        "content": storable(completion.content),
        "reasoning": storable(completion.reasoning),
        "tool_calls": calls,
        "refusal": completion.refusal and storable(completion.refusal),
        "finish_reason": completion.finish,
    }
    return {name: value for name, value in said.items() if value}


def _without_credentials(text: bytes) -> bytes:
    """A message with calls, with what looks like a credential among their arguments masked."""
    message = orjson.loads(text)
    calls = message.get("tool_calls") if isinstance(message, dict) else None
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict) and isinstance(function.get("arguments"), str):
            function["arguments"] = _legible(function["arguments"])
    return orjson.dumps(message)


def _legible(arguments: str) -> str:
    """Arguments as text, with the values of names that look like credentials masked, also in texts
    within them.
    """
    try:
        given = orjson.loads(arguments)
        shown = _shown(masked({"arguments": given})["arguments"])
        return arguments if shown == given else orjson.dumps(shown).decode()
    except (orjson.JSONDecodeError, TypeError, RecursionError, UnicodeError):
        return masked_pairs(storable(arguments[:UNREADABLE_CHARS]))


def _shown(value: Any) -> Any:
    if isinstance(value, str):
        return masked_pairs(value) if "=" in value or ":" in value else value
    if isinstance(value, dict):
        return {name: _shown(one) for name, one in value.items()}
    return [*map(_shown, value)] if isinstance(value, list) else value


def masked_pairs(text: str) -> str:
    """A text that is no JSON, with the values of names that look like credentials masked."""
    return _PAIR.sub(_masked_pair, _QUERY.sub(_masked_pair, text))


def _masked_pair(pair: re.Match[str]) -> str:
    name = pair["name"]
    return pair[0] if masked({name: ""})[name] == "" else f"{name}: {REDACTED}"

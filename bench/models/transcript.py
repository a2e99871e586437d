"""All that went to models and came from them in an episode: its transcript.

The client of a model adds each request to the transcript of its context (`TRANSCRIPT`), if there is
one. The first messages of a request are mostly those of an earlier one, and are kept once. What
looks like a credential among the arguments of a call is masked, as in records.
"""

import base64
import binascii
import re
import sys
from collections.abc import Mapping, Sequence
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

SECRET_CHARS = 8
"""A shorter text of a withheld answer is no secret, and masking it would mask words."""

UNREADABLE_CHARS = 2_000
"""How much is kept of arguments that are not JSON."""

_VALUE = r"""("(?:\\.|[^"\\])*"?|'(?:\\.|[^'\\])*'?|(?i:(?:bearer|basic)\s+)?[^\s,{}\[\]]+)"""
_PAIR = re.compile(rf"""(["']?)\b([A-Za-z][\w-]{{0,63}})\1\s*[:=]\s*{_VALUE}""")

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
            if zstd.get_frame_info(packed).decompressed_size not in range(MOST_STORED + 1):
                raise ValueError("it is longer than a transcript can be")
            kept = _KEPT.validate_json(zstd.decompress(packed))
        except (binascii.Error, zstd.ZstdError, ValidationError) as error:
            raise ValueError(f"no transcript: {error}") from error
        found: list[Exchange] = []
        if sum(one.kept for one in kept) > MOST_KEPT:
            raise ValueError("no transcript: its requests have more messages than an episode")
        for one in kept:
            of_tools = one.tools if isinstance(one.tools, int) else 0
            if one.after >= len(found) or not 0 <= of_tools < max(len(found), 1):
                raise ValueError("no transcript: a request refers to none before it")
            if isinstance(one.tools, int) and not found:
                raise ValueError("no transcript: the first request has no tools")
            before = found[one.after].messages[: max(one.kept, 0)] if one.after >= 0 else []
            tools = found[one.tools].tools if isinstance(one.tools, int) else one.tools
            found.append(
                Exchange(
                    *(one.step, one.purpose, one.model, [*before, *one.messages], tools),
                    *(one.tool_choice, one.answer, one.error),
                )
            )
        return found


MOST_KEPT = 2_000_000
"""The most messages that the requests of one line have in common with others: a conversation of
2,000 requests.
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


class Transcript:
    """The requests of one episode since the last `line`. `secrets` are masked in all of them."""

    def __init__(self) -> None:
        self.size = 0
        self.secrets: set[str] = set()
        self._requests: list[bytes] = []
        self._sent: dict[int, tuple[Sequence[bytes], Sequence[bytes]]] = {}
        self._left_out = 0

    def __bool__(self) -> bool:
        return bool(self._requests or self._left_out)

    def add(
        self,
        record: ModelCallRecord,
        messages: Sequence[Mapping[str, Any]],
        encoded: Sequence[bytes],
        tools: Sequence[bytes],
        tool_choice: str | None,
        completion: Completion | None,
    ) -> None:
        """Keep a request, whose messages are also `encoded`, and its answer, if one came."""
        after, kept, offered = -1, 0, -1
        for place, (earlier, of_earlier) in self._sent.items():
            if (same := _alike(earlier, encoded)) >= max(kept, 1):
                after, kept = place, same
            if tools and of_earlier == tools:
                offered = place
        new = [
            _without_credentials(message, text)
            for message, text in zip(messages[kept:], encoded[kept:], strict=False)
        ]
        head: dict[str, Any] = {
            "step": record.step,
            "purpose": record.purpose,
            "model": record.model,
            "after": after,
            "kept": kept,
            "tool_choice": tool_choice,
            "answer": None if completion is None else _answer(completion),
            "error": record.error,
        }
        if offered >= 0:
            head["tools"] = offered
        parts = [orjson.dumps(head)[:-1], b',"messages":[', b",".join(new), b"]"]
        if offered < 0:
            parts += [b',"tools":[', b",".join(tools), b"]"]
        request = b"".join((*parts, b"}"))
        if self.size + len(request) > MOST_BYTES:
            self._left_out += 1
            return
        self.size += len(request)
        place = len(self._requests)
        self._requests.append(request)
        of_earlier = self._sent[after][0][:kept] if kept else []  # its bytes, so they are held once
        self._sent[place] = ([*of_earlier, *encoded[kept:]], tools)
        self._sent.pop(place - EARLIER, None)

    def withhold(self, data: bytes | str) -> None:
        """Mask the texts of an answer, which is JSON, wherever they occur. One that is a shortened
        table is masked cell by cell and word by word.
        """
        left: list[Any] = [orjson.loads(data)]
        while left:
            part = left.pop()
            if isinstance(part, str):
                pieces = {part, *_CELLS.split(part), *part.split()}
                self.secrets.update(piece for piece in pieces if len(piece) >= SECRET_CHARS)
            elif isinstance(part, dict | list):
                left += part.values() if isinstance(part, dict) else part

    def line(self, episode: str, began: float, by: By) -> TranscriptLine:
        """What was kept, which is then forgotten here. It takes 10 ms a megabyte."""
        text = b"[" + b",".join(self._requests) + b"]"
        requests, left_out = len(self._requests), self._left_out
        self._requests, self._sent, self._left_out, self.size = [], {}, 0, 0
        mask = mask_of(frozenset(self.secrets)) if self.secrets else None
        if mask is not None and mask.is_in(text):
            text = orjson.dumps(mask.value(orjson.loads(text)))
        packed = base64.b64encode(zstd.compress(text, LEVEL)).decode()
        return TranscriptLine(episode, began, by, requests, left_out, packed)


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


def _without_credentials(message: Mapping[str, Any], encoded: bytes) -> bytes:
    """A message as JSON, with what looks like a credential among arguments of its calls masked."""
    calls = message.get("tool_calls") if isinstance(message, Mapping) else None
    if not calls:
        return encoded
    message = orjson.loads(encoded)
    for call in message["tool_calls"]:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict) and isinstance(function.get("arguments"), str):
            function["arguments"] = _legible(function["arguments"])
    return orjson.dumps(message)


def _legible(arguments: str) -> str:
    """Arguments as text, with the values of names that look like credentials masked."""
    try:
        given = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return masked_pairs(storable(arguments[:UNREADABLE_CHARS]))
    if not isinstance(given, dict):
        return arguments
    shown = masked(given)
    return arguments if shown == given else orjson.dumps(shown).decode()


def masked_pairs(text: str) -> str:
    """A text that is no JSON, with the values of names that look like credentials masked."""
    return _PAIR.sub(_masked_pair, text)


def _masked_pair(pair: re.Match[str]) -> str:
    name = pair[2]
    return pair[0] if masked({name: ""})[name] == "" else f"{name}: {REDACTED}"

"""Reads what a Chat Completions endpoint sends, whole or in pieces, into a `Completion`.

The code is pure: bytes in, values out. Any bytes give a completion or a `ModelError`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

import orjson

MAX_BYTES = 16 * 2**20
"""The longest answer that is accepted: the bytes of a body, or what is kept of a stream."""

MAX_STREAM_BYTES = 2**28
"""The longest stream: an event of 300 bytes may bring four characters."""

MAX_CALLS = 1_000
MAX_NAME = 1_000

TOO_LARGE = "the model's answer is over {} bytes"
_TOO_MANY_CALLS = "the model's answer makes over {} calls"
_LONG_NAME = "the model names a tool in over {} characters"

_READ_OF_TEXT = 2**14
_KEPT_WITH_LINE = 40  # bytes that Python holds for a line beside its text


class ModelError(Exception):
    """A model gave no answer: it was unreachable, overloaded or broken off. The text goes into
    records. It is raised only after all sensible retries. `usage` is what the endpoint counted
    nevertheless.
    """

    usage: "TokenCounts | None" = None


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call as the model wrote it; `arguments` is the text, which may not be JSON."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer of a model. `finish` is its reason to stop (`stop`, `tool_calls`, `length`, ...).
    `model` is its name, as the endpoint says; None if it says none. `reasoning` are the thoughts
    that an endpoint sends beside the content (`reasoning_content`, or `reasoning`).

    The id of a call is empty if the endpoint sent none.
    """

    content: str
    calls: tuple[FunctionCall, ...] = ()
    refusal: str | None = None
    finish: str | None = None
    model: str | None = field(default=None, compare=False)
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Tokens of one request, as counted by the endpoint; 0 where it does not count them.
    `cached_tokens` are the input tokens that the endpoint had cached.
    """

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0


def read_answer(body: bytes | bytearray) -> tuple[Completion, TokenCounts]:
    """The completion in the body of a successful response. Raises `ModelError`."""
    said = _object(body)
    usage = _usage(said.get("usage"))
    try:
        return _completion(said), usage
    except ModelError as error:
        error.usage = usage
        raise


def _completion(said: dict[str, Any]) -> Completion:
    choice = _first_choice(said)
    message = choice and choice.get("message")
    if choice is None or not isinstance(message, dict):
        raise _misshapen("it holds no message of the model")
    calls = tuple(
        _call(_text(call.get("id")), call.get("function"))
        for call in _objects(message.get("tool_calls"))
    )
    _check(len(calls), MAX_CALLS, _TOO_MANY_CALLS)
    return Completion(
        _text(message.get("content")),
        calls,
        _text(message.get("refusal")) or None,
        _text(choice.get("finish_reason")) or None,
        _name(said.get("model")),
        _reasoning(message),
    )


def error_words(body: bytes | bytearray) -> str:
    """The message in the body of a failure, in any form that endpoints use; empty if none."""
    try:
        said = orjson.loads(body)
    except orjson.JSONDecodeError:
        text = body[:_READ_OF_TEXT].decode(errors="replace").strip()
        return "an HTML page" if text.startswith("<") else text
    for name in ("error", "message", "detail"):
        if isinstance(said, dict) and said.get(name):
            said = said[name]
    return said if isinstance(said, str) else orjson.dumps(said).decode() if said else ""


@dataclass(slots=True)
class _Pieces:
    """A call that is received in pieces."""

    id: str = ""
    name: str = ""
    arguments: StringIO = field(default_factory=StringIO)


class StreamedAnswer:
    """Joins server-sent events (HTML standard, section 9.2) as their bytes arrive."""

    def __init__(self) -> None:
        self.is_done = False
        """Whether the endpoint announced the end of the stream."""
        self._unread = bytearray()
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._stream_bytes = 0
        self._kept_chars = 0
        self._content, self._refusal, self._reasoning = StringIO(), StringIO(), StringIO()
        self._calls: dict[int, _Pieces] = {}
        self._places: dict[str, int] = {}
        self._last_place = -1
        self._finish: str | None = None
        self._model: str | None = None
        self.usage = TokenCounts()

    def feed(self, chunk: bytes) -> None:
        """Process the next bytes. Raises `ModelError`."""
        self._stream_bytes += len(chunk)
        _check(self._stream_bytes, MAX_STREAM_BYTES, "the model's stream is over {} bytes")
        self._unread += chunk
        if b"\n" in chunk:
            lines = bytes(self._unread).split(b"\n")
            self._unread = bytearray(lines.pop())
            for line in lines:
                self._take_line(line.removesuffix(b"\r"))
        _check(len(self._unread), MAX_BYTES, TOO_LARGE)

    def result(self) -> tuple[Completion, TokenCounts] | None:
        """The complete answer, once the stream has ended; None if it ended too early. Raises
        `ModelError`.
        """
        self.feed(b"\n\n")
        if self._finish is None:
            return None
        calls = tuple(
            _call(call.id, {"name": call.name, "arguments": call.arguments.getvalue()})
            for _, call in sorted(self._calls.items())
        )
        refusal = self._refusal.getvalue() or None
        content = self._content.getvalue()
        reasoning = self._reasoning.getvalue()
        made = Completion(content, calls, refusal, self._finish, self._model, reasoning)
        return made, self.usage

    def _take_line(self, line: bytes) -> None:
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
            self._data_bytes += len(line) + _KEPT_WITH_LINE
            _check(self._data_bytes, MAX_BYTES, TOO_LARGE)
        elif not line and self._data:
            data = b"\n".join(self._data)
            self._data, self._data_bytes = [], 0
            if data.startswith(b"[DONE]"):
                self.is_done = True
            elif not self.is_done:
                self._take_event(_object(data))

    def _take_event(self, said: dict[str, Any]) -> None:
        if said.get("usage"):
            self.usage = _usage(said["usage"])
        self._model = self._model or _name(said.get("model"))
        choice = _first_choice(said)
        if choice is None:
            return
        delta = choice.get("delta")
        if isinstance(delta, dict):
            self._keep(self._content, delta.get("content"))
            self._keep(self._refusal, delta.get("refusal"))
            self._keep(self._reasoning, _reasoning(delta))
            for piece in _objects(delta.get("tool_calls")):
                self._take_call(piece)
        self._finish = _text(choice.get("finish_reason")) or self._finish

    def _keep(self, kept: StringIO, piece: object) -> None:
        if text := _text(piece):
            kept.write(text)
            self._grow(len(text))

    def _take_call(self, piece: dict[str, Any]) -> None:
        index, id_ = piece.get("index"), _text(piece.get("id"))
        if not isinstance(index, int):  # some endpoints identify a call by its id alone
            last = self._last_place
            index = self._places.get(id_, last + 1) if id_ else max(last, 0)
        call = self._calls.get(index)
        if call is None:
            call = self._calls[index] = _Pieces()
            self._last_place = max(self._last_place, index)
            _check(len(self._calls), MAX_CALLS, _TOO_MANY_CALLS)
        if id_ and not call.id:
            call.id = id_
            self._places.setdefault(id_, index)
        function = piece.get("function") or {}
        if not isinstance(function, dict):
            raise _misshapen("no object where a function belongs")
        name, arguments = _text(function.get("name")), _arguments(function.get("arguments"))
        if name != call.name:  # some endpoints repeat the name with every piece
            call.name += name
            _check(len(call.name), MAX_NAME, _LONG_NAME)
        call.arguments.write(arguments)
        self._grow(len(name) + len(arguments) + 100)

    def _grow(self, chars: int) -> None:
        self._kept_chars += chars
        _check(self._kept_chars, MAX_BYTES, TOO_LARGE)


def _reasoning(message: dict[str, Any]) -> str:
    """The thoughts in a message or a piece of one: endpoints differ in the name of the field."""
    return _text(message.get("reasoning_content")) or _text(message.get("reasoning"))


def _check(size: int, most: int, text: str) -> None:
    if size > most:
        raise ModelError(text.format(most))


def _object(text: bytes | bytearray) -> dict[str, Any]:
    """A JSON object that does not report an error. Raises `ModelError`."""
    try:
        said = orjson.loads(text)
    except orjson.JSONDecodeError:
        words = error_words(text)
        what = f"no JSON but: {words}" if words else "an empty answer"
        raise ModelError(f"the model's endpoint sent {what}") from None
    if not isinstance(said, dict):
        raise ModelError("the model's endpoint sent JSON that is no object")
    if said.get("error"):
        raise ModelError(f"the model's endpoint sent an error: {error_words(text)}")
    return said


def _misshapen(what: str) -> ModelError:
    return ModelError(f"the model's endpoint sent no chat completion: {what}")


def _first_choice(said: dict[str, Any]) -> dict[str, Any] | None:
    """The one choice that is requested; an event of a stream may hold none. Raises `ModelError`."""
    return next(_objects(said.get("choices")), None)


def _objects(value: object) -> Iterator[dict[str, Any]]:
    """The objects in a list that may be missing. Raises `ModelError`."""
    if value is None:
        return iter(())
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise _misshapen("no list of objects where one belongs")
    return iter(value)


def _text(value: object) -> str:
    """A text that may be null. Raises `ModelError`."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _misshapen("no text where one belongs")
    return value


def _name(value: object) -> str | None:
    return value[:MAX_NAME] if isinstance(value, str) and value else None


def _arguments(value: object) -> str:
    """The arguments as text; some endpoints send an object instead."""
    return orjson.dumps(value).decode() if isinstance(value, dict) else _text(value)


def _call(id_: str, function: object) -> FunctionCall:
    name = _text(function.get("name")) if isinstance(function, dict) else ""
    if not isinstance(function, dict) or not name:
        raise _misshapen("a call without the name of a tool")
    _check(len(name), MAX_NAME, _LONG_NAME)
    return FunctionCall(id_, name, _arguments(function.get("arguments")))


def _usage(said: object) -> TokenCounts:
    if not isinstance(said, dict):
        return TokenCounts()
    details = said.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    if cached is None:
        cached = said.get("prompt_cache_hit_tokens")  # DeepSeek's name
    return TokenCounts(
        _count(said.get("prompt_tokens")), _count(cached), _count(said.get("completion_tokens"))
    )


def _count(value: object) -> int:
    return value if type(value) is int and value > 0 else 0

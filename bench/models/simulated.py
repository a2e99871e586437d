"""A simulated model behind an OpenAI-compatible endpoint, for runs without a model.

It plays scripted roles (`bench/models/simulated_roles.py`) and identifies itself: its model is
`simulated-planner`, its `system_fingerprint` is `simulated`. With a given seed the same request
always gets the same answer, except for faults. Those are drawn anew for each attempt, so that a
retry may succeed.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import astuple, dataclass, replace
from hashlib import blake2b
from typing import Any

import orjson
from aiohttp import web

from bench.models.simulated_roles import JUDGES, PLANNER, Asked, OddRequestError, Roles, Said, share
from bench.task import Task
from manifests import Catalog

MODEL = "simulated-planner"
TOO_MANY = 40
PIECES = 3
"""The number of pieces into which a stream splits a text."""

RETRY_AFTER_MS = 50
MAX_REQUEST_BYTES = 64 * 2**20
BACKLOG = 4096
REMEMBERED = 100_000
"""For how many requests the number of their attempts is kept."""

_NOT_JSON = "{'symbol': 600519, }"
_HTML = "<!doctype html><title>Just a moment...</title><p>Wait</p>"
_WITH_TOOLS = ("bad_json", "unknown_tool", "too_many_calls")
_OF_PLANNER = ("refusal", "empty", "length")
_OF_ANY = ("rate_limited", "server_error", "cut", "garbage")


@dataclass(frozen=True, slots=True)
class ModelFaults:
    """Shares of requests that go wrong; a request has at most one fault.

    Of the requests that offer tools: `bad_json` (arguments that are not JSON), `unknown_tool` and
    `too_many_calls` (40 in one round). Of the planner's: `refusal`, `empty` (nothing at all) and
    `length` (broken off in the middle). Of the judge's: `judge_invalid` (no JSON). Of all:
    `rate_limited` (429), `server_error` (500), `cut` (the connection is closed in the middle of the
    answer) and `garbage` (an HTML page). Raises `ValueError` where they are not shares of one
    whole.
    """

    bad_json: float = 0.0
    unknown_tool: float = 0.0
    refusal: float = 0.0
    empty: float = 0.0
    rate_limited: float = 0.0
    server_error: float = 0.0
    cut: float = 0.0
    garbage: float = 0.0
    too_many_calls: float = 0.0
    length: float = 0.0
    judge_invalid: float = 0.0

    def __post_init__(self) -> None:
        rates = astuple(self)
        if not all(rate >= 0 for rate in rates) or sum(rates) > 1 + 1e-9:
            raise ValueError("the rates of faults must be 0 or more, and 1 in all at most")

    def draw(self, asked: Asked, luck: float) -> str | None:
        """The fault of a request, if any; `luck` is a number from 0 to below 1."""
        names: tuple[str, ...] = _OF_ANY
        if asked.role == PLANNER:
            names += _OF_PLANNER + (_WITH_TOOLS if asked.tools else ())
        elif asked.role in JUDGES:
            names += ("judge_invalid",)
        for name in names:
            rate: float = getattr(self, name)
            if luck < rate:
                return name
            luck -= rate
        return None


class SimulatedModel:
    """A running server. `counts` says how often each role was played and each fault occurred."""

    def __init__(self, roles: Roles, seed: int, faults: ModelFaults, latency_s: float) -> None:
        self.base_url = ""
        self.counts: Counter[str] = Counter()
        self._roles = roles
        self._seed = seed
        self._faults = faults
        self._has_faults = any(astuple(faults))
        self._latency_s = latency_s
        self._refused: frozenset[str] = frozenset()
        self._came: OrderedDict[bytes, int] = OrderedDict()

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        tasks: Iterable[Task],
        catalog: Catalog,
        *,
        seed: int = 0,
        faults: ModelFaults | None = None,
        latency_s: float = 0.0,
        port: int = 0,
        refused: Collection[str] = (),
    ) -> AsyncIterator["SimulatedModel"]:
        """Serve on a port of the loopback interface, 0 for a free one; `base_url` is its URL. Each
        answer takes `latency_s`. A request with one of the fields `refused` gets the error of a
        model that takes only its default. Raises `OSError` where the port is taken.
        """
        model = cls(Roles(tasks, catalog, seed), seed, faults or ModelFaults(), latency_s)
        model._refused = frozenset(refused)
        app = web.Application(client_max_size=MAX_REQUEST_BYTES)
        app.router.add_post("/v1/chat/completions", model._answer)
        runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", port, backlog=BACKLOG).start()
            model.base_url = "http://127.0.0.1:{1}/v1".format(*runner.addresses[0])
            yield model
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        digest = blake2b(body, digest_size=8).digest()
        try:
            read = orjson.loads(body)
            asked = Asked.read(read)
            if taken := sorted(self._refused & read.keys()):
                raise OddRequestError(f"Unsupported parameter: {taken[0]!r}")
            fault = self._draw(asked, digest)
            said = self._said(asked, fault)
        except (OddRequestError, orjson.JSONDecodeError) as error:
            self.counts["odd_request"] += 1
            return _failure(400, str(error))
        self.counts[asked.role] += 1
        if fault is not None:
            self.counts[fault] += 1
        await asyncio.sleep(self._latency_s)
        match fault:
            case "rate_limited":
                return _failure(429, "simulated: too many requests")
            case "server_error":
                return _failure(500, "simulated: internal error")
            case "garbage":
                return web.Response(text=_HTML, content_type="text/html")
        completion = _Completion(said, digest.hex(), len(body))
        if read.get("stream"):
            options = read.get("stream_options")
            with_usage = isinstance(options, dict) and bool(options.get("include_usage"))
            return await _stream(request, completion.events(with_usage), fault == "cut")
        return await _send(request, orjson.dumps(completion.whole()), fault == "cut")

    def _draw(self, asked: Asked, digest: bytes) -> str | None:
        if not self._has_faults:
            return None
        attempt = self._came[digest] = self._came.get(digest, 0) + 1
        self._came.move_to_end(digest)
        if len(self._came) > REMEMBERED:
            self._came.popitem(last=False)
        return self._faults.draw(asked, share(self._seed, digest, attempt))

    def _said(self, asked: Asked, fault: str | None) -> Said:
        said = self._roles.say(asked)
        match fault:
            case "refusal":
                return Said(refusal="I can't help with that.")
            case "empty":
                return Said()
            case "judge_invalid":
                return Said("I would say that the answer is mostly right.")
            case "length":
                return _half(said)
        if fault not in _WITH_TOOLS:
            return said
        name, arguments = self._roles.any_call(asked)
        changed = {
            "bad_json": ((name, _NOT_JSON),),
            "unknown_tool": ((f"{name}_v2", arguments),),
            "too_many_calls": ((name, arguments),) * TOO_MANY,
        }
        return Said(calls=changed[fault], finish="tool_calls")


@dataclass(frozen=True, slots=True)
class _Completion:
    """A message of the model in the forms of the API; tokens are counted as bytes / 4."""

    said: Said
    id: str
    request_bytes: int

    def whole(self) -> dict[str, Any]:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": self.said.content,
            "refusal": self.said.refusal,
        }
        if self.said.calls:
            message["tool_calls"] = [self._call(n) for n in range(len(self.said.calls))]
        choice = {"index": 0, "message": message, "finish_reason": self.said.finish}
        head = self._head("chat.completion")
        return {**head, "choices": [choice | {"logprobs": None}], "usage": self._usage()}

    def events(self, with_usage: bool) -> list[bytes]:
        """The message as events of a stream."""
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
        deltas += ({"content": piece} for piece in _pieces(self.said.content or ""))
        deltas += ({"refusal": piece} for piece in _pieces(self.said.refusal or ""))
        for number, (_, arguments) in enumerate(self.said.calls):
            call = self._call(number)
            call["function"]["arguments"] = ""
            deltas.append({"tool_calls": [{"index": number, **call}]})
            for piece in _pieces(arguments):
                part = {"index": number, "function": {"arguments": piece}}
                deltas.append({"tool_calls": [part]})
        finishes = [*(None for _ in deltas), self.said.finish]
        head = self._head("chat.completion.chunk")
        events = [
            {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
            for delta, finish in zip([*deltas, {}], finishes, strict=True)
        ]
        if with_usage:
            events = [{**event, "usage": None} for event in events]
            events.append({**head, "choices": [], "usage": self._usage()})
        return [b"data: %s\n\n" % orjson.dumps(event) for event in events] + [b"data: [DONE]\n\n"]

    def _head(self, kind: str) -> dict[str, Any]:
        about = {"id": f"chatcmpl-{self.id}", "object": kind, "created": 0, "model": MODEL}
        return {**about, "system_fingerprint": "simulated"}

    def _call(self, number: int) -> dict[str, Any]:
        name, arguments = self.said.calls[number]
        function = {"name": name, "arguments": arguments}
        return {"id": f"call_{self.id}_{number}", "type": "function", "function": function}

    def _usage(self) -> dict[str, Any]:
        texts = (self.said.content or "", self.said.refusal or "", *sum(self.said.calls, ()))
        said = max(sum(len(text.encode()) for text in texts) // 4, 1)
        asked = max(self.request_bytes // 4, 1)
        tokens = {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}
        return {**tokens, "prompt_tokens_details": {"cached_tokens": 0}}


def _half(said: Said) -> Said:
    """The part of a message that a model has written when its tokens run out."""
    if said.calls:
        *whole, (name, arguments) = said.calls
        calls = (*whole, (name, arguments[: len(arguments) // 2]))
        return replace(said, calls=calls, finish="length")
    content = said.content or ""
    return replace(said, content=content[: len(content) // 2], finish="length")


def _pieces(text: str) -> list[str]:
    size = max(-(-len(text) // PIECES), 1)
    return [text[start : start + size] for start in range(0, len(text), size)]


def _failure(status: int, message: str) -> web.Response:
    error = {"message": message, "type": "simulated", "param": None, "code": None}
    headers = {"retry-after-ms": str(RETRY_AFTER_MS)} if status == 429 else None
    body = orjson.dumps({"error": error})
    return web.Response(body=body, status=status, headers=headers, content_type="application/json")


async def _send(request: web.Request, body: bytes, is_cut: bool) -> web.StreamResponse:
    if not is_cut:
        return web.Response(body=body, content_type="application/json")
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.content_length = len(body)
    await response.prepare(request)
    return await _cut(request, response, body[: len(body) // 2])


async def _stream(
    request: web.Request, events: Sequence[bytes], is_cut: bool
) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    if is_cut:
        return await _cut(request, response, b"".join(events[: len(events) // 2]))
    with suppress(ConnectionError):  # the client has gone
        for event in events:
            await response.write(event)
        await response.write_eof()
    return response


async def _cut(
    request: web.Request, response: web.StreamResponse, part: bytes
) -> web.StreamResponse:
    """Send `part` of a response and close the connection."""
    with suppress(ConnectionError):
        await response.write(part)
    if request.transport is not None:
        request.transport.close()
    return response

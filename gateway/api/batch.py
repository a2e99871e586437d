"""The batch interface: reads calls, one per line, and writes their envelopes as they complete.

Memory does not grow with the number of calls. A call is read when the queue has room, and executed
when the buffer of answers has room. A line that is not a call is answered with an error; the other
calls continue. It counts against the client's limits as a call does, and after many of them the
gateway reads no more. When the client disconnects, executions that no other caller waits for are
ended.

A stream is a request that the client keeps open in both directions. It begins without a call, and
the client may cancel single calls. Empty lines of the client are answered by an empty line, so that
each side notices when the other is gone. A gateway that drains reads no more calls, answers
those under way, and ends the stream. A call without an answer at its proper end was not made, or
ended as `overloaded` with the drain.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
from aiohttp import hdrs, web
from pydantic import Field

from gateway.access.clients import Client
from gateway.access.guard import Caller
from gateway.access.rejection import BadRequest, RequestRejected
from gateway.api.budget import NAMES, with_budget
from gateway.api.models import Call
from gateway.api.requests import MAX_BODY, is_id, read_lines
from gateway.api.rest import CallQuery, asked_for
from gateway.api.route import CALLER, JSON, routed
from gateway.api.sending import LONG, Connection, connection_of, holder_of, pieces
from gateway.call import Gateway
from gateway.context import CallContext
from gateway.errors import CallError, ErrorCode
from gateway.result import Result
from manifests.common.json_text import Repeating, read_json, read_json_aside
from manifests.common.nearest import not_among

NDJSON = "application/x-ndjson"

AT_ONCE = 64
"""Calls of one request that are executed concurrently, unless the request sets another number."""

BUFFERED = 256 * 1024
"""Bytes of answers that may be buffered before they are written."""

BREATH = 32
"""After this many calls a task yields to the event loop, even if none of the calls had to wait."""


NO_CALLS = 100
"""Lines of one request without a call, after which it waits for a share of the event loop."""

MOST_REFUSED = 1_000
"""Lines of one request that are answered as no call; then no more are read."""

CANCEL = "cancel"
"""The only name in a line of a stream that cancels the call with the id which is its value."""

_NAMES = ("id", "tool", "arguments", "timeout_s", *NAMES)
_KNOWN, _BUDGET = frozenset(_NAMES), frozenset(NAMES)

_FORM = 'a call is {"id": ..., "tool": NAME, "arguments": {...}}'

_ODD = {"description": "An element that is not a call gets an error; the other calls go on."}


class BatchQuery(CallQuery):
    """Query of `POST /v1/calls`: options that apply to all its calls."""

    concurrency: int = Field(AT_ONCE, ge=1, le=1000, description="Calls executed at once.")
    stream: bool = Field(
        False,
        description="Keep the request open in both directions: lines are calls, empty lines (which "
        'are answered by one), and `{"cancel": ID}`.',
    )


class Batch:
    """Request handler for batches of calls to one gateway. Streams end once `leaving` is set."""

    def __init__(self, gateway: Gateway, leaving: asyncio.Event) -> None:
        self._gateway = gateway
        self._leaving = leaving

    @routed(
        "POST",
        "/v1/calls",
        {NDJSON: {"type": "string"}},
        query=BatchQuery,
        body={
            NDJSON: {"type": "string"},
            JSON: {"type": "array", "items": {"anyOf": [Call.model_json_schema(), _ODD]}},
        },
        errors=(ErrorCode.TOO_LARGE,),
    )
    async def calls(self, request: web.Request) -> web.StreamResponse:
        """Make many calls; each answer is sent on a line of its own as its call completes."""
        caller: Caller = request[CALLER]
        query, context = asked_for(request, BatchQuery, caller.context)
        at_once = AT_ONCE if query is None else query.concurrency
        is_stream = query is not None and query.stream
        if is_stream and request.content_type == JSON:
            raise BadRequest(f"the lines of a stream are {NDJSON}, not {JSON}")
        lines = read_lines(request, with_empty=True) if is_stream else await _opened(request)
        response = web.StreamResponse(headers={hdrs.CACHE_CONTROL: "no-store"})
        response.content_type = NDJSON
        await response.prepare(request)
        connection = connection_of(request)
        about = self._gateway, caller, context, response, connection, at_once
        exchange = _Stream(*about, leaving=self._leaving) if is_stream else _Exchange(*about)
        if is_stream:
            await response.write(b"\n")  # aiohttp keeps the head back until something is written
        connection.ping = exchange.ping
        async with aclosing(lines):
            await exchange.run(lines)
        await response.write_eof()
        return response


@dataclass(eq=False)
class _Exchange:
    """The calls of one request and their answers. `idle` callers wait for a call."""

    gateway: Gateway
    caller: Caller
    context: CallContext
    response: web.StreamResponse
    connection: Connection
    at_once: int
    without_call: int = 0
    refused: int = 0
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    answers: bytearray = field(default_factory=bytearray)
    filled: asyncio.Event = field(default_factory=asyncio.Event)
    room: asyncio.Event = field(default_factory=asyncio.Event)
    over: bool = False
    callers: list[asyncio.Task[None]] = field(default_factory=list)
    idle: int = 0

    def __post_init__(self) -> None:
        self.queue = asyncio.Queue[tuple[int, object] | None](self.at_once)

    def ping(self) -> None:
        """Send an empty line."""
        self.answers += b"\n"
        self.filled.set()

    async def run(self, lines: AsyncGenerator[object]) -> None:
        async with asyncio.TaskGroup() as group:
            writer = group.create_task(self._write())
            await self._read(lines, group)
            for _ in self.callers:
                await self.queue.put(None)
            if self.callers:
                await asyncio.wait(self.callers)
            self.over = True
            self.filled.set()
            await writer

    async def _read(self, lines: AsyncGenerator[object], group: asyncio.TaskGroup) -> None:
        """Put calls into the queue until there are no more, and have enough callers for them."""
        number = 0
        try:
            async for line in lines:
                if self.refused >= MOST_REFUSED:
                    text = f"{MOST_REFUSED} lines of this request are no calls; no more are read"
                    raise BadRequest(text)
                call = await self._taken(line, number + 1)
                if call is None:
                    continue
                number += 1
                if self.queue.qsize() >= self.idle and len(self.callers) < self.at_once:
                    self.callers.append(group.create_task(self._call()))
                await self.queue.put((number, call))
        except RequestRejected as refusal:
            await self._say(_problem(None, refusal.error))

    async def _taken(self, line: object, number: int) -> object | None:  # noqa: ARG002
        """Return the call in a line, None if there is none. Raises `RequestRejected` if no more
        lines are to be read.
        """
        return line

    async def _call(self) -> None:
        made = 0
        while True:
            self.idle += 1
            item = await self.queue.get()
            self.idle -= 1
            if item is None:
                return
            await self._answer(*item)
            made += 1
            if made % BREATH == 0:
                await asyncio.sleep(0)

    async def _answer(self, number: int, line: object) -> None:
        """Execute one call and tell its answer."""
        id_: str | float | None = None
        place = f"call {number}"
        try:
            call = _parsed(line, place)
            id_ = _id(call, number, place)
            tool, arguments, context = _read(call, number, self.context)
        except RequestRejected as refusal:
            await self._refuse(id_, refusal.error)
            return
        client = self.caller.client
        if client is None:
            await self._tell(id_, await self.gateway.call(tool, arguments, context))
            return
        try:
            await self._wait_for_slot(client)
        except RequestRejected as refusal:
            await self._tell(id_, await self.gateway.refuse(tool, refusal.error, context))
            return
        try:
            await self._tell(id_, await self.gateway.call(tool, arguments, context))
        finally:
            client.end()

    async def _tell(self, id_: str | float, result: Result) -> None:
        """Send the answer to a call, or put it into the buffer, which has room for it then."""
        if result.view is None or len(result.view.data) < LONG:
            await self._say(b'{"id":%b,%b\n' % (orjson.dumps(id_), result.to_line()[1:]))
            return
        head, data, rest = result.parts()
        parts = b'{"id":%b,%b' % (orjson.dumps(id_), head[1:]), data, rest
        with self.connection.outbox.waiting(self.connection, parts):
            async with self.writing:
                for piece in pieces(parts):
                    await self.response.write(bytes(piece).replace(b"\n", b"\t"))
                await self.response.write(b"\n")

    async def _refuse(self, id_: str | float | None, error: CallError) -> None:
        """Answer a line that is no call."""
        self.refused += 1
        try:
            await self._count_line()
        except RequestRejected as refusal:
            error = refusal.error
        await self._say(_problem(id_, error))

    async def _count_line(self) -> None:
        """Count a line without a call as if it were one. After many, wait for a share of the event
        loop. Raises `RequestRejected` if too many wait.
        """
        if self.caller.client is not None:
            with suppress(RequestRejected):  # the line says nothing that could be refused
                await self._wait_for_slot(self.caller.client)
                self.caller.client.end()
        self.without_call += 1
        if self.without_call % NO_CALLS == 0:
            async with self.connection.no_calls.slot(holder_of(self.connection)):
                pass

    async def _wait_for_slot(self, client: Client) -> None:
        """Wait until the client's limits admit a call. Raises `RequestRejected` at the deadline."""
        most_s = self.gateway.settings.deadline_s
        try:
            async with asyncio.timeout(most_s):
                await client.wait_for_slot()
        except TimeoutError:
            text = f"this client's limits left no slot within {most_s:g} s"
            raise RequestRejected(
                CallError(ErrorCode.RATE_LIMITED, text, retry_after_s=1.0)
            ) from None

    async def _say(self, line: bytes) -> None:
        while len(self.answers) >= BUFFERED:
            self.room.clear()
            await self.room.wait()
        self.answers += line
        self.filled.set()

    async def _write(self) -> None:
        while self.answers or not self.over:
            await self.filled.wait()
            self.filled.clear()
            text, self.answers = self.answers, bytearray()
            self.room.set()
            if text:
                async with self.writing:
                    await self.response.write(text)


@dataclass(slots=True)
class _UnderWay:
    """A call of a stream that is not answered yet; `task` makes it."""

    task: asyncio.Task[Any] | None = None
    is_cancelled: bool = False


@dataclass(eq=False)
class _Stream(_Exchange):
    """The calls of a request that the client keeps open, and their answers, until the gateway is
    `leaving`. Calls `under_way` have their id as their key; a tuple of their number without one.
    """

    leaving: asyncio.Event = field(kw_only=True)
    under_way: dict[object, _UnderWay] = field(default_factory=dict)
    lines: int = 0

    async def _read(self, lines: AsyncGenerator[object], group: asyncio.TaskGroup) -> None:
        """As for other requests, but no longer than until the gateway drains."""
        reading = group.create_task(super()._read(lines, group))
        leaving = group.create_task(self.leaving.wait())
        await asyncio.wait({reading, leaving}, return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        reading.cancel()
        await asyncio.wait({reading, leaving})

    async def _taken(self, line: object, number: int) -> object | None:
        if not line:
            if self.caller.client is not None:
                self.caller.client.check_known()
            await self._say(b"\n")
            return None
        self.lines += 1
        place = f"line {self.lines}"
        try:
            call = _parsed(line, place)
            if isinstance(call, dict) and CANCEL in call:
                if len(call) > 1:
                    raise BadRequest(f'{place}: {{"cancel": ID}} stands alone on its line')
                if not self._cancel(call[CANCEL]):
                    await self._count_line()
                return None
            _id(call, number, place)
            key = _key(call, number)
            if key in self.under_way:
                raise BadRequest(f"{place}: a call with the id {key!r} is under way")
        except BadRequest as refusal:
            await self._refuse(None, refusal.error)
            return None
        self.under_way[key] = _UnderWay()
        return call

    def _cancel(self, id_: object) -> bool:
        """Cancel a call; returns whether it is under way, for it may have been answered."""
        if not is_id(id_):
            return False
        found = self.under_way.get(id_) or self.under_way.get((id_,))
        if found is None or found.is_cancelled:
            return False
        found.is_cancelled = True
        if found.task is not None:
            found.task.cancel()
        return True

    async def _answer(self, number: int, line: object) -> None:
        under_way = self.under_way[_key(line, number)]
        under_way.task = task = asyncio.current_task()
        try:
            if not under_way.is_cancelled:
                await super()._answer(number, line)
                return
        except asyncio.CancelledError:
            if task is None or not under_way.is_cancelled or task.uncancel():
                raise
        finally:
            self.under_way.pop(_key(line, number), None)
        error = CallError(ErrorCode.CANCELLED, "the client cancelled this call")
        await self._say(_problem(_id(line, number, ""), error))

    async def _tell(self, id_: str | float, result: Result) -> None:
        """As for other requests, but not of a call that ends with the drain: it was not made."""
        task = asyncio.current_task()
        key = id_ if (one := self.under_way.get(id_)) and one.task is task else (id_,)
        if self.under_way[key].is_cancelled:
            await asyncio.sleep(0)  # here it ends, and not amid its answer
        del self.under_way[key]
        is_over = result.error is not None and result.error.code is ErrorCode.OVERLOADED
        if not (is_over and self.leaving.is_set()):
            await super()._tell(id_, result)


async def _opened(request: web.Request) -> AsyncGenerator[object]:
    """Return the calls of a body, each as a line of text or a JSON value. Raises `BadRequest`."""
    lines = read_lines(request)
    first = await anext(lines, b"")
    if not first.lstrip().startswith(b"["):
        if first and request.content_type == JSON:
            raise BadRequest(f"a body of {JSON} is an array of calls; lines are {NDJSON}")
        return _chained([first] if first else [], lines)
    text = bytearray(first)
    async for line in lines:
        text += b"\n" + line  # the line break may separate two numbers
        if len(text) > MAX_BODY:
            raise BadRequest(f"an array is over {MAX_BODY} bytes", ErrorCode.TOO_LARGE)
    try:
        return _chained(await read_json_aside(text), lines)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the body is no JSON array: {error}") from None


async def _chained(calls: Iterable[object], lines: AsyncGenerator[bytes]) -> AsyncGenerator[object]:
    for call in calls:
        yield call
    async for line in lines:
        yield line


def _parsed(line: object, place: str) -> object:
    """Return the JSON value of a line. Raises `BadRequest`."""
    try:
        return read_json(line) if isinstance(line, bytes) else line
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"{place} is no JSON: {error}") from None


def _key(call: object, number: int) -> object:
    """Return what tells the call of a stream from others: a number of ours is no id of theirs."""
    id_ = call.get("id") if isinstance(call, dict) else None
    return (number,) if id_ is None else id_


def _id(call: object, number: int, place: str) -> str | float:
    """Return the call's id, or its number if it has none. Raises `BadRequest` if it is no call."""
    if not isinstance(call, dict):
        raise BadRequest(f"{_FORM}; {place} is not")
    id_: object = call.get("id")
    if id_ is None and not isinstance(call.get("tool"), str):
        raise BadRequest(f"{_FORM}; {place} has no tool")
    if id_ is None:
        return number
    if not is_id(id_):
        raise BadRequest(f"{place}: an id is a text or a whole number")
    return id_


def _read(
    call: Any, number: int, context: CallContext
) -> tuple[str, Mapping[str, Any], CallContext]:
    """Return the tool and the arguments of a call, and its options. Raises `BadRequest`."""
    if not call.keys() <= _KNOWN:
        unknown = next(name for name in call if name not in _KNOWN)
        raise BadRequest(f"call {number}: a call has no {not_among(unknown, _NAMES)}")
    if isinstance(call, Repeating):
        raise BadRequest(f"{_FORM}; call {number} has {call.repeated[0]} more than once")
    tool, arguments = call.get("tool"), call.get("arguments", {})
    if not isinstance(tool, str):
        raise BadRequest(f"{_FORM}; this one has no tool")
    if (timeout_s := call.get("timeout_s")) is not None:
        if type(timeout_s) not in (int, float) or not timeout_s > 0:
            raise BadRequest(f"call {number}: timeout_s is a number of seconds above 0")
        context = replace(context, deadline_s=timeout_s)
    if len(call) > 1 and not _BUDGET.isdisjoint(call):
        budget = {name: value for name, value in call.items() if name in _BUDGET}
        context = with_budget(context, budget, f"call {number}: ")
    return tool, arguments, context


def _problem(id_: str | float | None, error: CallError) -> bytes:
    return orjson.dumps({"id": id_, "ok": False, "error": error.to_dict()}) + b"\n"

"""A client that carries all calls of a run over a few HTTP requests that stay open.

Each of these streams is a `POST /v1/calls?stream=true`: lines with calls go out while lines with
answers come in, in the order in which the calls complete. A stream that breaks is opened again, and
its calls that have no answer are asked again, except those of tools whose calls may be made once
only. Both directions are bounded: a stream has at most `WINDOW` calls without an answer, and the
others wait in the client; its lines wait for the gateway to read them; and what comes in is read
only as fast as it is taken.
"""

import asyncio
import logging
import random
from collections import OrderedDict
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import aiohttp
import orjson

from bench.client import HttpClient, not_json, options_of, result_in
from gateway import CallContext, Result
from gateway.pipeline.bind import printable
from gateway.trace import Trace

log = logging.getLogger("finport")

STREAMS = 8
"""Streams of a client, so that several processes of one gateway get some of the calls."""

WINDOW = 512
"""Calls of a stream without an answer. Those of all streams are fewer than a gateway lets wait for
one upstream host by default (5,000).
"""

AT_ONCE = 16
"""Answers that a stream hands over in one turn of the event loop: each wakes an episode."""

OUT_BYTES = 256 * 1024
"""Bytes of lines that may wait to be sent on a stream before calls wait in the client."""

LINE_BYTES = 2**20
"""The longest line that a gateway reads. A longer call is sent as a request of its own."""

ANSWER_BYTES = 16 * 2**20
"""The longest line that is read. The call with a longer answer is made as a request of its own."""

ASKED = 5
"""How often a call is asked that was on streams which broke: it may be what breaks them."""

GRACE_S = 10.0
"""Seconds after a call's own deadline, which the gateway keeps, at which the client gives it up."""

PAUSE_S, LONGEST_PAUSE_S = 0.05, 2.0
"""The first and the longest pause before a stream is opened again; each is twice the one before."""

STEADY_S = 1.0
"""A stream that was open for so long is opened again without a growing pause."""

CLOSED = "the gateway was not asked: the client is closed"

_FALLBACK = frozenset({400, 404, 405, 406, 411, 413, 415, 501})
"""Status of servers that have no streams. A gateway before streams refuses the query."""

_REFUSED = frozenset({401, 403})
_QUERY = {"stream": "true", "concurrency": str(WINDOW)}
_HEADERS = {"Content-Type": "application/x-ndjson"}


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds for which a client waits, and uses a stream.

    A call that was sent ends without an answer after `call_s`. For `outage_s` calls wait for a
    gateway that answered before and does not now. A stream on which nothing has come for
    `silence_s` is broken, as an empty line is sent every `ping_s` and answered; a gateway ends one
    on which nothing came for 20 s. A gateway must have accepted a stream within `open_s`. Streams
    that break within `together_s` count once: a process takes all its streams along. After
    `stream_s`, a random quarter more or less, a stream takes no more calls, and another is opened:
    of several processes of a gateway, one that was started later gets its share then.
    """

    call_s: float = 300.0
    outage_s: float = 60.0
    silence_s: float = 30.0
    ping_s: float = 5.0
    open_s: float = 10.0
    together_s: float = 1.0
    stream_s: float = 60.0


@dataclass(slots=True, eq=False)
class _Asked:
    """A call that waits for its answer: the line of the gateway, a result that was made here, or
    None if the call is to be sent as a request of its own. `broken` is how often streams with this
    call broke, and `broken_at` when that was counted last.
    """

    tool: str
    arguments: Mapping[str, Any]
    context: CallContext
    answer: "asyncio.Future[bytes | Result | None]"
    id: int = 0
    stream: "_Stream | None" = None
    timer: asyncio.TimerHandle | None = None
    broken: int = 0
    broken_at: float = float("-inf")

    def line(self, id_: int) -> bytes:
        """Raises `TypeError` for arguments that are not JSON."""
        call = {"id": id_, "tool": self.tool, "arguments": self.arguments}
        return orjson.dumps({**call, **options_of(self.context)}) + b"\n"

    def end(self, answer: bytes | Result | None) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)


class WireClient(HttpClient):
    """Makes calls to a gateway at a URL over streams. Made by `WireClient.open`.

    As long as no stream could be opened yet, each call is a request of its own; `plain` says why.
    `opened_in_all` counts streams. The calls of the tools `once`, by default of all tools, are not
    asked again after a stream broke.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        base_url: str,
        trace: Trace,
        once: Collection[str] | None = None,
        patience: Patience | None = None,
    ) -> None:
        super().__init__(session, base_url, trace)
        self.plain: str | None = None
        self.opened_in_all = 0
        self.patience = patience or Patience()
        self._once = once
        self._loop = asyncio.get_running_loop()
        self._waiting: OrderedDict[_Asked, None] = OrderedDict()
        self._streams: list[_Stream] = []
        self._keepers: list[asyncio.Task[None]] = []
        self._running: set[asyncio.Task[None]] = set()
        self._has_none = False
        """Whether the gateway has no streams, so that no more are tried."""
        self._was_open = False
        self._is_closed = False
        self._heard_at = 0.0

    def counts(self) -> dict[str, Any]:
        """What `run.json` says of its calls."""
        return {
            "made": self.made,
            "unanswered": self.unanswered,
            "first_silence": self.first_silence,
            "no_streams": self.plain,
        }

    @property
    def streams(self) -> int:
        """How many streams are open."""
        return len(self._streams)

    async def _post(self, tool: str, arguments: Mapping[str, Any], context: CallContext) -> Result:
        if self._is_closed:
            return self._silence(CLOSED)
        if self.plain is not None:
            return await super()._post(tool, arguments, context)
        if not self._keepers:
            self._keepers = [asyncio.create_task(self._keep()) for _ in range(STREAMS)]
        asked = _Asked(printable(tool), arguments, context, self._loop.create_future())
        self._waiting[asked] = None
        self.pump()
        try:
            answer = await asked.answer
        except asyncio.CancelledError:
            self._forget(asked)
            raise
        finally:
            if asked.timer is not None:
                asked.timer.cancel()
        if answer is None:
            return await super()._post(tool, arguments, context)
        return answer if isinstance(answer, Result) else await self._read(answer, _result_in)

    def pump(self) -> None:
        """Put waiting calls on the streams that have room, each on the one with the fewest."""
        while self._waiting:
            stream = min(self._streams, key=_under_way, default=None)
            if stream is None or not stream.has_room:
                stream = next((other for other in self._streams if other.has_room), None)
                if stream is None:
                    return
            asked, _ = self._waiting.popitem(last=False)
            if asked.answer.done():
                continue
            if asked.timer is None:
                given_s = asked.context.deadline_s
                most_s = self.patience.call_s if given_s is None else given_s + GRACE_S
                asked.timer = self._loop.call_later(most_s, self._expire, asked, most_s)
            stream.send(asked)

    def opened(self, stream: "_Stream") -> None:
        self._was_open, self.plain = True, None
        self.opened_in_all += 1
        stream_s = self.patience.stream_s * random.uniform(0.75, 1.25)  # noqa: S311
        stream.timer = self._loop.call_later(stream_s, self._retire, stream)
        self._streams.append(stream)
        self.heard()
        self.pump()

    def heard(self) -> None:
        """Note that a gateway is there."""
        self._heard_at = self._loop.time()

    def _retire(self, stream: "_Stream") -> None:
        """Put no more calls on a stream; it ends once those under way are answered."""
        if stream in self._streams:
            self._streams.remove(stream)
            stream.retire()

    def ended(self, stream: "_Stream") -> None:
        """Ask the calls again that a stream leaves without an answer."""
        if stream.timer is not None:
            stream.timer.cancel()
        if stream in self._streams:
            self._streams.remove(stream)
        left, stream.under_way = stream.under_way, {}
        now = self._loop.time()
        for asked in reversed(left.values()):
            asked.stream = None
            if asked.answer.done():
                continue
            if not stream.is_proper and now - asked.broken_at > self.patience.together_s:
                asked.broken += 1
                asked.broken_at = now
            if self._once is None or asked.tool in self._once:
                asked.end(self._unanswered_by(f"{stream.why}, and this call is not made twice"))
            elif asked.broken >= ASKED:
                asked.end(self._unanswered_by(f"the stream of calls broke {ASKED} times"))
            else:
                self._waiting[asked] = None
                self._waiting.move_to_end(asked, last=False)
        self.pump()

    async def _keep(self) -> None:
        """Keep one stream open that takes calls."""
        pause_s = 0.0
        while not self._has_none:
            stream = _Stream(self)
            began = self._loop.time()
            running = asyncio.create_task(self._run(stream))
            self._running.add(running)
            running.add_done_callback(self._running.discard)
            await stream.over.wait()
            if stream.is_proper or self._loop.time() - began > STEADY_S:
                pause_s = 0.0
            pause_s = min(max(2 * pause_s, PAUSE_S), LONGEST_PAUSE_S)
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311

    async def _run(self, stream: "_Stream") -> None:
        """Run one stream to its end. Where it can't be opened, end the calls that wait in vain."""
        why = stream.why
        try:
            await stream.run(self._session, f"{self._base_url}/v1/calls")
        except _NoStreamError as error:
            why = str(error)
            if error.body is not None:
                for asked in self._taken_from_waiting():
                    asked.end(error.body)
            self._has_none = error.body is None and not self._was_open
        except _NotNowError as error:
            why = str(error)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            why = type(error).__name__
        except Exception as error:
            log.exception("a stream of calls failed inside the bench")
            why = type(error).__name__
        finally:
            self.ended(stream)
            stream.over.set()
        if not self._was_open:
            self.plain = why
            for asked in self._taken_from_waiting():
                asked.end(None)
        elif not self._streams and self._loop.time() - self._heard_at > self.patience.outage_s:
            for asked in self._taken_from_waiting():
                asked.end(self._unanswered_by(why))

    def _unanswered_by(self, why: str) -> Result:
        return self._silence(f"the gateway did not answer: {why}")

    def _taken_from_waiting(self) -> Iterator[_Asked]:
        while self._waiting:
            asked, _ = self._waiting.popitem(last=False)
            if not asked.answer.done():
                yield asked

    def _expire(self, asked: _Asked, most_s: float) -> None:
        if not asked.answer.done():
            asked.end(self._silence(f"the gateway did not answer within {most_s:g} s"))
            self._forget(asked)

    def _forget(self, asked: _Asked) -> None:
        self._waiting.pop(asked, None)
        if asked.stream is not None:
            asked.stream.cancel(asked)

    async def _close(self) -> None:
        if tasks := {*self._keepers, *self._running}:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        self._is_closed = True
        for asked in self._taken_from_waiting():
            asked.end(self._silence(CLOSED))


class _NotNowError(Exception):
    """A stream was not accepted; one may be later."""


class _NoStreamError(Exception):
    """A stream was not accepted, and none will be. A `body` is the answer to every call."""

    def __init__(self, text: str, body: bytes | None = None) -> None:
        super().__init__(text)
        self.body = body


class _Stream:
    """One request that stays open. Its calls are `under_way` until they are answered, also those
    that nobody waits for any more. `is_proper` says whether the gateway ended it properly, and
    `why` why it ended. It is `over` once it takes no more calls.
    """

    def __init__(self, client: WireClient) -> None:
        self.under_way: dict[int, _Asked] = {}
        self.is_proper = False
        self.why = "the stream of calls ended"
        self.over = asyncio.Event()
        self.timer: asyncio.TimerHandle | None = None
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._out = bytearray(b"\n")  # so that the head of the request is sent
        self._filled = asyncio.Event()
        self._filled.set()
        self._ids = count(1)

    @property
    def has_room(self) -> bool:
        return len(self.under_way) < WINDOW and len(self._out) < OUT_BYTES

    def send(self, asked: _Asked) -> None:
        id_ = next(self._ids)
        try:
            line = asked.line(id_)
        except TypeError as error:
            asked.end(not_json(error))
            return
        if len(line) > LINE_BYTES:
            asked.end(None)
            return
        asked.id, asked.stream = id_, self
        self.under_way[id_] = asked
        self._out += line
        self._filled.set()

    def cancel(self, asked: _Asked) -> None:
        """Tell the gateway that nobody waits for this call any more."""
        if asked.id in self.under_way:
            self._out += b'{"cancel":%d}\n' % asked.id
            self._filled.set()

    def retire(self) -> None:
        """Take no more calls, and end once those under way are answered."""
        self.over.set()
        self._filled.set()

    async def run(self, session: aiohttp.ClientSession, url: str) -> None:
        """Carry calls until the stream ends. Raises `_NoStreamError`, `_NotNowError`,
        `aiohttp.ClientError`, `OSError` (also at a time-out) and `ValueError`.
        """
        ping = asyncio.create_task(self._ping())
        try:
            async with asyncio.timeout(self._client.patience.open_s):
                response = await session.post(
                    url,
                    params=_QUERY,
                    data=self._lines(),
                    headers=_HEADERS,
                    timeout=aiohttp.ClientTimeout(sock_connect=self._client.patience.open_s),
                    allow_redirects=False,
                )
            try:
                await _check(response, self._client.patience.open_s)
                self._client.opened(self)
                await self._read(response.content)
            finally:
                response.close()  # does not wait for the lines to end, as leaving its context does
        finally:
            ping.cancel()

    async def _lines(self) -> AsyncIterator[bytes]:
        while True:
            await self._filled.wait()
            self._filled.clear()
            text, self._out = self._out, bytearray()
            if text:
                yield bytes(text)
            if self.over.is_set() and not self.under_way:
                return

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(self._client.patience.ping_s)
            if len(self._out) < OUT_BYTES:  # else much waits to be sent anyway
                self._out += b"\n"
                self._filled.set()

    async def _read(self, content: aiohttp.StreamReader) -> None:
        parts: list[bytes] = []
        size = 0
        while True:
            async with asyncio.timeout(self._client.patience.silence_s):
                chunk = await content.readany()
            if not chunk:
                self.is_proper = not size
                return
            self._client.heard()
            first, *others = chunk.split(b"\n")
            parts.append(first)
            size += len(first)
            if size > ANSWER_BYTES:
                self._too_long(parts)
                return
            if not others:
                continue
            self._answer(b"".join(parts))
            for number, line in enumerate(others[:-1], 1):
                self._answer(line)
                if number % AT_ONCE == 0:
                    await asyncio.sleep(0)
            parts, size = [others[-1]], len(others[-1])
            self._client.pump()

    def _answer(self, line: bytes) -> None:
        """Pass a line to the call that it answers; lines without such a call are passed over."""
        if line:
            asked = self.under_way.pop(_id_of(line), None)
            if asked is not None:
                asked.end(line)
            if self.over.is_set():
                self._filled.set()

    def _too_long(self, parts: list[bytes]) -> None:
        """End the call whose answer is too long, if the line says which one it is."""
        self.why = f"a line on the stream of calls is over {ANSWER_BYTES} bytes"
        asked = self.under_way.pop(_id_of(b"".join(parts)[:64]), None)
        if asked is not None:
            asked.end(None)


def _under_way(stream: _Stream) -> int:
    return len(stream.under_way)


async def _check(response: aiohttp.ClientResponse, most_s: float) -> None:
    """Raises `_NoStreamError` or `_NotNowError` unless a stream was accepted."""
    status = response.status
    if status == 200 and response.content_type == "application/x-ndjson":
        if "Content-Encoding" not in response.headers:
            return
        raise _NoStreamError("the gateway compresses its streams of calls, which was not asked for")
    if status in _REFUSED:
        async with asyncio.timeout(most_s):
            raise _NoStreamError(f"status {status}", await response.content.read(LINE_BYTES))
    if status in _FALLBACK or status < 400:
        raise _NoStreamError(f"the gateway has no streams of calls (status {status})")
    text = f"the gateway opens no stream of calls now (status {status})"
    raise _NotNowError(text)


def _id_of(line: bytes) -> int:
    """The id of the call that a line answers, -1 if it names none."""
    try:
        if line.startswith(b'{"id":'):
            return int(line[6 : line.index(b",", 6, 30)])
    except ValueError:
        pass
    try:
        answer = orjson.loads(line)
    except orjson.JSONDecodeError:
        return -1
    id_ = answer.get("id") if isinstance(answer, dict) else None
    return id_ if type(id_) is int else -1


def _result_in(line: bytes) -> Result:
    """Raises `NoGatewayError`."""
    return result_in(line, _data_in)


_BEFORE_DATA = ["id", "ok", "tool", "data"]


def _data_in(line: bytes, envelope: dict[str, Any]) -> bytes | None:
    """The data as it is in the line, with line breaks between the records of a table; None where
    it can't be told where the data ends.

    No text within JSON holds a bare quote or tab, so the first `"data":` after a number, a boolean
    and a text is the name, and what follows the data is all right if it is an object's rest.
    """
    end = line.rfind(b',"columns":')
    if end < 0 or [*envelope][:4] != _BEFORE_DATA or type(envelope["id"]) is not int:
        return None
    try:
        rest = orjson.loads(b"{" + line[end + 1 :])
    except orjson.JSONDecodeError:
        return None
    if len(rest) + len(_BEFORE_DATA) != len(envelope):
        return None
    return line[line.index(b'"data":') + 7 : end].replace(b"\t", b"\n")

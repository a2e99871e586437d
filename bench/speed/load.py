"""A load generator for keep-alive HTTP/1.1, small enough that its own cost does not dominate.

In a closed loop a connection sends its next request when the answer is complete; each is timed from
when it is sent. In an open loop requests are sent at a fixed rate, answered or not; each is timed
from when it was due, so that a server that stalls shows in the figures.
"""

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import cast
from urllib.parse import urlsplit

from bench.speed.harness import Figures, MeasurementError, until

CONNECTIONS = 64
ROUND_S = 3.0
ROUNDS = 5
WARM_UP_S = 0.5
ANSWERED_S = 60.0
TICK_S = 0.001
"""How often an open loop sends the requests that are due."""


def request(
    method: str, url: str, body: bytes = b"", headers: Mapping[str, str] = MappingProxyType({})
) -> bytes:
    """A request as it is sent."""
    parts = urlsplit(url)
    target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    own = {"Host": parts.netloc, "Content-Type": "application/json", "Accept": "*/*", **headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in own.items())
    head = f"{method} {target} HTTP/1.1\r\n{lines}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class _Connection(asyncio.Protocol):
    def __init__(self, clients: "Clients") -> None:
        self.transport: asyncio.Transport
        self._clients = clients
        self._received = bytearray()
        self._status = ""
        self._ends_at = 0
        self._owed = 0
        self._since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._clients.free(self)

    def connection_lost(self, _: Exception | None) -> None:
        self._clients.closed(self)

    def send(self, requests: list[bytes], since: float) -> None:
        self._owed, self._since = len(requests), since
        self.transport.write(b"".join(requests))

    def data_received(self, data: bytes) -> None:
        self._received += data
        while self._is_complete():
            took_s = time.perf_counter() - self._since
            self._clients.answered(self._status, self._received[: self._ends_at], took_s)
            del self._received[: self._ends_at]
            self._ends_at = 0
            self._owed -= 1
            if not self._owed:
                self._clients.free(self)

    def _is_complete(self) -> bool:
        if not self._ends_at:
            head, separator, _ = self._received.partition(b"\r\n\r\n")
            if not separator:
                return False
            self._status = head[9:12].decode()
            _, _, after = head.lower().partition(b"content-length: ")
            self._ends_at = len(head) + 4 + int(after.partition(b"\r\n")[0])
        return len(self._received) >= self._ends_at


class Clients:
    """Connections to one server, which each send `at_once` requests and wait for their answers. One
    that is lost is opened again. Made by `Clients.open`.

    A loop leaves the seconds that answers took, by status, and how many requests were `unsent`
    because no connection was free, or `lost` their connection.
    """

    def __init__(self, url: str, request: Callable[[], bytes], expected: bytes, at_once: int):
        self._begin()
        self.answers = 0
        self.first_other = ""
        """The start of the first answer that is not a 200 with what is expected in it."""
        parts = urlsplit(url)
        self._address = parts.hostname or "", parts.port or 80
        self._request, self._expected, self._at_once = request, expected, at_once
        self._every: set[_Connection] = set()
        self._free: list[_Connection] = []
        self._is_open, self._is_closed_loop = True, False
        self._opening: set[asyncio.Task[None]] = set()

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        url: str,
        request: Callable[[], bytes],
        connections: int = CONNECTIONS,
        *,
        expected: bytes = b"",
        at_once: int = 1,
    ) -> AsyncIterator["Clients"]:
        """Clients whose connections are all open. Raises `OSError`."""
        clients = cls(url, request, expected, at_once)
        try:
            for _ in range(connections):
                await clients._connect()
            yield clients
        finally:
            clients._is_open = clients._is_closed_loop = False
            for one in clients._every:
                one.transport.abort()

    def per_s(self, status: str = "200") -> float:
        """Answers a second."""
        return len(self.took_s[status]) / self.lasted_s

    def quantile_ms(self, q: float) -> float:
        """A quantile of the seconds that good answers took, in ms; 0 where there were none."""
        took_s = sorted(self.took_s["200"])
        return took_s[int(len(took_s) * q)] * 1e3 if took_s else 0.0

    async def closed_loop(self, seconds: float = math.inf, warm_up_s: float = WARM_UP_S) -> None:
        """Each connection sends its next request as soon as it is answered. What is measured begins
        when all have been answered. Raises `TimeoutError`.
        """
        self._is_closed_loop = True
        while self._free:
            self.free(self._free.pop())
        await asyncio.sleep(warm_up_s)
        async with asyncio.timeout(ANSWERED_S):
            await until(lambda: self.answers >= len(self._every))
        started = self._begin()
        await asyncio.sleep(seconds)
        self.lasted_s = time.perf_counter() - started

    async def open_loop(self, per_s: float, seconds: float, drain_s: float = 0.0) -> None:
        """Send `per_s` requests a second, answered or not; then wait at most `drain_s` for the rest
        of the answers.
        """
        started, due = self._begin(), 0
        while (passed := time.perf_counter() - started) < seconds:
            for number in range(due, int(passed * per_s)):
                if self._free:
                    self._send(self._free.pop(), started + number / per_s)
                else:
                    self.unsent += 1
            due = int(passed * per_s)
            await asyncio.sleep(TICK_S)
        self.lasted_s = time.perf_counter() - started
        end = time.perf_counter() + drain_s
        await until(lambda: len(self._free) == len(self._every) or time.perf_counter() >= end)

    def answered(self, status: str, answer: bytearray, took_s: float) -> None:
        self.answers += 1
        self.took_s[status].append(took_s)
        if (status != "200" or self._expected not in answer) and not self.first_other:
            self.first_other = answer[:400].decode(errors="replace")

    def free(self, connection: _Connection) -> None:
        """Here is a connection that waits for no answer."""
        self._every.add(connection)
        if self._is_closed_loop:
            self._send(connection, time.perf_counter())
        else:
            self._free.append(connection)

    def closed(self, connection: _Connection) -> None:
        self._every.discard(connection)
        if connection in self._free:
            self._free.remove(connection)
        if self._is_open:
            self.lost += 1
            task = asyncio.get_running_loop().create_task(self._connect())
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    def _send(self, connection: _Connection, since: float) -> None:
        connection.send([self._request() for _ in range(self._at_once)], since)

    def _begin(self) -> float:
        self.took_s: defaultdict[str, list[float]] = defaultdict(list)
        self.lasted_s, self.unsent, self.lost = 0.0, 0, 0
        return time.perf_counter()

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: _Connection(self), *self._address)


async def measured(
    url: str,
    request: Callable[[], bytes],
    seconds: float,
    connections: int = CONNECTIONS,
    expected: bytes = b"",
) -> Figures:
    """Answers a second and latencies of a closed loop in which every answer is a 200 with what is
    expected in it. Raises `MeasurementError`, `OSError` and `TimeoutError`.
    """
    async with Clients.open(url, request, connections, expected=expected) as clients:
        await clients.closed_loop(seconds)
    if clients.first_other:
        raise MeasurementError(clients.first_other)
    if not clients.per_s():
        raise MeasurementError(f"nothing was answered within {seconds:g} s")
    quantiles = {"p50_ms": clients.quantile_ms(0.5), "p99_ms": clients.quantile_ms(0.99)}
    return {"calls_per_s": clients.per_s(), **quantiles}

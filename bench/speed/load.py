"""A load generator for keep-alive HTTP/1.1, small enough that its own cost does not dominate.

Every connection has at most one call under way, and each call is timed from when it is sent. In a
closed loop a connection sends its next call when the answer is complete. In an open loop calls are
sent at a fixed rate, answered or not.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

from bench.speed.measurement import MeasurementError

WARM_UP_S = 0.5
TICK_S = 0.005
"""How often an open loop sends the calls that are due."""


@dataclass(frozen=True, slots=True)
class Load:
    """The result of a load: the seconds that answers took, by status, and how many calls were sent,
    were `unsent` because no connection was free, or `lost` their connection.
    """

    lasted_s: float
    took_s: dict[str, list[float]]
    sent: int
    unsent: int
    lost: int

    def per_s(self, status: str = "200") -> float:
        """Answers a second."""
        return len(self.took_s.get(status, ())) / self.lasted_s

    def quantile_ms(self, q: float, status: str = "200") -> float:
        """A quantile of the seconds that answers took, in ms; 0 where there were none."""
        took_s = sorted(self.took_s.get(status, ()))
        return took_s[int(len(took_s) * q)] * 1e3 if took_s else 0.0


class _Connection(asyncio.Protocol):
    def __init__(self, clients: "Clients") -> None:
        self.transport: asyncio.Transport
        self._clients = clients
        self._received = b""
        self._sent_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, _: Exception | None) -> None:
        self._clients.lost += 1

    def send(self) -> None:
        request = self._clients.next_request()
        self._sent_at = time.perf_counter()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, body = self._received.partition(b"\r\n\r\n")
        if not separator:
            return
        status = head[9:12].decode()
        if status != "200" and not self._clients.first_other:
            self._clients.first_other = self._received[:400].decode(errors="replace")
        _, _, after = head.lower().partition(b"content-length: ")
        if len(body) >= int(after.partition(b"\r\n")[0]):
            self._received = b""
            self._clients.answered(self, status, time.perf_counter() - self._sent_at)


class Clients:
    """Connections to one URL that POST the bodies from `body`. Made by `Clients.open`."""

    def __init__(self, url: str, body: Callable[[], bytes]) -> None:
        parts = urlsplit(url)
        self.lost = self._sent = 0
        self.first_other = ""
        """The start of the first answer that is not a 200."""
        self._head = (
            f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
            "Content-Type: application/json\r\nAccept: */*\r\nContent-Length: %d\r\n\r\n"
        )
        self._body = body
        self._free: list[_Connection] = []
        self._took_s: defaultdict[str, list[float]] = defaultdict(list)
        self._ask_again = False

    @classmethod
    @asynccontextmanager
    async def open(
        cls, url: str, body: Callable[[], bytes], connections: int
    ) -> AsyncIterator["Clients"]:
        """Clients whose connections are all open. Raises `OSError`."""
        clients, loop, parts = cls(url, body), asyncio.get_running_loop(), urlsplit(url)
        host, port = parts.hostname or "127.0.0.1", parts.port or 80
        opened = []
        try:
            for _ in range(connections):
                _, one = await loop.create_connection(lambda: _Connection(clients), host, port)
                opened.append(one)
            clients._free = [*opened]
            yield clients
        finally:
            clients._ask_again = False
            for one in opened:
                one.transport.abort()

    async def closed_loop(self, seconds: float, warm_up_s: float = WARM_UP_S) -> Load:
        """Each connection sends its next call as soon as it is answered."""
        self._ask_again = True
        while self._free:
            self._free.pop().send()
        await asyncio.sleep(warm_up_s)
        started = self._begin()
        await asyncio.sleep(seconds)
        return self._seen(started, unsent=0)

    async def open_loop(self, per_s: float, seconds: float) -> Load:
        """Send `per_s` calls a second, answered or not."""
        unsent, started = 0, self._begin()
        while (passed := time.perf_counter() - started) < seconds:
            for _ in range(int(passed * per_s) - self._sent - unsent):
                if self._free:
                    self._free.pop().send()
                else:
                    unsent += 1
            await asyncio.sleep(TICK_S)
        return self._seen(started, unsent)

    def next_request(self) -> bytes:
        body = self._body()
        self._sent += 1
        return (self._head % len(body)).encode() + body

    def answered(self, connection: _Connection, status: str, took_s: float) -> None:
        self._took_s[status].append(took_s)
        if self._ask_again:
            connection.send()
        else:
            self._free.append(connection)

    def _begin(self) -> float:
        self.lost = self._sent = 0
        self._took_s.clear()
        return time.perf_counter()

    def _seen(self, started: float, unsent: int) -> Load:
        lasted_s = time.perf_counter() - started
        return Load(lasted_s, dict(self._took_s), self._sent, unsent, self.lost)


async def measure(url: str, body: Callable[[], bytes], connections: int, seconds: float) -> Load:
    """The load of a closed loop in which every answer is a 200. Raises `MeasurementError`,
    `OSError`.
    """
    async with Clients.open(url, body, connections) as clients:
        load = await clients.closed_loop(seconds)
    if clients.first_other:
        raise MeasurementError(clients.first_other)
    if not load.per_s():
        raise MeasurementError(f"nothing was answered within {seconds:g} s")
    return load

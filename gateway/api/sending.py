"""Sends long bodies, and bounds the bytes of those that wait for their readers.

A long body is written in pieces, each once its client has read the one before. What answers share,
such as cached data, is sent as it is kept, so connections that send one answer share its bytes. A
client's slot is taken until the answer is sent.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from aiohttp import web
from anyio import to_thread

from adapters.fair_queue import FairQueue
from gateway.access.clients import Client
from gateway.access.loop_share import LoopShare

LONG = 2**17
"""Size in bytes from which a body is sent in pieces."""

PIECE = 2**18
"""Bytes that are written at once."""

MOST = 128 * 2**20
"""Bytes of all long bodies that wait, each counted once on however many connections it is sent."""

Body = bytes | memoryview


class Connection(Protocol):
    """The connection of a request, as the API sees it."""

    address: str
    client: Client | None
    is_known: bool
    ping: Callable[[], None] | None
    """Sends something that means nothing, within an answer that has begun."""
    outbox: "Outbox"
    """What its process has to send."""
    no_calls: LoopShare
    """The share of the event loop for lines and chunks that make no calls."""

    def know(self) -> None:
        """Note that a request may call. Raises `RequestRejected` if no place is left."""

    def hold(self) -> None:
        """Keep a slot of the request's client taken until its answer has been sent."""

    def stop_reading(self) -> None:
        """Stop reading the body of the current request."""

    def abort(self) -> None:
        """Close at once; what waits to be sent is lost."""


def connection_of(request: web.BaseRequest) -> Connection:
    return request.protocol  # type: ignore[return-value] # the server makes no others


def holder_of(connection: Connection) -> str:
    """Whose requests come on a connection: a client, or anyone at an address."""
    return connection.address if connection.client is None else connection.client.id


@dataclass(eq=False, slots=True)
class _Waiting:
    connection: Connection
    holder: str
    body: bytes


class Outbox:
    """The long bodies of a process: one at a time is made, all together wait to be read."""

    def __init__(self, most: int = MOST) -> None:
        self.bytes = 0
        self._making = FairQueue(1)  # each connection waits for one at most
        self._most = most
        self._users: dict[int, int] = {}
        self._waiting: dict[str, dict[_Waiting, None]] = {}

    @contextmanager
    def waiting(self, connection: Connection, parts: Sequence[bytes]) -> Iterator[None]:
        """Context in which a body waits. If all are too long together, the one that has waited
        longest, of the client with the most bytes, is given up with its connection.
        """
        one = _Waiting(connection, holder_of(connection), max(parts, key=len))
        self._waiting.setdefault(one.holder, {})[one] = None
        key = id(one.body)
        self._users[key] = self._users.get(key, 0) + 1
        if self._users[key] == 1:
            self.bytes += len(one.body)
        try:
            while self.bytes > self._most and len(self._users) > 1:
                heaviest = max(self._waiting.values(), key=_bytes_of)
                oldest = next(iter(heaviest))
                self._forget(oldest)
                oldest.connection.abort()
            yield
        finally:
            self._forget(one)

    async def made(self, connection: Connection, make: Callable[[], bytes]) -> bytes:
        """Return what `make` does in a thread. Clients take turns, because threads that compute
        slow the event loop down.
        """
        await self._making.take(holder_of(connection))
        try:
            return await to_thread.run_sync(make)
        finally:
            self._making.give_back()

    def _forget(self, one: _Waiting) -> None:
        mine = self._waiting.get(one.holder, {})
        if one not in mine:
            return
        del mine[one]
        if not mine:
            del self._waiting[one.holder]
        key = id(one.body)
        self._users[key] -= 1
        if not self._users[key]:
            del self._users[key]
            self.bytes -= len(one.body)


def _bytes_of(waiting: Iterable[_Waiting]) -> int:
    return sum(len(one.body) for one in waiting)


async def send(request: web.BaseRequest, parts: Sequence[bytes]) -> None:
    """Write a long body, each piece once there is room for it. Raises `ConnectionError`."""
    connection, writer = connection_of(request), request._payload_writer
    with connection.outbox.waiting(connection, parts):
        for piece in pieces(parts):
            await writer.write(piece)
            await writer.drain()


def pieces(parts: Iterable[bytes]) -> Iterator[Body]:
    """The parts of a body in pieces of at most `PIECE` bytes, without copying them."""
    for part in parts:
        if len(part) <= PIECE:
            yield part
            continue
        view = memoryview(part)
        for start in range(0, len(part), PIECE):
            yield view[start : start + PIECE]

"""A load generator for keep-alive HTTP/1.1: small enough not to be what is measured.

Each connection sends its next request as soon as an answer is complete. Any answer that is not a
200 stops the measurement.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

WARM_UP_S = 0.5


class LoadError(Exception):
    """The server did not answer 200; the text holds the start of what it sent."""


@dataclass(frozen=True, slots=True)
class Load:
    """Answers a second, and quantiles of the time that they took, in ms."""

    per_s: float
    p50_ms: float
    p99_ms: float


class _Connection(asyncio.Protocol):
    def __init__(self, head: str, body: Callable[[], bytes]) -> None:
        self.took_s: list[float] = []
        self.broken: bytes | None = None
        self._head = head
        self._body = body
        self._received = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, body = self._received.partition(b"\r\n\r\n")
        if not separator:
            return
        if not head.startswith(b"HTTP/1.1 200"):
            self.broken = self._received[:400]
            self._transport.close()
            return
        _, _, after = head.lower().partition(b"content-length: ")
        if len(body) >= int(after.partition(b"\r\n")[0]):
            self._received = b""
            self.took_s.append(time.perf_counter() - self._sent_at)
            self._send()

    def close(self) -> None:
        self._transport.close()

    def _send(self) -> None:
        body = self._body()
        self._sent_at = time.perf_counter()
        self._transport.write((self._head % len(body)).encode() + body)


async def measure(url: str, body: Callable[[], bytes], connections: int, seconds: float) -> Load:
    """Answers to POSTs of what `body` gives. Raises `LoadError`, `OSError`."""
    parts = urlsplit(url)
    head = (
        f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
        "Content-Type: application/json\r\nAccept: */*\r\nContent-Length: %d\r\n\r\n"
    )
    loop = asyncio.get_running_loop()
    host, port = parts.hostname or "127.0.0.1", parts.port or 80
    clients = [
        (await loop.create_connection(lambda: _Connection(head, body), host, port))[1]
        for _ in range(connections)
    ]
    await asyncio.sleep(WARM_UP_S)
    for client in clients:
        client.took_s.clear()
    started = time.perf_counter()
    await asyncio.sleep(seconds)
    measured_s = time.perf_counter() - started
    took_s = sorted(took for client in clients for took in client.took_s)
    for client in clients:
        client.close()
    for client in clients:
        if client.broken is not None:
            raise LoadError(client.broken.decode(errors="replace"))
    if not took_s:
        raise LoadError(f"nothing was answered within {seconds:g} s")
    middle, late = (took_s[int(len(took_s) * q)] * 1e3 for q in (0.5, 0.99))
    return Load(len(took_s) / measured_s, middle, late)

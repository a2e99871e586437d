"""A load generator for keep-alive HTTP/1.1: small enough not to be what is measured.

Each connection sends the same request again as soon as its answer is complete. Any answer that is
not a 200 stops the measurement.
"""

import asyncio
import time
from typing import cast
from urllib.parse import urlsplit

WARM_UP_S = 0.5


class LoadError(Exception):
    """The server did not answer 200; the text holds the start of what it sent."""


class _Connection(asyncio.Protocol):
    def __init__(self, request: bytes) -> None:
        self.answers = 0
        self.broken: bytes | None = None
        self._request = request
        self._received = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, body = self._received.partition(b"\r\n\r\n")
        if not separator:
            return
        if not head.startswith(b"HTTP/1.1 200"):
            self.broken = head[:200]
            self._transport.close()
            return
        _, _, after = head.lower().partition(b"content-length: ")
        if len(body) >= int(after.partition(b"\r\n")[0]):
            self._received = b""
            self.answers += 1
            self._transport.write(self._request)

    def close(self) -> None:
        self._transport.close()


async def measure(url: str, body: bytes, connections: int, seconds: float) -> float:
    """Answers a second to POSTs of `body`. Raises `LoadError`, `OSError`."""
    parts = urlsplit(url)
    request = (
        f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
        f"Content-Type: application/json\r\nAccept: */*\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body
    loop = asyncio.get_running_loop()
    host, port = parts.hostname or "127.0.0.1", parts.port or 80
    clients = [
        (await loop.create_connection(lambda: _Connection(request), host, port))[1]
        for _ in range(connections)
    ]
    await asyncio.sleep(WARM_UP_S)
    before, started = sum(client.answers for client in clients), time.perf_counter()
    await asyncio.sleep(seconds)
    rate = (sum(c.answers for c in clients) - before) / (time.perf_counter() - started)
    for client in clients:
        client.close()
    for client in clients:
        if client.broken is not None:
            raise LoadError(client.broken.decode(errors="replace"))
    return rate

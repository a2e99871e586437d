"""Upstreams on the loopback interface, and adapters that ask them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from zlib import crc32

from aiohttp import web

from adapters.fault import UpstreamFault
from adapters.rapidapi.adapter import RapidApiAdapter
from adapters.rapidapi.keys import Key, Keys
from manifests import Catalog, RapidApiBinding

SECRET = "planted-key-0451"  # noqa: S105 - no real one

COINS = "coinranking1.p.rapidapi.com"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

CONTINUE, HINTS = b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


class OneKey:
    """`Keys` with one key or none, and without limits."""

    def __init__(self, secret: str | None) -> None:
        self._key = None if secret is None else Key.of(secret)

    async def take(self, host: str, timeout_s: float) -> Key:  # noqa: ARG002 - call shape of Keys
        if self._key is None:
            raise UpstreamFault(
                "not_configured", "no RapidAPI key is set; set FINPORT_RAPIDAPI_KEYS"
            )
        return self._key

    def learn(self, host: str, key: Key, status: int, headers: Mapping[str, str]) -> None:
        pass

    def refuse(self, host: str, key: Key) -> bool:  # noqa: ARG002 - call shape of Keys
        return False

    def rest(self, host: str, key: Key, seconds: float) -> bool:  # noqa: ARG002
        return False


@asynccontextmanager
async def upstream(
    handler: Handler, *, is_cancelled: bool = False, most: int = 2**20
) -> AsyncIterator[str]:
    """A server whose every answer is made by `handler`, which is cancelled if its client goes away
    and `is_cancelled`. A body has at most `most` bytes.
    """
    app = web.Application(client_max_size=most)
    app.router.add_route("*", r"/{path:[\s\S]*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=is_cancelled)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield "http://127.0.0.1:{1}".format(*runner.addresses[0])
    finally:
        await runner.cleanup()


def adapter_for(
    catalog: Catalog,
    base_url: str,
    keys: Keys | None = None,
    credentials: Mapping[str, str] | None = None,
) -> AbstractAsyncContextManager[RapidApiAdapter]:
    """An adapter for the hosts of the catalogue; without `keys` it has one, `SECRET`."""
    return RapidApiAdapter.open(
        keys=keys or OneKey(SECRET),
        hosts={m.binding.host for m in catalog if isinstance(m.binding, RapidApiBinding)},
        base_url=base_url,
        credentials=credentials,
    )


@asynccontextmanager
async def bare_server(answer: Answer) -> AsyncIterator[str]:
    """`answer` writes what comes back to each request, until the connection ends."""
    ended: list[asyncio.Task[None]] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        current = asyncio.current_task()
        assert current is not None
        ended.append(current)
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                await answer(writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(handle, "127.0.0.1")
    try:
        yield "http://{}:{}".format(*listening.sockets[0].getsockname())
    finally:
        listening.close()
        await asyncio.wait_for(asyncio.gather(*ended), 60)


def for_ever(head: bytes) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(head * 1_000)
            await writer.drain()

    return answer


class Closing:
    """Answers one request a connection, and closes when it has read the next one."""

    def __init__(self) -> None:
        self.connections = 0
        self.read = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            self.read += 1
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n" + b'{"a":1}')
            await reader.readuntil(b"\r\n\r\n")
            self.read += 1
        writer.close()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[str]:
        async with await asyncio.start_server(self.serve, "127.0.0.1", 0) as server:
            yield "http://127.0.0.1:{1}".format(*server.sockets[0].getsockname())


async def embeddings(request: web.Request) -> web.Response:
    """An OpenAI-compatible endpoint whose vectors count hashed words."""
    asked = await request.json()
    if request.headers.get("Authorization") != "Bearer k":
        return web.Response(status=401)
    data = []
    for index, text in enumerate(asked["input"]):
        vector = [0.0] * 256
        for word in text.lower().split():
            vector[crc32(word.encode()) % 256] += 1.0
        data.append({"index": index, "object": "embedding", "embedding": vector})
    return web.json_response({"object": "list", "data": data[::-1], "model": asked["model"]})

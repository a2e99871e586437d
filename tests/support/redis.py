"""A real Redis server for tests, which skip where none is installed, and a slow way to it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from tests.support.redis_server import RedisServer, free_port, is_installed, redis_server

__all__ = ["RedisServer", "Relay", "free_port", "needs_redis", "redis_server", "relayed"]

needs_redis = pytest.mark.skipif(not is_installed(), reason="redis-server is not installed")


@dataclass
class Relay:
    """Passes on what clients and Redis say, on loopback.

    Answers come `delay_s` later, and not at all while `open` is cleared, which the word `until`
    does when a client says it. A connection over which more than `most` bytes of answers came is
    stuck for good.
    """

    url: str = ""
    delay_s: float = 0.0
    most: int = 2**62
    until: str | None = None
    open: asyncio.Event = field(default_factory=asyncio.Event)
    heard: bytearray = field(default_factory=bytearray)
    """All that clients said."""
    stuck: int = 0

    def asked(self, *words: str) -> bool:
        """Whether all these words were said to Redis."""
        return all(word.encode() in self.heard for word in words)

    async def _serve(
        self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            from_redis, to_redis = await asyncio.open_connection("127.0.0.1", port)
            async with asyncio.TaskGroup() as ways:
                ways.create_task(self._listen(reader, to_redis))
                ways.create_task(self._answer(from_redis, writer))
        except* OSError:
            pass
        finally:
            writer.close()

    async def _listen(self, reader: asyncio.StreamReader, to_redis: asyncio.StreamWriter) -> None:
        try:
            while said := await reader.read(2**16):
                self.heard += said
                if self.until is not None and self.until.encode() in said:
                    self.open.clear()
                to_redis.write(said)
                await to_redis.drain()
        finally:
            to_redis.close()

    async def _answer(self, from_redis: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        passed = 0
        while said := await from_redis.read(2**16):
            passed += len(said)
            if passed > self.most:
                self.stuck += 1
                await asyncio.Event().wait()
            await asyncio.sleep(self.delay_s)
            await self.open.wait()
            writer.write(said)
            await writer.drain()
        writer.close()


@asynccontextmanager
async def relayed(redis: RedisServer) -> AsyncIterator[Relay]:
    """A relay in front of a Redis, which passes all on at once for now."""
    relay = Relay()
    relay.open.set()
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(relay._serve(redis.port, reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    relay.url = f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"
    try:
        yield relay
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

"""A real Redis server on loopback, which tests kill, stop, empty and fill."""

import asyncio
import contextlib
import shutil
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE_S

needs_redis = pytest.mark.skipif(
    shutil.which("redis-server") is None, reason="redis-server is not installed"
)


@dataclass
class RedisServer:
    """One server, with nothing on disk: after a restart it is empty."""

    folder: Path
    port: int
    options: tuple[str, ...] = ()
    process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    async def start(self) -> None:
        self.folder.mkdir(exist_ok=True, parents=True)
        self.process = await asyncio.create_subprocess_exec(
            *("redis-server", "--port", str(self.port), "--bind", "127.0.0.1"),
            *("--save", "", "--appendonly", "no", "--dir", str(self.folder), *self.options),
            stdout=asyncio.subprocess.DEVNULL,
        )
        async with asyncio.timeout(PATIENCE_S):
            while not await self._answers():
                await asyncio.sleep(0.02)

    async def kill(self) -> None:
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()

    def pause(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    async def tell(self, *command: str) -> str:
        """What `redis-cli` answers."""
        told = await asyncio.create_subprocess_exec(
            *("redis-cli", "-p", str(self.port), *command), stdout=asyncio.subprocess.PIPE
        )
        said, _ = await told.communicate()
        return said.decode().strip()

    async def _answers(self) -> bool:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        writer.write(b"PING\r\n")
        said = await reader.readline()
        writer.close()
        return bool(said) and not said.startswith(b"-LOADING")


@asynccontextmanager
async def redis_server(folder: Path, *options: str) -> AsyncIterator[RedisServer]:
    """A server on a free port, outside the range that the system gives out."""
    server = RedisServer(folder / "redis", _free_port(), options)
    await server.start()
    try:
        yield server
    finally:
        await server.kill()


def _free_port() -> int:
    for port in range(12_000, 20_000):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("no port is free")

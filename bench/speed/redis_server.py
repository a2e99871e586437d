"""A real Redis server on loopback, which measurements and tests kill, stop, empty and fill."""

import asyncio
import contextlib
import os
import random
import shutil
import signal
import socket
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

READY_S = 30.0
TRIES = 5
PORTS = range(12_000, 20_000)
"""Outside the range from which a system chooses ports by itself."""


async def until(is_so: Callable[[], Awaitable[bool]], every_s: float = 0.01) -> None:
    """Wait until it is so; the caller sets the limit."""
    while True:
        if await is_so():
            return
        await asyncio.sleep(every_s)


def is_installed() -> bool:
    return shutil.which("redis-server") is not None


@dataclass
class RedisServer:
    """One server, with nothing on disk: after a restart it is empty."""

    folder: Path
    port: int
    options: tuple[str, ...] = ()
    process: Process | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    async def start(self) -> None:
        """Start it and wait until it answers. Raises `OSError` if another program has its port."""
        self.folder.mkdir(exist_ok=True, parents=True)
        self.process = await asyncio.create_subprocess_exec(
            *("redis-server", "--port", str(self.port), "--bind", "127.0.0.1"),
            *("--save", "", "--appendonly", "no", "--dir", str(self.folder), *self.options),
            stdout=DEVNULL,
            start_new_session=True,
        )
        async with asyncio.timeout(READY_S):
            await until(self._answers_or_ended)
        if self.process.returncode is not None:
            raise OSError(f"redis-server did not start on port {self.port}")

    async def kill(self) -> None:
        """Kill it, also while it is stopped."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()

    def pause(self) -> None:
        self._send(signal.SIGSTOP)

    def resume(self) -> None:
        self._send(signal.SIGCONT)

    async def tell(self, *command: str) -> str:
        """What `redis-cli` prints for a command."""
        told = await asyncio.create_subprocess_exec(
            *("redis-cli", "-p", str(self.port), *command), stdout=PIPE
        )
        said, _ = await told.communicate()
        return said.decode().strip()

    def cpu_s(self) -> float:
        """Processor seconds that it took since its start."""
        if self.process is None:
            return 0.0
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _send(self, number: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(number)

    async def _answers_or_ended(self) -> bool:
        """Whether this process, and not another on its port, answers, or has ended."""
        assert self.process is not None  # noqa: S101 - it was started
        if self.process.returncode is not None:
            return True
        return await self._answers() and f"process_id:{self.process.pid}" in await self.tell(
            "INFO", "server"
        )

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
    """A server on a free port."""
    server = RedisServer(folder / "redis", free_port(), options)
    for left in range(TRIES, -1, -1):
        try:
            await server.start()
            break
        except OSError:
            if not left:
                raise
            server.port = free_port()
    try:
        yield server
    finally:
        await server.kill()


def free_port() -> int:
    """A port that was free just now; others may take it meanwhile, so a start may fail."""
    for _ in range(1_000):
        port = random.choice(PORTS)  # noqa: S311 - so that programs at work together rarely meet
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise OSError(f"no port from {PORTS.start} to {PORTS.stop} is free")

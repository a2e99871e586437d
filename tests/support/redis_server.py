"""A real Redis server on loopback, which tests and `finbench speed gateways` kill and stop."""

import asyncio
import contextlib
import random
import shutil
import signal
import socket
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

READY_S = 30.0
TRIES = 6
PORTS = range(12_000, 20_000)
"""Outside the range from which a system chooses ports by itself."""


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
            while self.process.returncode is None and not await self._answers(self.process.pid):
                await asyncio.sleep(0.01)
        if self.process.returncode is not None:
            raise OSError(f"redis-server did not start on port {self.port}")

    async def kill(self) -> None:
        """Kill it, also while it is stopped."""
        self._send(signal.SIGKILL)
        if self.process is not None:
            await self.process.wait()

    def pause(self) -> None:
        self._send(signal.SIGSTOP)

    def resume(self) -> None:
        self._send(signal.SIGCONT)

    async def tell(self, *command: str) -> str:
        """What `redis-cli` prints for a command."""
        told = await asyncio.create_subprocess_exec(
            *("redis-cli", "-p", str(self.port), *command), stdout=PIPE, stderr=DEVNULL
        )
        said, _ = await told.communicate()
        return said.decode().strip()

    async def info(self, section: str) -> dict[str, str]:
        """The figures of a section of INFO; none while it does not answer."""
        lines = (await self.tell("INFO", section)).splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def _send(self, number: signal.Signals) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)

    async def _answers(self, pid: int) -> bool:
        """Whether this process answers, and not another on its port."""
        return (await self.info("server")).get("process_id") == str(pid)


@asynccontextmanager
async def redis_server(folder: Path, *options: str) -> AsyncIterator[RedisServer]:
    """A server on a free port."""
    server = RedisServer(folder / "redis", free_port(), options)
    for left in reversed(range(TRIES)):
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
        port = random.choice(PORTS)  # so that programs at work together rarely meet
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise OSError(f"no port from {PORTS.start} to {PORTS.stop} is free")

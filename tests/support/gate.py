"""A running gateway as those see it who try to get in, and what it leaves behind."""

import asyncio
import logging
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from adapters.simulator import Faults
from gateway.server.connection import Connection
from tests.support.gateways import LocalGateway
from tests.support.waiting import PATIENCE_S, until

ANSWER = re.compile(rb"(?=HTTP/\d\.\d \d{3} )")


@dataclass
class Gate:
    """A running gateway, and what was seen of it."""

    address: tuple[str, int]
    local: LocalGateway
    clients_file: Path
    trace: Path
    keys: dict[bytes, bytes]
    table: list[tuple[str, str]] = field(default_factory=list)
    seen: bytearray = field(default_factory=bytearray)
    logged: list[logging.LogRecord] = field(default_factory=list)

    def filled(self, text: bytes) -> bytes:
        """A text with keys in the places of their names."""
        for name, key in self.keys.items():
            text = text.replace(name, key)
        return text

    async def answers(self, sent: bytes, within_s: float = PATIENCE_S) -> bytes:
        """All that comes back until the connection closes."""
        async with self.connected() as (reader, writer):
            writer.write(self.filled(sent))
            return await self.rest(reader, within_s)

    async def rest(self, reader: asyncio.StreamReader, within_s: float = PATIENCE_S) -> bytes:
        came = bytearray()
        try:
            async with asyncio.timeout(within_s):
                while more := await reader.read(2**16):
                    came += more
        except ConnectionError:
            pass  # closed all the same
        self.seen += came
        return bytes(came)

    @asynccontextmanager
    async def connected(
        self, buffer: int | None = None, address: str | None = None
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        own = socket.socket()
        if buffer is not None:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        if address is not None:
            own.bind((address, 0))
        own.setblocking(False)
        await asyncio.get_running_loop().sock_connect(own, self.address)
        reader, writer = await asyncio.open_connection(sock=own, limit=2**10)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()

    def note(self, way: str, ended: str) -> None:
        self.table.append((way, ended))

    @property
    def left(self) -> int:
        """Connections that are open."""
        frames = (getattr(task.get_coro(), "cr_frame", None) for task in asyncio.all_tasks())
        return sum(isinstance(f.f_locals.get("self"), Connection) for f in frames if f is not None)

    @property
    def tracebacks(self) -> list[str]:
        return [r.getMessage() for r in self.logged if r.exc_info or r.levelno >= logging.WARNING]


class Seen(logging.Handler):
    def __init__(self, records: list[logging.LogRecord]) -> None:
        super().__init__(logging.DEBUG)
        self._records = records

    def emit(self, record: logging.LogRecord) -> None:
        self._records.append(record)


def end_of(came: bytes, ends: str) -> str:
    """How it ended, as `Way.ends` says it."""
    if not came:
        return "closed"
    ended = []
    for answer in ANSWER.split(came)[1:]:
        head, _, body = answer.partition(b"\r\n\r\n")
        code = re.search(rb'\\?"code\\?":\\?"?(-?\w+)', body)
        shown = code[1] if code else body if "{" in ends else b""
        ended.append(f"{head[9:12].decode()} {shown.decode()}".strip())
    return ", ".join(ended)


@asynccontextmanager
async def hanging(gate: Gate) -> AsyncIterator[None]:
    """Upstream answers nothing, from when no execution is under way: a refresh in the background
    that found it silent would go on until its deadline.
    """
    await until(lambda: gate.local.gateway.answers.under_way == 0)
    before = gate.local.simulator.faults
    object.__setattr__(gate.local.simulator, "faults", Faults(hang_rate=1.0))
    try:
        yield
    finally:
        object.__setattr__(gate.local.simulator, "faults", before)


def memory(peak: bool = False) -> int:
    """Bytes of this process, now or at most since it was asked for those now."""
    proc = Path("/proc/self")
    if not proc.exists():
        pytest.skip("only Linux tells")
    if not peak:
        (proc / "clear_refs").write_text("5")
    name = "VmHWM" if peak else "VmRSS"
    return int(re.findall(rf"{name}:\s+(\d+) kB", (proc / "status").read_text())[0]) * 1024

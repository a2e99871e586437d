"""MCP over standard input and output: clients of a process, and of a server in this one."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from gateway.access.guard import Caller
from gateway.api.mcp_stdio import McpStdio
from gateway.api.mcp_tools import Visitor
from tests.support.gateways import LocalGateway
from tests.support.waiting import PATIENCE_S

FINPORT_MCP = ("-m", "gateway.cli.main", "mcp", "--upstream", "simulated")


def cancel(id_: object) -> dict[str, Any]:
    params = {"requestId": id_}
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}


def lines(*messages: object) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def started(folder: Path, *options: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, *FINPORT_MCP, *options],
        env={**os.environ, "FINPORT_CACHE_DIR": str(folder), "FINPORT_DRAIN_S": "600"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@dataclass
class Pipe:
    """A client of an MCP server over pipes, both in this process."""

    local: LocalGateway
    input: int
    output: asyncio.StreamReader
    serving: "asyncio.Task[None]"

    def send(self, *messages: object) -> None:
        text = b"".join(m if isinstance(m, bytes) else lines(m) for m in messages)
        assert os.write(self.input, text) == len(text)

    async def send_all(self, text: bytes) -> None:
        """More than a pipe holds."""

        def write() -> None:
            with os.fdopen(os.dup(self.input), "wb") as end:
                end.write(text)

        await anyio.to_thread.run_sync(write)

    async def read(self) -> dict[str, Any]:
        line = await asyncio.wait_for(self.output.readline(), PATIENCE_S)
        message: dict[str, Any] = json.loads(line)
        return message

    async def read_some(self, number: int) -> dict[object, Any]:
        return {message["id"]: message for message in [await self.read() for _ in range(number)]}


@asynccontextmanager
async def opened(local: LocalGateway, visitor: Visitor | None = None) -> AsyncIterator[Pipe]:
    theirs, ours = os.pipe(), os.pipe()
    reader = asyncio.StreamReader(limit=2**22)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ours[0], "rb")
    )
    visitor = visitor or Visitor(Caller())
    server = McpStdio(local.gateway, visitor, theirs[0], ours[1])
    pipe = Pipe(local, theirs[1], reader, asyncio.create_task(server.serve()))
    try:
        yield pipe
    finally:
        os.close(theirs[1])
        await asyncio.wait({pipe.serving}, timeout=PATIENCE_S)
        assert pipe.serving.done()
        transport.close()
        for end in (theirs[0], ours[1]):
            os.close(end)
    pipe.serving.result()

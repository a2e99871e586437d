"""`finport serve` in a process of its own, and what it answers."""

import asyncio
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.waiting import PATIENCE_S

FINPORT = (sys.executable, "-P", "-m", "gateway.cli.main")

CALL = b"POST /v1/tools/get_coin HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b"


@dataclass
class Server:
    """A server's process, and where it serves."""

    process: asyncio.subprocess.Process
    url: str

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def stdin(self) -> asyncio.StreamWriter:
        assert self.process.stdin is not None
        return self.process.stdin

    def tell(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def called(self, times: int = 1) -> None:
        """Until so many calls are under way upstream, in one of its processes."""
        async with asyncio.timeout(PATIENCE_S):
            while await self._in_flight() < times:
                await asyncio.sleep(0.02)

    async def _in_flight(self) -> int:
        _, health = await asked(f"{self.url}/healthz")
        return sum(host["in_flight"] for host in health["hosts"].values())

    async def says(self, words: str) -> str:
        """The line of its log that has these words, and all lines before it are read."""
        assert self.process.stderr is not None
        async with asyncio.timeout(PATIENCE_S):
            while words not in (line := (await self.process.stderr.readline()).decode()):
                assert line, f"the server ended without {words!r}"
        return line

    async def ended(self) -> tuple[int, str]:
        """The exit code and what was written to stderr."""
        async with asyncio.timeout(PATIENCE_S):
            _, stderr = await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode, stderr.decode()


def environment(folder: Path) -> dict[str, str]:
    folder.mkdir(exist_ok=True)
    own = {
        "FINPORT_CACHE_DIR": str(folder / "cache"),
        "FINPORT_CLIENTS_FILE": str(folder / "clients.json"),
        "FINPORT_UPSTREAM": "simulated",
        "TMPDIR": str(folder),
    }
    return os.environ | own


def stalling(folder: Path) -> dict[str, str]:
    """Variables that let SIGUSR1 stall the event loop of a server for good, in code in C."""
    script = """
import signal
from pathlib import Path

def stall(*_):
    (Path(__file__).parent / "stalled").touch()
    sum(range(10**15))

signal.signal(signal.SIGUSR1, stall)
"""
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(script)
    return {"PYTHONPATH": str(folder)}


async def start(
    folder: Path, *options: str, within: Sequence[str] = (), **told: str
) -> asyncio.subprocess.Process:
    """`within` is a command that runs another, for example in a network namespace."""
    return await asyncio.create_subprocess_exec(
        *(*within, *FINPORT, "serve", "--port", "0", *options),
        env=environment(folder) | told,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


@asynccontextmanager
async def server(
    folder: Path, *options: str, within: Sequence[str] = (), **told: str
) -> AsyncIterator[Server]:
    process = await start(folder, *options, within=within, **told)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE_S):
            line = (await process.stdout.readline()).decode()
        if not line.startswith("finport ready on http://"):
            assert process.stderr is not None
            pytest.fail(f"{line}{(await process.stderr.read()).decode()}")
        yield Server(process, line.split()[-1])
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def refusal(folder: Path, *options: str, **told: str) -> tuple[int, str, str]:
    """How a server ends that does not start: exit code, stdout, stderr."""
    process = await start(folder, *options, **told)
    async with asyncio.timeout(PATIENCE_S):
        stdout, stderr = await process.communicate()
    assert process.returncode is not None
    return process.returncode, stdout.decode(), stderr.decode()


async def asked(url: str, body: object = None) -> tuple[int, Any]:
    """Status and JSON of an answer, to a POST if there is a body, over a connection of its own."""
    method = "GET" if body is None else "POST"
    async with (
        aiohttp.ClientSession() as client,
        client.request(method, url, json=body) as response,
    ):
        return response.status, await response.json()


async def said_ready(url: str) -> tuple[int, str | None]:
    """Status of `/readyz`, and the reason if the gateway is not ready."""
    status, said = await asked(f"{url}/readyz")
    return status, said.get("reason")


async def not_ready(url: str) -> None:
    """Until the gateway says that it is not ready."""
    async with asyncio.timeout(PATIENCE_S):
        while (await said_ready(url))[0] == 200:
            await asyncio.sleep(0.01)


async def answer(reader: asyncio.StreamReader) -> tuple[int, str, dict[str, Any]]:
    """Status, head and body of a whole answer. Raises `IncompleteReadError`."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = int(head.partition("content-length: ")[2].split()[0])
    return int(head.split()[1]), head, json.loads(await reader.readexactly(length))


def coin(uuid: str) -> bytes:
    body = json.dumps({"uuid": uuid}).encode()
    return CALL % (len(body), body)


def is_listening(port: int) -> bool:
    with suppress(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port)).close()
        return True
    return False


@contextmanager
def json_server(
    answer: Callable[[BaseHTTPRequestHandler], tuple[int, object] | None], port: int = 0
) -> Iterator[str]:
    """A server in a thread that answers each request with a status and JSON; None breaks off."""

    class Handler(BaseHTTPRequestHandler):
        body = b""

        def do_POST(self) -> None:
            self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if (said := answer(self)) is None:
                return
            text = json.dumps(said[1]).encode()
            self.send_response(said[0])
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.send_header("x-should-retry", "false")
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST  # noqa: N815 - the name that the base class calls

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()

"""MCP servers that tests take for upstreams: one made with the SDK, and one that says anything."""

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from finport import GatewaySettings
from tests.support.checkout import ROOT
from tests.support.waiting import until


def settings_of(folder: Path, **chosen: Any) -> GatewaySettings:
    """Of a gateway with no tools but those of its providers, which gives its breaker no time."""
    quick = {
        "catalog": "none",
        "cache_dir": folder / "cache",
        "breaker_open_s": 0.05,
        "retries": 0,
        "allow_transactional": True,
    }
    return GatewaySettings(**{**quick, **chosen})


def new_desk(folder: Path, price: object = 1.5) -> Path:
    """A folder for `tests/support/mcp_upstream.py`."""
    desk = folder / "desk"
    desk.mkdir(exist_ok=True)
    (desk / "price").write_text(json.dumps(price))
    return desk


def command_of(desk: Path) -> list[str]:
    """The program of a desk over its streams."""
    return [sys.executable, "-P", str(ROOT / "tests/support/mcp_upstream.py"), str(desk), "stdio"]


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@dataclass
class Desk:
    """A desk over HTTP, in a process that can be ended and started again."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def log(self) -> list[str]:
        file = self.folder / "log"
        return file.read_text().splitlines() if file.exists() else []

    async def start(self) -> None:
        program = [*command_of(self.folder)[:-1], "http", str(self.port)]
        self.process = subprocess.Popen(program, stderr=subprocess.DEVNULL)  # noqa: ASYNC220
        await until(self._is_there)

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def _is_there(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 0.2):
            return True
        return False


@asynccontextmanager
async def desk_over_http(folder: Path) -> AsyncIterator[Desk]:
    desk = Desk(new_desk(folder), free_port())
    try:
        await desk.start()
        yield desk
    finally:
        desk.end()


Method = Callable[[dict[str, Any]], Any]
"""Makes the result of a request of its parameters, or a response."""

HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {"listChanged": True}},
    "serverInfo": {"name": "raw", "version": "0"},
}


def entry(name: str, **fields: Any) -> dict[str, Any]:
    """An entry of `tools/list`."""
    reads = {"annotations": {"readOnlyHint": True}}
    return {"name": name, "inputSchema": {"type": "object"}, **reads, **fields}


def texts(*parts: str, **fields: Any) -> dict[str, Any]:
    """A result of `tools/call`."""
    return {"content": [{"type": "text", "text": part} for part in parts], **fields}


@dataclass
class RawServer:
    """Answers each request by its method; `seen` are the requests, and `answers` what its own
    requests were answered.
    """

    methods: dict[str, Method]
    url: str = ""
    seen: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    answers: list[dict[str, Any]] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.method != "POST":
            return web.Response(status=405)
        body = json.loads(await request.text())
        method, params = body.get("method", ""), body.get("params") or {}
        if not method:
            self.answers.append(body)
            return web.Response(status=202)
        self.seen.append((method, params))
        if "id" not in body:
            return web.Response(status=202)
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": body["id"]}
        if method not in self.methods:
            return web.json_response({**answer, "error": {"code": -32601, "message": "no method"}})
        result = self.methods[method]({**params, "_request": request, "_id": body["id"]})
        result = await result if asyncio.iscoroutine(result) else result
        if isinstance(result, web.StreamResponse):
            return result
        return web.json_response({**answer, "result": result})


@asynccontextmanager
async def raw_server(tools: list[dict[str, Any]], **methods: Method) -> AsyncIterator[RawServer]:
    """`tools_call` is the method tools/call, and so on."""
    named = {name.replace("_", "/", 1): method for name, method in methods.items()}
    server = RawServer(
        {"initialize": lambda _: HELLO, "tools/list": lambda _: {"tools": tools}, **named}
    )
    app = web.Application()
    app.router.add_route("*", "/mcp", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"
        yield server
    finally:
        await runner.cleanup()

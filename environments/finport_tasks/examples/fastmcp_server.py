"""FastMCP with the tools of some tasks, each task at a path of its own: `TOOLS.json`.

A tool looks its answer up by its arguments and does nothing else, so this is the least that a tool
server does. It imports nothing of Finport, announces its URL, and ends with its standard input.
"""

import contextlib
import json
import os
import socket
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import uvicorn
from fastmcp import FastMCP
from fastmcp.tools import Tool, ToolResult
from mcp.types import TextContent
from starlette.applications import Starlette
from starlette.routing import Mount


class Recorded(Tool):
    """A tool with recorded answers, by its arguments as JSON with sorted keys."""

    answers: dict[str, str]

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        text = self.answers[json.dumps(arguments, sort_keys=True)]
        return ToolResult(content=[TextContent(type="text", text=text)])


def app_of(tools: list[dict[str, Any]]) -> Any:
    """A server of one task: answers in JSON without sessions, which is how it is fastest."""
    server: Any = FastMCP("tools")
    for tool in tools:
        server.add_tool(Recorded(**tool))
    return server.http_app(path="/mcp", stateless_http=True, json_response=True)


def main(file: str) -> None:
    apps = {path: app_of(tools) for path, tools in json.loads(Path(file).read_bytes()).items()}

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for app in apps.values():
                await stack.enter_async_context(app.lifespan(app))
            yield

    served = Starlette(routes=[Mount(p, app) for p, app in apps.items()], lifespan=lifespan)
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    listening = socket.create_server(("127.0.0.1", 0), backlog=4096)
    print(f"fastmcp ready on http://127.0.0.1:{listening.getsockname()[1]}", flush=True)  # noqa: T201
    config = uvicorn.Config(served, loop="uvloop", log_level="critical")
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main(sys.argv[1])

"""FastMCP with a tool that returns a file's content, for `finbench speed doors`: a program.

It is run by a Python that has `fastmcp`, so it imports nothing of this project. `tuned` answers in
JSON and runs on uvloop; `installed` keeps the defaults. It ends when standard input closes.
"""

import json
import os
import socket
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any


def end_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)


def main(answer: str, how: str) -> None:
    fastmcp, uvicorn = import_module("fastmcp"), import_module("uvicorn")
    data: dict[str, Any] = json.loads(Path(answer).read_bytes())
    is_tuned = how == "tuned"
    mcp = fastmcp.FastMCP("bench")

    def call_tool(name: str, arguments: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG001
        return data

    mcp.tool(call_tool)
    threading.Thread(target=end_with_parent, daemon=True).start()
    app = mcp.http_app(stateless_http=True, json_response=is_tuned)
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    host, port = listening.getsockname()
    print(f"fastmcp ready on http://{host}:{port}", flush=True)  # noqa: T201
    with Path(os.devnull).open("w") as nowhere:
        sys.stdout = sys.stderr = nowhere
        loop = "uvloop" if is_tuned else "asyncio"
        config = uvicorn.Config(app, loop=loop, log_level="warning")
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main(*sys.argv[1:])

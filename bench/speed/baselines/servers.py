"""Servers of other projects, for `finbench speed akshare` and `doors`: a program.

It is run by a Python that has the project, so it imports nothing of this one. It serves on a free
port and ends when its standard input closes.
"""

import json
import os
import socket
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit


def aktools(origin: str) -> tuple[Any, dict[str, str]]:
    """AKTools as installed, and options of uvicorn. All that the library `requests` sends goes to
    the scheme and host of `origin`.
    """
    adapter = import_module("requests.adapters").HTTPAdapter
    upstream, send = urlsplit(origin), adapter.send

    def send_there(self: Any, request: Any, *given: Any, **named: Any) -> Any:
        request.url = urlunsplit(upstream[:2] + urlsplit(request.url)[2:])
        return send(self, request, *given, **named)

    adapter.send = send_there
    return import_module("aktools.main").app, {}


def fastmcp(answer: str, how: str) -> tuple[Any, dict[str, str]]:
    """FastMCP with a tool that returns a file's content, and options of uvicorn. `tuned` answers in
    JSON and runs on uvloop; `installed` keeps the defaults.
    """
    data: dict[str, Any] = json.loads(Path(answer).read_bytes())
    mcp = import_module("fastmcp").FastMCP("bench")

    def call_tool(name: str, arguments: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG001
        return data

    mcp.tool(call_tool)
    is_tuned = how == "tuned"
    app = mcp.http_app(stateless_http=True, json_response=is_tuned)
    return app, {"loop": "uvloop" if is_tuned else "asyncio", "log_level": "warning"}


def end_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)


def main(name: str, *arguments: str) -> None:
    app, options = globals()[name](*arguments)
    uvicorn = import_module("uvicorn")
    threading.Thread(target=end_with_parent, daemon=True).start()
    listening = socket.create_server(("127.0.0.1", 0), backlog=2_048)
    print(f"{name} ready on http://127.0.0.1:{listening.getsockname()[1]}", flush=True)  # noqa: T201
    with Path(os.devnull).open("w") as nowhere:
        sys.stdout = sys.stderr = nowhere  # it may log every call, and nobody reads the log here
        uvicorn.Server(uvicorn.Config(app, **options)).run(sockets=[listening])


if __name__ == "__main__":
    main(*sys.argv[1:])

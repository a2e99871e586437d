"""AKTools as installed, for `finbench speed akshare`: a program.

It is run by a Python that has `aktools`, so it imports nothing of this project. It replaces scheme
and host of each request to an upstream with those of the given URL. It ends when standard input
closes.
"""

import os
import socket
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit


def redirect(origin: str) -> None:
    """Send all requests of the library `requests` to `origin`."""
    adapter = import_module("requests.adapters").HTTPAdapter
    upstream, send = urlsplit(origin), adapter.send

    def send_there(self: Any, request: Any, *given: Any, **named: Any) -> Any:
        request.url = urlunsplit(upstream[:2] + urlsplit(request.url)[2:])
        return send(self, request, *given, **named)

    adapter.send = send_there


def end_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)


def main(origin: str) -> None:
    redirect(origin)
    app = import_module("aktools.main").app
    uvicorn = import_module("uvicorn")
    threading.Thread(target=end_with_parent, daemon=True).start()
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    host, port = listening.getsockname()
    print(f"aktools ready on http://{host}:{port}", flush=True)  # noqa: T201
    with Path(os.devnull).open("w") as nowhere:
        sys.stdout = sys.stderr = nowhere  # it logs every call, and nobody reads the log here
        uvicorn.Server(uvicorn.Config(app)).run(sockets=[listening])


if __name__ == "__main__":
    main(sys.argv[1])

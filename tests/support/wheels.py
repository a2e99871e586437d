"""Small wheels named as releases of AkShare, and a package index on this machine for them."""

import hashlib
import json
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

LIST_TYPE = "application/vnd.pypi.simple.v1+json"


def wheel_name(version: str) -> str:
    return f"akshare-{version}-py3-none-any.whl"


def make_wheel(folder: Path, version: str, modules: Mapping[str, str | bytes]) -> Path:
    """A wheel whose modules are files below `akshare/`, by name."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / wheel_name(version)
    metadata = f"Metadata-Version: 2.1\nName: akshare\nVersion: {version}\n"
    tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in modules.items():
            archive.writestr(f"akshare/{name}", text)
        archive.writestr(f"akshare-{version}.dist-info/METADATA", metadata)
        archive.writestr(f"akshare-{version}.dist-info/WHEEL", tags)
        archive.writestr(f"akshare-{version}.dist-info/RECORD", "")
    return path


def one_module(folder: Path, version: str, code: str, *names: str) -> Path:
    """A wheel with one module, of which the package offers these names."""
    offered = "".join(f"from akshare.tools import {name}\n" for name in names)
    return make_wheel(folder, version, {"__init__.py": offered, "tools.py": code})


def list_of(folder: Path, uploaded: Mapping[str, str]) -> bytes:
    """The list of a package index (PEP 691 and 700) with the wheels of a folder."""
    files = []
    for version, moment in uploaded.items():
        content = (folder / wheel_name(version)).read_bytes()
        files.append(
            {
                "filename": wheel_name(version),
                "url": f"/files/{wheel_name(version)}",
                "hashes": {"sha256": hashlib.sha256(content).hexdigest()},
                "size": len(content),
                "upload-time": f"{moment}T00:00:00Z",
                "yanked": False,
            }
        )
    head = {"meta": {"api-version": "1.1"}, "name": "akshare", "versions": list(uploaded)}
    return json.dumps({**head, "files": files}).encode()


@contextmanager
def package_index(
    folder: Path, listed: bytes, *, stalls: str = ""
) -> Iterator[tuple[str, list[str]]]:
    """An index that serves this list and the wheels of a folder; its URL, and what was asked. For
    the file that `stalls` it answers nothing until it is closed.
    """
    asked: list[str] = []
    closing = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            name = self.path.rpartition("/")[2]
            if name and name == stalls:
                closing.wait(60)
                self.close_connection = True
            elif self.path == "/simple/akshare/":
                self._answer(listed, LIST_TYPE)
            elif self.path.startswith("/files/") and (folder / name).is_file():
                self._answer((folder / name).read_bytes(), "application/octet-stream")
            else:
                self.send_error(404)

        def _answer(self, body: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/simple", asked
    finally:
        closing.set()
        server.shutdown()
        thread.join()
        server.server_close()

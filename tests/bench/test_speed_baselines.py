"""Baseline programs of `finbench speed` that bear the name of a library: they find the library."""

import sys
from pathlib import Path

import pytest

from bench.speed import baselines
from bench.speed.servers import server

PROGRAMS = Path(baselines.__file__).parent
LIBRARIES = {
    "fastmcp.py": """
class FastMCP:
    def __init__(self, name): pass
    def tool(self, function): pass
    def http_app(self, **how): pass
""",
    "aktools/main.py": "app = None",
    "requests/adapters.py": "class HTTPAdapter:\n    send = None",
    "uvicorn.py": """
class Config:
    def __init__(self, app, **how): pass
class Server:
    def __init__(self, config): pass
    def run(self, sockets):
        while True:
            sockets[0].accept()
""",
}


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["aktools", "fastmcp"])
async def test_a_baseline_named_like_a_library_serves_with_it(name: str, tmp_path: Path) -> None:
    for file, text in LIBRARIES.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    (tmp_path / "answer.json").write_text("{}")
    given = {"aktools": ("http://127.0.0.1:9",), "fastmcp": ("answer.json", "tuned")}[name]
    command = (sys.executable, "-P", str(PROGRAMS / f"{name}.py"), *given)
    async with server(tmp_path, *command, PYTHONPATH=str(tmp_path)) as url:
        assert url.startswith("http://127.0.0.1:")

"""What a gateway keeps is for its own user, whatever the umask."""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.commands import post, serving
from tests.support.mcp_servers import command_of, new_desk


@pytest.fixture
def umask() -> Iterator[None]:
    """None, which hides no mode that is too open."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode_of(path: Path) -> str:
    return f"{path.stat().st_mode & 0o777:04o}"


@pytest.mark.usefixtures("umask")
def test_folders_databases_and_traces_are_private(tmp_path: Path) -> None:
    trace, folder = tmp_path / "trace.jsonl", tmp_path / "new"
    desk = shlex.join(command_of(new_desk(tmp_path)))
    with serving(folder, "--trace", str(trace), "--mcp", desk) as (_, url):
        answer = post(f"{url}/v1/tools/get_coin", b'{"uuid":"Qwsogvtv82FCd"}')
        assert answer["ok"], answer
        kept = [*(folder / "cache").rglob("*")]
        modes = {f"{path.relative_to(folder)}": mode_of(path) for path in kept if path.exists()}
        folders = [folder, folder / "cache", *(path for path in kept if path.is_dir())]
        assert {mode_of(path) for path in folders} == {"0700"}, modes
        assert folder / "cache" / "providers" in folders
        of_sqlite = {
            name: mode for name, mode in modes.items() if "sqlite" in name or ".db" in name
        }
        assert {"sqlite", "sqlite-wal", "sqlite-shm"} <= {name.split(".")[-1] for name in of_sqlite}
        assert {*of_sqlite.values()} == {"0600"}, of_sqlite
        assert mode_of(trace) == "0600"


def test_a_trace_that_exists_keeps_its_mode(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.touch()
    trace.chmod(0o640)
    with serving(tmp_path, "--trace", str(trace)) as (_, url):
        post(f"{url}/v1/tools/get_coin", b'{"uuid":"Qwsogvtv82FCd"}')
    assert mode_of(trace) == "0640"
    assert trace.read_bytes().count(b"\n") == 1

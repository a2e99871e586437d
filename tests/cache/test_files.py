"""Files that take the place of others, cut off at every step."""

import json
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.cli.main import main as finport
from manifests.catalog import DATA, read, text_of
from manifests.common.files import new_file, output_file, own_file, replaced_file
from manifests.common.regular_file import open_regular

KILLED_AT = """
import os, signal, sys
from pathlib import Path
def hook(event, arguments):
    global left
    if event in ("os.rename", "os.link", "os.mkdir", "shutil.rmtree", "ctypes.call_function"):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
for left, _ in enumerate(sys.stdin):
    if (child := os.fork()) == 0:
        sys.addaudithook(hook)
        work()
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
A_FILE = """
from manifests.common.files import replaced_file
def work():
    with replaced_file(Path("out")) as file:
        file.write(b"new")
"""
A_FOLDER = """
from bench.exports.target import new_folder
def work():
    with new_folder(Path("out"), lambda file: file.suffix == ".json", force=True) as folder:
        folder.joinpath("b.json").write_text("new")
"""


def bind_socket(name: str) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(name)


def steps(work: str) -> Iterator[int]:
    """Does it again and again, each time killed one step later, until it ends by itself."""
    command = [sys.executable, "-c", work + KILLED_AT]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for step in range(20):
            process.stdin.write("on\n")
            process.stdin.flush()
            status = int(process.stdout.readline())
            assert status in (0, -9)
            yield step
            if status == 0:
                return
    pytest.fail("it never ended by itself")


def test_a_file_is_the_old_or_the_new_one_wherever_it_is_cut_off() -> None:
    Path("out").write_text("old")
    for _ in steps(A_FILE):
        seen = Path("out").read_text()
        assert seen in ("old", "new")
    assert seen == "new"


def test_a_folder_is_the_old_or_the_new_one_wherever_it_is_cut_off() -> None:
    Path("out").mkdir()
    Path("out/a.json").write_text("old")
    for _ in steps(A_FOLDER):
        seen = {file.name: file.read_text() for file in Path("out").iterdir()}
        assert seen in ({"a.json": "old"}, {"b.json": "new"})
    assert seen == {"b.json": "new"}
    assert os.listdir() == ["out"]


def test_a_file_keeps_its_mode_and_a_link_stays_one() -> None:
    Path("out").write_text("old")
    Path("out").chmod(0o640)
    Path("link").symlink_to("out")
    with replaced_file(Path("link"), follow_links=True) as file:
        file.write(b"new")
    assert Path("link").is_symlink()
    assert (Path("out").read_text(), Path("out").stat().st_mode & 0o777) == ("new", 0o640)
    with replaced_file(Path("fresh")) as file:
        file.write(b"new")
    umask = os.umask(0)
    os.umask(umask)
    assert Path("fresh").stat().st_mode & 0o777 == 0o666 & ~umask


def test_a_link_that_nobody_named_is_not_followed() -> None:
    Path("theirs").write_text("theirs")
    Path("link").symlink_to("theirs")
    Path("dangling").symlink_to("nowhere")
    for name in ("link", "dangling"):
        with pytest.raises(OSError, match="symbolic link"), replaced_file(Path(name)) as file:
            file.write(b"new")
        with pytest.raises(OSError, match="symbolic link"):
            own_file(name, os.O_WRONLY | os.O_APPEND)
    assert Path("theirs").read_text() == "theirs"
    assert sorted(os.listdir()) == ["dangling", "link", "theirs"]


def test_a_file_with_another_name_is_not_appended_to() -> None:
    Path("mine").write_text("mine")
    os.link("mine", "copy")
    with pytest.raises(OSError, match=r"another name too \(a hard link\)"):
        own_file("copy", os.O_WRONLY | os.O_APPEND)
    with replaced_file(Path("copy")) as file:
        file.write(b"new")
    assert (Path("mine").read_text(), Path("copy").read_text()) == ("mine", "new")


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, bind_socket])
def test_only_a_regular_file_is_opened_and_no_open_waits(make: Callable[[str], None]) -> None:
    make("in")
    with pytest.raises(OSError, match="it is not a regular file"):
        open_regular(Path("in"))


def test_an_output_replaces_only_with_force_and_its_folder_is_made() -> None:
    def write(out: str, *, force: bool) -> None:
        with output_file(Path(out), force=force) as file:
            file.write(b"new")

    write("a/b/out", force=False)
    Path("old").write_text("old")
    Path("link").symlink_to("old")
    Path("dangling").symlink_to("nowhere")
    for out in ("old", "link", "dangling", "a/b/out"):
        with pytest.raises(FileExistsError, match="it exists already; --force replaces it"):
            write(out, force=False)
    assert Path("old").read_text() == "old"
    write("link", force=True)
    assert (Path("link").is_symlink(), Path("old").read_text()) == (True, "new")
    with pytest.raises(OSError, match="it is a folder; name a file"):
        write("a", force=True)


def test_a_file_that_has_secrets_is_nobody_elses_at_any_time() -> None:
    Path("out").write_text("old")
    Path("out").chmod(0o644)
    with replaced_file(Path("out"), 0o600, synced=False) as file:
        assert Path(file.name).stat().st_mode & 0o777 == 0o600
        file.write(b"new")
    assert (Path("out").read_text(), Path("out").stat().st_mode & 0o777) == ("new", 0o600)


def test_a_new_file_takes_nobodys_name() -> None:
    def write() -> None:
        with new_file(Path("out")) as file:
            file.write(b"mine")
            Path("out").write_text("theirs")

    with pytest.raises(FileExistsError):
        write()
    assert (Path("out").read_text(), os.listdir()) == ("theirs", ["out"])


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_is_not_replaced(make: object) -> None:
    make("out")  # type: ignore[operator]
    with pytest.raises(OSError, match=r"out"), replaced_file(Path("out")) as file:
        file.write(b"new")
    assert not Path("out").is_file()


@contextmanager
def full_disk(left: int = 1000) -> Iterator[None]:
    """No file can be written beyond so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (left, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_manifests_that_a_full_disk_does_not_take_stay_as_they_were() -> None:
    export = ["manifests", "export", "--format", "openai", "--out", "tools.json", "--force"]
    assert CliRunner().invoke(finport, export).exit_code == 0
    whole = Path("tools.json").read_bytes()
    with full_disk():
        refused = CliRunner().invoke(finport, export)
    assert (refused.exit_code, "File too large" in refused.output) == (1, True)
    assert Path("tools.json").read_bytes() == whole
    assert os.listdir() == ["tools.json"]


def test_manifests_whose_writing_was_cut_off_lose_nothing_and_it_goes_on() -> None:
    small, large = Path("m/amac.json"), Path("m/fund.json")
    small.parent.mkdir()
    standard = {file: text_of(read(DATA / "akshare" / file.name)) for file in (small, large)}
    for file, text in standard.items():
        file.write_text(json.dumps(json.loads(text)))
    before = large.read_bytes()
    with full_disk(len(standard[small].encode()) + 100):
        refused = CliRunner().invoke(finport, ["manifests", "format", "m"])
    assert (refused.exit_code, "File too large" in refused.output) == (1, True)
    assert (small.read_text(), large.read_bytes()) == (standard[small], before)
    assert CliRunner().invoke(finport, ["manifests", "format", "m"]).exit_code == 0
    assert {file: file.read_text() for file in standard} == standard

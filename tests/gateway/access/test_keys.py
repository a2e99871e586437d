"""Keys as they are kept: their file, what is written and what can be read of it."""

import json
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gateway.access import keys
from gateway.access.keys import KeyRefused
from gateway.settings import SettingsError

PLANTED = "planted-client-key-0815"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "own" / "clients.json"


def test_a_name_is_free_again_once_revoked_and_an_id_revokes_too(file: Path) -> None:
    _, first = keys.add(file, "bob")
    with pytest.raises(KeyRefused, match="a client named bob has a key already"):
        keys.add(file, "bob")
    assert keys.revoke(file, first.id).name == "bob"
    _, second = keys.add(file, "bob")
    assert [entry.revoked_at is None for entry in keys.read(file)] == [False, True]
    assert keys.revoke(file, "bob").id == second.id
    for gone in ("bob", first.id, "nobody"):
        with pytest.raises(KeyRefused, match=r"no key in .* has this name or id"):
            keys.revoke(file, gone)


def test_the_file_is_its_owner_s_and_a_link_to_it_stays(file: Path, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        keys.add(file, "bob")
    finally:
        os.umask(before)
    link = tmp_path / "link.json"
    link.symlink_to(file)
    keys.add(link, "carol")
    assert link.is_symlink()
    assert [entry.name for entry in keys.read(file)] == ["bob", "carol"]
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in (file.parent, *file.parent.iterdir())}
    assert modes == {"own": 0o700, "clients.json": 0o600, ".clients.json.lock": 0o600}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "Invalid JSON: EOF while parsing a value at line 1 column 0"),
        (b"\xff", "Invalid JSON: "),
        (b"[]", "Input should be an object"),
        (b'{"clients": [], "planted-client-key-0815": 1}', "Extra inputs are not permitted"),
        (b'{"clients": [{"key": "planted-client-key-0815"}]}', "Field required at clients.0.id"),
    ],
)
def test_a_file_that_can_t_be_read_is_named_with_the_reason(
    file: Path, text: bytes, reason: str
) -> None:
    file.parent.mkdir()
    file.write_bytes(text)
    for use in (
        lambda: keys.read(file),
        lambda: keys.add(file, "bob"),
        lambda: keys.revoke(file, "bob"),
    ):
        with pytest.raises(SettingsError) as error:
            use()
        assert str(error.value).startswith(f"clients file {file}: {reason}")
        assert PLANTED not in str(error.value)
    assert file.read_bytes() == text, "what can't be read is not replaced"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"id": "00000000"}, "an id is the first 8 digits of its sha256 at clients.0"),
        ({"sha256": PLANTED}, "String should match pattern"),
        ({"tools": f"names:x;{PLANTED}"}, "it selects no tools at clients.0.tools"),
        ({"name": f"{PLANTED} {PLANTED}"}, keys.NAME_FORM),
        ({PLANTED: 1}, "Extra inputs are not permitted at clients.0"),
        ({}, "two clients have one id"),
    ],
)
def test_an_entry_that_was_spoilt_is_named_without_what_it_holds(
    file: Path, change: dict[str, Any], reason: str
) -> None:
    keys.add(file, "bob")
    (kept,) = json.loads(file.read_bytes())["clients"]
    spoilt = [{**kept, **change}] if change else [kept, kept]
    file.write_text("\ufeff" + json.dumps({"clients": spoilt}))
    with pytest.raises(SettingsError) as error:
        keys.read(file)
    assert reason in str(error.value)
    assert PLANTED not in str(error.value)


def test_a_full_disk_loses_no_key(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys.add(file, "bob")
    before = file.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SettingsError, match="can't be written: No space left on device"):
        keys.add(file, "carol")
    assert file.read_bytes() == before
    assert {path.name for path in file.parent.iterdir()} == {"clients.json", ".clients.json.lock"}


KILLED = """
import os, sys
from pathlib import Path
from gateway.access import keys
step = sys.argv[2]
def die(*_):
    os._exit(9)
setattr(os, step, die)
keys.add(Path(sys.argv[1]), "carol")
"""


def test_a_kill_between_the_steps_of_writing_loses_no_key(file: Path) -> None:
    keys.add(file, "bob")
    before = file.read_bytes()
    steps = ("fchown", "fsync", "replace")
    running = [subprocess.Popen([sys.executable, "-c", KILLED, str(file), step]) for step in steps]
    assert [process.wait(30) for process in running] == [9, 9, 9]
    assert file.read_bytes() == before
    keys.add(file, "dave")
    assert [entry.name for entry in keys.read(file)] == ["bob", "dave"]


def test_keys_made_at_the_same_time_are_all_kept(file: Path) -> None:
    names = [f"client-{number}" for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda name: keys.add(file, name), names))
    assert sorted(entry.name for entry in keys.read(file)) == sorted(names)
    assert {entry.sha256 for entry in keys.read(file)} == {keys.digest_of(key) for key, _ in made}

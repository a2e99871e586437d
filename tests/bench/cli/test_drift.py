"""`finbench drift akshare`, as a user runs it, over wheels in a cache folder."""

import json
import re
import signal
import subprocess
import sys
from html import unescape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.support.checkout import ROOT
from tests.support.commands import FINBENCH, finbench, finbench_on_a_full_disk
from tests.support.wheels import list_of, make_wheel, package_index, wheel_name

OURS = ("stock_zh_a_hist", "index_detail_cni", "bond_zh_us_rate")
DATES = {"1.16.9": "2026-01-01", "1.16.10": "2026-01-31", "1.17.0": "2026-03-02"}

HOSTILE = "<script>alert(1)</script>\u202egpj"


pytestmark = pytest.mark.usefixtures("no_index")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Three releases: a function of the catalogue goes in each, and one of others comes."""
    folder = tmp_path / "wheels"
    for number, version in enumerate(DATES):
        names = [*OURS[number:], *(f"other_{n}" for n in range(number + 1))]
        code = "".join(f"def {name}(a={number}): ...\n" for name in names)
        column = HOSTILE if number else "old"
        code += f"\ndef {OURS[2]}():\n    t.columns = [{column!r}]\n    return t\n"
        offered = f"from akshare.tools import {', '.join(names)}\n"
        make_wheel(folder, version, {"__init__.py": offered, "tools.py": code})
    (folder / "releases.json").write_bytes(list_of(folder, DATES))
    return folder


def drift(cache: Path, *words: str) -> Any:
    return finbench("drift", "akshare", "--cache", str(cache), *words)


def content(cache: Path, *words: str) -> dict[str, Any]:
    done = drift(cache, *words, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_findings_have_the_form_that_all_drift_commands_share(cache: Path) -> None:
    findings = content(cache, "1.16.9", "1.17.0")["findings"]
    keys = ["id", "tool", "host", "check", "level", "column", "before", "after", "text"]
    assert all(list(finding)[:9] == keys for finding in findings)
    assert [(f["check"], f["tool"], f["level"], f["catalogued"]) for f in findings] == [
        ("column_removed", OURS[2], "ERR", True),
        ("function_removed", OURS[1], "ERR", True),
        ("function_removed", OURS[0], "ERR", True),
        ("default_changed", "other_0", "WARN", False),
        ("column_added", OURS[2], "INFO", True),
        ("function_added", "other_1", "INFO", False),
        ("function_added", "other_2", "INFO", False),
    ]
    ours = content(cache, "1.16.9", "1.17.0", "--catalogue")["findings"]
    assert ours == [finding for finding in findings if finding["catalogued"]]


def test_several_releases_give_a_history_and_survival_in_days(cache: Path) -> None:
    found = content(cache, "1.17.0", "1.16.9", "1.16.10")
    rows = found["releases"]
    assert [row["version"] for row in rows] == list(DATES)
    assert [row["time"] for row in rows] == [0, 30, 60]
    assert [row["gone"] for row in rows] == [[], [OURS[0]], [OURS[1]]]
    assert [row["new"] for row in rows] == [[], ["other_1"], ["other_2"]]
    assert [len(row["missing"]) for row in rows] == [496, 497, 498]
    assert rows[1]["parameters_changed"] == [OURS[1], "other_0"]
    assert found["unit"] == "days"
    curve = found["survival"]["catalogue"]
    assert [(step["time"], step["at_risk"]) for step in curve["steps"]] == [(30, 3), (60, 2)]
    assert curve["ended"] == sorted(OURS[:2])
    (gone,) = [f for f in found["findings"] if f["tool"] == OURS[0]]
    assert gone["text"] == "the function is gone since 1.16.10; 1.16.9 still had it"


def test_without_upload_times_releases_are_counted(cache: Path) -> None:
    (cache / "releases.json").unlink()
    found = content(cache, *DATES)
    assert found["unit"] == "releases"
    assert [row["time"] for row in found["releases"]] == [0, 1, 2]


def test_the_terminal_names_what_is_missing_and_the_progress_is_on_stderr(cache: Path) -> None:
    done = drift(cache, *DATES)
    assert done.returncode == 0
    assert "missing in 1.17.0: " in done.stdout
    assert "survival, catalogue: 33.3% of 3 functions" in done.stdout
    assert "reading akshare 1.16.9: 1 of 3\n" in done.stderr
    assert re.search(r"reading akshare 1\.16\.10: 2 of 3, about \d+ s left", done.stderr)
    assert "\u202e" not in done.stdout


def test_fail_on_decides_the_exit_code(cache: Path) -> None:
    for version, default in (("1.16.10", 1), ("1.17.0", 2)):
        make_wheel(cache, version, {"__init__.py": f"def other(a={default}): ...\n"})
    words = ("1.16.10", "1.17.0", "--fail-on")
    assert drift(cache, *words, "ERR").returncode == 0
    failed = drift(cache, *words, "WARN")
    assert (failed.returncode, "at level WARN or worse: 1" in failed.stderr) == (1, True)
    assert drift(cache, *words, "WARN", "--catalogue").returncode == 0


def test_the_page_is_self_contained_and_holds_no_markup_of_others(
    cache: Path, tmp_path: Path
) -> None:
    page = tmp_path / "drift.html"
    assert drift(cache, *DATES, "--html", str(page)).returncode == 0
    text = page.read_text()
    assert "default-src 'none'; style-src 'sha256-" in unescape(text)
    assert not re.search(r"<script|\b(src|href)=\"(?!#)|url\(|@import", text)
    assert "&lt;script&gt;" in text
    assert "\u202e" not in text
    assert text.count("<svg") == 1
    for name in OURS[:2]:
        assert name.replace("_", "_<wbr>") in text


def test_refreshing_writes_data_and_a_picture(cache: Path, tmp_path: Path) -> None:
    out = tmp_path / "docs"
    assert drift(cache, *DATES, "--out", str(out)).returncode == 0
    data = json.loads((out / "akshare.json").read_text())
    assert all(finding["catalogued"] for finding in data["findings"])
    assert len(data["releases"]) == 3
    picture = ElementTree.parse(out / "akshare.svg").getroot()  # noqa: S314 - written by us
    assert "33.3% of 3" in (picture.get("aria-label") or "")

    again = drift(cache, *DATES, "--out", str(out))
    assert (again.returncode, "reading" in again.stderr) == (1, False), "said before the work"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["1.16.9"], "name two releases or more, or give --releases"),
        ([], "name two releases or more, or give --releases"),
        (["1.16.9", "1.16.9"], "a release is named twice"),
        (["1.16.9", "newest"], "'newest' is no release; write one as 1.19.5"),
        (["1.16.9", "1.17.0", "1.16.10", "--releases", "3"], "name OLD and NEW, or no release"),
        (["1.16.9", "1.17.0", "--releases", "1"], "is not in the range"),
    ],
)
def test_wrong_use_is_said(cache: Path, words: list[str], said: str) -> None:
    done = drift(cache, *words)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_release_that_is_no_wheel_fails_with_its_name(cache: Path) -> None:
    (cache / wheel_name("1.17.0")).write_bytes(b"<html>not found</html>")
    (cache / "releases.json").write_bytes(list_of(cache, DATES))
    done = drift(cache, "1.16.9", "1.17.0")
    assert done.returncode == 1
    assert f"{wheel_name('1.17.0')}: not a wheel" in done.stderr


def test_what_could_not_be_read_is_said(cache: Path) -> None:
    modules = {"__init__.py": "from akshare.a import f\nfrom akshare.b import g", "a.py": "def"}
    make_wheel(cache, "1.17.0", {**modules, "b.py": "def g(): ..."})
    (cache / "releases.json").write_bytes(list_of(cache, DATES))
    done = drift(cache, "1.16.10", "1.17.0")
    assert done.returncode == 0
    assert "not read of 1.17.0: akshare/a.py" in done.stdout


def test_ctrl_c_keeps_what_was_fetched(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = (cache / "releases.json").read_bytes()
    (cache / wheel_name("1.17.0")).unlink()
    kept = tmp_path / "kept"
    with package_index(cache, listed, stalls=wheel_name("1.17.0")) as (url, _):
        monkeypatch.setenv("PIP_INDEX_URL", url)
        command = [*FINBENCH, "drift", "akshare", "--cache", str(kept), "1.16.10", "1.17.0"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        assert "1 of 2" in process.stderr.readline()
        assert "2 of 2" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said == "finbench: interrupted; the cache keeps what was fetched\n"
    assert sorted(path.name for path in kept.iterdir()) == [wheel_name("1.16.10"), "releases.json"]


BETWEEN = """
import os, signal, subprocess
from bench.drift import releases

class Popen(subprocess.Popen):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        made.append(self)
        os.kill(os.getpid(), signal.SIGINT)

made = []
releases.subprocess.Popen = Popen
try:
    releases._pip("download", "--help")
except KeyboardInterrupt:
    print(made[0].poll() is not None)
"""


def test_a_pip_that_is_just_started_at_ctrl_c_does_not_go_on() -> None:
    command = [sys.executable, "-c", BETWEEN]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_a_cache_on_a_full_disk_is_named(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "empty"
    words = ["drift", "akshare", "1.16.9", "1.17.0", "--cache", str(folder)]
    with package_index(cache, list_of(cache, DATES)) as (url, _):
        monkeypatch.setenv("PIP_INDEX_URL", url)
        done = finbench_on_a_full_disk(100, *words)
    assert (done.returncode, done.stderr) == (1, f"Error: {folder}: File too large\n")

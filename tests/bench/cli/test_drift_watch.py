"""`finbench drift watch`, as a user runs it."""

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cache import Snapshot
from tests.support.checkout import ROOT
from tests.support.commands import FINBENCH, finbench, finbench_begun
from tests.support.processes import is_running
from tests.support.servers import json_server
from tests.support.waiting import block_until

COINS = "coinranking1.p.rapidapi.com"

WATCH = ("drift", "watch", "--keep", "w", "--upstream", "simulated", "--tools")
TOOLS = "get_coin,stock_get_financials"

Record = Callable[..., str]

TIME = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ"


def watch(*words: str, every: str = "1s", count: int = 1) -> subprocess.CompletedProcess[str]:
    return finbench(*WATCH, TOOLS, "--every", every, "--count", str(count), *words)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "w").mkdir()
    return tmp_path / "w"


def snapshots(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("20*Z.snapshot"))


def compared(folder: Path) -> list[tuple[str, str]]:
    """The pairs in drift.jsonl, each line of which is whole."""
    lines = (folder / "drift.jsonl").read_text().splitlines(keepends=True)
    assert all(line.endswith("\n") for line in lines)
    contents: list[dict[str, Any]] = [json.loads(line) for line in lines]
    return [(content["before"]["file"], content["after"]["file"]) for content in contents]


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """Puts the snapshot of a day into a folder, as of an earlier watch, and gives its name. What a
    seed answers is recorded once.
    """

    @cache
    def of(seed: str) -> Path:
        path = tmp_path_factory.mktemp("recorded") / "s.snapshot"
        simulated = ("--upstream", "simulated", "--simulated-seed", seed, "--tools", TOOLS)
        done = finbench("drift", "record", "--out", str(path), *simulated)
        assert done.returncode == 0, done.stderr
        return path

    def put(folder: Path, day: int, seed: str = "0") -> str:
        name = f"2026-11-0{day}T000000Z.snapshot"
        shutil.copy(of(seed), folder / name)
        return name

    return put


def test_each_snapshot_is_compared_with_the_one_before_and_drift_is_found(folder: Path) -> None:
    done = watch(count=2)
    assert done.returncode == 0
    names = snapshots(folder)
    assert compared(folder) == [(names[0], names[1])]
    lines = done.stdout.splitlines()
    assert all(re.match(TIME, line) for line in lines)
    assert lines[0].endswith(f" {names[0]}: 2 calls (ok 2)")
    assert lines[2].endswith(f" {names[0]} to {names[1]}: nothing was found")

    changed = watch("--simulated-seed", "4")
    assert changed.returncode == 0
    assert compared(folder) == [*pairwise(snapshots(folder))]
    line = json.loads((folder / "drift.jsonl").read_text().splitlines()[-1])
    counts = ", ".join(f"{c['level']} {c['check']} {c['findings']}" for c in line["counts"])
    assert line["findings"]
    assert f"{line['before']['file']} to {line['after']['file']}: {counts}\n" in changed.stdout


def test_a_folder_is_kept_by_one_watch(folder: Path) -> None:
    with (folder / ".watch.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = watch()
    assert (done.returncode, "another watch keeps it" in done.stderr) == (1, True)
    assert snapshots(folder) == []


def test_foreign_files_stay_as_they_are(folder: Path) -> None:
    names = ("README", "mine.snapshot", "mine.snapshot.journal", "2026-99-01T000000Z.snapshot")
    for name in names:
        (folder / name).write_text("mine")
    (folder / "more.snapshot").mkdir()
    done = watch(count=2)
    assert (done.returncode, len(snapshots(folder))) == (0, 3)
    assert [(folder / name).read_text() for name in names] == ["mine"] * 4
    assert len(compared(folder)) == 1


def test_a_damaged_snapshot_is_told_and_the_one_before_it_is_compared(
    folder: Path, record: Record
) -> None:
    whole, damaged = record(folder, 1), "2026-11-02T000000Z.snapshot"
    (folder / damaged).write_text("damaged")
    done = watch()
    assert done.returncode == 0
    assert f"is not compared with {damaged}: w/{damaged} is no snapshot" in done.stderr
    (pair,) = compared(folder)
    assert pair[0] == whole


def test_an_interrupted_recording_is_finished_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FINPORT_HOSTS", json.dumps({COINS: {"per_day": 1}}))
    coins = json.dumps({"tool": "get_coin", "arguments": {"uuid": "a"}})
    others = json.dumps({"tool": "get_coin", "arguments": {"uuid": "b"}})
    Path("calls.jsonl").write_text(f"{coins}\n{others}\n")
    name = "2026-11-01T000000Z.snapshot"
    calls = ("--calls", "calls.jsonl", "--upstream", "simulated")
    assert finbench("drift", "record", "--out", f"w/{name}", *calls).returncode == 1
    monkeypatch.delenv("FINPORT_HOSTS")
    watched = ("drift", "watch", "--keep", "w", "--every", "1d", "--count", "2", *calls)
    done = finbench(*watched)
    assert done.returncode == 0
    assert f" going on with {name}\n" in done.stderr
    assert " 1 call is recorded already\n" in done.stderr
    first, second = snapshots(folder)
    assert first == name, "the day of the first is over, so the second was due"
    assert compared(folder) == [(first, second)]


def test_a_recording_that_cannot_go_on_is_left_alone_and_the_next_one_is_made(
    folder: Path,
) -> None:
    journal = folder / "2026-11-01T000000Z.snapshot.journal"
    journal.write_text("mine")
    done = watch(count=2)
    assert done.returncode == 1, "a recording failed"
    assert f"{journal.relative_to(folder.parent)} is no journal of a recording" in done.stderr
    assert journal.read_text() == "mine"
    assert len(snapshots(folder)) == 1


def test_a_comparison_that_was_cut_off_is_made_again(folder: Path, record: Record) -> None:
    for day in (1, 2, 3):
        record(folder, day)
    assert watch().returncode == 0
    names = snapshots(folder)
    assert compared(folder) == [(names[1], names[2]), (names[2], names[3])]
    text = (folder / "drift.jsonl").read_bytes()
    (folder / "drift.jsonl").write_bytes(text[:-9])
    assert watch().returncode == 0
    again = snapshots(folder)
    assert compared(folder) == [*pairwise(again[1:])]


def test_a_file_in_place_of_comparisons_that_are_read_is_told(folder: Path, record: Record) -> None:
    record(folder, 1)
    record(folder, 2)
    (folder / "drift.jsonl").write_text("mine\n")
    done = watch()
    assert done.returncode == 0
    assert "w/drift.jsonl:1: it is no comparison of snapshots" in done.stderr
    lines = (folder / "drift.jsonl").read_text().splitlines()
    assert (lines[0], len(lines)) == ("mine", 2)


def test_a_comparison_that_cannot_be_written_is_told(folder: Path, record: Record) -> None:
    record(folder, 1)
    (folder / "elsewhere").write_text("mine")
    (folder / "drift.jsonl").symlink_to(folder / "elsewhere")
    done = watch()
    assert done.returncode == 1
    assert "w/drift.jsonl: it is a symbolic link, which is not followed here" in done.stderr
    assert "Z.snapshot: nothing was found" in done.stdout
    assert (folder / "elsewhere").read_text() == "mine"


def test_a_file_is_no_folder_to_keep_snapshots_in(tmp_path: Path) -> None:
    (tmp_path / "w").write_text("mine")
    done = watch()
    assert (done.returncode, "w: it is a file; name a folder" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("period", "said"),
    [
        ("24", "is no duration"),
        ("0s", "is not from 1s to 366d"),
        ("400d", "is not from 1s to 366d"),
        ("٣h", "is no duration"),
    ],
)
def test_a_period_is_a_number_and_a_unit(period: str, said: str) -> None:
    done = finbench("drift", "watch", "--keep", "w", "--every", period)
    assert (done.returncode, said in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("how", "slowly", "at"),
    [
        (signal.SIGTERM, "0", "next recording at"),
        (signal.SIGINT, "0", "next recording at"),
        (signal.SIGTERM, "20", ""),
    ],
)
def test_a_signal_ends_it_and_the_same_command_goes_on(
    folder: Path, how: signal.Signals, slowly: str, at: str
) -> None:
    command = [*FINBENCH, *WATCH, TOOLS, "--every", "1h", "--simulated-latency-s", slowly]
    environment = {**os.environ, "FINPORT_CACHE_DIR": "cache"}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        if at:
            assert re.match(f"{TIME} {at} {TIME}, in ", process.stderr.readline())
        else:
            block_until(lambda: [*folder.glob("*.journal")])
        process.send_signal(how)
        said = process.stderr.read()
    assert process.returncode == 128 + how
    assert "the same command goes on" in said
    assert "Traceback" not in said
    assert all(re.match(f"{TIME} ", line) for line in said.splitlines())
    whole = snapshots(folder)
    assert len(whole) == bool(at)
    for name in whole:
        with Snapshot(folder / name) as snapshot:
            assert snapshot.verify() == []
    assert [path.name for path in folder.glob(".*") if path.name != ".watch.lock"] == []


DRIFTED = ("--simulated-seed", "4", "--notify-on", "INFO")
"""Options of a watch that finds what is not as in `record`."""


def test_a_command_is_told_of_findings_and_which_snapshots_they_are_of(
    folder: Path, record: Record
) -> None:
    record(folder, 1)
    assert watch("--notify", "cp /dev/stdin first").returncode == 0
    assert not Path("first").exists(), "nothing was found"
    done = watch("--notify", "cp /dev/stdin told", *DRIFTED)
    assert done.returncode == 0
    assert re.search(f"^{TIME} told cp$", done.stdout, re.MULTILINE)
    told = json.loads(Path("told").read_text())
    line = json.loads((folder / "drift.jsonl").read_text().splitlines()[-1])
    assert [found["id"] for found in told["findings"]]
    for part in ("before", "after", "counts"):
        assert told[part] == line[part]
    assert told["after"]["file"] == snapshots(folder)[-1]


def test_a_url_is_told_and_its_path_is_shown_nowhere(
    folder: Path, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(folder, 1)
    got: list[Any] = []

    def answer(request: Any) -> tuple[int, Any]:
        got.append(json.loads(request.body))
        return 500 if len(got) == 1 else 200, {}

    with json_server(answer) as url:
        monkeypatch.setenv("FINBENCH_NOTIFY", f"{url}/s3cret-0451")
        failed = watch(*DRIFTED)
        assert failed.returncode == 1, "a notification failed"
        assert f"--notify {url}: status 500; drift.jsonl has the findings" in failed.stderr
        assert len(compared(folder)) == 1
        told = watch("--notify-on", "INFO")
        assert told.returncode == 0
    assert "s3cret" not in failed.stdout + failed.stderr + told.stdout + told.stderr
    assert [body["after"]["file"] for body in got] == snapshots(folder)[1:]


def test_a_watch_goes_on_after_a_notification_that_failed_and_says_so_in_the_next(
    folder: Path, record: Record
) -> None:
    record(folder, 1)
    second = record(folder, 2, "3")  # not compared yet
    once = "if [ -e failed ]; then cat > told; else touch failed; echo no mail >&2; exit 3; fi"
    done = watch("--notify", f"sh -c '{once}'", *DRIFTED)
    assert done.returncode == 1
    assert "--notify sh: exit code 3: no mail" in done.stderr
    assert json.loads(Path("told").read_text())["undelivered"] == [second]


def test_what_was_not_told_when_a_signal_came_is_told_by_the_next_watch(
    folder: Path, record: Record
) -> None:
    record(folder, 1)
    second = record(folder, 2, "3")
    (script := Path("slow.sh")).write_text("echo $$ > pid.new; mv pid.new pid; sleep 600\n")
    tell = (*WATCH, TOOLS, "--every", "1h", *DRIFTED, "--notify")
    with finbench_begun(*tell, f"sh {script}") as process:
        block_until(Path("pid").exists)
        process.send_signal(signal.SIGTERM)
    assert process.returncode == 128 + signal.SIGTERM
    block_until(lambda: not is_running(Path("pid").read_text().strip()))
    assert not (folder / "drift.jsonl").exists()
    assert finbench(*tell, "cp /dev/stdin told", "--count", "1").returncode == 0
    first = json.loads((folder / "drift.jsonl").read_text().splitlines()[0])
    assert first["after"]["file"] == second


def test_the_script_for_cron_prints_only_what_broke(folder: Path) -> None:
    text = (ROOT / "docs" / "drift.md").read_text()
    (script,) = re.findall(r"```text\n(#!/bin/sh\n.*?)```", text, re.DOTALL)
    script = script.replace("/var/lib/finport/series", str(folder))
    script = script.replace("--partial", f"--partial --upstream simulated --tools {TOOLS}")
    environment = os.environ | {
        "FINPORT_CACHE_DIR": str(folder / "cache"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }

    def said(**more: str) -> str:
        env = environment | more
        done = subprocess.run(
            ["/bin/sh", "-c", script], env=env, capture_output=True, text=True, check=False
        )
        return done.stdout + done.stderr

    assert said() == ""
    (first,) = snapshots(folder)
    (folder / first).rename(folder / "2026-11-01T000000Z.snapshot")
    assert "availability" in said(FINPORT_SIMULATED_FAILURE_RATE="1", FINPORT_RETRIES="0")


def test_a_notification_that_can_not_be_sent_is_refused_before_anything_is_recorded(
    folder: Path,
) -> None:
    done = watch("--notify", "https://user:s3cret-0451@hooks.example/")
    assert (done.returncode, "holds a user" in done.stderr) == (2, True)
    assert "s3cret" not in done.stderr
    done = watch("--notify-on", "WARN")
    assert (done.returncode, "--notify-on needs --notify" in done.stderr) == (2, True)
    assert snapshots(folder) == []

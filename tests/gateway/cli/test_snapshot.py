"""`finport snapshot`, and gateways that record and replay, as a user runs them."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from cache import Snapshot
from cache.blocks import block
from cache.frame import pack
from cache.merge import merge
from cache.snapshot import JOURNAL
from tests.support import rows
from tests.support.commands import FINPORT, finport, finport_process, post, served
from tests.support.waiting import block_until


def calls(path: Path, numbers: list[int]) -> Path:
    lines = (json.dumps({"tool": "get_coin", "arguments": {"uuid": f"c{n}"}}) for n in numbers)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def recording(out: str, of: Path) -> tuple[str, ...]:
    """The command that records these calls."""
    simulated = ("--upstream", "simulated", "--json")
    return ("snapshot", "record", "--out", out, "--calls", str(of), *simulated)


def record_by_process(out: str, of: Path) -> dict[str, Any]:
    """The summary of a recording by a process of its own."""
    return summary(finport_process(*recording(out, of), cache=Path(f"cache-of-{out}")))


def record(out: str, of: Path) -> dict[str, Any]:
    """The same without the start of a process."""
    return summary(finport(*recording(out, of), cache=Path(f"cache-of-{out}")))


def summary(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.mark.parametrize("answers", [200, pytest.param(5_000, marks=pytest.mark.soak)])
def test_the_same_answers_by_two_processes_in_different_order_are_one_snapshot(
    tmp_path: Path, answers: int
) -> None:
    numbers = list(range(answers))
    ordered = calls(tmp_path / "ordered.jsonl", numbers)
    random.Random(5).shuffle(numbers)
    shuffled = calls(tmp_path / "shuffled.jsonl", numbers)
    with ThreadPoolExecutor(2) as both:
        one, other = both.map(record_by_process, ("one", "other"), (ordered, shuffled))
    assert one["id"] == other["id"]
    assert one["statuses"] == other["statuses"] == {"ok": answers}

    for half, out in enumerate(("first", "second")):
        record(out, calls(tmp_path / f"half-{half}", numbers[half::2]))
    done = finport("snapshot", "merge", "second", "first", "--out", "merged", "--json")
    assert json.loads(done.stdout)["id"] == one["id"]

    whole = finport("snapshot", "verify", "merged")
    assert (whole.returncode, whole.stdout) == (
        0,
        f"merged is whole: {answers} rows, id {one['id']}\n",
    )
    content = bytearray((tmp_path / "merged").read_bytes())
    content[len(content) // 3] ^= 4
    (tmp_path / "changed").write_bytes(content)
    changed = finport("snapshot", "verify", "changed")
    assert changed.returncode == 1
    assert "finport: the row at byte" in changed.stderr
    report = json.loads(finport("snapshot", "verify", "changed", "--json").stdout)
    assert (report["whole"], len(report["problems"])) == (False, 1)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_row_of_an_unknown_upstream_is_counted_and_named(place: int) -> None:
    made = [rows.row(n) for n in range(3)]
    heads = [{**row.head, **row.entry.head} for row in made]
    heads[place]["upstream"] = "Some other"
    frames = [pack(head, row.entry.data) for head, row in zip(heads, made, strict=True)]
    Path("s.journal").write_bytes(JOURNAL + b"live\n" + b"".join(map(block, frames)))
    merging = ("snapshot", "merge", "s.journal", "--out", "merged")
    refused = finport(*merging)
    named = f"of {made[place].tool}: not an entry: upstream can't be so"
    assert refused.returncode == 1
    assert named in refused.stderr
    assert not Path("merged").exists()
    done = finport(*merging, "--salvage", "--json")
    told = summary(done)
    assert (told["rows"], told["damaged"]) == (2, 1)
    assert done.stderr.startswith("finport: left out: s.journal: the row at byte ")
    assert named in done.stderr


SLOWLY = ("--upstream", "simulated", "--simulated-latency-s", "0.5", "--concurrency", "4")
"""So that a recording is not over before it is interrupted."""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_recording_goes_on(tmp_path: Path, how: signal.Signals) -> None:
    wanted = calls(tmp_path / "calls.jsonl", list(range(200)))
    command = [*FINPORT, "snapshot", "record", "--out", "s.snap", "--calls", str(wanted), *SLOWLY]
    journal, environment = tmp_path / "s.snap.journal", {**os.environ, "FINPORT_CACHE_DIR": "c"}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        block_until(lambda: grown(journal, 2_000))
        process.send_signal(how)
        _, told = process.communicate()
    assert process.returncode != 0
    assert ("calls recorded; the same command goes on" in told) == (how == signal.SIGINT)
    assert not (tmp_path / "s.snap").exists()
    before = merge([journal], tmp_path / "before").rows
    assert 0 < before < 200
    again = record("s.snap", wanted)
    assert again["rows"] == 200
    assert not journal.exists()
    with Snapshot(tmp_path / "s.snap") as whole, Snapshot(tmp_path / "before") as part:
        first = {row.key: row.entry.recorded_at for row in part.rows()}
        kept = {row.key: row.entry.recorded_at for row in whole.rows() if row.key in first}
        assert kept == first, "what was recorded before was not asked for again"


def grown(path: Path, size: int) -> bool:
    return path.exists() and path.stat().st_size > size


def test_a_full_disk_ends_a_recording_at_once(tmp_path: Path) -> None:
    wanted = calls(tmp_path / "calls.jsonl", list(range(2_000)))
    limit = "import resource as r, runpy; r.setrlimit(r.RLIMIT_FSIZE, (400_000, 400_000)); "
    python = [
        sys.executable,
        "-c",
        limit + "runpy.run_module('gateway.cli.main', run_name='__main__')",
    ]
    command = ["snapshot", "record", "--out", "s.snap", "--calls", str(wanted)]
    done = subprocess.run(
        [*python, *command, "--upstream", "simulated"],
        env={**os.environ, "FINPORT_CACHE_DIR": "cache"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.endswith("File too large; what was recorded before is in it\n"), done.stderr
    assert done.stderr.count("File too large") < 40, "calls under way, and no others"
    assert merge([tmp_path / "s.snap.journal"], tmp_path / "salvaged").rows > 10


def test_show_and_export_give_what_was_recorded(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    done = finport(
        *("snapshot", "record", "--out", "s.snap", "--tools", "get_coin,stock_zh_a_hist"),
        *("--upstream", "simulated"),
        cache=tmp_path / "cache",
    )
    assert done.returncode == 0, done.stderr
    assert "s.snap: 2 calls of 2 tools (ok 2)" in done.stdout
    shown = json.loads(finport("snapshot", "show", "s.snap", "--json").stdout)
    assert shown["tools"] == {"get_coin": 1, "stock_zh_a_hist": 1}
    assert shown["upstreams"] == {"simulated": 2}
    assert shown["id"] in done.stdout
    listed = finport("snapshot", "show", "s.snap", "--tool", "get_coin").stdout
    assert 'ok               {"uuid":"Qwsogvtv82FCd"' in listed
    assert finport("snapshot", "show", "s.snap", "--tool", "nope").returncode == 1

    lines = finport("snapshot", "export", "s.snap", "--format", "jsonl").stdout.splitlines()
    exported = [json.loads(line) for line in lines]
    to_parquet = ("snapshot", "export", "s.snap", "--format", "parquet")
    assert finport(*to_parquet).returncode == 2, "--out is missing"
    assert finport(*to_parquet, "--out", "s.parquet").returncode == 0
    table = parquet.read_table(tmp_path / "s.parquet").to_pylist()
    assert list(table[0]) == list(exported[0])
    for from_json, from_parquet in zip(exported, table, strict=True):
        for name in ("arguments", "body"):
            from_parquet[name] = json.loads(from_parquet[name])
        assert from_json == from_parquet
    again = finport(*to_parquet, "--out", "s.parquet")
    assert (again.returncode, "exists already; --force" in again.stderr) == (1, True)
    assert finport(*to_parquet, "--out", "s.parquet", "--force").returncode == 0
    assert finport(*to_parquet, "--out", "s.snap", "--force").returncode == 2
    assert finport("snapshot", "verify", "s.snap").returncode == 0
    assert [row["tool"] for row in exported] == ["get_coin", "stock_zh_a_hist"]
    assert len(exported[1]["body"]) == exported[1]["rows"]


def test_what_cannot_be_done_is_told(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no snapshot")
    (tmp_path / "calls").write_text('{"tool": "get_coin"}\n')
    os.mkfifo(tmp_path / "pipe")
    no_file = "pipe: it is not a regular file"
    for arguments, code, telling in [
        (("show", "text"), 1, "is no snapshot"),
        (("verify", "text"), 1, "is no snapshot"),
        (("show", "nowhere"), 2, "does not exist"),
        (("merge", "text", "--out", "o"), 1, "is no snapshot"),
        (("merge", "text", "--out", "text"), 1, "a snapshot never changes"),
        (("record", "--out", "text"), 1, "a snapshot never changes"),
        (("record", "--out", "o", "--tools", "get_coins"), 2, "did you mean get_coin"),
        (("record", "--out", "o", "--calls", "calls"), 2, "calls:1: not a call"),
        (("record", "--out", "o", "--calls", "calls", "--tools", "x"), 2, "not both"),
        (("record", "--out", "o", "--tools", ","), 2, "names no tool"),
        (("record", "--out", "o", "--calls", "pipe"), 2, no_file),
        (("record", "--out", ""), 2, "the name is empty"),
        (("show", "pipe"), 1, no_file),
        (("verify", "pipe"), 1, no_file),
        (("merge", "pipe", "--out", "o"), 1, no_file),
        (("export", "pipe", "--format", "jsonl"), 1, no_file),
    ]:
        done = finport("snapshot", *arguments, cache=tmp_path / "cache")
        assert (done.returncode, telling in done.stderr) == (code, True), (arguments, done.stderr)
        assert "Traceback" not in done.stderr


def test_a_gateway_records_until_it_is_told_to_stop_and_another_replays(tmp_path: Path) -> None:
    recording = ("--mode", "record", "--snapshot", "s.snap")
    with served(tmp_path / "cache", *recording) as (process, url):
        first = post(f"{url}/v1/tools/get_coin", b'{"uuid": "Qwsogvtv82FCd"}')
        process.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        told = process.stdout.read()
    with Snapshot(tmp_path / "s.snap") as snapshot:
        assert told == f"recorded snapshot {snapshot.id} in s.snap\n"
    with served(tmp_path / "other", "--mode", "offline", "--snapshot", "s.snap") as (_, url):
        again = post(f"{url}/v1/tools/get_coin", b'{"uuid": "Qwsogvtv82FCd"}')
    assert again["data"] == first["data"]
    assert isinstance(again["provenance"], dict)
    assert (again["provenance"]["source"], again["provenance"]["snapshot"]) == (
        "replayed",
        snapshot.id,
    )
    call = ("call", "get_coin", "uuid=Qwsogvtv82FCd", "--mode", "offline", "--snapshot", "s.snap")
    assert json.loads(finport(*call).stdout)["data"] == first["data"]
    missing = finport(*call[:2], "uuid=x", *call[3:])
    assert missing.returncode == 1
    assert json.loads(missing.stdout)["error"]["code"] == "not_in_snapshot"


def test_what_a_killed_gateway_had_answered_is_recorded(tmp_path: Path) -> None:
    answered: list[int] = []
    with served(tmp_path / "cache", "--mode", "record", "--snapshot", "s.snap") as (process, url):

        def ask(start: int) -> None:
            for number in range(start, 10**6, 8):
                try:
                    post(f"{url}/v1/tools/get_coin", json.dumps({"uuid": f"c{number}"}).encode())
                except (OSError, HTTPException):
                    return
                answered.append(number)

        askers = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
        for asker in askers:
            asker.start()
        block_until(lambda: len(answered) > 50)
        process.kill()
        for asker in askers:
            asker.join()
    assert len(answered) > 50
    merge([tmp_path / "s.snap.journal"], tmp_path / "s.snap")
    with Snapshot(tmp_path / "s.snap") as snapshot:
        recorded = {row.arguments["uuid"] for row in snapshot.rows()}
    assert {f"c{number}" for number in answered} <= recorded

"""`finbench drift record`, as a user runs it."""

import json
import os
import re
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from cache import Snapshot
from cache.merge import merge
from manifests import Catalog
from tests.support.commands import FINBENCH, finbench, finbench_on_a_full_disk
from tests.support.waiting import block_until

ALPHA, YAHOO = "seeking-alpha.p.rapidapi.com", "yh-finance8.p.rapidapi.com"

SIMULATED = ("--upstream", "simulated")


def names(catalog: Catalog, host: str, count: int = 8) -> list[str]:
    return [m.name for m in catalog if m.upstream == host and not m.is_for_one][:count]


@pytest.fixture
def tools(catalog: Catalog) -> str:
    """Eight tools of each of two hosts."""
    return ",".join(names(catalog, ALPHA) + names(catalog, YAHOO))


def record(*words: str, out: str = "s.snapshot") -> subprocess.CompletedProcess[str]:
    return finbench("drift", "record", "--out", out, *words)


def limit(monkeypatch: pytest.MonkeyPatch, per_day: int) -> None:
    monkeypatch.setenv("FINPORT_HOSTS", json.dumps({ALPHA: {"per_day": per_day}}))


def statuses(path: Path) -> dict[str, int]:
    with Snapshot(path) as snapshot:
        return dict(snapshot.summary.statuses)


def test_the_snapshot_holds_the_probe_of_each_tool_and_is_told_as_json(
    catalog: Catalog, tools: str, tmp_path: Path
) -> None:
    done = record("--tools", tools, *SIMULATED, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert (told["rows"], told["statuses"], len(told["tools"])) == (16, {"ok": 16}, 16)
    with Snapshot(tmp_path / "s.snapshot") as snapshot:
        assert snapshot.id == told["id"]
        for name in tools.split(","):
            manifest = catalog.get(name)
            assert manifest is not None
            (row,) = snapshot.rows(name)
            assert row.arguments.items() >= manifest.probe().items()
    again = record("--tools", tools, *SIMULATED)
    assert again.returncode == 1
    assert "a snapshot never changes" in again.stderr


def test_a_used_up_quota_leaves_calls_for_later_and_the_same_command_goes_on(
    tools: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(monkeypatch, 3)
    monkeypatch.setenv("FINPORT_SIMULATED_FAULTS", '{"not_found": 1}')
    done = record("--tools", tools, *SIMULATED)
    assert done.returncode == 1
    assert f"{ALPHA}: 5 calls are left for later: " in done.stderr
    assert done.stderr.endswith(
        f"finbench: no snapshot yet: 5 calls are left for later ({ALPHA} 5). The same command goes "
        "on; with --partial it makes the snapshot without them\n"
    )
    assert not (tmp_path / "s.snapshot").exists()
    assert statuses_of_journal(tmp_path) == {"upstream_error": 11}
    monkeypatch.delenv("FINPORT_SIMULATED_FAULTS")
    limit(monkeypatch, 8)
    more = record("--tools", tools, *SIMULATED)
    assert more.returncode == 1
    assert statuses_of_journal(tmp_path) == {"ok": 13}, "errors were asked again"

    limit(monkeypatch, 100)
    whole = record("--tools", tools, *SIMULATED)
    assert whole.returncode == 0
    assert whole.stderr == "13 calls are recorded already\n"
    assert statuses(tmp_path / "s.snapshot") == {"ok": 16}
    assert not (tmp_path / "s.snapshot.journal").exists()


def statuses_of_journal(folder: Path) -> dict[str, int]:
    made = folder / "of-the-journal"
    made.unlink(missing_ok=True)
    return dict(merge([folder / "s.snapshot.journal"], made).statuses)


def test_partial_makes_the_snapshot_without_what_is_left(
    tools: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(monkeypatch, 3)
    done = record("--tools", tools, *SIMULATED, "--partial")
    assert done.returncode == 0
    assert statuses(tmp_path / "s.snapshot") == {"ok": 11}
    said = f"finbench: 5 calls are left for later ({ALPHA} 5); the snapshot has no answer to them\n"
    assert done.stderr.endswith(said)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_recording_goes_on(tools: str, tmp_path: Path, how: signal.Signals) -> None:
    journal = tmp_path / "s.snapshot.journal"

    def interrupt() -> None:
        block_until(lambda: grown(journal))
        os.kill(os.getpid(), how)

    thread = threading.Thread(target=interrupt)
    thread.start()
    done = record("--tools", tools, *SIMULATED, "--simulated-latency-s", "0.2")
    thread.join()
    assert done.returncode == 128 + how
    assert " calls recorded; the same command goes on\n" in done.stderr
    assert not (tmp_path / "s.snapshot").exists()
    goes_on(tools, tmp_path)


def test_a_killed_recording_goes_on_and_its_journal_is_not_closed_with_other_calls(
    tools: str, tmp_path: Path
) -> None:
    command = [*FINBENCH, "drift", "record", "--out", "s.snapshot", "--tools", tools, *SIMULATED]
    environment = {**os.environ, "FINPORT_CACHE_DIR": "cache"}
    with subprocess.Popen([*command, "--simulated-latency-s", "0.3"], env=environment) as process:
        block_until(lambda: grown(tmp_path / "s.snapshot.journal"))
        process.kill()
    refused = record("--tools", "get_coin", *SIMULATED)
    assert refused.returncode == 1
    assert re.search(
        r"s\.snapshot\.journal holds \d+ calls? outside this selection\. The command that began it "
        r"goes on with it; `finport snapshot merge s\.snapshot\.journal --out FILE` makes",
        refused.stderr,
    )
    assert not (tmp_path / "s.snapshot").exists()
    goes_on(tools, tmp_path)


def test_a_file_without_calls_is_named(tmp_path: Path) -> None:
    (tmp_path / "calls.jsonl").write_text("\n")
    done = record("--calls", "calls.jsonl", *SIMULATED)
    said = "finbench: calls.jsonl names no call to record\n"
    assert (done.returncode, done.stderr) == (1, said)


def grown(journal: Path) -> bool:
    return journal.exists() and journal.stat().st_size > 1_000


def goes_on(tools: str, folder: Path) -> None:
    """The same command asks what is missing, and nothing again."""
    merge([folder / "s.snapshot.journal"], folder / "before")
    with Snapshot(folder / "before") as snapshot:
        before = {row.key: row.entry.recorded_at for row in snapshot.rows()}
    assert 0 < len(before) < 16
    done = record("--tools", tools, *SIMULATED)
    assert done.returncode == 0
    count = "1 call is" if len(before) == 1 else f"{len(before)} calls are"
    assert done.stderr == f"{count} recorded already\n"
    assert statuses(folder / "s.snapshot") == {"ok": 16}
    with Snapshot(folder / "s.snapshot") as snapshot:
        times = {row.key: row.entry.recorded_at for row in snapshot.rows()}
    assert before.items() <= times.items()


def test_calls_of_a_file_are_recorded_in_place_of_probes(tmp_path: Path) -> None:
    calls = [
        {"tool": "get_coin", "arguments": {"uuid": "a"}},
        {"tool": "get_coin", "arguments": {"uuid": "a"}},
        {"tool": "get_coin", "arguments": {"uuid": "b"}},
        {"tool": "get_coin", "arguments": {"uid": "b"}},
        {"tool": "generate_wallet", "arguments": {}},
    ]
    text = "".join(f"{json.dumps(call)}\n" for call in calls)
    (tmp_path / "calls.jsonl").write_text(f"\ufeff{text}")
    done = record("--calls", "calls.jsonl", *SIMULATED, "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["tools"] == {"get_coin": 2}
    assert "1 call of transactional tools are never recorded: left out" in done.stderr
    assert "1 of 4 calls can't be made and are left out" in done.stderr


@pytest.mark.parametrize(
    ("words", "telling"),
    [
        (("--tools", "get_coins"), "no tool is named 'get_coins'; did you mean get_coin"),
        (("--tools", ""), "--tools names no tool"),
        (("--tools", "get_coin", "--calls", "calls"), "either --tools or --calls"),
        (("--pace", "nan"), "not a finite number"),
        (("--simulated-seed", "3"), "for --upstream simulated only"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(
    words: tuple[str, ...], telling: str, tmp_path: Path
) -> None:
    (tmp_path / "calls").write_text("")
    done = record(*words)
    assert (done.returncode, telling in done.stderr) == (2, True), done.stderr


def test_without_a_key_nothing_is_asked_and_the_missing_setting_is_named(
    tools: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FINPORT_AKSHARE_BASE_URL", "http://127.0.0.1:9")  # nothing listens there
    akshare = "stock_zh_a_hist"
    done = record("--tools", f"{tools},{akshare}")
    assert done.returncode == 1
    assert done.stderr == (
        "finbench: 16 of 17 calls can't be made: no RapidAPI key is set; set FINPORT_RAPIDAPI_KEYS"
        "\nfinbench: nothing was recorded; --partial records the other calls\n"
    )
    none = record("--tools", tools, "--partial")
    assert (none.returncode, "FINPORT_RAPIDAPI_KEYS" in none.stderr) == (1, True)
    assert list(tmp_path.glob("s.snapshot*")) == []


def test_without_a_network_there_is_no_snapshot(
    catalog: Catalog, tools: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FINPORT_RAPIDAPI_KEYS", "planted")
    monkeypatch.setenv("FINPORT_RAPIDAPI_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("FINPORT_RETRIES", "0")
    three = ",".join([tools, *names(catalog, "morning-star.p.rapidapi.com", 2)])
    done = record("--tools", three, "--pace", "0", "--partial")
    assert done.returncode == 1
    assert "10 of the first 10 calls failed; the last one, " in done.stderr
    assert "no snapshot yet: no host answered, so the network or the settings" in done.stderr
    assert not (tmp_path / "s.snapshot").exists()


def test_a_full_disk_ends_the_recording_and_keeps_what_it_has(tmp_path: Path) -> None:
    lines = (json.dumps({"tool": "get_coin", "arguments": {"uuid": f"c{n}"}}) for n in range(2_000))
    (tmp_path / "calls.jsonl").write_text("\n".join(lines))
    words = ["drift", "record", "--out", "s.snapshot", "--calls", "calls.jsonl", *SIMULATED]
    done = finbench_on_a_full_disk(400_000, *words)
    assert done.returncode == 1
    said = "finbench: s.snapshot.journal: File too large; what was recorded before is in it\n"
    assert done.stderr.count(said) == 1
    assert "Traceback" not in done.stderr
    assert merge([tmp_path / "s.snapshot.journal"], tmp_path / "salvaged").rows > 10

"""`finbench` as a user runs it."""

import json
import signal
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from tests.support.commands import (
    finbench,
    finbench_begun,
    finbench_process,
)
from tests.support.runs import lines_of
from tests.support.waiting import PATIENCE_S, block_until


def processes(mark: Path) -> set[str]:
    """Every process that was started with `mark` as its folder for temporary files."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes()
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if f"TMPDIR={mark}".encode() in environment.split(b"\0"):
            found.add(f"{folder.name} {command}")
    return found


def test_run_streams_into_files_that_score_reads(tmp_path: Path) -> None:
    done = finbench(
        *("run", "starter", "--upstream", "simulated", "--out", "out", "--seed", "3"),
        *("--episodes", "100", "--concurrency", "50"),
    )
    assert done.returncode == 0, done.stderr
    assert "episodes 100/100" in done.stdout
    assert "TESR" in done.stdout
    files = {file.name for file in (tmp_path / "out").iterdir()}
    assert files == {"calls.jsonl", "episodes.jsonl", "run.json", "metrics.json"}
    about = json.loads((tmp_path / "out/run.json").read_text())
    assert (about["suite"], about["seed"], about["agent_is_simulated"]) == ("starter", 3, True)
    scored = json.loads(finbench("score", "out", "--json").stdout)
    assert (scored.pop("digest"), scored.pop("snapshot")) == (about["digest"], None)
    assert scored == json.loads((tmp_path / "out/metrics.json").read_text())
    with (tmp_path / "out/calls.jsonl").open("a") as calls:
        calls.write((tmp_path / "out/calls.jsonl").read_text().splitlines()[0] + "\n")
    changed = finbench("score", "out")
    assert changed.returncode == 1
    assert "the files are not those that the run left" in changed.stderr
    assert scored["episodes"] == 100
    again = finbench("run", "starter", "--upstream", "simulated", "--out", "out")
    assert again.returncode == 1
    assert "exists already; name a new folder" in again.stderr


@pytest.mark.parametrize("suite", ["starter", "fintrace-sample"])
def test_repeats_have_pass_at_k_and_pass_hat_k_everywhere(suite: str) -> None:
    simulated = ("--upstream", "simulated", "--simulated-latency-s", "0", "--seed", "3")
    done = finbench("run", suite, "--repeats", "3", *simulated, "--out", "out")
    assert done.returncode == 0, done.stderr
    passes = json.loads(Path("out/metrics.json").read_text())["passes"]
    assert finbench("score", "out", "--items", "items.jsonl").returncode == 0
    rights = defaultdict(list)
    for line in lines_of(Path("items.jsonl")):
        rights[line["id"]].append(line["right"])
    assert {len(of) for of in rights.values()} == {3}
    assert [*passes["by_k"]] == ["1", "2", "3"]
    last = passes["by_k"]["3"]
    assert last["tasks"] == len(rights)
    for name, of_all in (("pass_at_k", any), ("pass_hat_k", all)):
        assert last[name] == round(sum(map(of_all, rights.values())) / len(rights), 6)
    assert json.loads(finbench("score", "out", "--json").stdout)["passes"] == passes
    shown = f"{last['pass_hat_k']:.1%}"
    for said in (done.stdout, finbench("score", "out").stdout):
        assert "pass^k" in said
        assert shown in said
    assert finbench("report", "out").returncode == 0
    page = Path("out/report.html").read_text()
    assert "pass^k" in page
    assert shown in page
    compared = json.loads(finbench("compare", "out", "out", "--json").stdout)["metrics"]
    assert compared["pass^3"]["a"] == compared["pass^3"]["b"] == last["pass_hat_k"]
    assert "pass@2" in finbench("compare", "out", "out", "--metric", "pass@2").stdout
    assert "pass^4" not in compared


def test_a_run_without_repeats_has_no_passes() -> None:
    done = finbench(
        "run", "starter", "--upstream", "simulated", "--no-call-rate", "1", "--out", "out"
    )
    assert "pass^k" not in done.stdout
    assert "passes" not in json.loads(Path("out/metrics.json").read_text())
    both = finbench("run", "starter", "--repeats", "2", "--episodes", "9")
    assert both.returncode == 2
    assert "give --episodes or --repeats, not both" in both.stderr


def test_wrong_usage_exits_2() -> None:
    assert "there are: finova, finova-sample, fintoolbench" in finbench("run", "nothing").stderr
    assert finbench("run", "nothing").returncode == 2
    assert finbench("run", "starter", "--no-call-rate", "2").returncode == 2
    assert finbench("speed", "nothing").returncode == 2
    for command in (("run", "starter"), ("demo",)):
        done = finbench(*command, "--out", "")
        assert (done.returncode, "'--out': the name is empty" in done.stderr) == (2, True)


def test_score_of_a_folder_without_a_run_says_so(tmp_path: Path) -> None:
    done = finbench("score", str(tmp_path))
    assert done.returncode == 1
    assert "holds no run: run.json: No such file" in done.stderr


def test_the_demo_shows_its_figures_and_leaves_no_process_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    done = finbench_process("demo", "--episodes", "120", "--concurrency", "50", "--out", "out")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("the demonstration starts")
    assert "\nstarting a gateway\n" in done.stdout
    for figure in ("cache hit rate", "calls/s", "slowest tools", "pass^k", "lag p99"):
        assert figure in done.stdout
    assert "run directory: out" in done.stdout
    assert processes(tmp_path) == set()
    metrics = json.loads((tmp_path / "out/metrics.json").read_text())
    assert metrics["episodes"] == 120
    assert "live" not in metrics["traffic"]["sources"]
    about = json.loads((tmp_path / "out/run.json").read_text())
    assert (about["upstream"], about["ended"]) == ("simulated", "complete")
    assert about["most_in_flight"] == 50


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_demo_that_is_stopped_leaves_no_process_and_files_that_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: signal.Signals
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    command = ("demo", "--out", "out", "--episodes", "1000000", "--concurrency", "20")
    process = finbench_begun(*command, stderr=subprocess.PIPE)
    episodes = tmp_path / "out" / "episodes.jsonl"
    block_until(lambda: episodes.exists() and episodes.stat().st_size > 10_000)
    process.send_signal(how)
    _, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == (-how if how == signal.SIGKILL else 128 + how)
    assert "Traceback" not in stderr
    block_until(lambda: not processes(tmp_path))
    scored = json.loads(finbench("score", "out", "--json").stdout)
    assert 0 < scored["episodes"] < 1_000_000
    del scored["digest"], scored["snapshot"]
    if how != signal.SIGKILL:
        assert scored == json.loads((tmp_path / "out/metrics.json").read_text())
    assert json.loads((tmp_path / "out/run.json").read_text())["ended"] == "interrupted"


BLOCKING = """
import asyncio, itertools, os, pathlib, time
from finport import Turn

EPISODES = pathlib.Path("out/episodes.jsonl")

class Blocking:
    name = "blocking"

    async def act(self, episode):
        if episode.task.id == "starter_2" and "BLOCK" in os.environ:
            while EPISODES.read_text().count("\\n") < 2:
                await asyncio.sleep(0.01)
            pathlib.Path("blocked").touch()
            match os.environ["BLOCK"]:
                case "sleep":
                    time.sleep(3_600)
                case "C":
                    all(itertools.repeat(1))
        return Turn(answer="x")
"""


@pytest.mark.parametrize(
    ("how", "told", "named"),
    [
        ("sleep", signal.SIGINT, "Ctrl-C"),
        ("sleep", signal.SIGTERM, "SIGTERM"),
        ("C", signal.SIGINT, ""),
    ],
)
def test_a_second_signal_ends_a_run_whose_agent_blocks_and_resume_goes_on(
    how: str, told: signal.Signals, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "blocking.py").write_text(BLOCKING)
    agent = ("--agent", "blocking:Blocking", "--top-k", "0", "--upstream", "simulated")
    run = ("run", "starter", *agent, "--episodes", "4", "--concurrency", "1", "--out", "out")
    with monkeypatch.context() as patch:
        patch.setenv("BLOCK", how)
        process = finbench_begun(*run, stderr=subprocess.PIPE)
    try:
        block_until((tmp_path / "blocked").exists)
        process.send_signal(told)
        assert process.stderr is not None
        if how == "sleep":  # while C code runs, nothing can be said
            assert f"{named} again ends it at once" in process.stderr.readline()
        else:
            block_until(lambda: not pending(process.pid))
        process.send_signal(told)
        process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert process.returncode == -told
    assert json.loads(finbench("score", "out", "--json").stdout)["episodes"] == 2
    resumed = finbench(*run, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads((tmp_path / "out/metrics.json").read_text())["episodes"] == 4


FAULTY = """
import asyncio, os, sys
from finport import Turn

class Told(KeyboardInterrupt): pass

async def leave(): sys.exit(0)

class Faulty:
    name = "faulty"

    async def act(self, episode):
        match episode.task.id:
            case "starter_0":
                asyncio.get_running_loop().stop()
            case "starter_1":
                raise BaseExceptionGroup("both", [KeyboardInterrupt(), ValueError()])
            case "starter_2":
                raise Told("enough")
            case "starter_3":
                await asyncio.gather(leave(), asyncio.sleep(0))
            case "starter_4":
                os._exit(0)
            case "starter_5" if "CLOSES" in os.environ:
                while not os.path.getsize("out/episodes.jsonl"):
                    await asyncio.sleep(0.01)
                os.closerange(3, 256)
            case "starter_6" if "CANCELS" in os.environ:
                for task in asyncio.all_tasks():
                    task.cancel()
                await asyncio.sleep(0)
        return Turn(answer="x")
"""


def test_what_an_agent_does_to_the_process_ends_its_episode_or_the_run_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "faulty.py").write_text(FAULTY)
    agent = ("--agent", "faulty:Faulty", "--top-k", "0", "--upstream", "simulated")
    run = ("run", "starter", *agent, "--concurrency", "1", "--episodes", "8", "--out", "out")
    with monkeypatch.context() as patch:
        patch.setenv("CLOSES", "1")
        broken = finbench_process(*run)
    assert (broken.returncode, "Traceback" in broken.stderr) == (1, False), broken.stderr
    told = (
        "finbench: native code aborted the process; what was finished is in out, --resume goes on"
    )
    assert told in broken.stderr.splitlines()
    with monkeypatch.context() as patch:
        patch.setenv("CANCELS", "1")
        cancelled = finbench(*run, "--resume")
    assert cancelled.returncode == 1
    assert "interrupted; what was finished is in out, --resume goes on" in cancelled.stderr
    assert "as that of an agent, cancelled the command's tasks" in cancelled.stderr
    assert len((tmp_path / "out/episodes.jsonl").read_text().splitlines()) == 6
    scored = finbench("score", "out")
    assert scored.returncode == 0
    assert "out: the run has not ended, so some of its 8 episodes may be missing" in scored.stderr
    done = finbench_process(*run, "--resume")
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    lines = lines_of("out/episodes.jsonl")
    records = {record["id"]: record for record in lines}
    assert len(lines) == len(records) == 8
    assert {id_: record["error"] for id_, record in records.items() if record["error"]} == {
        "starter_0": "agent: faulty.py:15: RuntimeError: the event loop is shared and ends with "
        "its command; don't stop it",
        "starter_1": "agent: faulty.py:17: BaseExceptionGroup: both (2 sub-exceptions)",
        "starter_2": "agent: faulty.py:19: Told: enough",
        "starter_3": "agent: faulty.py:7: SystemExit: 0",
        "starter_4": "agent: faulty.py:23: RuntimeError: the process is shared and ends with its "
        "command; don't end it",
    }


def test_a_judge_that_leaves_fails_on_its_episodes_only(tmp_path: Path) -> None:
    (tmp_path / "leaver.py").write_text(
        "import sys\nclass Leaver:\n    name = 'leaver'\n"
        "    async def judge(self, record):\n"
        "        if record.id != 'starter_0':\n"
        "            raise BaseExceptionGroup('both', [SystemExit(0), KeyboardInterrupt()])\n"
        "        sys.exit(0)\n"
    )
    run = ("run", "starter", "--upstream", "simulated", "--episodes", "3", "--out", "out")
    assert finbench(*run).returncode == 0
    scored = finbench("score", "out", "--judge", "leaver:Leaver", "--out", "judged")
    assert scored.returncode == 1
    assert "the judge failed in all 3 episodes; the first: leaver.py:7: SystemE" in scored.stderr
    lines = (tmp_path / "judged" / "episodes.jsonl").read_text().splitlines()
    assert sum('"error":"leaver.py:6: BaseExceptionGroup: both' in line for line in lines) == 2


def pending(process: int) -> bool:
    """Whether a signal was sent to a process and not delivered yet."""
    status = Path(f"/proc/{process}/status").read_text()
    return any(int(line.split()[1], 16) for line in status.splitlines() if "Pnd:" in line)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "nothing", "ftp://x", "http://[", ""])
def test_a_gateway_that_does_not_answer_is_an_error_and_no_result(url: str) -> None:
    done = finbench("run", "starter", "--gateway", url, "--out", "out")
    assert done.returncode == 1
    assert "no gateway answers at" in done.stderr
    assert "Traceback" not in done.stderr


def test_rates_are_those_asked_for() -> None:
    calm = ("--no-call-rate", "0", "--wrong-tool-rate", "0", "--bad-arguments-rate", "0")
    common = ("run", "starter", "--upstream", "simulated", "--json")
    quiet = json.loads(finbench(*common, *calm, "--out", "a").stdout)
    assert (quiet["TIR"], quiet["TESR"], quiet["CER"]) == (1.0, 1.0, 1.0)
    idle = json.loads(finbench(*common, "--no-call-rate", "1", "--out", "b").stdout)
    assert (idle["TIR"], idle["CER"]) == (0.0, None)

"""Runs that are killed and go on: at the end nothing shows it but the time that it took."""

import asyncio
import errno
import json
import os
import random
import signal
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from bench.runs.directory import RunDirectory, RunDirectoryError
from bench.runs.resume import Resuming, settle
from gateway.trace import TraceError
from tests.support.commands import finbench, finbench_begun, finbench_on_a_full_disk
from tests.support.records import episode as recorded
from tests.support.runs import SNAPSHOT, about, lines_of
from tests.support.waiting import block_until

OFFLINE = ("run", "starter", "--mode", "offline", "--snapshot", str(SNAPSHOT))

FEW = ("run", "starter", "--upstream", "simulated", "--no-call-rate", "1", "--out", "out")
"""Episodes without a call, for which no process of AkShare starts."""


def counted(out: str) -> dict[str, Any]:
    """Its metrics, but for times."""
    metrics: dict[str, Any] = json.loads(Path(out, "metrics.json").read_text())
    for timed in ("latency_ms", "slowest", "most_failing"):
        del metrics["traffic"][timed]
    return metrics


def recorded_bytes(out: str) -> int:
    return sum(file.stat().st_size for file in Path(out).glob("[ce]*s.jsonl"))


def kill_when_grown(out: str, by: float, *command: str) -> None:
    """Kill a run once its records are so many bytes more than they were, wherever it then is."""
    before = recorded_bytes(out)
    process = finbench_begun(*command)
    block_until(lambda: process.poll() is not None or recorded_bytes(out) > before + by)
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.mark.parametrize(
    ("episodes", "kills"), [(288, 2), pytest.param(5_000, 30, marks=pytest.mark.soak)]
)
def test_a_run_that_is_killed_again_and_again_ends_as_if_it_never_was(
    episodes: int, kills: int
) -> None:
    offline = (*OFFLINE, "--episodes", str(episodes), "--seed", "7")
    assert finbench(*offline, "--out", "whole").returncode == 0

    concurrency = str(max(episodes // 100, 14))
    slow = (*offline, "--think-s", "0.05", "--concurrency", concurrency, "--out", "cut")
    luck, most = random.Random(episodes), recorded_bytes("whole") / kills
    for number in range(kills):
        again = ("--resume",) if number else ()
        kill_when_grown("cut", luck.uniform(0, 0.9 * most), *slow, *again)
    done = finbench(*slow, "--resume")
    assert done.returncode == 0, done.stderr

    names = [record["episode"] for record in lines_of("cut/episodes.jsonl")]
    assert len(names) == len(set(names)) == episodes
    assert about("cut")["digest"] == about("whole")["digest"]
    assert kills // 2 < about("cut")["parts"] <= kills + 1, (
        "a part that was killed as it began is none"
    )
    assert counted("cut") == counted("whole")
    if Path("cut/abandoned.jsonl").exists():
        print(f"{kills} kills, {len(lines_of('cut/abandoned.jsonl'))} records abandoned")  # noqa: T201


def test_a_run_on_a_full_disk_goes_on_once_there_is_room() -> None:
    run = (*OFFLINE, "--episodes", "144")
    assert finbench(*run, "--out", "whole").returncode == 0
    offline = (*run, "--out", "out")

    nothing = finbench_on_a_full_disk(100, *offline)  # less than run.json
    assert nothing.returncode == 1
    assert "File too large; nothing was finished, so nothing is left" in nothing.stderr
    assert not Path("out").exists()

    some = finbench_on_a_full_disk(40_000, *offline)
    assert some.returncode == 1
    assert some.stderr.startswith("finbench: ")
    assert "File too large" in some.stderr
    assert "what was finished is in out, --resume goes on" in some.stderr
    assert json.loads(finbench("score", "out", "--json").stdout)["episodes"] > 0
    assert about("out")["ended"] == "interrupted"

    finished = {name: whole_lines(f"out/{name}.jsonl") for name in ("calls", "episodes")}
    less = finbench_on_a_full_disk(10_000, *offline, "--resume")
    assert less.returncode != 0
    assert "in out can't go on: a file in it could not be written: File too large" in less.stderr
    assert "Traceback" not in nothing.stderr + some.stderr + less.stderr
    for name, text in finished.items():
        assert Path(f"out/{name}.jsonl").read_bytes().startswith(text)

    done = finbench(*offline, "--resume")
    assert done.returncode == 0, done.stderr
    assert about("out")["ended"] == "complete"
    assert about("out")["digest"] == about("whole")["digest"]
    assert not list(Path("out").glob("*.part"))


def whole_lines(file: str) -> bytes:
    text = Path(file).read_bytes()
    return text[: text.rfind(b"\n") + 1]


@pytest.mark.anyio
async def test_a_run_from_which_records_are_moved_away_is_not_complete(tmp_path: Path) -> None:
    failed = replace(recorded(), error="model: gone", ending="model_error")
    async with RunDirectory.open(tmp_path, {}) as run:
        run.episodes.put(failed)
        await run.complete({})
    (tmp_path / "metrics.json").unlink()
    (tmp_path / "metrics.json").mkdir()
    with pytest.raises(TraceError, match=r"metrics\.json"):
        async with RunDirectory.open(tmp_path, {}, resuming=Resuming(failed_too=True)):
            pass
    assert (tmp_path / "episodes.jsonl").read_bytes() == b""
    assert json.loads((tmp_path / "run.json").read_text())["ended"] == "interrupted"


def test_records_that_can_not_be_moved_away_stay_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "calls.jsonl").write_text(f"{call('a', '1')}\n{call('gone', '2')}\n")
    (tmp_path / "episodes.jsonl").write_text(episode("a", ("1", True, None)))
    (tmp_path / "abandoned.jsonl").write_text(f"{call('old', '0')}\n" + '{"torn')
    whole = (tmp_path / "calls.jsonl").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", no_room)
        with pytest.raises(OSError, match="No space left"):
            settle(tmp_path, failed_too=False)
    assert (tmp_path / "calls.jsonl").read_bytes() == whole
    assert not list(tmp_path.glob("*.part"))
    settle(tmp_path, failed_too=False)
    moved = [record["episode"] for record in lines_of(tmp_path / "abandoned.jsonl")]
    assert moved == ["old", "gone"], "each once, none glued to what was torn"


def no_room(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.anyio
async def test_a_save_that_fails_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("bench.runs.directory.METRICS_EVERY_S", 0.01)
    folder = tmp_path / "run"
    async with RunDirectory.open(folder, {"agent": "a"}) as run:
        before = (folder / "metrics.json").read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", no_room)
            run.episodes.put(recorded())
            while run.failed_saves < 3:
                await asyncio.sleep(0.005)
            assert run.unsaved is not None
            assert "metrics.json" in run.unsaved
            assert (folder / "metrics.json").read_bytes() == before
            assert len(caplog.records) == 1, "it is told of once"
            with pytest.raises(TraceError, match=r"metrics\.json"):
                await run.complete({})
            assert json.loads((folder / "run.json").read_text())["ended"] == "interrupted"
        while run.unsaved is not None:
            await asyncio.sleep(0.005)
        await run.complete({"episodes": 1})
        about = json.loads((folder / "run.json").read_text())
        assert (about["ended"], about["episodes"]) == ("complete", 1)
        assert about["failed_saves"] >= 3
    assert json.loads((folder / "metrics.json").read_text())["episodes"] == 1


@pytest.mark.anyio
async def test_a_run_of_which_records_are_missing_is_not_complete(tmp_path: Path) -> None:
    async with RunDirectory.open(tmp_path / "run", {}) as run:
        run.episodes.put(recorded())
        await run.save()
        (tmp_path / "run/episodes.jsonl").write_bytes(b"")
        with pytest.raises(TraceError, match=r"episodes\.jsonl holds 0 of 1 records"):
            await run.complete({})


def test_a_run_that_can_not_be_saved_at_its_end_says_so_and_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "writing.py").write_text(
        "from pathlib import Path\n"
        "from bench.agents import Turn\n"
        "class Agent:\n"
        "    name = 'writing'\n"
        "    async def act(self, episode):\n"
        "        Path('acted').touch()\n"
        "        return Turn(answer='x')\n"
    )
    run = ("run", "starter", "--agent", "writing:Agent", "--top-k", "0", "--upstream", "simulated")
    replace_ = os.replace

    def replaced(part: str, file: Path) -> None:
        if file.name == "run.json" and Path("acted").exists():
            no_room()
        replace_(part, file)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replaced)
        failed = finbench(*run, "--out", "out")
    assert failed.returncode == 1
    said = "out/run.json: No space left on device; what was finished is in out, --resume goes on"
    assert said in failed.stderr
    assert about("out")["ended"] == "interrupted"
    done = finbench(*run, "--out", "out", "--resume")
    assert done.returncode == 0, done.stderr
    assert "72 episodes, 72 of them before" in done.stdout


@pytest.mark.parametrize("left", [(), ("calls.jsonl", "episodes.jsonl", ".run.json.0815.part")])
@pytest.mark.parametrize("resume", [False, True])
def test_what_was_stopped_before_it_began_stands_in_nobodys_way(
    left: tuple[str, ...], resume: bool
) -> None:
    Path("out").mkdir()
    for name in left:
        Path("out", name).touch()
    done = finbench(*FEW, "--episodes", "2", *(("--resume",) if resume else ()))
    assert done.returncode == 0, done.stderr


def test_records_without_their_settings_do_not_go_on() -> None:
    run = (*FEW, "--episodes", "2")
    assert finbench(*run).returncode == 0
    for text in (None, "", '{"agent": "scri'):
        Path("out/run.json").unlink(missing_ok=True)
        if text is not None:
            Path("out/run.json").write_text(text)
        refused = finbench(*run, "--resume")
        assert refused.returncode == 1
        assert "run.json: " in refused.stderr
        assert len(lines_of("out/episodes.jsonl")) == 2


def test_settings_that_would_not_compare_are_named(tmp_path: Path) -> None:
    run = (*FEW, "--episodes", "8")
    assert finbench(*run).returncode == 0
    before = (tmp_path / "out/run.json").read_bytes()
    refused = finbench(*run, "--resume", "--seed", "3", "--think-s", "0.1")
    assert refused.returncode == 1
    assert "seed was 0 and is 3; think_s was 0.0 and is 0.1" in refused.stderr
    assert json.loads(before)["seed"] == about("out")["seed"]
    limited = finbench(*run, "--resume", "--max-rounds", "2")
    assert "would not compare: limits.rounds was 5 and is 2\n" in limited.stderr
    more = finbench(*FEW, "--episodes", "12", "--resume")
    assert more.returncode == 0, more.stderr
    assert "12 episodes, 8 of them before, " in more.stdout
    fewer = finbench(*FEW, "--episodes", "3", "--resume")
    assert "12 episodes, 12 of them before" in fewer.stdout
    assert len(lines_of("out/episodes.jsonl")) == 12


@pytest.mark.anyio
async def test_a_part_that_ends_before_it_knows_forgets_nothing(tmp_path: Path) -> None:
    async with RunDirectory.open(tmp_path / "run", {"agent": "a", "upstream": "simulated"}) as run:
        run.episodes.put(recorded())
    for _ in range(2):
        with pytest.raises(OSError, match="no gateway"):
            async with RunDirectory.open(tmp_path / "run", {"agent": "a"}, resuming=Resuming()):
                raise OSError("no gateway")
    async with RunDirectory.open(tmp_path / "run", {"agent": "a"}, resuming=Resuming()) as run:
        run.about = run.about.updated({"upstream": "live"})
        with pytest.raises(RunDirectoryError, match="upstream was 'simulated' and is 'live'"):
            run.check_comparable()
    assert json.loads((tmp_path / "run/run.json").read_text())["parts"] == 3


@pytest.mark.anyio
async def test_a_run_whose_every_episode_is_owed_again_is_still_a_run(tmp_path: Path) -> None:
    failed = replace(recorded(), error="model: gone", ending="model_error")
    async with RunDirectory.open(tmp_path / "run", {}) as run:
        run.episodes.put(failed)
    for _ in range(2):
        with pytest.raises(OSError, match="stopped at once"):
            async with RunDirectory.open(tmp_path / "run", {}, resuming=Resuming(failed_too=True)):
                raise OSError("stopped at once")


@pytest.mark.anyio
async def test_a_directory_has_one_owner_and_resume_wants_one() -> None:
    async with RunDirectory.open(Path("out"), {}) as run:
        run.episodes.put(recorded())
        refused = await to_thread.run_sync(finbench, *FEW, "--resume")
        said = "finbench: another process writes to out\n"
        assert (refused.returncode, refused.stderr) == (1, said)
    for options in (("--resume",), ("--failed-too", "--out", "x")):
        wrong = await to_thread.run_sync(finbench, "run", "starter", *options)
        assert wrong.returncode == 2
    gone = await to_thread.run_sync(finbench, *FEW[:-1], "nowhere", "--resume")
    assert gone.returncode == 1
    assert "nowhere" in gone.stderr


def call(episode: str, call_id: str) -> str:
    return json.dumps({"episode": episode, "call_id": call_id})


def episode(name: str, *calls: tuple[str, bool, str | None], torn: bool = False) -> str:
    made = [{"call_id": id_, "step": 1, "ok": ok, "fault": fault} for id_, ok, fault in calls]
    text = json.dumps({"episode": name, "tool_calls": made})
    return text[: len(text) // 2] if torn else text + "\n"


@pytest.mark.parametrize(("failed_too", "finished"), [(False, ["a", "b", "f"]), (True, ["a", "f"])])
def test_what_is_not_finished_is_moved_away(
    tmp_path: Path, failed_too: bool, finished: list[str]
) -> None:
    (tmp_path / "calls.jsonl").write_text(
        "".join(f"{call(*c)}\n" for c in (("a", "1"), ("b", "2"), ("d", "3"), ("f", "4")))
        + call("e", "5")[:9]
    )
    (tmp_path / "episodes.jsonl").write_text(
        episode("a", ("1", True, None), ("", False, "agent"))  # a call that never came
        + episode("b", ("2", False, "quota"))
        + episode("c", ("9", True, None))  # the record of its call is not on disk
        + episode("f", ("4", False, "tool"))
        + episode("d", ("3", True, None), torn=True)
    )
    settled = settle(tmp_path, failed_too=failed_too)
    assert settled.finished == set(finished)
    for name in ("calls", "episodes"):
        left = lines_of(tmp_path / f"{name}.jsonl")
        assert [record["episode"] for record in left] == finished
    abandoned = (tmp_path / "abandoned.jsonl").read_bytes()
    assert settle(tmp_path, failed_too=failed_too).finished == set(finished)
    assert (tmp_path / "abandoned.jsonl").read_bytes() == abandoned


SICK = """
from pathlib import Path
from finport import Judgement, Turn

class Agent:
    name = "agent"
    async def act(self, episode):
        with open("acted", "a") as file:
            file.write(episode.task.id + "\\n")
        return Turn(answer="version 1")

class Judge:
    name = "judge"
    async def judge(self, record):
        if Path("sick").exists():
            raise ConnectionError("500")
        if Path("mute").exists():
            return Judgement(self.name, "free_text", invalid=3)
        return Judgement(self.name, "free_text", [1.0])
"""

OWN = (
    *("run", "starter", "--upstream", "simulated", "--agent", "sick:Agent"),
    *("--judge", "sick:Judge", "--top-k", "0", "--episodes", "6", "--out"),
)


@pytest.fixture
def _own() -> None:
    Path("sick.py").write_text(SICK)


@pytest.mark.usefixtures("_own")
@pytest.mark.parametrize("how", ["sick", "mute"])
def test_episodes_without_a_valid_judgement_are_judged_and_not_played_again(how: str) -> None:
    assert finbench(*OWN, "whole").returncode == 0
    Path(how).touch()
    failed = finbench(*OWN, "out")
    assert failed.returncode == 1, "the judge failed on every episode"
    still = finbench(*OWN, "out", "--resume")
    assert still.returncode == 1, "and does so still"
    Path("acted").unlink()
    Path(how).unlink()
    done = finbench(*OWN, "out", "--resume")
    assert done.returncode == 0, done.stderr
    assert not Path("acted").exists()
    assert not list(Path("out").glob("unjudged*"))
    for name in ("digest", "judge"):
        assert about("out")[name] == about("whole")[name]
    assert counted("out") == counted("whole")


@pytest.mark.usefixtures("_own")
def test_a_judgement_that_was_cut_off_is_made_up_for(tmp_path: Path) -> None:
    assert finbench(*OWN, "whole").returncode == 0
    Path("sick").touch()
    finbench(*OWN, "out")
    records = lines_of("out/episodes.jsonl")
    settled = settle(tmp_path / "out", failed_too=False, is_judged=True)
    assert (len(settled.unjudged), settled.finished) == (6, set())
    with Path("out/episodes.jsonl").open("w") as file:  # killed after two
        for record in records[:2]:
            judgement = lines_of("whole/episodes.jsonl")[0]["judgement"]
            file.write(json.dumps({**record, "judgement": judgement}) + "\n")
    again = settle(tmp_path / "out", failed_too=False, is_judged=True)
    assert (len(again.unjudged), len(again.finished)) == (4, 2)
    assert not Path("out/abandoned.jsonl").exists()
    Path("sick").unlink()
    assert finbench(*OWN, "out", "--resume", "--accept-changes").returncode == 0
    assert about("out")["digest"] == about("whole")["digest"]


def test_the_plan_decides_which_records_are_of_the_run(caplog: pytest.LogCaptureFixture) -> None:
    run = (*FEW, "--episodes", "8")
    assert finbench(*run).returncode == 0
    whole = about("out")["digest"]
    first, *_ = own = Path("out/episodes.jsonl").read_text().splitlines(keepends=True)
    others = [first.replace("starter_", "alien_") for _ in range(3)]
    Path("out/episodes.jsonl").write_text("".join([*own, first, *others]))
    done = finbench(*run, "--resume")
    assert done.returncode == 0, done.stderr
    said = "4 records in out that are not of this run or there twice were moved to abandoned.jsonl"
    assert said in caplog.text
    assert "8 episodes, 8 of them before" in done.stdout
    assert about("out")["digest"] == whole
    assert len(lines_of("out/abandoned.jsonl")) == 4


def test_altered_records_are_refused_and_can_be_accepted() -> None:
    run = (*FEW, "--episodes", "8")
    assert finbench(*run).returncode == 0
    file = Path("out/episodes.jsonl")
    whole = file.read_bytes()
    for text, said in (
        (whole.replace(b"starter_", b"staRter_", 1), "episodes.jsonl has other content than was"),
        (whole[:-9], f"episodes.jsonl lacks 9 of the {len(whole)} bytes that were written"),
    ):
        file.write_bytes(text)
        refused = finbench(*run, "--resume")
        assert refused.returncode == 1
        assert f"can't go on as it was: {said}" in refused.stderr
        assert "--accept-changes goes on in spite of it" in refused.stderr
        assert file.read_bytes() == text
    done = finbench(*run, "--resume", "--accept-changes")
    assert done.returncode == 0, done.stderr
    assert [said] == about("out")["accepted"]
    assert finbench(*run, "--resume").returncode == 0, "what was accepted is the run's"


def test_lines_that_no_digest_covers_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    run = (*FEW, "--episodes", "8")
    assert finbench(*run).returncode == 0
    file = Path("out/episodes.jsonl")
    *early, altered, last = file.read_bytes().splitlines(keepends=True)
    covered = b"".join(early)
    written = {"bytes": len(covered), "digest": blake2b(covered, digest_size=16).hexdigest()}
    killed = {**about("out"), "ended": "interrupted"}
    killed["files"]["episodes.jsonl"] = written  # as the last save before a kill leaves it
    Path("out/run.json").write_text(json.dumps(killed))
    altered = altered.replace(b'"error":null', b'"error":"it was altered"')
    file.write_bytes(covered + altered + last + b'{"torn')
    for _ in range(2):
        assert finbench(*run, "--resume").returncode == 0
    said = "out/episodes.jsonl: 2 lines are in no digest; whether they were altered can't be known"
    assert caplog.messages == [said]
    assert b"it was altered" in file.read_bytes()


@pytest.mark.usefixtures("_own")
@pytest.mark.parametrize("edited", ["sick.py", "lazy/__init__.py", "lazy/deep.py"])
def test_an_agent_that_was_edited_is_named(edited: str) -> None:
    Path("lazy").mkdir()
    Path("lazy/__init__.py").write_text("async def late():\n    from . import deep\n")
    Path("lazy/deep.py").write_text("import json\n")
    Path("sick.py").write_text(
        SICK.replace("with open", "import lazy; await lazy.late()\n        with open")
    )
    assert finbench(*OWN, "out").returncode == 0
    with Path(edited).open("a") as file:
        file.write("# version 2\n")
    more = (*OWN, "out", "--episodes", "9", "--resume")
    refused = finbench(*more)
    assert refused.returncode == 1
    assert f"can't go on as it was: {edited} was changed; --accept-changes" in refused.stderr
    done = finbench(*more, "--accept-changes")
    assert done.returncode == 0, done.stderr
    assert about("out")["accepted"] == [f"{edited} was changed"]


@pytest.mark.usefixtures("_own")
def test_every_reader_takes_new_scores_of_a_run() -> None:
    Path("sick").touch()
    assert finbench(*OWN, "out").returncode == 1
    Path("sick").unlink()
    done = finbench("score", "out", "--judge", "sick:Judge", "--out", "judged")
    assert done.returncode == 0, done.stderr
    assert about("judged")["judged_again"] == about("out")["digest"]
    assert about("judged")["failed_judgements"] == 0
    for command in (
        ("score", "judged"),
        ("report", "judged"),
        ("compare", "out", "judged"),
        ("export", "judged", "--format", "fintoolbench", "--out", "traces.jsonl"),
    ):
        read = finbench(*command)
        assert read.returncode == 0, read.stderr
    assert json.loads(Path("judged/metrics.json").read_text())["SoftScore"] == 1
    refused = finbench("score", "out", "--judge", "rules", "--out", "judged")
    assert (refused.returncode, "it exists already" in refused.stderr) == (1, True)

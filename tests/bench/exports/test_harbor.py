"""Tasks for Harbor: read by its own models, solved and scored by their own scripts.

A folder stands for the container. HARBOR's models are read from its wheel in TEST_ENVIRONMENTS,
without the rest of it, which needs Python 3.12.
"""

import asyncio
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

from bench.exports.harbor import HEAD, name_of
from bench.exports.scoring import tool_calls
from bench.rollouts import Rollouts
from bench.runs.reader import Run
from bench.task import Task
from gateway import CallRecord
from tests.support.commands import finbench, finbench_in, serving
from tests.support.markets import write_market

WHEELS = [*Path(os.environ.get("TEST_ENVIRONMENTS", "no")).glob("harbor/harbor-*.whl")]

READ = """
import sys, types, typing
wheel, *folders = sys.argv[1:]
typing.override = lambda method: method
sys.path.insert(0, wheel)
for name in ("harbor", "harbor.models", "harbor.models.task", "harbor.utils"):
    package = types.ModuleType(name)
    package.__path__ = [wheel + "/" + name.replace(".", "/")]
    sys.modules[name] = package
sys.modules["toml"] = types.ModuleType("toml")  # which writes, and is not asked to
from harbor.models.task.task import Task
for folder in folders:
    task = Task(folder)
    (server,) = task.config.environment.mcp_servers
    assert Task.is_valid_dir(folder)
    print(task.name, task.config.schema_version, server.transport, server.url)
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tasks of three suites in Harbor's form, and the run of one of them."""
    folder = tmp_path_factory.mktemp("harbor")
    no_akshare = ",".join(f"fintrace-sample_{n}" for n in (0, 1, 2, 3, 6, 8))
    options = (
        *("--upstream", "simulated", "--simulated-failure-rate", "0.2", "--out", "run"),
        *("--tasks", no_akshare, "--wrong-tool-rate", "0"),
    )
    for command in (
        ("tasks", "make", "--n", "6", "--out", "tasks.jsonl"),
        ("run", "fintrace-sample", "--episodes", "60", *options),
        ("export", "tasks.jsonl", "--format", "harbor", "--out", "generated"),
        ("export", "run", "--format", "harbor", "--out", "fintrace"),
    ):
        done = finbench_in(folder, *command)
        assert done.returncode == 0, done.stderr
    return folder


@dataclass
class Container:
    """A folder that stands for the container of a task, and the gateway beside it."""

    place: Path
    url: str

    def run(self, script: Path) -> subprocess.CompletedProcess[str]:
        own = {
            "GATEWAY_URL": self.url,
            "RECORDS_DIR": str(self.place / "records"),
            "ANSWER_FILE": str(self.place / "answer.txt"),
            "VERIFIER_DIR": str(self.place / "logs"),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }
        kept = {n: v for n, v in os.environ.items() if not n.startswith("FINPORT_")}
        return subprocess.run(
            ["/bin/sh", str(script)],
            env={**kept, **own},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def score_here(self, task: Path) -> subprocess.CompletedProcess[str]:
        """What `tests/test.sh` runs, in this process."""
        records, given = self.place / "records", {"--answer": self.place / "answer.txt"}
        given |= {"--trace": records / "calls.jsonl", "--out": self.place / "logs"}
        given |= {"--snapshot": records / "answers.snapshot"}
        options = [str(word) for option in given.items() for word in option]
        return finbench("score-answer", str(task / "tests" / "task.json"), *options)

    def answered(self, text: str) -> None:
        (self.place / "answer.txt").write_text(text)

    @property
    def reward(self) -> float | None:
        file = self.place / "logs" / "reward.txt"
        return float(file.read_text()) if file.exists() else None

    @property
    def score(self) -> dict[str, object]:
        read: dict[str, object] = json.loads((self.place / "logs" / "score.json").read_text())
        return read

    def forget(self) -> None:
        """Another episode begins."""
        (self.place / "records" / "calls.jsonl").write_bytes(b"")


@pytest.fixture
def container(tmp_path: Path) -> Iterator[Container]:
    with started(tmp_path) as made:
        yield made


@contextmanager
def started(folder: Path, **variables: str) -> Iterator[Container]:
    """A gateway with the command of the compose file."""
    records = folder / "records"
    records.mkdir()
    kept = ("--snapshot", records / "answers.snapshot", "--trace", records / "calls.jsonl")
    with serving(folder, "--mode", "record", *map(str, kept), **variables) as (_, url):
        yield Container(folder, url)


def test_the_oracle_earns_the_reward_and_a_wrong_answer_none(
    exported: Path, container: Container
) -> None:
    for suite in ("fintrace", "generated"):
        first, second = sorted((exported / suite).iterdir())[:2]
        for task in (first, second):
            container.forget()
            done = container.run(task / "solution" / "solve.sh")
            assert done.returncode == 0, done.stderr
            test = task / "tests" / "test.sh"
            done = container.run(test) if task == first else container.score_here(task)
            assert done.returncode == 0, done.stderr
            assert container.reward == 1.0, (task.name, container.score)
    figures = container.score["figures"]
    assert isinstance(figures, dict)
    assert figures.get("StepCredit", 1.0) == 1.0
    container.answered("17.5")
    done = container.score_here(second)
    assert (done.returncode, container.reward) == (0, 0.0), done.stderr
    (container.place / "answer.txt").unlink()
    done = container.score_here(second)
    assert (done.returncode, container.reward) == (0, 0.0), done.stderr


def test_an_outage_has_no_reward(exported: Path, tmp_path: Path) -> None:
    task = min((exported / "generated").iterdir())
    with started(tmp_path, FINPORT_SIMULATED_FAILURE_RATE="1") as container:
        (tmp_path / "logs").mkdir()
        (tmp_path / "logs" / "reward.txt").write_text("1.0")
        assert container.run(task / "solution" / "solve.sh").returncode != 0
        container.answered("17.5")
        done = container.run(task / "tests" / "test.sh")
        assert (done.returncode, container.reward) == (1, None)
        assert "no reward, an outage" in done.stderr
        assert container.score["outage"]
        elsewhere = Container(tmp_path / "elsewhere", container.url)
        done = elsewhere.score_here(task)
        assert (done.returncode, elsewhere.reward) == (1, None)
        assert "the gateway left no trace" in done.stderr


def test_task_files_say_what_harbor_reads(exported: Path) -> None:
    for task in (exported / "generated").iterdir():
        read = tomllib.loads((task / "task.toml").read_text())
        assert read["schema_version"] == "1.4"
        assert {"metadata", "verifier", "agent", "environment", "task"} <= read.keys()
        (server,) = read["environment"]["mcp_servers"]
        tools = read["metadata"]["tools"]
        assert server["url"].endswith(f"/mcp?tools=names:{','.join(tools)}")
        scored = json.loads((task / "tests" / "task.json").read_text())
        assert scored["task"]["question"] in (task / "instruction.md").read_text()
        gold = (task / "solution" / "answer.txt").read_text()
        assert gold
        compose = (task / "environment" / "docker-compose.yaml").read_text()
        assert 'FINPORT_SIMULATED_NOW: "2026-06-30"' in compose
        assert os.access(task / "tests" / "test.sh", os.X_OK)


@pytest.mark.skipif(not WHEELS, reason="TEST_ENVIRONMENTS has no wheel of Harbor; .ci/run gets it")
def test_harbors_own_models_read_the_tasks(exported: Path) -> None:
    folders = [*(exported / "generated").iterdir(), *(exported / "fintrace").iterdir()]
    command = [sys.executable, "-c", READ, str(WHEELS[0]), *map(str, folders)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(folders)
    assert all(line.split()[1:3] == ["1.4", "streamable-http"] for line in lines)


def test_a_run_earns_the_same_by_its_trace(exported: Path) -> None:
    done = finbench("score-answer", str(exported / "run"))
    assert done.returncode == 0, done.stderr
    found = {one["episode"]: one for one in map(json.loads, done.stdout.splitlines())}

    async def compare() -> None:
        async with Rollouts.open("fintrace-sample") as rollouts:
            for record, _ in Run.open(exported / "run").episodes():
                score, one = await rollouts.score(record), found.pop(record.episode)
                assert (one["reward"], one["outage"]) == (score.reward, score.outage)
                assert one["figures"] == dict(score.figures)

    asyncio.run(compare())
    assert not found


def test_an_export_replaces_only_its_own(exported: Path, tmp_path: Path) -> None:
    tasks, out = str(exported / "tasks.jsonl"), tmp_path / "out"
    command = ("export", tasks, "--format", "harbor", "--out", str(out))
    assert finbench(*command, "--json").returncode == 0
    assert finbench(*command).returncode == 1
    assert finbench(*command, "--force").returncode == 0
    (out / "mine").mkdir()
    (out / "mine" / "notes").write_text("mine")
    done = finbench(*command, "--force")
    assert done.returncode == 1
    assert "'mine', which is of no export" in done.stderr


def test_what_harbor_cannot_play_is_refused(exported: Path, tmp_path: Path) -> None:
    market = write_market(tmp_path / "market")
    out = ("--format", "harbor", "--out", str(tmp_path / "out"))
    done = finbench("export", str(market), "--suite", "investorbench", *out)
    assert done.returncode == 1
    assert "plays in sessions" in done.stderr
    Path("own.jsonl").write_text("{}\n")  # in the test's own folder
    done = finbench("export", "own.jsonl", *out)
    assert done.returncode == 1
    done = finbench("export", str(exported / "tasks.jsonl"), "--format", "sft", "--out", "x")
    assert done.returncode == 2
    assert "takes a run's directory" in done.stderr
    done = finbench(
        "export", str(exported / "run"), "--format", "atif", "--out", "x", "--dataset", "own.jsonl"
    )
    assert done.returncode == 2
    assert "--dataset is for --format harbor" in done.stderr


def test_score_answer_says_what_it_wants(exported: Path, tmp_path: Path) -> None:
    task = min((exported / "generated").iterdir()) / "tests" / "task.json"
    assert "wants --answer" in finbench("score-answer", str(task)).stderr
    given = ("--answer", "a", "--trace", "t", "--snapshot", "s", "--out", str(tmp_path / "o"))
    done = finbench("score-answer", str(exported / "run"), *given)
    assert "--answer is for a TASK.json" in done.stderr
    wrong = tmp_path / "task.json"
    wrong.write_text('{"suite": "generated"}')
    done = finbench("score-answer", str(wrong), *given)
    assert done.returncode == 2
    assert "task" in done.stderr


@pytest.mark.parametrize("id_", ["../x", "a/b", "", "..", "x" * 200, "股票.0", "a..b", "ends."])
def test_names_of_folders_are_harbors(id_: str) -> None:
    name = name_of(id_)
    assert name
    assert name.isascii()
    assert not {"/", "~"} & {*name}
    assert ".." not in name
    assert name[0].isalnum()
    assert name != name_of(f"{id_}!")
    assert name_of("starter_0.1") == "starter_0.1"
    assert orjson.dumps(Task(id=id_, category="", question="", tools=()).model_dump())
    assert HEAD.startswith(b"#")


def test_calls_that_overlap_are_a_round() -> None:
    def call(id_: str, at: float, elapsed_ms: float) -> CallRecord:
        return CallRecord(
            *(id_, at, "t", None, {}, True, None, None, None, "live", "live", 0.0, 1),
            *(elapsed_ms, None, None, 2, None, None),
        )

    made = [call("c", 13.5, 10), call("a", 10.0, 2000), call("b", 11.0, 2000), call("d", 13.6, 1)]
    found = tool_calls(made, {"a": "[1]"})
    assert [(one.call_id, one.step) for one in found] == [("a", 1), ("b", 1), ("c", 2), ("d", 3)]
    assert found[0].observed == "[1]"
    assert found[1].observed is None

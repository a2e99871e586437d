"""Agents by name, and the settings that a run takes from the command line."""

import json
import signal
import sys
from codecs import BOM_UTF8
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bench.agents.declaration import AgentSettingsError
from bench.agents.registry import AgentSettings, open_agent
from bench.cli.main import main
from bench.models.settings import ModelSettings
from bench.suites import load_suite
from gateway.cli.main import main as finport
from manifests import Catalog
from tests.support.runs import about, lines_of

OWN = """
import asyncio, os, signal
from finport import Turn

class Silent:
    name = "silent"

    async def act(self, episode):
        return Turn(answer=f"{len(episode.tools)} tools")

class NoName:
    async def act(self, episode): ...

class NoAct:
    name = "x"

class NoKey:
    def __init__(self):
        raise RuntimeError("a key is missing")

class Leaving:
    def __init__(self):
        raise SystemExit(0)

class Broken:
    name = "broken"

    async def act(self, episode):
        raise RuntimeError("[/odd] words")

class Sync:
    name = "sync"

    def act(self, episode):
        return Turn(answer="x")

class CtrlC:
    name = "ctrl-c"

    async def act(self, episode):
        if episode.task.id in ("starter_0", "starter_1"):
            await asyncio.sleep(0.05 * (episode.task.id == "starter_1"))
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(9)
        return Turn(answer="x")
"""


LAZY = """
from finport import Turn

class Agent:
    name = "lazy"

    async def act(self, episode):
        import beside, statistics
        from parts.inner import INNER
        return Turn(answer=f"{beside.WORD} {INNER} {statistics.mean([1, 3])}")
"""

WITH_MODEL = ("--agent", "llm", "--model", "m", "--base-url", "http://127.0.0.1:1/v1")


def run(*options: str) -> Any:
    return CliRunner().invoke(main, ["run", "starter", "--upstream", "simulated", *options])


def test_an_agent_of_ones_own_is_offered_what_the_search_finds(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    done = run("--agent", "mine:Silent", "--top-k", "7", "--episodes", "3", "--out", "out")
    assert done.exit_code == 0, done.output
    records = lines_of("out/episodes.jsonl")
    assert {record["execution_result"] for record in records} == {"7 tools"}
    assert all(len(record["candidate_tools"]) == 7 for record in records)
    said = about("out")
    assert (said["agent"], said["top_k"], said["agent_is_simulated"]) == (
        *("mine:Silent", 7),
        False,
    )
    labelled = run("--agent", "mine:Silent", "--top-k", "0", "--episodes", "1", "--out", "few")
    assert labelled.exit_code == 0, labelled.output
    (record,) = lines_of("few/episodes.jsonl")
    assert record["candidate_tools"] == record["labelled_tools"]


def test_an_agent_may_import_its_siblings_late_and_they_shadow_nothing(tmp_path: Path) -> None:
    (tmp_path / "lazy.py").write_text(LAZY)
    (tmp_path / "beside.py").write_text("WORD = 'sibling'")
    for name in ("statistics.py", "bench.py"):
        (tmp_path / name).write_text("raise RuntimeError('shadowed')")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/inner.py").write_text("INNER = 'inner'")
    before = list(sys.path)
    done = run("--agent", "lazy:Agent", "--top-k", "0", "--episodes", "2", "--out", "out")
    assert done.exit_code == 0, done.output
    records = lines_of("out/episodes.jsonl")
    assert {record["execution_result"] for record in records} == {"sibling inner 2"}
    assert sys.path == before


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("exits:Agent", "exits:Agent: exits.py:1: SystemExit: 3"),
        ("lacks:Agent", "lacks:Agent: lacks.py:1: No module named 'nowhere'"),
        ("mine:Nobody", "mine:Nobody: module 'mine' has no attribute 'Nobody'"),
        ("nowhere:Agent", "nowhere:Agent: No module named 'nowhere'"),
        ("torn:Agent", "torn:Agent: SyntaxError: "),
        ("mine:NoName", "it has no `name`"),
        ("mine:NoAct", "it has no method `act`"),
        ("mine:Sync", "its method `act` is no coroutine: write `async def act`"),
        ("mine:NoKey", "mine:NoKey: mine.py:19: RuntimeError: a key is missing"),
        ("mine:Leaving", "mine:Leaving: mine.py:23: SystemExit: 0"),
        ("../mine:Silent", "it is neither `module:Name`"),
        ("mine.py:Silent", "it is neither `module:Name`"),
        (":Silent", "it is neither `module:Name`"),
        ("mine:", "it is neither `module:Name`"),
    ],
)
def test_an_agent_that_is_none_is_told_before_anything_is_written(
    name: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    (tmp_path / "torn.py").write_text("class Agent(:")
    (tmp_path / "exits.py").write_text("raise SystemExit(3)")
    (tmp_path / "lacks.py").write_text("import nowhere")
    done = run("--agent", name, "--out", "out")
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--agent", "gpt"),
            "there are: scripted, replay, solver, llm, fatr, buy-and-hold, random,",
        ),
        (("--agent", "llm", "--model", "m"), "wants --model and --base-url"),
        (("--agent", "llm", "--model", "m", "--base-url", "http://a:b@c/v1"), "FINBENCH_MODEL_KEY"),
        (("--base-url", "http://:planted@c/v1"), "without credentials or query"),
        (("--base-url", "http://c/v1?key=planted"), "without credentials or query"),
        (("--base-url", "127.0.0.1:8100/v1"), "--base-url wants http://HOST:PORT/PATH"),
        (("--base-url", "ftp://c/v1"), "--base-url wants http://HOST:PORT/PATH"),
        (("--base-url", "http://[::1"), "--base-url wants http://HOST:PORT/PATH"),
        (("--base-url", "http://c:99999/v1"), "--base-url wants http://HOST:PORT/PATH"),
        (("--gateway", "http://a:planted@c"), "--gateway wants a URL without credentials"),
        (("--max-wall-s", "nan"), "'nan' is not a finite number"),
        (("--starts-per-s", "inf"), "'inf' is not a finite number"),
        (("--manifests", "empty.jsonl"), "empty.jsonl holds no manifests"),
        (("--agent", "replay"), "--trace names"),
        (("--judge", "llm"), "--judge llm wants --judge-model and --judge-base-url"),
        (("--resume",), "--resume wants --out"),
        (("--seed", str(2**64)), f"is not in the range -{2**53}<=x<={2**53}"),
        (("--episodes", str(2**64)), f"is not in the range 1<=x<={2**53}"),
        (("--players", "2"), "--players and --dashboard are for --engine ray only"),
        (("--max-judge-s", "0"), "0.0 is not in the range x>=0.001"),
        (
            ("--judge", "llm", "--judge-model", "m", "--judge-base-url", "http://a:planted@c/v1"),
            "the key goes into FINBENCH_JUDGE_KEY",
        ),
        # options without effect
        ((*WITH_MODEL, "--think-s", "1"), "--think-s is for --agent scripted or solver only"),
        (("--temperature", "1"), "--temperature is for --agent llm or fatr or finmem only"),
        (("--stream",), "--stream is for --agent llm or fatr or finmem only"),
        ((*WITH_MODEL, "--hard-filter"), "--hard-filter is for --agent fatr only"),
        (("--model", "m"), "--model and --base-url are for"),
        (("--judge-repeats", "2"), "are for a judge with a model"),
        (("--upstream", "live", "--simulated-seed", "1"), "--simulated-seed: for --upstream sim"),
    ],
)
def test_settings_that_make_no_run_are_a_usage_error(options: tuple[str, ...], said: str) -> None:
    Path("empty.jsonl").write_text("\n")
    done = run(*options)
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())
    assert "planted" not in done.output


def test_at_the_end_it_is_told_why_episodes_failed(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    done = run("--agent", "mine:Broken", "--top-k", "0", "--episodes", "2", "--out", "out")
    assert done.exit_code == 1, "an agent that fails in all episodes was not measured"
    assert "endings: agent_error 2\n" in done.output
    why = "agent: mine.py:29: RuntimeError: [/odd] words"
    assert f"the first agent_error: {why}\n" in done.output
    assert f"finbench: the agent failed in all 2 episodes; the first: {why}\n" in done.output


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("episodes", "said"), [("1", "nothing was finished"), ("9", "is in out, --resume goes on")]
)
def test_a_run_that_is_told_to_end_says_what_is_left(
    episodes: str, said: str, how: signal.Signals, tmp_path: Path
) -> None:
    own = OWN.replace("SIGINT", how.name)
    if episodes == "9":
        own = own.replace('("starter_0", "starter_1")', '("starter_1",)')
    (tmp_path / "ending.py").write_text(own)
    before = signal.getsignal(how)
    done = run("--agent", "ending:CtrlC", "--top-k", "0", "--episodes", episodes, "--out", "out")
    assert done.exit_code == 128 + how
    assert said in done.output
    assert Path("out").exists() == ("--resume" in said)
    assert signal.getsignal(how) is before


def test_a_tool_that_is_labelled_twice_is_offered_once(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    tools = [{"name": name} for name in ("get_coin", "get_coin")]
    task = {"id": "a", "category": "c", "question": "q", "tools": tools}
    Path("tasks.jsonl").write_text(json.dumps(task))
    done = run(
        *("--dataset", "tasks.jsonl", "--agent", "mine:Silent", "--top-k", "0", "--out", "out")
    )
    assert done.exit_code == 0, done.output
    (record,) = lines_of("out/episodes.jsonl")
    assert record["candidate_tools"] == ["get_coin"]


@pytest.mark.anyio
async def test_what_must_be_equal_to_compare_is_told_and_no_key(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "planted-model-key")
    settings = AgentSettings.of(
        "fatr", {"hard_filter": True}, model=ModelSettings("m", "http://127.0.0.1:9/v1")
    )
    about = settings.about()
    assert (
        AgentSettings.of("llm", model=ModelSettings("m", "http://c/v1/")).about()["base_url"]
        == "http://c/v1"
    )
    assert (about["model"], about["hard_filter"], about["inject"]) == ("m", True, True)
    async with open_agent(settings, catalog) as agent:
        assert agent.name == "fatr"
    assert "planted" not in json.dumps(about)
    with pytest.raises(AgentSettingsError):
        AgentSettings.of("llm")


def test_published_questions_are_read_by_path(questions: Path) -> None:
    suite = load_suite("fintoolbench", questions)
    assert len(suite.tasks) == len({task.id for task in suite.tasks}) == 295
    assert sum(len(task.tools) == 1 for task in suite.tasks) == 166
    sources = [task.source_dataset for task in suite.tasks]
    assert (sources.count("openfindata_release"), sources.count("financebench")) == (252, 43)
    assert suite.tasks[0].id == f"{suite.tasks[0].source_dataset}_0"
    assert sum(task.answer == "nan" for task in suite.tasks) == 18


def test_tools_come_from_a_published_manifest_file(
    facts: list[dict[str, Any]], tmp_path: Path
) -> None:
    exported = CliRunner().invoke(
        finport,
        ["manifests", "export", "--format", "fintoolbench", "--out", "tools.jsonl"],
    )
    assert exported.exit_code == 0, exported.output
    lines = (tmp_path / "tools.jsonl").read_bytes().splitlines(keepends=True)
    assert len(lines) == len(facts)
    (tmp_path / "some.jsonl").write_bytes(BOM_UTF8 + b"".join(lines[:300]))
    done = run("--manifests", "some.jsonl", "--episodes", "4", "--out", "out", "--json")
    assert done.exit_code == 0, done.output
    said = about("out")
    assert said["catalog_revision"] != Catalog.load().revision

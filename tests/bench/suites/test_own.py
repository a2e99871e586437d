"""Suites, agents and judges of a user's own, named `module:Name`."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bench.cli.main import main
from bench.metrics.means import Means
from bench.suites.suite import Measured
from tests.support.records import episode

OWN = """
from dataclasses import dataclass
from finport import AgentType, Judgement, JudgeType, Measure, Measured, Metric, Suite, Task, Turn

@dataclass(frozen=True)
class Options:
    word: str = "yes"
    times: int = 1

class Sayer:
    name = "sayer"
    def __init__(self, options, parts):
        self.answer = options.word * options.times
    async def act(self, episode):
        return Turn(answer=self.answer)

SAYER = AgentType("sayer", "says a word", Sayer, Options)

class Length:
    name = "length"
    async def judge(self, record):
        return Judgement(self.name, "text", [min(len(record.execution_result) / 10, 1.0)])

class Known:
    def __init__(self, parts):
        self.name, self.tools = "known", len(parts.catalog)
    async def judge(self, record):
        return Judgement(self.name, "text", [float(self.tools > 700)])

class Words(Suite):
    title = "Words"
    metrics = (Metric("Score", "how long the answer is", is_judged=True, in_line=True),)
    measures = (Measure("Score"),)
    judges = (JudgeType("length", "", lambda parts: Length()), JudgeType("known", "", Known))

    @classmethod
    def read(cls, name, dataset):
        return [Task(id=f"w{n}", category="c", question="?", tools=()) for n in range(4)]

    @classmethod
    def offered(cls, task):
        return ()

    @classmethod
    def measured(cls, record, last_round):
        scores = record.judgement.scores if record.judgement else []
        return Measured(bool(scores and scores[0] > 0.5), {"Score": scores[0] if scores else None})

class Empty(Words):
    @classmethod
    def read(cls, name, dataset):
        return []

class Doubled(Words):
    @classmethod
    def read(cls, name, dataset):
        return 2 * super().read(name, dataset)
"""
WORDS = ("own_words:Words", "--agent", "own_words:SAYER", "--upstream", "simulated")


@pytest.fixture(autouse=True)
def _own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_words.py").write_text(OWN)


def finbench(*words: str) -> Any:
    return CliRunner().invoke(main, words)


def test_options_of_an_agent_are_typed_and_stand_in_the_settings_of_its_run() -> None:
    options = ("--agent-option", "word=no", "--agent-option", "times=3", "--out", "out")
    done = finbench("run", *WORDS, *options)
    assert done.exit_code == 0, done.output
    assert "Score" in done.output
    about = json.loads(Path("out/run.json").read_text())
    assert about["agent_options"] == {"word": "no", "times": 3}
    metrics = json.loads(Path("out/metrics.json").read_text())
    assert (metrics["Score"], metrics["passed"]) == (0.6, 4)
    other = finbench("run", *WORDS, "--out", "out", "--resume")
    assert other.exit_code == 1
    assert "agent_options.word was 'no' and is 'yes'" in other.output


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--agent-option", "volume=3"), "has no option 'volume'; there are: times, word"),
        (("--agent-option", "times=often"), "times: Input should be a valid integer"),
        (("--agent-option", "times"), "--agent-option wants NAME=VALUE"),
        (("--think-s", "1"), "--think-s is for --agent scripted only"),
        (("--top-k", "5"), "--top-k: the suite own_words:Words says which tools are offered"),
        (("--judge", "rules"), "there are: length, known, none, or `module:Name`"),
        (("--judge", "own_words:Nobody"), "module 'own_words' has no attribute 'Nobody'"),
        (("--judge", "own_words:Words"), "it is no JudgeType, and has no method `judge`"),
    ],
)
def test_settings_that_do_not_fit_are_a_usage_error(options: tuple[str, ...], said: str) -> None:
    done = finbench("run", *WORDS, *options, "--out", "out")
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("suite", "said"),
    [
        ("own_words:Nothing", "module 'own_words' has no attribute 'Nothing'"),
        ("own_words:SAYER", "it is no subclass of Suite"),
        ("own_words:Empty", "holds no tasks"),
        ("own_words:Doubled", "two tasks have the id w0"),
    ],
)
def test_a_suite_that_is_none_is_a_usage_error(suite: str, said: str) -> None:
    done = finbench("run", suite, "--upstream", "simulated")
    assert done.exit_code == 2
    assert said in done.output


def test_episodes_are_judged_anew_by_another_judge_of_the_suite_or_of_ones_own() -> None:
    assert finbench("run", *WORDS, "--judge", "none", "--out", "out").exit_code == 0
    scores = {}
    for judge in ("length", "known", "own_words:Length"):
        done = finbench("score", "out", "--judge", judge, "--json")
        assert done.exit_code == 0, done.output
        scores[judge] = json.loads(done.output)["Score"]
    assert scores == {"length": 0.3, "known": 1.0, "own_words:Length": 0.3}
    assert json.loads(finbench("score", "out", "--json").output)["Score"] is None


figures = st.none() | st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 1.0])


@given(st.lists(figures, max_size=30), st.integers(0, 30))
def test_merged_means_are_those_of_the_whole(values: list[float | None], cut: int) -> None:
    def means_of(part: list[float | None]) -> Means:
        given = iter(part)
        means = Means(["a"], lambda *_: Measured(True, {"a": next(given)}))
        for _ in part:
            means.add(episode(), [])
        return means

    merged = means_of(values[:cut])
    merged.merge(means_of(values[cut:]))
    assert merged.rates() == means_of(values).rates()
    known = [value for value in values if value is not None]
    assert merged.rates()["a"] == (
        pytest.approx(sum(known) / len(known), abs=1e-6) if known else None
    )
    assert merged.counts() == {"a": f"{len(known)} of {len(values)}"}

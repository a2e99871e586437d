"""Suites, agents and judges of a user's own, named `module:Name`."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bench.cli.main import main
from bench.metrics.means import Means, Measured
from tests.support.records import episode
from tests.support.runs import about, lines_of

OWN = """
import os
from dataclasses import dataclass
from finport import AgentType, Judgement, JudgeType, LabelledCall
from finport import Measure, Measured, Metric, Suite, Task, Turn

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

class Odd(Words):
    # The environment names what goes wrong.
    judges = (*Words.judges, JudgeType("odd", "", lambda parts: OddJudge()))

    @classmethod
    def offered(cls, task):
        match os.environ["ODD"]:
            case "offered":
                raise KeyError("t")
            case "no tool":
                return ("get_coins",)
        return ()

    @classmethod
    def measured(cls, record, last_round):
        match os.environ["ODD"]:
            case "measured":
                raise KeyError("m")
            case "large":
                return Measured(True, {"Score": 2.0})
            case "not a number":
                return Measured(True, {"Score": float("nan")})
            case "misspelt":
                return Measured(True, {"Scroe": 1.0})
        return super().measured(record, last_round)

class OddJudge:
    name = "odd"
    async def judge(self, record):
        match os.environ["ODD"]:
            case "raises":
                raise RuntimeError("boom")
            case "none":
                return None
            case "nan":
                return Judgement("odd", "text", [float("nan")])
            case "parts":
                return Judgement("odd", "text", [1.0], 0, [], ["x"])

class Unmeasured(Suite):
    title = "U"

    @classmethod
    def read(cls, name, dataset):
        return Words.read(name, dataset)

class Reserved(Words):
    metrics = (Metric("episodes", ""),)

class Twice(Words):
    metrics = 2 * Words.metrics

class Grouped(Words):
    groups = {"catgory": "Category"}

class Taken(Words):
    measures = (Measure("calls"),)

class Bare(Words):
    metrics = ()

class OfNoMetric(Words):
    measures = (Measure("Socre"),)

class Mislabelled(Words):
    @classmethod
    def read(cls, name, dataset):
        tools = (LabelledCall(name="get_coyn"),)
        return [Task(id="m", category="c", question="?", tools=tools)]

class Keyless:
    name = "keyless"
    def __init__(self, *parts):
        raise RuntimeError("a key is missing")
    async def judge(self, record): ...

KEYLESS = JudgeType("keyless", "", Keyless)

class Plain:
    name = "plain"
    def judge(self, record): ...

class Unreadable(Words):
    @classmethod
    def read(cls, name, dataset):
        return open("nowhere")

class Empty(Words):
    @classmethod
    def read(cls, name, dataset):
        return []

class Repeated(Words):
    @classmethod
    def read(cls, name, dataset):
        return 2 * super().read(name, dataset)
"""
OF_RUN = ("--suite", "own_words:Words")
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
    assert about("out")["agent_options"] == {"word": "no", "times": 3}
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
        (("--think-s", "1"), "--think-s is for --agent scripted or solver only"),
        (("--top-k", "5"), "--top-k: the suite own_words:Words says which tools are offered"),
        (("--judge", "rules"), "there are: length, known, none, or `module:Name`"),
        (("--judge", "own_words:Nobody"), "module 'own_words' has no attribute 'Nobody'"),
        (("--judge", "own_words:Words"), "it is no JudgeType, and has no method `judge`"),
        (("--judge", "own_words:Keyless"), "own_words.py:124: RuntimeError: a key is missing"),
        (("--judge", "own_words:KEYLESS"), "own_words.py:124: RuntimeError: a key is missing"),
        (("--judge", "own_words:Plain"), "`judge` is no coroutine: write `async def judge`"),
        (("--judge", "a/own_words:Plain"), "it is neither `module:Name`"),
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
        ("own_words:Unmeasured", "it has no method `measured`"),
        ("own_words:Reserved", "the name of the metric 'episodes' is reserved"),
        ("own_words:Bare", "its `metrics` are empty; name at least one Metric"),
        ("own_words:OfNoMetric", "the measure 'Socre' is of no metric; did you mean Score?"),
        ("own_words:Mislabelled", "with 'get_coyn', which is no tool; did you mean get_coin?"),
        ("./own_words:Words", "it is neither `module:Name`"),
        ("own_words:Twice", "the name of the metric 'Score' is given twice"),
        ("own_words:Grouped", "the group 'catgory' is no field of an episode's record; did you"),
        ("own_words:Taken", "the name of the measure 'calls' is reserved"),
        ("own_words:Unreadable", "FileNotFoundError"),
        ("own_words:Repeated", "two tasks have the id w0"),
    ],
)
def test_a_suite_that_is_none_is_a_usage_error(suite: str, said: str) -> None:
    done = finbench("run", suite, "--upstream", "simulated")
    assert done.exit_code == 2
    assert said in done.output


def test_a_judge_of_ones_own_can_t_change_what_it_judges() -> None:
    assert finbench("run", *WORDS, "--judge", "none", "--out", "out").exit_code == 0
    before = lines_of("out/episodes.jsonl")
    Path("mend.py").write_text(
        "from own_words import Length\n"
        "class Mending(Length):\n"
        "    async def judge(self, record):\n"
        "        judgement = await super().judge(record)\n"
        "        record.execution_result, record.tool_calls[:] = 'mended', []\n"
        "        return judgement\n"
    )
    done = finbench("score", "out", *OF_RUN, "--judge", "mend:Mending", "--out", "judged")
    assert done.exit_code == 0, done.output
    judged = lines_of("judged/episodes.jsonl")
    assert [other | {"judgement": None} for other in judged] == before


def test_episodes_are_judged_anew_by_another_judge_of_the_suite_or_of_ones_own() -> None:
    assert finbench("run", *WORDS, "--judge", "none", "--out", "out").exit_code == 0
    scores = {}
    for judge in ("length", "known", "own_words:Length"):
        done = finbench("score", "out", *OF_RUN, "--judge", judge, "--json")
        assert done.exit_code == 0, done.output
        scores[judge] = json.loads(done.output)["Score"]
    assert scores == {"length": 0.3, "known": 1.0, "own_words:Length": 0.3}
    assert json.loads(finbench("score", "out", *OF_RUN, "--json").output)["Score"] is None


@pytest.mark.parametrize("odd", ["raises", "none", "nan", "parts"])
def test_what_is_no_judgement_costs_itself_only(odd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODD", odd)
    run = ("own_words:Odd", *WORDS[1:], "--judge", "odd", "--out", "out")
    done = finbench("run", *run)
    assert done.exit_code == 1, "a judge that fails in all episodes judged nothing"
    assert "the judge failed on 4 of 4 episodes\n" in done.stdout
    assert "finbench: the judge failed in all 4 episodes; the first: " in done.stderr
    again = finbench("score", "out", "--suite", "own_words:Odd", "--judge", "odd", "--json")
    assert again.exit_code == 1, again.output
    judgements = [record["judgement"] for record in lines_of("out/episodes.jsonl")]
    assert [judgement["invalid"] for judgement in judgements] == [1, 1, 1, 1]
    assert all(judgement["error"] in done.stderr for judgement in judgements)
    figures = json.loads(again.stdout)
    assert (figures["episodes"], figures["failed_judgements"]) == (4, 4)


def test_a_judge_that_hangs_is_given_up_in_a_run_and_in_a_score() -> None:
    Path("slow.py").write_text(
        "import asyncio\n"
        "class Slow:\n"
        "    name = 'slow'\n"
        "    async def judge(self, record):\n"
        "        await asyncio.sleep(3_600)\n"
    )
    options = ("--judge", "slow:Slow", "--max-judge-s", "0.05")
    done = finbench("run", *WORDS, *options, "--out", "out")
    assert "the first judge: limit: 0.05 s have passed\n" in done.stdout
    assert about("out")["judge_s"] == 0.05
    errors = {record["judgement"]["error"] for record in lines_of("out/episodes.jsonl")}
    assert errors == {"limit: 0.05 s have passed"}
    scored = finbench("score", "out", *OF_RUN, *options)
    assert "the judge failed on 4 of 4 episodes\n" in scored.stdout
    assert scored.exit_code == done.exit_code == 1
    for form in ("parquet", "openinference", "atif"):
        assert finbench("export", "out", "--format", form, "--out", form).exit_code == 0
    assert finbench("report", "out", *OF_RUN).exit_code == 0
    assert "limit: 0.05 s have passed" in Path("out/report.html").read_text()


@pytest.mark.parametrize(
    ("odd", "code", "said"),
    [
        ("measured", 1, "Odd: episode w0.0: own_words.py:68: KeyError: 'm'"),
        ("large", 1, "Score is 2.0, not from 0 to 1"),
        ("not a number", 1, "Score is nan, not from 0 to 1"),
        ("misspelt", 1, "the figure 'Scroe', which is no metric or measure; did you mean Score?"),
        ("offered", 2, "the tools of task w0: own_words.py:59: KeyError: 't'"),
        ("no tool", 2, "offers 'get_coins', which is no tool; did you mean get_coin?"),
    ],
)
def test_a_suite_that_fails_ends_its_run_with_the_reason(
    odd: str, code: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODD", odd)
    done = finbench("run", "own_words:Odd", *WORDS[1:], "--out", "out")
    assert done.exit_code == code
    assert said in done.output
    assert "Traceback" not in done.output


def test_a_run_directory_has_nothing_imported(tmp_path: Path) -> None:
    assert finbench("run", *WORDS, "--out", "out").exit_code == 0
    Path("out/run.json").write_text(json.dumps({**about("out"), "suite": "planted:Suite"}))
    (tmp_path / "planted.py").write_text("open('was_run', 'w').close()")
    for command, *options in (
        ("score",),
        ("report",),
        ("compare", "out"),
        ("export", "--format", "words", "--out", "x"),
    ):
        done = finbench(command, "out", *options)
        assert done.exit_code == 2, command
        assert "--suite planted:Suite" in " ".join(done.output.split())
        finbench(command, "out", *options, *OF_RUN)
        assert not Path("was_run").exists(), command


def test_a_suite_may_import_its_siblings_late() -> None:
    Path("late_suite.py").write_text(
        "from own_words import Words\n"
        "class Late(Words):\n"
        "    @classmethod\n"
        "    def measured(cls, record, last_round):\n"
        "        import late_sibling\n"
        "        return late_sibling.measured(super(), record)\n"
    )
    Path("late_sibling.py").write_text("def measured(of, record): return of.measured(record, [])")
    of_suite = ("--suite", "late_suite:Late")
    for command in (
        ("run", "late_suite:Late", *WORDS[1:], "--out", "out"),
        ("score", "out", *of_suite),
        ("report", "out", *of_suite),
        ("compare", "out", "out", *of_suite),
    ):
        sys.modules.pop("late_sibling", None)
        done = finbench(*command)
        assert done.exit_code == 0, done.output


def test_parts_of_a_run_have_one_judge_and_no_secret_of_an_agent_is_written() -> None:
    Path("secret_agent.py").write_text(
        "from dataclasses import dataclass\n"
        "from finport import AgentType\nfrom own_words import Sayer\n"
        "@dataclass(frozen=True)\nclass Options:\n"
        "    api_key: str = ''\n    word: str = 'x'\n    times: int = 1\n"
        "KEYED = AgentType('keyed', '', Sayer, Options)\n"
    )
    run = ("own_words:Words", "--agent", "secret_agent:KEYED", "--upstream", "simulated")
    first = finbench("run", *run, "--agent-option", "api_key=12345", "--out", "out")
    assert first.exit_code == 0, first.output
    assert "12345" not in Path("out/run.json").read_text() + first.output
    other = finbench("run", *run, "--judge", "own_words:Length", "--out", "out", "--resume")
    assert other.exit_code == 1
    assert "judge was 'length' and is 'own_words:Length'" in other.output


figures = st.none() | st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 1.0])


@given(st.lists(figures, max_size=30), st.integers(0, 30))
def test_merged_means_are_those_of_the_whole(values: list[float | None], cut: int) -> None:
    def means_of(part: list[float | None]) -> Means:
        given = iter(part)
        means = Means({"a": (0, 1)}, lambda *_: Measured(True, {"a": next(given)}))
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

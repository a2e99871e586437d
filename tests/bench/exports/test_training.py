"""Training data from runs, held against the runs and against what the model was asked."""

import json
import os
import random
import socket
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from anyio import open_process, run_process, to_thread

from bench.agents.conversation import ANSWER_NOW, LAST_WORD
from bench.agents.registry import AgentSettings
from bench.models.settings import ModelSettings
from bench.record import EpisodeRecord, ToolVerdict
from bench.runs.driver import Limits
from bench.runs.run import RunPlan, run
from bench.suites.fintoolbench.suite import LabelledTasks
from bench.task import LabelledCall, Task
from gateway import GatewaySettings
from manifests import Catalog
from tests.support.checkout import ROOT
from tests.support.commands import finbench
from tests.support.installed import NODE_MODULES
from tests.support.played_model import playing, says
from tests.support.redis_server import free_port
from tests.support.runs import call, episode, failing, write_run
from tests.support.waiting import until

ENVIRONMENT = os.environ.get("TEST_TRAINING")
"""The Python environment with TRL, which `.ci/run` installs."""

TOKENIZER = NODE_MODULES / "@lenml" / "tokenizer-qwen2_5" / "models"

ROUNDS = 3
COIN = ("get_coin", {"uuid": "Qwsogvtv82FCd"})
RATES = ("rates", {"base": "EUR"})
WRONG = ("get_coins", {"uuid": "x"})

SAID: dict[str, tuple[list[Any], list[Any]]] = {
    "What does Bitcoin cost?": (
        [says("Let me look.", COIN), says("65,000 USD")],
        [says("It is 1 USD.")],  # made up: no call
    ),
    "List the rates of the euro.": (
        [says(None, RATES, COIN), says(None, RATES), says("1.1 USD\u2028and more: €")],
        [says(None, WRONG), says("There is no such tool.")],
    ),
    "欧元汇率是多少？": (
        [says(None, RATES), says(None, COIN), says(""), says("1.1")],  # is asked once more
        [says(None, RATES), says(None, RATES), says(None, COIN), says("1.1 at last")],  # is told to
    ),
    "Is there a task that both solve alike?": (
        [says(None, COIN), says("yes")],
        [says(None, COIN), says("yes")],
    ),
    "Which one is refused?": (
        [says(None, ("get_coin", {"uuid": "x", "api_key": "planted"})), says("Nothing.")],
        [says("I can't.", finish="content_filter")],
    ),
    "Which one stays empty?": (
        [says(None, COIN), says(""), says("")],
        [says(None, ("get_coin", "{uuid")), says(None, COIN), says("Cut off.")],
    ),
}
QUESTIONS = list(SAID)


@dataclass
class Played:
    """A run, and by question the last request that the model got."""

    folder: Path
    asked: dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
async def played(
    catalog: Catalog, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Played, Played]:
    """Two runs of the agent `llm` over the simulated upstream, in which the model says `SAID`."""
    folder = tmp_path_factory.mktemp("training")
    labels = (LabelledCall(name="get_coin", arguments={}), LabelledCall(name="rates", arguments={}))
    tasks = (
        Task(id=f"t{n}", category="crypto", question=question, tools=labels)
        for n, question in enumerate(QUESTIONS)
    )
    suite = LabelledTasks("mine", tuple(tasks))
    made = []
    for side in (0, 1):
        asked: dict[str, dict[str, Any]] = {}

        async def plan(body: dict[str, Any], side: int = side, asked: Any = asked) -> Any:
            question = body["messages"][1]["content"]
            told = sum(message["role"] == "assistant" for message in body["messages"])
            asks_again = ANSWER_NOW in body["messages"][-1]["content"]
            asked[question] = body
            return SAID[question][side][told + asks_again]

        async with playing() as model:
            model.plan = plan
            await run(
                RunPlan(
                    suite,
                    "embedded",
                    len(tasks_of := suite.tasks),
                    len(tasks_of),
                    agent=AgentSettings.of("llm", model=ModelSettings("played", model.url)),
                    limits=Limits(rounds=ROUNDS),
                    top_k=0,
                ),
                folder / f"run{side}",
                GatewaySettings(upstream="simulated", cache_dir=folder / "cache"),
                show=False,
                catalog=catalog,
            )
        made.append(Played(folder / f"run{side}", asked))
    return made[0], made[1]


def exported(form: str, out: Path, *arguments: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The lines of both files, and what the command says as JSON."""
    options = ("--format", form, "--out", str(out), "--json")
    done = finbench("export", *map(str, arguments), *options)
    assert done.returncode == 0, done.stderr
    files = {side: lines(out, side) for side in ("train", "test")}
    told = json.loads(done.stdout)
    assert {side: len(made) for side, made in files.items()} == {s: told[s] for s in files}
    return files["train"] + files["test"], told


def lines(out: Path, side: str) -> list[dict[str, Any]]:
    file = out / f"{side}.jsonl"
    text = file.read_bytes() if file.exists() else b""
    return [json.loads(line) for line in text.splitlines()]


def question_of(line: dict[str, Any]) -> str:
    messages = line.get("messages") or line["prompt"]
    return str(next(m["content"] for m in messages if m["role"] == "user"))


def as_sent(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages as the agent sends them to a model, but for the ids that the model chose."""
    sent = []
    for message in messages:
        plain = {k: v for k, v in message.items() if k not in ("name", "tool_call_id")}
        if "tool_calls" in message:
            plain["content"] = message["content"] or None
            functions = [made["function"] for made in message["tool_calls"]]
            plain["tool_calls"] = [(f["name"], arguments_of(f)) for f in functions]
        sent.append(plain)
    return sent


def arguments_of(function: dict[str, Any]) -> Any:
    given = function["arguments"]
    return json.loads(given) if isinstance(given, str) else given


@pytest.mark.anyio
async def test_a_conversation_is_what_the_model_was_sent_and_said(
    played: tuple[Played, Played], tmp_path: Path
) -> None:
    for side, made in enumerate(played):
        found, _ = exported("sft", tmp_path / str(side), made.folder)
        assert len(found) == (4, 2)[side]
        text = json.dumps([line["messages"] for line in found])
        assert (ANSWER_NOW in text, LAST_WORD in text) == ((True, False), (False, True))[side]
        assert "planted" not in text
        for line in found:
            asked = made.asked[question_of(line)]
            *before, answer = line["messages"]
            assert as_sent(before) == as_sent(asked["messages"])
            said = SAID[question_of(line)][side][-1]["content"]
            assert answer == {"role": "assistant", "content": said}
            assert line["tools"] == asked["tools"]


@pytest.mark.anyio
async def test_what_is_simulated_is_said_and_stands_beside_the_data(
    played: tuple[Played, Played], tmp_path: Path
) -> None:
    runs, out = [str(made.folder) for made in played], tmp_path / "sft"
    for options in ((), ("--force",)):
        done = finbench("export", *runs, "--format", "sft", "--out", str(out), *options)
        assert done.returncode == 0, done.stderr
    said = "answers are simulated, so no figure tells of real tools"
    assert done.stderr == "".join(f"finbench: {run}: {said}\n" for run in runs)
    card = (out / "README.md").read_text()
    assert card == f"# Simulated training data\n\n- in 2 of 2 runs: {said}\n"


@pytest.mark.anyio
async def test_calls_and_results_have_the_form_of_chat_templates(
    played: tuple[Played, Played], tmp_path: Path
) -> None:
    found, _ = exported("sft", tmp_path / "out", played[0].folder)
    (line,) = (line for line in found if "rates of the euro" in question_of(line))
    roles = [message["role"] for message in line["messages"]]
    first = ["assistant", "tool", "tool"]
    assert roles == ["system", "user", *first, "assistant", "tool", "assistant"]
    calls = line["messages"][2]["tool_calls"]
    assert calls[0] == {
        "id": "call00000",
        "type": "function",
        "function": {"name": "rates", "arguments": {"base": "EUR"}},
    }
    results = line["messages"][3:5]
    assert [result["tool_call_id"] for result in results] == [made["id"] for made in calls]
    assert [result["name"] for result in results] == ["rates", "get_coin"]
    assert all(0 < len(result["content"]) <= 500 for result in results), "shortened, as it was read"
    assert line["messages"][-1]["content"] == "1.1 USD\u2028and more: €"


@pytest.mark.anyio
async def test_pairs_are_those_of_the_tasks_in_which_one_run_is_better(
    played: tuple[Played, Played], tmp_path: Path
) -> None:
    a, b = (made.folder for made in played)
    found, told = exported("dpo", tmp_path / "dpo", a, b)
    assert sorted(map(question_of, found)) == sorted(QUESTIONS[:2])
    for line in found:
        assert set(line) == {"prompt", "chosen", "rejected", "tools"}
        asked = played[0].asked[question_of(line)]
        assert as_sent(line["prompt"]) == as_sent(asked["messages"][:2])
        assert as_sent(line["chosen"][:-1]) == as_sent(asked["messages"][2:])
        worse = SAID[question_of(line)][1][-1]["content"]
        assert line["rejected"][-1] == {"role": "assistant", "content": worse}
        assert line["tools"] == asked["tools"]
    assert told == {
        "out": str(tmp_path / "dpo"),
        "format": "dpo",
        "score": "TESR",
        "episodes": 12,
        "pairs": 2,
        "train": told["train"],
        "test": told["test"],
        "left_out": {
            "no_answer": 1,
            "not_recorded": 2,
            "duplicate": 1,
            "single": 2,
            "small_margin": 1,
        },
    }
    text = finbench("export", str(a), str(b), "--format", "dpo", "--out", str(tmp_path / "again"))
    assert text.stdout.endswith(
        "by TESR; left out: 1 episodes without an answer, 2 episodes with calls or results that "
        "the record lacks, 1 duplicates of other episodes, 2 tasks with one episode only, 1 pairs "
        "with too small a margin\n"
    )


def scored(number: int, score: float | None, answer: str, **more: Any) -> EpisodeRecord:
    """An episode of a task with a score of its judge, and an answer by which it is known."""
    scores = [] if score is None else [score]
    made = episode(number, call(), scores=scores, repeat=more.pop("repeat", 0))
    return replace(made, execution_result=answer, **more)


def test_the_best_or_all_episodes_of_a_task_are_written(tmp_path: Path) -> None:
    a = [scored(1, 1, "a"), scored(1, 1, "longer"), scored(2, 0.5, "b"), scored(3, None, "c")]
    a[1].tool_calls *= 2
    run = write_run(tmp_path / "run", a)
    found, told = exported("sft", tmp_path / "best", run, "--score", "SoftScore")
    assert answers(found) == ["a"], "of equally good ones that with fewer calls"
    assert told["left_out"] == {"no_score": 1, "low_score": 1, "not_best": 1}
    options = ("--score", "SoftScore", "--min-score", "0.5", "--episodes", "all")
    found, told = exported("sft", tmp_path / "all", run, *options)
    assert answers(found) == ["a", "b", "longer"]


def answers(found: Iterable[dict[str, Any]]) -> list[str]:
    return sorted(line["messages"][-1]["content"] for line in found)


def pairs(found: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    return sorted(tuple(line[k][-1]["content"] for k in ("chosen", "rejected")) for line in found)


def test_the_best_or_all_pairs_with_the_margin_are_written(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", [scored(1, 1, "right"), scored(1, 0.5, "half", repeat=1)])
    b = write_run(tmp_path / "b", [scored(1, 0, "wrong"), scored(1, 0, "bad"), scored(2, 1, "x")])
    by = ("--score", "SoftScore")
    found, _ = exported("dpo", tmp_path / "best", a, b, *by)
    assert pairs(found) in ([("right", "wrong")], [("right", "bad")])
    found, told = exported("dpo", tmp_path / "all", a, b, *by, "--pairs", "all")
    half = [("half", "bad"), ("half", "wrong")]
    assert pairs(found) == [*half, ("right", "bad"), ("right", "half"), ("right", "wrong")]
    assert told["left_out"] == {"single": 1, "small_margin": 1}
    options = (*by, "--pairs", "all", "--min-margin", "0.6")
    found, told = exported("dpo", tmp_path / "far", a, b, *options)
    assert pairs(found) == [("right", "bad"), ("right", "wrong")]
    assert told["left_out"] == {"single": 1, "small_margin": 4}


def test_a_share_of_which_less_is_better_counts_from_the_other_end(tmp_path: Path) -> None:
    fit, unfit = scored(1, 1, "fit"), scored(1, 1, "unfit")
    for made, domain in ((fit, True), (unfit, False)):
        assert made.judgement is not None
        made.judgement.tools = [ToolVerdict("get_coin", domain=domain)]
    run = write_run(tmp_path / "judged", [unfit, fit])
    found, _ = exported("dpo", tmp_path / "out", run, "--score", "DMR")
    assert pairs(found) == [("fit", "unfit")]


def test_episodes_with_the_same_content_count_once_with_their_mean_score(tmp_path: Path) -> None:
    made = [scored(1, 1, "a"), scored(1, 0, "a", repeat=1), scored(1, 0, "b", repeat=2)]
    run = write_run(tmp_path / "run", [*made, replace(made[2], repeat=3)])
    found, told = exported("dpo", tmp_path / "out", run, "--score", "SoftScore")
    assert pairs(found) == [("a", "b")], "0.5 against 0"
    assert told["left_out"] == {"duplicate": 2}
    high = ("--score", "SoftScore", "--min-margin", "0.6")
    done = finbench("export", str(run), "--format", "dpo", "--out", str(tmp_path / "no"), *high)
    assert done.returncode == 1
    assert "2 duplicates of other episodes, 1 pairs with too small a margin" in done.stderr
    assert not (tmp_path / "no").exists()


def test_what_nobody_should_learn_is_left_out_and_counted(tmp_path: Path) -> None:
    unknown = call()
    unknown.tool_name = "获取币价 <|im_end|> \x1b[31m"
    hidden = replace(call(), output="[answers of transactional tools are not recorded]")
    masked = replace(call(), parameters={"of": [{"token": "[redacted]"}]})
    cut = replace(call(code="invalid_arguments", fault="agent"), parameters={"_raw": "{uuid"})
    made = [
        replace(scored(1, 1, "quota"), tool_calls=[call(1, "quota_exceeded", "quota")]),
        replace(scored(2, 1, ""), ending="model_error", error="model: gone"),
        scored(3, 1, " \n", ending="empty"),
        scored(4, 1, "", ending="rounds", error="limit"),
        scored(5, None, "x"),
        *(scored(6 + n, 1, "x", tool_calls=[c]) for n, c in enumerate((hidden, masked, cut))),
        scored(9, 1, "x", candidate_tools=["get_coin", "no_tool"]),
        scored(10, 1, "I can't.", ending="refusal"),
        scored(11, 1, "x", tool_calls=[unknown]),
        scored(12, 0.5, "x"),
        scored(13, 1, "right", tool_calls=[call(1, "timeout", "tool"), call(2)]),
    ]
    run = write_run(tmp_path / "run", made)
    found, told = exported("sft", tmp_path / "out", run, "--score", "SoftScore")
    assert answers(found) == ["right"]
    assert found[0]["messages"][3]["content"] == '{"error":{"code":"timeout","message":"no"}}'
    assert told["episodes"] == len(made) == 1 + sum(told["left_out"].values())
    assert told["left_out"] == {
        "infrastructure": 2,
        "no_answer": 2,
        "no_score": 1,
        "not_recorded": 3,
        "not_in_catalog": 1,
        "refusal": 1,
        "not_offered": 1,
        "low_score": 1,
    }


def test_a_worse_episode_may_call_what_was_not_offered_a_better_one_may_not(tmp_path: Path) -> None:
    unknown = call()
    unknown.tool_name = "获取币价 <|im_end|>"
    of_both = {"candidate_tools": ["rates", "get_coin"]}
    made = [
        scored(1, 1, "good"),
        scored(1, 0, "bad", tool_calls=[unknown], **of_both),
        scored(2, 1, "good, but", tool_calls=[unknown]),
        scored(2, 0, "bad too"),
        scored(3, 1, "No.", ending="refusal"),
        scored(3, 0, "worse"),
    ]
    run = write_run(tmp_path / "run", made)
    for option in ("best", "all"):
        out = tmp_path / option
        (line,), told = exported("dpo", out, run, "--score", "SoftScore", "--pairs", option)
        assert pairs([line]) == [("good", "bad")]
        made_call = line["rejected"][0]["tool_calls"][0]["function"]
        assert made_call["name"] == "获取币价 <|im_end|>"
        assert [t["function"]["name"] for t in line["tools"]] == ["get_coin", "rates"]
    assert told["left_out"] == {"none_to_choose": 2}


def test_a_task_is_on_one_side_by_id_and_by_question(tmp_path: Path) -> None:
    made = [scored(n, 1, "x") for n in range(400)]
    same = ["What is the Price of  coin 7?", "ｗhat is the price of coin 8?"]
    more = [replace(scored(1_000 + n, 1, "y"), question=q) for n, q in enumerate(same)]
    linked = replace(scored(1_000, 1, "z"), question="Quite another question?")
    run = write_run(tmp_path / "run", [*made, *more, linked])
    out = tmp_path / "out"
    options = ("--episodes", "all", "--test-share", "0.25", "--seed", "3")
    found, told = exported("sft", out, run, *options)
    assert len(found) == 403
    assert 70 <= told["test"] <= 130
    sides = {side: {question_of(line) for line in lines(out, side)} for side in ("train", "test")}
    assert not sides["train"] & sides["test"]
    (side,) = (side for side, held in sides.items() if linked.question in held)
    assert {same[0], made[7].question} <= sides[side]
    (side,) = (side for side, held in sides.items() if same[1] in held)
    assert made[8].question in sides[side]
    exported("sft", tmp_path / "other", run, *options[:-1], "4")
    assert lines(tmp_path / "other", "test") != lines(out, "test")
    found, _ = exported("sft", tmp_path / "none", run, "--test-share", "0")
    assert [file.name for file in (tmp_path / "none").iterdir()] == ["train.jsonl"]


def test_the_same_comes_out_whatever_the_order(tmp_path: Path) -> None:
    chance = random.Random(5)
    made = [
        scored(n, chance.choice([0, 0.5, 1]), chance.choice("abcd"), repeat=repeat)
        for n in range(30)
        for repeat in range(4)
    ]
    write_run(tmp_path / "one", made[:60])
    write_run(tmp_path / "two", made[60:])
    chance.shuffle(made)
    write_run(tmp_path / "three", made[:20])
    write_run(tmp_path / "four", made[20:])
    for form in ("sft", "dpo"):
        for take in ("best", "all"):
            options = ("--score", "SoftScore", "--pairs", take)
            seen = []
            for names in (("one", "two"), ("two", "one"), ("three", "four")):
                out = tmp_path / f"{form}-{take}-{names[0]}"
                exported(form, out, *(tmp_path / name for name in names), *options)
                seen.append([(file.name, file.read_bytes()) for file in sorted(out.iterdir())])
            assert seen[0] == seen[1] == seen[2]


def test_a_run_that_was_cut_off_gives_what_it_has(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [scored(1, 1, "a"), scored(2, 1, "b")])
    file = run / "episodes.jsonl"
    file.write_bytes(file.read_bytes()[:-30])
    found, told = exported("sft", tmp_path / "out", run)
    assert (answers(found), told["episodes"]) == (["a"], 1)
    file.write_bytes(b'{"episode": 3}\n')
    done = finbench("export", str(run), "--format", "sft", "--out", str(tmp_path / "broken"))
    assert (done.returncode, "episodes.jsonl:1: not a record" in done.stderr) == (1, True)
    file.write_bytes(b"")
    done = finbench("export", str(run), "--format", "sft", "--out", str(tmp_path / "empty"))
    assert (done.returncode, "the runs are empty" in done.stderr) == (1, True)
    assert {path.name for path in tmp_path.iterdir()} == {"run", "out"}


def test_a_folder_is_replaced_on_demand_and_what_is_no_folder_never(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [scored(1, 1, "a")])

    def code(out: Path, *options: str) -> int:
        return finbench(
            "export", str(run), "--format", "sft", "--out", str(out), *options
        ).returncode

    assert [code(tmp_path / "out"), code(tmp_path / "out")] == [0, 1]
    (tmp_path / "out" / "test.jsonl").touch()  # an earlier export had it
    assert code(tmp_path / "out", "--force") == 0
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["train.jsonl"]
    for theirs in ("README.md", "questions.jsonl"):
        (tmp_path / "out" / theirs).write_text("mine")
        assert code(tmp_path / "out", "--force") == 1
        (tmp_path / "out" / theirs).unlink()
    (run / "link").symlink_to(tmp_path / "elsewhere")
    assert code(run / "link", "--force") == code(run, "--force") == 2
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("run", "run", "--format", "atif"), "--format atif takes one run"),
        (("run", "--format", "parquet", "--seed", "1"), "--seed is for --format sft and dpo only"),
        (("run", "--format", "atif", "--pairs", "all"), "--pairs is for --format sft and dpo only"),
        (("run", "other", "--format", "dpo"), "the runs are of several suites (known, other)"),
        (("run", "--format", "sft", "--min-margin", "1"), "--min-margin is for --format dpo"),
        (("run", "--format", "dpo", "--min-score", "1"), "--min-score is for --format sft"),
        (("run", "--format", "sft", "--score", "SoftScor"), "did you mean SoftScore?"),
        (("run", "--format", "sft", "--test-share", "nan"), "not a finite number"),
        (("run", "nowhere", "--format", "sft"), "'nowhere' does not exist"),
        (("run", "--format", "csv"), "no format is named 'csv'"),
    ],
)
def test_what_can_not_be_is_a_usage_error(
    arguments: tuple[str, ...], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "run", [failing(1)])
    write_run(tmp_path / "other", [failing(1)], suite="other")
    done = finbench("export", *arguments, "--out", "out")
    assert (done.returncode, why in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "out").exists()


OWN = """
from bench.metrics.means import Measured
from finport import Measure, Metric, Suite

class Traders(Suite):
    title = "Traders"
    metrics = (Metric("won", "made a profit"),)
    measures = (Measure("profit", is_share=False),)

    @classmethod
    def read(cls, name, dataset):
        return []

    @classmethod
    def measured(cls, record, last_round):
        return Measured(True, {"profit": float(record.execution_result)})
"""


def test_a_measure_that_is_no_share_needs_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("traders_to_learn_from.py").write_text(OWN)
    of_suite = ("--suite", "traders_to_learn_from:Traders")
    made = [scored(1, None, text) for text in ("-20", "17.5", "nan")]
    run = write_run(tmp_path / "run", made, suite=of_suite[1])
    done = finbench("export", "run", "--format", "sft", "--out", "out", *of_suite)
    assert done.returncode == 2
    assert "profit is no share from 0 to 1, so --min-score is needed" in done.stderr
    found, told = exported("sft", tmp_path / "out", run, *of_suite, "--min-score", "10")
    assert answers(found) == ["17.5"]
    assert told["left_out"] == {"no_score": 1, "low_score": 1}
    found, _ = exported("dpo", tmp_path / "dpo", run, *of_suite, "--min-margin", "30")
    assert pairs(found) == [("17.5", "-20")]


def test_other_formats_say_what_they_wrote_as_json_too(tmp_path: Path) -> None:
    run, out = write_run(tmp_path / "run", [scored(1, 1, "a")]), tmp_path / "out"
    done = finbench("export", str(run), "--format", "atif", "--out", str(out), "--json")
    assert json.loads(done.stdout) == {"out": str(out), "episodes": 1}


def test_another_catalogue_than_the_runs_is_told(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [scored(1, 1, "a")], catalog_revision="before")
    done = finbench("export", str(run), "--format", "sft", "--out", str(tmp_path / "out"))
    assert done.returncode == 0
    assert "the run had the catalogue before, the tools written are those of " in done.stderr


def why_trl_is_missing() -> str | None:
    if ENVIRONMENT is None:
        return "TEST_TRAINING names no folder with TRL; .ci/run makes one"
    if not (Path(ENVIRONMENT) / "requirements.lock").is_file():
        return f"tests/training/requirements.lock could not be installed in {ENVIRONMENT}"
    if not TOKENIZER.is_dir():
        return "the tokenizer is not installed: npm ci --prefix tests/node"
    return None


@pytest.mark.anyio
async def test_trl_trains_on_what_the_agent_said_and_on_nothing_else(
    played: tuple[Played, Played], tmp_path: Path
) -> None:
    if reason := why_trl_is_missing():
        pytest.skip(reason)
    runs, options = [made.folder for made in played], ("--test-share", "0")
    sft, _ = exported("sft", tmp_path / "sft", *runs, *options, "--episodes", "all")
    dpo, _ = exported("dpo", tmp_path / "dpo", *runs, *options)
    read = of_trl(tmp_path / "sft", tmp_path / "dpo", tmp_path)
    assert read["sft"] == [sft, sft], "nothing is added or lost by `datasets`"
    assert read["dpo"] == [dpo, dpo]
    for line, *each in zip(sft, *read["spans"], strict=True):
        for spans in each:
            said = [text for is_learnt, text in spans if is_learnt]
            assert said == [rendered(m) for m in line["messages"] if m["role"] == "assistant"]
            given = "".join(text for is_learnt, text in spans if not is_learnt)
            for message in line["messages"]:
                assert message["role"] == "assistant" or message["content"] in given
            for tool in line["tools"]:
                assert f'"name": "{tool["function"]["name"]}"' in given
    for line, *each in zip(dpo, *read["compared"], strict=True):
        for prompt, chosen, rejected in each:
            assert prompt.endswith(f"{question_of(line)}<|im_end|>\n<|im_start|>assistant\n")
            for text, messages in ((chosen, line["chosen"]), (rejected, line["rejected"])):
                first, last = rendered(messages[0]), rendered(messages[-1])
                assert text.startswith(first.removeprefix("\n"))
                assert text.endswith(f"assistant{last}" if len(messages) > 1 else last[1:])


def of_trl(sft: Path, dpo: Path, folder: Path) -> dict[str, Any]:
    """What tests/training/with_trl.py reads of these folders."""
    python = Path(str(ENVIRONMENT)) / "bin" / "python"
    words = [python, ROOT / "tests" / "training" / "with_trl.py", sft, dpo, TOKENIZER]
    own = {"HOME": str(folder), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    done = subprocess.run(words, env=own, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def rendered(message: dict[str, Any]) -> str:
    """A message of an assistant as Qwen2.5's chat template has it, after its role."""
    parts = [message["content"]] if message["content"] else []
    for made in message.get("tool_calls", ()):
        name, arguments = made["function"]["name"], json.dumps(made["function"]["arguments"])
        parts.append(f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>')
    return "".join(f"\n{part}" for part in parts) + "<|im_end|>\n"


def connects(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


TINY = ("--max_steps", "1", "--per_device_train_batch_size", "1", "--use_cpu", "--bf16", "false")


@pytest.mark.soak
@pytest.mark.anyio
async def test_a_model_is_trained_on_runs_served_and_measured_again(
    played: tuple[Played, Played], tmp_path: Path
) -> None:
    reason = why_trl_is_missing()
    programs = Path(ENVIRONMENT or ".") / "bin"
    if reason is None and not (programs / "accelerate").exists():
        reason = "PyTorch is not installed beside TRL: pip install torch accelerate"
    if reason is not None:
        pytest.skip(reason)
    runs = [made.folder for made in played]
    exported("sft", tmp_path / "sft", *runs, "--test-share", "0")
    exported("dpo", tmp_path / "dpo", *runs, "--test-share", "0")
    offline = {**os.environ, "HF_HUB_OFFLINE": "1"}
    maker = ROOT / "tests" / "training" / "random_model.py"

    async def made(*command: object) -> None:
        words = [str(word) for word in command]
        words[0] = str(programs / words[0])
        await run_process(words, env=offline, cwd=tmp_path)

    await made("python", maker, TOKENIZER, "random")
    sft = ("--dataset_name", "sft", "--assistant_only_loss", "--output_dir", "trained")
    await made("trl", "sft", "--model_name_or_path", "random", *sft, *TINY)
    dpo = ("--dataset_name", "dpo", "--output_dir", "preferred")
    await made("trl", "dpo", "--model_name_or_path", "trained", *dpo, *TINY)
    port = free_port()
    serve = [str(programs / "transformers"), "serve", "preferred", "--port", str(port)]
    async with await open_process(serve, env=offline, cwd=tmp_path) as server:
        try:
            await until(lambda: connects(port))
            model = ("--model", "preferred", "--base-url", f"http://127.0.0.1:{port}/v1")
            again = ("--agent", "llm", "--max-tokens", "4", "--episodes", "3", "--concurrency", "1")
            command = ("run", "finova-sample", *again, *model, "--out", str(tmp_path / "again"))
            done = await to_thread.run_sync(lambda: finbench(*command))
        finally:
            server.terminate()
    assert done.returncode == 0, done.stderr
    metrics = json.loads((tmp_path / "again" / "metrics.json").read_bytes())
    assert metrics["usage"]["model_calls"]["failed"] == 0
    assert metrics["usage"]["tokens"]["output"] > 0


TRAINING = {
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
    "learning_rate": 1e-4,
    "per_device_train_batch_size": 12,
    "per_device_eval_batch_size": 12,
    "num_generations": 4,
    "num_generations_eval": 4,
    "steps_per_generation": 1,
    "max_completion_length": 200,
    "report_to": "none",
    "save_strategy": "no",
}
"""Of a training that takes a minute on one core."""

FAILING = {"simulated_failure_rate": 0.2, "retries": 0, "memory_bytes": 0, "disk_bytes": 0}
"""Settings of a gateway that makes every call anew, once, and fails in a fifth of them."""


@pytest.mark.soak
@pytest.mark.anyio
async def test_a_model_is_trained_by_what_its_rollouts_earn(tmp_path: Path) -> None:
    """Twenty steps of GRPO, in which the simulated upstream fails and no failure is a reward."""
    programs = Path(ENVIRONMENT or ".") / "bin"
    if not (programs / "accelerate").exists():
        pytest.skip(why_trl_is_missing() or "PyTorch is not installed beside TRL")
    made = ("tasks", "make", "--n", "60", "--difficulty", "1", "--language", "en", "--seed", "3")
    assert finbench(*made, "--out", str(tmp_path / "all.jsonl")).returncode == 0
    tasks = [json.loads(line) for line in (tmp_path / "all.jsonl").read_bytes().splitlines()]
    for task in tasks:  # a short prompt: the model is tiny
        task["tools"] = sorted({call["tool"] for call in task["calls"]})
    known = {tool.name for tool in Catalog.load() if tool.binding.source == "rapidapi"}
    tasks = [task for task in tasks if known.issuperset(task["tools"])]  # none needs AkShare
    text = "".join(json.dumps(task, ensure_ascii=False) + "\n" for task in tasks[:3])
    (tmp_path / "tasks.jsonl").write_text(text, "utf-8")
    examples = ROOT / "docs" / "examples"
    own = {
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "TRL_EXPERIMENTAL_SILENCE": "1",
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, examples))),
    }

    async def python(*words: object) -> str:
        command = [str(word) for word in (programs / "python", *words)]
        done = await run_process(command, env={**os.environ, **own}, cwd=tmp_path)
        return done.stdout.decode()

    await python(ROOT / "tests" / "training" / "warm_model.py", "tasks.jsonl", "warm", 200, 0.012)
    few = ("--chars", 200, "--rounds", 2, "--steps", 20, "--gateway", json.dumps(FAILING))
    trl = ("--trl", json.dumps(TRAINING))
    said = await python(examples / "train_grpo.py", "warm", "tasks.jsonl", "out", *few, *trl)
    told = json.loads(said.splitlines()[-1])
    rewards = (tmp_path / "out" / "rewards.jsonl").read_bytes().splitlines()
    lines = [json.loads(line) for line in rewards]
    assert [line["part"] for line in lines] == ["before", *["train"] * 20, "after"]
    for line in lines:
        masked = [reward for reward in line["rewards"] if reward is None]
        assert len(masked) == len(line["outages"])
        assert all("upstream" in outage for outage in line["outages"])
    assert told["train"]["masked"] > 0
    assert 0 < told["train"]["reward"] <= 1
    assert (tmp_path / "out" / "model" / "config.json").is_file()

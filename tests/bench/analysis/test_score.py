"""`finbench score`: of traces that anybody wrote, of runs judged anew."""

import asyncio
import json
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner, Result

from bench.analysis.score import IN_FLIGHT, Gold, score_records, written
from bench.cli.main import main
from bench.judges.judging import Judging
from bench.record import EpisodeRecord, Judgement, ToolVerdict
from bench.runs.digest import run_digest
from bench.runs.metrics import RunMetrics
from bench.suites.fintoolbench.suite import LabelledTasks
from bench.suites.traces import read_trace
from bench.task import LabelledCall, Task
from gateway.trace import TraceError
from tests.support.commands import finbench
from tests.support.played_model import playing, says
from tests.support.runs import write_run
from tests.support.waiting import PATIENCE_S


def line(number: int, question: str, gold: Any, answer: str, *calls: Any, **more: Any) -> Any:
    """A line as the public agent writes it; calls are (step, tool, output)."""
    made = [
        {"step": step, "tool_name": tool, "parameters": {}, "output": output}
        for step, tool, output in calls
    ]
    return {
        "id": f"set_{number}",
        "source_dataset": "set",
        "category": "c",
        "question": question,
        "tool_calls": made,
        "response": [],
        "error": None,
        "execution_result": answer,
        "ground_truth": gold,
        "setting": "full",
        "candidate_tools": [],
        **more,
    }


EPU, WALLET, BALANCE = "article_epu_index", "generate_wallet", "companies_balance_sheet_statements"

TRACE = [
    # passed; score 1 (0.01 off is within 1 %). The wallet suits neither intent nor domain
    line(
        *(1, "How high is policy uncertainty?", "42.69", "The answer is 42.7."),
        *((1, EPU, "[1]"), (1, WALLET, "[2]")),
    ),
    # passed: only the last round counts, wherever it stands; score 0. Its tool has no tags
    line(2, "Which one?\nA. x\nB. y", "B", "C", (2, "unknown", "[1]"), (1, EPU, "error")),
    # failed: one call of the last round gave an object with an error; score 1, 0.019 is 1.9 %.
    # filed data of companies for a live price of bitcoin: timeliness and domain mismatch
    line(3, "比特币实时价格", "1.9%", "0.019", (1, BALANCE, "[1]"), (1, BALANCE, {"error": "no"})),
    # invoked nothing; score 1
    {"id": "set_4", "query": "Which?", "answer": "A", "ground_truth": "a"},
    # failed by a word in the output; no gold answer: not judged
    line(5, "Hello?", None, "Hi", (1, EPU, "Exception: no")),
    # passed; a text, which rules do not judge. Daily bond data for the latest bond yields: fine
    line(6, "The latest bond yields?", "nan", "4 %", (1, "bond_zh_us_rate", {"rows": 3})),
    # failed: the episode ended in an error; score 0
    line(7, "Hello?", "5", "", (1, EPU, "[1]"), error="execution_trace_empty"),
]

EXPECTED = {
    "episodes": 7,
    "invoked": 6,
    "passed": 3,
    "TIR": 0.857143,  # 6 / 7
    "TESR": 0.428571,  # 3 / 7
    "CER": 0.5,  # 3 / 6
    "TESR_text": 0.428571,  # the same: there is nothing but text
    "CER_text": 0.5,
    "SoftScore": 0.6,  # (1 + 0 + 1 + 1 + 0) / 5: of 1, 2, 3, 4, 7
    "CSS": 0.5,  # (1 + 0) / 2: of 1 and 2
    "TMR": 0.166667,  # 3, of all that called a tool: 1, 2, 3, 5, 6, 7
    "IMR": 0.166667,  # 1, of these
    "DMR": 0.333333,  # 1 and 3, of these
    "outcome": "text",
}


def wrote(name: str, lines: Any) -> str:
    Path(name).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return name


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["score", *arguments])


def scored(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    figures: dict[str, Any] = json.loads(result.stdout)
    return figures


def test_a_trace_of_others_is_scored_by_the_published_rules() -> None:
    figures = scored(wrote("trace.jsonl", TRACE))
    assert {name: figures[name] for name in EXPECTED} == EXPECTED
    assert figures["judged"]["judges"] == {"rules": 7}
    told = run("trace.jsonl").output
    assert "TESR and CER are by words in the output" in told
    assert "judged by rules" in told


def test_nobody_judges_where_nobody_is_asked_to() -> None:
    figures = scored(wrote("trace.jsonl", TRACE), "--judge", "none")
    assert (figures["TESR"], figures["SoftScore"], figures["IMR"]) == (0.428571, None, None)
    assert figures["judged"]["judges"] == {}


def test_a_suite_fills_in_what_a_trace_lacks() -> None:
    tasks: list[dict[str, Any]] = [
        {"id": "set_1", "category": "macro", "question": "How high is policy uncertainty?"},
        {"id": "other", "category": "crypto", "question": "比特币实时价格"},
        {"id": "set_5", "category": "bond", "question": "Another question"},
    ]
    for task in tasks:
        task |= {"answer": "0.02", "tools": [{"name": EPU}], "source_dataset": "mine"}
    bare = [
        {k: v for k, v in one.items() if k not in ("ground_truth", "category", "source_dataset")}
        for one in TRACE
    ]
    options = ("--suite", "mine", "--dataset", wrote("tasks.jsonl", tasks), "--out", "out.jsonl")
    figures = scored(wrote("trace.jsonl", bare), *options)
    assert figures["filled"] == 2, "by id, and by question; one id has another question here"
    records = {traced.record.id: traced.record for traced in read_trace(Path("out.jsonl"))}
    first, third, fifth = (records[f"set_{n}"] for n in (1, 3, 5))
    assert (first.ground_truth, first.category, first.source_dataset) == ("0.02", "macro", "mine")
    assert (third.ground_truth, third.labelled_tools) == ("0.02", [EPU])
    assert (fifth.ground_truth, fifth.category, fifth.labelled_tools) == ("", "", [])
    assert figures["breakdown"]["labelled_tools"]["single"]["episodes"] == 2
    kept = scored(wrote("own.jsonl", TRACE), *options[:4])
    assert kept["SoftScore"] == EXPECTED["SoftScore"], "what the trace says itself stays"
    none = run("own.jsonl", "--suite", "starter")
    assert none.exit_code == 0
    assert "7 of 7 episodes are of no task of starter" in none.stderr


def test_a_figure_says_over_how_many_episodes_it_is() -> None:
    assert scored(wrote("trace.jsonl", TRACE))["denominators"] == {
        **dict.fromkeys(("TIR", "TESR", "TESR_net", "TESR_text"), 7),
        **dict.fromkeys(("TESR_paper", "SoftScore_paper"), 7),
        **dict.fromkeys(("CER", "CER_net", "CER_text", "CER_paper"), 6),
        **dict.fromkeys(("TMR", "IMR", "DMR", "TMR_paper", "IMR_paper", "DMR_paper"), 6),
        "SoftScore": 5,
        "CSS": 2,
    }
    judgement = Judgement("llm:m", "free_text", [0.5], tools=[ToolVerdict(EPU, timeliness=False)])
    first, *others = (traced.record for traced in read_trace(Path("trace.jsonl")))
    write_run(Path("part"), [first, *(replace(other, judgement=judgement) for other in others)])
    told = run("part").output
    for row in (r"TIR .* of all episodes *\n  TESR", r"SoftScore .*\n +6 of 7 episodes"):
        assert re.search(row, told), row
    assert re.search(r"TMR .*\n +5 of 7 episodes", told), "one of the judged ones has no call"


def test_an_incomplete_last_line_and_a_file_without_episodes_are_told() -> None:
    text = Path(wrote("trace.jsonl", TRACE)).read_text()
    Path("cut.jsonl").write_text(text[:-20])
    cut = run("cut.jsonl", "--json")
    assert cut.exit_code == 0
    assert "finbench: cut.jsonl:7: the last line is incomplete, and is left out" in cut.stderr
    assert (json.loads(cut.stdout)["episodes"], json.loads(cut.stdout)["incomplete_line"]) == (6, 7)
    assert scored("trace.jsonl")["incomplete_line"] is None
    for nothing in ("", "\n \n"):
        Path("empty.jsonl").write_text(nothing)
        empty = run("empty.jsonl")
        assert (empty.exit_code, "empty.jsonl holds no episodes" in empty.stderr) == (1, True)


def test_wrong_options_and_unreadable_files_are_told() -> None:
    wrote("trace.jsonl", [*TRACE, {"tool_calls": 3}])
    broken = run("trace.jsonl", "--out", "out.jsonl")
    assert broken.exit_code == 1
    assert "trace.jsonl:8: tool_calls: not a list" in broken.stderr
    assert not list(Path().glob("out.jsonl*")), "nothing half-written"
    wrote("good.jsonl", TRACE)
    nowhere = run("good.jsonl", "--out", "good.jsonl/out.jsonl")
    assert (nowhere.exit_code, "Not a directory" in nowhere.stderr) == (1, True)
    taken = run("good.jsonl", "--out", "trace.jsonl")
    assert (taken.exit_code, "exists already; --force" in taken.stderr) == (1, True)
    taken = run("good.jsonl", "--items", "trace.jsonl")
    assert (taken.exit_code, "exists already; --force" in taken.stderr) == (1, True)
    own = run("good.jsonl", "--out", "good.jsonl", "--force")
    assert (own.exit_code, "a file of the run itself" in own.stderr) == (1, True)
    assert run("good.jsonl", "--out", "trace.jsonl", "--force").exit_code == 0
    assert len(Path("trace.jsonl").read_text().splitlines()) == len(TRACE)
    for wrong in (
        ("good.jsonl", "--judge", "llm"),
        ("good.jsonl", "--dataset", "good.jsonl"),
        ("good.jsonl", "--suite", "nothing"),
        ("missing.jsonl",),
    ):
        assert run(*wrong).exit_code == 2


def test_names_that_look_like_markup_and_a_judge_that_gave_nothing_are_told() -> None:
    (traced,) = read_trace(Path(wrote("trace.jsonl", TRACE[:1])))
    judged = replace(traced.record, judgement=Judgement("llm:[/x]m", "numeric", invalid=3))
    Path("[bold]a.jsonl").write_bytes(orjson.dumps(judged))
    told = run("[bold]a.jsonl")
    assert told.exit_code == 0, told.output
    assert "[bold]a.jsonl: FinToolBench metrics, judged by llm:[/x]m" in told.output
    assert "3 answers of the judge were no scores, or none came" in told.output


def test_a_run_that_says_nothing_of_itself_is_scored(run_dir: Path) -> None:
    (run_dir / "run.json").write_text("{}")
    told = run("run")
    assert told.exit_code == 0, told.output
    assert "run: FinToolBench metrics, judged by llm:m" in told.output


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A run that a model judged, with one score of 0.5 an episode."""
    trace = Path(wrote("trace.jsonl", TRACE))
    judgement = Judgement("llm:m", "free_text", [0.5])
    records = [replace(traced.record, judgement=judgement) for traced in read_trace(trace)]
    digest = run_digest(write_run(tmp_path / "digested", records))
    return write_run(tmp_path / "run", records, suite="made", digest=digest, judge="llm:m")


def test_a_run_counts_as_it_was_judged_unless_asked(run_dir: Path) -> None:
    figures = scored("run")
    assert (figures["SoftScore"], figures["judged"]["judges"]) == (0.5, {"llm:m": 7})
    assert "outcome" not in figures
    assert run("run", "--out", "x.jsonl").exit_code == 2

    before = (run_dir / "episodes.jsonl").read_bytes()
    anew = scored("run", "--judge", "rules", "--out", "anew")
    assert {n: anew[n] for n in EXPECTED if n != "outcome"} == {
        n: value for n, value in EXPECTED.items() if n != "outcome"
    }
    assert anew["digest"] == figures["digest"]
    assert (run_dir / "episodes.jsonl").read_bytes() == before
    assert "judged by rules" in run("run", "--judge", "rules").output

    again = scored("anew")
    assert again["SoftScore"] == EXPECTED["SoftScore"]
    kept = scored("run/episodes.jsonl")
    assert kept["SoftScore"] == 0.5, "a judgement that a trace holds stays"

    first, *others = before.splitlines(keepends=True)
    unjudged = orjson.dumps(orjson.loads(first) | {"judgement": None}) + b"\n"
    Path("part.jsonl").write_bytes(b"".join([unjudged, *others]))
    part = run("part.jsonl", "--json")
    assert json.loads(part.stdout)["judged"]["judges"] == {"llm:m": 6}, "no mean of two judges"
    assert "1 of 7 episodes have no judgement of llm:m; --judge judges all of them" in part.stderr
    Path("mixed.jsonl").write_bytes(b"".join([first.replace(b"llm:m", b"rules"), *others]))
    mixed = run("mixed.jsonl")
    assert mixed.exit_code == 1
    assert "judgements of several judges: 1 of rules, 6 of llm:m" in mixed.stderr

    (run_dir / "episodes.jsonl").write_bytes(before + before.split(b"\n")[0] + b"\n")
    changed = run("run", "--judge", "rules")
    assert changed.exit_code == 1
    assert "the files are not those that the run left" in changed.stderr


@pytest.mark.anyio
async def test_a_model_judges_a_trace_anew() -> None:
    async def half(_: Any) -> dict[str, Any]:
        return says('{"score": 0.5}')

    async def suited(body: dict[str, Any]) -> dict[str, Any]:
        asked = json.loads(body["messages"][1]["content"])["tools"]
        fits = {"timeliness": True, "intent": True, "domain": False}
        return says(json.dumps({"tools": [{"name": tool["name"], **fits} for tool in asked]}))

    wrote("trace.jsonl", TRACE)
    async with playing() as played:
        played.aside = {"judge-answer": half, "judge-tools": suited}
        options = ("--judge-model", "m", "--judge-base-url", played.url, "--judge-repeats", "2")
        done = await asyncio.to_thread(
            finbench, "score", "trace.jsonl", "--judge", "llm", *options, "--json"
        )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    # numbers and choices 1 (1, 2, 3, 4, 7), the text 0.5 (6); 5 has no gold answer
    assert figures["SoftScore"] == round(5.5 / 6, 6)
    assert figures["CSS"] == round(2.5 / 3, 6)
    assert (figures["TMR"], figures["IMR"], figures["DMR"]) == (0.0, 0.0, 0.833333)
    assert figures["judged"]["eligible"] == {"TMR": 6, "IMR": 6, "DMR": 6}
    assert figures["judged"]["verdicts"] == {"TMR": 5, "IMR": 5, "DMR": 5}, "one tool has no tags"
    assert len(played.asides) == 6 * 2 + 6
    assert (figures["judged"]["rounded"], figures["judged"]["invalid_tools"]) == (5 * 2, 0)


@pytest.mark.anyio
async def test_a_judge_that_answers_but_never_scores_has_failed() -> None:
    async def garbage(_: Any) -> dict[str, Any]:
        return says("I would say it is fine.")

    wrote("trace.jsonl", TRACE)
    async with playing() as played:
        played.aside = {"judge-answer": garbage, "judge-tools": garbage}
        options = ("--judge-model", "m", "--judge-base-url", played.url)
        done = await asyncio.to_thread(
            finbench, "score", "trace.jsonl", "--judge", "llm", *options, "--suite", "starter"
        )
    assert done.returncode == 1
    assert "18 answers of the judge were no scores" in done.stdout
    assert "7 tools got no verdict from the judge" in done.stdout
    assert "the judge failed on 6 of 6 episodes" in done.stdout
    assert "the judge failed in all 6 episodes; the first: none of its 3 answers" in done.stderr


def episodes(count: int) -> list[EpisodeRecord]:
    blank = next(read_trace(Path(wrote("one.jsonl", TRACE[:1])))).record
    return [replace(blank, episode=f"e{n}", ground_truth=str(n)) for n in range(count)]


class Slow:
    """A judge that takes its time, and counts how many episodes it has at once."""

    name = "slow"

    def __init__(self) -> None:
        self.luck = random.Random(1)
        self.at_once = self.most = self.ended = 0
        self.is_full = asyncio.Event()

    async def judge(self, record: EpisodeRecord) -> Judgement:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        if self.most == IN_FLIGHT:
            self.is_full.set()
        try:
            await asyncio.wait_for(self.is_full.wait(), PATIENCE_S)
            await asyncio.sleep(self.luck.uniform(0, 0.01))
        finally:
            self.at_once -= 1
        self.ended += 1
        return Judgement(self.name, "free_text", [float(int(record.ground_truth) % 2)])


def judging(judge: Slow) -> Judging:
    return Judging(judge, LabelledTasks.kind_of)


@pytest.mark.anyio
async def test_many_are_judged_at_once_few_are_held_and_all_come_out_in_order() -> None:
    records, judge, ahead = episodes(500), Slow(), 0

    def reading() -> Iterator[EpisodeRecord]:
        nonlocal ahead
        for number, record in enumerate(records):
            ahead = max(ahead, number - judge.ended)
            yield record

    async with written(Path("out.jsonl"), Path("trace.jsonl"), force=False) as out:
        metrics = await score_records(LabelledTasks, reading(), judging(judge), keep=False, out=out)
    assert judge.most == IN_FLIGHT
    assert ahead <= IN_FLIGHT
    assert metrics.result()["SoftScore"] == 0.5
    judged = [traced.record for traced in read_trace(Path("out.jsonl"))]
    assert [record.episode for record in judged] == [f"e{n}" for n in range(500)]
    plain = RunMetrics(LabelledTasks)
    for record in judged:
        plain.add(record)
    assert plain.result() == metrics.result()


@pytest.mark.anyio
async def test_a_failure_ends_what_is_under_way() -> None:
    records, judge = episodes(10), Slow()

    def reading() -> Iterator[EpisodeRecord]:
        yield from records
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        await score_records(LabelledTasks, reading(), judging(judge), keep=False)
    assert judge.at_once == 0


@pytest.mark.anyio
async def test_what_can_not_be_written_is_told(tmp_path: Path) -> None:
    (record,) = episodes(1)
    record.tool_calls[0].parameters = {"x": 2**70}
    folder = tmp_path / "empty"
    folder.mkdir()
    with pytest.raises(TraceError, match=r"out\.jsonl.*e0"):
        async with written(folder / "out.jsonl", Path("trace.jsonl"), force=False) as out:
            await score_records(LabelledTasks, [record], out=out)
    folder.rmdir()  # nothing was left in it


def test_tasks_are_found_by_id_and_question() -> None:
    tasks = (
        Task(id="a", category="x", question="Q?", tools=(LabelledCall(name="t"),), answer="1"),
        Task(id="b", category="y", question="R?", tools=(), answer="2"),
    )
    gold = Gold(LabelledTasks(name="s", tasks=tasks))
    blank = replace(episodes(1)[0], ground_truth="", category="", source_dataset="")
    for id_, question, answer in (
        *(("a", " Q? ", "1"), ("b", "Q?", "1"), ("c", "R?", "2"), ("a", "", "1")),
        *(("a", "S?", ""), ("c", "", "")),
    ):
        record = replace(blank, id=id_, question=question)
        gold.fill(record)
        assert record.ground_truth == answer
        assert record.source_dataset == ("s" if answer else "")
    assert gold.filled == 4

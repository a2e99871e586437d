"""The replay agent: what was recorded is played again, through the real driver."""

import asyncio
import json
import random
import tracemalloc
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from bench.agents import Episode, ModelError, Turn
from bench.agents.agent import ToolCall
from bench.agents.declaration import AgentSettingsError
from bench.agents.replay import NotRecorded, ReplayAgent
from bench.record import Ending, EpisodeRecord
from bench.runs.directory import RunDirectory
from bench.runs.driver import Driver, Limits
from bench.suites.fintoolbench.suite import LabelledTasks
from bench.suites.traces import read_trace
from bench.task import Task
from tests.support.agents import Loopback, Made
from tests.support.commands import finbench
from tests.support.runs import SNAPSHOT, lines_of

pytestmark = pytest.mark.anyio

EPISODE = EpisodeRecord("t.0", "t", 0, "", "", "", "", "", [], 0.0)
TIMES = ("at", "started_at", "elapsed_ms", "call_id", "setting", "output")


def task(name: str = "t") -> Task:
    return Task(id=name, category="", question="?", tools=())


SUITE = LabelledTasks(name="made", tasks=(task("t0"), task("t1")))


async def play(
    folder: Path, agent: Any, episodes: int = 2, limits: Limits | None = None
) -> list[dict[str, Any]]:
    """Records of a run, in the order of tasks and repeats."""
    async with RunDirectory.open(folder, {}) as directory:
        driver = Driver(SUITE, agent, Loopback(), directory, concurrency=3, limits=limits)
        await driver.run(episodes)
    records = lines_of(folder / "episodes.jsonl")
    return sorted(records, key=lambda record: str(record["episode"]))


def timeless(record: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in record.items() if name not in TIMES}
    if "tool_calls" in kept:
        kept["tool_calls"] = [timeless(call) for call in kept["tool_calls"]]
    return kept


def trace(folder: Path, *lines: object) -> Path:
    file = folder / "trace.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return file


async def turns(agent: ReplayAgent, name: str = "t", repeat: int = 0) -> list[Turn]:
    """Every turn of an episode whose calls are never answered."""
    episode = Episode(task(name), repeat)
    made: list[Turn] = []
    while not made or made[-1].calls:
        made.append(await agent.act(episode))
        episode.history.append(None)  # type: ignore[arg-type]
    return made


def calls_of(folder: Path) -> Counter[str]:
    names = ("tool", "arguments", "episode", "step", "digest", "code")
    return Counter(json.dumps([c[n] for n in names]) for c in lines_of(folder / "calls.jsonl"))


def test_a_recorded_run_played_offline_makes_the_same_calls(tmp_path: Path) -> None:
    common = ("run", "starter", "--episodes", "90", "--judge", "none")
    offline = (*common, "--mode", "offline", "--snapshot", str(SNAPSHOT))
    recorded = finbench(*offline, "--out", "one")
    assert recorded.returncode == 0, recorded.stderr
    replay = (*offline, "--agent", "replay")
    played = finbench(*replay, "--trace", "one", "--out", "again")
    assert played.returncode == 0, played.stderr
    assert calls_of(tmp_path / "again") == calls_of(tmp_path / "one")
    first, second = (json.loads((tmp_path / n / "run.json").read_text()) for n in ("one", "again"))
    assert second["snapshot"] == first["snapshot"]
    figures = [json.loads((tmp_path / n / "metrics.json").read_text()) for n in ("one", "again")]
    assert figures[0]["TESR"] == figures[1]["TESR"] > 0
    (tmp_path / "bad.jsonl").write_text("[]\n")
    refused = finbench(*replay, "--trace", "bad.jsonl", "--out", "none")
    assert refused.returncode == 2
    assert refused.stderr == "finbench: bad.jsonl:1: not a JSON object\n"
    assert not (tmp_path / "none").exists()


async def test_any_episode_is_played_as_it_was(tmp_path: Path) -> None:
    rng = random.Random(5)

    def script() -> list[Turn]:
        speaks = rng.random() < 0.7

        def said() -> str:
            return rng.choice(["so", "然后"]) if speaks else ""

        made = [
            Turn(
                calls=tuple(
                    ToolCall(rng.choice("ab"), {"n": rng.randrange(9), "deep": {"x": [None, "ü"]}})
                    for _ in range(rng.randrange(1, 4))
                ),
                response=said(),
            )
            for _ in range(rng.randrange(5))
        ]
        ending = rng.choice([Ending.ANSWER, Ending.REFUSAL, Ending.EMPTY])
        answer = "" if ending is Ending.EMPTY else f"{rng.random()}"
        return [*made, Turn(answer=answer, response=said(), ending=ending)]

    scripts = {(t.id, repeat): script() for t in SUITE.tasks for repeat in range(30)}

    async def act(episode: Episode) -> Turn:
        return scripts[episode.task.id, episode.repeat][len(episode.history)]

    recorded = await play(tmp_path / "one", Made(act), 60)
    again = await play(tmp_path / "two", ReplayAgent.read(tmp_path / "one" / "episodes.jsonl"), 60)
    assert [timeless(r) for r in again] == [timeless(r) for r in recorded]
    assert {record["setting"] for record in again} == {"replay"}
    assert sum(len(record["tool_calls"]) for record in again) > 100


async def test_calls_that_were_not_let_out_stay_so(tmp_path: Path) -> None:
    wide = tuple(ToolCall("t" * 70, {"_raw": "{"}, "not JSON: x") for _ in range(18))

    async def act(episode: Episode) -> Turn:
        return Turn(answer="x") if episode.history else Turn(calls=wide)

    recorded = await play(tmp_path / "one", Made(act))
    again = await play(tmp_path / "two", ReplayAgent.read(tmp_path / "one"))
    assert [r["tool_calls"][n]["code"] for r in again for n in (0, 17)] == [
        *("invalid_arguments", "invalid_request"),
        *("invalid_arguments", "invalid_request"),
    ]
    for before, now in zip(recorded, again, strict=True):
        assert [c["output"] for c in now["tool_calls"]] == [
            c["output"] for c in before["tool_calls"]
        ]


async def test_episodes_that_failed_fail_again(tmp_path: Path) -> None:
    async def act(episode: Episode) -> Turn:
        if not episode.history:
            return Turn(calls=(ToolCall("a", {}),))
        if episode.task.id == "t0":
            raise ModelError("503 from the endpoint")
        await asyncio.sleep(60)
        return Turn()

    recorded = await play(tmp_path / "one", Made(act), limits=Limits(wall_s=1.5))
    again = await play(tmp_path / "two", ReplayAgent.read(tmp_path / "one"))
    third = await play(tmp_path / "three", ReplayAgent.read(tmp_path / "two"))
    assert [r["ending"] for r in recorded] == ["model_error", "time"]
    for played in (again, third):
        assert [(r["ending"], r["error"]) for r in played] == [
            ("model_error", "model: 503 from the endpoint"),
            ("agent_error", "agent: RecordedFailure: limit: 1.5 s have passed"),
        ]
        assert [len(r["tool_calls"]) for r in played] == [1, 1]


async def test_a_task_that_is_not_in_the_trace_ends_its_episode_only(tmp_path: Path) -> None:
    file = trace(tmp_path, {"id": "t1", "tool_calls": [], "execution_result": "7"})
    lost, found = await play(tmp_path / "run", ReplayAgent.read(file))
    assert lost["error"] == "agent: NotRecorded: the trace has no task 't0'"
    assert (found["execution_result"], found["error"]) == ("7", None)


async def test_a_published_trace_is_read(tmp_path: Path) -> None:
    def call(step: int, tool: str, **parameters: Any) -> dict[str, Any]:
        return {"step": step, "tool_name": tool, "parameters": parameters, "output": "{}"}

    file = trace(
        tmp_path,
        {
            "id": "t",
            "tool_calls": [call(4, "c"), call(1, "a", x=1), call(4, "d"), call(2, "b")],
            "response": ["first", None, "third", "fourth"],
            "error": "{'error': 'it timed out then'}",
            "answer": "B",
        },
        {"id": 7, "tool_calls": None, "execution_result": " ", "response": None},
        {
            "id": "steps",
            "tool_calls": [
                {"tool_name": "a"},
                {"step": None, "tool_name": "b", "parameters": None},
            ],
        },
    )
    agent = ReplayAgent.read(file)
    made = await turns(agent)
    assert [[c.tool for c in turn.calls] for turn in made] == [["a"], ["b"], ["c", "d"], []]
    assert made[0].calls == (ToolCall("a", {"x": 1}),)
    assert [turn.response for turn in made] == ["first", "", "third", "fourth"]
    assert (made[-1].answer, made[-1].ending) == ("B", Ending.ANSWER)
    assert await turns(agent, "7") == [Turn(answer=" ", ending=Ending.EMPTY)]
    first, _ = await turns(agent, "steps")
    assert first.calls == (ToolCall("a", {}), ToolCall("b", {}))


async def test_a_call_that_left_its_instrument_out_is_made_as_it_was_then(tmp_path: Path) -> None:
    tool, given = "stock_zh_a_hist", {"period": "weekly"}
    call = {"step": 1, "tool_name": tool, "parameters": given, "output": "{}"}
    refused = {"ok": False, "code": "invalid_arguments", "fault": "agent", "call_id": "1-1"}
    file = trace(tmp_path, {"id": "t", "tool_calls": [call, {**call, **refused}]})
    (turn, _) = await turns(ReplayAgent.read(file))
    assert turn.calls == (
        ToolCall(tool, {"period": "weekly", "symbol": "000001"}),
        ToolCall(tool, given),
    )


async def test_texts_that_are_left_over_go_with_the_last_turn(tmp_path: Path) -> None:
    file = trace(tmp_path, {"id": "t", "response": ["a", "b"], "execution_result": "x"})
    (turn,) = await turns(ReplayAgent.read(file))
    assert turn.response == "a\nb"


async def test_repeats_that_are_not_recorded_are_those_that_are_in_turn(tmp_path: Path) -> None:
    told = [asdict(replace(EPISODE, repeat=n, execution_result=str(n))) for n in (5, 0, 3)]
    agent = ReplayAgent.read(trace(tmp_path, *told))
    answers = [(await turns(agent, repeat=n))[0].answer for n in range(8)]
    assert answers == ["0", "3", "5", "3", "3", "5", "0", "3"]


async def test_of_two_lines_for_one_episode_the_later_counts_and_a_torn_one_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = (asdict(replace(EPISODE, execution_result=text)) for text in ("old", "new"))
    file = trace(tmp_path, *lines)
    with file.open("a") as text:
        text.write('{"id": "t", "execution_result": "torn')
    assert (await turns(ReplayAgent.read(file)))[0].answer == "new"
    assert f"{file}:3: the last line is incomplete, and is left out" in caplog.text


async def test_ids_and_repeats_are_those_with_which_a_trace_is_scored(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text(
        '\ufeff{"id": "t", "answer": "one", "tool_calls": null}\n'
        "\n"
        '{"question": "?", "answer": "by its place"}\n'
        '{"id": 7, "answer": ["a number"], "confidence": NaN}\n'
        '{"id": "t", "answer": "two"}'
    )
    agent, scored = ReplayAgent.read(file), [traced.record for traced in read_trace(file)]
    assert [(r.id, r.repeat) for r in scored] == [("t", 0), ("2", 0), ("7", 0), ("t", 1)]
    for record in scored:
        (turn,) = await turns(agent, record.id, record.repeat)
        assert turn.answer == record.execution_result


async def test_redacted_values_never_go_out_as_if_they_were_meant(tmp_path: Path) -> None:
    given = {"tool_name": "a", "parameters": {"headers": {"token": "[redacted]"}}, "call_id": "c"}
    refused = {**given, "fault": "agent", "code": "invalid_arguments"}
    answered = {**given, "fault": None, "code": None}
    agent = ReplayAgent.read(trace(tmp_path, {"id": "t", "tool_calls": [refused, answered]}))
    again, unknown = (await turns(agent))[0].calls
    assert again.problem is None, "it is refused again"
    assert unknown.problem == "the trace does not hold the redacted values among its arguments"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ({"episode": "t.0", "id": "t"}, "repeat: Field required"),
        ({"id": "t", "tool_calls": "none"}, "tool_calls: not a list"),
        ({"id": "t", "tool_calls": [{"step": 1}]}, "a call wants tool_name"),
        ({"id": "t", "ending": "victory"}, "no episode ends as 'victory'"),
        ([], "not a JSON object"),
    ],
)
def test_a_line_that_is_no_episode_is_named(tmp_path: Path, line: object, problem: str) -> None:
    file = trace(tmp_path, {"id": "fine"}, line)
    with pytest.raises(AgentSettingsError) as told:
        ReplayAgent.read(file)
    assert str(told.value).startswith(f"{file}:2: ")
    assert problem in str(told.value)


def test_a_trace_that_can_not_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "broken.jsonl").write_text('{"id": "t"}\n{]\n')
    (tmp_path / "empty.jsonl").touch()
    for name, text in (
        (".", r"episodes\.jsonl: No such file"),
        ("broken.jsonl", r"broken\.jsonl:2: not JSON"),
        ("empty.jsonl", r"empty\.jsonl holds no episodes"),
    ):
        with pytest.raises(AgentSettingsError, match=text):
            ReplayAgent.read(tmp_path / name)


async def test_a_trace_that_changes_while_it_is_played_is_told(tmp_path: Path) -> None:
    file = trace(tmp_path, {"id": "other"}, {"id": "t", "execution_result": "x"})
    agent = ReplayAgent.read(file)
    trace(tmp_path, {"id": "ohter"}, {"id": "u", "execution_result": "x"})
    with pytest.raises(NotRecorded, match="it was changed"):
        await agent.act(Episode(task(), 0))
    file.unlink()
    with pytest.raises(NotRecorded, match="can't be played any more"):
        await agent.act(Episode(task(), 0))


async def test_a_long_trace_is_not_held_in_memory(tmp_path: Path) -> None:
    outputs = [{"step": n, "tool_name": "a", "output": "x" * 3_000} for n in range(1, 4)]
    file = trace(tmp_path, *({"id": f"t{n}", "tool_calls": outputs} for n in range(1_500)))
    assert file.stat().st_size > 12_000_000
    tracemalloc.start()
    try:
        agent = ReplayAgent.read(file)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_500_000
    assert len(await turns(agent, "t1499")) == 4

"""Rollouts of other frameworks: the same reward as in a run, and no reward for an outage."""

import asyncio
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.record import Ending, EpisodeRecord
from bench.rollouts import Rollouts, endless_tasks, messages_of, text_of
from bench.runs.reader import Run
from bench.suites.generated.answer import Answer
from bench.suites.generated.suite import Generated
from finport import Gateway, GatewaySettings
from tests.support.commands import finbench
from tests.support.markets import DAYS, market_gateway, write_market

pytestmark = pytest.mark.anyio


def said(tool: str, data: object = None, **error: str) -> str:
    """An envelope as MCP's text has it."""
    provenance = {"source": "live", "call_id": "x-1", "elapsed_ms": 1.5}
    body: dict[str, Any] = {"ok": not error, "tool": tool, "provenance": provenance}
    return orjson.dumps(body | ({"error": error} if error else {"data": data})).decode()


def asked(id_: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": orjson.dumps(arguments).decode()}
    return {"id": id_, "type": "function", "function": function}


@cache
def suite() -> Generated:
    return Generated("generated", islice(endless_tasks(3), 12))


async def generated() -> Rollouts:
    return Rollouts(suite())


def test_endless_tasks_are_those_of_the_seed() -> None:
    first = [task.id for task in islice(endless_tasks(3), 20)]
    assert first == [task.id for task in islice(endless_tasks(3), 20)]
    assert not {*first} & {task.id for task in islice(endless_tasks(4), 20)}


async def test_a_right_answer_earns_the_reward_and_credit_for_its_steps() -> None:
    rollouts = await generated()
    for task in rollouts.suite.tasks:
        labelled = [asked(f"c{n}", call.name, call.arguments) for n, call in enumerate(task.tools)]
        gold = Answer.model_validate_json(task.answer)
        data = [{"value": step} for step in gold.steps]
        answers = [
            {"role": "tool", "tool_call_id": f"c{n}", "content": said(call.name, data)}
            for n, call in enumerate(task.tools)
        ]
        messages: list[dict[str, Any]] = [
            {"role": "user", "content": task.question},
            {"role": "assistant", "content": None, "tool_calls": labelled},
            *answers,
            {"role": "assistant", "content": [{"type": "text", "text": gold.text}]},
        ]
        record = rollouts.record(task, messages)
        score = await rollouts.score(record)
        assert (score.reward, score.outage, score.passed) == (1.0, None, True), gold.text
        assert score.credit in (None, 1.0)
        assert record.tool_calls[0].source == "live"
        wrong = await rollouts.score(rollouts.record(task, [*messages[:-1], said_finally("17.5")]))
        assert (wrong.reward, wrong.outage) == (0.0, None)


def said_finally(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


@pytest.mark.parametrize(
    ("content", "is_error"),
    [
        (said("t", code="upstream_unreachable", fault="tool", message="no connection"), False),
        (said("t", code="quota_exhausted", fault="quota", message="used up"), False),
        (said("t", code="overloaded", fault="gateway", message="busy"), False),
        ("ConnectError: all attempts failed", True),
    ],
)
async def test_an_outage_is_no_reward(content: str, is_error: bool) -> None:
    rollouts = await generated()
    task = rollouts.suite.tasks[0]
    call = {"role": "assistant", "content": "", "tool_calls": [asked("a", "t", {"x": 1})]}
    reply = {"role": "tool", "tool_call_id": "a", "content": content, "is_error": is_error}
    messages: list[dict[str, Any]] = [call, reply, said_finally("no idea")]
    score = await rollouts.score(rollouts.record(task, messages))
    assert score.reward is None
    assert score.outage is not None
    again = {"role": "assistant", "tool_calls": [asked("b", "t", {"x": 1})]}
    worked = {"role": "tool", "tool_call_id": "b", "content": said("t", [1])}
    made_up: list[dict[str, Any]] = [call, reply, again, worked, said_finally("no idea")]
    score = await rollouts.score(rollouts.record(task, made_up))
    assert (score.reward, score.outage) == (0.0, None)


async def test_an_agents_own_errors_are_no_outage() -> None:
    rollouts = await generated()
    wrong = said("t", code="invalid_arguments", fault="agent", message="no such symbol")
    messages: list[dict[str, Any]] = [
        {"role": "assistant", "tool_calls": [asked("a", "t", {})]},
        {"role": "tool", "tool_call_id": "a", "content": wrong},
        said_finally("no idea"),
    ]
    score = await rollouts.score(rollouts.record(rollouts.suite.tasks[0], messages))
    assert (score.reward, score.outage) == (0.0, None)


async def test_tools_that_call_others_are_read_as_those() -> None:
    rollouts = await generated()
    through = {"name": "get_coin", "arguments": {"uuid": "x"}}
    messages: list[dict[str, Any]] = [
        {"role": "assistant", "tool_calls": [asked("a", "search_tools", {"query": "coin"})]},
        {"role": "tool", "tool_call_id": "a", "content": "{}"},
        {"role": "assistant", "tool_calls": [asked("b", "call_tool", through)]},
        {"role": "tool", "tool_call_id": "b", "content": said("get_coin", {"price": 1})},
        said_finally("1"),
    ]
    record = rollouts.record(rollouts.suite.tasks[0], messages)
    assert [(c.tool_name, c.parameters) for c in record.tool_calls] == [("get_coin", {"uuid": "x"})]


@given(st.lists(st.dictionaries(st.text(max_size=12), st.none() | st.text() | st.integers())))
async def test_any_messages_make_a_record(messages: list[dict[str, Any]]) -> None:
    rollouts = await generated()
    odd = [{"role": "assistant", "tool_calls": messages}, *messages]
    record = rollouts.record(rollouts.suite.tasks[0], odd)
    assert (await rollouts.score(record)).reward in (0.0, None)


def test_text_comes_in_parts() -> None:
    assert text_of([{"type": "text", "text": "a"}, {"type": "image"}, {"text": "b"}]) == "ab"
    assert text_of(None) == ""


@pytest.mark.parametrize("suite", ["generated", "starter", "fintrace-sample", "finova-sample"])
def test_a_recorded_episode_scores_the_same_by_its_messages(
    suite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options: tuple[str, ...] = ("--upstream", "simulated", "--simulated-failure-rate", "0.2")
    dataset = None
    if suite == "generated":
        assert finbench("tasks", "make", "--n", "30", "--out", "tasks.jsonl").returncode == 0
        dataset = Path("tasks.jsonl")
        options = ("--dataset", "tasks.jsonl", "--agent", "solver")
    done = finbench("run", suite, "--episodes", "60", "--out", "run", *options)
    assert done.returncode == 0, done.stderr
    records = [one for one in Run.open(Path("run")).records() if isinstance(one, EpisodeRecord)]
    assert len(records) == 60

    async def compare() -> None:
        async with Rollouts.open(suite, dataset) as rollouts:
            tasks = {task.id: task for task in rollouts.suite.tasks}
            for record in records:
                again = rollouts.record(
                    tasks[record.id],
                    messages_of(record),
                    repeat=record.repeat,
                    error=record.error,
                    ending=Ending(record.ending),
                )
                assert await rollouts.score(again) == await rollouts.score(record)

    asyncio.run(compare())


async def test_a_play_has_a_session_that_nobody_sees(tmp_path: Path) -> None:
    folder = write_market(tmp_path / "market")
    async with (
        Rollouts.open("investorbench", folder) as rollouts,
        market_gateway(folder, tmp_path / "cache") as gateway,
    ):
        task = rollouts.suite.tasks[0]
        async with rollouts.play(task, gateway) as play:
            for schema in play.schemas():
                assert "session" not in schema["function"]["parameters"]["properties"]
            for _ in range(DAYS + 1):
                seen = await play.call("market_observe", {})
                if not seen.ok or seen.value.get("done"):
                    break
                for asset in seen.value["assets"]:
                    traded = {"date": seen.value["date"], "symbol": asset["symbol"], "position": 1}
                    await play.call("market_trade", traded)
            refused = await play.call("market_close", {})
            assert not refused.ok
        score = await rollouts.score(play.record)
        assert "session" not in str(play.record.tool_calls[0].parameters)
        assert score.figures


async def test_a_play_is_scored_as_a_run(tmp_path: Path) -> None:
    rollouts = await generated()
    task = rollouts.suite.tasks[0]
    settings = GatewaySettings(cache_dir=tmp_path, **rollouts.suite.gateway_settings)
    async with Gateway.open(settings) as gateway, rollouts.play(task, gateway) as play:
        for call in task.tools:
            result = await play.call(call.name, call.arguments)
            assert result.ok, result.message
        play.answer(Answer.model_validate_json(task.answer).text)
    score = await rollouts.score(play.record)
    assert (score.reward, score.credit) == (1.0, 1.0)

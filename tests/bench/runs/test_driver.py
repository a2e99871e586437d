"""The driver with real records on disk; the gateway is real, agents are made for the occasion."""

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.agents import Episode, ErrorRates, ModelError, ScriptedAgent, ToolCall, Turn
from bench.client import HttpClient
from bench.record import Ending, EpisodeRecord, FailedJudgement, Judgement, ModelCallRecord
from bench.runs.directory import RunDirectory, RunDirectoryError
from bench.runs.driver import Driver, Limits
from bench.runs.reader import Run
from bench.runs.resume import Resuming
from bench.suites import load_suite
from bench.task import Task
from gateway import CallContext, Gateway, GatewaySettings
from manifests import Catalog, Manifest
from tests.support.agents import Loopback, Made
from tests.support.gateways import ServedGateway
from tests.support.records import call as recorded_call
from tests.support.runs import lines_of
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.anyio

SUITE = load_suite("starter")


CALL = Turn(calls=(ToolCall("t", {}),))


def driver_for(directory: RunDirectory, agent: Any, **options: Any) -> Driver:
    client = options.pop("client", None) or Loopback()
    return Driver(SUITE, agent, client, directory, **{"concurrency": 10, **options})


async def run(
    folder: Path, agent: Any, episodes: int, limits: Limits | None = None, **options: Any
) -> tuple[Driver, list[dict[str, Any]]]:
    async with RunDirectory.open(folder, {}) as directory:
        driver = driver_for(directory, agent, limits=limits, **options)
        await driver.run(episodes)
    return driver, lines_of(folder / "episodes.jsonl")


@asynccontextmanager
async def embedded(
    folder: Path, catalog: Catalog, **settings: Any
) -> AsyncIterator[tuple[RunDirectory, Gateway]]:
    """A run directory and a gateway over the simulated upstream that records in it."""
    given = GatewaySettings(upstream="simulated", cache_dir=folder.parent / "c", **settings)
    async with (
        RunDirectory.open(folder, {"suite": "starter"}) as directory,
        Gateway.open(given, catalog=catalog, trace=directory.calls) as gateway,
    ):
        yield directory, gateway


def episodes_of(folder: Path) -> list[EpisodeRecord]:
    return [episode for episode, _ in Run.open(folder).episodes()]


def judgements(folder: Path) -> dict[str, Judgement | None]:
    return {record.id: record.judgement for record in episodes_of(folder)}


async def test_every_episode_is_recorded_once(tmp_path: Path) -> None:
    agent = ScriptedAgent(["t"], rates=ErrorRates())
    driver, records = await run(tmp_path / "run", agent, 200, concurrency=16)
    assert driver.done == len(records) == 200
    assert len({record["episode"] for record in records}) == 200
    assert driver.most_in_flight == 16
    expected = {f"{task.id}.{repeat}" for task in SUITE.tasks for repeat in range(3)}
    assert {record["episode"] for record in records} <= expected
    assert {record["repeat"] for record in records} == {0, 1, 2}


async def test_a_record_is_a_superset_of_the_published_trace(tmp_path: Path) -> None:
    _, (record, *_) = await run(tmp_path / "run", ScriptedAgent([]), 72, concurrency=1)
    assert set(record) >= {
        *("id", "source_dataset", "category", "question", "tool_calls", "execution_result"),
        *("ground_truth", "error", "setting", "candidate_tools", "response"),
    }
    for call in record["tool_calls"]:
        assert {"step", "tool_name", "parameters", "output"} <= set(call)


async def test_limits_end_an_episode_with_a_reason(tmp_path: Path) -> None:
    async def forever(*_: Any) -> Turn:
        return CALL

    async def stuck(*_: Any) -> Turn:
        await asyncio.sleep(2 * PATIENCE_S)
        return CALL

    async def broken(*_: Any) -> Turn:
        raise RuntimeError("no model")

    async def many(*_: Any) -> Turn:
        return Turn(calls=CALL.calls * 3)

    async def wordy(episode: Episode) -> Turn:
        asked = ModelCallRecord(1, "act", "m", 0.0, 1.0, input_tokens=60, output_tokens=20)
        episode.model_calls.append(asked)
        return CALL

    async def unreachable(*_: Any) -> Turn:
        raise ModelError("429: try later")

    endings = []
    for number, act in enumerate((forever, stuck, broken, many, wordy, unreachable)):
        wall_s = 0.05 if act is stuck else PATIENCE_S
        limits = Limits(rounds=3, calls=7, wall_s=wall_s, tokens=150)
        _, (record,) = await run(tmp_path / str(number), Made(act), 1, limits)
        told = re.sub(r"py:\d+", "py:LINE", record["error"])
        endings.append((record["ending"], told, len(record["tool_calls"])))
    assert endings == [
        ("rounds", "limit: 3 rounds are used up", 3),
        ("time", "limit: 0.05 s have passed", 0),
        ("agent_error", "agent: test_driver.py:LINE: RuntimeError: no model", 0),
        ("calls", "limit: 7 calls are used up", 6),
        ("tokens", "limit: 150 tokens are used up", 1),
        ("model_error", "model: 429: try later", 0),
    ]
    assert len(record["model_calls"]) == 0
    assert all(Ending(ending).is_error for ending, _, _ in endings)


async def test_an_agent_knows_what_is_left_and_what_it_is_offered(
    catalog: Catalog, tmp_path: Path
) -> None:
    seen: list[tuple[int, list[str]]] = []
    offered = [next(iter(catalog))]

    async def act(episode: Episode) -> Turn:
        seen.append((episode.rounds_left, [tool.name for tool in episode.tools]))
        if episode.history:
            episode.history[-1].observed[0] = "what I made of it"
        return CALL if episode.rounds_left else Turn(answer="no", ending=Ending.REFUSAL)

    async def offer(_: Task) -> list[Manifest]:
        return offered

    class Marks:
        name = "marks"

        async def judge(self, record: EpisodeRecord) -> Judgement:
            return Judgement(self.name, "free_text", scores=[len(record.tool_calls) / 4])

    await run(tmp_path / "run", Made(act), 1, Limits(rounds=2), offer=offer, judge=Marks())
    (record,) = episodes_of(tmp_path / "run")
    assert seen == [(left, [offered[0].name]) for left in (2, 1, 0)]
    assert record.candidate_tools == [offered[0].name]
    assert record.labelled_tools == [call.name for call in SUITE.tasks[0].tools]
    assert [call.observed for call in record.tool_calls] == ["what I made of it"] * 2
    assert (record.ending, record.error, record.execution_result) == ("refusal", None, "no")
    assert record.judgement == Judgement("marks", "free_text", scores=[0.5])


def _noting(calls: Any) -> Any:
    async def act(episode: Episode) -> Turn:
        episode.model_calls = calls
        return Turn(answer="x")

    return act


def _observing(place: Any, text: Any) -> Any:
    async def act(episode: Episode) -> Turn:
        if not episode.history:
            return CALL
        episode.history[-1].observed[place] = text
        return Turn(answer="x")

    return act


def _giving(turn: Any) -> Any:
    async def act(_: Episode) -> Any:
        return turn

    return act


def _raising(error: BaseException) -> Any:
    async def act(_: Episode) -> Turn:
        raise error

    return act


class _Speechless(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


class _Mute(Exception):
    def __str__(self) -> str:
        raise GeneratorExit


class _PanicException(BaseException):
    """As native extensions in Rust raise it (PyO3): no Exception."""


def _request(**told: Any) -> ModelCallRecord:
    return replace(ModelCallRecord(1, "act", "m", 0.0, 1.0), **told)


def _saying(text: str) -> Any:
    async def act(_: Episode) -> Turn:
        return replace(CALL, response=text)

    return act


NONSENSE: dict[str, Any] = {
    "TurnError: `act` gave None where a Turn belongs": _giving(None),
    "the answer of a turn is a text, not a value of type int": _giving(Turn(answer=5)),  # type: ignore[arg-type]
    "the response of a turn is a text, not None": _giving(Turn(response=None)),  # type: ignore[arg-type]
    "has 2000000 characters, over 1048576": _giving(Turn(answer="x" * 2_000_000)),
    "ends as Ending.ANSWER, REFUSAL or EMPTY": _giving(Turn(ending=Ending.TIME)),
    "the calls of a turn are a tuple": _giving(Turn(calls="get_coin")),  # type: ignore[arg-type]
    "str stands where a ToolCall belongs": _giving(Turn(calls=("t",))),  # type: ignore[arg-type]
    "the tool and the problem of a call are texts": _giving(Turn(calls=(ToolCall(5, {}),))),  # type: ignore[arg-type]
    "t: the arguments of a call": _giving(Turn(calls=(ToolCall("t", ["x"]),))),  # type: ignore[arg-type]
    "dict of names to values": _giving(Turn(calls=(ToolCall("t", {5: 1}),))),  # type: ignore[dict-item]
    "`observed` of a round takes a text at the place": _observing(7, "x"),
    "`observed` of a round": _observing(0, 5),
    "`model_calls` of an episode is a list": _noting(None),
    "is a list of ModelCallRecords": _noting([{"input_tokens": 5}]),
    "CancelledError: something that it waited for": _raising(asyncio.CancelledError()),
    "SystemExit: 3": _raising(SystemExit(3)),
    "GeneratorExit: ": _raising(GeneratorExit()),
    "BaseExceptionGroup: both (2 sub-": _raising(
        BaseExceptionGroup("both", [GeneratorExit(), ValueError("x")])
    ),
    "CancelledErrors (1 sub-": _raising(
        BaseExceptionGroup("CancelledErrors", [asyncio.CancelledError()])
    ),
    "PanicException: index out of bounds": _raising(_PanicException("index out of bounds")),
    ": _Mute": _raising(_Mute()),
    "RuntimeError: xxx": _raising(RuntimeError("x" * 10**7)),
    "`observed` takes at most 1048576 characters": _observing(0, "x" * 2_000_000),
    "of at most 4096 bytes": _noting([_request(purpose="x" * 5_000)]),
    "ModelCallRecords, at most 10000": _noting([_request()] * 10_001),
    "a list of ModelCallRecords,": _noting([_request(input_tokens="many")]),
    "texts and arguments of an episode have at most 4194304 bytes": _saying("一" * 10**6),
    "_Speechless": _raising(_Speechless()),
}


@pytest.mark.parametrize("said", NONSENSE)
async def test_nonsense_of_an_agent_costs_its_own_episode_only(said: str, tmp_path: Path) -> None:
    async def act(episode: Episode) -> Turn:
        if episode.task.id != "starter_1":
            await asyncio.sleep(0.01)
            return Turn(answer="x")
        turn: Turn = await NONSENSE[said](episode)
        return turn

    driver, records = await run(tmp_path / "run", Made(act), 4)
    assert len(records) == 4
    (spoilt,) = (record for record in records if record["ending"] != "answer")
    assert (spoilt["id"], spoilt["ending"]) == ("starter_1", "agent_error")
    assert said in spoilt["error"]
    assert len(spoilt["error"]) <= 1_000
    assert driver.tally.first_errors == {"agent_error": spoilt["error"]}


async def test_an_agent_that_cancels_its_own_task_costs_no_other_episode(tmp_path: Path) -> None:
    async def act(_: Episode) -> Turn:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return Turn(answer="x")

    class Waiting:
        name = "waiting"

        async def judge(self, _: EpisodeRecord) -> Judgement:
            await asyncio.sleep(0)
            return Judgement(self.name, "none")

    _, records = await run(tmp_path / "run", Made(act), 5, concurrency=1, judge=Waiting())
    assert [record["ending"] for record in records] == ["answer"] * 5


async def test_an_agent_that_makes_an_error_of_being_stopped_leaves_no_record(
    tmp_path: Path,
) -> None:
    begun = asyncio.Event()

    async def act(_: Episode) -> Turn:
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise ValueError("stopped") from None
        return Turn()

    async with RunDirectory.open(tmp_path / "run", {}) as directory:
        directory.calls.put(recorded_call())
        driver = driver_for(directory, Made(act), concurrency=1)
        running = asyncio.create_task(driver.run(3))
        await begun.wait()
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()
    assert not episodes_of(tmp_path / "run")


async def test_arguments_are_bounded_and_an_episode_records_no_more_than_some_megabytes(
    catalog: Catalog, tmp_path: Path
) -> None:
    told: list[str] = []
    large = ToolCall("get_coin", {"uuid": "x" * 2**24, "api_key": "planted"})
    wide = ToolCall("get_coin", {"uuid": [1] * 2**23})
    named = ToolCall("t" * 500, {})
    most = ToolCall("get_coin", {"uuid": "x" * 10**6})

    async def act(episode: Episode) -> Turn:
        if episode.task.id != "starter_0":
            return Turn(calls=(most,) * 16)
        if not episode.history:
            return Turn(calls=(large, wide, named) * 5)
        told.extend(reply.text() for reply in episode.history[0].replies)
        return Turn(answer="x")

    async with embedded(tmp_path / "run", catalog) as (directory, gateway):
        await driver_for(directory, Made(act), client=gateway, concurrency=2).run(6)
    assert sum(file.stat().st_size for file in (tmp_path / "run").iterdir()) < 6 * 9 * 2**20
    records = episodes_of(tmp_path / "run")
    (record,) = (r for r in records if r.id == "starter_0")
    assert {call.code for call in record.tool_calls} == {"invalid_arguments"}
    assert "the arguments have at most 1048576 bytes as JSON, these have over 16777" in told[0]
    assert "the name of a tool has at most 128 characters, not 500" in told[2]
    excerpt = record.tool_calls[0].parameters["too_large"]
    assert excerpt["bytes"] > 2**24
    assert excerpt["arguments"] == {"uuid": "x" * 200, "api_key": "[redacted]"}
    assert record.tool_calls[2].tool_name == "t" * 128
    assert {r.ending for r in records if r is not record} == {"agent_error"}


async def test_an_agent_that_goes_on_when_its_time_is_up_gets_no_further_turn(
    tmp_path: Path,
) -> None:
    async def act(_: Episode) -> Turn:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        return CALL

    _, (record,) = await run(tmp_path / "run", Made(act), 1, Limits(wall_s=0.05))
    assert (record["ending"], record["tool_calls"]) == ("time", [])


async def test_an_agent_can_not_give_itself_rounds(tmp_path: Path) -> None:
    async def act(episode: Episode) -> Turn:
        episode.history.clear()
        episode.rounds_left = 5
        return CALL

    _, (record,) = await run(tmp_path / "run", Made(act), 1, Limits(rounds=3))
    assert (record["ending"], [call["step"] for call in record["tool_calls"]]) == (
        *("rounds", [1, 2, 3]),
    )


async def test_a_judge_that_fails_costs_its_judgements_only_and_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        name = "broken"

        async def judge(self, record: EpisodeRecord) -> Judgement:
            match record.id:
                case "starter_1":
                    raise KeyError("score")
                case "starter_2":
                    raise SystemExit(3)
                case "starter_3":
                    raise asyncio.CancelledError
                case "starter_4":
                    return Judgement(self.name, "none", [1.0] * 10_000_000)
                case "starter_5":
                    return Judgement(self.name, "x" * 2_000_000)
            return Judgement(self.name, "none")

    agent = Made(_giving(Turn(answer="x")))
    driver, _ = await run(tmp_path / "run", agent, 7, concurrency=1, judge=Broken())
    judged = judgements(tmp_path / "run")
    failed = [one for one in judged.values() if isinstance(one, FailedJudgement)]
    assert len(judged) == 7
    assert [re.sub(r"py:\d+", "py:LINE", one.error) for one in failed] == [
        "test_driver.py:LINE: KeyError: 'score'",
        "test_driver.py:LINE: SystemExit: 3",
        "test_driver.py:LINE: CancelledError: something that it waited for was cancelled",
        "JudgementError: its scores are 10000000 where a list of at most 10000 is allowed",
        "JudgementError: it has 2000140 bytes as JSON, over 1048576",
    ]
    assert {one.invalid for one in failed} == {1}
    assert judged["starter_6"] == Judgement("broken", "none")
    tally = driver.tally
    assert (tally.judged, tally.failed_judgements) == (5, 5), "two had nothing to score"
    assert tally.first_errors == {"judge": failed[0].error}
    (line,) = [r.getMessage() for r in caplog.records if "the judge failed" in r.getMessage()]
    assert f"the judge failed on starter_1.0: {failed[0].error}; further" in line


class Hanging:
    """A judge that judges one task and hangs on the others."""

    name = "hanging"

    def __init__(self) -> None:
        self.hangs = asyncio.Event()

    async def judge(self, record: EpisodeRecord) -> Judgement:
        if record.id != "starter_0":
            self.hangs.set()
            await asyncio.sleep(2 * PATIENCE_S)
        return Judgement(self.name, "none", [1.0])


async def test_a_judge_that_hangs_costs_its_judgement_only(tmp_path: Path) -> None:
    agent = Made(_giving(Turn(answer="x")))
    await run(tmp_path / "run", agent, 3, judge=Hanging(), judge_s=0.05)
    judged = judgements(tmp_path / "run")
    assert judged.pop("starter_0") == Judgement("hanging", "none", [1.0])
    expected = FailedJudgement("hanging", "none", invalid=1, error="limit: 0.05 s have passed")
    assert [*judged.values()] == [
        replace(expected, kind=one.kind) for one in judged.values() if one
    ]


async def test_an_episode_that_waits_for_its_judge_is_recorded_when_the_run_is_ended(
    tmp_path: Path,
) -> None:
    about = {"suite": "starter", "judge": "hanging"}
    judge = Hanging()
    async with RunDirectory.open(tmp_path / "run", about) as directory:
        agent = Made(_giving(Turn(answer="x")))
        driver = driver_for(directory, agent, concurrency=2, judge=judge)
        running = asyncio.create_task(driver.run(2))
        await judge.hangs.wait()
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()
    expected = {"starter_0": Judgement("hanging", "none", [1.0]), "starter_1": None}
    assert judgements(tmp_path / "run") == expected
    async with RunDirectory.open(tmp_path / "run", about, resuming=Resuming()) as directory:
        assert directory.finished == {"starter_0.0"}
    unjudged = {"judge": "none"}
    (tmp_path / "run" / "run.json").write_text(json.dumps(unjudged))
    async with RunDirectory.open(tmp_path / "run", unjudged, resuming=Resuming()) as directory:
        assert directory.finished == {"starter_0.0"}, "the other was moved away before"


async def test_agents_that_block_the_event_loop_get_no_turn_once_the_run_is_told_to_end(
    tmp_path: Path,
) -> None:
    turns: list[str] = []

    async def act(episode: Episode) -> Turn:
        turns.append(episode.task.id)
        running.cancel()  # as a signal does, while no task but this one can run
        return Turn(answer="x")

    async with RunDirectory.open(tmp_path / "run", {}) as directory:
        driver = driver_for(directory, Made(act), concurrency=20)
        running = asyncio.create_task(driver.run(20))
        await asyncio.wait([running])
        assert running.cancelled()
    assert turns == ["starter_0"]
    assert judgements(tmp_path / "run") == {"starter_0": None}, "it had finished"


async def test_few_starts_a_second_are_few(tmp_path: Path) -> None:
    began, started = time.monotonic(), list[float]()

    async def act(_: Episode) -> Turn:
        started.append(time.monotonic())
        return Turn(answer="x")

    await run(tmp_path / "run", Made(act), 3, starts_per_s=5)
    assert started[2] - began > 0.38


async def test_calls_that_can_not_be_made_are_recorded_and_answered(tmp_path: Path) -> None:
    told: list[str] = []

    async def act(episode: Episode) -> Turn:
        if episode.history:
            told.extend(reply.text() for reply in episode.history[-1].replies)
            return Turn(answer="\ud800 done")
        not_json = ToolCall("t", {"x": object()})
        return Turn(calls=(ToolCall("t\ud800", {}, problem="the arguments are not JSON"), not_json))

    client = Loopback()
    await run(tmp_path / "run", Made(act), 1, client=client)
    (record,) = episodes_of(tmp_path / "run")
    assert record.ending == "answer"
    assert record.execution_result == "? done"
    refused, sent = record.tool_calls
    assert (refused.code, refused.fault, refused.call_id) == ("invalid_arguments", "agent", "")
    assert told[0] == "t?: the arguments are not JSON"
    assert "not_json" in sent.parameters
    assert client.calls == 1


async def test_calls_that_are_cut_off_are_in_both_records(catalog: Catalog, tmp_path: Path) -> None:
    agent = ScriptedAgent([], rates=ErrorRates(0, 0, 0))
    opened = embedded(tmp_path / "run", catalog, simulated_hang_rate=1.0)
    async with opened as (directory, gateway):
        options = {"client": gateway, "concurrency": 20, "limits": Limits(wall_s=2.0)}
        await driver_for(directory, agent, **options).run(20)
    result = directory.metrics.result()
    assert (result["TIR"], result["TESR"], result["episode_errors"]) == (1.0, 0.0, 20)
    assert result["traffic"]["errors"] == {"cancelled": 20}


async def test_no_credential_of_an_agent_enters_a_run_directory(
    served: ServedGateway, tmp_path: Path
) -> None:
    async def act(episode: Episode) -> Turn:
        given = {
            "uuid": "x",
            "api_key": "planted",
            "headers": {"X-RapidAPI-Key": "planted"},
            "sent": [{"headers": [{"token": "planted"}]}],
        }
        return Turn() if episode.history else Turn(calls=(ToolCall("get_coin", given),))

    async with RunDirectory.open(tmp_path / "run", {}) as directory:
        async with HttpClient.open(served.url, directory.calls) as client:
            await driver_for(directory, Made(act), client=client).run(1)
        await driver_for(directory, Made(act), client=served.local.gateway).run(1)
    text = "".join(file.read_text() for file in (tmp_path / "run").iterdir())
    assert "[redacted]" in text
    assert "planted" not in text


async def test_outputs_are_cut_and_rounds_bounded_in_width(tmp_path: Path) -> None:
    wide = Turn(calls=tuple(ToolCall("t", {"x": "x" * 600}) for _ in range(40)))

    async def act(episode: Episode) -> Turn:
        return Turn(answer="x") if episode.history else wide

    _, (record,) = await run(tmp_path / "run", Made(act), 1)
    made, refused = record["tool_calls"][:16], record["tool_calls"][16:]
    assert {len(call["output"]) for call in made} == {500}
    assert len(refused) == 24
    assert {call["code"] for call in refused} == {"invalid_request"}
    assert "a round holds at most 16 calls" in refused[0]["output"]["error"]


async def test_one_slow_episode_delays_no_other(tmp_path: Path) -> None:
    async def act(episode: Episode) -> Turn:
        if (episode.task.id, episode.repeat) == ("starter_0", 0):
            await until(lambda: driver.done == 71)
        return Turn(answer="done")

    async with RunDirectory.open(tmp_path / "run", {}) as directory:
        driver = driver_for(directory, Made(act))
        await driver.run(72)
    assert episodes_of(tmp_path / "run")[-1].episode == "starter_0.0"


async def test_the_scripted_agent_plays_the_same_again_and_errs_at_its_rates() -> None:
    names = ["a", "b"]
    turns = []
    for _ in range(2):
        agent = ScriptedAgent(names, seed=7)
        turns.append([await agent.act(Episode(t, r)) for t in SUITE.tasks for r in range(40)])
    assert turns[0] == turns[1]
    idle = sum(not turn.calls for turn in turns[0]) / len(turns[0])
    assert idle == pytest.approx(0.10, abs=0.03)
    other = [
        await ScriptedAgent(names, seed=8).act(Episode(t, r))
        for t in SUITE.tasks
        for r in range(40)
    ]
    assert other != turns[0]
    known = {(call.name, str(call.arguments)) for task in SUITE.tasks for call in task.tools}
    made = [turn.calls[0] for turn in turns[0] if turn.calls]
    foreign = sum(c.tool not in {name for name, _ in known} for c in made) / len(turns[0])
    spoilt = sum((c.tool, str(c.arguments)) not in known for c in made) / len(turns[0])
    assert 0.03 < foreign < 0.08, "a wrong tool in 8 %, in the first round of three in five"
    assert 0.08 < spoilt - foreign < 0.13, "bad arguments in 12 %"
    calm = ScriptedAgent(names, rates=ErrorRates(0, 0, 0))
    for task in SUITE.tasks:
        (first,) = (await calm.act(Episode(task, 0))).calls
        assert (first.tool, first.arguments) == (task.tools[0].name, task.tools[0].arguments)


async def test_over_http_a_call_leaves_the_same_record_as_in_process(
    served: ServedGateway, tmp_path: Path
) -> None:
    context, hist = CallContext(episode="e1", step=1), {"symbol": "600519"}
    async with RunDirectory.open(tmp_path / "run", {}) as directory:
        async with HttpClient.open(served.url, directory.calls) as client:
            good = await client.call("get_coin", {"uuid": "x"}, context)
            bad = await client.call("no/such?tool", {"apikey": "planted"}, replace(context, step=2))
            table = await client.call("stock_zh_a_hist", hist, replace(context, step=4))
        same = await served.local.gateway.call("stock_zh_a_hist", hist, replace(context, step=5))
        async with HttpClient.open("http://127.0.0.1:1", directory.calls) as client:
            lost = await client.call("get_coin", {"uuid": "x"}, replace(context, step=3))
    assert (good.ok, good.source) == (True, "live")
    assert table.data == same.data, "to the byte, so that agents read the same"
    assert (bad.code, bad.fault) == ("unknown_tool", "agent")
    assert (lost.code, lost.fault) == ("internal", "gateway")
    calls = lines_of(tmp_path / "run/calls.jsonl")
    assert [(c["ok"], c["code"], c["step"]) for c in calls] == [
        (True, None, 1),
        (False, "unknown_tool", 2),
        (True, None, 4),
        (False, "internal", 3),
    ]
    assert calls[0]["call_id"] == good.call_id
    assert calls[1]["arguments"] == {"apikey": "[redacted]"}


async def test_metrics_on_disk_never_tell_of_more_than_is_on_disk(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []

    async def act(episode: Episode) -> Turn:
        if not episode.history:
            return CALL
        if episode.repeat % 3 == 0:
            await directory.save()
            counted = json.loads((tmp_path / "run/metrics.json").read_bytes())["episodes"]
            told.append((counted, (tmp_path / "run/episodes.jsonl").read_bytes().count(b"\n")))
        return Turn(answer="x")

    async with RunDirectory.open(tmp_path / "run", {}) as directory:
        await driver_for(directory, Made(act), concurrency=50).run(288)
    assert len(told) == 144
    assert all(counted <= lines for counted, lines in told), told


async def test_a_torn_last_line_is_left_out_and_a_broken_one_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    await run(folder, ScriptedAgent([]), 5)
    episodes = folder / "episodes.jsonl"
    whole = episodes.read_bytes()
    episodes.write_bytes(whole + whole[:40])
    assert len(list(Run.open(folder).records())) == 5
    for broken in (
        b"{]",
        b"3",
        b"null",
        b"{}",
        whole.split(b"\n")[0].replace(b'"repeat":0', b'"repeat":"x"'),
    ):
        episodes.write_bytes(broken + b"\n" + whole)
        with pytest.raises(RunDirectoryError, match=r"episodes\.jsonl:1: not a record"):
            list(Run.open(folder).records())


async def test_what_a_transactional_tool_answers_reaches_the_agent_and_no_record(
    tmp_path: Path,
) -> None:
    read: list[str] = []

    async def act(episode: Episode) -> Turn:
        if not episode.history:
            return Turn(calls=(ToolCall("wallet", {"n": 1}), ToolCall("coin", {"n": 2})))
        (played,) = episode.history
        read.extend(reply.text() for reply in played.replies)
        played.observed[0] = read[0]
        return Turn(answer="done")

    await run(tmp_path / "run", Made(act), 1, withheld={"wallet"})
    assert '["wallet",' in read[0]
    (episode,) = episodes_of(tmp_path / "run")
    wallet, coin = episode.tool_calls
    assert wallet.output == wallet.observed == "[answers of transactional tools are not recorded]"
    assert '["coin",' in str(coin.output)
    assert '["wallet' not in (tmp_path / "run" / "episodes.jsonl").read_text()

"""The simulated model over HTTP: what it plays, that it is deterministic, and its faults."""

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from typing import Any

import aiohttp
import orjson
import pytest
from click.testing import CliRunner
from openai import AsyncOpenAI

from bench.cli.model import simulated_model
from bench.models.client import Completion, ModelClient, ModelError
from bench.models.simulated import ModelFaults, SimulatedModel
from bench.record import ModelCallRecord
from bench.suites import load_suite
from bench.suites.fintoolbench.suite import LabelledTasks
from bench.task import LabelledCall, Task
from manifests import Catalog
from manifests.export import export

pytestmark = pytest.mark.anyio

STARTER = load_suite("starter")
GOLD = {"number": "1,685.01", "choice": "B", "text": "贵州茅台", "none": ""}
SUITE = LabelledTasks(
    name="gold",
    tasks=tuple(
        Task(
            id=f"{kind}_{n}",
            category="equity",
            question=f"{n}: which {kind}?",
            tools=(LabelledCall(name="get_coin"), LabelledCall(name="stock_zh_a_hist")),
            answer=answer,
        )
        for kind, answer in GOLD.items()
        for n in range(40)
    ),
)


def tools_of(catalog: Catalog, *names: str) -> list[dict[str, Any]]:
    found = [catalog.get(name) for name in names]
    return [export(manifest, "openai") for manifest in found if manifest is not None]


async def ask(base_url: str, messages: Any, **asked: Any) -> Completion:
    asked["tools"] = [orjson.dumps(tool) for tool in asked.get("tools", ())]
    record = ModelCallRecord(1, "act", "m", 0.0, 0.0)
    async with ModelClient.open(base_url, "m", None, retries=0) as client:
        said = await client.complete(messages, record=record, **asked)
    assert record.input_tokens > 10
    assert record.output_tokens > 0
    return said


async def ask_role(base_url: str, role: str, content: object) -> Any:
    text = content if isinstance(content, str) else orjson.dumps(content).decode()
    messages = [
        {"role": "system", "content": f"TASK: {role}\nYou are told what to do."},
        {"role": "user", "content": text},
    ]
    return (await ask(base_url, messages)).content


async def play(base_url: str, question: str, tools: list[dict[str, Any]]) -> list[Completion]:
    """A conversation to its answer."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You call tools."},
        {"role": "user", "content": f"Today is Monday.\n{question}\nAnswer briefly."},
    ]
    said: list[Completion] = []
    while not said or said[-1].calls:
        said.append(await ask(base_url, messages, tools=tools))
        calls = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
            for c in said[-1].calls
        ]
        messages.append({"role": "assistant", "content": said[-1].content, "tool_calls": calls})
        messages += [{"role": "tool", "tool_call_id": c.id, "content": "1"} for c in said[-1].calls]
    return said


async def test_the_planner_plays_the_labelled_tools_in_order(catalog: Catalog) -> None:
    rounds = Counter[int]()
    async with SimulatedModel.open(STARTER.tasks, catalog) as model:
        for task in STARTER.tasks:
            labelled = [(call.name, call.arguments) for call in task.tools]
            tools = tools_of(catalog, "get_coin", *(name for name, _ in labelled))
            *turns, answer = await play(model.base_url, task.question, tools)
            made = [(c.name, orjson.loads(c.arguments)) for turn in turns for c in turn.calls]
            assert made == labelled
            assert (answer.finish, bool(answer.content)) == ("stop", True)
            rounds[len(turns) - len(made)] += 1
    assert rounds[0] > 20
    assert rounds[-1] > 5
    assert model.counts["planner"] == sum(model.counts.values())


async def test_without_its_tools_the_planner_takes_another_or_answers(catalog: Catalog) -> None:
    question, tools = SUITE.tasks[0].question, tools_of(catalog, "get_coin")
    unknown = [{"type": "function", "function": {"name": "mine", "parameters": {
        "properties": {"a": {"examples": [3]}, "b": {}}, "required": ["a"]}}}]  # fmt: skip
    messages = [{"role": "user", "content": question}]
    async with SimulatedModel.open(SUITE.tasks, catalog) as model:
        url = model.base_url
        (call,) = (await ask(url, messages, tools=tools)).calls
        coin = catalog.get("get_coin")
        assert coin is not None
        assert (call.name, orjson.loads(call.arguments)) == ("get_coin", coin.sample())
        (call,) = (await ask(url, messages, tools=unknown)).calls
        assert (call.name, call.arguments) == ("mine", '{"a":3}')
        (call,) = (await ask(url, [{"role": "user", "content": "?"}], tools=tools)).calls
        assert call.name == "get_coin"
        for said in (
            await ask(url, messages),
            await ask(url, messages, tools=tools, tool_choice="none"),
        ):
            assert (said.calls, said.finish) == ((), "stop")
            assert said.content


async def test_about_half_of_the_answers_are_right_and_the_judge_sees_it(catalog: Catalog) -> None:
    scores: dict[str, Counter[float]] = {kind: Counter() for kind in GOLD}
    async with SimulatedModel.open(SUITE.tasks, catalog, seed=5) as model:
        for task in SUITE.tasks:
            said = await ask(model.base_url, [{"role": "user", "content": task.question}])
            kind = task.id.partition("_")[0]
            named = {"number": "numeric", "choice": "choice"}.get(kind, "free_text")
            told = {"question": task.question, "gold": task.answer, "answer": said.content}
            judged = await ask_role(model.base_url, "judge-answer", {**told, "kind": named})
            scores[kind][orjson.loads(judged)["score"]] += 1
            if kind != "none":
                assert (orjson.loads(judged)["score"] == 1) == (said.content == task.answer)
    assert set(scores["number"]) == set(scores["choice"]) == {0, 1}
    assert set(scores["text"]) == {0, 0.5, 1}
    assert set(scores["none"]) == {0, 0.5}
    for kind in ("number", "choice", "text"):
        assert 10 <= scores[kind][1] <= 30


@pytest.mark.parametrize(
    ("gold", "answer", "is_right"),
    [
        ("8.70", "It was 8.70 billion.", True),
        ("8.70", "It was 18.70 billion.", False),
        ("8.7", "It was 8.70 billion.", False),
        ("1,685", "１６８５ 元", True),
        ("B", "The answer is b.", True),
        ("B", "None of both", False),
        ("贵州茅台", "答案是贵州 茅台", False),
        ("贵州茅台", "答案是贵州茅台。", True),
        ("", "anything", False),
    ],
)
async def test_an_answer_that_holds_the_gold_one_is_right(
    gold: str, answer: str, is_right: bool, catalog: Catalog
) -> None:
    told = {"question": "?", "gold": gold, "answer": answer, "kind": "numeric"}
    async with SimulatedModel.open(SUITE.tasks, catalog) as model:
        judged = await ask_role(model.base_url, "judge-answer", told)
    said = orjson.loads(judged)
    assert said["score"] == (1 if is_right else 0)
    assert said["reason"].startswith("Simulated: ")


async def test_the_judge_of_tools_finds_most_of_them_suitable(catalog: Catalog) -> None:
    tools = [{"name": manifest.name, "timeliness": "daily"} for manifest in catalog][:100]
    async with SimulatedModel.open(SUITE.tasks, catalog) as model:
        told = {"question": "?", "tools": tools}
        judged = orjson.loads(await ask_role(model.base_url, "judge-tools", told))
    assert [tool["name"] for tool in judged["tools"]] == [tool["name"] for tool in tools]
    for tag in ("timeliness", "intent", "domain"):
        assert 70 <= sum(tool[tag] for tool in judged["tools"]) < 100


async def test_constraints_and_reductions(catalog: Catalog) -> None:
    async with SimulatedModel.open(SUITE.tasks, catalog) as model:
        question = SUITE.tasks[3].question
        said = orjson.loads(await ask_role(model.base_url, "constraints", question))
        reduced = await ask_role(
            model.base_url, "reduce", f"Question:\n{question}\n\nOutput:\n{'[1.5]' * 1000}"
        )
    coin, prices = (catalog.get(call.name) for call in SUITE.tasks[3].tools)
    assert coin is not None
    assert prices is not None
    assert said["timeliness"] == coin.timeliness
    assert set(said["domains"]) == {*coin.regulatory_domains, *prices.regulatory_domains}
    assert said["intent"] == "informational"
    assert reduced == "[1.5]" * 60


async def raw(base_url: str, body: object) -> tuple[int, bytes]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{base_url}/chat/completions", data=orjson.dumps(body)) as response,
    ):
        return response.status, await response.read()


def requests(catalog: Catalog, n: int, **more: Any) -> list[dict[str, Any]]:
    """Requests to the planner, no two the same."""
    tools = tools_of(catalog, "get_coin", "stock_zh_a_hist")
    return [
        {
            "model": "m",
            "messages": [{"role": "user", "content": SUITE.tasks[i % len(SUITE.tasks)].question}],
            "tools": tools,
            "user": str(i),
            **more,
        }
        for i in range(n)
    ]


async def test_the_same_seed_gives_the_same_answers(catalog: Catalog) -> None:
    answers = []
    faults = ModelFaults(bad_json=0.2, server_error=0.2, refusal=0.2)
    for seed in (1, 1, 2):
        async with SimulatedModel.open(SUITE.tasks, catalog, seed=seed, faults=faults) as model:
            asked = requests(catalog, 40) + requests(catalog, 40, stream=True)
            answers.append([await raw(model.base_url, body) for body in asked])
    assert answers[0] == answers[1]
    assert answers[0] != answers[2]


async def test_the_official_client_reads_it_whole_and_in_pieces(catalog: Catalog) -> None:
    async with (
        SimulatedModel.open(SUITE.tasks, catalog) as model,
        AsyncOpenAI(base_url=model.base_url, api_key="none") as client,
    ):
        for body in (*requests(catalog, 4), *requests(catalog, 4, tool_choice="none")):
            whole = await client.chat.completions.create(**body)
            assert (whole.model, whole.system_fingerprint) == ("simulated-planner", "simulated")
            assert whole.usage is not None
            assert whole.usage.prompt_tokens > 100
            async with client.chat.completions.stream(
                **body, stream_options={"include_usage": True}
            ) as stream:
                events = [event async for event in stream]
                pieces = await stream.get_final_completion()
            assert len([event for event in events if event.type == "chunk"]) > 4
            assert pieces.system_fingerprint == "simulated"
            assert pieces.usage is not None
            one, other = whole.choices[0], pieces.choices[0]
            assert other.finish_reason == one.finish_reason
            assert (other.message.content or "") == (one.message.content or "")
            calls = [c.to_dict()["function"] for c in one.message.tool_calls or []]
            joined = [c.to_dict()["function"] for c in other.message.tool_calls or []]
            for function in joined:  # what the SDK parsed besides
                function.pop("parsed_arguments", None)  # type: ignore[attr-defined]
            assert joined == calls


def seen(said: Completion | ModelError) -> str:
    """Which fault an answer shows."""
    if isinstance(said, ModelError):
        marks = {
            "429": "rate_limited",
            "500": "server_error",
            "broke": "cut",
            "HTML": "garbage",
        }
        return next(name for mark, name in marks.items() if mark in str(said))
    if said.refusal:
        return "refusal"
    if said.finish == "length":
        return "length"
    if not said.calls:
        return "" if said.content else "empty"
    if len(said.calls) == 40:
        return "too_many_calls"
    if said.calls[0].name.endswith("_v2"):
        return "unknown_tool"
    try:
        orjson.loads(said.calls[0].arguments)
    except orjson.JSONDecodeError:
        return "bad_json"
    return ""


FAULTS = (
    *("bad_json", "unknown_tool", "refusal", "empty", "rate_limited", "server_error"),
    *("cut", "garbage", "too_many_calls", "length"),
)


@pytest.mark.parametrize("is_stream", [False, True])
async def test_each_fault_comes_at_its_rate(is_stream: bool, catalog: Catalog) -> None:
    faults = ModelFaults(**dict.fromkeys(FAULTS, 0.08))
    tools = [orjson.dumps(tool) for tool in tools_of(catalog, "get_coin", "stock_zh_a_hist")]
    met = Counter[str]()
    async with (
        SimulatedModel.open(SUITE.tasks, catalog, faults=faults) as model,
        ModelClient.open(model.base_url, "m", None, retries=0, stream=is_stream) as client,
    ):

        async def one(n: int) -> str:
            record = ModelCallRecord(1, "act", "m", 0.0, 0.0)
            messages = [{"role": "user", "content": f"{SUITE.tasks[0].question} {n}"}]
            try:
                return seen(await client.complete(messages, tools=tools, record=record))
            except ModelError as error:
                return seen(error)

        for start in range(0, 500, 50):
            met.update(await asyncio.gather(*(one(start + n) for n in range(50))))
    assert {name: model.counts[name] for name in FAULTS} == {name: met[name] for name in FAULTS}
    assert model.counts["planner"] == 500
    for name in FAULTS:  # 40 are expected; three standard deviations are 18
        assert 18 <= met[name] <= 62, name


async def test_what_is_not_the_planners_meets_only_what_befalls_all(catalog: Catalog) -> None:
    faults = ModelFaults(bad_json=0.3, refusal=0.3, judge_invalid=0.4)
    told = {"question": "?", "gold": "1", "answer": "1", "kind": "numeric"}
    valid = 0
    async with SimulatedModel.open(SUITE.tasks, catalog, faults=faults) as model:
        for n in range(60):
            text = await ask_role(model.base_url, "judge-answer", {**told, "n": n})
            valid += text.startswith('{"score":1,')
            assert await ask_role(model.base_url, "reduce", f"Output: {n}") == str(n)
    assert set(model.counts) == {"judge-answer", "reduce", "judge_invalid"}
    assert model.counts["judge_invalid"] == 60 - valid
    assert 10 <= 60 - valid <= 38


async def test_another_attempt_may_succeed(catalog: Catalog) -> None:
    async with (
        SimulatedModel.open(SUITE.tasks, catalog, faults=ModelFaults(rate_limited=0.5)) as model,
        ModelClient.open(model.base_url, "m", None, retries=12) as client,
    ):
        records = [ModelCallRecord(1, "act", "m", 0.0, 0.0) for _ in range(20)]
        await asyncio.gather(
            *(
                client.complete([{"role": "user", "content": str(n)}], record=record)
                for n, record in enumerate(records)
            )
        )
    assert model.counts["rate_limited"] == sum(r.attempts - 1 for r in records) > 5


@pytest.mark.parametrize(
    "rates", [{"cut": -0.1}, {"cut": 0.6, "empty": 0.6}, {"cut": float("nan")}]
)
def test_rates_are_shares_of_one_whole(rates: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="1 in all at most"):
        ModelFaults(**rates)


@pytest.mark.parametrize(
    "body",
    [
        [],
        {},
        {"messages": []},
        {"messages": ["hi"]},
        {"messages": [{"role": "user"}], "tools": [{}]},
        {"messages": [{"role": "system", "content": "TASK: dance"}]},
        {"messages": [{"role": "system", "content": "TASK: judge-answer\nJudge."}]},
        {"messages": [{"role": "system", "content": "TASK: judge-tools"},
                      {"role": "user", "content": "{}"}]},
    ],
)  # fmt: skip
async def test_an_odd_request_is_refused(body: object, catalog: Catalog) -> None:
    async with SimulatedModel.open(SUITE.tasks, catalog) as model:
        status, said = await raw(model.base_url, body)
    assert status == 400
    assert orjson.loads(said)["error"]["message"]


# The command

FINBENCH = (sys.executable, "-c", "from bench.cli.main import main; main()")


def test_the_command_serves_until_it_is_told_to_end() -> None:
    asked = {"messages": [{"role": "user", "content": STARTER.tasks[0].question}]}
    options = ("--seed", "3", "--fault", "garbage=1", "--latency-s", "0.01")
    started = [
        subprocess.Popen(
            [*FINBENCH, "simulated-model", "starter", *options, *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ,
        )
        for more in ((), ("--until-stdin-closes",))
    ]
    for process in started:
        assert process.stdin is not None
        assert process.stdout is not None
        with process:
            line = process.stdout.readline()
            words, url = line.rsplit(maxsplit=1)
            assert words == "simulated model ready on"
            assert b"Just a moment" in asyncio.run(raw(url, asked))[1]
            if process is started[0]:
                process.send_signal(signal.SIGTERM)
            else:
                process.stdin.close()
            assert process.wait(10) == 0


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("nowhere",), "no suite is named"),
        (("starter", "--fault", "fire=1"), "no fault is named 'fire'"),
        (("starter", "--fault", "cut=often"), "NAME=RATE is expected"),
        (("starter", "--fault", "cut=2"), "1 in all at most"),
    ],
)
def test_the_command_says_what_is_wrong(options: tuple[str, ...], text: str) -> None:
    result = CliRunner().invoke(simulated_model, options)
    assert result.exit_code == 2
    assert text in result.output

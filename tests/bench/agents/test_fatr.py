"""The agent `fatr` through the real driver and model client; the model plays prepared answers."""

import asyncio
import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from bench.agents.fatr import Constraints, FatrAgent, FatrOptions, read, split
from bench.runs.directory import RunDirectory
from bench.runs.driver import Driver, Limits
from bench.runs.reader import Run
from bench.suites.fintoolbench.suite import LabelledTasks
from bench.task import Task
from gateway import Result
from manifests import Catalog, Manifest
from tests.support.answers import answer
from tests.support.played_model import (
    INPUT,
    OUTPUT,
    TASK,
    Aside,
    Outputs,
    opened,
    play,
    playing,
    says,
)
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio

BOND = {"timeliness": "daily", "domains": ["bond", "macro"], "intent": "informational"}
CALL: tuple[str, dict[str, Any]] = ("bond_zh_us_rate", {})
LONG = b'{"text":"' + b"x" * 600 + b'"}'


def giving(said: Any) -> Aside:
    """The same answer to every request."""

    async def give(_: dict[str, Any]) -> Any:
        return dict(said) if isinstance(said, dict) else said

    return give


@pytest.fixture
def tools(catalog: Catalog) -> tuple[Manifest, ...]:
    """One tool for each way in which a tool can suit a question about bonds or not."""
    bond = next(m for m in catalog if m.name == "bond_zh_us_rate")
    coin = next(m for m in catalog if m.name == "get_coin")
    adviser = bond.model_copy(update={"name": "adviser", "intent_type": "advisory"})
    broker = bond.model_copy(update={"name": "broker", "intent_type": "transactional"})
    assert "bond" in bond.regulatory_domains
    assert set(coin.regulatory_domains).isdisjoint(BOND["domains"])
    return bond, coin, adviser, broker


async def ended(
    tmp_path: Path,
    *answers: Any,
    constraints: str | int | None = None,
    reduce: Aside | None = None,
    tools: tuple[Manifest, ...] = (),
    client: Outputs | None = None,
    limits: Limits | None = None,
    **settings: Any,
) -> tuple[dict[str, Any], Any]:
    """The record of an episode in which the model gives these answers, and the model."""
    async with playing(*answers) as played, opened(played) as model:
        stated = json.dumps(BOND) if constraints is None else constraints
        played.aside["constraints"] = giving(says(stated) if isinstance(stated, str) else stated)
        if reduce is not None:
            played.aside["reduce"] = reduce
        agent = FatrAgent(model, FatrOptions(reduce=reduce is not None, **settings))
        record = await play(tmp_path, agent, client or Outputs(), tools, limits)
    return record, played


def offered(played: Any) -> list[str]:
    return [tool["function"]["name"] for tool in played.requests[0]["tools"]]


async def test_constraints_are_inferred_first_and_recorded(
    tmp_path: Path, tools: tuple[Manifest, ...]
) -> None:
    record, played = await ended(tmp_path, says("Looking.", CALL), says("2.3 %"), tools=tools)
    assert record["ending"] == "answer"
    line, rest = record["response"][0].split("\n")
    assert json.loads(line.removeprefix("constraints: ")) == BOND
    assert rest == "Looking."
    made = [(c["step"], c["purpose"]) for c in record["model_calls"]]
    assert made == [(1, "constraints"), (1, "act"), (2, "act")]
    assert sum(c["input_tokens"] for c in record["model_calls"]) == 3 * INPUT
    assert sum(c["output_tokens"] for c in record["model_calls"]) == 3 * OUTPUT
    (asked,) = played.asides
    assert asked["messages"][1] == {"role": "user", "content": TASK.question}
    assert not asked.get("tools")
    system = played.messages[0]["content"]
    assert "timeliness: daily; domains: bond, macro; intent: informational" in system
    assert offered(played) == [tool.name for tool in tools], "no filter unless asked for"


async def test_a_line_says_what_was_inferred_also_when_the_answer_comes_at_once(
    tmp_path: Path,
) -> None:
    record, _ = await ended(tmp_path, says("2.3 %"))
    assert record["response"] == [f"constraints: {orjson.dumps(BOND).decode()}"]
    assert record["execution_result"] == "2.3 %"


@pytest.mark.parametrize(
    "said",
    [
        "",
        "It is about bonds.",
        "{}",
        '{"timeliness": "daily", "domains": "bond", "intent": "informational"}',
        '{"timeliness": "hourly", "domains": ["bond"], "intent": "informational"}',
        '{"timeliness": "daily", "domains": ["planted"], "intent": "informational"}',
        '{"timeliness": "daily", "domains": ["bond"], "intent": null}',
        '{"timeliness": "daily", "domains": ["bond"], "intent": "informational"} or {}',
        '{"a":' * 3_000 + "1" + "}" * 3_000,
    ],
)
async def test_what_states_no_constraints_is_none(
    tmp_path: Path, tools: tuple[Manifest, ...], said: str
) -> None:
    record, played = await ended(
        tmp_path, says("2.3 %"), constraints=said, tools=tools, hard_filter=True
    )
    assert record["ending"] == "answer"
    assert record["response"][0].startswith("constraints: none (")
    assert "planted" not in record["response"][0]
    assert offered(played) == [tool.name for tool in tools]


def test_constraints_are_found_among_fences_and_words() -> None:
    text = f"Here:\n```json\n{json.dumps({**BOND, 'why': 'bonds'}, indent=1)}\n```"
    assert read(text).model_dump(mode="json") == BOND
    assert read('{"timeliness":null,"domains":[],"intent":"advisory"}').timeliness is None
    with pytest.raises(ValueError, match="no JSON object"):
        read("} {")


async def test_the_hard_filter_drops_what_can_not_meet_the_constraints(
    tmp_path: Path, tools: tuple[Manifest, ...]
) -> None:
    record, played = await ended(tmp_path, says("2.3 %"), tools=tools, hard_filter=True)
    assert offered(played) == ["bond_zh_us_rate"]
    assert record["response"][0].split("\n")[1] == "dropped: get_coin, adviser, broker"
    assert record["candidate_tools"] == [tool.name for tool in tools]


def test_the_filter_goes_by_domain_and_risk_and_never_drops_all(
    tools: tuple[Manifest, ...],
) -> None:
    def kept(domains: list[str], intent: str) -> list[str]:
        stated = {"timeliness": "static", "domains": domains, "intent": intent}
        return [t.name for t in split(tools, read(json.dumps(stated)))[0]]

    everything = [tool.name for tool in tools]
    assert kept(["bond"], "advisory") == ["bond_zh_us_rate", "adviser"]
    assert kept(["bond"], "transactional") == ["bond_zh_us_rate", "adviser", "broker"]
    assert kept([], "informational") == ["bond_zh_us_rate", "get_coin"]
    assert kept(["esg"], "transactional") == everything
    nothing = Constraints(timeliness=None, domains=("esg",), intent="informational")
    assert split(tools, nothing) == (tools, ())


async def test_tags_and_their_rules_are_in_the_requests_or_not_at_all(
    tmp_path: Path, tools: tuple[Manifest, ...]
) -> None:
    _, played = await ended(tmp_path / "with", says("2.3 %"), tools=tools)
    assert json.dumps(played.requests[0]["tools"]).count("[timeliness: ") == len(tools)
    assert "share at least one domain" in played.messages[0]["content"]
    _, played = await ended(tmp_path / "without", says("2.3 %"), tools=tools, inject=False)
    assert "timeliness" not in json.dumps(played.requests[0]["tools"])
    assert "tags" not in played.messages[0]["content"]
    assert "share at least one domain" not in played.messages[0]["content"]


async def test_long_outputs_are_reduced_to_what_the_question_needs(tmp_path: Path) -> None:
    short, exact = b'"' + b"x" * 499 + b'"', b'"' + b"x" * 500 + b'"'
    client = Outputs({"bond_zh_us_rate": LONG, "short": short, "exact": exact})
    asked = says(None, CALL, ("short", {}), ("exact", {}))
    answers = (asked, says("2.3 %"))
    reduced = giving(says("yield 2.3 on 2024-01-02"))
    record, played = await ended(tmp_path, *answers, client=client, reduce=reduced)
    observed = [call["observed"] for call in record["tool_calls"]]
    assert observed == ["yield 2.3 on 2024-01-02", None, "yield 2.3 on 2024-01-02"]
    read_back = [m["content"] for m in played.messages[3:]]
    assert read_back == [observed[0], json.loads(short), observed[2]]
    made = [(c["step"], c["purpose"]) for c in record["model_calls"]]
    assert made == [(1, "constraints"), (1, "act"), (2, "reduce"), (2, "reduce"), (2, "act")]
    assert sum(c["input_tokens"] + c["output_tokens"] for c in record["model_calls"]) == 5 * (
        INPUT + OUTPUT
    )
    given = played.asides[1]["messages"][1]["content"]
    assert TASK.question in given
    assert LONG.decode() in given


async def test_reductions_of_one_round_run_at_once(tmp_path: Path) -> None:
    outputs = {f"t{n}": table(200, first=n) for n in range(6)}
    asked = says(None, *((name, {}) for name in outputs))
    all_are_there = asyncio.Barrier(len(outputs))

    async def reduce(body: dict[str, Any]) -> Any:
        await asyncio.wait_for(all_are_there.wait(), PATIENCE_S)
        return says(body["messages"][1]["content"].partition("n,yield\n")[2][:1])

    client = Outputs(outputs)
    record, _ = await ended(tmp_path, asked, says("2.3 %"), client=client, reduce=reduce)
    assert [call["observed"] for call in record["tool_calls"]] == ["0", "1", "2", "3", "4", "5"]


async def test_by_default_the_gateway_shortens_and_no_model_is_asked(tmp_path: Path) -> None:
    client = Outputs({"bond_zh_us_rate": table(5_000)})
    record, played = await ended(tmp_path, says(None, CALL), says("2.3 %"), client=client)
    assert [call["purpose"] for call in record["model_calls"]] == ["constraints", "act", "act"]
    (made,) = record["tool_calls"]
    assert played.messages[3]["content"] == made["output"]
    assert len(made["output"]) <= 500
    assert " of 5000" in made["output"]


@pytest.mark.parametrize(
    "said",
    [says(""), says(None, refusal="No."), says("The", finish="content_filter"), 400],
    ids=["empty", "refused", "filtered", "failed"],
)
async def test_what_the_model_does_not_reduce_is_cut(tmp_path: Path, said: Any) -> None:
    client = Outputs({"bond_zh_us_rate": table(200)})
    answers = (says(None, CALL), says("2.3 %"))
    record, played = await ended(tmp_path, *answers, client=client, reduce=giving(said))
    assert record["ending"] == "answer"
    observed = record["tool_calls"][0]["observed"]
    assert observed == played.messages[3]["content"]
    assert observed.startswith("n,yield\n0,2.3\n")
    assert len(observed) <= 500
    assert bool(record["model_calls"][2]["error"]) == (said == 400)


async def test_a_reduction_is_bounded_at_both_ends(tmp_path: Path) -> None:
    client = Outputs({"bond_zh_us_rate": table(50_000)})
    answers = (says(None, CALL), says("2.3 %"))
    wordy = giving(says("w" * 3_000))
    record, played = await ended(tmp_path, *answers, client=client, reduce=wordy)
    observed = record["tool_calls"][0]["observed"]
    assert len(observed) == 500
    assert observed.endswith("w…")
    given = played.asides[1]["messages"][1]["content"]
    assert 19_000 < len(given) < 20_200
    assert " of 50000" in given[:200]


async def test_a_model_that_fails_at_the_constraints_ends_the_episode(tmp_path: Path) -> None:
    record, played = await ended(tmp_path, constraints=400)
    assert record["ending"] == "model_error"
    assert [c["purpose"] for c in record["model_calls"]] == ["constraints"]
    assert record["model_calls"][0]["error"]
    assert played.requests == []


async def test_episodes_at_once_share_nothing(tmp_path: Path, tools: tuple[Manifest, ...]) -> None:
    """Each asks about a number of its own, which must come back in its own answer only."""

    async def plan(body: dict[str, Any]) -> Any:
        messages = body["messages"]
        number = messages[1]["content"].rpartition(" ")[2]
        if messages[-1]["role"] == "user":
            return says(f"for {number}", ("echo", {"number": number}))
        assert number in messages[-1]["content"]
        return says(f"{len(messages)} messages about {number}")

    class Echo(Outputs):
        async def call(self, _: str, arguments: Any, *__: Any) -> Result:
            await asyncio.sleep(0.001 * (int(arguments["number"]) % 7))
            return answer(orjson.dumps(arguments))

    tasks = tuple(
        Task(id=str(n), category="bond", question=f"About {n}", tools=()) for n in range(150)
    )

    async def offer(_: Task) -> tuple[Manifest, ...]:
        return tools

    async with playing() as played, opened(played) as model:
        played.aside["constraints"] = giving(says(json.dumps(BOND)))
        played.plan = plan
        async with RunDirectory.open(tmp_path / "run", {}) as run:
            suite, agent = LabelledTasks(name="many", tasks=tasks), FatrAgent(model)
            await Driver(suite, agent, Echo(), run, concurrency=150, offer=offer).run(150)
    records = Run.open(tmp_path / "run").episodes()
    assert {r.execution_result for r, _ in records} == {f"4 messages about {n}" for n in range(150)}


def table(rows: int, first: int = 0) -> bytes:
    lines = (b'{"n":%d,"yield":2.3}' % (n + first) for n in range(rows))
    return b"[" + b",\n".join(lines) + b"]"

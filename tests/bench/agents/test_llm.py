"""The agent `llm` through the real driver and model client; the model plays prepared answers."""

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest
from anyio import to_thread

from bench.agents.conversation import KEPT_ROUNDS, MOVES_CHARS, read_arguments
from bench.agents.llm import LlmAgent, LlmOptions
from bench.client import HttpClient
from bench.models.client import ModelClient
from bench.runs.driver import Limits
from gateway import ErrorCode, Gateway, GatewaySettings, Result
from gateway.errors import CallError
from gateway.server.http import serve
from gateway.trace import JsonLines
from manifests import Catalog, Manifest
from tests.support.commands import finbench
from tests.support.markets import day, timeless, write_market
from tests.support.played_model import INPUT, OUTPUT, TASK, Outputs, opened, play, playing, says
from tests.support.waiting import at_little_cost

pytestmark = pytest.mark.anyio

CALL = ("get_coin", {"uuid": "x"})


@pytest.fixture
def tools(catalog: Catalog) -> tuple[Manifest, ...]:
    return tuple(m for m in catalog if m.name in ("get_coin", "bond_zh_us_rate", "get_quote"))


def table(rows: int, width: int = 10) -> bytes:
    lines = (orjson.dumps({"n": n, "text": "利" * width}) for n in range(rows))
    return b"[" + b",\n".join(lines) + b"]"


async def ended(tmp_path: Path, *answers: Any, **more: Any) -> tuple[dict[str, Any], Any]:
    """The record of an episode in which the model gives these answers, and the model."""
    tools = more.pop("tools", (Catalog.load().get("get_coin"),))
    client = more.pop("client", None) or Outputs()
    async with playing(*answers) as played, opened(played) as model:
        agent = LlmAgent(model, LlmOptions(more.pop("inject", True)))
        record = await play(tmp_path, agent, client, tools, more.pop("limits", None))
    return record, played


async def test_calls_are_made_and_their_outputs_go_back(
    tmp_path: Path, tools: tuple[Manifest, ...]
) -> None:
    client = Outputs({"get_coin": b'{"price":7}'})
    first = says("Let me look.", CALL, ("bond_zh_us_rate", {"start_date": "2024"}))
    record, played = await ended(tmp_path, first, says("It is 7."), tools=tools, client=client)
    assert record["ending"] == "answer"
    assert record["execution_result"] == "It is 7."
    assert record["response"] == ["Let me look."]
    assert [(c["step"], c["tool_name"]) for c in record["tool_calls"]] == [
        (1, "get_coin"),
        (1, "bond_zh_us_rate"),
    ]
    assert client.made[1] == ("bond_zh_us_rate", {"start_date": "2024"})
    roles = [m["role"] for m in played.messages]
    assert roles == ["system", "user", "assistant", "tool", "tool"]
    assert played.messages[1]["content"] == TASK.question
    assert [m["content"] for m in played.messages[3:]] == ['{"price":7}', '{"ok":1}']
    assert played.messages[2]["content"] == "Let me look."
    offered = [tool["function"]["name"] for tool in played.requests[0]["tools"]]
    assert offered == [tool.name for tool in tools] == record["candidate_tools"]
    assert played.requests[0]["tools"] == played.requests[1]["tools"]
    assert all("tool_choice" not in r or r["tool_choice"] == "auto" for r in played.requests)


async def test_every_request_to_the_model_is_recorded(tmp_path: Path) -> None:
    record, played = await ended(tmp_path, says(None, CALL), says(""), says("7"))
    made = record["model_calls"]
    assert [(c["step"], c["purpose"]) for c in made] == [(1, "act"), (2, "act"), (2, "final")]
    assert {c["model"] for c in made} == {"played"}
    assert [c["finish"] for c in made] == ["tool_calls", "stop", "stop"]
    assert sum(c["input_tokens"] for c in made) == INPUT * len(played.requests)
    assert sum(c["output_tokens"] for c in made) == OUTPUT * len(played.requests)
    assert all(c["elapsed_ms"] > 0 and abs(c["at"] - time.time()) < 60 for c in made)


async def test_finance_tags_are_in_the_requests_or_not_at_all(
    tmp_path: Path, tools: tuple[Manifest, ...]
) -> None:
    _, played = await ended(tmp_path / "with", says("7"), tools=tools)
    assert json.dumps(played.requests[0]["tools"]).count("[timeliness: ") == len(tools)
    _, played = await ended(tmp_path / "without", says("7"), tools=tools, inject=False)
    assert len(played.requests[0]["tools"]) == len(tools)
    assert "timeliness" not in json.dumps(played.requests)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{'uuid': 'x'}", "the arguments are not JSON"),
        ("[1]", "they must be one JSON object"),
        ("null", "they must be one JSON object"),
        ('{"a":' * 300 + "1" + "}" * 300, "nested too deeply"),
        ('{"uuid": "\\ud800"}', "the arguments are not JSON"),
    ],
)
async def test_arguments_that_are_no_object_go_nowhere(tmp_path: Path, text: str, why: str) -> None:
    client = Outputs()
    answers = (says(None, ("get_coin", text), CALL), says("7"))
    record, played = await ended(tmp_path, *answers, client=client)
    refused, made = record["tool_calls"]
    assert client.made == [CALL]
    assert (refused["code"], refused["fault"], made["ok"]) == ("invalid_arguments", "agent", True)
    assert why in refused["output"]["error"]
    assert refused["parameters"] == {"_raw": text[:200]}
    told = json.loads(played.messages[3]["content"])["error"]
    assert told["code"] == "invalid_arguments"
    assert why in told["message"]


async def test_an_answer_cut_off_within_arguments_is_not_taken_for_a_call(tmp_path: Path) -> None:
    client = Outputs()
    cut = says(None, ("get_coin", '{"uuid": "Qws'), finish="length")
    bare = says(None, ("get_coin", ""), finish="length")
    record, _ = await ended(tmp_path, cut, bare, says("7"), client=client)
    assert client.made == []
    assert {c["code"] for c in record["tool_calls"]} == {"invalid_arguments"}
    assert "cut off at its length" in record["tool_calls"][0]["output"]["error"]
    assert record["model_calls"][0]["finish"] == "length"
    assert record["ending"] == "answer"


async def test_no_text_at_all_means_no_arguments(tmp_path: Path) -> None:
    client = Outputs()
    await ended(tmp_path, says(None, ("get_coin", "")), says("7"), client=client)
    assert client.made == [("get_coin", {})]


def test_no_credential_is_kept_of_arguments_that_could_not_be_read() -> None:
    for text in (
        '{"api_key": "planted", "uuid": "x"',
        "{'headers': {'X-RapidAPI-Key': 'planted'}, 'uuid': 'x'}",
        "token=planted uuid=x",
        '{"uuid": "x", "password": "a \\" planted',
        "uuid: x, Authorization: Bearer planted",
    ):
        arguments, problem = read_arguments(text)
        assert problem is not None
        assert "planted" not in f"{arguments} {problem}"
        assert "uuid" in arguments["_raw"]
    with at_little_cost(0.1):
        read_arguments("a" * 1_000_000 + "{")


async def test_an_unknown_tool_is_let_out_and_the_nearest_names_come_back(
    catalog: Catalog, tmp_path: Path
) -> None:
    settings = GatewaySettings(upstream="simulated", cache_dir=tmp_path / "c", akshare_workers=1)
    wrong = says(None, ("functions.get_coins", {"uuid": "x"}))
    async with Gateway.open(settings, catalog=catalog) as gateway:
        answers = (wrong, says(None, CALL), says("7"))
        record, played = await ended(tmp_path, *answers, client=gateway)
    unknown, known = record["tool_calls"]
    assert unknown["tool_name"] == "functions.get_coins"
    assert (unknown["code"], known["ok"]) == ("unknown_tool", True)
    told = json.loads(played.messages[3]["content"])["error"]
    assert told["code"] == "unknown_tool"
    assert "get_coin" in told["message"]
    assert played.messages[2]["tool_calls"][0]["function"]["name"] == "functions_get_coins"


async def test_ids_that_are_missing_or_repeated_are_made_unique(tmp_path: Path) -> None:
    round_ = says(None, CALL, CALL, CALL)
    for call in round_["tool_calls"]:
        call["id"] = "same"
    round_["tool_calls"][2]["id"] = ""
    record, played = await ended(tmp_path, round_, round_, says("7"))
    assert record["error"] is None, "the endpoint checks ids itself"
    ids = [call["id"] for m in played.messages for call in m.get("tool_calls", ())]
    assert len(set(ids)) == 6


async def test_a_refusal_is_an_ending_of_its_own(tmp_path: Path) -> None:
    refusal = says(None, refusal="I can't help with that.")
    record, _ = await ended(tmp_path / "a", refusal)
    assert (record["ending"], record["execution_result"]) == ("refusal", "I can't help with that.")
    assert record["error"] is None
    filtered = says("Well,", CALL, finish="content_filter")
    record, _ = await ended(tmp_path / "b", filtered)
    assert (record["ending"], record["execution_result"]) == ("refusal", "Well,")
    assert record["tool_calls"] == []


async def test_nothing_is_asked_about_once_more(
    tmp_path: Path, tools: tuple[Manifest, ...]
) -> None:
    record, played = await ended(tmp_path / "a", says(" \n"), says("7"), tools=tools)
    assert (record["ending"], record["execution_result"]) == ("answer", "7")
    again = played.requests[1]
    assert again["tool_choice"] == "none"
    assert again["tools"] == played.requests[0]["tools"]
    assert again["messages"][-1]["role"] == "user"
    assert again["messages"][-1]["content"].startswith(TASK.question)
    assert "final answer" in again["messages"][-1]["content"]
    record, played = await ended(tmp_path / "b", says(None, CALL), says(None), says(""))
    assert (record["ending"], record["execution_result"]) == ("empty", "")
    assert record["error"] is None
    assert len(played.requests) == 3


async def test_a_model_that_calls_when_asked_for_an_answer_is_followed(tmp_path: Path) -> None:
    client = Outputs()
    record, _ = await ended(tmp_path, says(None), says(None, CALL), says("7"), client=client)
    assert client.made == [CALL]
    assert record["execution_result"] == "7"


async def test_without_rounds_left_the_model_is_asked_for_its_answer(
    tmp_path: Path, tools: tuple[Manifest, ...]
) -> None:
    limits = Limits(rounds=2)
    twice = (says(None, CALL), says(None, CALL))
    more = {"limits": limits, "tools": tools}
    record, played = await ended(tmp_path / "a", *twice, says("7"), **more)
    assert (record["ending"], record["execution_result"]) == ("answer", "7")
    assert [c["purpose"] for c in record["model_calls"]] == ["act", "act", "final"]
    assert [r.get("tool_choice") for r in played.requests][-1] == "none"
    assert "final answer" in played.messages[-1]["content"]
    record, _ = await ended(tmp_path / "b", *twice, says("", CALL), **more)
    assert (record["ending"], len(record["tool_calls"])) == ("rounds", 2)
    record, _ = await ended(tmp_path / "c", says("7"), limits=Limits(rounds=0))
    assert (record["ending"], record["model_calls"][0]["purpose"]) == ("answer", "final")


async def test_a_model_out_of_reach_ends_the_episode_and_is_recorded(tmp_path: Path) -> None:
    async with playing() as played:
        gone = played.url
    async with ModelClient.open(gone, "m", "planted-model-key", retries=0) as model:
        record = await play(tmp_path, LlmAgent(model), Outputs())
    assert record["ending"] == "model_error"
    assert record["error"].startswith("model: ")
    (made,) = record["model_calls"]
    assert made["error"]
    assert made["elapsed_ms"] > 0
    assert "planted" not in json.dumps(record)


async def test_a_refused_request_leaves_what_was_done_before(tmp_path: Path) -> None:
    record, _ = await ended(tmp_path, says("Looking.", CALL), 400)
    assert record["ending"] == "model_error"
    assert record["response"] == ["Looking."]
    assert [bool(c["error"]) for c in record["model_calls"]] == [False, True]
    assert len(record["tool_calls"]) == 1


async def test_a_long_output_is_shortened_and_what_was_read_is_recorded(tmp_path: Path) -> None:
    client = Outputs({"get_coin": table(900), "bond_zh_us_rate": b"[" + b"1," * 5_000 + b"1]"})
    asked = says(None, ("t", {}), CALL, ("bond_zh_us_rate", {}))
    record, played = await ended(tmp_path, asked, says("7"), client=client)
    read = [m["content"] for m in played.messages[3:]]
    assert read == [call["output"] for call in record["tool_calls"]]
    assert all(len(one) <= 500 for one in read)
    assert read[0] == '{"ok":1}'
    assert " of 900" in read[1].split("\n")[0]
    assert all(call["observed"] is None for call in record["tool_calls"])


async def test_a_longer_budget_is_obeyed_and_noted_as_read(tmp_path: Path) -> None:
    limits = Limits(output_chars=2_000)
    client = Outputs({"get_coin": table(900)})
    record, played = await ended(
        tmp_path, says(None, CALL), says("7"), client=client, limits=limits
    )
    read = played.messages[3]["content"]
    assert 500 < len(read) <= 2_000
    (made,) = record["tool_calls"]
    assert made["observed"] == read
    assert made["output"] == read[:500]


async def test_a_failed_call_is_told_with_its_code(tmp_path: Path) -> None:
    failed = Result("t", "c", error=CallError(ErrorCode.TIMEOUT, "no answer in 60 s"))
    _, played = await ended(
        tmp_path, says(None, CALL), says("7"), client=Outputs({"get_coin": failed})
    )
    told = json.loads(played.messages[3]["content"])
    assert told == {"error": {"code": "timeout", "message": "no answer in 60 s"}}


async def test_each_day_of_a_market_is_a_bounded_conversation_that_can_go_on(
    tmp_path: Path,
) -> None:
    market = write_market(tmp_path / "market", ("AAA",))
    observed = Counter[int]()
    fails_on: set[int] = set()

    async def plan(body: dict[str, Any]) -> Any:
        asked = next(m for m in body["messages"] if m["role"] == "user")["content"]
        number = int(asked.partition("Moves so far: ")[2].partition(".")[0] or 0)
        if number in fails_on:
            fails_on.remove(number)
            return 400
        if '"is_over":true' in asked:
            return says("traded")
        observed[number] += 1
        if observed[number] % (40 if number == 3 else 2):
            return says("Let me see.", ("market_observe", {}))
        reason = f"{number} {'long ' * 150}"
        return says(
            None, ("market_trade", {"date": day(number), "action": "buy", "reason": reason})
        )

    async with playing() as played:
        played.plan = plan
        command = (
            *("run", "investorbench", "--dataset", str(market), "--upstream", "simulated"),
            *("--agent", "llm", "--model", "played", "--base-url", played.url, "--json"),
        )
        done = await to_thread.run_sync(finbench, *command, "--out", "whole")
        assert done.returncode == 0, done.stderr
        whole = json.loads(done.stdout)
        longest = max(len(body["messages"]) for body in played.requests)
        assert longest == 2 + 2 * KEPT_ROUNDS
        assert max(len(json.dumps(body["messages"])) for body in played.requests) < 30_000
        (*_, last) = (body["messages"] for body in played.requests)
        assert [message["role"] for message in last] == ["system", "user"]
        lines = last[1]["content"].partition("each with its result:\n")[2].splitlines()
        assert sum(map(len, lines)) <= MOVES_CHARS
        assert all(line.startswith('market_trade {"date":"2024-01-') for line in lines)
        assert '"is_over":true' in lines[-1]

        fails_on.add(7)
        again = (*command, "--out", "again")
        failed = await to_thread.run_sync(finbench, *again)
        assert json.loads(failed.stdout)["usage"]["endings"] == {"model_error": 1}
        done = await to_thread.run_sync(finbench, *again, "--resume", "--failed-too")
        assert done.returncode == 0, done.stderr
    given = ("--format", "sft", "--min-score", "-9", "--test-share", "0", "--out", "sft")
    done_too = await to_thread.run_sync(finbench, "export", "whole", *given)
    assert done_too.returncode == 0, done_too.stderr
    (line,) = (tmp_path / "sft/train.jsonl").read_text().splitlines()
    assert json.loads(line)["messages"][0]["role"] == "user", "what it was sent is not known"
    assert whole["passed"] == 1
    assert json.loads(done.stdout)["usage"] == whole["usage"]
    assert timeless(tmp_path / "again") == timeless(tmp_path / "whole")


async def test_in_process_and_over_http_a_model_reads_the_same_of_a_series(
    tmp_path: Path,
) -> None:
    settings = GatewaySettings(upstream="simulated", cache_dir=tmp_path / "c", akshare_workers=1)
    asked = says(None, ("bond_zh_us_rate", {"start_date": "20240101"}))
    seen: list[str] = []
    async with (
        Gateway.open(settings) as gateway,
        serve(gateway) as url,
        JsonLines.open(tmp_path / "calls.jsonl") as trace,
        HttpClient.open(url, trace) as far,
    ):
        for client in (gateway, far):
            _, played = await ended(tmp_path / str(len(seen)), asked, says("7"), client=client)
            seen.append(played.messages[3]["content"])
    assert seen[0] == seen[1]
    assert len(seen[0]) <= 500
    assert " of 500" in seen[0].split("\n")[0]
    assert "2026-06-30" in seen[0]

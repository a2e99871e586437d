"""Answers within a budget, over REST, in batches and in Python."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from finport import Budget
from gateway import CallContext
from manifests import Catalog
from tests.support.commands import finport
from tests.support.gateways import ServedGateway, open_keyed_gateway
from tests.support.mcp_messages import result_of

pytestmark = pytest.mark.anyio

HIST = {"symbol": "600519", "start_date": "20230101", "end_date": "20240630"}
TOOL = "stock_zh_a_hist"


FIELDS = {"form", "tokens", "of_tokens", "rows_shown", "columns_shown", "by"}


async def ask(
    served: ServedGateway, query: dict[str, str], arguments: dict[str, str] = HIST
) -> tuple[int, dict[str, Any]]:
    return await served.ask(f"/v1/tools/{TOOL}?{urlencode(query)}", arguments)


async def test_an_answer_is_shortened_to_what_the_question_needs(served: ServedGateway) -> None:
    query = {"max_tokens": "200", "question": "2024年1月5日的收盘价"}
    status, answer = await ask(served, query)
    assert status == 200
    compression = answer["compression"]
    assert compression.keys() == FIELDS | {"understood"}
    assert compression["understood"] == ["2024-01-05"]
    assert not answer.keys() & {"offset", "shown"}
    assert compression["tokens"] == Budget(200).tokens(answer["data"]) <= 200
    assert compression["of_tokens"] > 5_000
    assert (answer["truncated"], compression["by"]) == (True, "rules")
    url = f"{served.url}/v1/results/{answer['handle']}"
    async with served.client.get(url, params={"where": "日期 = 2024-01-05"}) as got:
        row = (await got.json())["data"][0]
    assert f"{row['日期']}," in answer["data"]
    assert str(row["收盘"]) in answer["data"]


async def test_the_cache_keeps_the_whole_answer(served: ServedGateway) -> None:
    _, first = await ask(served, {"max_tokens": "100"})
    _, again = await ask(served, {"max_tokens": "100"})
    assert first["compression"].keys() == FIELDS  # without a question nothing is understood
    assert again["data"] == first["data"]
    assert again["provenance"]["source"] == "cached"
    _, whole = await ask(served, {"max_rows": "5"})
    assert len(whole["data"]) == 5
    assert "compression" not in whole
    assert whole["provenance"]["digest"] == first["provenance"]["digest"]
    _, chars = await ask(served, {"max_chars": "300"})
    assert len(chars["data"]) <= 300


async def test_what_fits_is_whole_and_has_no_handle(served: ServedGateway) -> None:
    few = {**HIST, "start_date": "20240620"}
    _, answer = await ask(served, {"max_tokens": "2000"}, few)
    assert (answer["truncated"], answer["handle"]) == (False, None)
    assert answer["compression"]["rows_shown"] == answer["rows"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"max_tokens": "49"}, "max_tokens"),
        ({"max_tokens": "x"}, "max_tokens"),
        ({"max_chars": "10"}, "max_chars"),
        ({"max_tokens": "100", "max_chars": "500"}, "not in both"),
        ({"max_tokens": "100", "question": "x" * 4_001}, "question"),
    ],
)
async def test_a_budget_that_cannot_be_kept_is_refused(
    served: ServedGateway, query: dict[str, str], said: str
) -> None:
    status, answer = await ask(served, query)
    assert status in (400, 422)
    assert said in answer["error"]["message"]


async def test_a_batch_has_one_budget_for_all_its_calls(served: ServedGateway) -> None:
    lines = "".join(
        json.dumps({"tool": tool, "arguments": arguments}) + "\n"
        for tool, arguments in ((TOOL, HIST), ("get_coin", {"uuid": "x"}))
    )
    url = f"{served.url}/v1/calls?max_tokens=150"
    async with served.client.post(url, data=lines.encode()) as got:
        answers = [json.loads(line) for line in (await got.text()).splitlines()]
    forms = {answer["tool"]: answer["compression"]["form"] for answer in answers}
    assert forms == {TOOL: "csv", "get_coin": "json"}
    assert all(answer["compression"]["tokens"] <= 150 for answer in answers)


async def test_a_line_of_a_batch_has_a_budget_of_its_own(served: ServedGateway) -> None:
    calls = [
        {"id": 1, "tool": TOOL, "arguments": HIST, "max_tokens": 120, "question": "latest close"},
        {"id": 2, "tool": TOOL, "arguments": HIST},
        {"id": 3, "tool": TOOL, "arguments": HIST, "max_tokens": 1},
        {"id": 4, "tool": TOOL, "arguments": HIST, "max_chars": 300},
        {"id": 5, "tool": TOOL, "arguments": HIST, "max_token": 300},
    ]
    async with served.client.post(f"{served.url}/v1/calls?max_tokens=900", json=calls) as got:
        found = {line["id"]: line for line in map(json.loads, (await got.text()).splitlines())}
    assert found[1]["compression"]["tokens"] <= 120 < found[2]["compression"]["tokens"] <= 900
    assert "call 3: max_tokens" in found[3]["error"]["message"]
    assert len(found[4]["data"]) <= 300
    assert found[5]["error"]["message"] == (
        "call 5: a call has no 'max_token'; did you mean max_tokens?; it takes id, tool, "
        "arguments, timeout_s, max_tokens, max_chars, question, stand_in"
    )


async def test_over_mcp_a_budget_is_an_argument_or_metadata(served: ServedGateway) -> None:
    asked = {"max_tokens": 150, "question": "latest close"}
    given = {"name": TOOL, "arguments": HIST, **asked}
    answer = await result_of(served, "call_tool", given)
    assert answer["compression"]["tokens"] <= 150
    meta: dict[str, Any] = {"finport/max_tokens": 120, "finport/question": "latest close"}
    answer = await result_of(served, TOOL, HIST, "?tools=all", _meta=meta)
    assert answer["compression"]["tokens"] <= 120
    allowed = ", ".join(f"finport/{name}" for name in ("max_tokens", "max_chars", "question"))
    unknown = f"'finport/max_token'; did you mean finport/max_tokens?; it takes {allowed}"
    more: dict[str, Any]
    for meta, more, told in (
        ({"finport/max_tokens": 1}, {}, "_meta finport/max_tokens: Input should be greater"),
        ({"finport/max_token": 100}, {}, f"the budget in _meta has no {unknown}"),
        ({}, {"max_tokens": 100}, "budget stands in _meta: finport/max_tokens"),
    ):
        answer = await result_of(served, TOOL, HIST | more, "?tools=all", _meta=meta)
        assert told in answer["error"]["message"]


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        ({"max_tokens": 10}, "max_tokens: Input should be greater than or equal to 50"),
        ({"max_tokens": True}, "max_tokens: Input should be a whole number, not true"),
        ({"max_chars": False}, "max_chars: Input should be a whole number, not false"),
        ({"question": 5}, "question: Input should be a valid string"),
    ],
)
async def test_a_wrong_budget_has_the_same_code_wherever_it_is_set(
    served: ServedGateway, budget: dict[str, Any], said: str
) -> None:
    meta = {f"finport/{name}": value for name, value in budget.items()}
    given = {"name": TOOL, "arguments": HIST, **budget}
    errors = [
        (await result_of(served, "call_tool", given))["error"],
        (await result_of(served, TOOL, HIST, "?tools=all", _meta=meta))["error"],
    ]
    line = {"tool": TOOL, "arguments": HIST, **budget}
    errors.append((await served.ask("/v1/calls", line))[1]["error"])
    assert [error["code"] for error in errors] == ["invalid_request"] * 3
    assert all(said in error["message"] for error in errors)


async def test_a_key_and_the_settings_have_budgets_by_default(
    catalog: Catalog, tmp_path: Path
) -> None:
    clients = {"short": {"max_tokens": 100}, "plain": {}}
    url, long = f"/v1/tools/{TOOL}", "?max_tokens=600"
    async with open_keyed_gateway(catalog, tmp_path, clients, max_tokens=400) as (served, heads):
        tokens, tables = [], []
        for client, query in (("short", ""), ("plain", ""), ("short", long)):
            address, head = served.url + url + query, heads[client]
            async with served.client.post(address, json=HIST, headers=head) as got:
                tokens.append((await got.json())["compression"]["tokens"])
            head = head | {"Accept": "text/csv"}
            async with served.client.post(address, json=HIST, headers=head) as got:
                tables.append((got.status, len((await got.text()).splitlines())))
    assert tokens[0] <= 100 < tokens[1] <= 400 < tokens[2] <= 600
    assert tables == [(200, 360), (200, 360), (406, 1)]


async def test_a_question_without_a_budget_has_no_effect(served: ServedGateway) -> None:
    _, plain = await ask(served, {})
    _, asked = await ask(served, {"question": "highest close"})
    assert "compression" not in asked
    assert asked["data"] == plain["data"]
    done = finport("call", "get_coin", "uuid=x", "--question", "price", "--upstream", "simulated")
    assert done.returncode == 2
    assert "--question needs --max-tokens or --max-chars" in done.stderr


async def test_python_code_asks_by_the_context(served: ServedGateway) -> None:
    gateway = served.local.gateway
    context = CallContext(max_tokens=120, question="highest close")
    result = await gateway.call(TOOL, HIST, context)
    assert result.ok
    assert isinstance(result.value, str)
    assert Budget(120).fits(result.value)
    for tokens, chars in ((0, None), (None, 7), (99, 999)):
        with pytest.raises(ValueError, match="max_"):
            CallContext(max_tokens=tokens, max_chars=chars)
    wrong: Any
    for wrong, said in (
        ({"max_tokens": "100"}, "max_tokens must be a whole number, not str"),
        ({"max_tokens": True}, "max_tokens must be a whole number, not bool"),
        ({"question": 5}, "question must be a text, not int"),
        ({"deadline_s": "1"}, "deadline_s must be a number, not str"),
    ):
        with pytest.raises(TypeError, match=said):
            CallContext(**wrong)


OPENS = """
import asyncio, sys
from pathlib import Path
from gateway import Gateway
from gateway.settings import GatewaySettings

async def opened(**settings):
    given = GatewaySettings(upstream="simulated", cache_dir=Path(sys.argv[1]), **settings)
    async with Gateway.open(given):
        print("rs_bpe" in sys.modules)

asyncio.run(opened())
asyncio.run(opened(max_tokens=500))
"""


def test_a_gateway_with_a_budget_of_its_own_loads_the_vocabulary_before_it_is_open(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-c", OPENS, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "True"]

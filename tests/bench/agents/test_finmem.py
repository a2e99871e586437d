"""The agent `finmem` with a simulated model: its trades, its memory, its report."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from bench.agents.finmem import _decision
from bench.models.simulated import SimulatedModel
from manifests import Catalog
from tests.support.commands import finbench_in
from tests.support.markets import DAYS, write_market

pytestmark = pytest.mark.anyio


@pytest.fixture
async def run(tmp_path: Path, catalog: Catalog) -> dict[str, Any]:
    market = write_market(tmp_path / "market", ("AAA",))
    async with SimulatedModel.open([], catalog) as model:
        command = (
            *("run", "investorbench", "--dataset", str(market), "--upstream", "simulated"),
            *("--agent", "finmem", "--model", "simulated-planner", "--base-url", model.base_url),
            *("--out", "run", "--json"),
        )
        done = await to_thread.run_sync(finbench_in, tmp_path, *command)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


async def test_it_trades_each_day_from_what_it_recalls(run: dict[str, Any], tmp_path: Path) -> None:
    assert run["passed"] == 1
    (line,) = (tmp_path / "run/episodes.jsonl").read_text().splitlines()
    episode = json.loads(line)
    calls = [call["tool_name"] for call in episode["tool_calls"][1:-1]]
    assert calls == ["market_observe", "market_recall", "market_trade"] * DAYS
    trades = [call for call in episode["tool_calls"] if call["tool_name"] == "market_trade"]
    assert all(trade["ok"] and trade["parameters"]["reason"] for trade in trades)
    assert [bool(trade["parameters"]["memories"]) for trade in trades][1:] == [True] * (DAYS - 1)
    recalls = [call for call in episode["tool_calls"] if call["tool_name"] == "market_recall"]
    held = [
        json.loads(call["output"])["held"] for call in recalls[:3] if call["output"].endswith("}")
    ]
    assert held[1]["reflection"] == 1
    assert held[2]["reflection"] <= 2, "one that is alike is not added"
    assert len(episode["model_calls"]) == DAYS


async def test_a_profile_is_read_and_searched_and_a_warm_up_may_tell_the_next_price(
    tmp_path: Path, catalog: Catalog
) -> None:
    market = write_market(tmp_path / "market", ("AAA",))
    profiles = tmp_path / "main.json"
    profiles.write_text('{"agent_config": {"character_string": {"AAA": "a maker of bolts"}}}')
    async with SimulatedModel.open([], catalog) as model:
        command = (
            *("run", "investorbench", "--dataset", str(market), "--upstream", "simulated"),
            *("--agent", "finmem", "--model", "simulated-planner", "--base-url", model.base_url),
            *("--agent-option", f"profiles={profiles}", "--environment", "hindsight=true"),
            *("--environment", "warm_up_from=2024-01-01", "--environment", "test_from=2024-01-04"),
            *("--environment", "test_to=2024-01-31", "--out", "run", "--json"),
        )
        done = await to_thread.run_sync(finbench_in, tmp_path, *command)
    assert done.returncode == 0, done.stderr
    episode = json.loads((tmp_path / "run/episodes.jsonl").read_text())
    calls = [call for call in episode["tool_calls"] if call["ok"]]
    asked = {c["parameters"]["question"] for c in calls if c["tool_name"] == "market_recall"}
    assert asked == {"a maker of bolts"}
    days = json.loads((market / "aaa.json").read_text())
    prices = [day["prices"] for _, day in sorted(days.items())]
    traded = [c["parameters"]["action"] for c in calls if c["tool_name"] == "market_trade"]
    rises = [later > price for price, later in pairwise(prices)]
    assert traded[:3] == ["buy" if rise else "sell" for rise in rises[:3]]
    seen = [str(c["output"]) for c in calls if c["tool_name"] == "market_observe"]
    assert ["next_change" in text for text in seen[:4]] == [True, True, True, False]


@pytest.mark.usefixtures("run")
async def test_its_report_draws_value_positions_and_memory(tmp_path: Path) -> None:
    done = await to_thread.run_sync(finbench_in, tmp_path, "report", "run")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "run/report.html").read_text()
    assert 'id="days"' in page
    for word in ("Buy &amp; Hold", "drawdown", "position", "memories", "reflection"):
        assert word in page


@pytest.mark.parametrize(
    ("text", "action", "memories"),
    [
        ('{"action": "sell", "reason": "r", "memories": [1, 2]}', "sell", "1,2"),
        ('Sure: {"action": "buy", "reason": "r"} Good luck!', "buy", ""),
        ('{"action": "buy", "memories": ["x", true, 3]}', "buy", "3"),
        ('{"action": "keep"}', "hold", None),
        ("no JSON", "hold", None),
        ("[]", "hold", None),
        ("", "hold", None),
    ],
)
def test_what_can_not_be_read_is_hold(text: str, action: str, memories: str | None) -> None:
    found = _decision(text)
    assert (found["action"], found.get("memories")) == (action, memories)
    assert ("could not be read" in found["reason"]) == (memories is None)

"""The suite InvestorBench: its tasks, its baselines in the market, recorded decisions."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from math import log, prod
from pathlib import Path
from typing import Any

import pytest

from bench.suites import load_suite
from bench.suites.suite import SuiteError
from tests.support.checkout import INVESTORBENCH
from tests.support.commands import FINPORT, finbench
from tests.support.markets import DAYS, day, interrupted, timeless, write_market
from tests.support.runs import about, lines_of

needs_data = pytest.mark.skipif(not INVESTORBENCH.exists(), reason="../shared has no InvestorBench")


RUN = ("run", "investorbench", "--dataset", "market", "--upstream", "simulated", "--json")


@pytest.fixture(autouse=True)
def _market() -> None:
    write_market(Path("market"))


def run(out: str, *options: str) -> dict[str, Any]:
    done = finbench(*RUN, "--out", out, *options)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@contextmanager
def served_market(market: Path) -> Iterator[str]:
    """A gateway process with that market; gives its URL."""
    env = os.environ | {"FINPORT_CACHE_DIR": "cache", "FINPORT_UPSTREAM": "simulated"}
    command = [*FINPORT, "serve", "--port", "0", "--market", str(market), "--until-stdin-closes"]
    process = subprocess.Popen(
        command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()


def prices(symbol: str) -> list[float]:
    days = json.loads(Path(f"market/{symbol.lower()}.json").read_text())
    return [days[day(number)]["prices"] for number in range(DAYS)]


def test_there_is_a_task_for_each_asset_and_one_for_each_kind() -> None:
    suite = load_suite("investorbench", Path("market"))
    assert [(task.id, task.category) for task in suite.tasks] == [
        ("AAA", "crypto"),
        ("BBB", "crypto"),
        ("AAA+BBB", "crypto portfolio"),
    ], "a market with prices on weekends is one of crypto"
    other = load_suite("investorbench", write_market(Path("other"), seed=1))
    assert suite.digest != other.digest, "the prices belong to the task"


def test_buy_and_hold_earns_what_the_prices_do() -> None:
    metrics = run("run", "--agent", "buy-and-hold")
    rows = metrics["breakdown"]["id"]
    for symbol in ("AAA", "BBB"):
        assert rows[symbol]["CR_above_hold"] == 0
        assert rows[symbol]["exposure"] == 1
    a, b = prices("AAA"), prices("BBB")
    growth = prod((x / w + y / z) / 2 for w, x, z, y in zip(a, a[1:], b, b[1:], strict=False))
    assert rows["AAA+BBB"]["CR"] == pytest.approx(log(growth), abs=1e-6)
    assert metrics["passed"] == 3
    assert metrics["usage"]["endings"] == {"answer": 3}


def test_an_episode_is_recorded_without_its_session() -> None:
    first = run("one", "--agent", "momentum", "--concurrency", "1")
    again = run("two", "--agent", "momentum", "--concurrency", "3")
    assert first["digest"] == again["digest"]
    for name in ("episodes.jsonl", "calls.jsonl"):
        text = Path("one", name).read_text().replace("\\", "")
        assert '"session":"' in text
        assert '"session":"0-' not in text
    episode = lines_of("one/episodes.jsonl")[0]
    tools = [(call["tool_name"], call["step"]) for call in episode["tool_calls"]]
    assert tools[0] == ("market_open", -1)
    assert tools[-1] == ("market_close", -1)
    assert all(call["ok"] for call in episode["tool_calls"])
    scored = json.loads(finbench("score", "one", "--json").stdout)
    for name in ("CR", "SR", "MDD", "AV"):
        assert scored[name] == first[name]
    assert set(scored["task_intervals"]) == {"AAA", "BBB", "AAA+BBB"}


def test_an_agent_opens_no_session_of_its_own() -> None:
    Path("own.py").write_text(
        "from finport import ToolCall, Turn\n"
        "class Cheat:\n"
        "    name = 'cheat'\n"
        "    async def act(self, episode):\n"
        "        if not episode.history:\n"
        "            later = dict(symbols='AAA', test_from='2024-01-09', test_to='2024-01-12')\n"
        "            calls = (ToolCall('market_open', later), ToolCall('market_close', {}))\n"
        "            return Turn(calls=calls)\n"
        "        return Turn(answer='done')\n"
    )
    metrics = run("run", "--agent", "own:Cheat")
    for episode in lines_of("run/episodes.jsonl"):
        calls = episode["tool_calls"]
        assert [call["ok"] for call in calls] == [True, False, False, True]
        assert "the driver opens and closes the session" in calls[1]["output"]["error"]
        assert '"session":"0-' not in json.dumps(episode).replace("\\", "")
    assert metrics["tool_use"]["not_offered"]["calls"] == 6


def test_another_market_behind_the_gateway_is_refused() -> None:
    other = write_market(Path("other"), seed=3)
    with served_market(other) as url:
        command = ("run", "investorbench", "--dataset", "market", "--agent", "momentum")
        done = finbench(*command, "--out", "run", "--gateway", url)
        assert done.returncode == 2, done.stderr
        assert "the gateway's market is" in done.stderr
        same = ("run", "investorbench", "--dataset", "other", "--agent", "momentum")
        done = finbench(*same, "--out", "same", "--gateway", url, "--json")
        assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["passed"] == 3
    assert about("same")["upstream"] == "recorded"


def test_markets_that_can_not_be_traded_together_have_no_joint_task() -> None:
    folder = write_market(Path("other"), ("AAA",))
    write_market(folder, ("BBB",), first=date(2024, 3, 1))
    suite = load_suite("investorbench", folder)
    assert [task.id for task in suite.tasks] == ["AAA", "BBB"]
    (folder / "a,b.json").write_text((folder / "aaa.json").read_text())
    with pytest.raises(SuiteError, match="'A,B' is no symbol"):
        load_suite("investorbench", folder)


def test_runs_become_training_data() -> None:
    run("run", "--agent", "momentum")
    done = finbench("export", "run", "--format", "sft", "--min-score", "-9", "--out", "training")
    assert done.returncode == 0, done.stderr
    assert "catalogue" not in done.stderr


def test_repeats_are_a_median_and_a_range() -> None:
    metrics = run("run", "--agent", "random", "--episodes", "15")
    for row in metrics["breakdown"]["id"].values():
        assert row["episodes"] == 5
        low, high = row["ranges"]["CR"]
        assert low < row["CR"] < high


def test_costs_and_days_are_arguments_of_the_environment() -> None:
    free = run("free", "--agent", "random")
    costly = run("costly", "--agent", "random", "--environment", "cost_bp=50")
    for task in ("AAA", "BBB"):
        row = costly["breakdown"]["id"][task]
        paid = row["turnover"] * (DAYS - 1) * 50e-4
        assert row["CR"] == pytest.approx(free["breakdown"]["id"][task]["CR"] - paid, abs=1e-5)
    short = ("--environment", f"test_to={day(4)}")
    assert run("short", "--agent", "random", *short)["passed"] == 3
    calls = lines_of("short/episodes.jsonl")[0]["tool_calls"]
    trades = [call for call in calls if call["tool_name"] == "market_trade"]
    assert json.loads(trades[-1]["output"])["date"] == day(4)
    wrong = finbench("run", "starter", "--upstream", "simulated", "--environment", "cost_bp=5")
    assert wrong.returncode == 2
    assert "the suite starter has no environment" in wrong.stderr


def test_two_agents_are_compared_by_the_same_days() -> None:
    sides = ("momentum", "random")
    rows = [run(name, "--agent", name)["breakdown"]["id"] for name in sides]
    found = json.loads(finbench("compare", *sides, "--json").stdout)
    for task, figures in found["days"].items():
        difference = rows[1][task]["CR"] - rows[0][task]["CR"]
        assert figures["CR"]["difference"] == pytest.approx(difference, abs=2e-6)
        low, high = figures["CR"]["interval"]
        assert low <= difference <= high
    same = json.loads(finbench("compare", sides[0], sides[0], "--json").stdout)
    assert {one["CR"]["difference"] for one in same["days"].values()} == {0}
    shown = finbench("compare", *sides)
    assert "the same ones for both" in shown.stdout


def test_an_agent_that_stops_early_has_no_figures() -> None:
    metrics = run("run", "--agent", "momentum", "--max-rounds", "5")
    assert (metrics["episodes"], metrics["passed"]) == (3, 0)
    assert metrics["CR"] is None
    closes = [call for call in lines_of("run/calls.jsonl") if call["tool"] == "market_close"]
    assert [call["ok"] for call in closes] == [True] * 3, "sessions are closed all the same"


def test_a_market_that_can_not_be_opened_ends_its_episodes() -> None:
    Path("own.py").write_text(
        "from bench.suites.investorbench.suite import InvestorBench\n"
        "class Elsewhere(InvestorBench):\n"
        "    @classmethod\n"
        "    def environment(cls, task):\n"
        "        made = InvestorBench.environment(task)\n"
        "        arguments = {**made.arguments, 'symbols': 'ZZZ'}\n"
        "        return type(made)(made.opening, made.closing, made.tools, arguments)\n"
    )
    done = finbench(
        *("run", "own:Elsewhere", "--dataset", "market", "--upstream", "simulated"),
        *("--out", "run", "--agent", "momentum", "--json"),
    )
    assert done.returncode == 1, "a run that gave nothing"
    assert "the environment failed in all 3 episodes; the first: environment: 'ZZZ'" in done.stderr
    metrics = json.loads(done.stdout)
    assert metrics["usage"]["endings"] == {"environment_error": 3}
    assert metrics["failed_by_infrastructure"] == 3
    said = about("run")["first_errors"]["environment_error"]
    assert said == "environment: 'ZZZ' is no asset of this market; there are AAA, BBB"


@needs_data
def test_recorded_decisions_are_a_row_each() -> None:
    days = json.loads((INVESTORBENCH / "jnj.json").read_text())
    window = [one for one in sorted(days) if "2020-10-01" <= one <= "2021-05-06"]
    lines = [
        {"id": name, "symbol": "JNJ", "positions": dict.fromkeys(window, position)}
        for name, position in (("hold", 1), ("short", -1), ("none", 0))
    ]
    file = Path("decisions.jsonl")
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    command = ("score", str(file), "--suite", "investorbench", "--dataset", str(INVESTORBENCH))
    done = finbench(*command, "--json")
    assert done.returncode == 0, done.stderr
    rows = {row["id"]: row for row in json.loads(done.stdout)["rows"]}
    hold = [rows["hold"][name] for name in ("CR", "SR", "MDD", "AV")]
    assert hold == pytest.approx([0.1429, 1.3766, 0.0985, 0.17445], abs=5e-5)
    assert rows["short"]["CR"] == -rows["hold"]["CR"]
    assert (rows["none"]["SR"], rows["none"]["SR_missing"]) == (None, "zero volatility")
    shown = finbench(*command, "--intervals")
    assert shown.returncode == 0
    assert "hold" in shown.stdout
    assert " to " in shown.stdout


def test_decisions_that_are_none_name_the_line() -> None:
    file = Path("decisions.jsonl")
    file.write_text(json.dumps({"id": "a", "symbol": "ZZZ", "positions": {}}))
    done = finbench("score", str(file), "--suite", "investorbench", "--dataset", "market")
    assert done.returncode == 1
    assert "decisions.jsonl:1: symbol: 'ZZZ' is unknown" in done.stderr
    without = finbench("score", str(file), "--suite", "investorbench")
    assert without.returncode == 2
    assert "--dataset" in without.stderr


@pytest.mark.parametrize("calls", [1, 2, 3, 11, 14, 22, 25])
def test_a_killed_run_goes_on_from_the_last_finished_day_and_lacks_nothing(calls: int) -> None:
    whole = run("run", "--agent", "momentum")
    before = timeless(Path("run"))
    interrupted(Path("run"), calls)
    found = run("run", "--agent", "momentum", "--resume", "--accept-changes")
    for name in ("episodes", "passed", "CR", "SR", "MDD", "AV", "breakdown", "usage", "tool_use"):
        assert found[name] == whole[name]
    assert timeless(Path("run")) == before
    gone_on = about("run").get("gone_on", {"calls": 0, "begun_again": 0})
    trades = 2 * ((calls - 1) // 2) + 2 * ((calls - 1) // 3)  # the third task has two assets
    assert (gone_on["calls"], gone_on["begun_again"]) == (trades, 0)


def test_a_run_that_is_killed_twice_lacks_nothing() -> None:
    run("run", "--agent", "momentum")
    before = timeless(Path("run"))
    interrupted(Path("run"), 5)
    run("run", "--agent", "momentum", "--resume", "--accept-changes")
    Path("run/episodes.jsonl").write_text("")  # as if their records had not been written
    with Path("run/checkpoints.jsonl").open("ab") as file:
        file.truncate(file.tell() - 30)
    run("run", "--agent", "momentum", "--resume", "--accept-changes")
    accepted = about("run")["accepted"]
    assert any(said.startswith("checkpoints.jsonl lacks 30 of ") for said in accepted)
    assert timeless(Path("run")) == before


def test_an_agent_that_can_not_begin_in_the_middle_begins_again() -> None:
    Path("own.py").write_text(
        "from bench.agents.market import MarketAgent\n"
        "class Holder(MarketAgent):\n"
        "    goes_on = False\n"
        "    def __init__(self):\n"
        "        super().__init__('holder', lambda asset, name: 'buy')\n"
    )
    run("run", "--agent", "own:Holder")
    interrupted(Path("run"), 12)
    again = finbench(
        *(*RUN[:-1], "--out", "run", "--agent", "own:Holder", "--resume", "--accept-changes")
    )
    assert again.returncode == 0, again.stderr
    assert "3 began again, because their agent can't begin in the middle" in again.stdout

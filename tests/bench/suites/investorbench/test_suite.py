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

needs_data = pytest.mark.skipif(not INVESTORBENCH.exists(), reason="../shared has no InvestorBench")


@pytest.fixture
def market(tmp_path: Path) -> Path:
    return write_market(tmp_path / "market")


def run(market: Path, out: Path, *options: str) -> dict[str, Any]:
    done = finbench(
        *("run", "investorbench", "--dataset", str(market), "--upstream", "simulated"),
        *("--out", str(out), "--json", *options),
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@contextmanager
def served_market(market: Path, folder: Path) -> Iterator[str]:
    """A gateway process with that market; gives its URL."""
    env = os.environ | {"FINPORT_CACHE_DIR": str(folder / "cache"), "FINPORT_UPSTREAM": "simulated"}
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


def prices(market: Path, symbol: str) -> list[float]:
    days = json.loads((market / f"{symbol.lower()}.json").read_text())
    return [days[day(number)]["prices"] for number in range(DAYS)]


def test_there_is_a_task_for_each_asset_and_one_for_each_kind(market: Path) -> None:
    suite = load_suite("investorbench", market)
    assert [(task.id, task.category) for task in suite.tasks] == [
        ("AAA", "crypto"),
        ("BBB", "crypto"),
        ("AAA+BBB", "crypto portfolio"),
    ], "a market with prices on weekends is one of crypto"
    other = load_suite("investorbench", write_market(market.parent / "other", seed=1))
    assert suite.digest != other.digest, "the prices belong to the task"


def test_buy_and_hold_earns_what_the_prices_do(market: Path, tmp_path: Path) -> None:
    metrics = run(market, tmp_path / "run", "--agent", "buy-and-hold")
    rows = metrics["breakdown"]["id"]
    for symbol in ("AAA", "BBB"):
        decisions = {
            "id": "hold",
            "symbol": symbol,
            "positions": dict.fromkeys(map(day, range(DAYS)), 1),
        }
        with (tmp_path / "decisions.jsonl").open("a") as file:
            file.write(f"{json.dumps(decisions)}\n")
        assert rows[symbol]["CR_above_hold"] == 0
        assert rows[symbol]["exposure"] == 1
    a, b = prices(market, "AAA"), prices(market, "BBB")
    growth = prod((x / w + y / z) / 2 for w, x, z, y in zip(a, a[1:], b, b[1:], strict=False))
    assert rows["AAA+BBB"]["CR"] == pytest.approx(log(growth), abs=1e-6)
    assert metrics["passed"] == 3
    assert metrics["usage"]["endings"] == {"answer": 3}


def test_an_episode_is_recorded_without_its_session(market: Path, tmp_path: Path) -> None:
    first = run(market, tmp_path / "one", "--agent", "momentum", "--concurrency", "1")
    again = run(market, tmp_path / "two", "--agent", "momentum", "--concurrency", "3")
    assert first["digest"] == again["digest"]
    for name in ("episodes.jsonl", "calls.jsonl"):
        lines = (tmp_path / "one" / name).read_text().splitlines()
        assert lines
        assert not [
            line for line in lines if '"session":"0-' in line or '\\"session\\":\\"0-' in line
        ]
    episode = json.loads((tmp_path / "one/episodes.jsonl").read_text().splitlines()[0])
    tools = [(call["tool_name"], call["step"]) for call in episode["tool_calls"]]
    assert tools[0] == ("market_open", -1)
    assert tools[-1] == ("market_close", -1)
    assert all(call["ok"] for call in episode["tool_calls"])
    scored = json.loads(finbench("score", str(tmp_path / "one"), "--json").stdout)
    assert {name: scored[name] for name in ("CR", "SR", "MDD", "AV")} == {
        name: first[name] for name in ("CR", "SR", "MDD", "AV")
    }
    assert set(scored["task_intervals"]) == {"AAA", "BBB", "AAA+BBB"}


def test_an_agent_opens_no_session_of_its_own(market: Path, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
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
    command = ("run", "investorbench", "--dataset", str(market), "--upstream", "simulated")
    done = finbench(*command, "--out", "run", "--agent", "own:Cheat", "--json")
    assert done.returncode == 0, done.stderr
    for line in (tmp_path / "run/episodes.jsonl").read_text().splitlines():
        calls = json.loads(line)["tool_calls"]
        assert [call["ok"] for call in calls] == [True, False, False, True]
        assert "the driver opens and closes the session" in calls[1]["output"]["error"]
        assert '"session\\":\\"0-' not in line
    assert json.loads(done.stdout)["tool_use"]["not_offered"]["calls"] == 6


def test_another_market_behind_the_gateway_is_refused(market: Path, tmp_path: Path) -> None:
    other = write_market(tmp_path / "other", seed=3)
    with served_market(other, tmp_path) as url:
        command = ("run", "investorbench", "--dataset", str(market), "--agent", "momentum")
        done = finbench(*command, "--out", "run", "--gateway", url)
        assert done.returncode == 2, done.stderr
        assert "the gateway's market is" in done.stderr
        same = ("run", "investorbench", "--dataset", str(other), "--agent", "momentum")
        done = finbench(*same, "--out", "same", "--gateway", url, "--json")
        assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["passed"] == 3
    assert json.loads((tmp_path / "same/run.json").read_text())["upstream"] == "recorded"


def test_markets_that_can_not_be_traded_together_have_no_joint_task(tmp_path: Path) -> None:
    folder = write_market(tmp_path / "market", ("AAA",))
    write_market(folder, ("BBB",), first=date(2024, 3, 1))
    suite = load_suite("investorbench", folder)
    assert [task.id for task in suite.tasks] == ["AAA", "BBB"]
    (folder / "a,b.json").write_text((folder / "aaa.json").read_text())
    with pytest.raises(SuiteError, match="'A,B' is no symbol"):
        load_suite("investorbench", folder)


def test_runs_become_training_data(market: Path, tmp_path: Path) -> None:
    run(market, tmp_path / "run", "--agent", "momentum")
    given = ("--format", "sft", "--min-score", "-9", "--out", str(tmp_path / "training"))
    done = finbench("export", str(tmp_path / "run"), *given)
    assert done.returncode == 0, done.stderr
    assert "catalogue" not in done.stderr


def test_repeats_are_a_median_and_a_range(market: Path, tmp_path: Path) -> None:
    metrics = run(market, tmp_path / "run", "--agent", "random", "--episodes", "15")
    for row in metrics["breakdown"]["id"].values():
        assert row["episodes"] == 5
        low, high = row["ranges"]["CR"]
        assert low < row["CR"] < high


def test_costs_and_days_are_arguments_of_the_environment(market: Path, tmp_path: Path) -> None:
    free = run(market, tmp_path / "free", "--agent", "random")
    costly = run(market, tmp_path / "costly", "--agent", "random", "--environment", "cost_bp=50")
    for task in ("AAA", "BBB"):
        row = costly["breakdown"]["id"][task]
        paid = row["turnover"] * (DAYS - 1) * 50e-4
        assert row["CR"] == pytest.approx(free["breakdown"]["id"][task]["CR"] - paid, abs=1e-5)
    short = ("--environment", f"test_to={day(4)}")
    assert run(market, tmp_path / "short", "--agent", "random", *short)["passed"] == 3
    line = (tmp_path / "short/episodes.jsonl").read_text().splitlines()[0]
    trades = [c for c in json.loads(line)["tool_calls"] if c["tool_name"] == "market_trade"]
    assert json.loads(trades[-1]["output"])["date"] == day(4)
    wrong = finbench(
        *("run", "starter", "--upstream", "simulated", "--environment", "cost_bp=5"),
        *("--out", str(tmp_path / "none")),
    )
    assert wrong.returncode == 2
    assert "the suite starter has no environment" in wrong.stderr


def test_two_agents_are_compared_by_the_same_days(market: Path, tmp_path: Path) -> None:
    for name in ("momentum", "random"):
        run(market, tmp_path / name, "--agent", name)
    sides = (str(tmp_path / "momentum"), str(tmp_path / "random"))
    found = json.loads(finbench("compare", *sides, "--json").stdout)
    rows = [
        json.loads(finbench("score", side, "--json").stdout)["breakdown"]["id"] for side in sides
    ]
    for task, figures in found["days"].items():
        difference = rows[1][task]["CR"] - rows[0][task]["CR"]
        assert figures["CR"]["difference"] == pytest.approx(difference, abs=2e-6)
        low, high = figures["CR"]["interval"]
        assert low <= difference <= high
    same = json.loads(finbench("compare", sides[0], sides[0], "--json").stdout)
    assert {one["CR"]["difference"] for one in same["days"].values()} == {0}
    shown = finbench("compare", *sides)
    assert "the same ones for both" in shown.stdout


def test_an_agent_that_stops_early_has_no_figures(market: Path, tmp_path: Path) -> None:
    metrics = run(market, tmp_path / "run", "--agent", "momentum", "--max-rounds", "5")
    assert (metrics["episodes"], metrics["passed"]) == (3, 0)
    assert metrics["CR"] is None
    closes = [
        json.loads(line)
        for line in (tmp_path / "run/calls.jsonl").read_text().splitlines()
        if '"market_close"' in line
    ]
    assert [call["ok"] for call in closes] == [True] * 3, "sessions are closed all the same"


def test_a_market_that_can_not_be_opened_ends_its_episodes(market: Path, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from bench.suites.investorbench.suite import InvestorBench\n"
        "class Elsewhere(InvestorBench):\n"
        "    @classmethod\n"
        "    def environment(cls, task):\n"
        "        made = InvestorBench.environment(task)\n"
        "        arguments = {**made.arguments, 'symbols': 'ZZZ'}\n"
        "        return type(made)(made.opening, made.closing, made.tools, arguments)\n"
    )
    done = finbench(
        *("run", "own:Elsewhere", "--dataset", str(market), "--upstream", "simulated"),
        *("--out", str(tmp_path / "run"), "--agent", "momentum", "--json"),
    )
    assert done.returncode == 1, "a run that gave nothing"
    assert "the environment failed in all 3 episodes; the first: environment: 'ZZZ'" in done.stderr
    metrics = json.loads(done.stdout)
    assert metrics["usage"]["endings"] == {"environment_error": 3}
    assert metrics["failed_by_infrastructure"] == 3
    about = json.loads((tmp_path / "run/run.json").read_text())
    said = about["first_errors"]["environment_error"]
    assert said == "environment: 'ZZZ' is no asset of this market; there are AAA, BBB"


@needs_data
def test_recorded_decisions_are_a_row_each(tmp_path: Path) -> None:
    days = json.loads((INVESTORBENCH / "jnj.json").read_text())
    window = [one for one in sorted(days) if "2020-10-01" <= one <= "2021-05-06"]
    lines = [
        {"id": name, "symbol": "JNJ", "positions": dict.fromkeys(window, position)}
        for name, position in (("hold", 1), ("short", -1), ("none", 0))
    ]
    file = tmp_path / "decisions.jsonl"
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


def test_decisions_that_are_none_name_the_line(market: Path, tmp_path: Path) -> None:
    file = tmp_path / "decisions.jsonl"
    file.write_text(json.dumps({"id": "a", "symbol": "ZZZ", "positions": {}}))
    done = finbench("score", str(file), "--suite", "investorbench", "--dataset", str(market))
    assert done.returncode == 1
    assert "decisions.jsonl:1: symbol: 'ZZZ' is unknown" in done.stderr
    without = finbench("score", str(file), "--suite", "investorbench")
    assert without.returncode == 2
    assert "--dataset" in without.stderr


@pytest.mark.parametrize("calls", [1, 2, 3, 11, 14, 22, 25])
def test_a_killed_run_goes_on_from_the_last_finished_day_and_lacks_nothing(
    market: Path, tmp_path: Path, calls: int
) -> None:
    whole = run(market, tmp_path / "run", "--agent", "momentum")
    before = timeless(tmp_path / "run")
    interrupted(tmp_path / "run", calls)
    found = run(market, tmp_path / "run", "--agent", "momentum", "--resume", "--accept-changes")
    for name in ("episodes", "passed", "CR", "SR", "MDD", "AV", "breakdown", "usage", "tool_use"):
        assert found[name] == whole[name]
    assert timeless(tmp_path / "run") == before
    about = json.loads((tmp_path / "run/run.json").read_text())
    gone_on = about.get("gone_on", {"calls": 0, "begun_again": 0})
    trades = 2 * ((calls - 1) // 2) + 2 * ((calls - 1) // 3)  # the third task has two assets
    assert (gone_on["calls"], gone_on["begun_again"]) == (trades, 0)


def test_a_run_that_is_killed_twice_lacks_nothing(market: Path, tmp_path: Path) -> None:
    run(market, tmp_path / "run", "--agent", "momentum")
    before = timeless(tmp_path / "run")
    interrupted(tmp_path / "run", 5)
    run(market, tmp_path / "run", "--agent", "momentum", "--resume", "--accept-changes")
    (tmp_path / "run/episodes.jsonl").write_text("")  # as if their records had not been written
    with (tmp_path / "run/checkpoints.jsonl").open("ab") as file:
        file.truncate(file.tell() - 30)
    run(market, tmp_path / "run", "--agent", "momentum", "--resume", "--accept-changes")
    accepted = json.loads((tmp_path / "run/run.json").read_text())["accepted"]
    assert any(said.startswith("checkpoints.jsonl lacks 30 of ") for said in accepted)
    assert timeless(tmp_path / "run") == before


def test_an_agent_that_can_not_begin_in_the_middle_begins_again(
    market: Path, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(
        "from bench.agents.market import MarketAgent\n"
        "class Holder(MarketAgent):\n"
        "    goes_on = False\n"
        "    def __init__(self):\n"
        "        super().__init__('holder', lambda asset, name: 'buy')\n"
    )
    command = (
        *("run", "investorbench", "--dataset", str(market), "--upstream", "simulated"),
        *("--out", "run", "--agent", "own:Holder"),
    )
    assert finbench(*command).returncode == 0
    interrupted(tmp_path / "run", 12)
    again = finbench(*command, "--resume", "--accept-changes")
    assert again.returncode == 0, again.stderr
    assert "3 began again, because their agent can't begin in the middle" in again.stdout

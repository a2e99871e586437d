"""`finbench run --plan`: what a run needs of each host, before it starts."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bench.cli.main import main
from bench.models.simulated import ModelFaults
from bench.task import Task
from gateway.upstreams.hosts import host_of
from gateway.upstreams.quota import Ledger
from manifests import Catalog
from tests.support.commands import finbench
from tests.support.markets import DAYS, write_market
from tests.support.played_model import simulated_model

RUN = ("run", "starter", "--episodes", "200", "--seed", "3")


def plan(*options: str) -> tuple[int, list[dict[str, Any]]]:
    done = CliRunner().invoke(main, [*RUN, "--plan", "--json", *options])
    return done.exit_code, json.loads(done.stdout)


def test_a_plan_counts_what_the_run_then_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, catalog: Catalog
) -> None:
    monkeypatch.setenv("FINPORT_CACHE_DIR", str(tmp_path / "cache"))
    code, needs = plan("--upstream", "simulated")
    assert code == 0
    assert all(need["distinct"] <= need["calls"] <= need["most"] / 3 for need in needs)
    assert not (tmp_path / "cache").exists(), "nothing is begun"
    ran = CliRunner().invoke(main, [*RUN, "--upstream", "simulated", "--out", "run", "--json"])
    assert ran.exit_code == 0, ran.output
    again = plan("--upstream", "simulated", "--agent", "replay", "--trace", "run")
    assert again == (0, needs), "a replay asks the same"
    Path("short.jsonl").write_text(Path("run/episodes.jsonl").read_text().splitlines()[0] + "\n")
    code, few = plan("--upstream", "simulated", "--agent", "replay", "--trace", "short.jsonl")
    assert (code, sum(need["calls"] for need in few) < 40) == (0, True), "what it lacks asks none"
    asked: dict[str, int] = {}
    for line in Path("run/calls.jsonl").read_text().splitlines():
        call = json.loads(line)
        if call["source"] is not None:  # it was bound
            manifest = catalog.get(call["tool"])
            assert manifest is not None
            asked[host_of(manifest)] = asked.get(host_of(manifest), 0) + 1
    assert {need["host"]: need["calls"] for need in needs} == asked


def test_a_plan_says_which_quota_would_run_out_and_when(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FINPORT_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("FINPORT_RAPIDAPI_KEYS", "one,two")
    host = "seeking-alpha.p.rapidapi.com"
    monkeypatch.setenv("FINPORT_HOSTS", json.dumps({host: {"per_month": 3}}))

    async def use_two() -> None:
        async with Ledger.open(tmp_path / "quota.sqlite", ["one"], {}) as ledger:
            await ledger.take(host, 1)
            await ledger.take(host, 1)

    asyncio.run(use_two())
    code, needs = plan()
    (need,) = (need for need in needs if need["host"] == host)
    assert need["left"] == 1 + 3
    assert need["distinct"] > 4
    assert 0 < need["runs_out_at_most"] <= need["runs_out"] <= 200
    assert code == 1
    assert {n["left"] for n in needs if n["host"] != host} == {None}
    shown = CliRunner().invoke(main, [*RUN, "--plan"]).stdout
    assert f"at episode {need['runs_out']}" in shown


TASKS = [
    {
        "id": f"t{n}",
        "category": "crypto",
        "question": f"What does Bitcoin cost, {n}?",
        "tools": [
            {"name": "get_coin", "arguments": {"uuid": "Qwsogvtv82FCd"}},
            {"name": "bond_zh_us_rate"},
        ],
        "answer": answer,
    }
    for n, answer in enumerate(["65000 USD", "", "(B)", 'Both "rose"\n上涨'] * 3)
]
PRICES = """
currency = "USD"
[models.a]
input = 1
output = 2
[models.j]
input = 3
output = 4
"""


def asked(url: str, *options: str) -> tuple[str, ...]:
    agent = ("--model", "a", "--base-url", url, "--max-tokens", "400", "--episodes", "18")
    judge = ("--judge", "llm", "--judge-model", "j", "--judge-body", '{"max_tokens": 50}')
    how = ("--upstream", "simulated", "--prices", "prices.toml", "--json", "--top-k", "0")
    return ("run", "own", "--dataset", "tasks.jsonl", *agent, *judge, *how, *options)


@pytest.mark.parametrize(
    ("options", "faults"),
    [
        (("--agent", "llm"), {"empty": 0.2, "bad_json": 0.2}),
        (("--agent", "llm", "--max-output-tokens", "300"), {"unknown_tool": 0.5}),
        (("--agent", "llm", "--max-rounds", "2", "--max-calls", "45"), {"too_many_calls": 0.5}),
        (("--agent", "fatr", "--judge-protocol", "authors"), {"judge_invalid": 0.1}),
        (("--agent", "fatr", "--agent-option", "reduce=true", "--no-inject"), {"length": 0.1}),
    ],
)
def test_a_run_with_a_model_stays_within_its_bound(
    options: tuple[str, ...], faults: dict[str, float]
) -> None:
    Path("tasks.jsonl").write_text("\n".join(map(json.dumps, TASKS)))
    Path("prices.toml").write_text(PRICES)
    tasks = map(Task.model_validate, TASKS)
    with simulated_model(tasks, faults=ModelFaults(**faults)) as url:
        planned = finbench(*asked(url, *options, "--plan"))
        assert planned.returncode == 0, planned.stderr
        assert not Path("runs").exists(), "nothing is begun"
        ran = finbench(*asked(url, *options, "--out", "out"))
        assert ran.returncode == 0, ran.stderr
    bounds, found = json.loads(planned.stdout), json.loads(ran.stdout)
    assert found["traffic"]["calls"] <= bounds["calls"]
    agent, judge = bounds["models"]
    for bound, used in ((agent, found["usage"]), (judge, found["usage"]["judge"])):
        most, estimate = bound["most"], bound["estimate"]
        assert 0 < used["model_calls"]["calls"] <= most["requests"]
        assert used["model_calls"]["attempts"] <= bound["attempts"]
        # The simulated model counts four bytes as a token, the bound one.
        assert 4 * used["tokens"]["input"] <= most["input_tokens"]
        assert used["tokens"]["output"] <= most["output_tokens"]
        assert 4 * found["money"][bound["whose"]] <= most["money"]
        assert all(0 < estimate[name] <= most[name] for name in most)


def test_where_there_is_no_bound_a_plan_says_so() -> None:
    Path("tasks.jsonl").write_text("\n".join(map(json.dumps, TASKS)))
    Path("prices.toml").write_text(PRICES)
    url = "http://127.0.0.1:9/v1"
    own = ("run", "own", "--dataset", "tasks.jsonl", "--model", "a", "--base-url", url, "--plan")
    llm = (*own, "--agent", "llm", "--prices", "prices.toml")
    shown = finbench(*llm)
    assert shown.returncode == 0, shown.stderr
    assert "no bound of tokens without --max-tokens" in shown.stdout
    assert "144" in shown.stdout, "12 episodes of 6 turns, each asked for twice"
    (bound,) = json.loads(finbench(*llm, "--json").stdout)["models"]
    assert bound["most"] == {
        "requests": 144,
        "input_tokens": None,
        "output_tokens": None,
        "money": None,
    }
    (priceless,) = json.loads(finbench(*llm, "--model", "b", "--json").stdout)["models"]
    assert "no price of b" in priceless["why"]
    scripted = json.loads(finbench(*own, "--judge", "llm", "--json").stdout)
    assert {need["host"] for need in scripted["hosts"]} >= {"coinranking1.p.rapidapi.com"}
    assert scripted["models"][0]["most"]["input_tokens"] is None
    assert "no bound of the answers that are judged of scripted" in scripted["models"][0]["why"]


def test_a_trader_with_a_model_asks_once_a_day_and_asset() -> None:
    market = write_market(Path("market"))
    options = ("--dataset", str(market), "--model", "a", "--base-url", "http://127.0.0.1:9/v1")
    done = finbench(*("run", "investorbench", "--agent", "finmem", "--plan", "--json"), *options)
    assert done.returncode == 0, done.stderr
    (bound,) = json.loads(done.stdout)["models"]
    assert bound["most"]["requests"] == DAYS * 4, "two assets, and both together"
    assert "no bound of the texts that finmem reads" in bound["why"]

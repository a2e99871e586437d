"""`finbench run --plan`: what a run needs of each host, before it starts."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bench.cli.main import main
from gateway.upstreams.hosts import host_of
from gateway.upstreams.quota import Ledger
from manifests import Catalog

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

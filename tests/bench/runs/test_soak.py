"""Endurance: what a long run must not do is grow, slow down or lose a record. `make soak`."""

import json
import statistics
import time
from pathlib import Path

import pytest

from bench.agents import ErrorRates, ScriptedAgent
from bench.runs.directory import RunDirectory
from bench.runs.driver import Driver
from bench.suites import load_suite
from gateway import Gateway, GatewaySettings
from manifests import Catalog
from manifests.common.memory import rss_bytes

pytestmark = [pytest.mark.anyio, pytest.mark.soak]

ROUNDS = 10
EPISODES = 10_000


async def test_a_hundred_thousand_episodes_cost_what_the_first_ones_did(
    catalog: Catalog, tmp_path: Path
) -> None:
    settings = GatewaySettings(upstream="simulated", cache_dir=tmp_path / "c", akshare_workers=1)
    agent = ScriptedAgent([m.name for m in catalog], rates=ErrorRates())
    suite = load_suite("starter")
    costs, sizes = [], []
    async with RunDirectory.open(tmp_path / "run", {}) as directory:
        opened = Gateway.open(settings, catalog=catalog, trace=directory.calls)
        async with opened as gateway:
            driver = Driver(
                suite, agent, gateway, directory, concurrency=1_000, starts_per_s=1_000_000
            )
            for _ in range(ROUNDS):
                before, started = directory.metrics.traffic.latency_ms.count, time.process_time()
                await driver.run(EPISODES)
                calls = directory.metrics.traffic.latency_ms.count - before
                costs.append((time.process_time() - started) / calls)
                sizes.append(rss_bytes())
    print(f"us of CPU a call: {[round(c * 1e6, 1) for c in costs]}")  # noqa: T201
    print(f"MiB: {[round(s / 2**20) for s in sizes]}")  # noqa: T201
    early, late = statistics.median(costs[1:5]), statistics.median(costs[6:])
    assert late < 1.3 * early, "medians, since a round alone may be half as dear again by noise"
    assert sizes[-1] - sizes[2] < 16 * 2**20
    lines = (tmp_path / "run" / "episodes.jsonl").read_text().splitlines()
    assert len(lines) == ROUNDS * EPISODES
    assert json.loads(lines[-1])["error"] is None
    assert directory.metrics.episodes == ROUNDS * EPISODES

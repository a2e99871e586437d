"""Scripted episodes of `finbench speed driver`, in their own process: a program.

Each episode makes three different calls of one tool, one a round, all of them answered from the
cache, and then answers. The measured time ends when all records are in their files.
"""

import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import orjson
import uvloop
from anyio import to_thread

from bench.agents import ErrorRates, ScriptedAgent
from bench.judges import Judge
from bench.judges.registry import JudgeSettings, judge_named, open_judge
from bench.runs.driver import Driver
from bench.runs.run import YOUNG
from bench.speed.driver_stage import (
    ARGUMENTS,
    TOOL,
    UNBOUND_STARTS_PER_S,
    CheckedAgent,
    Figures,
    Stage,
    costing,
    log_bytes,
    suite,
)
from bench.suites.fintoolbench.suite import LabelledTasks
from gateway.server.process import raise_file_limit
from gateway.telemetry.vitals import Vitals
from manifests.common.collector import calm_collector
from manifests.common.memory import peak_rss_bytes, rss_bytes

STARTS_PER_S = 10_000.0
"""The default of a run."""

COUNT_S = 0.25
"""How often open sockets are counted."""

ANSWER = f"{len(ARGUMENTS)} of {len(ARGUMENTS)} calls answered"


def _driver(
    stage: Stage,
    concurrency: int,
    *,
    think_s: float = 0.0,
    judge: Judge | None = None,
    starts_per_s: float = UNBOUND_STARTS_PER_S,
) -> Driver:
    scripted = ScriptedAgent([TOOL], rates=ErrorRates(0, 0, 0), think_s=think_s)
    return Driver(
        suite(),
        CheckedAgent(scripted, stage.expected, ANSWER),
        stage.client,
        stage.directory,
        concurrency=concurrency,
        starts_per_s=starts_per_s,
        judge=judge,
    )


async def flat_out(folder: Path, episodes: int, concurrency: int, judge: str) -> Figures:
    """Run episodes without pauses. `judge` is one of the suite's, or `none`."""
    judging = JudgeSettings(judge_named(judge, LabelledTasks.judges))
    async with Stage.open(folder) as stage, open_judge(judging, stage.catalog) as by:
        driver = _driver(stage, concurrency, judge=by)
        with costing() as cost:
            await driver.run(episodes)
            await stage.written()
        stage.check(episodes)
    return cost.of(episodes, driver.most_in_flight) | {
        "most_in_flight": driver.most_in_flight,
        "log_bytes_per_episode": log_bytes(folder, episodes) / episodes,
    }


async def thinking(
    folder: Path,
    episodes: int,
    concurrency: int,
    think_s: float,
    url: str | None = None,
) -> Figures:
    """Run episodes that wait before each turn, 0.5 to 1.5 times `think_s`, as for a model. The
    gateway is in this process or at `url`, where it is asked over streams.
    """
    async with Stage.open(folder, url, streams=True) as stage:
        driver = _driver(stage, concurrency, think_s=think_s, starts_per_s=STARTS_PER_S)
        async with Vitals.watch() as vitals:
            with costing() as cost:
                await driver.run(episodes)
                await stage.written()
        stage.check(episodes)
    log_bytes(folder, episodes)
    return {
        "think_s": think_s,
        "most_in_flight": driver.most_in_flight,
        "episodes_per_s": episodes / cost.wall_s,
        "calls_per_s": len(ARGUMENTS) * episodes / cost.wall_s,
        "cpu_share": cost.cpu_s / cost.wall_s,
        "loop_lag_p99_ms": vitals.lag_ms.at(0.99) or 0.0,
        "peak_rss_mb": peak_rss_bytes() / 1e6,
    }


async def at_once(
    folder: Path, episodes: int, concurrency: int, url: str | None = None, *, streams: bool = False
) -> Figures:
    """Run episodes without pauses, in process or with the gateway at `url`."""
    async with Stage.open(folder, url, streams=streams) as stage:
        driver = _driver(stage, concurrency)
        most_sockets = 0

        async def count_sockets() -> None:
            nonlocal most_sockets
            while True:
                most_sockets = max(most_sockets, _sockets())
                await asyncio.sleep(COUNT_S)

        counting = asyncio.create_task(count_sockets())
        async with Vitals.watch() as vitals:
            with costing() as cost:
                await driver.run(episodes)
                await stage.written()
        counting.cancel()
        stage.check(episodes)
    log_bytes(folder, episodes)
    return {
        "episodes_per_s": episodes / cost.wall_s,
        "cpu_ms_per_episode": cost.cpu_s / episodes * 1e3,
        "loop_lag_p99_ms": vitals.lag_ms.at(0.99) or 0.0,
        "peak_rss_mb": peak_rss_bytes() / 1e6,
        "sockets": most_sockets,
        "most_in_flight": driver.most_in_flight,
    }


def _sockets() -> int:
    """Open sockets of this process, also those that are not to a gateway."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # it was closed meanwhile
            found += os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
    return found


async def on_request(folder: Path, concurrency: int) -> Figures:
    """For each line on standard input make that many calls in one run directory. Print what one of
    these calls cost (CPU us) and the memory held after them (bytes).
    """
    async with Stage.open(folder) as stage:
        driver = _driver(stage, concurrency)
        episodes = 0
        calm_collector(YOUNG)
        while line := await to_thread.run_sync(sys.stdin.readline):
            asked = -(-int(line) // len(ARGUMENTS))
            started = time.process_time()
            await driver.run(asked)
            await stage.written()
            cpu_s = time.process_time() - started
            episodes += asked
            us = cpu_s / asked / len(ARGUMENTS) * 1e6
            print(orjson.dumps({"us": us, "rss": rss_bytes()}).decode(), flush=True)  # noqa: T201
        stage.check(episodes)
    return {"log_bytes_per_episode": log_bytes(folder, episodes) / episodes}


PARTS: dict[str, Callable[..., Coroutine[Any, Any, Figures]]] = {
    "flat-out": flat_out,
    "thinking": thinking,
    "at-once": at_once,
    "on-request": on_request,
}


def main(part: str, sizes: str) -> None:
    raise_file_limit()
    with tempfile.TemporaryDirectory(prefix="finport-speed-") as folder:
        figures = uvloop.run(PARTS[part](Path(folder), **orjson.loads(sizes)))
    print(orjson.dumps(figures).decode())  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])

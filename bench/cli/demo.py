"""The demonstration: a gateway with a simulated upstream, and agents driven through it.

The gateway is a process of its own on a free port. It ends with this process, however this one
ends. Its cache starts empty, so the figures are those of a first run.
"""

import tempfile
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from bench.agents.registry import AgentSettings
from bench.cli.tables import closing, if_seen, report
from bench.judges.registry import JudgeSettings, judge_named
from bench.runs.directory import RunDirectoryError
from bench.runs.run import RunPlan, run
from bench.speed.servers import ServerNotReadyError, served_gateway
from bench.suites import load_suite
from gateway import GatewaySettings
from gateway.terminal import echo
from gateway.trace import TraceError

THINK_S = 0.5
LATENCY_S = 0.1
FAILURE_RATE = 0.05


async def show(episodes: int, concurrency: int, out: Path) -> int:
    """Run the demonstration into `out`; returns the exit code."""
    echo(
        f"upstreams are simulated: {LATENCY_S * 1e3:.0f} ms, {FAILURE_RATE:.0%} of requests fail; "
        f"agents are scripted and take {THINK_S:g} s to think before each turn"
    )
    with tempfile.TemporaryDirectory(prefix="finport-demo-") as cache:
        try:
            served = served_gateway(Path(cache), latency_s=LATENCY_S, failure_rate=FAILURE_RATE)
            echo("starting a gateway")
            async with served as url:
                echo(f"gateway on {url}; {episodes} episodes begin, {concurrency} at once")
                suite = load_suite("starter")
                plan = RunPlan(
                    suite=suite,
                    gateway=url,
                    episodes=episodes,
                    concurrency=concurrency,
                    agent=AgentSettings.of(options={"think_s": THINK_S}),
                    judge=JudgeSettings(judge_named(None, suite.judges)),
                )
                about = await run(plan, out, GatewaySettings.read(), show=True)
                health = await _health(url)
        except (RunDirectoryError, TraceError, ServerNotReadyError) as error:
            echo(f"finbench: {error}", err=True)
            return 1
    metrics = orjson.loads((out / "metrics.json").read_bytes())
    with if_seen():
        report(type(suite), metrics, about)
        closing(about, out, gateway=health, driver=about.driver)
    return 0


async def _health(url: str) -> dict[str, Any]:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/healthz") as response:
        health: dict[str, Any] = orjson.loads(await response.read())
        return health

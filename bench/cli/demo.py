"""The demonstration: a gateway with a simulated upstream, and agents driven through it. At the end
a simulated model plays the samples of the other suites.

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
from bench.models.settings import ModelSettings
from bench.models.simulated import MODEL, SimulatedModel
from bench.processes import ServerNotReadyError, gateway
from bench.runs.directory import RunDirectoryError
from bench.runs.run import RunPlan, run
from bench.suites import load_suite
from gateway import GatewaySettings
from gateway.trace import TraceError
from manifests import Catalog
from manifests.common.terminal import echo

SAMPLES = ("finova-sample", "fintrace-sample")
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
            echo("starting a gateway")
            async with gateway(
                Path(cache),
                upstream="simulated",
                simulated_latency_s=LATENCY_S,
                simulated_failure_rate=FAILURE_RATE,
            ) as (url, _):
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
                others = [await _sample(name, url, Path(cache)) for name in SAMPLES]
        except (RunDirectoryError, TraceError, ServerNotReadyError) as error:
            echo(f"finbench: {error}", err=True)
            return 1
    metrics = orjson.loads((out / "metrics.json").read_bytes())
    with if_seen():
        report(type(suite), metrics, about)
        closing(about, out, gateway=health, driver=about.driver)
        echo("played by a simulated model, so these figures say nothing about any model:")
        for line in others:
            echo(f"  {line}")
    return 0


async def _sample(name: str, url: str, folder: Path) -> str:
    """Run a suite's sample with the simulated model as agent and judge; its figures as one line.
    Raises what `run` raises.
    """
    suite, catalog = load_suite(name), Catalog.load()
    async with SimulatedModel.open(suite.tasks, catalog) as model:
        named = ModelSettings(MODEL, model.base_url)
        plan = RunPlan(
            suite=suite,
            gateway=url,
            episodes=len(suite.tasks),
            concurrency=16,
            agent=AgentSettings.of("llm", model=named),
            judge=JudgeSettings(suite.judges[0], MODEL, model.base_url, repeats=1),
            top_k=None if suite.offers_tools else 20,
        )
        await run(plan, folder / name, GatewaySettings.read(), show=False, catalog=catalog)
    metrics = orjson.loads((folder / name / "metrics.json").read_bytes())
    figures = [f"{m.title} {m.text_of(metrics[m.name])}" for m in suite.metrics if m.in_line]
    return f"{name}: {metrics['episodes']} episodes, {', '.join(figures)}"


async def _health(url: str) -> dict[str, Any]:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/healthz") as response:
        health: dict[str, Any] = orjson.loads(await response.read())
        return health

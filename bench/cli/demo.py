"""The demonstration: a gateway over a simulated market, and agents that answer questions about it.
At the end a simulated model plays the samples of the other suites.

The gateway is a process of its own on a free port. It ends with this process, however this one
ends. Its cache starts empty, so the figures are those of a first run.
"""

import tempfile
from pathlib import Path
from typing import Any

import aiohttp
import orjson
from anyio import to_thread

from adapters.simulator.world.world import World
from bench.agents.registry import AgentSettings
from bench.cli.tables import closing, if_seen, report
from bench.judges.registry import JudgeSettings, judge_named
from bench.models.settings import ModelSettings
from bench.models.simulated import MODEL, SimulatedModel
from bench.processes import ServerNotReadyError, gateway
from bench.runs.directory import RunDirectoryError
from bench.runs.driver import Limits
from bench.runs.run import RunPlan, run
from bench.suites import load_suite
from bench.suites.generated.make import Maker, line
from gateway import GatewaySettings
from gateway.trace import TraceError
from manifests import Catalog
from manifests.common.terminal import echo

SAMPLES = ("finova-sample", "fintrace-sample")
TASKS = 100
"""So many questions are made; further episodes repeat them."""

MISTAKES = 0.03
"""The share of facts and steps that go wrong for the agent."""

THINK_S = 0.5
LATENCY_S = 0.1
FAILURE_RATE = 0.05


async def show(episodes: int, concurrency: int, out: Path) -> int:
    """Run the demonstration into `out`; returns the exit code."""
    echo(
        f"the market is simulated: {LATENCY_S * 1e3:.0f} ms, {FAILURE_RATE:.0%} of requests fail; "
        f"agents are scripted, take {THINK_S:g} s to think before each turn, and err in "
        f"{MISTAKES:.0%} of their steps"
    )
    with tempfile.TemporaryDirectory(prefix="finport-demo-") as cache:
        try:
            file = Path(cache) / "tasks.jsonl"
            await to_thread.run_sync(_make, file, min(TASKS, episodes))
            suite = load_suite("generated", file)
            echo(f"{len(suite.tasks)} questions are made, such as this one:")
            echo(f"  {suite.tasks[-1].question}")
            echo("starting a gateway")
            async with gateway(
                Path(cache),
                upstream="simulated",
                simulated_latency_s=LATENCY_S,
                simulated_failure_rate=FAILURE_RATE,
            ) as (url, _):
                echo(f"gateway on {url}; {episodes} episodes begin, {concurrency} at once")
                plan = RunPlan(
                    suite=suite,
                    gateway=url,
                    episodes=episodes,
                    concurrency=concurrency,
                    agent=AgentSettings.of("solver", {"think_s": THINK_S, "mistakes": MISTAKES}),
                    judge=JudgeSettings(judge_named(None, suite.judges)),
                    limits=Limits(**dict[str, Any](suite.limits)),
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


def _make(file: Path, number: int) -> None:
    """Make the questions."""
    maker = Maker(World(), seed=0)
    with file.open("wb") as out:
        out.writelines(line(task) for task in maker.tasks(number))


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

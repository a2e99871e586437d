"""Runs whose agent, judge and gateway are real; model and upstreams are simulated."""

from pathlib import Path
from typing import Any

from bench.agents.registry import AgentSettings
from bench.judges.registry import JudgeSettings, judge_named
from bench.models.settings import ModelSettings
from bench.models.simulated import MODEL, ModelFaults, SimulatedModel
from bench.runs.run import RunPlan, run
from bench.suites.suite import Suite
from gateway import GatewaySettings
from manifests import Catalog

NO_FAULTS = ModelFaults()


async def played(
    suite: Suite,
    catalog: Catalog,
    out: Path,
    *,
    agent: str = "llm",
    judge: str | None = None,
    model: str = MODEL,
    faults: ModelFaults = NO_FAULTS,
    seed: int = 0,
    **how: Any,
) -> None:
    """Play a run into the folder `out`. `how` are further fields of its plan."""
    async with SimulatedModel.open(suite.tasks, catalog, faults=faults, seed=seed) as simulated:
        plan = RunPlan(
            suite=suite,
            gateway="embedded",
            agent=AgentSettings.of(agent, model=ModelSettings(model, simulated.base_url)),
            judge=JudgeSettings(judge_named(judge, suite.judges), model, simulated.base_url),
            **how,
        )
        cache = out.with_name(f"{out.name}-cache")
        settings = GatewaySettings(upstream="simulated", cache_dir=cache, akshare_workers=1)
        await run(plan, out, settings, show=False, catalog=catalog)

"""Speed of a run on Ray with two players beside one in a single process, in turns.

Each run is a process of `finbench run`, which plays from a snapshot. `scripted` episodes take no
time of their own. `waiting` ones wait before each turn, as for a model. `model` ones ask a
simulated model in a process of its own, which shares the cores with the run.
"""

import tempfile
from functools import partial
from pathlib import Path

from bench import processes
from bench.engines.cluster import EngineError, ray_module
from bench.speed.harness import Figures, Harness, MeasurementError, NotMeasured

ROUNDS = 3

KINDS: dict[str, tuple[int, int, tuple[str, ...]]] = {
    "scripted": (20_000, 500, ()),
    "waiting": (20_000, 4_000, ("--think-s", "1")),
    "model": (2_000, 200, ("--agent", "llm", "--model", "simulated-planner", "--base-url")),
}
"""By name, how many episodes, how many at once, and the options of their agent; those of `model`
end with the URL of the simulated model.
"""

ENGINES = {"local": ("--engine", "local"), "ray": ("--engine", "ray", "--players", "2")}


async def measure(harness: Harness) -> Figures:
    """Episodes a second by kind and engine, the ratios, and the seconds until Ray plays."""
    try:
        ray_module()
    except EngineError as error:
        raise NotMeasured(str(error)) from error
    folder, sides = harness.folder, {}
    await _run(folder, 72, 72, "--mode", "record", "--upstream", "simulated")
    url = await harness.server(*processes.FINBENCH, "simulated-model", "starter")
    for name, (episodes, at_once, agent) in KINDS.items():
        sizes = (harness.number(episodes), harness.number(at_once))
        options = ("--mode", "offline", *agent, *((url,) if name == "model" else ()))
        for engine, own in ENGINES.items():
            sides[f"{name}_{engine}"] = partial(_run, folder, *sizes, *options, *own)
    turns = await harness.in_turns(ROUNDS, sides)
    figures = turns.medians()
    for name in KINDS:
        local, on_ray = f"{name}_local", f"{name}_ray"
        digests = {found["digest"] for side in (local, on_ray) for found in turns.rounds[side]}
        if len(digests) > 1:
            raise MeasurementError(f"{name}: the run digests of the two engines differ")
        figures[f"{name}_ray_to_local"] = turns.ratio("episodes_per_s", on_ray, local)
    return figures


async def _run(folder: Path, episodes: int, at_once: int, *options: str) -> Figures:
    """What the `run.json` of a run in `folder` says of its speed."""
    about = await processes.run(
        folder,
        f"{tempfile.mkdtemp(dir=folder)}/run",
        *("starter", "--snapshot", "answers.snap", "--judge", "none", *options),
        *("--episodes", str(episodes), "--concurrency", str(at_once)),
        cache_dir="cache",
    )
    figures = {"episodes_per_s": about["episodes_per_s"], "digest": about["digest"]}
    if engine := about.get("engine"):
        figures["start_s"] = engine["start_s"]
        for who in ("head", "players"):
            cost_us = engine[f"{who}_cpu_s"] / about["episodes"] * 1e6
            figures[f"{who}_cpu_us_per_episode"] = cost_us
    return figures

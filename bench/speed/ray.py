"""Speed of a run on Ray with two players beside one in a single process, in turns.

Each run is a process of `finbench run`, which plays from a snapshot. `scripted` episodes take no
time of their own. `waiting` ones wait before each turn, as for a model. `model` ones ask a
simulated model in a process of its own, which shares the cores with the run.
"""

import asyncio
import statistics
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import orjson

from bench.engines.cluster import ray_module
from bench.engines.errors import EngineError
from bench.processes import environment
from bench.speed.harness import Figures, Harness, MeasurementError, NotMeasured, in_turns

FINBENCH = (sys.executable, "-c", "from bench.cli.main import main; main()")
PLAYERS = 2
RUN_S = 600.0


class Kind(NamedTuple):
    """Episodes of one kind: how many, how many at once, and the options of their agent. `{url}` in
    an option stands for that of the simulated model.
    """

    episodes: int
    at_once: int
    options: tuple[str, ...] = ()


KINDS: Mapping[str, Kind] = {
    "scripted": Kind(20_000, 500),
    "waiting": Kind(20_000, 4_000, ("--think-s", "1")),
    "model": Kind(
        2_000, 200, ("--agent", "llm", "--model", "simulated-planner", "--base-url", "{url}")
    ),
}
ENGINES = {"local": ("--engine", "local"), "ray": ("--engine", "ray", "--players", str(PLAYERS))}


async def measure(harness: Harness, kinds: Mapping[str, Kind] = KINDS, rounds: int = 3) -> Figures:
    """Episodes a second by kind and engine, the ratios, and the seconds until Ray plays."""
    try:
        ray_module()
    except EngineError as error:
        raise NotMeasured(str(error)) from error
    folder = harness.folder
    await _run(folder, Kind(72, 72), "--mode", "record", "--upstream", "simulated")
    url = await harness.server(*FINBENCH, "simulated-model", "starter")
    sides = {}
    for name, kind in kinds.items():
        told = kind._replace(options=tuple(option.format(url=url) for option in kind.options))
        for engine, options in ENGINES.items():
            sides[f"{name}_{engine}"] = partial(_run, folder, told, "--mode", "offline", *options)
    turns = await in_turns(rounds, sides)
    figures: Figures = {}
    for name in kinds:
        local, on_ray = turns.rounds[f"{name}_local"], turns.rounds[f"{name}_ray"]
        if len({about["digest"] for about in (*local, *on_ray)}) != 1:
            raise MeasurementError(f"{name}: the run digests of the two engines differ")
        for engine, abouts in (("local", local), ("ray", on_ray)):
            per_s = statistics.median(about["episodes_per_s"] for about in abouts)
            figures[f"{name}_{engine}_episodes_per_s"] = per_s
        ratio = turns.ratio("episodes_per_s", f"{name}_ray", f"{name}_local")
        figures[f"{name}_ray_to_local"] = ratio
        for who in ("head", "players"):
            costs = [about["engine"][f"{who}_cpu_s"] / about["episodes"] for about in on_ray]
            figures[f"{name}_{who}_cpu_us_per_episode"] = statistics.median(costs) * 1e6
    starts = [about["engine"]["start_s"] for k in kinds for about in turns.rounds[f"{k}_ray"]]
    return figures | {"ray_start_s": statistics.median(starts)}


async def _run(folder: Path, kind: Kind, *options: str) -> Figures:
    """The `run.json` of a run in `folder`. Raises `MeasurementError`."""
    words = (
        *("run", "starter", "--snapshot", "answers.snap", "--judge", "none", "--json"),
        *("--episodes", str(kind.episodes), "--concurrency", str(kind.at_once)),
    )
    out = Path(tempfile.mkdtemp(dir=folder)) / "run"
    variables = environment(FINPORT_CACHE_DIR="cache")
    variables.pop("RAY_ADDRESS", None)
    process = await asyncio.create_subprocess_exec(
        *(*FINBENCH, *words, *options, *kind.options, "--out", str(out)),
        cwd=folder,
        env=variables,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(RUN_S):
            _, said = await process.communicate()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    if process.returncode:
        raise MeasurementError(f"a run ended with {process.returncode}: {said.decode()[-500:]}")
    about: Figures = orjson.loads((out / "run.json").read_bytes())
    return about

"""Speed of a run on Ray with two players beside one in a single process, in turns.

Each run is a process of `finbench run`, which plays from a snapshot. `scripted` episodes take no
time of their own. `waiting` ones wait before each turn, as for a model. `model` ones ask a
simulated model in a process of its own, which shares the cores with the run.
"""

import asyncio
import logging
import os
import statistics
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from bench.speed.measurement import MeasurementError
from bench.speed.servers import server

log = logging.getLogger("finbench.speed")

Figures = dict[str, float | str]

FINBENCH = (sys.executable, "-c", "from bench.cli.main import main; main()")
PLAYERS = 2
RUN_S = 600.0


@dataclass(frozen=True, slots=True)
class Kind:
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
        2_000,
        200,
        ("--agent", "llm", "--model", "simulated-planner", "--base-url", "{url}"),
    ),
}


async def ray(kinds: Mapping[str, Kind] = KINDS, rounds: int = 3) -> Figures:
    """Episodes a second by kind and engine, the ratios, and the seconds until Ray plays."""
    from bench.engines.cluster import EngineError, ray_module

    try:
        ray_module()
    except EngineError as error:
        return {"missing": str(error)}
    with tempfile.TemporaryDirectory(prefix="finport-speed-") as name:
        folder = Path(name)
        await _run(folder, "recorded", Kind(72, 72), "--mode", "record", "--upstream", "simulated")
        found: dict[str, list[dict[str, Any]]] = {}
        model = (*FINBENCH, "simulated-model", "starter")
        async with server(folder, *model) as url:
            for number in range(1, rounds + 1):
                for kind, of in kinds.items():
                    options = tuple(option.replace("{url}", url) for option in of.options)
                    told = Kind(of.episodes, of.at_once, options)
                    for side, own in (("local", ()), ("ray", ("--players", str(PLAYERS)))):
                        log.info("%s, %s, round %d of %d", kind, side, number, rounds)
                        given = ("--mode", "offline", "--engine", side, *own)
                        out = f"{kind}-{side}-{number}"
                        about = await _run(folder, out, told, *given)
                        found.setdefault(f"{kind}_{side}", []).append(about)
    return _figures(kinds, found)


def _figures(kinds: Mapping[str, Kind], found: Mapping[str, list[dict[str, Any]]]) -> Figures:
    figures: Figures = {}
    for kind in kinds:
        local, on_ray = found[f"{kind}_local"], found[f"{kind}_ray"]
        if {about["digest"] for about in local} != {about["digest"] for about in on_ray}:
            raise MeasurementError(f"{kind}: the run digests of the two engines differ")
        for side, runs in (("local", local), ("ray", on_ray)):
            name = f"{kind}_{side}_episodes_per_s"
            figures[name] = statistics.median(about["episodes_per_s"] for about in runs)
        pairs = zip(on_ray, local, strict=True)
        ratios = [a["episodes_per_s"] / b["episodes_per_s"] for a, b in pairs]
        figures[f"{kind}_ray_to_local"] = statistics.median(ratios)
        for who in ("head", "players"):
            costs = [about["engine"][f"{who}_cpu_s"] / about["episodes"] for about in on_ray]
            figures[f"{kind}_{who}_cpu_us_per_episode"] = statistics.median(costs) * 1e6
    starts = [about["engine"]["start_s"] for kind in kinds for about in found[f"{kind}_ray"]]
    figures["ray_start_s"] = statistics.median(starts)
    return figures


async def _run(folder: Path, out: str, kind: Kind, *options: str) -> dict[str, Any]:
    """The `run.json` of a run in `folder`. Raises `MeasurementError`."""
    words = (
        *("run", "starter", "--snapshot", "answers.snap", "--judge", "none", "--json"),
        *("--episodes", str(kind.episodes), "--concurrency", str(kind.at_once), "--out", out),
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FINPORT_")}
    kept.pop("RAY_ADDRESS", None)
    process = await asyncio.create_subprocess_exec(
        *(*FINBENCH, *words, *options, *kind.options),
        cwd=folder,
        env={**kept, "FINPORT_CACHE_DIR": "cache"},
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
    about: dict[str, Any] = orjson.loads((folder / out / "run.json").read_bytes())
    return about

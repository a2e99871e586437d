"""Speed of the driver, each measurement in its own process, so that its memory is its own.

There are two measurements. Scripted episodes of three cached calls, traces on disk and metrics
live, without a judge and with the judge `rules`; beside them, in turns, the same in Inspect AI with
its mock model, if `FINBENCH_INSPECT_PYTHON` names a Python that has it. The cost of a call after
10,000 calls and after a million. Writes 2 GB to the temporary folder.
"""

import asyncio
import os
from functools import partial
from pathlib import Path

import orjson

from bench.environment import INSPECT_PYTHON
from bench.processes import environment
from bench.speed.baselines import INSPECT_AI
from bench.speed.episodes import ARGUMENTS, QUESTION, Stage, scripted, scripted_agent
from bench.speed.harness import Figures, Harness, Measure, MeasurementError, Turns, in_process, log
from manifests.common.memory import rss_bytes

ROUNDS = 3
CONCURRENCY, EPISODES, INSPECT_EPISODES = 1_000, 15_000, 1_500
CALLS, WINDOW, WINDOWS = 1_000_000, 10_000, 10
"""The last `WINDOWS` windows of `CALLS` are each compared with the second window of a process."""


async def measure(harness: Harness) -> Figures:
    """Episodes and calls a second, CPU, memory and bytes of log an episode, and the ratios."""
    figures = {"concurrency": harness.number(CONCURRENCY), **await beside_inspect(harness)}
    log.info("%d calls in one process, at the end beside fresh ones", CALLS)
    return figures | await in_process(_flat, *map(harness.number, (CALLS, WINDOW, WINDOWS)))


async def beside_inspect(harness: Harness) -> Figures:
    """Episodes at once, without pauses, beside Inspect AI."""
    concurrency = harness.number(CONCURRENCY)
    played = partial(in_process, scripted, harness.number(EPISODES), concurrency)
    sides: dict[str, Measure] = {
        "scripted": partial(played, judge="none"),
        "judged": partial(played, judge="rules"),
    }
    python = os.environ.get(INSPECT_PYTHON)
    if python is not None:
        settings = await in_process(_settings, harness.number(INSPECT_EPISODES), concurrency)
        sides["inspect"] = partial(_inspect, python, harness.folder, settings)
    turns = await harness.in_turns(ROUNDS, sides)
    if python is None:
        return turns.medians() | {"inspect": f"not measured: set {INSPECT_PYTHON}"}
    memory = turns.ratio("kb_per_concurrent_episode", "scripted", "inspect")
    return turns.medians() | {
        "scripted_to_inspect": turns.ratio("episodes_per_s", "scripted", "inspect"),
        "judged_to_inspect": turns.ratio("episodes_per_s", "judged", "inspect"),
        "scripted_to_inspect_memory": memory,
    }


async def _settings(folder: Path, episodes: int, concurrency: int) -> bytes:
    """The input of Inspect AI's tool and model: our calls, and our answers as text."""
    async with Stage.open(folder) as stage:
        outputs = [answer.decode() for answer in stage.expected]
    days = [given["start_date"] for given in ARGUMENTS]
    return orjson.dumps(
        {
            "episodes": episodes,
            "concurrency": concurrency,
            "question": QUESTION,
            "arguments": ARGUMENTS,
            "outputs": dict(zip(days, outputs, strict=True)),
        }
    )


async def _inspect(python: str, folder: Path, settings: bytes) -> Figures:
    sheet = folder / "settings.json"
    sheet.write_bytes(settings)
    process = await asyncio.create_subprocess_exec(
        *(python, "-P", INSPECT_AI, str(sheet)), env=environment(), stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    if process.returncode:
        raise MeasurementError("Inspect AI did not play the episodes")
    figures: Figures = orjson.loads(said.splitlines()[-1])
    return figures


async def _flat(folder: Path, calls: int, window: int, windows: int) -> Figures:
    """CPU us and memory of a call in a process that has made many, and in one that has not."""
    turns = Turns(("first", "last"))
    async with Stage.open(folder) as stage:
        await _made(stage, max(calls - window * windows, 1))
        for _ in range(windows):
            turns.rounds["first"].append(await in_process(_early, window))
            turns.rounds["last"].append(await _made(stage, window))
    return turns.medians() | turns.spread("last_to_first", "cpu_us_per_call", "last", "first")


async def _early(folder: Path, window: int) -> Figures:
    """The second window of calls of a process."""
    async with Stage.open(folder) as stage:
        await _made(stage, window)
        return await _made(stage, window)


async def _made(stage: Stage, calls: int) -> Figures:
    episodes = -(-calls // len(ARGUMENTS))
    found = await stage.play(scripted_agent(), episodes, CONCURRENCY)
    cpu_us = found["cpu_ms_per_episode"] / len(ARGUMENTS) * 1e3
    return {"cpu_us_per_call": cpu_us, "rss_mb": rss_bytes() / 1e6}

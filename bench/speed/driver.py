"""Speed of the driver, each measurement in its own process, so that its memory is its own.

There are three measurements. Scripted episodes of three cached calls, traces on disk and metrics
live, without a judge and with the judge `rules`; beside them, in turns, the same in Inspect AI with
its mock model, if `FINBENCH_INSPECT_PYTHON` names a Python that has it. Ten thousand episodes at
once, in process and over HTTP. The cost of a call after 10,000 calls and after a million. Writes
2 GB to the temporary folder.
"""

import asyncio
import os
import statistics
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from bench.environment import INSPECT_PYTHON
from bench.processes import environment
from bench.speed.baselines import INSPECT_AI
from bench.speed.episodes import ARGUMENTS, QUESTION, Stage, scripted, scripted_agent
from bench.speed.harness import Figures, Harness, MeasurementError, in_process, in_turns, log
from manifests.common.memory import rss_bytes


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured.

    Each side of a pair runs `rounds` times, in turns. `many` episodes are in flight at once. They
    wait `think_s` before each turn, over HTTP `http_think_s`, since gateway and driver share two
    cores, make fewer calls a second, and episodes would wait for them. The last `windows` times
    `window` of `calls` are compared with windows in processes that have made one window before.
    """

    rounds: int = 3
    concurrency: int = 1_000
    episodes: int = 15_000
    inspect_episodes: int = 1_500
    many: int = 10_000
    many_episodes: int = 40_000
    think_s: float = 1.0
    http_episodes: int = 20_000
    http_think_s: float = 2.0
    calls: int = 1_000_000
    window: int = 10_000
    windows: int = 10


DEFAULT = Sizes()
PACED_STARTS_PER_S = 10_000.0
"""The default of a run."""


async def measure(harness: Harness, sizes: Sizes = DEFAULT) -> Figures:
    """Episodes and calls a second, CPU, memory and bytes of log an episode, and the ratios."""
    figures = {"concurrency": sizes.concurrency, **await beside_inspect(harness, sizes)}
    figures |= await many(harness, sizes)
    log.info("%d calls in one process, at the end beside fresh ones", sizes.calls)
    return figures | await in_process(flat, sizes)


async def beside_inspect(harness: Harness, sizes: Sizes) -> Figures:
    """Episodes at once, without pauses, beside Inspect AI."""
    played = partial(in_process, scripted, sizes.episodes, sizes.concurrency)
    sides: dict[str, Callable[[], Coroutine[Any, Any, Figures]]] = {
        "scripted": partial(played, judge="none"),
        "judged": partial(played, judge="rules"),
    }
    python = os.environ.get(INSPECT_PYTHON)
    if python is None:
        turns = await in_turns(sizes.rounds, sides)
        return turns.medians() | {"inspect": f"not measured: set {INSPECT_PYTHON}"}
    sheet = harness.folder / "settings.json"
    sheet.write_bytes(await in_process(_inspect_settings, sizes))
    turns = await in_turns(sizes.rounds, sides | {"inspect": partial(_inspect, python, sheet)})
    return {
        **turns.medians(),
        "scripted_to_inspect": turns.ratio("episodes_per_s", "scripted", "inspect"),
        "judged_to_inspect": turns.ratio("episodes_per_s", "judged", "inspect"),
        "scripted_to_inspect_memory": turns.ratio(
            "kb_per_concurrent_episode", "scripted", "inspect"
        ),
    }


async def _inspect(python: str, sheet: Path) -> Figures:
    command = (python, "-P", INSPECT_AI, str(sheet))
    process = await asyncio.create_subprocess_exec(
        *command, env=environment(), stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    if process.returncode:
        raise MeasurementError("Inspect AI did not play the episodes")
    figures: Figures = orjson.loads(said.splitlines()[-1])
    return figures


async def _inspect_settings(folder: Path, sizes: Sizes) -> bytes:
    """The input of Inspect AI's tool and model: our calls, and our answers as text."""
    async with Stage.open(folder) as stage:
        outputs = [answer.decode() for answer in stage.expected]
    days = [given["start_date"] for given in ARGUMENTS]
    return orjson.dumps(
        {
            "episodes": sizes.inspect_episodes,
            "concurrency": sizes.concurrency,
            "question": QUESTION,
            "arguments": ARGUMENTS,
            "outputs": dict(zip(days, outputs, strict=True)),
        }
    )


async def many(harness: Harness, sizes: Sizes) -> Figures:
    """Ten thousand episodes at once with thinking time, in process and over HTTP."""
    played = partial(in_process, scripted, concurrency=sizes.many, starts_per_s=PACED_STARTS_PER_S)
    log.info("%d episodes at once that think, in process", sizes.many)
    embedded = await played(episodes=sizes.many_episodes, think_s=sizes.think_s)
    url = await harness.gateway(upstream="simulated")
    log.info("%d episodes at once that think, over HTTP", sizes.many)
    http = await played(episodes=sizes.http_episodes, think_s=sizes.http_think_s, url=url)
    return {f"many_{name}": value for name, value in embedded.items()} | {
        f"many_http_{name}": value for name, value in http.items()
    }


async def flat(folder: Path, sizes: Sizes) -> Figures:
    """CPU us and memory of a call in a process that has made many, and in one that has not."""
    late, early = [], []
    async with Stage.open(folder) as stage:
        await _calls(stage, sizes, sizes.calls - sizes.window * sizes.windows)
        for _ in range(sizes.windows):
            early.append(await in_process(_early, sizes))
            late.append(await _calls(stage, sizes, sizes.window))
    ratios = [last["us"] / first["us"] for last, first in zip(late, early, strict=True)]
    return {
        "first_cpu_us_per_call": statistics.median(seen["us"] for seen in early),
        "last_cpu_us_per_call": statistics.median(seen["us"] for seen in late),
        "last_to_first": statistics.median(ratios),
        "last_to_first_min": min(ratios),
        "last_to_first_max": max(ratios),
        "first_rss_mb": statistics.median(seen["rss_mb"] for seen in early),
        "last_rss_mb": late[-1]["rss_mb"],
    }


async def _early(folder: Path, sizes: Sizes) -> Figures:
    """The second window of calls of a process."""
    async with Stage.open(folder) as stage:
        await _calls(stage, sizes, sizes.window)
        return await _calls(stage, sizes, sizes.window)


async def _calls(stage: Stage, sizes: Sizes, calls: int) -> Figures:
    episodes = -(-calls // len(ARGUMENTS))
    found = await stage.play(scripted_agent(), episodes, sizes.concurrency)
    us = found["cpu_ms_per_episode"] / len(ARGUMENTS) * 1e3
    return {"us": us, "rss_mb": rss_bytes() / 1e6}

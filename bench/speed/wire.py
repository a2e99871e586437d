"""Speed of a run against a gateway at a URL: episodes of three cached calls, many at once.

The gateway has two worker processes. Three sides run in turns, each in a process of its own: the
gateway in the driver's process, calls over a few streams, and one request a call. In process at
most 10,000 episodes are in flight: with more, the trace is written too slowly, and the gateway
refuses calls. One request a call takes so long that it makes fewer episodes.
"""

import logging
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.speed.driver import SCRIPTED, measured
from bench.speed.servers import served_gateway

log = logging.getLogger("finbench.speed")

WORKERS = 2

Figures = dict[str, float | str]


@dataclass(frozen=True, slots=True)
class Stage:
    """So many episodes, over streams all at once; in process `at_once`. With one request a call
    there are `by_request`, all at once.
    """

    episodes: int
    at_once: int
    by_request: int
    rounds: int


STAGES = (Stage(10_000, 10_000, 5_000, 5), Stage(100_000, 10_000, 5_000, 1))


async def wire(stages: tuple[Stage, ...] = STAGES) -> Figures:
    """Episodes a second, loop lag, memory and sockets of the driver by side, and the ratios."""
    figures: Figures = {}
    with tempfile.TemporaryDirectory(prefix="finport-speed-") as folder:
        opened = served_gateway(Path(folder), latency_s=0, failure_rate=0, workers=WORKERS)
        async with opened as url:
            for stage in stages:
                figures |= await _stage(stage, url)
    return figures


async def _stage(stage: Stage, url: str) -> Figures:
    sides: dict[str, dict[str, Any]] = {
        "inprocess": {"concurrency": stage.at_once},
        "streams": {"url": url, "streams": True},
        "requests": {"episodes": stage.by_request, "url": url},
    }
    found: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for number in range(1, stage.rounds + 1):
        for side, own in sides.items():
            log.info("%d episodes: %s, round %d of %d", stage.episodes, side, number, stage.rounds)
            episodes = own.get("episodes", stage.episodes)
            given = {"episodes": episodes, "concurrency": episodes, **own}
            found[side].append(await measured(*SCRIPTED, "at-once", given))
    name = f"at_once_{stage.episodes}"
    figures: Figures = {
        f"{name}_{side}_{figure}": statistics.median(round_[figure] for round_ in rounds)
        for side, rounds in found.items()
        for figure in rounds[0]
    }
    for other in ("inprocess", "requests"):
        pairs = zip(found["streams"], found[other], strict=True)
        ratios = [a["episodes_per_s"] / b["episodes_per_s"] for a, b in pairs]
        figures[f"{name}_streams_to_{other}"] = statistics.median(ratios)
    return figures

"""Speed of a run against a gateway at a URL: episodes of three cached calls, many at once.

The gateway has two worker processes. Three sides run in turns, each in a process of its own: the
gateway in the driver's process, calls over a few streams, and one request a call. In process at
most 10,000 episodes are in flight: with more, the trace is written too slowly, and the gateway
refuses calls. One request a call takes so long that it makes fewer episodes.
"""

from functools import partial
from typing import NamedTuple

from bench.speed.episodes import scripted
from bench.speed.harness import Figures, Harness, in_process, in_turns, log

WORKERS = 2


class Size(NamedTuple):
    """So many episodes, over streams all at once; in process `at_once`. With one request a call
    there are `by_request`, all at once.
    """

    episodes: int
    at_once: int
    by_request: int
    rounds: int


SIZES = (Size(10_000, 10_000, 5_000, 5), Size(100_000, 10_000, 5_000, 1))


async def measure(harness: Harness, sizes: tuple[Size, ...] = SIZES) -> Figures:
    """Episodes a second, loop lag, memory and sockets of the driver by side, and the ratios."""
    url = await harness.gateway("--workers", str(WORKERS), upstream="simulated")
    figures: Figures = {}
    for size in sizes:
        log.info("%d episodes", size.episodes)
        whole, some = size.episodes, size.by_request
        sides = {
            "inprocess": partial(in_process, scripted, whole, size.at_once),
            "streams": partial(in_process, scripted, whole, whole, url=url),
            "requests": partial(in_process, scripted, some, some, url=url, streams=False),
        }
        turns = await in_turns(size.rounds, sides)
        found = turns.medians()
        for other in ("inprocess", "requests"):
            found[f"streams_to_{other}"] = turns.ratio("episodes_per_s", "streams", other)
        figures |= {f"at_once_{whole}_{name}": value for name, value in found.items()}
    return figures

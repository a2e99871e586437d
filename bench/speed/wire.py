"""Speed of a run against a gateway at a URL: episodes of three cached calls, many at once.

The gateway has two worker processes. Three sides run in turns, each in a process of its own: the
gateway in the driver's process, calls over a few streams, and one request a call. In process at
most 10,000 episodes are in flight: with more, the trace is written too slowly, and the gateway
refuses calls. One request a call takes so long that it makes fewer episodes.
"""

from functools import partial

from bench.speed.episodes import scripted
from bench.speed.harness import Figures, Harness, in_process, log

WORKERS = 2
ROUNDS = {10_000: 5, 100_000: 1}
"""By the number of episodes, which over streams are all in flight at once."""
IN_PROCESS_AT_ONCE, BY_REQUEST = 10_000, 5_000


async def measure(harness: Harness) -> Figures:
    """Episodes a second, loop lag, memory and sockets of the driver by side, and the ratios."""
    url = await harness.gateway("--workers", str(WORKERS), upstream="simulated")
    at_once, some = harness.number(IN_PROCESS_AT_ONCE), harness.number(BY_REQUEST)
    figures: Figures = {}
    for episodes, rounds in ROUNDS.items():
        log.info("%d episodes", episodes)
        whole = harness.number(episodes)
        sides = {
            "inprocess": partial(in_process, scripted, whole, at_once),
            "streams": partial(in_process, scripted, whole, whole, url=url),
            "requests": partial(in_process, scripted, some, some, url=url, streams=False),
        }
        turns = await harness.in_turns(rounds, sides)
        found = turns.medians()
        for other in ("inprocess", "requests"):
            found[f"streams_to_{other}"] = turns.ratio("episodes_per_s", "streams", other)
        figures |= {f"at_once_{episodes}_{name}": value for name, value in found.items()}
    return figures

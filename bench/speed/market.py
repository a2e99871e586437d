"""Speed of a recorded market: thousands of sessions at once over HTTP, and whole episodes.

The market is made by a seeded script, with news for each day. Every session trades a pattern of its
own; what it observes is compared with what a session of that pattern observes alone. The episodes
are those of the agent `momentum` through the driver, with an embedded gateway.
"""

import asyncio
import random
import re
import time
from datetime import date, timedelta
from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import Any

import orjson

from bench.agents.registry import AgentSettings
from bench.runs.driver import Limits
from bench.runs.run import RunPlan, run
from bench.speed.harness import Figures, Harness, MeasurementError, asked, log
from bench.suites import load_suite
from gateway import GatewaySettings

SESSIONS, DAYS = 5_000, 10
CONNECTIONS = 64
EPISODES = 1_000
MARKET_DAYS = 150
NEWS_A_DAY, NEWS_CHARS = 8, 600

_FIRST = date(2024, 1, 1)
_PATTERNS = list(product(("buy", "sell", "hold"), repeat=3))


async def measure(harness: Harness) -> Figures:
    """Days a second over HTTP, bytes of memory a session, and seconds for whole episodes."""
    folder = harness.folder / "market"
    folder.mkdir()
    for symbol in ("aaa", "bbb", "ccc"):
        (folder / f"{symbol}.json").write_bytes(_prices(symbol))
    return await _over_http(harness, folder) | await _episodes(harness, folder)


async def _over_http(harness: Harness, market: Path) -> Figures:
    sessions, client = harness.number(SESSIONS), await harness.client(CONNECTIONS)
    url = await harness.gateway(upstream="simulated", market=market)

    async def call(operation: str, **arguments: str) -> Any:
        tool = f"{url}/v1/tools/market_{operation}"
        answer = await asked(client, tool, orjson.dumps(arguments))
        if not answer["ok"]:
            raise MeasurementError(f"market_{operation}: {answer['error']['message']}")
        return answer["data"]

    async def opened() -> str:
        dates = {"test_from": _FIRST.isoformat(), "test_to": "2024-12-31"}
        return str((await call("open", symbols="AAA", **dates))["session"])

    async def play(session: str, number: int) -> bytes:
        """Trade a pattern of actions; returns a hash of all that was observed."""
        seen, pattern = blake2b(digest_size=16), _PATTERNS[number % len(_PATTERNS)]
        for day in range(DAYS):
            observed = await call("observe", session=session)
            seen.update(orjson.dumps(observed))
            action = pattern[day % len(pattern)]
            await call("trade", session=session, date=observed["date"], action=action)
        return seen.digest()

    async def rss_bytes() -> float:
        async with client.get(f"{url}/metrics") as response:
            found = re.search(r"^finport_resident_bytes\S* (\S+)$", await response.text(), re.M)
        if found is None:
            raise MeasurementError("/metrics does not say how much memory the gateway has")
        return float(found[1])

    log.info("each pattern of trades alone")
    alone = [await play(await opened(), number) for number in range(len(_PATTERNS))]
    before = await rss_bytes()
    log.info("opening %d sessions", sessions)
    started = time.perf_counter()
    ids = await asyncio.gather(*(opened() for _ in range(sessions)))
    opened_s, after = time.perf_counter() - started, await rss_bytes()
    log.info("%d sessions, %d days each", sessions, DAYS)
    started = time.perf_counter()
    seen = await asyncio.gather(*map(play, ids, range(sessions)))
    took_s = time.perf_counter() - started
    different = sum(found != alone[number % len(alone)] for number, found in enumerate(seen))
    if different:
        raise MeasurementError(f"{different} sessions observed something else than alone")
    return {
        "sessions": sessions,
        "opened_per_s": sessions / opened_s,
        "bytes_a_session": (after - before) / sessions,
        f"bytes_a_session_after_{DAYS}_days": (await rss_bytes() - before) / sessions,
        "days_per_s": sessions * DAYS / took_s,
        "calls_per_s": 2 * sessions * DAYS / took_s,
    }


async def _episodes(harness: Harness, market: Path) -> Figures:
    episodes, suite = harness.number(EPISODES), load_suite("investorbench", market)
    single = type(suite)(suite.name, [task for task in suite.tasks if "+" not in task.id])
    single.dataset = suite.dataset
    plan = RunPlan(
        suite=single,
        gateway="embedded",
        episodes=episodes,
        concurrency=100,
        agent=AgentSettings.of("momentum"),
        limits=Limits(rounds=5_000, calls=10_000, wall_s=3_600),
    )
    settings = GatewaySettings(upstream="simulated", cache_dir=harness.folder / "cache")
    log.info("%d episodes of %d days", episodes, MARKET_DAYS)
    about = await run(plan, harness.folder / "run", settings, show=False)
    return {
        "episodes": episodes,
        "days_an_episode": MARKET_DAYS,
        "episodes_took_s": about.took_s,
        "episode_days_per_s": episodes * MARKET_DAYS / about.took_s,
    }


def _prices(symbol: str) -> bytes:
    luck, price, days = random.Random(symbol), 100.0, {}  # noqa: S311 - test data
    for number in range(MARKET_DAYS):
        price *= 1 + luck.gauss(0, 0.01)
        news = ["".join(luck.choices("abcdef ", k=NEWS_CHARS)) for _ in range(NEWS_A_DAY)]
        day = (_FIRST + timedelta(number)).isoformat()
        days[day] = {"prices": round(price, 2), "news": news, "10q": None, "10k": None}
    return orjson.dumps(days)

"""Speed of a recorded market: thousands of sessions at once over HTTP, and whole episodes.

The market is made by a seeded script, with news for each day. Every session trades a pattern of its
own; what it observes is compared with what a session of that pattern observes alone. The episodes
are those of the agent `momentum` through the driver, with an embedded gateway.
"""

import asyncio
import json
import random
import time
from datetime import date, timedelta
from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import Any

import aiohttp
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


async def measure(
    harness: Harness, sessions: int = SESSIONS, days: int = DAYS, episodes: int = EPISODES
) -> Figures:
    """Days a second over HTTP, bytes of memory a session, and seconds for whole episodes."""
    folder = harness.folder / "market"
    folder.mkdir()
    for symbol in ("aaa", "bbb", "ccc"):
        (folder / f"{symbol}.json").write_text(_prices(symbol))
    over_http = await _over_http(harness, folder, sessions, days)
    return over_http | await _episodes(harness, folder, episodes)


async def _over_http(harness: Harness, market: Path, sessions: int, days: int) -> Figures:
    client = await harness.client(CONNECTIONS)
    gateway = _Market(client, await harness.gateway(upstream="simulated", market=market))
    log.info("each pattern of trades alone")
    alone = [await gateway.play(await gateway.opened(), p, days) for p in _PATTERNS]
    before = await gateway.rss_bytes()
    log.info("opening %d sessions", sessions)
    started = time.perf_counter()
    ids = await asyncio.gather(*(gateway.opened() for _ in range(sessions)))
    opened_s = time.perf_counter() - started
    after = await gateway.rss_bytes()
    log.info("%d sessions, %d days each", sessions, days)
    started = time.perf_counter()
    patterns = [_PATTERNS[number % len(_PATTERNS)] for number in range(sessions)]
    seen = await asyncio.gather(*map(gateway.play, ids, patterns, [days] * sessions))
    took_s = time.perf_counter() - started
    different = sum(found != alone[n % len(alone)] for n, found in enumerate(seen))
    if different:
        raise MeasurementError(f"{different} sessions observed something else than alone")
    return {
        "sessions": sessions,
        "opened_per_s": sessions / opened_s,
        "bytes_a_session": (after - before) / sessions,
        f"bytes_a_session_after_{days}_days": (await gateway.rss_bytes() - before) / sessions,
        "days_per_s": sessions * days / took_s,
        "calls_per_s": 2 * sessions * days / took_s,
    }


class _Market:
    """A gateway with a recorded market."""

    def __init__(self, client: aiohttp.ClientSession, url: str) -> None:
        self._client = client
        self._url = url

    async def opened(self) -> str:
        """A new session."""
        dates = {"test_from": _FIRST.isoformat(), "test_to": "2024-12-31"}
        return str((await self._call("open", symbols="AAA", **dates))["session"])

    async def play(self, session: str, pattern: tuple[str, ...], days: int) -> str:
        """Trade the actions of a pattern in turn; returns a hash of all that was observed."""
        seen = blake2b(digest_size=16)
        for number in range(days):
            day = await self._call("observe", session=session)
            seen.update(orjson.dumps(day))
            action = pattern[number % len(pattern)]
            await self._call("trade", session=session, date=day["date"], action=action)
        return seen.hexdigest()

    async def rss_bytes(self) -> float:
        """The gateway's memory."""
        async with self._client.get(f"{self._url}/metrics") as response:
            for line in (await response.text()).splitlines():
                if line.startswith("finport_resident_bytes"):
                    return float(line.split()[-1])
        raise MeasurementError("/metrics does not say how much memory the gateway has")

    async def _call(self, operation: str, **arguments: str) -> Any:
        url = f"{self._url}/v1/tools/market_{operation}"
        answer = await asked(self._client, url, orjson.dumps(arguments))
        if not answer["ok"]:
            raise MeasurementError(f"market_{operation}: {answer['error']['message']}")
        return answer["data"]


async def _episodes(harness: Harness, market: Path, episodes: int) -> Figures:
    suite = load_suite("investorbench", market)
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


def _prices(symbol: str) -> str:
    luck, price, days = random.Random(symbol), 100.0, {}  # noqa: S311 - test data
    for number in range(MARKET_DAYS):
        price *= 1 + luck.gauss(0, 0.01)
        news = ["".join(luck.choices("abcdef ", k=NEWS_CHARS)) for _ in range(NEWS_A_DAY)]
        day = (_FIRST + timedelta(number)).isoformat()
        days[day] = {"prices": round(price, 2), "news": news, "10q": None, "10k": None}
    return json.dumps(days)

"""Speed of a recorded market: thousands of sessions at once over HTTP, and whole episodes.

The market is made by a seeded script, with news for each day. Every session trades a pattern of its
own; what it observes is compared with what a session of that pattern observes alone. The episodes
are those of the agent `momentum` through the driver, with an embedded gateway.
"""

import asyncio
import json
import logging
import random
import sys
import tempfile
import time
from contextlib import AsyncExitStack
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
from bench.speed.measurement import MeasurementError
from bench.speed.servers import server
from bench.suites import load_suite
from gateway import GatewaySettings

log = logging.getLogger("finbench.speed")

SESSIONS, DAYS = 5_000, 10
CONNECTIONS = 64
EPISODES = 1_000
MARKET_DAYS = 150
NEWS_A_DAY, NEWS_CHARS = 8, 600

_FIRST = date(2024, 1, 1)
_ACTIONS = ("buy", "sell", "hold")
_PATTERNS = list(product(_ACTIONS, repeat=3))

Figures = dict[str, float | str]


async def market(sessions: int = SESSIONS, days: int = DAYS, episodes: int = EPISODES) -> Figures:
    """Days a second over HTTP, bytes of memory a session, and seconds for whole episodes."""
    with tempfile.TemporaryDirectory(prefix="finport-speed-") as name:
        folder = Path(name)
        (folder / "market").mkdir()
        for symbol in ("aaa", "bbb", "ccc"):
            (folder / "market" / f"{symbol}.json").write_text(_prices(symbol))
        figures = await _over_http(folder, sessions, days)
        return figures | await _episodes(folder, episodes)


async def _over_http(folder: Path, sessions: int, days: int) -> Figures:
    command = (sys.executable, "-P", "-m", "gateway.cli.main", "serve", "--port", "0")
    variables = {
        "FINPORT_UPSTREAM": "simulated",
        "FINPORT_CACHE_DIR": str(folder / "cache"),
        "FINPORT_CLIENTS_FILE": str(folder / "clients.json"),
        "FINPORT_MARKET": str(folder / "market"),
    }
    async with AsyncExitStack() as parts:
        gateway = server(folder, *command, "--until-stdin-closes", **variables)
        url = await parts.enter_async_context(gateway)
        connector = aiohttp.TCPConnector(limit=CONNECTIONS)
        http = await parts.enter_async_context(aiohttp.ClientSession(connector=connector))
        player = _Player(http, url)
        log.info("each pattern of trades alone")
        alone = [await player.play(await player.opened(), p, days) for p in _PATTERNS]
        before = await _rss_bytes(http, url)
        log.info("opening %d sessions", sessions)
        started = time.perf_counter()
        ids = await asyncio.gather(*(player.opened() for _ in range(sessions)))
        opened_s = time.perf_counter() - started
        after = await _rss_bytes(http, url)
        log.info("%d sessions, %d days each", sessions, days)
        started = time.perf_counter()
        seen = await asyncio.gather(
            *(
                player.play(session, _PATTERNS[number % len(_PATTERNS)], days)
                for number, session in enumerate(ids)
            )
        )
        took_s = time.perf_counter() - started
        grown = await _rss_bytes(http, url)
    different = sum(found != alone[n % len(alone)] for n, found in enumerate(seen))
    if different:
        raise MeasurementError(f"{different} sessions observed something else than alone")
    return {
        "sessions": sessions,
        "opened_per_s": sessions / opened_s,
        "bytes_a_session": (after - before) / sessions,
        f"bytes_a_session_after_{days}_days": (grown - before) / sessions,
        "days_per_s": sessions * days / took_s,
        "calls_per_s": 2 * sessions * days / took_s,
        "different_observations": different,
    }


class _Player:
    """Plays sessions over HTTP."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self._http = http
        self._url = url

    async def opened(self) -> str:
        dates = {"test_from": _FIRST.isoformat(), "test_to": "2024-12-31"}
        found: str = (await self._call("open", symbols="AAA", **dates))["session"]
        return found

    async def play(self, session: str, pattern: tuple[str, ...], days: int) -> str:
        """Trade the actions of a pattern in turn; returns a hash of all that was observed."""
        seen = blake2b(digest_size=16)
        for number in range(days):
            day = await self._call("observe", session=session)
            seen.update(orjson.dumps(day))
            action = pattern[number % len(pattern)]
            await self._call("trade", session=session, date=day["date"], action=action)
        return seen.hexdigest()

    async def _call(self, operation: str, **arguments: Any) -> Any:
        url = f"{self._url}/v1/tools/market_{operation}"
        async with self._http.post(url, data=orjson.dumps(arguments)) as response:
            answer = orjson.loads(await response.read())
        if not answer["ok"]:
            raise MeasurementError(f"market_{operation}: {answer['error']['message']}")
        return answer["data"]


async def _rss_bytes(http: aiohttp.ClientSession, url: str) -> float:
    async with http.get(f"{url}/metrics") as response:
        text = await response.text()
    for line in text.splitlines():
        if line.startswith("finport_resident_bytes"):
            return float(line.split()[-1])
    raise MeasurementError("/metrics does not say how much memory the gateway has")


async def _episodes(folder: Path, episodes: int) -> Figures:
    suite = load_suite("investorbench", folder / "market")
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
    settings = GatewaySettings(upstream="simulated", cache_dir=folder / "cache")
    log.info("%d episodes of %d days", episodes, MARKET_DAYS)
    about = await run(plan, folder / "run", settings, show=False)
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

"""Speed of whole episodes in a recorded market: the agent `momentum` through the driver.

The market is made by a seeded script, with news for each day. The gateway is embedded.
"""

import random
from datetime import date, timedelta

import orjson

from bench.agents.registry import AgentSettings
from bench.runs.driver import Limits
from bench.runs.run import RunPlan, run
from bench.speed.harness import Figures, Harness, log
from bench.suites import load_suite
from gateway import GatewaySettings

EPISODES = 1_000
DAYS = 150
NEWS_A_DAY, NEWS_CHARS = 8, 600

_FIRST = date(2024, 1, 1)


async def measure(harness: Harness) -> Figures:
    """Seconds for all episodes, and their days a second."""
    market = harness.folder / "market"
    market.mkdir()
    for symbol in ("aaa", "bbb", "ccc"):
        (market / f"{symbol}.json").write_bytes(_prices(symbol))
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
    log.info("%d episodes of %d days", episodes, DAYS)
    about = await run(plan, harness.folder / "run", settings, show=False)
    return {
        "took_s": about.took_s,
        "days_per_s": episodes * DAYS / about.took_s,
    }


def _prices(symbol: str) -> bytes:
    luck, price, days = random.Random(symbol), 100.0, {}  # noqa: S311 - test data
    for number in range(DAYS):
        price *= 1 + luck.gauss(0, 0.01)
        news = ["".join(luck.choices("abcdef ", k=NEWS_CHARS)) for _ in range(NEWS_A_DAY)]
        day = (_FIRST + timedelta(number)).isoformat()
        days[day] = {"prices": round(price, 2), "news": news, "10q": None, "10k": None}
    return orjson.dumps(days)

"""Small markets in files of InvestorBench's form, and gateways that have their tools."""

import json
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from gateway import Gateway, GatewaySettings
from gateway.context import CallContext
from gateway.result import Result
from gateway.trace import Trace
from manifests import Catalog

FIRST = date(2024, 1, 1)
DAYS = 12
DATES = {"warm_up_from": "2024-01-01", "test_from": "2024-01-04", "test_to": "2024-01-31"}
"""The dates of a session that has all days."""


def day(number: int) -> str:
    """The day of that number, from 0; every day is a trading day."""
    return (FIRST + timedelta(number)).isoformat()


def write_market(
    folder: Path,
    symbols: tuple[str, ...] = ("AAA", "BBB"),
    seed: int = 0,
    same_until: int = 0,
    first: date = FIRST,
) -> Path:
    """Markets of `DAYS` days from `first` on. Those of two seeds are equal on the first
    `same_until` days.
    """
    folder.mkdir(exist_ok=True)
    for symbol in symbols:
        days = {}
        for number in range(DAYS):
            luck = random.Random(f"{symbol} {0 if number < same_until else seed} {number}")
            words = [
                f"{symbol} news {number} {luck.randrange(10**9)}" for _ in range(luck.randrange(3))
            ]
            days[(first + timedelta(number)).isoformat()] = {
                "prices": round(50 + 50 * luck.random(), 2),
                "news": words,
                "10q": [f"quarter {luck.randrange(10**9)}"] if number % 4 == 2 else None,
                "10k": [f"year {luck.randrange(10**9)}"] if number % 6 == 1 else None,
            }
        (folder / f"{symbol.lower()}.json").write_text(json.dumps(days))
    return folder


@asynccontextmanager
async def market_gateway(
    folder: Path, cache: Path, trace: Trace | None = None, **settings: Any
) -> AsyncIterator[Gateway]:
    """A gateway with the tools of the market in `folder` and no others."""
    chosen = GatewaySettings(market=folder, cache_dir=cache, upstream="simulated", **settings)
    async with Gateway.open(chosen, catalog=Catalog.market(), trace=trace) as gateway:
        yield gateway


async def act(gateway: Gateway, operation: str, client: str = "", **arguments: object) -> Result:
    return await gateway.call(f"market_{operation}", arguments, CallContext(client=client))


async def opened(gateway: Gateway, symbols: str = "AAA", **dates: object) -> str:
    """The id of a new session."""
    result = await act(gateway, "open", symbols=symbols, **(dates or DATES))
    assert result.ok, result.error
    found: str = result.value["session"]
    return found


def interrupted(run: Path, calls: int) -> None:
    """Make a run's files what a kill would have left after so many calls of each episode."""
    kept, seen = [], Counter[str]()
    for line in (run / "calls.jsonl").read_text().splitlines():
        episode = json.loads(line)["episode"]
        seen[episode] += 1
        if seen[episode] <= calls:
            kept.append(line)
    (run / "calls.jsonl").write_text("".join(f"{line}\n" for line in kept))
    (run / "episodes.jsonl").write_text("")
    (run / "metrics.json").unlink()


def timeless(run: Path) -> dict[str, Any]:
    """The episodes of a run by name, without times and what is made of them."""

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(one) for one in value]
        if not isinstance(value, dict):
            return value
        times = ("at", "started_at", "elapsed_ms", "call_id")
        return {name: plain(of) for name, of in value.items() if name not in times}

    lines = (run / "episodes.jsonl").read_text().splitlines()
    return {episode["episode"]: plain(episode) for episode in map(json.loads, lines)}

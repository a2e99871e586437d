"""Speed of shortening answers to a budget: one table, a long table beside the event loop, HTTP.

A table of 1,000 x 11 is shortened to 500 tokens beside parsing the same table with orjson, which is
a part of it. A table of 50,000 rows is shortened by a gateway's `Shortener`, while the lag of the
event loop is sampled. A cached call over REST is measured with and without a budget, in turns; the
shortened answer is known already.
"""

import logging
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

import orjson

from bench.speed.doors import ARGUMENTS, ROUND_S, ROUNDS, TOOL, load_generator, whole_answer
from bench.speed.servers import served_gateway
from cache import Entry
from gateway.compress.answer import compress
from gateway.compress.budget import Budget
from gateway.compress.shortener import Shortener
from gateway.telemetry.vitals import Vitals
from manifests import Catalog

log = logging.getLogger("finbench.speed")

ROWS, LONG_ROWS = 1_000, 50_000
LONG_TABLES = 20
BUDGET = Budget(500)
QUESTIONS = ("", "1901-05-03的收盘价是多少", "What is the highest close of 1902?")
TRIES = 50

Figures = dict[str, float | str]


async def compression(seconds: float = ROUND_S, rounds: int = ROUNDS) -> Figures:
    """Milliseconds of processor time, of lag, and calls a second."""
    table = price_table(ROWS, 0)
    log.info("a table of %d rows", ROWS)
    took = [median_ms(partial(compress, table, BUDGET, question)) for question in QUESTIONS]
    parsed = median_ms(partial(orjson.loads, table.data))
    figures: Figures = {
        "rows": ROWS,
        "columns": len(table.columns or ()),
        "table_bytes": len(table.data),
        "without_question_ms": took[0],
        "date_ms": took[1],
        "highest_ms": took[2],
        "parsed_ms": parsed,
        "ratio": parsed / statistics.median(took),
    }
    log.info("tables of %d rows, beside the event loop", LONG_ROWS)
    figures |= await _beside_the_loop()
    return figures | await _over_http(seconds, rounds)


async def _beside_the_loop() -> Figures:
    """How long a long table takes, and how late the event loop is meanwhile."""
    tables = [price_table(LONG_ROWS, seed) for seed in range(LONG_TABLES)]
    shortener, manifest = Shortener(), next(iter(Catalog.load()))
    took = []
    await shortener.make(price_table(ROWS, 0), manifest, BUDGET, "")  # loads the vocabulary, 0.2 s
    async with Vitals.watch() as vitals:
        for number, table in enumerate(tables):
            started = time.perf_counter()
            await shortener.make(table, manifest, BUDGET, QUESTIONS[number % len(QUESTIONS)])
            took.append((time.perf_counter() - started) * 1e3)
    await shortener.aclose()
    return {
        "long_rows": LONG_ROWS,
        "long_ms": statistics.median(took),
        "long_loop_lag_p99_ms": vitals.lag_ms.at(0.99) or 0.0,
    }


async def _over_http(seconds: float, rounds: int) -> Figures:
    query = urlencode({"max_tokens": BUDGET.limit, "question": QUESTIONS[1]})
    path, body = f"/v1/tools/{TOOL}", orjson.dumps(ARGUMENTS)
    async with AsyncExitStack() as parts:
        folder = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="finport-speed-")))
        gateway = served_gateway(folder, latency_s=0, failure_rate=0)
        url = await parts.enter_async_context(gateway) + path
        targets = {"whole": url, "shortened": f"{url}?{query}"}
        sizes = {name: len(await whole_answer(at, body)) for name, at in targets.items()}
        load, client = load_generator(folder)
        rates: dict[str, list[float]] = {name: [] for name in targets}
        for number in range(1, rounds + 1):
            log.info("over HTTP, round %d of %d", number, rounds)
            for name, target in targets.items():
                rates[name].append(await load(target, body, seconds))
    ratios = [a / b for a, b in zip(rates["shortened"], rates["whole"], strict=True)]
    return {
        "client": client,
        **{f"{name}_answer_bytes": size for name, size in sizes.items()},
        **{f"{name}_calls_per_s": statistics.median(found) for name, found in rates.items()},
        "http_ratio": statistics.median(ratios),
        "http_ratio_min": min(ratios),
        "http_ratio_max": max(ratios),
    }


def median_ms(work: Callable[[], object]) -> float:
    """Processor time of one run, once everything is loaded."""
    work()
    took = []
    for _ in range(TRIES):
        started = time.process_time()
        work()
        took.append((time.process_time() - started) * 1e3)
    return statistics.median(took)


def price_table(rows: int, seed: int) -> Entry:
    """Daily prices, as `stock_zh_a_hist` gives them."""
    luck, price, records = random.Random(seed), 10.0, []  # noqa: S311 - test data
    for number in range(rows):
        price *= 1 + luck.gauss(0, 0.01)
        records.append(
            {
                "日期": (date(1900, 1, 1) + timedelta(number)).isoformat(),
                "开盘": round(price, 2),
                "收盘": round(price * 1.01, 2),
                "最高": round(price * 1.02, 2),
                "最低": round(price * 0.98, 2),
                "成交量": luck.randrange(10**6),
                "成交额": round(luck.random() * 1e9, 1),
                "振幅": round(luck.random() * 5, 2),
                "涨跌幅": round(luck.gauss(0, 2), 2),
                "涨跌额": round(luck.gauss(0, 0.2), 2),
                "换手率": round(luck.random(), 2),
            }
        )
    data = b"[" + b",\n".join(map(orjson.dumps, records)) + b"]"
    return Entry(data, tuple(records[0]), rows, 0.0, 0.0, "simulated")

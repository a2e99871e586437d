"""Speed of shortening answers to a budget: one table, and over HTTP.

A table of 1,000 x 11 is shortened to 500 tokens beside parsing the same table with orjson, which is
a part of it. A cached call over REST is measured with and without a budget, in turns; the
shortened answer is known already.
"""

import random
import statistics
from datetime import date, timedelta
from functools import partial
from urllib.parse import urlencode

import orjson

from bench.speed.doors import BODY, CLIENT, TOOL, load, whole_answer
from bench.speed.harness import Figures, Harness, cpu_ms, log
from bench.speed.load import ROUNDS
from cache import Entry
from gateway.compress.answer import compress
from gateway.compress.budget import Budget

ROWS = 1_000
BUDGET = Budget(500)
QUESTIONS = {
    "without_question_ms": "",
    "date_ms": "1901-05-03的收盘价是多少",
    "highest_ms": "What is the highest close of 1902?",
}
TRIES = 50


async def measure(harness: Harness) -> Figures:
    """Milliseconds of processor time, of lag, and calls a second."""
    table, tries = price_table(ROWS, 0), harness.number(TRIES)
    log.info("a table of %d rows", ROWS)
    took = {
        name: cpu_ms(partial(compress, table, BUDGET, question), tries)
        for name, question in QUESTIONS.items()
    }
    parsed = cpu_ms(partial(orjson.loads, table.data), tries)
    figures = {
        "rows": ROWS,
        "columns": len(table.columns or ()),
        "table_bytes": len(table.data),
        **took,
        "parsed_ms": parsed,
        "ratio": parsed / statistics.median(took.values()),
    }
    return figures | await _over_http(harness)


async def _over_http(harness: Harness) -> Figures:
    gateway = await harness.gateway(upstream="simulated")
    question = {"max_tokens": BUDGET.limit, "question": QUESTIONS["date_ms"]}
    url = f"{gateway}/v1/tools/{TOOL}"
    targets = {"whole": url, "shortened": f"{url}?{urlencode(question)}"}
    client = await harness.client()
    sizes = {
        f"{name}_answer_bytes": len(await whole_answer(client, at, BODY))
        for name, at in targets.items()
    }
    sides = {name: partial(load, harness, at, BODY) for name, at in targets.items()}
    turns = await harness.in_turns(ROUNDS, sides)
    ratios = turns.spread("http_ratio", "calls_per_s", "shortened", "whole")
    return {"client": CLIENT} | sizes | turns.medians() | ratios


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

"""Speed of shortening an answer to a budget.

A table of 1,000 x 11 is shortened to 500 tokens, beside parsing the same table with orjson, which
is a part of it.
"""

import random
import statistics
from datetime import date, timedelta
from functools import partial

import orjson

from bench.speed.harness import Figures, Harness, cpu_ms, log
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
    """Milliseconds of processor time."""
    table, tries = _price_table(), harness.number(TRIES)
    log.info("a table of %d rows", ROWS)
    took = {
        name: cpu_ms(partial(compress, table, BUDGET, question), tries)
        for name, question in QUESTIONS.items()
    }
    parsed = cpu_ms(partial(orjson.loads, table.data), tries)
    return {
        "rows": ROWS,
        "columns": len(table.columns or ()),
        "table_bytes": len(table.data),
        **took,
        "parsed_ms": parsed,
        "ratio": parsed / statistics.median(took.values()),
    }


def _price_table() -> Entry:
    """Daily prices, as `stock_zh_a_hist` gives them."""
    luck, price, records = random.Random(0), 10.0, []  # noqa: S311 - test data
    for number in range(ROWS):
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
    return Entry(data, tuple(records[0]), ROWS, 0.0, 0.0, "simulated")

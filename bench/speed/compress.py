"""Speed of shortening an answer to a budget.

A table of 1,000 x 11 is shortened to 500 tokens, beside parsing the same table with orjson, which
is a part of it.
"""

import random
import statistics
import time
import timeit
from collections.abc import Callable
from datetime import date, timedelta
from functools import partial

import orjson

from bench.speed.harness import Figures, Harness
from cache import Entry
from gateway.compress.answer import compress
from gateway.compress.budget import Budget

ROWS = 1_000
COLUMNS = ["开盘", "收盘", "最高", "最低", "成交量", "成交额", "振幅", "涨跌幅", "涨跌额", "换手率"]
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
    took = {
        name: _cpu_ms(partial(compress, table, BUDGET, question), tries)
        for name, question in QUESTIONS.items()
    }
    parsed = _cpu_ms(partial(orjson.loads, table.data), tries)
    return {
        **took,
        "parsed_ms": parsed,
        "ratio": parsed / statistics.median(took.values()),
    }


def _cpu_ms(work: Callable[[], object], tries: int) -> float:
    """The median of this process's processor time for `work`, once everything is loaded."""
    work()
    took_s = timeit.repeat(work, timer=time.process_time, repeat=tries, number=1)
    return statistics.median(took_s) * 1e3


def _price_table() -> Entry:
    """Daily prices in the columns of `stock_zh_a_hist`."""
    luck, records = random.Random(0), []  # noqa: S311 - test data
    for number in range(ROWS):
        day = (date(1900, 1, 1) + timedelta(number)).isoformat()
        records.append({"日期": day, **{name: round(luck.gauss(10, 2), 2) for name in COLUMNS}})
    data = b"[" + b",\n".join(map(orjson.dumps, records)) + b"]"
    return Entry(data, tuple(records[0]), ROWS, 0.0, 0.0, "simulated")

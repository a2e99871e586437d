"""Plain cuts: each within the budget, made of whole rows of the answer."""

import random
from collections.abc import Mapping

import pytest

from bench.compression.baselines import BASELINES, Plain
from bench.compression.case import Language
from bench.compression.sources import answer
from finport import Budget

SUBJECT: Mapping[Language, tuple[str, ...]] = {"en": ("it",), "zh": ("它",)}
RNG = random.Random(0)
ROWS = [
    {"日期": f"2024-{month:02}-{day:02}", "收盘": RNG.random(), "名称": "a,b", "空": None}
    for month in range(1, 13)
    for day in range(1, 28)
]
WIDE = [{f"column number {number}": number for number in range(100)}] * 3
ANSWERS = {
    "table": answer("t", "t", "table", ROWS, SUBJECT),
    "wide table": answer("w", "w", "table", WIDE, SUBJECT),
    "document": answer("d", "d", "document", {"bars": ROWS}, SUBJECT),
    "text": answer("x", "x", "text", "净值 of the fund rose. " * 500, SUBJECT),
    "short text": answer("s", "s", "text", "Short.", SUBJECT),
}


@pytest.mark.parametrize("method", BASELINES)
@pytest.mark.parametrize("limit", [50, 200, 4_000])
@pytest.mark.parametrize("name", ANSWERS)
def test_every_baseline_is_within_the_budget(method: str, name: str, limit: int) -> None:
    budget, plain = Budget(limit), Plain(ANSWERS[name])
    text = BASELINES[method](plain, budget)
    assert text
    assert budget.fits(text)


def test_rows_are_whole_from_both_ends_and_the_budget_is_used() -> None:
    plain, budget = Plain(ANSWERS["table"]), Budget(500)
    lines = BASELINES["head and tail"](plain, budget).split("\n")
    assert plain.rows is not None
    assert set(lines) <= set(plain.rows)
    assert lines[0] == "日期,收盘,名称,空"
    assert lines[1].startswith("2024-01-01,")
    assert lines[-1].startswith("2024-12-27,")
    assert budget.tokens("\n".join(lines)) > 440


@pytest.mark.parametrize("method", BASELINES)
def test_what_fits_is_not_cut(method: str) -> None:
    text = BASELINES[method](Plain(ANSWERS["short text"]), Budget(200))
    assert text.strip('"') == "Short."

"""Numbers and formulas are compared as they are written, in bounded time and memory."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.suites.finova.mathematics import LONGEST, are_equal_formulas, equal_at_once
from bench.suites.finova.worker import Mathematics
from bench.suites.suite import SuiteError

numbers = st.decimals(-(10**9), 10**9, places=4).map(str) | st.sampled_from(
    ["5%", "0.05", "1.2万", "1,200", "1/3", "1e3", "12元", "3亿", "-7\\%", "¥8", "百分之9", "69,07"]
)


@given(numbers, numbers)
def test_plain_numbers_are_compared_alike_in_both_directions(one: str, other: str) -> None:
    assert equal_at_once(one, other) is equal_at_once(other, one) is not None
    assert equal_at_once(one, one) is True


SAME = [
    ("12345", "12346"),  # 1e-4 of the number
    ("5%", "5"),
    ("5%", "0.05"),
    ("1.2万元", "1.2"),
    ("1.2万元", "12,000"),
    ("120万元", "1.2百万"),
    ("¥1,200.50", "1200.5元"),
    ("$\\frac{1}{4}$", "0.25"),
    ("2\\frac{1}{4}", "2.25"),
    ("2 1/4", "2.25"),
    ("1.5\\times 10^{-3}", "0.0015"),
    ("NPV = -1,200", "−1200"),
    ("１２．５％", "12.5"),
    ("30bp", "0.003"),
    ("12 元/股", "12"),
    ("\\left(1+1\\right)", "\\left(1+1\\right)"),
]
DIFFERENT = [
    ("12345", "12348"),
    ("5", "0.05"),
    ("500", "5"),
    ("5%", "500"),
    ("5%", "0.05%"),
    ("1.2万", "1.2亿"),
    ("760", "-760"),
    ("1", "高"),
    ("", "1"),
    ("", ""),
    ("1/0", "高"),
    ("1", "9^9^9^9"),
    ("1", "9^{9^{9}}"),
    ("1", "((9^{999})^{999})^{999}"),
    ("1", "100000!"),
    ("1", "1" * 10_000),
    ("1", "(" * LONGEST + "1" + ")" * LONGEST),
    ("1", "{" * LONGEST),
    ("1", "__import__('os').system('true') 或"),
]


@pytest.mark.parametrize("equal", [True, False])
def test_numbers_are_equal_or_not_without_any_formula(equal: bool) -> None:
    for one, other in SAME if equal else DIFFERENT:
        found = equal_at_once(one, other), equal_at_once(other, one)
        assert found == (equal, equal), (one, other)


@pytest.mark.parametrize(
    ("gold", "given", "equal"),
    [
        ("1.41421", "\\sqrt{2}", True),
        ("1.41421", "√2", True),
        ("1.41", "\\sqrt{2}", False),
        ("1157.625", "1000(1+5\\%)^3", True),
        ("1157.625", "1000(1+0.05)^3", True),
        ("0.5", "\\frac{\\sqrt{1}}{2}\\%", True),
        ("0.005", "\\frac{\\sqrt{1}}{2}\\%", True),
        ("50", "\\frac{\\sqrt{1}}{2}\\%", False),
        ("x+1", "1+x", True),
        ("x+1", "x-1", False),
        ("1", "\\frac{", False),
        ("1", "__import__(1)", False),
        ("\\infty", "1", False),
    ],
)
def test_formulas_are_compared_by_value_or_as_expressions(
    gold: str, given: str, equal: bool
) -> None:
    assert are_equal_formulas(gold, given) is equal


@pytest.mark.anyio
async def test_a_formula_that_takes_too_long_is_unequal() -> None:
    endless = "9^{99*99*99*99*99}"
    async with Mathematics.open(seconds=1.0) as mathematics:
        assert await mathematics.holds((("1.41421", "\\sqrt{2}"),))
        assert not await mathematics.holds((("1", endless),))
        began = time.monotonic()
        assert not await mathematics.holds((("1", endless),))
        assert time.monotonic() - began < 1.0, "it is remembered"
        assert await mathematics.holds((("2", "\\sqrt{4}"), ("3", "1+2")))
        assert not await mathematics.holds((("3", "1+2"), ("3", "1+3")))


@pytest.mark.anyio
async def test_numbers_need_no_process() -> None:
    async with Mathematics.open() as mathematics:
        assert await mathematics.holds(True)
        assert not await mathematics.holds(False)


@pytest.mark.anyio
async def test_without_math_verify_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.suites.finova.worker.find_spec", lambda _: None)
    with pytest.raises(SuiteError, match=r"finport\[finova\]"):
        async with Mathematics.open():
            pass

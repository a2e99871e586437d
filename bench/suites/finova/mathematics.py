r"""Whether two answers are mathematically equal.

Numbers are read and compared here: signs, thousands separators, percent, fractions, scientific
notation, currencies and units. math-verify decides on anything else, such as `\sqrt{2}`. It takes
seconds to import and has no bounds of its own, so `worker` runs it in a process.

A number may be written with a scale: a percent sign, 万, 亿, "million". If both of two numbers have
one, both count. If only one has, the other may be meant in that scale or without it, since
questions ask for "____万元" or "____%": 5 % is equal to 5 and 0.05, and 1.2万 to 1.2 and 12000.
"""

import logging
import re
from dataclasses import dataclass
from functools import lru_cache
from math import isclose, isfinite, prod
from typing import TYPE_CHECKING, Any, Final

from bench.suites.finova.extraction import plain, without_style

if TYPE_CHECKING:
    from sympy import Basic

RELATIVE = 1e-4
"""How far two equal numbers may be apart, as a share of the larger one: the published tolerance."""

LONGEST = 300
"""Longer answers, in characters, are only compared as texts."""

_SCALES: Final = {
    **dict.fromkeys(("%", "percent", "pct", "个百分点", "百分点"), 1e-2),
    **dict.fromkeys(("bps", "bp", "个基点", "基点"), 1e-4),
    "‰": 1e-3,
    "百": 1e2,
    "千": 1e3,
    "万": 1e4,
    "十万": 1e5,
    "百万": 1e6,
    "千万": 1e7,
    "亿": 1e8,
    "十亿": 1e9,
    "百亿": 1e10,
    "千亿": 1e11,
    "万亿": 1e12,
    "thousand": 1e3,
    "million": 1e6,
    "billion": 1e9,
    "trillion": 1e12,
}
_CURRENCIES = (
    *("人民币", "RMB", "CNY", "USD", "HKD", "EUR", "JPY", "GBP"),
    *("US$", "HK$", "$", "¥", "￥", "€", "£"),
)
_UNITS = (
    *("元人民币", "人民币元", "人民币", "美元", "港元", "港币", "欧元", "日元", "英镑", "元", "块"),
    *("个交易日", "个工作日", "个月", "个季度", "季度", "年", "月", "日", "天", "周", "期", "小时"),
    *("股", "份", "手", "张", "倍", "次", "个", "人", "家", "笔", "点", "吨", "桶", "克", "盎司"),
    *("平方米", "平米", "岁"),
    *("yuan", "dollars", "dollar", "USD", "RMB", "CNY", "HKD", "EUR", "JPY", "GBP"),
    *("years", "year", "months", "month", "weeks", "week", "days", "day", "shares", "share"),
    *("times", "units", "unit"),
)


def _one_of(words: tuple[str, ...]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


_BLANKS = " \u00a0\u2009\u202f"
_DECIMAL = (
    rf"(?:\d{{1,3}}(?:,\d{{3}}|[{_BLANKS}]\d{{3}}(?!\d))+(?:\.\d*)?"
    r"|\d+,\d\d|\d+(?:\.\d*)?|\.\d+)"
)
_SEPARATOR = re.compile(f"[,{_BLANKS}]")
_NUMBER = re.compile(
    rf"""(?:即[约为是]?\s*)? (?P<minus>负)? (?P<hundredths>百分之)?
    (?P<sign>[+-]?) \s* (?:{_one_of(_CURRENCIES)})? \s* (?P<inner>-?)
    (?:(?P<whole>\d+) \s+ (?=\d+\s*/))? (?P<digits>{_DECIMAL})
    (?: \s* (?:e|\*\s*10\s*\^\s*) (?P<exponent>[+-]?\d{{1,3}}) | \s*/\s*(?P<divisor>{_DECIMAL}) )?
    \s* (?P<opened>\()? \s* (?P<scale>{_one_of(tuple(_SCALES))})?
    \s* (?:{_one_of(_UNITS)})? (?: \s*/\s*(?:{_one_of(_UNITS)}) )? (?(opened)\s*\))""",
    re.VERBOSE | re.IGNORECASE,
)
_FRACTION = re.compile(r"(\d+)?\s*\\[dt]?frac\s*\{([\d.]+)\}\s*\{([\d.]+)\}")
_BRACED_POWER = re.compile(r"\^\s*\{\s*([+-]?\d+)\s*\}")
_DELIMITERS = re.compile(
    r"\\(?:left|right|displaystyle|quad|qquad)(?![A-Za-z])|\\[,!;: ()\[\]]|(?<![A-Z])\\?\$"
)
_SPELLED: Final = {
    "{,}": ",",
    "\\%": "%",
    "\\times": "*",
    "×": "*",
    "\\cdot": "*",
    "⋅": "*",
    "÷": "/",
    "\\div": "/",
    "−": "-",
    "–": "-",
    "\\approx": "≈",
    "≒": "≈",
    "~": " ",
    "\\$": "$",
    "\\yen": "¥",
    "\\pi": "\\pi ",
    "π": "\\pi ",
}
_SPELLING = re.compile("|".join(re.escape(word) for word in _SPELLED))
_ROOT = re.compile(r"√\s*(\d+(?:\.\d+)?)")
_ABOUT = re.compile(r"(?:大约|约为|约等于|约|共计|共|为|是|≈)\s*")
_OTHER_COMMA = re.compile(r",(?!\d{3})")
_ENDS = " .。;,、\n"
_TOWER = re.compile(r"\^[^+*/=()^]*+\^|!\s*!|\^.*!|\d{4}\s*\)?\s*!")
_POWER = re.compile(r"\^[\s{(]*+[+-]?(\d++)")
_LARGEST_POWER = 10_000  # of all powers in a formula, multiplied: more takes sympy seconds
_FORMULA = re.compile(r"[ -~≤≥∞]+")


Verdict = bool | tuple[tuple[str, str], ...]
"""Whether an answer is right, or the pairs of formulas, gold and given, each of which is to be
equal.
"""


@dataclass(frozen=True, slots=True)
class _Scaled:
    written: float
    scale: float | None


@lru_cache(65_536)
def equal_at_once(gold: str, given: str) -> bool | None:
    """Whether `given` is the answer `gold`, in microseconds; None where that takes a comparison of
    formulas.
    """
    if max(len(gold), len(given)) > LONGEST:
        return gold.strip() == given.strip()
    one, other = _normal(gold), _normal(given)
    if one and one.casefold() == other.casefold():
        return True
    first, second = _number(one), _number(other)
    if first is not None and second is not None:
        return _same(first, second)
    return None if _is_formula(one) and _is_formula(other) else False


def are_equal_formulas(gold: str, given: str) -> bool:
    """Whether two formulas are equal: as numbers if they have values, else as expressions."""
    if not (_is_formula(_normal(gold)) and _is_formula(_normal(given))):
        return False
    one, other = _parsed(gold), _parsed(given)
    if one is None or other is None:
        return False
    first, second = _value(*one), _value(*other)
    if first is not None and second is not None:
        return _same(first, second)
    from math_verify import verify

    equal: bool = verify([one[0]], [other[0]], timeout_seconds=None)
    return equal


def _same(one: _Scaled, other: _Scaled) -> bool:
    if one.scale is not None and other.scale is not None:
        return isclose(one.written * one.scale, other.written * other.scale, rel_tol=RELATIVE)
    scale = one.scale or other.scale or 1.0
    scaled, bare = (one, other) if one.scale else (other, one)
    return any(
        isclose(written, bare.written, rel_tol=RELATIVE)
        for written in (scaled.written, scaled.written * scale)
    )


def _normal(text: str) -> str:
    """The answer with one spelling for each sign, without what is before its last `=`."""
    text = _SPELLING.sub(lambda m: _SPELLED[m[0]], without_style(plain(text)))
    text = _DELIMITERS.sub("", text).strip(_ENDS)
    text = _ROOT.sub(r"\\sqrt{\1}", _BRACED_POWER.sub(r"^\1", text))
    if "frac" in text:
        text = _FRACTION.sub(lambda m: f"{m[1] + ' ' if m[1] else ''}{m[2]}/{m[3]}", text)
    if not any(sign in text for sign in "<>≤≥≠!"):
        before, equals, after = text.replace("≈", "=").rpartition("=")
        if equals and after.strip() and not _OTHER_COMMA.search(before):
            text = after
    text = text.strip()
    about = _ABOUT.match(text)
    return text[about.end() if about else 0 :].removesuffix("左右").strip()


def _number(text: str) -> _Scaled | None:
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    value = _decimal(match["digits"])
    if match["divisor"]:
        divisor = _decimal(match["divisor"])
        if not divisor:
            return None
        value = float(match["whole"] or 0) + value / divisor
    value *= float(f"1e{match['exponent'] or 0}")
    if not isfinite(value):
        return None
    if match["minus"] or match["sign"] == "-" or match["inner"]:
        value = -value
    scale = 0.01 if match["hundredths"] else _SCALES.get((match["scale"] or "").lower())
    return _Scaled(value, scale)


def _decimal(digits: str) -> float:
    """69,07 has a decimal comma; 1,002,967.29 and 1 002 967.29 have thousands separators."""
    if re.fullmatch(r"\d+,\d\d", digits):
        return float(digits.replace(",", "."))
    return float(_SEPARATOR.sub("", digits))


def _is_formula(text: str) -> bool:
    """Whether math-verify is asked: for what has a figure or a command, and is not too large."""
    return (
        len(text) <= LONGEST
        and _FORMULA.fullmatch(text) is not None
        and re.search(r"\d|\\[a-z]", text) is not None
        and _TOWER.search(text) is None
        and prod(int(power) or 1 for power in _POWER.findall(text)) <= _LARGEST_POWER
    )


def _parsed(text: str) -> "tuple[Basic, float | None] | None":
    """The expression and its scale, which is that of a percent sign; None for no expression."""
    from math_verify import LatexExtractionConfig, parse

    logging.getLogger("math_verify").setLevel(logging.CRITICAL)
    text = _normal(text)
    percent = text.endswith("%")
    found: list[Any] = parse(
        f"${text.rstrip('%')}$", [LatexExtractionConfig()], parsing_timeout=None
    )
    expression = next((item for item in found if not isinstance(item, str)), None)
    return None if expression is None else (expression, 0.01 if percent else None)


def _value(expression: "Basic", scale: float | None) -> _Scaled | None:
    try:
        value = float(expression)
    except (ArithmeticError, AttributeError, MemoryError, RecursionError, TypeError, ValueError):
        return None
    return _Scaled(value, scale) if isfinite(value) else None

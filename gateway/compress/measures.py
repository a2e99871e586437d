"""What a question asks of numbers: the highest and lowest ones, and comparisons."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from gateway.compress.dates import MOST, is_negated
from gateway.compress.numerals import COUNT, number_of


@dataclass(frozen=True, slots=True)
class Comparison:
    """`operator` is one of < <= > >=; `place` is where it stands in the question. If it is
    `of_falls`, sizes of falls are compared, as in `fell more than 5 %`.
    """

    operator: str
    value: float
    place: int
    of_falls: bool


@dataclass(frozen=True, slots=True)
class Extreme:
    """The `count` highest or lowest values of a column, or if it is `of_falls` the biggest or
    smallest falls. It stands from `place` to `end`.
    """

    is_highest: bool
    count: int
    place: int
    end: int
    of_falls: bool


_EXTREMES = re.compile(
    r"(?P<top>\b(?:largest|highest|biggest|(?<!at )most(?! recent)|max(?:imum)?|peak(?:s|ed)?"
    r"|greatest|best)\b|最[高大多强好贵猛深])"
    r"|(?P<low>\b(?:smallest|lowest|(?<!at )least|min(?:imum)?|worst|weakest|cheapest|bottom)\b"
    r"|最[低小少弱差]|最便宜|倒数)"
    r"|\btop\b(?! out)|前(?=\s?[\d一二两三四五六七八九十])"
)
"""Words for the highest and the lowest; the last two only say how many, and alone the highest."""

_NEXT_COUNT = re.compile(rf"\s*[的第]?\s*{COUNT}(?!\d|[.%年月日-])")
_COUNT_BEFORE = re.compile(rf"(?<![\d.]){COUNT}\s*$")
_COUNTED = re.compile(
    rf"(?<![\d.年月-]){COUNT}\s*(?:trading |business |different )?"
    r"(?:days?|rows?|records?|dates?|entries|items?|stocks?|companies|months?|ones"
    r"|个|天|日(?!均|线|期)|[条行只家支名项种期次])"
)
"""A number of rows somewhere in a question, as in `the 5 days with the highest close`."""

_FALL = re.compile(r"\b(?:drop|fall|fell|declin|loss|decreas|slump|plung|worst)|(?<!涨)跌|下[降滑]")
_LEVELS = ("above", "below", "under", "高于", "低于")
"""What follows these is a level that something fell to, and no size of a fall."""

_BEHIND = re.compile(
    r"\s*[及或]?(?:(?P<ge>[以之]上|or (?:more|higher|above|over))"
    r"|(?P<le>[以之]下|or (?:less|lower|below|fewer)))"
)
_COMPARES = re.compile(
    r"(?P<ge>at least|not? less than|>=|≥|不低于|不少于|不小于|至少)"
    r"|(?P<le>at most|not? more than|<=|≤|不高于|不超过|不大于|至多)"
    r"|(?P<gt>above|over|(?:greater|more|higher|larger) than|exceed(?:s|ed|ing)?|>"
    r"|超过|超(?=\s?\d)|[大高多]于|突破)"
    r"|(?P<lt>below|under|(?:less|lower|smaller|fewer) than|<|[低小少]于|不足|不到|跌破)"
)
_NUMBER = re.compile(
    r"\s*(?:of |to |为|了)?[$¥€£]?\s*(?P<number>[+-]?\d[\d,]*(?:\.\d+)?)\s*"
    r"(?P<scale>%|thousand|million|billion|trillion|[mb]n|[kmb]\b|万亿|亿|万)?"
)
_SCALES = {"k": 10**3, "thousand": 10**3, "万": 10**4, "亿": 10**8, "万亿": 10**12} | {
    name: 10**digits
    for digits, names in ((6, "m mn million"), (9, "b bn billion"), (12, "trillion"))
    for name in names.split()
}
_OPERATORS = {"ge": ">=", "le": "<=", "gt": ">", "lt": "<"}
_INVERTED = {"ge": "<", "le": ">", "gt": "<=", "lt": ">="}


def comparisons_of(text: str) -> Iterator[Comparison]:
    """The comparisons of a text without dates; `not above 5` is `<= 5`."""
    pairs = [(found, _NUMBER.match(text, found.end())) for found in _COMPARES.finditer(text)]
    pairs += [
        (found, number)
        for number in _NUMBER.finditer(text)
        if (found := _BEHIND.match(text, number.end())) is not None
    ]
    for found, number in pairs:
        if number is None:
            continue
        place, operator = min(found.start(), number.start("number")), found.lastgroup or ""
        factor = _SCALES.get(number["scale"], 1)
        value = float(Decimal(number["number"].replace(",", "")) * factor)
        of_falls = found[0] not in _LEVELS and _is_fall(text[max(place - 12, 0) : place])
        operators = _INVERTED if is_negated(text, place, number.end()) else _OPERATORS
        yield Comparison(operators[operator], value, place, of_falls)


def extremes_of(text: str) -> Iterator[Extreme]:
    """The extremes of a text without dates. Beside another such word `top 5` and `前五` only say
    how many.
    """
    found = [*_EXTREMES.finditer(text)]
    directed = [match for match in found if match.lastgroup]
    counts = [count for match in found if (count := _count_beside(text, match)) is not None]
    counts += [number_of(match["n"]) for match in _COUNTED.finditer(text)][:1]
    for match in directed or found:
        count = _count_beside(text, match) or next(iter(counts), 1)
        start, end = match.span()
        of_falls = _is_fall(text[max(start - 12, 0) : end + 16])
        is_highest = match["low"] is None or match[0] == "worst"
        yield Extreme(is_highest, min(max(count, 1), MOST), start, end, of_falls)


def _count_beside(text: str, match: re.Match[str]) -> int | None:
    """The number right behind or before a word, as in `top 5` and `the five highest`."""
    found = _NEXT_COUNT.match(text, match.end()) or _COUNT_BEFORE.search(
        text[max(match.start() - 12, 0) : match.start()]
    )
    return number_of(found["n"]) if found else None


def _is_fall(text: str) -> bool:
    return _FALL.search(text) is not None

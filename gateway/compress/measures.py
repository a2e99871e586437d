"""What a question asks of numbers: the highest and lowest ones, and comparisons."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from gateway.compress.negation import is_negated
from gateway.compress.numerals import COUNT, HAN, ORDINAL, WORDS, number_of
from gateway.compress.periods import MOST

Move = Literal["", "rise", "fall"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """`operator` is one of < <= > >=; `place` is where it stands in the question. Of a `fall` the
    size is compared, as in `fell more than 5 %`; if it `is_negated`, as in `did not fall more than
    5 %`, rises are meant as well.
    """

    operator: str
    value: Decimal
    place: int
    move: Move = ""
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class Extreme:
    """The `count` highest or lowest values of a column; of a `fall` the biggest or smallest ones.
    It stands from `place` to `end`.
    """

    is_highest: bool
    count: int
    place: int
    end: int
    move: Move = ""


_TOP = (
    r"largest|highest|biggest|(?<!at )most(?! recent)|maximum|max|peak(?:s|ed)?|greatest|best"
    r"|strongest|sharpest|steepest|deepest|hardest|heaviest|top(?:ped)? out"
)
_LOW = (
    r"bottom(?:ed)?(?: out)?|smallest|lowest|(?<!at )least|minimum|min|worst|weakest|cheapest"
    r"|trough(?:ed)?"
)
_EVER = r"(?:\b(?:all[- ]time|record)|\0[- ]?(?:week|day|month|year))"
EXTREMES = re.compile(
    rf"(?P<top>\b(?:{_TOP})\b|{_EVER}[- ]highs?\b"
    r"|最高|最大|最多|最强|最好|最贵|最狠|最猛|最惨|最深|最厉害|新高|见顶|峰值"
    rf"|第\s?(?P<rank>\d{{1,2}}|{HAN})(?=[高大多强好贵]))"
    rf"|(?P<count>\btop(?=\s?\d|\s{WORDS}|\s(?:gainers|losers|decliners|advancers)\b)"
    r"|排名前|前(?=\s?[\d一二两三四五六七八九十]))"
    rf"|(?P<low>\b(?:{_LOW})\b|{_EVER}[- ]lows?\b"
    r"|最低|最小|最少|最弱|最差|最便宜|倒数|新低|见底"
    rf"|第\s?(?P<rank2>\d{{1,2}}|{HAN})(?=[低小少弱差]))"
)
"""Words for the highest and the lowest."""

_NEXT_COUNT = re.compile(rf"\s*(?:的|第)?\s*{COUNT}(?!\d|[.%年月日-])")
_COUNT_BEFORE = re.compile(rf"(?<![\d.]){COUNT}\s*$")
_ORDINAL_BEFORE = re.compile(rf"\b(?P<rank>{ORDINAL})[- ]$|第(?P<rank2>\d{{1,2}}|{HAN})个?$")
_COUNTED = re.compile(
    rf"(?<![\d.年月-]){COUNT}\s*(?:trading |business |different )?"
    r"(?:days?|rows?|records?|dates?|entries|items?|stocks?|companies|sessions?|results?|symbols?"
    r"|months?|ones|个交易日|天|日(?!均|线|期)|个|条|行|只|家|支|名|项|种|期|次)"
)
"""A number of rows somewhere in a question, as in `the 5 days with the highest close`."""

_FALL = (
    r"drop(?:s|ped|ping)?|fall(?:s|en|ing)?|fell|declin(?:es?|ed|ing|ers?)|loss(?:es)?"
    r"|los(?:e|es|t|ers?)|decreas(?:es?|ed)|slump(?:s|ed)?|plung(?:es?|ed)|tumbl(?:es?|ed)"
    r"|slid(?:es?)?|crash(?:es|ed)?|down"
)
_RISE = (
    r"ris(?:es?|en|ing)|rose|gain(?:s|ed|ers?)?|increas(?:es?|ed)|advanc(?:es?|ed|ers?)"
    r"|jump(?:s|ed)?|surg(?:es?|ed)|rall(?:y|ies|ied)|climb(?:s|ed)?|up"
)
_BETWEEN = rf"single|daily|day|weekly|monthly|percentage|percent|price|stock|trading|\d+|{WORDS}"
_MOVE_BEHIND = re.compile(
    rf"(?:[- ](?:{_BETWEEN})){{0,4}}[- ](?:(?P<fall>{_FALL})|(?P<rise>{_RISE}))\b"
    r"|\s?的?(?:单日|一日|日|单周|周|单月|月)?(?:(?P<fall2>下?跌|下降|下滑)|(?P<rise2>上?涨(?!跌)))"
    r"|(?P<rise3>(?:[- ]performing)?(?: single| trading)* (?:day|session|week|month)s?\b)"
)
"""A rise or a fall behind a word for an extreme; the best and the worst days are those of moves."""

_MOVE_BEFORE = re.compile(
    rf"\b(?:(?P<fall>{_FALL})|(?P<rise>{_RISE})) (?:by |was |is |were |of )?(?:the )?$"
    r"|(?:(?P<fall2>(?<!涨)跌|下降|下滑)|(?P<rise2>涨(?!跌)))(?:幅|得|势|了)?(?:榜|排名|排行)?"
    r"(?:是|为|的)?$"
)
_OF_MOVES = frozenset({"best", "worst"})
_SMALL = frozenset({"smallest", "lowest", "least", "minimum", "min", "最低", "最小", "最少"})

_BEHIND = re.compile(
    r"\s*(?:及|或)?(?P<ge>以上|之上|or (?:more|higher|above|over))"
    r"|\s*(?:及|或)?(?P<le>以下|之下|or (?:less|lower|below|fewer))"
)
_COMPARES = re.compile(
    r"(?P<ge>at least|no less than|not less than|>=|≥|不低于|不少于|不小于|至少)"
    r"|(?P<le>at most|no more than|not more than|<=|≤|不高于|不超过|不大于|至多)"
    r"|(?P<gt>above|over|greater than|more than|higher than|larger than|exceed(?:s|ed|ing)?|>"
    r"|超过|超(?=\s?\d)|大于|高于|多于|突破)"
    r"|(?P<lt>below|under|less than|lower than|smaller than|fewer than|<|低于|小于|少于|不足|不到"
    r"|跌破)"
)
_LEVELS = frozenset(
    [
        *("above", "below", "under", "higher than", "lower than"),
        *("高于", "低于", "突破", "跌破", "不低于", "不高于"),
    ]
)
"""What follows these is a level that something fell to, unless they compare sizes of falls."""

_NUMBER = re.compile(
    r"\s*(?:of |to |为|了)?[$¥€£]?\s*(?P<number>[+-]?\d[\d,]*(?:\.\d+)?)\s*"
    r"(?P<scale>%|percent|thousand|million|billion|trillion|bn|mn|[kmb]\b|万亿|亿|万)?"
)
_RANGE = re.compile(r"\bbetween\b|介于|在?(?<![\d.,%-])(?=[+-]?\d)")
_RANGE_JOIN = re.compile(r"\s?(?:and|to|[-~–—]|到|至|和|与)(?=\s?[$¥€£]?\s?[+-]?\d)")
_RANGE_END = re.compile(r"\s?(?:元|股|点)?(?:之间|间|区间)")
_OF_TIME = re.compile(r"\s?(?:days?\b|weeks?\b|months?\b|years?\b|天|日|周|个|月|年|:)")
_SCALES = {
    "k": 10**3,
    "thousand": 10**3,
    "万": 10**4,
    "m": 10**6,
    "mn": 10**6,
    "million": 10**6,
    "亿": 10**8,
    "b": 10**9,
    "bn": 10**9,
    "billion": 10**9,
    "trillion": 10**12,
    "万亿": 10**12,
}
_INVERTED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_OPERATORS = {"ge": ">=", "le": "<=", "gt": ">", "lt": "<"}


def comparisons_of(text: str) -> Iterator[Comparison]:
    """The comparisons of a text without dates."""
    yield from _ranges(text)
    for found in _COMPARES.finditer(text):
        number = _NUMBER.match(text, found.end())
        if number is not None:
            operator, start = _OPERATORS[found.lastgroup or ""], found.start()
            move, value = _move_before(text, start), _value(number)
            is_level = found[0] in _LEVELS and not text[:start].rstrip().endswith("幅")
            is_change = value < 0 or (move == "rise" and number["scale"] in ("%", "percent"))
            if is_level and not is_change:
                move = ""
            yield _compared(text, operator, value, start, move)
    for number in _NUMBER.finditer(text):
        behind = _BEHIND.match(text, number.end())
        if behind is not None:
            operator, start = _OPERATORS[behind.lastgroup or ""], number.start("number")
            yield _compared(text, operator, _value(number), start, _move_before(text, start))


def _compared(text: str, operator: str, value: Decimal, start: int, move: Move) -> Comparison:
    is_not = is_negated(text, start)
    return Comparison(_INVERTED[operator] if is_not else operator, value, start, move, is_not)


def _ranges(text: str) -> Iterator[Comparison]:
    """Both ends of ranges such as `between 2 and 3 %`. A negated one is not read."""
    for found in _RANGE.finditer(text):
        first = _NUMBER.match(text, found.end())
        join = _RANGE_JOIN.match(text, first.end()) if first else None
        last = _NUMBER.match(text, join.end()) if join else None
        if first is None or last is None:
            continue
        is_range = found[0] in ("between", "介于") or _RANGE_END.match(text, last.end())
        if not is_range or _OF_TIME.match(text, last.end()) or is_negated(text, found.start()):
            continue
        scale = first["scale"] or last["scale"]
        ends = sorted([_value(first, scale), _value(last)])
        move = _move_before(text, found.start())
        for operator, value in zip((">=", "<="), ends, strict=True):
            yield Comparison(operator, value, found.start(), move)


def _value(number: re.Match[str], scale: str | None = None) -> Decimal:
    factor = _SCALES.get(scale or number["scale"] or "", 1)
    return Decimal(number["number"].replace(",", "")) * factor


def extremes_of(text: str) -> Iterator[Extreme]:
    """The extremes of a text without dates. Beside another such word `top 5` and `前五` only say
    how many; alone they mean the highest. `the second highest` are the highest two.
    """
    found = [*EXTREMES.finditer(text)]
    directed = [match for match in found if match["count"] is None]
    counts = [count for match in found if (count := _count_beside(text, match)) is not None]
    if not counts:
        counts = [number_of(match["n"]) for match in _COUNTED.finditer(text)][:1]
    for match in directed or found:
        count = _count_beside(text, match) or next(iter(counts), 1)
        move = _move_before(text, match.start()) or _move_behind(text, match)
        is_highest = match[0] not in _SMALL if move == "fall" else match["low"] is None
        yield Extreme(is_highest, min(max(count, 1), MOST), match.start(), match.end(), move)


def _count_beside(text: str, match: re.Match[str]) -> int | None:
    """The number in, right behind or before a word, as in `第二高`, `top 5`, `the five highest` and
    `the second highest`.
    """
    if (rank := match["rank"] or match["rank2"]) is not None:
        return number_of(rank)
    if (number := _NEXT_COUNT.match(text, match.end())) is not None:
        return number_of(number["n"])
    before = text[max(match.start() - 12, 0) : match.start()]
    if (ordinal := _ORDINAL_BEFORE.search(before)) is not None:
        return number_of(ordinal["rank"] or ordinal["rank2"])
    found = _COUNT_BEFORE.search(before)
    return number_of(found["n"]) if found else None


def _move_before(text: str, place: int) -> Move:
    return _move(_MOVE_BEFORE.search(text[max(place - 24, 0) : place]))


def _move_behind(text: str, match: re.Match[str]) -> Move:
    found = _MOVE_BEHIND.match(text, match.end())
    if found is not None and found["rise3"] and match[0] not in _OF_MOVES:
        return ""
    return _move(found)


def _move(found: re.Match[str] | None) -> Move:
    if found is None:
        return ""
    return "fall" if (found.lastgroup or "").startswith("fall") else "rise"

"""What a question asks of a table: dates, extremes, comparisons, and how many of the newest rows.

Questions are in English or Chinese. Only forms that can mean nothing else are read; whatever is
not understood costs nothing but a less useful choice of rows.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from itertools import islice

LONGEST = 1_000
"""How much of a question is read, in characters: of a longer one the start and the end. Patterns
may take the square of this, and hold the process meanwhile.
"""

ASKED = 8
"""The most spans, comparisons or extremes of a question: each is looked for in every row."""

_BLANK = "\0"
"""Stands for characters that were read. Patterns skip spaces, and many of these in a row cost."""

MOST = 50
"""The most rows that a question asks for by a number."""

Day = date


@dataclass(frozen=True, slots=True)
class Span:
    """Days from `start` to `end`, both included."""

    start: Day
    end: Day


@dataclass(frozen=True, slots=True)
class Comparison:
    """`operator` is one of < <= > >= = !=; `place` is where it stands in the question."""

    operator: str
    value: Decimal
    place: int


@dataclass(frozen=True, slots=True)
class Extreme:
    """The `count` highest or lowest values of a column. It stands from `place` to `end`."""

    is_highest: bool
    count: int
    place: int
    end: int


@dataclass(frozen=True, slots=True)
class Question:
    """A question that was read. `newest` and `oldest` are how many of these rows it asks for.
    `relative` are spans in days before the newest row. `days_of_years` are spans of days without a
    year, as `-05-29`. `clocks` are times of day. `text` is the question in lower case, with numbers
    of days and years in digits.
    """

    text: str
    spans: tuple[Span, ...] = ()
    relative: tuple[tuple[int, int], ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    extremes: tuple[Extreme, ...] = ()
    days_of_years: tuple[tuple[str, str], ...] = ()
    clocks: tuple[str, ...] = ()
    newest: int = 0
    oldest: int = 0

    @classmethod
    def of(cls, text: str) -> "Question":
        text = " ".join(text.split())
        half = LONGEST // 2
        return _read(text if len(text) <= LONGEST else f"{text[:half]} {text[-half:]}")


_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july"),
    *("august", "september", "october", "november", "december"),
)
_MONTH = r"(?P<%s>jan|feb|mar|apr|may|jun|jul|aug|sept?|oct|nov|dec)[a-z]*\.?"
_YEAR = r"(?P<%s>(?:19|20)\d\d)"
_HAN = {c: n for n, c in enumerate("零一二三四五六七八九十")} | {"两": 2}

_DATES = re.compile(
    "|".join(
        [
            rf"{_YEAR % 'y1'}\s?[-/.年]\s?(?P<m1>\d\d?)\s?[-/.月]\s?(?P<d1>\d\d?)\s?[日号]?(?!\d)",
            rf"(?<!\d){_YEAR % 'y2'}(?P<m2>0[1-9]|1[0-2])(?P<d2>0[1-9]|[12]\d|3[01])(?!\d)",
            rf"(?P<d3>\d\d?)(?:st|nd|rd|th)?(?: of)? {_MONTH % 'm3'},? {_YEAR % 'y3'}",
            rf"\b{_MONTH % 'm4'} (?P<d4>\d\d?)(?:st|nd|rd|th)?,? {_YEAR % 'y4'}",
            rf"\b{_MONTH % 'm5'},? (?:of )?{_YEAR % 'y5'}",
            rf"{_YEAR % 'y6'}\s?年\s?(?P<m6>\d\d?)\s?月份?",
            rf"(?<![\d.]){_YEAR % 'y7'}-(?P<m7>0[1-9]|1[0-2])(?![-\d])",
            rf"\bq(?P<q8>[1-4])[ /-]?(?:of )?{_YEAR % 'y8'}",
            rf"{_YEAR % 'y9'}[ -]?q(?P<q9>[1-4])",
            r"(?P<q10>first|second|third|fourth|1st|2nd|3rd|4th) quarter"
            rf"(?: of)?,? {_YEAR % 'y10'}",
            rf"{_YEAR % 'y11'}\s?年?第?(?P<q11>[1-4一二三四])季度?",
            rf"(?<![\d.,]){_YEAR % 'y12'}(?:年|(?![\d.,%]*\d))",
        ]
    ),
    re.IGNORECASE,
)
_QUARTERS = {"first": 1, "second": 2, "third": 3, "fourth": 4}
_JOINS = re.compile(
    r"\s*(?:起|开始)?\s*(?:up to|to|through|thru|until|till|and|[-~–—]+|至|到|和|与|以及|、)"
    r"\s*(?:the )?\s*"
)
_BETWEEN = re.compile(r"between|within|之间|期间")
_DAY_OF_YEAR = re.compile(
    rf"(?<!\d)(?P<d1>\d\d?)(?:st|nd|rd|th)?(?: of)? {_MONTH % 'm1'}(?!\w)"
    rf"|\b{_MONTH % 'm2'} (?P<d2>\d\d?)(?:st|nd|rd|th)?(?!\d)"
    r"|(?<!\d)(?P<m3>\d\d?)\s?月\s?(?P<d3>\d\d?)\s?[日号]"
    r"|(?<![\d.])(?P<m4>0[1-9]|1[0-2])-(?P<d4>[0-3]\d)(?![-\d])",
    re.IGNORECASE,
)
"""A day without a year."""
_SINCE = re.compile(r"(?:since|after|from|starting|自|从)\s*$")
_SINCE_BEHIND = re.compile(r"\s*(?:onwards?|or later|之后|以后|以来|起|后)")
_UNTIL = re.compile(r"(?:before|until|till|up to|prior to|by|截至|截止)\s*$")
_UNTIL_BEHIND = re.compile(r"\s*(?:or earlier|之前|以前|前)")

_COUNT = (
    r"(?P<n>\d{1,3}|[一二两三四五六七八九十]{1,3}"
    r"|(?:one|two|three|four|five|six|seven|eight|nine|ten)\b)"
)
_ENGLISH = {
    word: number
    for number, word in enumerate(
        ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"), 1
    )
}
_DAYS = {
    "day": 1,
    "天": 1,
    "日": 1,
    "交易日": 1,
    "个交易日": 1,
    "trading day": 1,
    "session": 1,
    "week": 7,
    "周": 7,
    "个星期": 7,
    "星期": 7,
    "month": 31,
    "个月": 31,
    "月": 31,
    "quarter": 92,
    "季度": 92,
    "个季度": 92,
    "year": 366,
    "年": 366,
}
_UNIT = "(?P<unit>" + "|".join(sorted(_DAYS, key=len, reverse=True)) + ")s?"
_LAST_SPAN = re.compile(
    rf"(?:last|past|previous|recent|latest)\s+(?:{_COUNT}\s+)?{_UNIT}\b"
    rf"|(?:最近|近|过去|前)\s?(?P<n2>\d{{1,3}}|[一二两三四五六七八九十]{{1,3}})\s?"
    rf"(?P<unit2>{'|'.join(sorted((u for u in _DAYS if not u.isascii()), key=len, reverse=True))})",
    re.IGNORECASE,
)
_NEWEST = re.compile(
    r"\b(?:latest|newest|most recent(?:ly)?|current(?:ly)?|last|now|today|as of)\b"
    r"|最新|最近|目前|当前|今天|今日|现在|最后"
)
_NEWEST_ROWS = re.compile(
    rf"(?:last|latest|newest|most recent)\s+{_COUNT}\s+(?:rows?|records?|entries|values?|points?)"
    r"|(?:最近|最后|最新)\s?(?P<n2>\d{1,3}|[一二两三四五六七八九十]{1,3})\s?[条行笔个]",
    re.IGNORECASE,
)
_OLDEST = re.compile(r"\b(?:earliest|oldest|first)\b|最早|最初|第一[天个]|首个")
_EXTREMES = re.compile(
    r"(?P<top>\blargest\b|\bhighest\b|\bbiggest\b|\bmost\b|\bmaximum\b|\bmax\b|\bpeak(?:ed)?\b"
    r"|\bgreatest\b|\bbest\b|\bstrongest\b|最高|最大|最多|最强|最好|最贵)"
    r"|(?P<count>\btop(?=\s?\d|\s(?:one|two|three|four|five|six|seven|eight|nine|ten)\b)"
    r"|排名前|前(?=\s?[\d一二两三四五六七八九十]))"
    r"|(?P<low>\bbottom\b|\bsmallest\b|\blowest\b|\bleast\b|\bminimum\b|\bmin\b|\bworst\b|\bweakest\b"
    r"|\bcheapest\b|最低|最小|最少|最弱|最差|最便宜|倒数)",
    re.IGNORECASE,
)
_NEXT_COUNT = re.compile(rf"\s*(?:的)?\s*{_COUNT}(?!\d|[.%年月日-])", re.IGNORECASE)
_COUNTED = re.compile(
    rf"(?<![\d.年月-]){_COUNT}\s*(?:trading |business |different )?"
    r"(?:days?|rows?|records?|dates?|entries|items?|stocks?|companies|sessions?|results?|symbols?"
    r"|months?|ones|个交易日|天|日(?!均|线|期)|个|条|行|只|家|支|名|项|种|期|次)",
    re.IGNORECASE,
)
"""A number of rows somewhere in a question, as in `the 5 days with the highest close`."""

_BEHIND = re.compile(
    r"\s*(?:及|或)?(?P<ge>以上|之上|or (?:more|higher|above|over))"
    r"|\s*(?:及|或)?(?P<le>以下|之下|or (?:less|lower|below|fewer))"
)
_COMPARES = re.compile(
    r"(?P<ge>at least|no less than|not less than|>=|≥|不低于|不少于|不小于|至少)"
    r"|(?P<le>at most|no more than|not more than|<=|≤|不高于|不超过|不大于|至多)"
    r"|(?P<gt>above|over|greater than|more than|higher than|larger than|exceed(?:s|ed|ing)?|>"
    r"|超过|大于|高于|多于|突破)"
    r"|(?P<lt>below|under|less than|lower than|smaller than|fewer than|<|低于|小于|少于|不足|不到"
    r"|跌破)",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"\s*(?:of |to |为|了)?[$¥€£]?\s*(?P<number>[+-]?\d[\d,]*(?:\.\d+)?)\s*"
    r"(?P<scale>%|percent|thousand|million|billion|trillion|bn|mn|[kKmMbB]\b|万亿|亿|万)?"
)
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
_COMPARED = re.compile(
    r"(?:than|above|below|over|under|exceed(?:s|ing)?|[<>=≥≤]|超过|低于|高于|大于|小于|多于|少于)\s*$"
)
_CLOCK = re.compile(r"(?<![\d:])(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d)?(?![\d:])")
_OPERATORS = {"ge": ">=", "le": "<=", "gt": ">", "lt": "<"}


@lru_cache(256)
def _read(text: str) -> Question:
    low = _in_digits(text.lower())
    spans, days_of_years, covered = _spans(low)
    plain = "".join(_BLANK if n in covered else c for n, c in enumerate(low))
    relative, newest = [], 0
    for found in _LAST_SPAN.finditer(plain):
        count = _count(found["n"] or found["n2"]) if found["n"] or found["n2"] else 1
        if found[0].startswith("前") and _EXTREMES.search(plain, 0, found.start()):
            continue  # `最高的前三天` are three days, not the last three
        unit = (found["unit"] or found["unit2"]).lower()
        relative.append((count, _DAYS[unit]))
        plain = plain[: found.start()] + _BLANK * len(found[0]) + plain[found.end() :]
    for found in _NEWEST_ROWS.finditer(plain):
        newest = max(newest, _count(found["n"] or found["n2"]))
    if not relative and not newest and _NEWEST.search(plain):
        newest = 1
    return Question(
        low,
        spans=spans[:ASKED],
        days_of_years=days_of_years[:ASKED],
        clocks=tuple(found.removeprefix("0") for found in _CLOCK.findall(low)),
        relative=tuple(relative[:ASKED]),
        comparisons=tuple(islice(_comparisons(plain), ASKED)),
        extremes=tuple(islice(_extremes(plain), ASKED)),
        newest=min(newest, MOST),
        oldest=1 if _OLDEST.search(plain) else 0,
    )


def _count(text: str) -> int:
    text = text.lower()
    if text.isdigit():
        return min(int(text), 999)
    if text in _ENGLISH:
        return _ENGLISH[text]
    before, ten, behind = text.rpartition("十")
    if not ten:
        return _HAN.get(text[-1:], 1)
    return 10 * _HAN.get(before[-1:], 1) + (_HAN.get(behind[:1], 0) if behind else 0)


_IN_WORDS = {
    **dict(
        zip(
            ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
            range(1, 11),
            strict=True,
        )
    ),
    "twelve": 12,
    "fourteen": 14,
    "fifteen": 15,
    "twenty": 20,
    "thirty": 30,
    "fifty": 50,
    "sixty": 60,
}
_NUMBER_OF_DAYS = re.compile(
    rf"\b({'|'.join(_IN_WORDS)})[- ](?=(?:day|year|month|week)\b)|(\d+) (?=(?:day|year|month)\b)"
    r"|([一二三四五六七八九十]{1,3})(?=日(?:均|移动|平均|后|线)|年期|年国债)"
)


def _in_digits(text: str) -> str:
    """A text with `20-day` for "twenty-day" and "20 day", and `20日` for "二十日"."""

    def digits(found: re.Match[str]) -> str:
        english, number, chinese = found.groups()
        if chinese:
            return str(_count(chinese))
        return f"{_IN_WORDS[english] if english else number}-"

    return _NUMBER_OF_DAYS.sub(digits, text)


def _spans(text: str) -> tuple[tuple[Span, ...], tuple[tuple[str, str], ...], set[int]]:
    """The days that a text names, those without a year, and the places of all their characters."""
    found = [
        (match, span)
        for match in _DATES.finditer(text)
        if not _is_compared(match) and (span := _span(match)) is not None
    ]
    spans: list[Span] = []
    at = 0
    while at < len(found):
        match, span = found[at]
        start, end = match.start(), match.end()
        if at + 1 < len(found):
            then, later = found[at + 1]
            between = text[end : then.start()]
            is_and = between.strip() in ("and", "和", "与", "以及", "、")
            around = text[max(start - 12, 0) : start] + text[then.end() : then.end() + 4]
            if (
                _JOINS.fullmatch(between)
                and later.end >= span.start
                and (not is_and or _BETWEEN.search(around))
            ):
                span, end, at = Span(span.start, later.end), then.end(), at + 1
                spans.append(span)
                at += 1
                continue
        if _UNTIL.search(text, max(start - 12, 0), start) or _UNTIL_BEHIND.match(text, end):
            span = Span(Day.min, span.end)
        elif _SINCE.search(text, max(start - 12, 0), start) or _SINCE_BEHIND.match(text, end):
            span = Span(span.start, Day.max)
        spans.append(span)
        at += 1
    covered = {place for match, _ in found for place in range(match.start(), match.end())}
    plain = "".join(_BLANK if n in covered else c for n, c in enumerate(text))
    days: list[tuple[str, str]] = []
    behind = -1
    for match in _DAY_OF_YEAR.finditer(plain):
        groups = {name.rstrip("0123456789"): v for name, v in match.groupdict().items() if v}
        month = int(groups["m"]) if groups["m"].isdigit() else _month(groups["m"])
        if not 1 <= month <= 12 or not 1 <= int(groups["d"]) <= 31:
            continue
        covered |= {*range(match.start(), match.end())}
        day = f"-{month:02}-{int(groups['d']):02}"
        joined = _joined_to(spans, found, text, match, day)
        if joined is not None:
            spans[joined[0]] = joined[1]
        elif days and behind >= 0 and _JOINS.fullmatch(text[behind : match.start()]):
            days[-1] = days[-1][0], day
        else:
            days.append((day, day))
        behind = match.end()
    return tuple(dict.fromkeys(spans)), tuple(days), covered


def _is_compared(match: re.Match[str]) -> bool:
    """Whether a year alone is a number with which something is compared: `smaller than 1904`."""
    return match["y12"] is not None and _COMPARED.search(match.string, 0, match.start()) is not None


def _joined_to(
    spans: Sequence[Span],
    found: Sequence[tuple[re.Match[str], Span]],
    text: str,
    match: re.Match[str],
    day: str,
) -> tuple[int, Span] | None:
    """The span that a day without a year ends or begins, as in `May 23, 2026 - 29 May`, and its
    place.
    """
    for named, span in found:
        if span not in spans:
            continue
        with suppress(ValueError):  # a 29th of February
            there = Day.fromisoformat(f"{span.start.year}{day}")
            if there >= span.start and _JOINS.fullmatch(text[named.end() : match.start()]):
                return spans.index(span), Span(span.start, there)
            if there <= span.end and _JOINS.fullmatch(text[match.end() : named.start()]):
                return spans.index(span), Span(there, span.end)
    return None


def _span(match: re.Match[str]) -> Span | None:
    groups = {name.rstrip("0123456789"): v for name, v in match.groupdict().items() if v}
    year = int(groups["y"])
    try:
        if quarter := groups.get("q"):
            lower = quarter.lower()
            number = _QUARTERS.get(lower) or _HAN.get(lower) or int(lower[0])
            return Span(Day(year, 3 * number - 2, 1), _end_of(year, 3 * number))
        if not (month := groups.get("m")):
            return Span(Day(year, 1, 1), Day(year, 12, 31))
        number = int(month) if month.isdigit() else _month(month)
        if day := groups.get("d"):
            there = Day(year, number, int(day))
            return Span(there, there)
        return Span(Day(year, number, 1), _end_of(year, number))
    except ValueError:  # a 13th month, a 31st of June
        return None


def _month(name: str) -> int:
    return next(n for n, full in enumerate(_MONTHS, 1) if full.startswith(name[:3]))


def _end_of(year: int, month: int) -> Day:
    following = Day(year + month // 12, month % 12 + 1, 1)
    return following - timedelta(days=1)


def _comparisons(text: str) -> Iterator[Comparison]:
    for found in _COMPARES.finditer(text):
        number = _NUMBER.match(text, found.end())
        if number is not None:
            value = _value(number)
            yield Comparison(_OPERATORS[found.lastgroup or ""], value, found.start())
    for number in _NUMBER.finditer(text):
        behind = _BEHIND.match(text, number.end())
        if behind is not None:
            yield Comparison(_OPERATORS[behind.lastgroup or ""], _value(number), number.start())


def _value(number: re.Match[str]) -> Decimal:
    scale = (number["scale"] or "").lower()
    return Decimal(number["number"].replace(",", "")) * _SCALES.get(scale, 1)


def _extremes(text: str) -> Iterator[Extreme]:
    """Words for the highest and the lowest. Beside another such word `top 5` and `前五` only say
    how many; alone they mean the highest.
    """
    found = [*_EXTREMES.finditer(text)]
    directed = [match for match in found if match["count"] is None]
    counts = [count for match in found if (count := _count_beside(text, match)) is not None]
    if not counts:
        counts = [_count(match["n"]) for match in _COUNTED.finditer(text)][:1]
    for match in directed or found:
        count = _count_beside(text, match) or next(iter(counts), 1)
        is_highest = match["low"] is None
        yield Extreme(is_highest, min(max(count, 1), MOST), match.start(), match.end())


def _count_beside(text: str, match: re.Match[str]) -> int | None:
    """The number right behind or before a word, as in `top 5` and `the five highest`."""
    if (number := _NEXT_COUNT.match(text, match.end())) is not None:
        return _count(number["n"])
    before = re.search(rf"(?<![\d.]){_COUNT}\s*$", text[max(match.start() - 8, 0) : match.start()])
    return _count(before["n"]) if before else None


def day_of(seconds: float) -> Day:
    """The day of a Unix time, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).date()

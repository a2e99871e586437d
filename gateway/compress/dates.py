"""The days that a question names: with a year, without one, or counted from the newest row.

`cache.dates.span_of` says when a day, month, quarter or year begins and ends. Here texts that name
one are found, with the words that join two of them or leave one end open.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import islice

from cache.dates import span_of
from gateway.compress.cells import day_of
from gateway.compress.numerals import COUNT, number_of

MOST = 50
"""The most rows that a question asks for by a number, and the most dates that are read."""

BLANK = "\0"
"""Stands for characters that were read. Patterns skip spaces, and many of these in a row cost."""

_JOIN_CHARS, _BEFORE_CHARS = 24, 24
"""How far apart the ends of a range stand at most, and how far before a date what opens it."""

_LEAP = 2024
"""Stands for a year that is not named."""

_DAY = r"\d\d?(?:st|nd|rd|th)?"
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)(?![a-z])\.?"
)
_YEAR = r"(?:19|20)\d\d"
_WITH_YEAR = (
    rf"(?<!\d){_YEAR}\s?[-/.年]\s?\d\d?\s?[-/.月]\s?\d\d?(?!\d)\s?[日号]?",
    rf"(?<!\d){_YEAR}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?!\d)",
    rf"(?<!\d){_DAY}(?: of)? {_MONTH},? {_YEAR}",
    rf"\b{_MONTH} {_DAY},? {_YEAR}",
    rf"\b{_MONTH},? (?:of )?{_YEAR}",
    rf"{_YEAR}\s?年\s?\d\d?\s?月份?",
    rf"(?<![\d.]){_YEAR}-(?:0[1-9]|1[0-2])(?![-\d])",
    rf"\bq[1-4][ /-]?(?:of )?{_YEAR}",
    rf"{_YEAR}[ -]?q[1-4]|{_YEAR}\s?年?第?[1-4]季度?",
    rf"(?<![\d.,/]){_YEAR}(?:年|(?![\d.,%]*\d))",
)
_WITHOUT_YEAR = (
    rf"(?<!\d){_DAY}(?: of)? {_MONTH}(?!\w)",
    rf"\b{_MONTH} {_DAY}(?!\d)",
    r"(?<!\d)\d\d?\s?月\s?\d\d?\s?[日号]",
    r"\b(?:january|february|april|june|july|august|september|october|november|december)\b",
    r"(?:(?<=\b(?:in|of|to|by) )|(?<=\bfrom ))(?:may|march)\b",
    r"(?<![\d.个近去前])\d\d?\s?月份?(?!\s?\d|期|线|均)",
    r"\bq[1-4](?!\w)|(?<![\d.个近去前])第?[1-4]季度?",
)
_DATES = re.compile(f"(?P<dated>{'|'.join(_WITH_YEAR)})|{'|'.join(_WITHOUT_YEAR)}")
_NO_WORDS = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b|\bof\b|[,.]")
_COMPARED = re.compile(r"(?:than|above|below|over|under|exceeding|[<>=≥≤超过低高大小多少于])\s*$")
_JOINS = re.compile(
    r"\s*(?:起|开始)?\s*(?:up to|to|through|until|till|(?P<plain>and|和|与|以及|、)|[-~–—]+|至|到)"
    r"\s*(?:ending |the )?\s*"
)
_BETWEEN = re.compile(r"between|within|starting|之间|期间")
_OPENING = re.compile(
    r"(?:(?P<before>before|prior to)|(?P<after>after|later than)|(?P<until>until|till|by|截[至止]"
    r"|not? later than)|(?P<since>since|from|starting|not? earlier than|自|从))(?: the)?\s*$"
)
_OPENING_BEHIND = re.compile(
    r"\s*(?:(?P<before>[之以]?前)|(?P<after>之后)|(?P<since>以[来后]|后|起|onwards?))"
)
_NEGATION = re.compile(
    r"(?:\b(?:exclud\w+|except\w*|other than|apart from|without|not?(?! (?:later|earlier))|never)\b"
    r"|n['’]t|除去?了?|排除|剔除|不[含算是在]?|不包[括含]|(?<!有)没有?|未|并非)"
    r"\s?(?:[今去本]年)?(?:\w{1,6} ){0,3}$"
)
_NEGATION_BEHIND = re.compile(r"\s?的?(?:[以之]外|除外|excluded\b)")


@dataclass(frozen=True, slots=True)
class Span:
    """Days from `start` to `end`, both included, that stand from `place` to `stop`. If it does not
    name the year, `start` and `end` are in `_LEAP`.
    """

    start: date
    end: date
    place: int
    stop: int
    has_year: bool = True

    def of(self, year: int) -> "Span":
        """These days in a year, if they do not name another."""
        if self.has_year:
            return self
        return replace(self, start=_in_year(self.start, year), end=_in_year(self.end, year))


def _in_year(day: date, year: int) -> date:
    if day in (date.min, date.max):
        return day
    year = min(max(year + day.year - _LEAP, date.min.year), date.max.year)
    return date(year, day.month, min(day.day, 28)) if day.month == 2 else day.replace(year=year)


@dataclass(frozen=True, slots=True)
class Period:
    """The last `count` weeks, months or years up to the newest row. If `is_calendar`, the month or
    year of that row, or of a `count` of 1 the one before.
    """

    count: int
    unit: str
    is_calendar: bool = False

    def before(self, newest: date) -> Span:
        """These days. Raises `OverflowError` or `ValueError` if they are before all years."""
        if not self.is_calendar:
            days = {"week": 7, "month": 31, "quarter": 92, "year": 366}[self.unit]
            return Span(newest - timedelta(days=self.count * days - 1), newest, 0, 0)
        chars = len("2026" if self.unit == "year" else "2026-06")
        for _ in range(self.count):
            newest = _named(newest.isoformat()[:chars])[0] - timedelta(days=1)
        return Span(*_named(newest.isoformat()[:chars]), 0, 0)


def _named(text: str) -> tuple[date, date]:
    """The first and the last day of what a text names. Raises `ValueError` if there is none."""
    if (found := span_of(text)) is None:
        raise ValueError(text)
    first, after = found
    return day_of(first), day_of(after) - timedelta(days=1)


def is_negated(text: str, start: int, end: int) -> bool:
    """Whether a text negates or excludes what stands from `start` to `end`, as in `except June`."""
    before = text[max(start - _BEFORE_CHARS, 0) : start]
    return bool(_NEGATION.search(before) or _NEGATION_BEHIND.match(text, end))


def spans_of(text: str) -> tuple[list[Span], str]:
    """The days that a text in lower case names, and the text with blanks in their places."""
    matches = [found for found in islice(_DATES.finditer(text), MOST) if not _is_size(found)]
    waiting = [span for found in reversed(matches) if (span := _span(found)) is not None]
    spans = list[Span]()
    while waiting:
        one = waiting.pop()
        then = waiting[-1] if waiting else one
        joined = _JOINS.fullmatch(text[one.stop : then.place][:_JOIN_CHARS])
        if joined is not None and one.has_year != then.has_year:
            year = one.start.year if one.has_year else then.start.year
            one, then = (replace(span.of(year), has_year=True) for span in (one, then))
            waiting[-1] = then
        if joined is not None and one.start <= then.end and one.has_year == then.has_year:
            around = text[max(one.place - 12, 0) : one.place] + text[then.stop : then.stop + 4]
            if joined["plain"] is None or _BETWEEN.search(around):
                waiting.pop()
                spans.append(replace(one, end=then.end, stop=then.stop))
                continue
        spans.append(_opened(text, one))
    kept = [span for span in spans if not is_negated(text, span.place, span.stop)]
    return kept, blanked(text, [found.span() for found in matches])


def _is_size(match: re.Match[str]) -> bool:
    """Whether a year alone is a number with which something is compared: `smaller than 1904`."""
    before = match.string[max(match.start() - 12, 0) : match.start()]
    return match[0].isdecimal() and len(match[0]) == 4 and _COMPARED.search(before) is not None


def _span(match: re.Match[str]) -> Span | None:
    """The days of a match; None if they are not in the calendar, as the 31 June 2026."""
    text, has_year = match[0], match["dated"] is not None
    is_english = re.search("[a-z]", text) is not None
    text = " ".join(_NO_WORDS.sub(" ", text).split()) if is_english else "".join(text.split())
    if not has_year:
        text = f"{text} {_LEAP}" if is_english else f"{_LEAP}年{text}"
    try:
        return Span(*_named(text.replace("号", "日")), *match.span(), has_year)
    except ValueError:
        return None


def _opened(text: str, span: Span) -> Span:
    """A span with an open end, if the words before or behind it say so."""
    found = _OPENING.search(text[max(span.place - _BEFORE_CHARS, 0) : span.place])
    found = found or _OPENING_BEHIND.match(text, span.stop)
    opening = found.lastgroup if found else None
    if opening == "before":
        return replace(span, start=date.min, end=span.start - timedelta(days=1))
    if opening == "after":
        return replace(span, start=span.end + timedelta(days=1), end=date.max)
    if opening == "until":
        return replace(span, start=date.min)
    return replace(span, end=date.max) if opening == "since" else span


def blanked(text: str, places: Sequence[tuple[int, int]]) -> str:
    """A text with blanks in some places, each from a start to an end."""
    characters = [*text]
    for start, end in places:
        characters[start:end] = BLANK * (end - start)
    return "".join(characters)


_UNITS = {"周": "week", "星期": "week", "月": "month", "季度": "quarter", "年": "year"}
_ROWS = r"(?:trading |business )?days?|sessions?|rows?|records?|entries|values|points"
_CALENDAR = re.compile(
    r"\b(?P<now>year|month)[- ]to[- ]date\b|\bthis (?P<now2>year|month)\b|\b(?P<ytd>ytd)\b"
    r"|[今本](?P<now3>[年月])|(?P<now4>年)初至今|去(?P<last>年)|上个?(?P<last2>月)"
    r"|(?<!the )(?<!past )\b(?:last|previous) (?P<last3>month|year)\b"
)
_LAST = re.compile(
    rf"(?:last|past|previous|(?:most )?recent|latest|newest)\s+(?:{COUNT}\s+)?"
    rf"(?:(?P<rows>{_ROWS})|(?P<unit>week|month|quarter|year)s?)\b"
    r"|(?:最近|近|过去|最后|最新)\s?(?P<n2>\d{1,3}|[一二两三四五六七八九十]{1,3})\s?个?"
    r"(?:(?P<rows2>交易日|[天日条行笔期])|(?P<unit2>周|星期|月|季度|年))"
)
_NEWEST = re.compile(
    r"\b(?:latest|newest|most recent(?:ly)?|current(?:ly)?|last|now|today|as of)\b"
    r"|最新|最近|目前|当前|今[天日]|现在|最后"
)
_OLDEST = re.compile(r"\b(?:earliest|oldest|first)\b|最早|最初|最开始|第一[天个]|首[个日]")


def counted_of(plain: str) -> tuple[list[Period], int, int, str]:
    """What a text without dates asks for by counting: periods, how many of the newest and of the
    oldest rows, and the text with blanks in place of what was read.
    """
    periods, newest = list[Period](), 0
    for found in (calendar := _asked(_CALENDAR, plain)):
        group = found.lastgroup or ""
        unit = "year" if found[group] in ("ytd", "year", "年") else "month"
        periods.append(Period(int(group.startswith("last")), unit, is_calendar=True))
    plain = blanked(plain, [found.span() for found in calendar])
    for found in (last := _asked(_LAST, plain)):
        count = min(number_of(found["n"] or found["n2"] or "1"), 999)
        if found["rows"] or found["rows2"]:
            newest = max(newest, count)
        else:
            said = found["unit"] or found["unit2"]
            periods.append(Period(count, _UNITS.get(said, said)))
    plain = blanked(plain, [found.span() for found in last])
    if not last and _NEWEST.search(plain):
        newest = 1
    oldest = int(_OLDEST.search(plain) is not None)
    return periods, min(newest, MOST), oldest, plain


def _asked(words: re.Pattern[str], plain: str) -> list[re.Match[str]]:
    return [found for found in words.finditer(plain) if not is_negated(plain, *found.span())]


def said(span: Span) -> str:
    """A span as a year, a month, a day or a range."""
    if span.start == date.min:
        return f"to {span.end}"
    if span.end == date.max:
        return f"from {span.start}"
    first, last = span.start.isoformat(), span.end.isoformat()
    for text in (first[:4], first[:7], first):
        with suppress(ValueError):  # a year before 1600
            if _named(text) == (span.start, span.end):
                return text
    return f"{first} to {last}"

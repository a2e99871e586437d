"""What a question asks for by counting from the newest row, or from the first and the last one."""

import re
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Literal

from gateway.compress.dates import BLANK, blanked
from gateway.compress.negation import is_excluded
from gateway.compress.numerals import COUNT, HAN, number_of
from gateway.compress.spans import Span

MOST = 50
"""The most rows that a question asks for by a number."""

_DAYS = {"row": 1, "day": 1, "week": 7, "month": 31, "quarter": 92, "year": 366}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}


@dataclass(frozen=True, slots=True)
class Period:
    """Days that are counted from the newest row: the `last` two weeks, the day two weeks `ago`, or
    a week, month, quarter or year of the `calendar`, 0 for the present one and 1 for the one
    before. The unit `row` is a trading day. It stands from `place` to `end`. If it `is_excluded`,
    all other days are meant.
    """

    form: Literal["last", "ago", "calendar"]
    count: int
    unit: str
    place: int
    end: int
    is_excluded: bool = False

    def before(self, newest: date) -> Span:
        """These days. Raises `ValueError` or `OverflowError` if they are before all years."""
        if self.form == "last":
            return Span(newest - timedelta(days=self.count * _DAYS[self.unit] - 1), newest)
        if self.form == "ago":
            there = ago(newest, self.count, self.unit)
            return Span(there, there)
        if self.unit == "week":
            start = newest - timedelta(days=newest.weekday() + 7 * self.count)
            return Span(start, start + timedelta(days=6))
        months = _MONTHS[self.unit]
        start = newest.replace(month=(newest.month - 1) // months * months + 1, day=1)
        start = ago(start, self.count, self.unit)
        return Span(start, ago(start, -1, self.unit) - timedelta(days=1))


def ago(day: date, count: int, unit: str) -> date:
    """The day so many weeks, months, quarters or years before a day, or behind it if `count` is
    negative. Raises `ValueError` or `OverflowError` if it is outside all years.
    """
    if unit not in _MONTHS:
        return day - timedelta(days=count * _DAYS[unit])
    year, month = divmod(12 * day.year + day.month - 1 - count * _MONTHS[unit], 12)
    for late in (day.day, 30, 29, 28):
        try:
            return date(year, month + 1, min(late, day.day))
        except ValueError:  # a 31st of June
            continue
    raise ValueError("a year before all")


_UNITS = {
    "day": "day",
    "天": "day",
    "日": "day",
    "交易日": "row",
    "个交易日": "row",
    "trading day": "row",
    "business day": "row",
    "session": "row",
    "week": "week",
    "周": "week",
    "个星期": "week",
    "星期": "week",
    "month": "month",
    "个月": "month",
    "月": "month",
    "quarter": "quarter",
    "季度": "quarter",
    "个季度": "quarter",
    "季": "quarter",
    "year": "year",
    "年": "year",
}


def _unit(*, is_chinese: bool) -> str:
    return "|".join(sorted((u for u in _UNITS if u.isascii() != is_chinese), key=len, reverse=True))


_ENGLISH_UNIT, _CHINESE_UNIT = _unit(is_chinese=False), _unit(is_chinese=True)
_AGO = re.compile(
    rf"(?:(?<!\d){COUNT}|\ban?)[ -](?P<unit>{_ENGLISH_UNIT})s? (?:ago|earlier)\b"
    rf"|(?P<n2>(?<!\d)\d{{1,3}}|{HAN})\s?(?P<unit2>{_CHINESE_UNIT})\s?(?:之前|以前|前)"
)
_YESTERDAY = re.compile(r"\b(?P<two>day before )?yesterday\b|(?P<two2>(?<![目大\d])前天)|昨[日天]")
_EACH = re.compile(
    r"\b(?:each|every) (?:calendar )?(?P<unit>week|month|quarter|year)\b"
    r"|\b(?P<unit2>week|month|quarter|year)ly (?=(?:last|first|final)\b)"
    r"|[每各]一?个?(?P<unit3>星期|周|月|季度?|年)份?(?:的|里)?"
)
_CALENDAR = re.compile(
    r"\b(?P<to1>week|month|quarter|year)[- ]to[- ]date\b|\b(?P<to2>[wmqy])td\b"
    r"|(?P<to3>[年月])初(?:至今|以来|到现在)|[今本](?P<to4>年|月|季度?|周)以?来"
    r"|\bthis (?P<this1>week|month|quarter|year)\b"
    r"|\bof the (?P<this6>week|month|quarter|year)\b"
    r"|(?:本|这个?)(?P<this2>月|季度?|年|周|星期)|当(?P<this3>月)|今(?P<this4>年)"
    rf"|(?<![\d个上{BLANK}])(?P<this5>[月年])(?=[初底末])"
    r"|\b(?:previous|prior|(?<!the )(?<!past )last) (?P<last1>month|quarter|year)\b"
    r"|上个?(?P<last2>月|季度?|周|星期)|去(?P<last3>年)|(?<!以)上(?P<last4>年)"
)
_LETTERS = {"w": "week", "m": "month", "q": "quarter", "y": "year"}
_LAST = re.compile(
    rf"(?:last|past|previous|recent|latest)\s+(?:{COUNT}\s+)?(?P<unit>{_ENGLISH_UNIT})s?\b"
    rf"|(?:最近|近|过去|前)\s?(?P<n2>\d{{1,3}}|{HAN})\s?(?P<unit2>{_CHINESE_UNIT})"
    rf"|(?P<n3>(?<!\d)\d{{1,3}}|{HAN})(?=[- ]?(?P<unit3>{_ENGLISH_UNIT})[- ](?:high|low|range)"
    rf"|(?P<unit4>{_CHINESE_UNIT})(?:内|以来|的)?(?:最高|最低|新高|新低|高点|低点))"
)
_OF = re.compile(rf"\s(?:of|in)\s(?:the )?{BLANK}")
_NEWEST = re.compile(
    r"\b(?:latest|newest|most recent(?:ly)?|current(?:ly)?|last|now|today|as of)\b"
    r"|\bend(?: of\b(?! (?:the )?(?:day|session|trading))|(?= ?\0))"
    r"|最新|最近|目前|当前|今天|今日|现在|最后" + rf"|(?<={BLANK})[底末]"
)
_NEWEST_ROWS = re.compile(
    rf"(?:last|latest|newest|most recent)\s+{COUNT}\s+(?:rows?|records?|entries|values?|points?)"
    rf"|(?:最近|最后|最新)\s?(?P<n2>\d{{1,3}}|{HAN})\s?[条行笔个天日]"
)
_OLDEST = re.compile(
    r"\b(?:earliest|oldest|first)\b|\b(?:beginning|start)(?: of\b|(?= ?\0))"
    r"|最早|最初|最开始|第一[天个]|首[个日]"
    rf"|(?<={BLANK})初"
)


@dataclass(frozen=True, slots=True)
class Periods:
    """What a text asks for by counting. `newest` and `oldest` are how many of these rows, with
    `each` those of each week, month, quarter or year. `plain` is the text with blanks in place of
    what was read.
    """

    periods: tuple[Period, ...]
    newest: int
    oldest: int
    plain: str
    each: str = ""


def periods_of(plain: str, extreme: re.Pattern[str]) -> Periods:
    """What a text without dates asks for. `extreme` finds words for the highest and the lowest."""
    periods: list[Period] = []
    newest = oldest = 0
    for found in (agos := [*_AGO.finditer(plain)]):
        unit = _UNITS[found["unit"] or found["unit2"]]
        count = number_of(found["n"] or found["n2"] or "one")
        periods.append(Period("ago", min(count, 999), unit, *found.span()))
    plain = blanked(plain, [found.span() for found in agos])
    for found in (yesterdays := [*_YESTERDAY.finditer(plain)]):
        count = 2 if found["two"] or found["two2"] else 1
        periods.append(Period("ago", count, "row", *found.span()))
    plain = blanked(plain, [found.span() for found in yesterdays])
    each = ""
    for found in (eaches := [*_EACH.finditer(plain)]):
        each = _UNITS[found["unit"] or found["unit2"] or found["unit3"]]
    plain = blanked(plain, [found.span() for found in eaches])
    for found in (calendar := [*_CALENDAR.finditer(plain)]):
        form = (found.lastgroup or "")[:-1]
        said = found[found.lastgroup or ""]
        unit = _LETTERS.get(said) or _UNITS[said]
        periods.append(Period("calendar", int(form == "last"), unit, *found.span()))
        if form == "to":
            newest = oldest = 1
    plain = blanked(plain, [found.span() for found in calendar])
    last: list[tuple[int, int]] = []
    for found in _LAST.finditer(plain):
        said = found["n"] or found["n2"] or found["n3"]
        count = min(number_of(said), 999) if said else 1
        if found[0].startswith("前") and extreme.search(plain, 0, found.start()):
            continue  # `最高的前三天` are three days, not the last three
        unit = _UNITS[found["unit"] or found["unit2"] or found["unit3"] or found["unit4"]]
        last.append(found.span())
        if unit in ("row", "day") and _OF.match(plain, found.end()):
            newest = max(newest, count)  # `the last two days of June`
        else:
            periods.append(Period("last", count, unit, *found.span()))
    plain = blanked(plain, last)
    for found in _NEWEST_ROWS.finditer(plain):
        newest = max(newest, number_of(found["n"] or found["n2"]))
    has_last = any(period.form == "last" for period in periods)
    if not has_last and not newest and _asks(_NEWEST, plain):
        newest = 1
    if _asks(_OLDEST, plain):
        oldest = 1
    periods = [replace(one, is_excluded=is_excluded(plain, one.place, one.end)) for one in periods]
    return Periods(tuple(periods), min(newest, MOST), oldest, plain, each)


def _asks(words: re.Pattern[str], plain: str) -> bool:
    return any(not is_excluded(plain, *found.span()) for found in words.finditer(plain))

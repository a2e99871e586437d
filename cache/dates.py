"""Reads dates in the cells of a table, and compares them.

A text with a year that can mean nothing else (`2024-01-02 15:00`, `2024年1月`, `2024Q1`,
`2 Jan 2024`) is a date in any column. Digits (`20240102`, `202401`, `2024`, Unix time from seconds
to nanoseconds) and times of day are dates only in a column that is named like a time, because other
numbers may rise by chance. `01/02/2024` is never a date, because its month is unknown.
"""

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

_YEAR = r"((?:1[6-9]|2[01])\d\d)"
_TIME = r"(?:[T\s]+(\d\d?):(\d\d)(?::(\d\d))?)?"
_DAY = re.compile(rf"{_YEAR}[-/.年](\d\d?)[-/.月](\d\d?)日?{_TIME}")
_MONTH = re.compile(rf"{_YEAR}(?:[-/](\d\d?)|年(\d\d?)月份?)")
_QUARTER = re.compile(
    rf"{_YEAR}(?:[-/ ]?[Qq]([1-4])|年?第?(?:[1一]-)?([1-4一二三四])季度?)|[Qq]([1-4])[-/ ]?{_YEAR}"
)
_YEAR_ALONE = re.compile(rf"{_YEAR}年度?")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAMED_MONTH = rf"({'|'.join(_MONTHS)})[a-z]*\.?"
_IN_ENGLISH = re.compile(
    rf"(?:[a-z]+,? )?(?:(\d\d?)[ -]{_NAMED_MONTH}[ ,-]+|{_NAMED_MONTH} (?:(\d\d?),? )?)"
    rf"{_YEAR}{_TIME}(?: (?:gmt|utc|\+0000))?",
    re.IGNORECASE,
)
_DAY_S = 86_400
_CLOCK = re.compile(r"(\d\d?):(\d\d)(?::(\d\d(?:\.\d+)?))?")
_DIGITS = re.compile(r"(\d+)(?:\.(\d+))?")
_HAN_DIGITS = {"一": "1", "二": "2", "三": "3", "四": "4"}

_UNIX_DIGITS = frozenset({9, 10, 12, 13, 15, 16, 18, 19})
"""How many digits Unix times from 1973 to 2286 have, in seconds, ms, us and ns."""

_TIME_WORDS = frozenset(
    [
        *("at", "date", "datetime", "day", "epoch", "month", "period", "quarter"),
        *("t", "time", "timestamp", "ts", "unix", "utc", "week", "year"),
    ]
)
_TIME_NAME = re.compile(
    "(?:日期|时间|时刻|月份|年份|年度|季度|年月|报告期|报告日|公告日|(?<![个\\d])交易日)$"
)
_TIME_NAMES = frozenset("日月年季期周")
_WORD = re.compile("[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


class Date(NamedTuple):
    """A date. Only dates of one kind can be compared."""

    kind: str
    at: float


@lru_cache(4_096)
def is_time_name(name: str) -> bool:
    """Whether a column's last word names a time, as in `tradeDate` or `净值日期`."""
    name = name[-64:].strip()
    words = _WORD.findall(name)
    named = bool(words) and name.endswith(words[-1]) and words[-1].lower() in _TIME_WORDS
    return named or name in _TIME_NAMES or _TIME_NAME.search(name) is not None


def date_of(text: str, *, named: bool) -> Date | None:
    """The date in a cell, or None; `named` says whether its column is named like a time."""
    if text[4:5] == "-":
        try:
            return _at(datetime.fromisoformat(text))
        except ValueError:
            pass  # a month alone, or a form that is not ISO's
    if text.replace(".", "", 1).isdigit():
        return _of_digits(text) if named else None
    if named and (clock := _CLOCK.fullmatch(text)):
        hours, minutes, seconds = clock.groups("0")
        return Date("clock", int(hours) * 3_600 + int(minutes) * 60 + float(seconds))
    try:
        return _in_words(text)
    except ValueError:  # a 13th month, a 31st of June
        return None


def span_of(text: str) -> tuple[float, float] | None:
    """When the day, week, month, quarter or year that a text names begins, and when the next one
    does, as `Date.at` of the kind `day`. None for a time of day and for what is no date.
    """
    if text.isdecimal() and len(text) <= 8 and _is_calendar(text):
        parts = [part for part in (text[:4], text[4:6], text[6:]) if part]
        text = "-".join(parts) if len(parts) > 1 else f"{text}年"
    found = date_of(text, named=False)
    if found is None or found.kind != "day" or ":" in text or found.at % _DAY_S:
        return None
    if not (months := _months(text)):
        return found.at, found.at + _DAY_S * (7 if text[4:6] == "-W" and len(text) == 8 else 1)
    first = datetime.fromtimestamp(found.at, UTC)
    years, month = divmod(first.month - 1 + months, 12)
    return found.at, first.replace(year=first.year + years, month=month + 1).timestamp()


def _months(text: str) -> int:
    """How many whole months a date stands for; 0 for a day or a week."""
    if _YEAR_ALONE.fullmatch(text):
        return 12
    if _QUARTER.fullmatch(text):
        return 3
    english = _IN_ENGLISH.fullmatch(text)
    return int(bool(_MONTH.fullmatch(text) or (english and not (english[1] or english[4]))))


def _in_words(text: str) -> Date | None:
    """Raises `ValueError` for a date that does not exist in the calendar."""
    if found := _DAY.fullmatch(text):
        return _date(*found.groups("0"))
    if found := _MONTH.fullmatch(text):
        return _date(found[1], found[2] or found[3])
    if found := _QUARTER.fullmatch(text):
        quarter = found[2] or found[3] or found[4]
        month = 3 * int(_HAN_DIGITS.get(quarter, quarter)) - 2
        return _date(found[1] or found[5], month)
    if found := _YEAR_ALONE.fullmatch(text):
        return _date(found[1])
    if found := _IN_ENGLISH.fullmatch(text):
        month = _MONTHS.index((found[2] or found[3]).lower()) + 1
        return _date(found[5], month, found[1] or found[4] or 1, *found.groups("0")[5:])
    return None


def _date(
    year: str,
    month: str | int = 1,
    day: str | int = 1,
    hour: str = "0",
    minute: str = "0",
    second: str = "0",
) -> Date:
    """Read as UTC. Within one column any zone gives the same order."""
    date, time = (int(year), int(month), int(day)), (int(hour), int(minute), int(second))
    return _at(datetime(*date, *time, tzinfo=UTC))


def _at(time: datetime) -> Date:
    return Date("day", (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp())


def _of_digits(text: str) -> Date | None:
    found = _DIGITS.fullmatch(text)
    if found is None or len(found[1]) > 19:
        return None
    digits, fraction = found[1], (found[2] or "").strip("0")
    if len(digits) in _UNIX_DIGITS or (not fraction and _is_calendar(digits)):
        return Date("number", float(text) if fraction else int(digits))
    return None


def _is_calendar(digits: str) -> bool:
    """Whether digits are a year, alone or with a month, a day and a time."""
    if len(digits) not in (4, 6, 8, 12, 14) or not "1600" <= digits[:4] < "2200":
        return False
    month, day = digits[4:6], digits[6:8]
    return (not month or "01" <= month <= "12") and (not day or "01" <= day <= "31")

"""Days as a question names them: from one day to another, with a year or in each year."""

from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Literal

Opening = Literal["", "before", "until", "since", "after"]
"""The days beside some that are meant as well; `before` and `after` mean these days only."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Days beside others: `count` trading days, Mondays (`0`) to Sundays (`6`), weeks, months or
    years before them, or behind them.
    """

    count: int
    unit: str | int
    is_before: bool


@dataclass(frozen=True, slots=True)
class Span:
    """Days from `start` to `end`, both included, or if it `is_excluded` all others. With
    `neighbours` these are meant as well.
    """

    start: date
    end: date
    is_excluded: bool = False
    neighbours: Neighbours | None = None

    def opened(self, opening: Opening) -> "Span":
        """The span with an open end."""
        if opening == "before":
            return replace(self, start=date.min, end=self.start - timedelta(days=1))
        if opening == "until":
            return replace(self, start=date.min)
        if opening == "since":
            return replace(self, end=date.max)
        if opening == "after":
            return replace(self, start=self.end + timedelta(days=1), end=date.max)
        return self


@dataclass(frozen=True, slots=True)
class Recurring:
    """Days of a year that is not named, from `first` to `last`, as `-06-15`. They stand from
    `place` to `end`. The rest is as in `Span`.
    """

    first: str
    last: str
    place: int
    end: int
    opening: Opening = ""
    is_excluded: bool = False
    neighbours: Neighbours | None = None

    def of(self, year: int) -> Span:
        """These days in a year from 2 to 9998, without an open end. A 31st of June is its last
        day.
        """
        start, end = (
            min(date(year, int(text[1:3]), 1) + timedelta(days=int(text[4:]) - 1), last)
            for text in (self.first, self.last)
            for last in [end_of(year, int(text[1:3]))]
        )
        return Span(start, end, self.is_excluded, self.neighbours)


def end_of(year: int, month: int) -> date:
    """The last day of a month."""
    if month == 12:  # the year 9999 has no following one
        return date(year, 12, 31)
    return date(year, month + 1, 1) - timedelta(days=1)

"""Finds the rows of the days that a question asks for."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import timedelta

from gateway.compress.columns import Named
from gateway.compress.dates import Day, Recurring, Span
from gateway.compress.decoded import Table
from gateway.compress.periods import MOST, Period
from gateway.compress.question import Question


class Days:
    """The days of a table. `named` are the columns that the question names."""

    def __init__(self, table: Table, question: Question, named: Sequence[Named]) -> None:
        self._table = table
        self._question = question
        self._named = named
        self._understood: list[str] = []

    def asked(self) -> tuple[set[int], list[str]]:
        """Rows of the days that the question asks for, beside days that are missing the nearest;
        and what these days are.
        """
        question, table = self._question, self._table
        newest = max(table.days, default="") if table.dated is not None else ""
        if not newest or not (question.spans or question.periods or question.recurring):
            return set(), []
        found: set[int] = set()
        near: set[int] = set()
        for span in question.spans:
            self._understood.append(_said(span))
            found |= self._between(span)
            near |= {*self._beside(span)}
        for period in question.periods:
            if not self._is_of_column(period):
                rows, beside = self._counted(period, newest)
                found |= rows
                near |= beside
        recurring = [one for one in question.recurring if not self._is_of_column(one)]
        if found and recurring:
            both = found & {place for one in recurring for place in self._of_each_year(one)}
            if both:  # `June of this year`
                years = sorted({int(table.days[place][:4]) for place in both})
                self._understood = [_said(one.of(year)) for year in years for one in recurring]
                return both, self._understood
        for one in recurring:
            found |= self._recurring(one)
        return found or near, self._understood

    def newest(self, count: int, within: Sequence[int], *, oldest: bool = False) -> list[int]:
        """The newest rows by date, the newest first; without dates the last ones."""
        if self._table.dated is None:
            return [*within[:count]] if oldest else [*within[-count:]][::-1]
        days = self._table.days
        dated = [(day, place) for place in within if (day := days[place])]
        dated.sort(reverse=not oldest)
        return [place for _, place in dated[:count]]

    def _is_of_column(self, one: Period | Recurring) -> bool:
        """Whether the words are a part of a column's name, as those of `近3月`."""
        return any(
            named.place <= one.place
            and one.end <= named.end
            and named.end - named.place > one.end - one.place
            for named in self._named
        )

    def _counted(self, period: Period, newest: str) -> tuple[set[int], set[int]]:
        """The rows of days counted from the newest one, and those beside such days."""
        days = self._table.days
        found: set[int] = set()
        near: set[int] = set()
        is_of_rows = period.unit in ("row", "day")
        if (period.form, period.unit) != ("ago", "row"):
            with suppress(ValueError, OverflowError):  # no day after all, or one before all years
                span = period.before(Day.fromisoformat(newest))
                found, near = self._between(span), {*self._beside(span)}
                if period.form != "last" or not is_of_rows:
                    self._understood.append(_said(span))
        if period.form == "ago":
            found = found or near
            if is_of_rows:
                there = sorted({day for day in days if day}, reverse=True)[period.count :][:1]
                found = found | {place for place, day in enumerate(days) if day in there}
                self._understood += there
        elif period.form == "last" and is_of_rows:
            found = found | {*self.newest(min(period.count, MOST), range(len(days)))}
            self._understood.append(f"{period.count} newest rows")
        elif period.form == "calendar" and len(found) < 2:  # the newest row may be of that month
            found = found | {*self.newest(1, range(len(days)))}
        return found, near

    def _recurring(self, one: Recurring) -> set[int]:
        """Rows of days without a year: a day of each year, else the days of the newest year."""
        days = self._table.days
        there = self._of_each_year(one)
        is_open = one.since or one.until
        if not there or self._question.every_year or (one.first == one.last and not is_open):
            self._understood.append(_said_of_year(one))
            return there
        span = one.of(max(int(days[place][:4]) for place in there))
        if is_open:
            span = Span(Day.min if one.until else span.start, Day.max if one.since else span.end)
        self._understood.append(_said(span))
        return self._between(span)

    def _of_each_year(self, one: Recurring) -> set[int]:
        days = self._table.days
        return {
            place
            for place, day in enumerate(days)
            if one.first <= day[4:] <= one.last
            and "0001" <= day[:4] <= "9999"
            and day[:4].isdecimal()
        }

    def _between(self, span: Span) -> set[int]:
        first, last = span.start.isoformat(), span.end.isoformat()
        days = self._table.days
        return {place for place, day in enumerate(days) if first <= day <= last and day}

    def _beside(self, span: Span) -> Iterator[int]:
        start, end = span.start.isoformat(), span.end.isoformat()
        days = [(day, place) for place, day in enumerate(self._table.days) if day]
        if before := [one for one in days if one[0] < start]:
            yield max(before)[1]
        if after := [one for one in days if one[0] > end]:
            yield min(after)[1]


def _said(span: Span) -> str:
    """A span as a year, a month, a day or a range."""
    start, end = span.start, span.end
    if start == end:
        return start.isoformat()
    if start == Day.min:
        return f"to {end}"
    if end == Day.max:
        return f"from {start}"
    is_whole = start.day == 1 and (end + timedelta(days=1)).day == 1
    if is_whole and (start.year, start.month) == (end.year, end.month):
        return start.isoformat()[:7]
    if is_whole and start.year == end.year and (start.month, end.month) == (1, 12):
        return start.isoformat()[:4]
    return f"{start} to {end}"


def _said_of_year(one: Recurring) -> str:
    """Days of each year: `06-15`, `06` or `06-01 to 06-20`, and that they are of each year."""
    first, last = one.first[1:], one.last[1:]
    if first == last:
        return f"{first} of each year"
    if first[:2] == last[:2] and (first[3:], last[3:]) == ("01", "31"):
        return f"month {first[:2]} of each year"
    return f"{first} to {last} of each year"

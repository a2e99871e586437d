"""Finds the rows of the days that a question asks for."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import date, timedelta
from heapq import nlargest, nsmallest

from gateway.compress.columns import Named
from gateway.compress.decoded import Table
from gateway.compress.periods import MOST, Period, ago
from gateway.compress.question import Question
from gateway.compress.spans import Neighbours, Recurring, Span


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
            if span.is_excluded:
                continue
            if span.neighbours is not None:
                found |= self._with_neighbours(span, span.neighbours)
                continue
            self._understood.append(_said(span))
            found |= self._between(span)
            near |= {*self._beside(span)}
        for period in question.periods:
            if not (period.is_excluded or self._is_of_column(period)):
                rows, beside = self._counted(period, newest)
                found |= rows
                near |= beside
        recurring = [
            one
            for one in question.recurring
            if not (one.is_excluded or one.neighbours or self._is_of_column(one))
        ]
        if found and recurring:
            both = found & {place for one in recurring for place in self._of_each_year(one)}
            years = sorted({int(table.days[place][:4]) for place in both})
            spans = [one.of(year).opened(one.opening) for year in years for one in recurring]
            if both := found & {place for span in spans for place in self._between(span)}:
                self._understood = [_said(span) for span in spans]  # `June of this year`
                return both, self._understood
        for one in recurring:
            found |= self._recurring(one)
        for one in question.recurring:
            if one.neighbours is not None and not one.is_excluded:
                for span in self._of_years(one):
                    found |= self._with_neighbours(span, one.neighbours)
        return found or near, self._understood

    def excluded(self) -> tuple[set[int], list[str]]:
        """Rows of the days that the question excludes, and what these days are."""
        question = self._question
        newest = max(self._table.days, default="") if self._table.dated is not None else ""
        spans = [span for span in question.spans if span.is_excluded]
        periods: list[tuple[Period, Span]] = []
        for period in question.periods:
            if newest and period.is_excluded and period.unit != "row":
                with suppress(ValueError, OverflowError):
                    periods.append((period, period.before(date.fromisoformat(newest))))
        for one in question.recurring:
            if one.is_excluded and not self._is_of_column(one):
                years = self._of_years(one)
                for period, span in periods:  # `except June` of `this year`
                    if 0 <= one.place - period.end <= 1:
                        years = [year for year in years if span.start <= year.start <= span.end]
                        periods.remove((period, span))
                        break
                spans += years
        spans += (span for period, span in periods if not self._is_of_column(period))
        found = [(span, self._between(span)) for span in spans] if newest else []
        rows = {place for _, places in found for place in places}
        return rows, [f"not {_said(span)}" for span, places in found if places]

    def _of_years(self, one: Recurring) -> list[Span]:
        """Days without a year, in each year between the oldest and the newest row, at most 50."""
        years = [int(day[:4]) for day in self._table.days if day[:4].isdecimal()]
        if not years:
            return []
        first, last = max(min(years), 2), min(max(years), 9_998)
        spans = map(one.of, range(max(first, last - MOST + 1), last + 1))
        days = [day for day in self._table.days if day]
        oldest, newest = min(days), max(days)
        return [s for s in spans if s.end.isoformat() >= oldest and s.start.isoformat() <= newest]

    def _with_neighbours(self, span: Span, near: Neighbours) -> set[int]:
        """Rows of a day and of the days beside it that the question asks for."""
        reached = self._reached(span, near)
        if reached is None:
            self._understood.append(_said(span))
            return self._between(span) or {*self._beside(span)}
        if isinstance(near.unit, int):
            both = [Span(reached, reached), Span(span.start, span.end)]
            self._understood += map(_said, both)
            return {place for one in both for place in (self._between(one) or {*self._beside(one)})}
        # Of a month not its own days; of a day not itself if the best one beside it is asked for.
        is_of_day = span.start == span.end and not self._question.extremes
        if near.is_before:
            whole = Span(reached, span.end if is_of_day else span.start - timedelta(days=1))
        else:
            whole = Span(span.start if is_of_day else span.end + timedelta(days=1), reached)
        self._understood.append(_said(whole))
        return self._between(whole)

    def _reached(self, span: Span, near: Neighbours) -> date | None:
        """The farthest day of those beside a span; None if it is before or behind all rows."""
        start = span.start if near.is_before else span.end
        sign = 1 if near.is_before else -1
        if near.unit == "row":
            edge = start.isoformat()
            days = {day for day in self._table.days if day and (day < edge) == near.is_before}
            there = sorted(days - {edge}, reverse=near.is_before)[: min(near.count, MOST)]
            with suppress(ValueError):  # cells may be no days of the calendar
                return date.fromisoformat(there[-1]) if there else None
            return None
        if isinstance(near.unit, int):
            apart = (sign * (start.weekday() - near.unit) - 1) % 7 + 1 + 7 * (near.count - 1)
            return start - timedelta(days=sign * apart)
        is_of_day = span.start == span.end
        edge_day = start if is_of_day or near.is_before else start + timedelta(days=1)
        with suppress(ValueError, OverflowError):
            there_day = ago(edge_day, sign * near.count, near.unit)
            return there_day if is_of_day or near.is_before else there_day - timedelta(days=1)
        return None

    def newest(
        self, count: int, within: Sequence[int], *, oldest: bool = False, each: str = ""
    ) -> list[int]:
        """The newest or oldest rows by date, these first; without dates the last or first ones.
        With `each` those of each week, month, quarter or year, the newest first, at most 50.
        """
        if self._table.dated is None:
            return [*within[:count]] if oldest else [*within[-count:]][::-1]
        days = self._table.days
        dated = [(day, place) for place in within if (day := days[place])]
        if each:
            dated.sort(reverse=not oldest)
            taken: defaultdict[str, list[int]] = defaultdict(list)
            for day, place in dated:
                if len(there := taken[_part(day, each)]) < count:
                    there.append(place)
            return [place for part in sorted(taken, reverse=True) for place in taken[part]][:MOST]
        return [place for _, place in (nsmallest if oldest else nlargest)(count, dated)]

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
                span = period.before(date.fromisoformat(newest))
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
            count = min(period.count, MOST)
            found = found | {*self.newest(count, range(len(days)))}
            self._understood.append(counted(count, "newest"))
        elif period.form == "calendar" and len(found) < 2:  # the newest row may be of that month
            found = found | {*self.newest(1, range(len(days)))}
        return found, near

    def _recurring(self, one: Recurring) -> set[int]:
        """Rows of days without a year: a day of each year, else the days of the newest year."""
        days = self._table.days
        there = self._of_each_year(one)
        if not there or self._question.every_year or (one.first == one.last and not one.opening):
            self._understood.append(_said_of_year(one))
            return there
        span = one.of(max(int(days[place][:4]) for place in there)).opened(one.opening)
        self._understood.append(_said(span))
        return self._between(span)

    def _of_each_year(self, one: Recurring) -> set[int]:
        days = self._table.days
        return {
            place
            for place, day in enumerate(days)
            if one.first <= day[4:] <= one.last
            and "0002" <= day[:4] <= "9998"
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


def _part(day: str, unit: str) -> str:
    """The week, month, quarter or year of a day, as a text that sorts like the days."""
    if unit == "week":
        with suppress(ValueError):
            year, week, _ = date.fromisoformat(day).isocalendar()
            return f"{year:04}-{week:02}"
    if unit == "quarter":
        return f"{day[:5]}{(int(day[5:7]) + 2) // 3}"
    return day[:4] if unit == "year" else day[:7]


def counted(count: int, word: str, each: str = "") -> str:
    """`newest row`, `5 newest rows` or `newest row of each month`."""
    rows = f"{count} {word} rows" if count > 1 else f"{word} row"
    return f"{rows} of each {each}" if each else rows


def _said(span: Span) -> str:
    """A span as a year, a month, a day or a range."""
    start, end = span.start, span.end
    if start == end:
        return start.isoformat()
    if start == date.min:
        return f"to {end}"
    if end == date.max:
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

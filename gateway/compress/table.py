"""Shortens a table: the rows and columns that a question asks for, then the ends and the middle.

The shortened table is a note, lines of statistics, a header and rows. The rows keep their order. A
cell is shown as it is written or left out with its column, except that a long text is cut.

The choice is made in four steps, each as far as the budget allows: rows that the question asks for,
with the columns that it names; the other columns; statistics; rows that are evenly spaced.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise

from cache import Entry
from gateway.compress.budget import Budget
from gateway.compress.cells import number
from gateway.compress.choice import Choice
from gateway.compress.columns import is_code
from gateway.compress.cut import MORE, Compressed
from gateway.compress.decoded import Table, spaced
from gateway.compress.forms import CELL_CHARS, cell, cheapest
from gateway.compress.question import Question

SHARE = 0.7
"""The share of a budget within which columns are added to the rows that a question asks for."""

STATISTICS = 8
"""The most lines of statistics."""

NAMED, NAME_CHARS = 6, 24
"""How many of the columns that are left out are named, and how much of a name is shown."""


def shorten_table(
    entry: Entry, meanings: Mapping[str, str], budget: Budget, question: Question | None
) -> Compressed:
    """The table of an entry within the budget. `meanings` describe columns."""
    table = Table.of(entry)
    try:
        chosen = Choice.of(table, meanings, question)
        return _Fitting(table, chosen, budget).best()
    finally:
        table.free()


class _Fitting:
    """Finds the fullest text that fits into a budget. Sizes of lines are added up on the way; the
    whole text is counted at the end.
    """

    def __init__(self, table: Table, choice: Choice, budget: Budget) -> None:
        self._table = table
        self._choice = choice
        self._budget = budget
        self._form = cheapest(table, choice.columns, budget)
        self._sizes: dict[tuple[str, ...], Callable[[int], int]] = {}

    def best(self) -> Compressed:
        table, choice = self._table, self._choice
        count, most = len(table), self._budget.most_bytes
        whole = range(count)
        is_wide = self._form.has_nulls and count * len(table.columns) > most
        if not count or (len(table.line(0)) * count < most and not is_wide):
            text = self._text(whole, table.columns, [])
            if self._budget.fits(text):
                is_cut = MORE in text and any(len(table.line(at)) > CELL_CHARS for at in whole)
                made = Compressed(text, self._form.name, rows_shown=count, whole=not is_cut)
                return replace(made, columns_shown=len(table.columns))
        columns = tuple(choice.columns[: max(choice.asked, 1)])
        first = [*choice.first, *choice.rows, 0][:1]
        fit = _largest(len(columns), lambda n: self._fits(first, columns[:n]))
        columns = columns[: max(fit, 1)]
        rows = self._asked_rows(columns)
        columns = self._more_columns(rows, columns)
        stats = self._statistics(rows, columns)
        context = self._context(rows, columns, stats)
        text, shown = self._within(rows, columns, stats, context)
        return Compressed(
            text,
            self._form.name,
            rows_shown=len(shown),
            columns_shown=len(columns) if shown else 0,
            understood=choice.understood,
        )

    def _asked_rows(self, columns: tuple[str, ...]) -> list[int]:
        """As many as fit of the rows that answer the question, then of those that it is about."""
        first, rows = self._choice.first, self._choice.rows
        most = self._most(first, columns, lambda n: self._fits(first[:n], columns))
        if most < len(first):
            return first[:most]

        def both(count: int) -> list[int]:
            return [*dict.fromkeys([*first, *(rows[at] for at in spaced(len(rows), count))])]

        return both(self._most(rows, columns, lambda n: self._fits(both(n), columns)))

    def _most(
        self, rows: Sequence[int], columns: tuple[str, ...], fits: Callable[[int], bool]
    ) -> int:
        """How many of the rows fit. Four of them tell how many can't."""
        few = [rows[at] for at in spaced(len(rows), 4)]
        average = sum(map(self._size_with(columns), few)) / max(len(few), 1)
        return _largest(min(len(rows), int(1.5 * self._budget.limit / max(average, 1)) + 2), fits)

    def _more_columns(self, rows: Sequence[int], columns: tuple[str, ...]) -> tuple[str, ...]:
        shown_already = {*columns}
        others = [name for name in self._choice.columns if name not in shown_already]
        shown = rows or spaced(len(self._table), 4)

        def both(count: int) -> tuple[str, ...]:
            kept = {*columns, *others[:count]}
            return tuple(name for name in self._table.columns if name in kept)

        most = _largest(
            len(others), lambda n: self._fits(shown, both(n), SHARE * self._budget.limit)
        )
        return both(most)

    def _statistics(self, rows: Sequence[int], columns: tuple[str, ...]) -> list[str]:
        """A line for each column that is shown, except dates and codes: those that are asked for
        first, then numbers.
        """
        asked, table = {*self._choice.measured}, self._table
        names = [name for name in columns if name != table.dated and not is_code(name)]
        names.sort(key=lambda name: (name not in asked, not table.is_number(name)))
        lines: list[str] = []
        size = self._size_of_head(rows, columns)
        size += sum(map(self._size_with(columns), rows))
        for name in names[:STATISTICS]:
            line = _statistics_of(table, name)
            size += self._budget.size(f"{line}\n")
            if size > (0.95 if name in asked else SHARE) * self._budget.limit:
                break
            lines.append(line)
        return lines

    def _context(
        self, rows: Sequence[int], columns: tuple[str, ...], stats: Sequence[str]
    ) -> list[int]:
        """Evenly spaced rows that fit beside the others."""
        count = len(self._table)
        left = self._budget.limit - sum(self._budget.size(f"{line}\n") for line in stats)
        most = self._most(
            range(count),
            columns,
            lambda n: self._fits({*rows, *spaced(count, n)}, columns, left),
        )
        return spaced(count, most)

    def _within(
        self,
        rows: Sequence[int],
        columns: tuple[str, ...],
        stats: list[str],
        context: Sequence[int],
    ) -> tuple[str, Sequence[int]]:
        """The text, without what is too much after all, the least important things first."""
        for extra in (context, context[::2], context[::4], ()):
            text = self._text({*rows, *extra}, columns, stats)
            if self._budget.fits(text):
                return text, sorted({*rows, *extra})
        for some in (rows, rows[: len(rows) // 2], rows[:1]):
            text = self._text(some, columns, [])
            if self._budget.fits(text):
                return text, sorted(some)
        text = self._note((), ())
        while not self._budget.fits(text):  # names of columns may have any length
            text = text[: len(text) // 2]
        return text, ()

    def _fits(
        self, rows: Collection[int], columns: tuple[str, ...], most: float | None = None
    ) -> bool:
        """Whether note, header and rows take at most so much, or the whole budget. Of rows that do
        not fit only the first ones are written.
        """
        left = self._budget.limit if most is None else most
        size_of = self._size_with(columns)
        for place in rows:
            left -= size_of(place)
            if left < 0:
                return False
        return self._size_of_head(rows, columns) <= left

    def _size_of_head(self, rows: Collection[int], columns: tuple[str, ...]) -> int:
        header = self._form.header(columns, len(rows))
        return self._budget.size(f"{self._note(sorted(rows), columns)}\n{header}\n")

    def _size_with(self, columns: tuple[str, ...]) -> Callable[[int], int]:
        """How much of the budget each row takes with these columns."""
        if columns not in self._sizes:
            line, shown, size = self._form.row(columns), self._table.shown, self._budget.size
            self._sizes[columns] = cache(lambda place: size(f"{line(shown(place))}\n"))
        return self._sizes[columns]

    def _text(self, rows: Iterable[int], columns: Sequence[str], stats: Sequence[str]) -> str:
        places, line = sorted(rows), self._form.row(columns)
        lines = [line(self._table.shown(place)) for place in places]
        head = [self._note(places, columns), *stats, self._form.header(columns, len(places))]
        return "\n".join([*filter(None, head), *lines])

    def _note(self, rows: Sequence[int], columns: Sequence[str]) -> str:
        count = len(self._table)
        if len(rows) == count and len(columns) == len(self._table.columns):
            return ""
        text = f"# {_which(rows, count)}" if rows else f"# no row of {count} fits"
        shown = {*columns}
        left = [name for name in self._table.columns if name not in shown]
        if not left:
            return text
        named = ", ".join(_one_line(name) for name in left[:NAMED])
        more = f" and {len(left) - NAMED} more" if len(left) > NAMED else ""
        return f"{text}; left out: {named}{more}"


def _statistics_of(table: Table, name: str) -> str:
    """Of numbers the least, greatest, first and last as they are written, and the mean to six
    digits; of other columns how many values are distinct. Cells that do not count are counted.
    """
    cells = table.column(name)
    if not table.is_number(name):
        there = [one for one in cells if one is not None]
        text = f"# {_one_line(name)}: {len({*map(repr, there)})} distinct"
        return f"{text}, {len(cells) - len(there)} null" if len(there) < len(cells) else text
    try:
        mean, missing = sum(cells) / len(cells), 0
        places = [cells.index(min(cells)), cells.index(max(cells)), 0, len(cells) - 1]
    except TypeError:  # texts or nulls are among them
        numbers = [(value, at) for at, c in enumerate(cells) if (value := number(c)) is not None]
        places = [min(numbers)[1], max(numbers)[1], numbers[0][1], numbers[-1][1]]
        mean = sum(value for value, _ in numbers) / len(numbers)
        missing = len(cells) - len(numbers)
    least, greatest, first, last = (cell(table.shown(place).get(name)) for place in places)
    text = f"# {_one_line(name)}: min {least}, max {greatest}, mean {mean:.6g}"
    text = f"{text}, first {first}, last {last}"
    return f"{text}, no number in {missing}" if missing else text


def _one_line(name: str) -> str:
    """A column's name for a note."""
    return " ".join(name[:NAME_CHARS].split())


def _largest(most: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to `most` that fits, if all smaller ones do; 0 always does."""
    if most and fits(most):
        return most
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low


def _which(rows: Sequence[int], count: int) -> str:
    """`row 239 of 250` or `rows 1-3, 239 of 250`, numbered from 1; of more than four ranges only
    how many rows they are: `11 of 250 rows`.
    """
    breaks = [at for at, (one, then) in enumerate(pairwise(rows), 1) if then != one + 1]
    starts, ends = [0, *breaks], [*breaks, len(rows)]
    if len(starts) > 4:
        return f"{len(rows)} of {count} rows"
    parts = []
    for start, end in zip(starts, ends, strict=True):
        first, last = rows[start] + 1, rows[end - 1] + 1
        parts.append(f"{first}" if first == last else f"{first}-{last}")
    return f"row{'s' if len(rows) > 1 else ''} {', '.join(parts)} of {count}"

"""What a question asks of a table: which of its rows and columns."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from heapq import nlargest, nsmallest

from cache.dates import is_time_name
from gateway.compress.budget import check_time
from gateway.compress.cells import COMPARE, number
from gateway.compress.columns import Named, named_columns, sure
from gateway.compress.dates import Span, is_negated, said
from gateway.compress.decoded import Table
from gateway.compress.measures import Extreme
from gateway.compress.question import Question
from gateway.compress.words import places

FEW = 10
"""So few rows that a question names are all part of its answer."""

CELLS = 200
"""The most cells of a column that are found in a question, the longest first."""

KEYS = 3
"""The most columns that tell rows apart, and are shown beside those that a question names."""

UNDERSTOOD, UNDERSTOOD_CHARS = 8, 80
"""How many parts of a question are said to be understood, and how long each is at most."""

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_FALLS = ("跌", "drop", "decline", "loss")
_KEY_WORDS = {"code", "symbol", "ticker", "name", "item", "indicator", "country", "title"}
_KEY_ENDS = ("代码", "名称", "简称", "项目", "指标", "国家", "商品", "品种", "机构", "股东")


@dataclass(slots=True)
class Choice:
    """What a question asks of a table. `first` rows answer it, `rows` are those that it is about.
    `columns` are all columns, those that are asked for first, of which there are `asked`:
    keys, and those that the question names, if `names_columns`. `understood` says what the rows are
    chosen by.
    """

    first: list[int]
    rows: list[int]
    columns: list[str]
    asked: int
    measured: list[str]
    names_columns: bool = False
    understood: tuple[str, ...] = ()

    @classmethod
    def of(cls, table: Table, meanings: Mapping[str, str], question: Question | None) -> "Choice":
        keys = _keys(table)
        if question is None:
            columns = [*dict.fromkeys([*keys, *table.columns])]
            return cls([], [], columns, len(keys), [])
        named = named_columns(question, table.columns, meanings)
        asked = [one.column for one in sure(named)]
        first, rows, understood = _Rows(table, question, named, keys).chosen()
        measured = [name for name in asked if table.is_number(name)]
        order = [*dict.fromkeys([*keys, *asked, *table.columns])]
        count = len({*keys, *asked})
        return cls(first, rows, order, count, measured, bool(asked), tuple(understood))


def _keys(table: Table) -> list[str]:
    """The columns that tell rows apart: a date, names and codes, else the first column."""
    keys = [table.dated] if table.dated is not None else []
    for name in table.columns:
        if len(keys) == KEYS:
            break
        check_time()
        low = name.lower()
        words = low.replace("_", " ").split()
        is_key = not _KEY_WORDS.isdisjoint(words) or low.endswith(_KEY_ENDS)
        if is_key and name not in keys:
            keys.append(name)
    return keys or [*table.columns[:1]]


class _Rows:
    """Finds the rows that a question asks for."""

    def __init__(
        self, table: Table, question: Question, named: Sequence[Named], keys: Sequence[str]
    ) -> None:
        self._table = table
        self._question = question
        self._named = sure([one for one in named if table.is_number(one.column)])
        self._keys = keys
        self._understood: list[str] = []

    def chosen(self) -> tuple[list[int], list[int], list[str]]:
        """The rows that answer the question, those that it is about, and what they are chosen
        by.
        """
        question = self._question
        wanted: set[int] | None = None
        for found in (self._on_days(), self._with_cells(), self._compared()):
            if found:
                both = found if wanted is None else wanted & found
                wanted = both or found | (wanted or set())
        within: Sequence[int] = range(len(self._table)) if wanted is None else sorted(wanted)
        first: list[int] = []
        for count, word in ((question.newest, "newest"), (question.oldest, "oldest")):
            if count:
                ends = self._at_end(count, within, is_oldest=word == "oldest")
                self._understood.append(f"{count} {word} rows" if count > 1 else f"{word} row")
                if count > 1 and question.extremes:
                    within, wanted = ends, {*ends}  # `the highest of the last five days`
                else:
                    first += ends
        best = [place for extreme in question.extremes for place in self._extreme(extreme, within)]
        first = [*best, *first]
        rest = [] if wanted is None else [*within]
        if len(rest) <= FEW and not first:
            first, rest = rest, []
        understood = [text[:UNDERSTOOD_CHARS] for text in dict.fromkeys(self._understood)]
        return [*dict.fromkeys(first)], rest, understood[:UNDERSTOOD]

    def _at_end(self, count: int, within: Sequence[int], *, is_oldest: bool) -> list[int]:
        """The newest or oldest rows by date, these first; without dates the last or first ones."""
        if self._table.dated is None:
            return [*within[:count]] if is_oldest else [*within[-count:]][::-1]
        days = self._table.days
        dated = ((days[place], place) for place in within if days[place])
        return [place for _, place in (nsmallest if is_oldest else nlargest)(count, dated)]

    def _on_days(self) -> set[int]:
        """Rows of the days that the question names; beside days without rows the nearest ones."""
        question, days = self._question, self._table.days
        newest = max(days, default="")
        if not newest or not (question.spans or question.yearless or question.periods):
            return set()
        spans = [*question.spans]
        for period in question.periods:
            with suppress(ValueError, OverflowError):  # no day after all, or one before all years
                spans.append(period.before(date.fromisoformat(newest)))
        found = {place for span in spans for place in self._between(span)}
        if question.yearless:
            yearless = [*self._of_years(found)] or [*self._of_years(range(len(days)))[-1:]]
            of_years = {place for span in yearless for place in self._between(span)}
            if found & of_years:  # `June of this year`
                spans, found = yearless, found & of_years
            else:
                spans, found = [*spans, *yearless], found | of_years
        self._understood += map(said, spans)
        return found or {place for span in spans for place in self._beside(span)}

    def _of_years(self, within: Iterable[int]) -> list[Span]:
        """The days without a year in each year that has them in some rows."""
        by_year = defaultdict[str, set[str]](set)
        for place in within:
            day = self._table.days[place]
            by_year[day[:4]].add(day)
        found = []
        for year in sorted(filter(str.isdecimal, by_year)):
            for span in self._question.yearless:
                there = span.of(int(year))
                first, last = there.start.isoformat(), there.end.isoformat()
                if any(first <= day <= last for day in by_year[year]):
                    found.append(there)
        return found

    def _between(self, span: Span) -> Iterator[int]:
        first, last = span.start.isoformat(), span.end.isoformat()
        return (at for at, day in enumerate(self._table.days) if first <= day <= last and day)

    def _beside(self, span: Span) -> list[int]:
        first, last = span.start.isoformat(), span.end.isoformat()
        days = [(day, place) for place, day in enumerate(self._table.days) if day]
        before = max((one for one in days if one[0] < first), default=None)
        after = min((one for one in days if one[0] > last), default=None)
        return [place for _, place in filter(None, (before, after))]

    def _with_cells(self) -> set[int]:
        """Rows with a text or a time of day that the question has."""
        text = self._question.text
        found = self._at_clocks()
        for name in self._keys:
            if name == self._table.dated:
                continue
            cells = [*map(_plain, self._table.column(name))]
            short = nlargest(CELLS, (c for c in {*cells} if c and c in text), lambda c: (len(c), c))
            named = [cell for cell in short if self._has(cell)]
            # "Ping An Bank" rather than "Bank"
            longest = {c for c in named if not any(c in other and c != other for other in named)}
            there = {place for place, cell in enumerate(cells) if cell in longest}
            shown = {str(self._table.column(name)[place]).strip() for place in there}
            self._understood += (f"{name} = {cell}" for cell in sorted(shown))
            found |= there
        return found

    def _has(self, cell: str) -> bool:
        text = self._question.text
        return any(not is_negated(text, *place) for place in places(text, cell))

    def _at_clocks(self) -> set[int]:
        clocks = self._question.clocks
        if not clocks:
            return set()
        self._understood += clocks
        timed = {*filter(is_time_name, self._table.columns)}
        return {
            place
            for place, row in enumerate(self._table.rows)
            for name in row.keys() & timed
            if isinstance(cell := row[name], str)
            and cell.rpartition(" ")[2].removeprefix("0").startswith(clocks)
        }

    def _compared(self) -> set[int]:
        wanted: set[int] | None = None
        for one in self._question.comparisons:
            column = self._nearest(one.place)
            if column is None:
                continue
            operator, size = one.operator, one.value
            if one.of_falls and not _is_of_falls(column):
                operator, size = _MIRRORED[operator], -size
            self._understood.append(f"{column} {operator} {size:.15g}")
            test = COMPARE[operator]
            found = {
                place
                for place, cell in enumerate(self._table.column(column))
                if (there := number(cell)) is not None and test(there, size)
            }
            wanted = found if wanted is None else wanted & found
        return wanted or set()

    def _extreme(self, extreme: Extreme, within: Sequence[int]) -> list[int]:
        column = self._nearest(extreme.place)
        if column is None:
            return []
        cells = self._table.column(column)
        numbers = ((value, at) for at in within if (value := number(cells[at])) is not None)
        is_mirrored = extreme.of_falls and not _is_of_falls(column)
        sign = -1 if extreme.is_highest != is_mirrored else 1
        count = f"{extreme.count} " if extreme.count > 1 else ""
        self._understood.append(f"{count}{'highest' if sign < 0 else 'lowest'} {column}")
        best = nsmallest(extreme.count, numbers, key=lambda one: (sign * one[0], one[1]))
        return [place for _, place in best]

    def _nearest(self, place: int) -> str | None:
        """The numeric column that is named nearest to a place of the question."""
        if self._named:
            return min(self._named, key=lambda one: abs(one.place - place)).column
        numeric = (name for name in self._table.columns if name not in self._keys)
        return next(filter(self._table.is_number, numeric), None)


def _is_of_falls(column: str) -> bool:
    """Whether a column has only falls, as positive numbers."""
    low = column.lower()
    return "涨" not in low and any(word in low for word in _FALLS)


def _plain(cell: object) -> str:
    """A text or whole number of at least two characters, in lower case; of others nothing."""
    if isinstance(cell, bool) or not isinstance(cell, str | int):
        return ""
    text = str(cell).strip().lower()
    return text if len(text) > 1 else ""

"""What a question asks of a table: which of its rows and columns."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice

from cache.dates import is_time_name
from gateway.compress.cells import COMPARE, number
from gateway.compress.columns import Named, named_columns, sure
from gateway.compress.decoded import Table
from gateway.compress.question import MOST, Day, Extreme, Question

FEW = 10
"""So few rows that a question names are all part of its answer."""

CELLS = 200
"""The most cells of a column that are found in a question, the longest first."""

KEYS = 3
"""The most columns that tell rows apart, and are shown beside those that a question names."""

_KEY_WORDS = ("code", "symbol", "ticker", "name", "item", "indicator", "country", "title")
_KEY_WORDS_CHINESE = (
    *("代码", "名称", "简称", "项目", "指标", "国家", "商品", "品种", "机构", "股东"),
)


@dataclass(slots=True)
class Choice:
    """What a question asks of a table. `first` rows answer it, `rows` are those that it is about.
    `columns` are all columns, those that are asked for first, of which there are `asked`:
    keys, and those that the question names, if `names_columns`.
    """

    first: list[int]
    rows: list[int]
    columns: list[str]
    asked: int
    measured: list[str]
    names_columns: bool = False

    @classmethod
    def of(cls, table: Table, meanings: Mapping[str, str], question: Question | None) -> "Choice":
        keys = _keys(table)
        if question is None:
            columns = [*dict.fromkeys([*keys, *table.columns])]
            return cls([], [], columns, len(keys), [])
        named = named_columns(question, table.columns, meanings)
        asked = [one.column for one in sure(named)]
        first, rows = _Rows(table, question, named, keys).chosen()
        measured = [name for name in asked if table.is_number(name)]
        order = [*dict.fromkeys([*keys, *asked, *table.columns])]
        return cls(first, rows, order, len({*keys, *asked}), measured, bool(asked))


def _keys(table: Table) -> list[str]:
    """The columns that tell rows apart: a date, names and codes, else the first column."""
    keys = [table.dated] if table.dated is not None else []
    for name in table.columns:
        if len(keys) == KEYS:
            break
        low = name.lower()
        words = low.replace("_", " ").split()
        is_key = any(word in _KEY_WORDS for word in words) or any(
            low.endswith(word) for word in _KEY_WORDS_CHINESE
        )
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
        self._named = [one for one in named if table.is_number(one.column)]
        self._keys = keys

    def chosen(self) -> tuple[list[int], list[int]]:
        table, question = self._table, self._question
        everywhere = range(len(table))
        wanted: set[int] | None = None
        for found in (self._in_spans(), self._with_cells(), self._compared()):
            if found:
                both = found if wanted is None else wanted & found
                wanted = both or found | (wanted or set())
        within = sorted(wanted) if wanted is not None else everywhere
        first = [place for extreme in question.extremes for place in self._extreme(extreme, within)]
        if question.newest:
            first += self._newest(question.newest, within)
        if question.oldest:
            first += self._newest(question.oldest, within, oldest=True)
        rest = [] if wanted is None else list(within)
        if wanted is not None and len(rest) <= FEW and not first:
            first, rest = rest, []
        return [*dict.fromkeys(first)], rest

    def _in_spans(self) -> set[int]:
        question, table = self._question, self._table
        if table.dated is None:
            return set()
        if not (question.spans or question.relative or question.days_of_years):
            return set()
        days = table.days
        spans = [(span.start.isoformat(), span.end.isoformat()) for span in question.spans]
        found: set[int] = set()
        if newest := max(days, default=""):
            for count, unit in question.relative:
                with suppress(ValueError):  # not a day after all
                    start = Day.fromisoformat(newest) - timedelta(days=count * unit - 1)
                    spans.append((start.isoformat(), newest))
                if unit == 1:
                    found |= {*self._newest(min(count, MOST), range(len(days)))}
        for first, last in spans:
            found |= {place for place, day in enumerate(days) if first <= day <= last and day}
        for first, last in question.days_of_years:
            found |= {place for place, day in enumerate(days) if first <= day[4:] <= last}
        if not found:  # the nearest days beside one that is missing
            found = {near for span in spans for near in self._beside(*span)}
        return found

    def _beside(self, start: str, end: str) -> Iterator[int]:
        days = [(day, place) for place, day in enumerate(self._table.days) if day]
        if before := [one for one in days if one[0] < start]:
            yield max(before)[1]
        if after := [one for one in days if one[0] > end]:
            yield min(after)[1]

    def _with_cells(self) -> set[int]:
        """Rows with a text that the question has."""
        text = self._question.text
        found = self._at_clocks()
        for name in self._keys:
            if name == self._table.dated:
                continue
            cells = self._table.column(name)
            every = sorted({*map(_plain, cells)}, key=lambda cell: (-len(cell), cell))
            named = [*islice((cell for cell in every if cell and _has(text, cell)), CELLS)]
            # "Ping An Bank" rather than "Bank"
            longest = {
                cell
                for cell in named
                if not any(cell in other and cell != other for other in named)
            }
            found |= {place for place, cell in enumerate(cells) if _plain(cell) in longest}
        return found

    def _at_clocks(self) -> set[int]:
        """Rows of a time of day that the question names."""
        clocks = self._question.clocks
        if not clocks:
            return set()
        timed = (name for name in self._table.columns if is_time_name(name))
        return {
            place
            for name in timed
            for place, cell in enumerate(self._table.column(name))
            if isinstance(cell, str)
            and cell.rpartition(" ")[2].removeprefix("0").startswith(clocks)
        }

    def _compared(self) -> set[int]:
        wanted: set[int] | None = None
        for one in self._question.comparisons:
            column = self._nearest(one.place)
            if column is None:
                continue
            test, value = COMPARE[one.operator], float(one.value)
            found = {
                place
                for place, cell in enumerate(self._table.column(column))
                if (there := number(cell)) is not None and test(there, value)
            }
            wanted = found if wanted is None else wanted & found
        return wanted or set()

    def _extreme(self, extreme: Extreme, within: Sequence[int]) -> list[int]:
        column = self._nearest(extreme.place)
        if column is None:
            return []
        cells = self._table.column(column)
        numbers = [
            (value, place) for place in within if (value := number(cells[place])) is not None
        ]
        numbers.sort(key=lambda one: (-one[0] if extreme.is_highest else one[0], one[1]))
        return [place for _, place in numbers[: extreme.count]]

    def _nearest(self, place: int) -> str | None:
        """The numeric column that is named nearest to a place of the question."""
        if self._named:
            return min(sure(self._named), key=lambda one: abs(one.place - place)).column
        numeric = (name for name in self._table.columns if name not in self._keys)
        return next(filter(self._table.is_number, numeric), None)

    def _newest(self, count: int, within: Sequence[int], *, oldest: bool = False) -> list[int]:
        """The newest rows by date, the newest first; without dates the last ones."""
        if self._table.dated is None:
            return [*within[:count]] if oldest else [*within[-count:]][::-1]
        days = self._table.days
        dated = [(day, place) for place in within if (day := days[place])]
        dated.sort(reverse=not oldest)
        return [place for _, place in dated[:count]]


def _plain(cell: object) -> str:
    if isinstance(cell, bool) or not isinstance(cell, str | int):
        return ""
    return str(cell).strip().lower()


def _has(text: str, cell: str) -> bool:
    """Whether a text has a cell, not as a part of another word or number."""
    if len(cell) < 2:
        return False
    place = text.find(cell)
    while place >= 0:
        before, behind = text[place - 1 : place], text[place + len(cell) : place + len(cell) + 1]
        is_whole = not (_is_letter(before) and _is_letter(cell[0])) and not (
            _is_letter(behind) and _is_letter(cell[-1])
        )
        if is_whole or (cell.isdigit() and len(cell) >= 5 and not before.isdigit()):
            return True
        place = text.find(cell, place + 1)
    return False


def _is_letter(character: str) -> bool:
    return character.isascii() and character.isalnum()

"""Shortens a table: the rows and columns that a question asks for, then the ends and the middle.

The shortened table is a note, lines of statistics, a header and rows. The rows keep their order. A
cell is shown as it is written or left out with its column, except that a long text is cut.

The choice is made in four steps, each as far as the budget allows: rows that the question asks for,
with the columns that it names; the other columns; statistics; rows that are evenly spaced.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import orjson

from cache import Entry
from cache.dates import date_of, is_time_name
from gateway.compress.budget import Budget
from gateway.compress.columns import Named, named_columns
from gateway.compress.question import MOST, Day, Extreme, Question, day_of
from gateway.compress.written import Written, json_text, read

CELL_CHARS = 160
"""A longer text in a cell is cut."""

SHARE = 0.7
"""The share of a budget within which columns are added to the rows that a question asks for."""

STATISTICS = 8
"""The most lines of statistics."""

NAMED, NAME_CHARS = 6, 24
"""How many of the columns that are left out are named, and how much of a name."""

WHOLE = 40
"""A table of more bytes for each token or character of the budget can't fit as a whole."""

FEW = 10
"""So few rows that a question names are all part of its answer."""

KEYS = 3
"""The most columns that tell rows apart, and are shown beside those that a question names."""

_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
    "=": eq,
    "!=": ne,
}
_KEY_WORDS = ("code", "symbol", "ticker", "name", "item", "indicator", "country", "title")
_KEY_WORDS_CHINESE = (
    "代码",
    "名称",
    "简称",
    "项目",
    "指标",
    "国家",
    "商品",
    "品种",
    "机构",
    "股东",
)

_EARLIEST, _LATEST = 1e8, 1e11
"""Numbers between these are Unix times in seconds."""


@dataclass(frozen=True, slots=True)
class Shortened:
    """A shortened table. `rows` and `columns` are how many of each are shown. It is `whole` if no
    row, no column and no part of a cell is left out.
    """

    text: str
    form: str
    rows: int
    columns: int
    whole: bool


def shorten_table(
    entry: Entry, meanings: Mapping[str, str], budget: Budget, question: Question | None
) -> Shortened:
    """The table of an entry within the budget. `meanings` describe columns. Takes about 2 ms for
    1,000 rows of 11 columns.
    """
    table = _Table.of(entry)
    chosen = _Choice.of(table, meanings, question)
    return _Fitting(table, chosen, budget).best()


class _Table:
    """A decoded table. Shown cells are read again from the lines, as they are written."""

    def __init__(self, columns: Sequence[str], rows: list[Any], lines: list[bytes]) -> None:
        self.columns = columns
        self.rows = rows
        self.lines = lines
        self.dated = next(filter(self._is_dated, columns), None)
        self._shown: dict[int, dict[str, Any]] = {}
        self._days: list[str] | None = None

    @classmethod
    def of(cls, entry: Entry) -> "_Table":
        rows: list[Any] = []
        lines: list[bytes] = []
        for piece in entry.pieces() if entry.rows else ():
            rows += orjson.loads(piece)
            lines += piece[1:-1].split(b",\n")
        return cls(entry.columns or (), rows, lines)

    def column(self, name: str) -> list[Any]:
        return [row.get(name) for row in self.rows]

    def is_number(self, name: str) -> bool:
        """Whether the column's first cell that is not null is a number, or a text that is one."""
        cell = next((c for row in self.rows if (c := row.get(name)) is not None), None)
        return _number(cell) is not None

    def shown(self, place: int) -> Mapping[str, Any]:
        """A row with its numbers as they are written."""
        if place not in self._shown:
            self._shown[place] = read(self.lines[place])
        return self._shown[place]

    @property
    def days(self) -> list[str]:
        """The day of each row as ISO 8601 writes it; empty where there is none."""
        if self._days is None:
            name = self.dated
            self._days = [] if name is None else [_day(row.get(name)) for row in self.rows]
        return self._days

    def _is_dated(self, name: str) -> bool:
        if not is_time_name(name):
            return False
        return any(_day(row.get(name)) for row in self.rows[:3])


def _day(cell: object) -> str:
    """The day of a cell in a column of dates, as ISO 8601 writes it, or an empty text."""
    if isinstance(cell, str) and cell[4:5] == cell[7:8] == "-":
        return cell[:10]  # nearly all are written so
    if not isinstance(cell, str | int | float) or isinstance(cell, bool):
        return ""
    text = str(cell).strip()
    if len(text) == 8 and text.isdigit():
        return f"{text[:4]}-{text[4:6]}-{text[6:]}"
    found = date_of(text, named=True)
    if found is None or (found.kind != "day" and found.at < _EARLIEST):
        return ""
    seconds = found.at
    while seconds > _LATEST:  # milliseconds and less
        seconds /= 1e3
    return day_of(seconds).isoformat()


def _number(cell: object) -> float | None:
    """The number that a cell is, also as a text with a percent sign or separators."""
    if isinstance(cell, bool):
        return None
    if isinstance(cell, int | float):
        return float(cell)
    if not isinstance(cell, str) or not cell or len(cell) > 32:
        return None
    try:
        return float(cell.strip().rstrip("%").replace(",", ""))
    except ValueError:
        return None


@dataclass(slots=True)
class _Choice:
    """What a question asks of a table. `first` rows answer it, `rows` are those that it is about.
    `columns` are all columns, those that are asked for first, of which there are `asked`.
    """

    first: list[int]
    rows: list[int]
    columns: list[str]
    asked: int
    measured: list[str]

    @classmethod
    def of(cls, table: _Table, meanings: Mapping[str, str], question: Question | None) -> "_Choice":
        keys = _keys(table)
        if question is None:
            columns = [*dict.fromkeys([*keys, *table.columns])]
            return cls([], [], columns, len(keys), [])
        named = named_columns(question.text, table.columns, meanings)
        surest = max((one.sureness for one in named), default=0.0)
        asked = [one.column for one in named if one.sureness >= min(0.6, surest)]
        first, rows = _Rows(table, question, named, keys).chosen()
        measured = [name for name in asked if table.is_number(name)]
        order = [*dict.fromkeys([*keys, *asked, *table.columns])]
        return cls(first, rows, order, len({*keys, *asked}), measured)


def _keys(table: _Table) -> list[str]:
    """The columns that tell rows apart: a date, names and codes, else the first column."""
    keys = [table.dated] if table.dated is not None else []
    for name in table.columns:
        low = name.lower()
        words = low.replace("_", " ").split()
        if low in keys or len(keys) == KEYS:
            break
        is_key = any(word in _KEY_WORDS for word in words) or any(
            low.endswith(word) for word in _KEY_WORDS_CHINESE
        )
        if is_key and name not in keys:
            keys.append(name)
    return keys or [*table.columns[:1]]


class _Rows:
    """Finds the rows that a question asks for."""

    def __init__(
        self, table: _Table, question: Question, named: Sequence[Named], keys: Sequence[str]
    ) -> None:
        self._table = table
        self._question = question
        self._named = [one for one in named if table.is_number(one.column)]
        self._keys = keys

    def chosen(self) -> tuple[list[int], list[int]]:
        table, question = self._table, self._question
        everywhere = range(len(table.rows))
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
        if table.dated is None or not (question.spans or question.relative):
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
        found: set[int] = set()
        for name in self._keys:
            if name == self._table.dated:
                continue
            cells = self._table.column(name)
            named = {cell for cell in {*map(_plain, cells)} if cell and _has(text, cell)}
            # "Ping An Bank" rather than "Bank"
            longest = {
                cell
                for cell in named
                if not any(cell in other and cell != other for other in named)
            }
            found |= {place for place, cell in enumerate(cells) if _plain(cell) in longest}
        return found

    def _compared(self) -> set[int]:
        wanted: set[int] | None = None
        for one in self._question.comparisons:
            column = self._nearest(one.place)
            if column is None:
                continue
            test, value = _COMPARE[one.operator], float(one.value)
            there = {
                place
                for place, cell in enumerate(self._table.column(column))
                if (number := _number(cell)) is not None and test(number, value)
            }
            wanted = there if wanted is None else wanted & there
        return wanted or set()

    def _extreme(self, extreme: Extreme, within: Sequence[int]) -> list[int]:
        column = self._nearest(extreme.place)
        if column is None:
            return []
        rows = self._table.rows
        numbers = [
            (number, place)
            for place in within
            if (number := _number(rows[place].get(column))) is not None
        ]
        numbers.sort(key=lambda one: (-one[0] if extreme.is_highest else one[0], one[1]))
        return [place for _, place in numbers[: extreme.count]]

    def _nearest(self, place: int) -> str | None:
        """The numeric column that is named nearest to a place of the question."""
        if self._named:
            surest = max(one.sureness for one in self._named)
            sure = [one for one in self._named if one.sureness >= min(0.6, surest)]
            return min(sure, key=lambda one: abs(one.place - place)).column
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


class _Fitting:
    """Finds the fullest text that fits into a budget. Sizes of lines are added up on the way; the
    whole text is counted at the end.
    """

    def __init__(self, table: _Table, choice: _Choice, budget: Budget) -> None:
        self._table = table
        self._choice = choice
        self._budget = budget
        self._form = _cheapest(table, choice.columns, budget)
        self._sizes: dict[tuple[int, tuple[str, ...]], int] = {}

    def best(self) -> Shortened:
        table, choice = self._table, self._choice
        count = len(table.rows)
        whole = range(count)
        if sum(map(len, table.lines[:1])) * count < WHOLE * self._budget.limit:
            text = self._text(whole, table.columns, [])
            if self._budget.fits(text):
                is_cut = "…" in text and any(len(line) > CELL_CHARS for line in table.lines)
                return Shortened(text, self._form.name, count, len(table.columns), not is_cut)
        columns = tuple(choice.columns[: max(choice.asked, 1)])
        first = [*choice.first, *choice.rows, 0][:1]
        while len(columns) > 1 and not self._fits(first, columns):
            columns = columns[:-1]
        rows = self._asked_rows(columns)
        columns = self._more_columns(rows, columns)
        stats = self._statistics(rows, columns)
        context = self._context(rows, columns, stats)
        text, shown = self._within(rows, columns, stats, context)
        return Shortened(text, self._form.name, len(shown), len(columns) if shown else 0, False)

    def _asked_rows(self, columns: tuple[str, ...]) -> list[int]:
        """As many as fit of the rows that answer the question, then of those that it is about."""
        first, rows = self._choice.first, self._choice.rows
        most = _largest(len(first), lambda n: self._fits(first[:n], columns))
        if most < len(first):
            return first[:most]

        def both(count: int) -> list[int]:
            return [*dict.fromkeys([*first, *(rows[at] for at in _spaced(len(rows), count))])]

        return both(_largest(len(rows), lambda n: self._fits(both(n), columns)))

    def _more_columns(self, rows: Sequence[int], columns: tuple[str, ...]) -> tuple[str, ...]:
        others = [name for name in self._choice.columns if name not in columns]
        shown = rows or _spaced(len(self._table.rows), 4)

        def both(count: int) -> tuple[str, ...]:
            kept = {*columns, *others[:count]}
            return tuple(name for name in self._table.columns if name in kept)

        most = _largest(len(others), lambda n: self._fits(shown, both(n), share=SHARE))
        return both(most)

    def _statistics(self, rows: Sequence[int], columns: tuple[str, ...]) -> list[str]:
        """A line for each numeric column that is shown, those that are asked for first."""
        asked, table = self._choice.measured, self._table
        names = [name for name in columns if name != table.dated and table.is_number(name)]
        names.sort(key=lambda name: name not in asked)
        lines: list[str] = []
        size = self._size(rows, columns)
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
        count = len(self._table.rows)
        left = self._budget.limit - sum(self._budget.size(f"{line}\n") for line in stats)
        few = _spaced(count, 4)
        average = sum(self._size_of_row(place, columns) for place in few) / max(len(few), 1)
        most = _largest(
            min(count, int(2 * left / max(average, 1)) + 2),
            lambda n: self._size({*rows, *_spaced(count, n)}, columns) <= left,
        )
        return _spaced(count, most)

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

    def _fits(self, rows: Iterable[int], columns: tuple[str, ...], share: float = 1.0) -> bool:
        return self._size(rows, columns) <= share * self._budget.limit

    def _size(self, rows: Iterable[int], columns: tuple[str, ...]) -> int:
        """The sizes of note, header and rows."""
        rows = sorted(rows)
        size = self._budget.size(f"{self._note(rows, columns)}\n{self._form.header(columns)}\n")
        return size + sum(self._size_of_row(place, columns) for place in rows)

    def _size_of_row(self, place: int, columns: tuple[str, ...]) -> int:
        key = place, columns
        if key not in self._sizes:
            line = self._form.row(columns, self._table.shown(place))
            self._sizes[key] = self._budget.size(f"{line}\n")
        return self._sizes[key]

    def _text(self, rows: Iterable[int], columns: Sequence[str], stats: Sequence[str]) -> str:
        places = sorted(rows)
        lines = [self._form.row(columns, self._table.shown(place)) for place in places]
        head = [self._note(places, columns), *stats, self._form.header(columns)]
        return "\n".join([*filter(None, head), *lines])

    def _note(self, rows: Sequence[int], columns: Sequence[str]) -> str:
        count = len(self._table.rows)
        if len(rows) == count and len(columns) == len(self._table.columns):
            return ""
        text = f"# rows {_ranges(rows)} of {count}" if rows else f"# no row of {count} fits"
        left = [name for name in self._table.columns if name not in {*columns}]
        if not left:
            return text
        named = ", ".join(_one_line(name) for name in left[:NAMED])
        more = f" and {len(left) - NAMED} more" if len(left) > NAMED else ""
        return f"{text}; left out: {named}{more}"


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


def _spaced(count: int, most: int) -> list[int]:
    """The first and the last place, and evenly spaced ones between them."""
    if most >= count:
        return [*range(count)]
    if most <= 0:
        return []
    if most == 1:
        return [count - 1]
    return sorted({round(n * (count - 1) / (most - 1)) for n in range(most)})


def _ranges(rows: Sequence[int]) -> str:
    """Row numbers from 1, as ranges; of many ranges only how many rows they are."""
    if not rows:
        return ""
    breaks = [at for at, (one, then) in enumerate(pairwise(rows), 1) if then != one + 1]
    starts, ends = [0, *breaks], [*breaks, len(rows)]
    if len(starts) > 4:
        return f"{len(rows)}"
    parts = []
    for start, end in zip(starts, ends, strict=True):
        first, last = rows[start] + 1, rows[end - 1] + 1
        parts.append(f"{first}" if first == last else f"{first}-{last}")
    return ", ".join(parts)


def _statistics_of(table: _Table, name: str) -> str:
    """The least and the greatest value as they are written, and the mean to six digits."""
    cells = table.column(name)
    if {*map(type, cells)} <= {int, float}:
        low, high, mean, missing = min(cells), max(cells), sum(cells) / len(cells), 0
        ends = [cells.index(low), cells.index(high)]
    else:
        numbers = [
            (number, place)
            for place, cell in enumerate(cells)
            if (number := _number(cell)) is not None
        ]
        ends = [min(numbers)[1], max(numbers)[1]]
        mean = sum(number for number, _ in numbers) / len(numbers)
        missing = len(cells) - len(numbers)
    least, greatest = (_cell(table.shown(place).get(name)) for place in ends)
    text = f"# {_one_line(name)}: min {least}, max {greatest}, mean {mean:.6g}"
    return f"{text}, no number in {missing}" if missing else text


@dataclass(frozen=True, slots=True)
class _Form:
    """How a table is written: a header, if it has one, and a line for each row."""

    name: str
    header: Callable[[Sequence[str]], str]
    row: Callable[[Sequence[str], Mapping[str, Any]], str]


def _csv_header(columns: Sequence[str]) -> str:
    return ",".join(map(_cell, columns))


def _csv_row(columns: Sequence[str], row: Mapping[str, Any]) -> str:
    """RFC 4180; a null cell is empty, an empty text is `""`. A row is never an empty line: a null
    cell that stands alone is written as an empty text.
    """
    return ",".join([_cell(row.get(name)) for name in columns]) or '""'


def _no_header(_: Sequence[str]) -> str:
    return ""


def _jsonl_row(columns: Sequence[str], row: Mapping[str, Any]) -> str:
    """A JSON object without the cells that are null."""
    there = {name: row[name] for name in columns if row.get(name) is not None}
    return json_text(_with_short_texts(there))


_CSV = _Form("csv", _csv_header, _csv_row)
_JSONL = _Form("jsonl", _no_header, _jsonl_row)


def _cheapest(table: _Table, columns: Sequence[str], budget: Budget) -> _Form:
    """The form in which the first rows take the least of the budget."""
    rows = [table.shown(place) for place in range(min(len(table.rows), 3))]

    def size(form: _Form) -> int:
        lines = (form.row(columns, row) for row in rows)
        return budget.size("\n".join([form.header(columns), *lines]))

    return min((_CSV, _JSONL), key=size)


def _one_line(name: str) -> str:
    return " ".join(name[:NAME_CHARS].split())


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, Written):
        return value
    text = _cut(value) if isinstance(value, str) else json_text(_with_short_texts(value))
    if not text or text[0] in " #" or text[-1] == " " or any(c in text for c in ',"\n\r'):
        return '"{}"'.format(text.replace('"', '""'))
    return text


def _with_short_texts(value: object) -> object:
    """A value of a cell whose long texts are cut."""
    if isinstance(value, dict):
        return {name: _with_short_texts(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_with_short_texts(item) for item in value]
    return _cut(value) if isinstance(value, str) and not isinstance(value, Written) else value


def _cut(text: str) -> str:
    """A text, or its start up to a word's end."""
    if len(text) <= CELL_CHARS:
        return text
    head = text[:CELL_CHARS]
    return head[: head.rfind(" ") if " " in head[CELL_CHARS // 2 :] else CELL_CHARS] + "…"

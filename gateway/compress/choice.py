"""What a question asks of a table: which of its rows and columns."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest

from cache.dates import is_time_name
from gateway.compress.budget import check_time
from gateway.compress.cells import COMPARE, number
from gateway.compress.columns import Named, named_columns, sure
from gateway.compress.days import Days, counted
from gateway.compress.decoded import Table
from gateway.compress.measures import Extreme
from gateway.compress.negation import is_excluded
from gateway.compress.question import Question

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
_KEY_WORDS = ("code", "symbol", "ticker", "name", "item", "indicator", "country", "title")
_KEY_WORDS_CHINESE = (
    *("代码", "名称", "简称", "项目", "指标", "国家", "商品", "品种", "机构", "股东"),
)


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
        self._days = Days(table, question, self._named)
        self._understood: list[str] = []

    def chosen(self) -> tuple[list[int], list[int], list[str]]:
        """The rows that answer the question, those that it is about, and what they are chosen
        by.
        """
        table, question = self._table, self._question
        everywhere: Sequence[int] = range(len(table))
        wanted: set[int] | None = None
        on_days, self._understood = self._days.asked()
        with_cells, without = self._with_cells()
        days_without, not_days = self._days.excluded()
        self._understood += not_days
        for found in (on_days, with_cells, self._compared()):
            if found:
                both = found if wanted is None else wanted & found
                wanted = both or found | (wanted or set())
        if excluded := days_without | without:
            everywhere = [place for place in everywhere if place not in excluded]
            wanted = wanted and wanted - excluded
        within = sorted(wanted) if wanted is not None else everywhere
        first = [place for extreme in question.extremes for place in self._extreme(extreme, within)]
        for count, word in ((question.newest, "newest"), (question.oldest, "oldest")):
            if count:
                each = question.each if table.dated is not None else ""
                first += self._days.newest(count, within, oldest=word == "oldest", each=each)
                self._understood.append(counted(count, word, each))
        rest = [] if wanted is None and (first or not excluded) else list(within)
        if wanted is not None and len(rest) <= FEW and not first:
            first, rest = rest, []
        understood = [text[:UNDERSTOOD_CHARS] for text in dict.fromkeys(self._understood)]
        return [*dict.fromkeys(first)], rest, understood[:UNDERSTOOD]

    def _with_cells(self) -> tuple[set[int], set[int]]:
        """Rows with a text that the question has, and those with one that it excludes."""
        text = self._question.text
        found = self._at_clocks()
        without: set[int] = set()
        for name in self._keys:
            if name == self._table.dated:
                continue
            cells = self._table.column(name)
            originals = {_plain(cell): cell for cell in cells}
            every = (cell for cell in originals if cell and _has(text, cell))
            named = sorted(every, key=lambda cell: (-len(cell), cell))[:CELLS]
            # "Ping An Bank" rather than "Bank"
            longest = {
                cell
                for cell in named
                if not any(cell in other and cell != other for other in named)
            }
            excluded = {cell for cell in longest if _is_excluded(text, cell)}
            for place, cell in enumerate(cells):
                if (plain := _plain(cell)) in longest:
                    (without if plain in excluded else found).add(place)
            self._understood += (
                f"{name} {'!=' if cell in excluded else '='} {originals[cell]}"
                for cell in named
                if cell in longest
            )
        return found, without

    def _at_clocks(self) -> set[int]:
        """Rows of a time of day that the question names."""
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
            is_fall = one.move == "fall" and not _is_of_falls(column) and size > 0
            if is_fall:
                operator, size = _MIRRORED[operator], -size
            self._understood.append(f"{column} {operator} {size:f}")
            test, value = COMPARE[operator], float(size)
            found = {
                place
                for place, cell in enumerate(self._table.column(column))
                if (there := number(cell)) is not None
                and test(there, value)
                and (there < 0 or not is_fall or one.is_negated)
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
        is_highest, word = extreme.is_highest, "highest" if extreme.is_highest else "lowest"
        if extreme.move == "fall" and not _is_of_falls(column):
            is_highest, word = not is_highest, "lowest" if is_highest else "smallest fall of"
            if is_highest:
                numbers = [one for one in numbers if one[0] < 0] or numbers
        count = f"{extreme.count} " if extreme.count > 1 else ""
        self._understood.append(f"{count}{word} {column}")
        numbers = nsmallest(
            extreme.count, numbers, key=lambda one: (-one[0] if is_highest else one[0], one[1])
        )
        return [place for _, place in numbers]

    def _nearest(self, place: int) -> str | None:
        """The numeric column that is named nearest to a place of the question."""
        if self._named:
            return min(sure(self._named), key=lambda one: abs(one.place - place)).column
        numeric = (name for name in self._table.columns if name not in self._keys)
        return next(filter(self._table.is_number, numeric), None)


def _is_of_falls(column: str) -> bool:
    """Whether a column has only falls, as positive numbers."""
    low = column.lower()
    return "涨" not in low and any(word in low for word in _FALLS)


def _plain(cell: object) -> str:
    if isinstance(cell, bool) or not isinstance(cell, str | int):
        return ""
    return str(cell).strip().lower()


def _has(text: str, cell: str) -> bool:
    """Whether a text has a cell, not as a part of another word or number."""
    check_time()
    return next(_places(text, cell), None) is not None


def _is_excluded(text: str, cell: str) -> bool:
    """Whether a text has a cell only where it excludes it."""
    return all(is_excluded(text, place, place + len(cell)) for place in _places(text, cell))


def _places(text: str, cell: str) -> Iterator[int]:
    if len(cell) < 2:
        return
    place = text.find(cell)
    while place >= 0:
        before, behind = text[place - 1 : place], text[place + len(cell) : place + len(cell) + 1]
        is_whole = not (_is_letter(before) and _is_letter(cell[0])) and not (
            _is_letter(behind) and _is_letter(cell[-1])
        )
        if is_whole or (cell.isdigit() and len(cell) >= 5 and not before.isdigit()):
            yield place
        place = text.find(cell, place + 1)


def _is_letter(character: str) -> bool:
    return character.isascii() and character.isalnum()

"""Cases over records: the rows of a table, or the flat items of an array in a document.

What a question needs is computed from the records by plain code. Where more than one answer would
be right, no case is made.
"""

import json
import math
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from bench.compression import wordings
from bench.compression.case import Answer, Case, Language
from bench.compression.kept import Needed, Row, Rows

MOST_ROWS = 10
"""No question needs more rows, so that they fit into the smallest budget."""

TRIES = 6

_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)|(\d{4})(\d\d)(\d\d)")
_DATED = ("日期", "交易日", "报告日", "期数", "date", "time", "上榜日")
_KEYED = ("代码", "简称", "名称", "code", "symbol", "name", "id", "时间", "债券类型", "债券现货")
SAFE = re.compile(r'[^"\\\n{},]{1,40}')
_PLAIN_NUMBER = re.compile(r"-?\d+(\.\d+)?")


class Number(str):
    """A number as it is written in JSON."""

    __slots__ = ()


Record = Mapping[str, Any]


def parsed(data: bytes) -> Any:
    """JSON whose numbers are `Number`."""
    return json.loads(data, parse_float=Number, parse_int=Number)


@dataclass(frozen=True, slots=True)
class Records:
    """Records of an answer. `days` has the day of each record, if one column tells them apart by
    day; `names` the texts of other columns that tell them apart.
    """

    answer: Answer
    records: Sequence[Record]
    columns: Sequence[str]
    days: Sequence[date]
    date_column: str | None
    names: Sequence[str]
    in_table: bool

    @classmethod
    def of(cls, answer: Answer, records: Sequence[Record], *, in_table: bool) -> "Records":
        columns = list(records[0])
        date_column, days = None, list[date]()
        for name in columns:
            if any(word in name.lower() for word in _DATED):
                found = [day_of(record.get(name)) for record in records]
                if None not in found and len(set(found)) == len(found):
                    date_column, days = name, [day for day in found if day]
                    break
        names = [name for name in columns if name != date_column and _tells(records, name)]
        return cls(answer, records, columns, days, date_column, names, in_table)

    @property
    def is_monthly(self) -> bool:
        return len(self.days) > 1 and all(day.day == 1 for day in self.days)

    def keys(self, record: Record) -> tuple[str, ...]:
        """All texts that tell this record apart."""
        named = [self.date_column, *self.names] if self.date_column else self.names
        return tuple(str(record[name]) for name in named if name)

    def numeric(self) -> list[str]:
        """Columns to ask about: numbers in most records, and no key."""
        found = []
        for name in self.columns:
            if name in (self.date_column, "序号", "id", *self.names):
                continue
            cells = [record.get(name) for record in self.records]
            numbers = sum(_is_number(cell) for cell in cells)
            if numbers > 0.6 * len(cells) and len(set(map(str, cells))) > 0.5 * len(cells):
                found.append(name)
        return found

    def by_day(self) -> list[int]:
        """Indices of the records, the oldest first."""
        return sorted(range(len(self.days)), key=self.days.__getitem__)


def day_of(cell: object) -> date | None:
    found = _DAY.fullmatch(cell) if isinstance(cell, str) else None
    try:
        return date(*(int(part) for part in found.groups() if part)) if found else None
    except ValueError:
        return None


def _tells(records: Sequence[Record], name: str) -> bool:
    """Whether a column is one by whose texts a user would name a record."""
    if not any(word in name.lower() for word in _KEYED):
        return False
    cells = [record.get(name) for record in records]
    return len(set(map(str, cells))) == len(cells) and all(
        isinstance(cell, str)
        and (not isinstance(cell, Number) or cell.isdigit())
        and SAFE.fullmatch(cell)
        and cell.strip() == cell
        for cell in cells
    )


def _is_number(cell: object) -> bool:
    return isinstance(cell, Number) and _PLAIN_NUMBER.fullmatch(cell) is not None


@dataclass(frozen=True, slots=True)
class _Asked:
    """A column that is asked about, in a language."""

    records: Records
    column: str
    language: Language

    def numbers(self, *, is_highest: bool = True) -> list[tuple[float, Record]]:
        """Records with a number in the column, the greatest first, or the smallest."""
        found = [
            (float(record[self.column]), record)
            for record in self.records.records
            if _is_number(record.get(self.column))
        ]
        found.sort(key=lambda pair: -pair[0])
        return found if is_highest else found[::-1]

    def needs(self, records: Sequence[Record]) -> Needed | None:
        """These cells, each beside a key of its record; None if one can't be asked for."""
        pairs = [(self.records.keys(record), record.get(self.column)) for record in records]
        if not pairs or len(pairs) > MOST_ROWS or not all(_is_number(cell) for _, cell in pairs):
            return None
        rows = tuple(Row(keys, (str(cell),)) for keys, cell in pairs)
        return Rows(rows, self.records.in_table)


_Made = tuple[Needed, dict[str, str]] | None


def _cell_by_date(asked: _Asked, rng: random.Random) -> _Made:
    records = asked.records
    if not records.days:
        return None
    at = rng.randrange(len(records.days))
    record = records.records[at]
    key = str(record[records.date_column or ""])
    return _cell(asked, record, key, _day_said(asked, at, rng))


def _day_said(asked: _Asked, at: int, rng: random.Random) -> dict[str, str]:
    records = asked.records
    is_one_year = len({day.year for day in records.days}) == 1
    return wordings.day_phrases(
        records.days[at],
        asked.language,
        rng,
        is_month=records.is_monthly,
        is_one_year=is_one_year and not records.is_monthly,
    )


def _cell(asked: _Asked, record: Record, key: str, said: dict[str, str]) -> _Made:
    cell = record.get(asked.column)
    if not _is_number(cell):
        return None
    others = [str(value) for name, value in record.items() if name != asked.column]
    if str(cell) in others:
        return None  # the same figure stands in another column of the row
    return Rows((Row((key,), (str(cell),)),), asked.records.in_table), said


def _cell_by_code(asked: _Asked, rng: random.Random) -> _Made:
    if not asked.records.names:
        return None
    record = rng.choice(asked.records.records)
    key = str(record[rng.choice(asked.records.names)])
    return _cell(asked, record, key, {"key": key})


def _item_field(asked: _Asked, rng: random.Random) -> _Made:
    records = asked.records
    if records.days and (not records.names or rng.random() < 0.5):
        made = _cell_by_date(asked, rng)
        return None if made is None else (made[0], {"key": made[1]["date"]})
    return _cell_by_code(asked, rng)


def _range(asked: _Asked, rng: random.Random) -> _Made:
    records, order = asked.records, asked.records.by_day()
    if len(order) < 2 * MOST_ROWS or records.is_monthly:
        return None
    length = rng.randint(3, MOST_ROWS)
    begin = rng.randrange(len(order) - length + 1)
    chosen = order[begin : begin + length]
    needed = asked.needs([records.records[at] for at in chosen])
    start, end = (_day_said(asked, at, rng)["date"] for at in (chosen[0], chosen[-1]))
    return _made(needed, start=start, end=end)


def _relative(asked: _Asked, rng: random.Random) -> _Made:
    records, order = asked.records, asked.records.by_day()
    if len(order) < 2 * MOST_ROWS:
        return None
    count, said = rng.randint(3, MOST_ROWS), list[str]()
    is_daily = records.days[order[-1]] - records.days[order[-6]] <= timedelta(days=9)
    weeks = rng.choice((1, 1, 2)) if is_daily and rng.random() < 0.4 else 0
    word = wordings.few(count, asked.language, rng)
    if weeks:
        newest = records.days[order[-1]]
        chosen = [at for at in order if records.days[at] > newest - timedelta(days=7 * weeks)]
        english = {1: ["the past week", "the last week"], 2: ["the past two weeks"]}
        chinese = {1: ["最近一周", "近一周", "过去一周"], 2: ["最近两周", "近两周"]}
        said = english[weeks] if asked.language == "en" else chinese[weeks]
    else:
        chosen = order[-count:]
        if asked.language == "en":
            rows = "trading days" if is_daily else "months" if records.is_monthly else "records"
            said = [
                f"the {last} {word} {rows}" for last in ("last", "most recent", "latest", "past")
            ]
        else:
            rows = "个交易日" if is_daily else "个月" if records.is_monthly else "期"
            said = [f"{last}{word}{rows}" for last in ("最近", "近", "最新", "过去")]
    needed = asked.needs([records.records[at] for at in chosen])
    return (needed, {"period": rng.choice(said)}) if needed else None


def _made(needed: Needed | None, **said: str) -> _Made:
    return None if needed is None else (needed, said)


def _superlative(asked: _Asked, rng: random.Random) -> _Made:
    return _extremes(asked, rng, is_highest=rng.random() < 0.6, count=1)


def _top_n(asked: _Asked, rng: random.Random) -> _Made:
    return _extremes(asked, rng, is_highest=rng.random() < 0.7, count=rng.choice((3, 3, 5, 5, 10)))


def _extremes(asked: _Asked, rng: random.Random, *, is_highest: bool, count: int) -> _Made:
    numbers = asked.numbers(is_highest=is_highest)
    if len(numbers) < count + 2 or numbers[count - 1][0] == numbers[count][0]:
        return None
    needed = asked.needs([record for _, record in numbers[:count]])
    is_signed = any(value < 0 for value, _ in numbers)
    said = {"highest": wordings.highest(is_highest, asked.language, rng, is_signed=is_signed)}
    if count > 1:
        said["n"] = wordings.few(count, asked.language, rng)
    return _made(needed, **said)


def _comparison(asked: _Asked, rng: random.Random) -> _Made:
    is_above, count = rng.random() < 0.6, rng.randint(1, MOST_ROWS)
    numbers = asked.numbers(is_highest=is_above)
    if len(numbers) < count + 2:
        return None
    bound = _round_between(numbers[count - 1][0], numbers[count][0])
    needed = asked.needs([record for _, record in numbers[:count]])
    if bound is None or needed is None:
        return None
    concept = wordings.concepts().get(asked.column)
    values = [value for value, _ in numbers]
    is_percent = concept is not None and concept.is_percent and max(map(abs, values)) > 0.5
    said = wordings.above(bound, is_above, asked.language, rng, is_percent=is_percent)
    return needed, {"above": said}


def _round_between(inner: float, outer: float) -> float | None:
    """The roundest number strictly between two, of at most four digits."""
    middle = (inner + outer) / 2
    low, high = sorted((inner, outer))
    if low == high or not middle:
        return None
    for digits in range(1, 5):
        size = 10.0 ** (math.floor(math.log10(abs(middle))) - digits + 1)
        bound = float(f"{round(middle / size) * size:.10g}")
        if low < bound < high:
            return bound
    return None


def _first_last(asked: _Asked, rng: random.Random) -> _Made:
    order, is_first = asked.records.by_day(), rng.random() < 0.4
    if not order:
        return None
    needed = asked.needs([asked.records.records[order[0 if is_first else -1]]])
    return (needed, {"first": wordings.first(is_first, asked.language, rng)}) if needed else None


_MAKERS: Mapping[str, Callable[[_Asked, random.Random], _Made]] = {
    "date_cell": _cell_by_date,
    "code_cell": _cell_by_code,
    "item_field": _item_field,
    "range": _range,
    "relative": _relative,
    "superlative": _superlative,
    "top_n": _top_n,
    "comparison": _comparison,
    "first_last": _first_last,
}


def kinds_for(records: Records) -> list[str]:
    """The kinds of cases that these records allow."""
    cells = ["date_cell"] * bool(records.days) + ["code_cell"] * bool(records.names)
    if not records.in_table and cells:
        cells = ["item_field"]
    dated = ["range", "relative", "first_last"] if len(records.days) >= 2 * MOST_ROWS else []
    return [*cells, "superlative", "top_n", "comparison", *dated] if cells else []


def cases(records: Records, kinds: Sequence[str], seed: int) -> Iterator[Case]:
    """A case of each of `kinds`, where the records allow one."""
    answer = records.answer
    rng = random.Random(f"{seed} {answer.id}")  # noqa: S311 - a reproducible draw
    columns = records.numeric()
    for number, kind in enumerate(kinds):
        for _ in range(TRIES if columns else 0):
            column = rng.choice(columns)
            language = language_for(not column.isascii(), rng)
            phrase = wordings.column_phrase(column, records.columns, language, rng)
            if phrase is None:
                continue
            said = {"column": phrase, "s": rng.choice(answer.subject[language])}
            said |= wordings.records(language, bool(records.days), records.is_monthly, rng)
            made = _MAKERS[kind](_Asked(records, column, language), rng)
            if made is None:
                continue
            needed, more = made
            question = wordings.ask(
                kind, language, rng, {**said, **more}, is_dated=bool(records.days)
            )
            yield Case(f"{answer.id}/{number}", answer, kind, language, question, needed)
            break


def language_for(is_chinese: bool, rng: random.Random) -> Language:
    """The language of a question: mostly that of what it is about, but languages cross as well."""
    return "zh" if rng.random() < (0.62 if is_chinese else 0.35) else "en"

"""What the compared calls of one tool say together, by place and field of their answers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bench.drift.snapshots.alignment import Alignment, align
from bench.drift.snapshots.records import MISSING, Records
from cache.row import RowHead

DAY_S: Final = 86_400.0

MAX_CELLS: Final = 50_000
"""The most cells of a field that are kept of each snapshot; those of further calls are left out."""

MAX_FIELDS_POOLED, MAX_CELLS_POOLED = 20_000, 10_000_000
"""The most fields of a tool, over all its calls, and the most cells of both snapshots in them."""

MAX_EXAMPLES: Final = 3
"""Compared calls that are kept whole, to find columns with another name."""


@dataclass
class FieldPool:
    """One field over all compared calls. `before` and `after` hold all cells, of answers that have
    the field's list of records. `pairs` holds the cells of records that belong together, `past`
    those of them whose date had passed and is not the newest one before.

    `calls` counts calls whose answers have the list of records in both snapshots; `calls_before`
    and `calls_after` those in which a record has the field.
    """

    place: str
    name: str
    before: list[Any] = field(default_factory=list)
    after: list[Any] = field(default_factory=list)
    pairs: list[tuple[Any, Any]] = field(default_factory=list)
    past: list[tuple[Any, Any]] = field(default_factory=list)
    past_dates: list[float] = field(default_factory=list)
    past_starts: list[int] = field(default_factory=list)
    """Where the records of each call begin in `past`."""
    newer: list[Any] = field(default_factory=list)
    """The cells of records whose date is after the newest one before."""
    calls: int = 0
    calls_before: int = 0
    calls_after: int = 0
    calls_lost: int = 0
    dated: bool = False
    counted: bool = False
    """Whether the records of a call only belong together by their place in the list."""

    @property
    def path(self) -> str:
        return ".".join(filter(None, (self.place, self.name)))

    @property
    def is_single(self) -> bool:
        """Whether each answer has one record, and the two of a call belong together."""
        return len(self.before) == len(self.after) == len(self.pairs) == self.calls

    def past_around(self, place: int) -> tuple[list[float], list[tuple[Any, Any]]]:
        """The dates and the cells of the call whose records in `past` include that place."""
        start = max(start for start in self.past_starts if start <= place)
        end = min((s for s in self.past_starts if s > place), default=len(self.past))
        return self.past_dates[start:end], self.past[start:end]


@dataclass(slots=True)
class Pair:
    """The records at one place of two answers to one call."""

    before: Records
    after: Records
    alignment: Alignment | None


class Pool:
    """Gathers the compared calls of one tool. `in_part` holds the keys of those of which not all
    was read; if there is none, a field which is not there is gone.
    """

    def __init__(self) -> None:
        self.fields: dict[tuple[str, str], FieldPool] = {}
        self.pairs: dict[str, list[Pair]] = {}
        self.calls = 0
        self.in_part: set[bytes] = set()
        self._cells = 0

    def add(
        self, call: RowHead, before: Mapping[str, Records], after: Mapping[str, Records]
    ) -> Iterator[Pair]:
        """Add the answers to one call, given as before; returns the places that both have."""
        asked = {*map(str, call.arguments.values())}
        self.calls += 1
        for place, a in before.items():
            b = after.get(place)
            if b is None:
                continue
            if not (a.rows and b.rows):
                yield Pair(a, b, None)
                continue
            alignment = align(a, b, asked, call.recorded_at - DAY_S)
            pair = Pair(a, b, alignment)
            kept = self.pairs.setdefault(place, [])
            if len(kept) < MAX_EXAMPLES:
                kept.append(pair)
            for name in dict.fromkeys((*a.fields, *b.fields)):
                if not self._add_field(name, pair):
                    self.in_part.add(call.key)
            yield pair

    def _add_field(self, name: str, pair: Pair) -> bool:
        """Returns whether there was room for the field."""
        a, b, alignment = pair.before, pair.after, pair.alignment
        pool = self.fields.get((a.place, name))
        if pool is None:
            if len(self.fields) >= MAX_FIELDS_POOLED:
                return False
            pool = self.fields[a.place, name] = FieldPool(a.place, name)
        before, after = a.fields.get(name), b.fields.get(name)
        has_before = before is not None and _is_there(before)
        has_after = after is not None and _is_there(after)
        pool.calls += 1
        pool.calls_before += has_before
        pool.calls_after += has_after
        pool.calls_lost += has_before and not has_after
        if self._cells >= MAX_CELLS_POOLED:
            return True
        if len(pool.before) < MAX_CELLS:
            pool.before += before or [MISSING] * a.rows
            self._cells += a.rows
        if len(pool.after) < MAX_CELLS:
            pool.after += after or [MISSING] * b.rows
            self._cells += b.rows
        if before is None or after is None or alignment is None or len(pool.pairs) > MAX_CELLS:
            return True
        if name in a.counters or (alignment.moved_s and name == alignment.date):
            return True  # it says nothing of the records, or all is said
        cells = [(before[i], after[j]) for i, j in alignment.pairs]
        pool.pairs += cells
        pool.counted |= alignment.counted
        if alignment.dated and alignment.date is not None:
            pool.dated = True
            dates, later = a.dates[alignment.date], b.dates[alignment.date]
            newest = max(dates)
            until = min(newest, alignment.until)
            pool.past_starts.append(len(pool.past))
            for (i, _), cell in zip(alignment.pairs, cells, strict=True):
                if dates[i] < until:
                    pool.past.append(cell)
                    pool.past_dates.append(dates[i])
            pool.newer += [after[n] for n, date in enumerate(later) if date > newest]
        return True


def _is_there(cells: Sequence[Any]) -> bool:
    return any(cell is not MISSING for cell in cells)

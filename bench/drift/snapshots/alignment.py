"""Which records of two answers are about the same thing: the same date, or the same code.

Only records that belong together are compared value by value. So new rows for new dates, and rows
that left a moving window, are no change.
"""

import re
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass
from itertools import islice
from math import inf
from typing import Any, Final

from bench.drift.snapshots.records import KEY, Records, is_null, last_name, numbers, shown
from bench.drift.snapshots.statistics import direction, is_even

_IDENTITY = re.compile(
    r"(?i)(?:^|[_. ])(?:id|isin|cusip|symbol|ticker|code|slug|key|uuid)$"
    r"|(?-i:[a-z](?:Id|Code|Symbol)|(?<![A-Z])ID)$|代码$"
)
_NAME = re.compile(r"(?i)(?:^|[_. ])(?:name|item|title)$|(?:名称|简称|项目|指标|标题)$")
_LEAST_COMMON: Final = 0.5

_LEAST_MOVED, _MOVED_ALIKE = 5, 0.7
"""Records with values of their own, and the share of them whose dates moved by as much."""

_MOST_FIELDS: Final = 16
"""Fields of values that are looked for at other dates, and fields of dates."""


@dataclass(frozen=True, slots=True)
class Alignment:
    """The records of two answers that belong together, as pairs of places.

    `dated` says that they belong together by date, in the field `date`; then a value of the past
    should stay. Otherwise they are about the same things at two times, and values may move.
    `counted` says that their key is only a place in the list. If `moved_s` is not 0, the same
    values stand at dates in the field `date` that are later by so many seconds. Dates before
    `until` are past.
    """

    pairs: Sequence[tuple[int, int]]
    dated: bool
    date: str | None = None
    counted: bool = False
    moved_s: float = 0.0
    until: float = inf


def is_identity(name: str) -> bool:
    """Whether a field says by its name that its values only tell records apart."""
    return _IDENTITY.search(shown(last_name(name))) is not None


def align(
    before: Records, after: Records, asked: Set[str] = frozenset(), until: float = inf
) -> Alignment | None:
    """How the records of two answers belong together; None if that can't be told. Lists of one
    record do if the one before held a code that was `asked` for, that is, named by the call. Only
    dates before `until` (Unix seconds) are past.
    """
    common = [name for name in before.fields if name in after.fields]
    if before.rows == after.rows == 1:
        codes = (before.fields[name][0] for name in common if is_identity(name))
        if before.place == "" or not asked.isdisjoint(map(str, codes)):
            return Alignment([(0, 0)], dated=False)
    if (found := _by_values(before, after, common, until)) is not None:
        return found
    found, are_others = _by_name(before, after, common, _IDENTITY)
    if found is None and not are_others:
        found = _by_date(before, after, common, until)
    if found is None:
        found, _ = _by_name(before, after, common, _NAME)
    if found is None and KEY in common and (pairs := _pairs(before.fields[KEY], after.fields[KEY])):
        found = Alignment(pairs, dated=False, counted=KEY in before.counters)
    return found


def _by_values(
    before: Records, after: Records, common: Sequence[str], until: float
) -> Alignment | None:
    """By their values, where past dates of these all moved by as much. Values that stay at their
    dates say that no date moved; codes, names and numbers of rows say nothing.
    """
    least = max(_LEAST_MOVED, min(before.rows, after.rows) / 4)
    dated = (name for name, dates in before.dates.items() if len({*dates}) >= least)
    found: dict[str, Alignment | None] = dict.fromkeys(
        islice((name for name in dated if name in after.dates), _MOST_FIELDS)
    )
    names = [name for name in common if name not in before.dates and not _tells_apart(name)]
    for name in names[:_MOST_FIELDS]:
        if not found:
            break
        places, known = _once(after.fields[name]), _once(before.fields[name])
        if is_even(numbers(known)):
            continue
        pairs = [(i, places[cell]) for cell, i in known.items() if cell in places]
        for date in [*found]:
            dates, others = before.dates[date], after.dates[date]
            moves = Counter(others[j] - dates[i] for i, j in pairs if dates[i] < until)
            moved_s, count = max(moves.items(), key=lambda move: move[1], default=(0.0, 0))
            if count < max(least, _MOVED_ALIKE * moves.total()):
                continue
            if moved_s == 0:
                del found[date]
            elif found[date] is None:
                found[date] = Alignment(pairs, dated=False, date=date, moved_s=moved_s)
    return next(filter(None, found.values()), None)


def _tells_apart(name: str) -> bool:
    return name == KEY or is_identity(name) or _NAME.search(shown(last_name(name))) is not None


def _once(cells: Sequence[Any]) -> dict[Any, int]:
    """The places of the numbers and texts that stand once."""
    counts = Counter(cell for cell in cells if type(cell) in (int, float, str))
    return {
        cell: place
        for place, cell in enumerate(cells)
        if type(cell) in (int, float, str) and counts[cell] == 1 and not is_null(cell)
    }


def _by_name(
    before: Records, after: Records, common: Sequence[str], pattern: re.Pattern[str]
) -> tuple[Alignment | None, bool]:
    """By the first field that `pattern` names and that tells records apart. Also returns whether
    such a field says that most records are other ones than before.
    """
    are_others = False
    for name in common:
        if name == KEY or pattern.search(shown(last_name(name))) is None:
            continue
        pairs = _pairs(before.fields[name], after.fields[name])
        if pairs is not None and len(pairs) >= _LEAST_COMMON * min(before.rows, after.rows):
            return Alignment(pairs, dated=False, counted=name in before.counters), False
        are_others |= pairs is not None
    return None, are_others


def _by_date(
    before: Records, after: Records, common: Sequence[str], until: float
) -> Alignment | None:
    """By the first field of dates that only rise or only fall; where several records have a date,
    by the date and a code.
    """
    for name in common:
        dates = before.dates.get(name)
        others = after.dates.get(name) if dates is not None and direction(dates) else None
        if dates is None or others is None:
            continue
        pairs = _pairs(dates, others)
        for code in common if pairs is None else ():
            if _IDENTITY.search(code) or _NAME.search(code):
                pairs = _pairs(
                    [*zip(dates, before.fields[code], strict=True)],
                    [*zip(others, after.fields[code], strict=True)],
                )
                if pairs is not None:
                    break
        if pairs is not None and len(pairs) >= _LEAST_COMMON * _within(dates, others):
            return Alignment(pairs, dated=True, date=name, until=until)
    return None


def _within(dates: Sequence[float], others: Sequence[float]) -> int:
    """How many of `dates` are in the time that both cover."""
    first, last = max(min(dates), min(others)), min(max(dates), max(others))
    return sum(first <= date <= last for date in dates)


def _pairs(before: Sequence[Any], after: Sequence[Any]) -> list[tuple[int, int]] | None:
    """The places of equal keys; None if a key stands twice or is missing."""
    try:
        places = {key: place for place, key in enumerate(after)}
        if len(places) < len(after) or len({*before}) < len(before):
            return None
    except TypeError:  # a list is no key
        return None
    if any(is_null(key) for key in places) or any(is_null(key) for key in before):
        return None
    return [(n, places[key]) for n, key in enumerate(before) if key in places]

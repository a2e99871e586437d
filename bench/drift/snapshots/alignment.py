"""Which records of two answers are about the same thing: the same date, or the same code.

Only records that belong together are compared value by value. So new rows for new dates, and rows
that left a moving window, are no change.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from bench.drift.snapshots.records import KEY, Records, is_null, last_name, shown

_IDENTITY = re.compile(
    r"(?i)(?:^|[_. ])(?:id|isin|cusip|symbol|ticker|code|slug|key|uuid)$"
    r"|[a-z](?:Id|Code|Symbol)$|代码$"
)
_NAME = re.compile(r"(?i)(?:^|[_. ])(?:name|item|title)$|(?:名称|简称|项目|指标|标题)$")
_LEAST_COMMON: Final = 0.5


@dataclass(frozen=True, slots=True)
class Alignment:
    """The records of two answers that belong together, as pairs of places.

    `dated` says that they belong together by date, in the field `date`; then a value of the past
    should stay. Otherwise they are about the same things at two times, and values may move.
    """

    pairs: Sequence[tuple[int, int]]
    dated: bool
    date: str | None = None


def is_identity(name: str) -> bool:
    """Whether a field says by its name that its values only tell records apart."""
    return _IDENTITY.search(shown(last_name(name))) is not None


def align(before: Records, after: Records) -> Alignment | None:
    """How the records of two answers belong together; None if that can't be told."""
    if before.place == "" and before.rows == after.rows == 1:
        return Alignment([(0, 0)], dated=False)
    common = [name for name in before.fields if name in after.fields]
    found, are_others = _by_name(before, after, common, _IDENTITY)
    if found is None and not are_others:
        found = _by_date(before, after, common)
    if found is None:
        found, _ = _by_name(before, after, common, _NAME)
    if found is None and KEY in common and (pairs := _pairs(before.fields[KEY], after.fields[KEY])):
        found = Alignment(pairs, dated=False)
    return found


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
            return Alignment(pairs, dated=False), False
        are_others |= pairs is not None
    return None, are_others


def _by_date(before: Records, after: Records, common: Sequence[str]) -> Alignment | None:
    """By the first field of dates that only rise or only fall; where several records have a date,
    by the date and a code.
    """
    for name in common:
        dates = before.dates.get(name)
        others = after.dates.get(name) if dates is not None and _is_ordered(dates) else None
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
            return Alignment(pairs, dated=True, date=name)
    return None


def _within(dates: Sequence[float], others: Sequence[float]) -> int:
    """How many of `dates` are in the time that both cover."""
    first, last = max(min(dates), min(others)), min(max(dates), max(others))
    return sum(first <= date <= last for date in dates)


def _is_ordered(dates: Sequence[float]) -> bool:
    if len(dates) < 2 or dates[0] == dates[-1]:
        return False
    sign = 1 if dates[0] < dates[-1] else -1
    return all(sign * a <= sign * b for a, b in pairwise(dates))


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

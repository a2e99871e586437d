"""Checks of dates and of how many records there are."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from statistics import median
from typing import Final

from bench.drift.snapshots.pool import DAY_S, Pair
from bench.drift.snapshots.records import Records, said
from bench.drift.snapshots.report import Report
from cache.row import RowHead

LATE_DAYS: Final[Mapping[str, float]] = {
    "realtime": 11,
    "daily": 11,
    "weekly": 21,
    "monthly": 70,
    "periodic": 140,
    "as_filed": 140,
}
"""How many days the newest date of an answer may be in the past, by the tool's timeliness. The
longest holidays of an exchange last ten days.
"""

_BACK_S: Final = 365 * DAY_S
"""A date that goes back so far was not only corrected."""

_FEWER, _MORE = 2 / 3, 3 / 2
_LEAST_ROWS: Final = 10


def check_gap(pair: Pair, report: Report) -> bool:
    """Whether dates are missing between others that both answers have."""
    alignment = pair.alignment
    if alignment is None or not alignment.dated or alignment.date is None:
        return False
    before, after = pair.before.dates[alignment.date], {*pair.after.dates[alignment.date]}
    first, last = max(min(before), min(after)), min(max(before), max(after))
    expected = {date for date in before if first <= date <= last}
    missing = expected - after
    if missing:
        path = pair.before.path(alignment.date)
        text = f"{len(missing)} of {len(expected)} dates in {said(path)} are missing"
        text += f", first {day(min(missing))}"
        report.add("gap", path, len(expected), len(expected) - len(missing), text)
    return bool(missing)


def check_moved_dates(pair: Pair, report: Report) -> None:
    """Whether the same values stand at other dates, or the newest date of a history, or the dates
    of the same things, went back by a year or more.
    """
    alignment = pair.alignment
    if alignment is None:
        return
    for name, dates in pair.before.dates.items():
        later = pair.after.dates.get(name)
        if later is None or (alignment.date or name) != name:
            continue
        path, moved_s = pair.before.path(name), alignment.moved_s
        if moved_s:
            i, j = next((i, j) for i, j in alignment.pairs if later[j] - dates[i] == moved_s)
            a, b = pair.before.fields[name][i], pair.after.fields[name][j]
            is_less = abs(moved_s) < DAY_S
            by = f"{moved_s / 3600:+g} hours" if is_less else f"{moved_s / DAY_S:+g} days"
            text = f"{said(path)}: the same values stand at other dates, moved by {by}"
            report.add("restated", path, a, b, f"{text}, first {a} to {b}")
            continue
        pairs = [(dates[i], later[j]) for i, j in alignment.pairs]
        old, new = max(dates), max(later)
        if not alignment.dated and pairs:
            old, new = sorted(pairs, key=lambda pair: pair[1] - pair[0])[len(pairs) // 2]
        if old - new >= _BACK_S:
            text = f"{said(path)} went back from {day(old)} to {day(new)}"
            report.add("stale", path, day(old), day(new), text)


Sizes = tuple[float, float, float]
"""How many records there are before and after, and how many there would be if those before had
grown by the new dates.
"""


def sizes_of(pair: Pair) -> Sizes:
    """The sizes of two lists of records."""
    before, after = pair.before.rows, pair.after.rows
    return before, after, before * (1 + _advance(pair))


def check_rows(place: str, sizes: Sequence[Sizes], report: Report) -> bool:
    """Whether there are far fewer or far more records than there were. A history may grow by as
    many new dates as fit into the time since.
    """
    ratios = [
        after / before if after < before else max(after / grown, 1.0)
        for before, after, grown in sizes
        if before and max(before, after) >= _LEAST_ROWS
    ]
    if not ratios or _FEWER < (typical := median(ratios)) < _MORE:
        return False
    before, after, _ = max(sizes, key=max)
    if not any(ratios):
        report.add("empty", place, before, 0, f"{said(place)} has no records any more")
        return True
    where, word = f" at {said(place)}" if place else "", "fewer" if typical < 1 else "more"
    text = f"{word} records{where}: {after:,}, and {before:,} before"
    report.add("row_count", place or None, before, after, text)
    return True


def _newest(places: Mapping[str, Records]) -> tuple[float, str] | None:
    """The newest date (Unix seconds) in any field of dates, and the field's path."""
    found = [
        (max(dates), part.path(name))
        for part in places.values()
        for name, dates in part.dates.items()
        if dates and max(dates) > 10_000 * 366  # days of the kind `clock` are no dates
    ]
    return max(found, default=None)


def check_stale(
    timeliness: str,
    heads: tuple[RowHead, RowHead],
    before: Mapping[str, Records],
    after: Mapping[str, Records],
    report: Report,
) -> None:
    """Whether the newest date stands still although it was up to date before."""
    late_days = LATE_DAYS.get(timeliness)
    if late_days is None or not (first := _newest(before)) or not (second := _newest(after)):
        return
    (old, path), (new, _) = first, second
    was_at, is_at = (head.recorded_at for head in heads)
    lag, now_lag = (was_at - old) / DAY_S, (is_at - new) / DAY_S
    if -2 <= lag <= late_days < now_lag and (new - old) < 0.25 * (is_at - was_at):
        text = f"the newest date in {said(path)} is {day(new)}"
        text += f", {now_lag:.0f} days before the recording"
        report.add("stale", path, day(old), day(new), text)


def day(at: float) -> str:
    """A date as it is shown."""
    try:
        return datetime.fromtimestamp(at, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        return f"{at:g}"


def _advance(pair: Pair) -> float:
    """By which part of the time that the records before cover their newest date moved on."""
    for name, dates in pair.before.dates.items():
        later, span = pair.after.dates.get(name), max(dates) - min(dates)
        if later and span:
            grows = min(later) <= min(dates)  # else the oldest records make room for the newest
            return max(max(later) - max(dates), 0.0) / span if grows else 0.0
    return 0.0

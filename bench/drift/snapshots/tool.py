"""Compares the recorded calls of one tool in two snapshots."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

import orjson

from bench.drift.finding import Level
from bench.drift.snapshots.pool import DAY_S, FieldPool, Pool
from bench.drift.snapshots.records import Records, is_empty, is_null, is_whole, read
from bench.drift.snapshots.report import Report
from bench.drift.snapshots.shape_checks import (
    check_bare_columns,
    check_columns,
    check_paths,
    check_row_order,
    check_type,
)
from bench.drift.snapshots.time_checks import (
    LATE_DAYS,
    Sizes,
    check_gap,
    check_moved_dates,
    check_rows,
    check_stale,
    newest,
    sizes_of,
)
from bench.drift.snapshots.value_checks import (
    check_categories,
    check_distribution,
    check_identity,
    check_invalid,
    check_nulls,
    check_permuted,
    check_restated,
    check_unit,
)
from cache import Entry, Snapshot, SnapshotError
from cache.row import OK, RowHead
from gateway.errors import ErrorCode

NOT_OF_THE_TOOL: Final = frozenset(
    code.value
    for code in ErrorCode
    if code.fault in ("quota", "gateway")
    or code.value in ("unauthorized", "forbidden", "not_subscribed", "cancelled")
)
"""Errors that say nothing about the tool: our quota, our settings, our gateway."""

MOST_COMPARED: Final = 300
"""Of a tool with more changed answers, this many evenly spaced ones are compared in full."""

SLOWER, SLOWER_MS, LEAST_TIMED = 2.0, 100.0, 3


@dataclass
class ToolResult:
    """What the comparison of one tool found, what it counted of calls, whether a call was answered
    before and after, and the milliseconds of each call that was answered in both snapshots.
    """

    report: Report
    counts: Counter[str]
    answered_before: bool
    answered_after: bool
    latencies: list[tuple[float, float]]


def compare_tool(
    before: Snapshot, after: Snapshot, tool: str, host: str | None, timeliness: str
) -> ToolResult:
    """Compare all calls of `tool` that both snapshots hold, by their arguments.

    Raises `SnapshotError` for a row that can't be read.
    """
    report = Report(tool, host)
    heads, others = ({_arguments(head): head for head in s.heads(tool)} for s in (before, after))
    calls = [(head, others[key]) for key, head in heads.items() if key in others]
    measured = [call for call in calls if not {call[0].status, call[1].status} & NOT_OF_THE_TOOL]
    answered = [(a, b) for a, b in measured if a.status == b.status == OK]
    changed = [(a, b) for a, b in answered if not _is_same(a, b)]
    latencies = [(a.latency_ms, b.latency_ms) for a, b in answered]
    _check_status(measured, report)
    _check_latency(latencies, report)
    answers = _Answers(before, after, timeliness, report)
    counts = {
        "in_both": len(calls),
        "same": len(answered) - len(changed),
        "changed": len(changed),
        "only_before": len(heads.keys() - others.keys()),
        "only_after": len(others.keys() - heads.keys()),
        "not_measured": len(calls) - len(measured),
        "in_part": answers.check(answered, changed),
    }
    return ToolResult(
        report,
        Counter(counts),
        any(head.status == OK for head in heads.values()),
        any(head.status == OK for head in others.values()),
        latencies,
    )


class _Answers:
    """Compares the answers themselves."""

    def __init__(self, before: Snapshot, after: Snapshot, timeliness: str, report: Report) -> None:
        self._before, self._after = before, after
        self._timeliness, self._report = timeliness, report
        self._emptied: list[int] = []
        """How many records each answer had that has no values any more."""
        self._were_empty = 0

    def check(
        self,
        answered: Sequence[tuple[RowHead, RowHead]],
        changed: Sequence[tuple[RowHead, RowHead]],
    ) -> int:
        """Returns how many answers have more fields or records than are read."""
        step = max(-(-len(changed) // MOST_COMPARED), 1)
        pool, is_table = Pool(), True
        gaps: set[str] = set()
        sizes: dict[str, list[Sizes]] = {}
        without_rows: list[tuple[Sequence[str], Sequence[str]]] = []
        for a, b in changed[::step]:
            first, second = self._entry(self._before, a), self._entry(self._after, b)
            kinds = _kind(first), _kind(second)
            if None not in kinds and kinds[0] != kinds[1]:
                text = f"the answer was {kinds[0]} and is {kinds[1]}"
                self._report.add("type_changed", None, *kinds, text)
                continue
            old, new = read(first), read(second)
            if not (is_whole(old) and is_whole(new)):
                pool.in_part.add(a.key)
            if self._check_empty(old, new):
                if first.rows == second.rows == 0:
                    without_rows.append((first.columns or (), second.columns or ()))
                continue
            is_table = first.columns is not None
            self._check_stale(a, b, old, new)
            for pair in pool.add(a, old, new):
                gaps |= check_gap([pair], self._report)
                check_moved_dates(pair, self._report)
                check_row_order(pair, self._report)
                sizes.setdefault(pair.before.place, []).append(sizes_of(pair))
        if self._emptied:
            looked_at = len(answered) if step == 1 else len(changed[::step])
            self._add_emptied(looked_at - self._were_empty)
        self._check_still(answered)
        resized = {
            place
            for place, chosen in sizes.items()
            if place not in gaps and check_rows(place, chosen, self._report)
        }
        if not pool.calls:
            check_bare_columns(without_rows, self._report)
        elif not pool.in_part:
            (check_columns if is_table else check_paths)(pool, self._report)
        for each in pool.fields.values():
            if each.calls_before and each.calls_after and each.before and each.after:
                _check_values(each, each.place in resized, self._report)
        return len(pool.in_part)

    def _add_emptied(self, whole: int) -> None:
        part = _part(len(self._emptied), whole)
        text = f"the answer has no values any more{part}"
        level: Level | None = "WARN" if part else None
        self._report.add("empty", None, self._emptied[0], 0, text, level=level)

    def _check_still(self, answered: Sequence[tuple[RowHead, RowHead]]) -> None:
        """Whether a date stands still in an answer that is the same."""
        for a, b in answered if self._timeliness in LATE_DAYS else ():
            if _is_same(a, b) and b.recorded_at - a.recorded_at > DAY_S:
                places = read(self._entry(self._before, a))
                self._check_stale(a, b, places, places)
                return

    def _entry(self, snapshot: Snapshot, head: RowHead) -> Entry:
        row = snapshot.get(head.key.hex())
        if row is None:
            raise SnapshotError(f"{snapshot.path}: its index lacks a row of {head.tool}")
        return row.entry

    def _check_empty(self, old: Mapping[str, Records], new: Mapping[str, Records]) -> bool:
        """Whether one of the answers holds no value, so there is nothing to compare."""
        was, is_now = is_empty(old), is_empty(new)
        self._were_empty += was
        if is_now and not was:
            self._emptied.append(sum(records.rows for records in old.values()))
        elif was and not is_now:
            rows = sum(records.rows for records in new.values())
            text = "the answer, which had no values, has some"
            self._report.add("empty", None, 0, rows, text, level="INFO")
        return was or is_now

    def _check_stale(
        self, a: RowHead, b: RowHead, old: Mapping[str, Records], new: Mapping[str, Records]
    ) -> None:
        if self._timeliness not in LATE_DAYS:
            return
        first, second = newest([*old.values()]), newest([*new.values()])
        if first is not None and second is not None:
            times = (a.recorded_at, b.recorded_at)
            check_stale(self._timeliness, first, second, times, self._report)


def _check_values(field: FieldPool, resized: bool, report: Report) -> None:
    """Compare the values of a field. Where far more or fewer records are there, these are others,
    and so may be the distribution of their values.
    """
    if field.before == field.after and all(a == b for a, b in field.pairs):
        return
    if all(cell is True or is_null(cell) for cell in field.before) and field.name.endswith("[]"):
        return  # whether an array is there is a matter of paths
    nothing_left = check_nulls(field, report)
    if nothing_left or any(check(field, report) for check in _ONE_CAUSE):
        return
    if resized:
        check_restated(field, report)
    elif not (check_categories(field, report) or check_restated(field, report)):
        check_distribution(field, report)


_ONE_CAUSE: Final = (check_type, check_invalid, check_unit, check_identity, check_permuted)
"""Checks of values of which the first that finds something explains what changed."""


def _check_status(calls: Sequence[tuple[RowHead, RowHead]], report: Report) -> None:
    lost = [(a, b) for a, b in calls if a.status == OK and b.status != OK]
    back = [(a, b) for a, b in calls if a.status != OK and b.status == OK]
    other = [(a, b) for a, b in calls if OK not in (a.status, b.status) and a.status != b.status]
    worked = sum(a.status == OK for a, _ in calls)
    empty = [pair for pair in lost if pair[1].status == ErrorCode.UPSTREAM_EMPTY.value]
    if empty and len(empty) == len(lost):
        part = _part(len(empty), worked)
        report.add(
            *("empty", None, OK, ErrorCode.UPSTREAM_EMPTY.value),
            f"the answer has no values any more{part}",
            level="WARN" if part else None,
        )
    elif lost:
        part = _part(len(lost), worked)
        codes = sorted({b.status for _, b in lost})
        report.add(
            *("availability", None, OK, ", ".join(codes)),
            f"it answered, and now fails with {', '.join(codes)}{part}",
            level="WARN" if part else None,
        )
    elif back:
        code = back[0][0].status
        text = f"it failed with {code}, and answers now"
        report.add("availability", None, code, OK, text, level="INFO")
    if other:
        a, b = other[0]
        text = f"it failed with {a.status}, and now with {b.status}"
        report.add("error_code", None, a.status, b.status, text)


def _check_latency(pairs: Sequence[tuple[float, float]], report: Report) -> None:
    """Whether all calls take at least half as long again as the slowest one did, and in the middle
    twice as long.
    """
    if len(pairs) < LEAST_TIMED:
        return
    before, after = [a for a, _ in pairs], [b for _, b in pairs]
    old, new = median(before), median(after)
    if new >= SLOWER * old and new - old >= SLOWER_MS and min(after) >= 1.5 * max(before):
        text = f"calls took {old:,.0f} ms and take {new:,.0f} ms"
        report.add("latency", None, round(old, 1), round(new, 1), text)


def _kind(entry: Entry) -> str | None:
    """What an answer is, in words; an empty list may be either, and older snapshots say so."""
    if not entry.columns and entry.data == b"[]":
        return None
    return "a document" if entry.columns is None else "a table"


def _is_same(a: RowHead, b: RowHead) -> bool:
    return a.answer == b.answer


def _arguments(head: RowHead) -> bytes:
    return orjson.dumps(dict(head.arguments), option=orjson.OPT_SORT_KEYS)


def _part(calls: int, whole: int) -> str:
    return "" if calls == whole else f", in {calls} of {whole} calls"

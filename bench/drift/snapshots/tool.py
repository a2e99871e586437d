"""Compares the recorded calls of one tool in two snapshots."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final

import orjson

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

EMPTY: Final = "the answer has no values any more"

Heads = tuple[RowHead, RowHead]
"""What two snapshots say of one call, but for the answers."""


def compare_tool(
    before: Snapshot, after: Snapshot, tool: str, host: str | None, timeliness: str
) -> Report:
    """Compare all calls of `tool` that both snapshots hold, by their arguments.

    Raises `SnapshotError` for a row that can't be read.
    """
    report = Report(tool, host)
    heads, others = ({_arguments(head): head for head in s.heads(tool)} for s in (before, after))
    calls = [(head, others[key]) for key, head in heads.items() if key in others]
    measured = [call for call in calls if not {call[0].status, call[1].status} & NOT_OF_THE_TOOL]
    answered = [(a, b) for a, b in measured if a.status == b.status == OK]
    changed = [(a, b) for a, b in answered if not _is_same(a, b)]
    report.latencies = [(a.latency_ms, b.latency_ms) for a, b in answered]
    report.answered_before, report.answered_after = (
        any(head.status == OK for head in side.values()) for side in (heads, others)
    )
    _check_status(measured, report)
    _check_latency(report)
    report.counts.update(
        in_both=len(calls),
        same=len(answered) - len(changed),
        changed=len(changed),
        only_before=len(heads.keys() - others.keys()),
        only_after=len(others.keys() - heads.keys()),
        not_measured=len(calls) - len(measured),
        in_part=_check_answers(before, after, timeliness, answered, changed, report),
    )
    return report


def _check_answers(
    before: Snapshot,
    after: Snapshot,
    timeliness: str,
    answered: Sequence[Heads],
    changed: Sequence[Heads],
    report: Report,
) -> int:
    """Compare the answers. Returns how many have more fields or records than are read."""
    step = max(-(-len(changed) // MOST_COMPARED), 1)
    pool, is_table = Pool(), True
    gaps: set[str] = set()
    sizes: dict[str, list[Sizes]] = {}
    without_rows: list[tuple[Sequence[str], Sequence[str]]] = []
    emptied: list[int] = []  # how many records each answer had that has no values any more
    were_empty = 0
    for a, b in changed[::step]:
        first, second = _entry(before, a), _entry(after, b)
        kinds = _kind(first), _kind(second)
        if None not in kinds and kinds[0] != kinds[1]:
            text = f"the answer was {kinds[0]} and is {kinds[1]}"
            report.add("type_changed", None, *kinds, text)
            continue
        old, new = read(first), read(second)
        if not (is_whole(old) and is_whole(new)):
            pool.in_part.add(a.key)
        was_empty, is_now_empty = is_empty(old), is_empty(new)
        were_empty += was_empty
        if was_empty or is_now_empty:
            if not was_empty:
                emptied.append(_rows(old))
            elif not is_now_empty:
                text = "the answer, which had no values, has some"
                report.add("empty", None, 0, _rows(new), text, level="INFO")
            if first.rows == second.rows == 0:
                without_rows.append((first.columns or (), second.columns or ()))
            continue
        is_table = first.columns is not None
        check_stale(timeliness, (a, b), old, new, report)
        for pair in pool.add(a, old, new):
            if check_gap(pair, report):
                gaps.add(pair.before.place)
            check_moved_dates(pair, report)
            check_row_order(pair, report)
            sizes.setdefault(pair.before.place, []).append(sizes_of(pair))
    if emptied:
        looked_at = len(answered) if step == 1 else len(changed[::step])
        _add_of_calls(report, "empty", (emptied[0], 0), EMPTY, len(emptied), looked_at - were_empty)
    for a, b in answered if timeliness in LATE_DAYS else ():
        if _is_same(a, b) and b.recorded_at - a.recorded_at > DAY_S:
            places = read(_entry(before, a))  # a date may stand still in an answer that is the same
            check_stale(timeliness, (a, b), places, places, report)
            break
    resized = {
        place
        for place, chosen in sizes.items()
        if place not in gaps and check_rows(place, chosen, report)
    }
    if not pool.calls:
        check_bare_columns(without_rows, report)
    elif not pool.in_part:
        (check_columns if is_table else check_paths)(pool, report)
    for each in pool.fields.values():
        if each.calls_before and each.calls_after and each.before and each.after:
            _check_values(each, each.place in resized, report)
    return len(pool.in_part)


def _entry(snapshot: Snapshot, head: RowHead) -> Entry:
    row = snapshot.get(head.key.hex())
    if row is None:
        raise SnapshotError(f"{snapshot.path}: its index lacks a row of {head.tool}")
    return row.entry


def _rows(places: Mapping[str, Records]) -> int:
    return sum(records.rows for records in places.values())


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


def _check_status(calls: Sequence[Heads], report: Report) -> None:
    lost = [(a, b) for a, b in calls if a.status == OK and b.status != OK]
    back = [(a, b) for a, b in calls if a.status != OK and b.status == OK]
    other = [(a, b) for a, b in calls if OK not in (a.status, b.status) and a.status != b.status]
    worked = sum(a.status == OK for a, _ in calls)
    codes = ", ".join(sorted({b.status for _, b in lost}))
    if codes == ErrorCode.UPSTREAM_EMPTY.value:
        _add_of_calls(report, "empty", (OK, codes), EMPTY, len(lost), worked)
    elif lost:
        text = f"it answered, and now fails with {codes}"
        _add_of_calls(report, "availability", (OK, codes), text, len(lost), worked)
    elif back:
        code = back[0][0].status
        text = f"it failed with {code}, and answers now"
        report.add("availability", None, code, OK, text, level="INFO")
    if other:
        a, b = other[0]
        text = f"it failed with {a.status}, and now with {b.status}"
        report.add("error_code", None, a.status, b.status, text)


def _add_of_calls(
    report: Report, check: str, sides: tuple[Any, Any], text: str, calls: int, whole: int
) -> None:
    """Add a finding about some or all of the calls; one about some is less bad."""
    part = "" if calls == whole else f", in {calls} of {whole} calls"
    report.add(check, None, *sides, f"{text}{part}", level="WARN" if part else None)


def _check_latency(report: Report) -> None:
    """Whether all calls take at least half as long again as the slowest one did, and in the middle
    twice as long.
    """
    if len(report.latencies) < LEAST_TIMED:
        return
    before, after = zip(*report.latencies, strict=True)
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

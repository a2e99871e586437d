"""Checks of the shape of answers: columns, paths, types, order."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from statistics import median
from typing import Any, Final

from rapidfuzz.fuzz import ratio

from bench.drift.snapshots.pool import FieldPool, Pair, Pool
from bench.drift.snapshots.records import (
    MISSING,
    Records,
    forms,
    inner,
    is_null,
    number_pairs,
    numbers,
    said,
    shown,
    spaced,
)
from bench.drift.snapshots.report import Report
from bench.drift.snapshots.statistics import direction, kolmogorov_smirnov, rank_correlation

_CHANCE: Final = 1e-3
"""A field is gone, not only optional, if chance explains its absence no better than this."""

_MIXED: Final = 0.05
_NEW_TEXT: Final = 0.2
_MARK = re.compile(r"[.\[]")
_MOST_PARENTS: Final = 24

_MOST_RENAMED: Final = 50
"""Columns that are gone, and new ones, of which each is compared with each."""

_SAMPLE, _MOST_TEXTS, _LONGEST_NAME = 1_000, 5_000, 200
_TEXTS = ("text", "number as text", "date")


def check_columns(pool: Pool, report: Report) -> None:
    """Columns of tables: gone, new, or with another name."""
    fields = [f for f in pool.fields.values() if f.place == "" and not f.name.endswith("[]")]
    removed = [f for f in fields if f.calls_lost]
    added = [f for f in fields if f.calls_after and not f.calls_before]
    pairs = pool.pairs.get("", [])
    renamed = _renamed([f for f in removed if not f.calls_after], added, pairs)
    for before, after, why in renamed:
        text = f"column {said(before.name)} is now {said(after.name)}: {why}"
        names = (shown(before.name), shown(after.name))
        report.add("column_renamed", before.name, *names, text)
    old, new = {before.name for before, _, _ in renamed}, {after.name for _, after, _ in renamed}
    lost_in = {f.name: f.calls_lost for f in removed if f.name not in old}
    for gone, below in _topmost(lost_in, [f.name for f in fields]).items():
        lost = max(lost_in[name] for name in below)
        text = f"column {said(gone)} is gone{_in(lost, pool.calls)}"
        report.add("column_removed", gone, shown(gone), None, text)
    for name in _topmost([f.name for f in added if f.name not in new], [f.name for f in fields]):
        report.add("column_added", name, None, shown(name), f"column {said(name)} is new")
    _check_column_order(pairs, report)


def check_bare_columns(
    tables: Sequence[tuple[Sequence[str], Sequence[str]]], report: Report
) -> None:
    """Columns that are gone from tables without rows. One without columns says nothing of them."""
    for before, after in tables:
        for name in before:
            if after and name not in after:
                text = f"column {said(inner(name))} is gone from a table without rows"
                report.add("column_removed", inner(name), name, None, text)


def check_paths(pool: Pool, report: Report) -> None:
    """Paths of documents: gone or new. A path that some records lack may be missing by chance."""
    fields = list(pool.fields.values())
    removed = [f for f in fields if _is_gone(f.before, f.after)]
    added = [f for f in fields if _is_gone(f.after, f.before)]
    paths = [f.path for f in fields]
    is_always = {f.path: _always(f.before) for f in removed}
    for path, below in _topmost(is_always, paths).items():
        always = all(is_always[name] for name in below)
        text = f"path {said(path)} is gone"
        report.add("path_removed", path, shown(path), None, text, level=None if always else "WARN")
    for path in _topmost([f.path for f in added], paths):
        report.add("path_added", path, None, shown(path), f"path {said(path)} is new")


def check_type(field: FieldPool, report: Report) -> bool:
    """Whether the values of a field have another type or form; then nothing else is compared."""
    before, after = forms(field.before), forms(field.after)
    if not before or not after:
        return False
    for form, share in after.items():
        known = before.get(form, 0.0)
        least = _NEW_TEXT if _is_text(form) and any(map(_is_text, before)) else _MIXED
        if share < least or known >= share / 5 or known > 0.1:
            continue
        main = max(before, key=lambda name: before[name])
        if _is_text(form) and _is_text(main) and before[main] < 0.9:
            continue  # a text that is written in several ways
        part = "" if share > 0.99 else f" in {share:.0%} of the values"
        text = f"{said(field.path)} was {main} and is {form}{part}"
        if main.startswith("date") and form.startswith("date"):
            old, new = _example(field.before), _example(field.after, form)
            text = (
                f"dates in {said(field.path)} were written as {old} and are written as {new}{part}"
            )
        report.add(
            "type_changed", field.path, main, form, text, level="WARN" if share < 0.5 else None
        )
        return True
    return False


def _example(cells: Sequence[Any], form: str | None = None) -> str:
    """The first cell with a value, or with one of that form."""
    known = (cell for cell in cells if not is_null(cell))
    return next(str(cell)[:40] for cell in known if form is None or form in forms([cell]))


def check_row_order(pair: Pair, report: Report) -> None:
    """Whether records that were ordered by date are ordered otherwise."""
    for name, dates in pair.before.dates.items():
        before, others = direction(dates), pair.after.dates.get(name)
        if before is None or others is None or min(len({*dates}), len({*others})) < 3:
            continue
        after = direction(others)
        if after != before:
            path = pair.before.path(name)
            orders = {1: "oldest first", -1: "newest first", None: "in no order of date"}
            text = f"records by {said(path)} were {orders[before]} and are {orders[after]}"
            report.add("order", path, orders[before], orders[after], text)
        return


def _check_column_order(pairs: Sequence[Pair], report: Report) -> None:
    for pair in pairs:
        before = [name for name in pair.before.fields if name in pair.after.fields]
        after = [name for name in pair.after.fields if name in pair.before.fields]
        if before != after:
            text = "the columns are in another order"
            names = ([*map(shown, before)], [*map(shown, after)])
            report.add("order", None, *names, text, level="INFO")
            return


def _is_gone(before: Sequence[Any], after: Sequence[Any]) -> bool:
    there = sum(cell is not MISSING for cell in before)
    if not there or not after or any(cell is not MISSING for cell in after):
        return False
    return there == len(before) or bool((1 - there / len(before)) ** len(after) < _CHANCE)


def _always(cells: Sequence[Any]) -> bool:
    return all(cell is not MISSING for cell in cells)


def _topmost(chosen: Iterable[str], every: Iterable[str]) -> dict[str, list[str]]:
    """The chosen paths, of which one stands in place of all below it where all of these are
    chosen; with each those that it stands for.
    """
    wanted, found = dict.fromkeys(chosen), dict[str, list[str]]()
    partly = {parent for path in every if path not in wanted for parent in (path, *_parents(path))}
    for path in wanted:
        parents = (parent for parent in _parents(path) if path[len(parent)] == ".")
        top = next((parent for parent in parents if parent not in partly), path)
        found.setdefault(top, []).append(path)
    return found


def _parents(path: str) -> Iterator[str]:
    """The paths above one, the shortest first; of a name with many marks only some."""
    for mark in islice(_MARK.finditer(path), _MOST_PARENTS):
        yield path[: mark.start()]


def _in(calls: int, whole: int) -> str:
    return "" if calls == whole else f" in {calls} of {whole} calls"


def _is_text(form: str) -> bool:
    return form.startswith(_TEXTS)


class _Column:
    """A column that may have another name: the cells of records that belong together, and what can
    be said of its cells alone. Of many cells evenly spaced ones are read.
    """

    def __init__(self, cells: Sequence[Any], together: list[Any]) -> None:
        shares = forms(cells)
        self.form = max(shares, key=lambda form: shares[form], default=None)
        self.together = together
        self.numbers = numbers(spaced(cells, _SAMPLE))
        self.texts = {str(cell) for cell in cells[:_MOST_TEXTS] if not is_null(cell)}


def _renamed(
    removed: Sequence[FieldPool], added: Sequence[FieldPool], pairs: Sequence[Pair]
) -> list[tuple[FieldPool, FieldPool, str]]:
    """Columns that are gone, each with the new column that is most like it by name and values."""
    removed, added = removed[:_MOST_RENAMED], added[:_MOST_RENAMED]
    if not removed or not added:
        return []
    places = [
        (pair, i, j)
        for pair in pairs
        if pair.alignment is not None
        for i, j in spaced(pair.alignment.pairs, _SAMPLE)
    ]

    def cell(records: Records, name: str, place: int) -> Any:
        cells = records.fields.get(name)
        return MISSING if cells is None else cells[place]

    new = [_Column(f.after, [cell(pair.after, f.name, j) for pair, _, j in places]) for f in added]
    scored = []
    for before in removed:
        together = [cell(pair.before, before.name, i) for pair, i, _ in places]
        old = _Column(before.before, together)
        for after, other in zip(added, new, strict=True):
            names = ratio(_plain(before.name), _plain(after.name)) / 100
            values, why = _alike(old, other)
            if values >= 0.8 or (values >= 0.5 and names >= 0.4) or min(values + 0.3, names) >= 0.6:
                scored.append((values + names, before, after, why))
    found: dict[str, tuple[FieldPool, FieldPool, str]] = {}
    taken: set[str] = set()
    for _, before, after, why in sorted(scored, key=lambda item: -item[0]):
        if before.name not in found and after.name not in taken:
            taken.add(after.name)
            found[before.name] = (before, after, why)
    return [*found.values()]


def _plain(name: str) -> str:
    return shown(name)[:_LONGEST_NAME].casefold().replace("_", "").replace(" ", "")


def _alike(before: _Column, after: _Column) -> tuple[float, str]:
    """How far two columns have the same values, from 0 to 1, and why."""
    if before.form is None or after.form is None:
        return 0.3, "a similar name, and no values to compare"
    if before.form != after.form:
        return 0.0, ""
    pairs = [*zip(before.together, after.together, strict=True)]
    cells = [(str(a), str(b)) for a, b in pairs if not is_null(a) and not is_null(b)]
    if len({a for a, _ in cells}) >= 3:
        same = sum(a == b for a, b in cells) / len(cells)
        if same >= 0.9:
            return 1.0, f"{same:.0%} of the values are the same"
        numeric = number_pairs(pairs)
        if len(numeric) >= 5 and rank_correlation(numeric) >= 0.8:
            factor = median([y / x for x, y in numeric if x] or [0.0])
            if 0.8 <= factor <= 1.25:
                return 0.9, "the values are nearly the same"
    first, second = before.numbers, after.numbers
    if len(first) >= 10 and len(second) >= 10:
        distance, _ = kolmogorov_smirnov(first, second)
        if distance < 0.12 and min(len(first), len(second)) >= 50:
            return 0.8, "the values are distributed in the same way"
        if distance < 0.25:
            return 0.5, "a similar name, and values from the same range"
        return 0.3, "a similar name, and values of the same type"
    texts, others = before.texts, after.texts
    if len(texts) >= 3 and len(texts & others) >= 0.6 * len(texts | others):
        return 0.8, "the same texts"
    return 0.3, "a similar name, and values of the same type"

"""The list of runs as its page shows it: filtered, sorted, a part at a time."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from bench.view.listing import Listed, Runs, Shown

A_PAGE = 100
"""Runs, or episodes of a run, on one page."""

IN_ONE_CELL = 4
"""Of runs of several suites, how many metrics of each are in the list."""

MOST_CHOICES = 200
"""The most suites or models that can be chosen from a list; all are found by text."""

_MARKS = {"complete": "good", "running": "busy", "interrupted": "bad"}


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked of the list. `sort` is the key of a column, after a `-` from high to low."""

    q: str = ""
    suite: str = ""
    model: str = ""
    sort: str = "-began"
    page: str = "1"

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "Query":
        return cls(**{name: given[name] for name in cls.__dataclass_fields__ if given.get(name)})

    def link(self, **changes: object) -> str:
        """The address of the list with these changes."""
        said = {name: getattr(self, name) for name in ("q", "suite", "model", "sort")} | changes
        return "/?" + urlencode({name: value for name, value in said.items() if value})

    def has(self, run: Listed) -> bool:
        text = f"{run.name}\n{run.suite}\n{run.agent}\n{run.model}\n{run.judge}\n{run.state}"
        return (
            self.suite in ("", run.suite)
            and self.model in ("", run.model)
            and all(word in text.lower() for word in self.q.lower().split())
        )


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a list of so many things: its number, and that of the last one."""

    number: int
    last: int

    @classmethod
    def of(cls, asked: str, count: int) -> "Page":
        last = max(1, -(-count // A_PAGE))
        number = int(asked) if asked.isascii() and asked.isdecimal() and len(asked) < 10 else 1
        return cls(min(max(number, 1), last), last)

    @property
    def part(self) -> slice:
        return slice((self.number - 1) * A_PAGE, self.number * A_PAGE)


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of the list. `parts` are names, values and intervals of figures."""

    text: str = ""
    note: str = ""
    mark: str = ""
    parts: Sequence[tuple[str, str, str]] = ()


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the list. `value` is what is sorted by; without it the column can't be. `kind` is
    its class in the style, `n` for numbers.
    """

    key: str
    title: str
    cell: Callable[[Listed], Cell]
    value: Callable[[Listed], Any] | None = None
    kind: str = ""


def content(runs: Runs, query: Query) -> dict[str, Any]:
    """What the template of the list shows."""
    every = [*runs.by_name.values()]
    chosen = [run for run in every if query.has(run)]
    columns = _columns(chosen)
    _sort(chosen, query.sort, columns)
    page = Page.of(query.page, len(chosen))
    return {
        "query": query,
        "runs_found": bool(every),
        "suites": _choices((run.suite for run in every), query.suite),
        "models": _choices((run.model for run in every), query.model),
        "found": _found(runs, len(chosen)),
        "heads": [_head(column, query) for column in columns],
        "rows": [_row(run, columns) for run in chosen[page.part]],
        "page": page,
        "link": lambda number: query.link(page=number),
    }


def _found(runs: Runs, chosen: int) -> str:
    there = len(runs.by_name)
    said = "No run is here: `finbench run` makes one in the folder that --out names."
    if there:
        counted = "1 run" if there == 1 else f"{there:,} runs"
        said = f"{counted}." if chosen == there else f"{chosen:,} of {counted}."
    return " ".join([said, *runs.notes])


def _choices(values: Iterable[str], chosen: str) -> list[tuple[str, str]]:
    most = Counter(filter(None, values)).most_common(MOST_CHOICES)
    return [("", "any"), *((name, name) for name in sorted({n for n, _ in most} | {chosen} - {""}))]


def _columns(runs: Sequence[Listed]) -> list[Column]:
    """The columns, without those that are empty. Runs of one suite have a column for each of its
    main metrics, by which they can be sorted.
    """
    suites = {run.suite for run in runs if run.figures}
    figures = next((run.figures for run in runs if run.figures), ())
    if len(suites) == 1:
        metrics = [_metric(place, shown) for place, shown in enumerate(figures)]
    else:
        metrics = [Column("metrics", "Metrics", _all_metrics)] if suites else []
    columns = [
        Column("name", "Run", lambda run: Cell(run.name), lambda run: run.name.lower()),
        *(
            [Column("suite", "Suite", lambda run: Cell(run.suite), lambda run: run.suite)]
            if len({run.suite for run in runs}) > 1
            else []
        ),
        Column("model", "Model", lambda run: Cell(run.model or "none"), lambda run: run.model),
        Column("agent", "Agent", lambda run: Cell(run.agent), lambda run: run.agent),
        Column("judge", "Judge", lambda run: Cell(run.judge), lambda run: run.judge),
        Column("state", "Ended", _state, lambda run: run.state),
        Column("episodes", "Episodes", _episodes, lambda run: run.episodes, kind="n"),
        *metrics,
        Column("tokens", "Tokens", _tokens, lambda run: run.tokens, kind="n"),
        Column("money", "Money", _money, lambda run: run.money and run.money.amount, kind="n"),
        Column("seed", "Seed", _seed, lambda run: run.seed, kind="n"),
        Column("began", "Began", _began, lambda run: run.began_s or None, "began"),
    ]
    return [
        column
        for column in columns
        if column.value is None or any(column.value(run) not in (None, "") for run in runs)
    ]


def _metric(place: int, shown: Shown) -> Column:
    def of(run: Listed) -> Shown | None:
        return run.figures[place] if run.figures else None

    def cell(run: Listed) -> Cell:
        found = of(run)
        return Cell("–") if found is None else Cell(found.text, found.interval)

    def value(run: Listed) -> float | None:
        return None if (found := of(run)) is None else found.value

    return Column(f"m:{shown.metric.name}", shown.metric.title, cell, value, kind="n")


def _all_metrics(run: Listed) -> Cell:
    known = [shown for shown in run.figures if shown.value is not None]
    shown = [(one.metric.title, one.text, one.interval) for one in known[:IN_ONE_CELL]]
    return Cell(parts=shown)


def _state(run: Listed) -> Cell:
    text = f"{run.state}, simulated" if run.is_simulated else run.state
    return Cell(text, mark=_MARKS[run.state])


def _episodes(run: Listed) -> Cell:
    if run.episodes is None:
        return Cell("–")
    is_whole = run.episodes >= run.planned
    return Cell(f"{run.episodes:,}", "" if is_whole else f"of {run.planned:,}")


def _tokens(run: Listed) -> Cell:
    return Cell("–" if run.tokens is None else f"{run.tokens:,}")


def _money(run: Listed) -> Cell:
    money = run.money
    if money is None:
        return Cell("–")
    return Cell("unknown", money.why) if money.amount is None else Cell(str(money))


def _seed(run: Listed) -> Cell:
    return Cell("" if run.seed is None else str(run.seed))


def _began(run: Listed) -> Cell:
    if not run.began_s:
        return Cell("–")
    began = datetime.fromtimestamp(run.began_s, UTC)
    return Cell(f"{began:%Y-%m-%d}", f"{began:%H:%M} UTC")


def _sort(runs: list[Listed], sort: str, columns: Sequence[Column]) -> None:
    """Sort runs; those without a value come last."""
    value = next((c.value for c in columns if c.key == sort.removeprefix("-")), None)
    runs.sort(key=lambda run: run.name)
    if value is not None:
        known = [run for run in runs if value(run) is not None]
        unknown = [run for run in runs if value(run) is None]
        known.sort(key=value, reverse=sort.startswith("-"))
        runs[:] = known + unknown


def _head(column: Column, query: Query) -> dict[str, Any]:
    orders = {column.key: "ascending", f"-{column.key}": "descending"}
    order = orders.get(query.sort)
    first, other = (f"-{column.key}", column.key)
    if column.key in ("name", "suite", "model", "agent", "judge", "state"):
        first, other = other, first
    link = query.link(sort=other if query.sort == first else first)
    is_sorted = column.value is not None
    return {
        "title": column.title,
        "link": link if is_sorted else "",
        "order": order if is_sorted else None,
        "kind": column.kind,
    }


def _row(run: Listed, columns: Sequence[Column]) -> dict[str, Any]:
    is_known = bool(run.suite or run.agent or not run.problem)
    cells = [(column.title, column.kind, column.cell(run)) for column in columns[1:]]
    return {
        "name": run.name,
        "link": f"/run?{urlencode({'name': run.name})}" if is_known else "",
        "is_known": is_known,
        "cells": cells if is_known else [],
        "problem": run.problem,
    }

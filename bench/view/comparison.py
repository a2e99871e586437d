"""Runs compared, as a page shows it: two task by task, more in a table."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import orjson

from bench.analysis.compare import (
    PASSES,
    UNLIKE,
    Run,
    compare,
    counterparts,
    figure_text,
    metric_rows,
)
from bench.analysis.table import Cell, lines_of, ranked
from bench.runs.about import RunDirectoryError, simulated
from bench.view.listing import Listed, Listing
from bench.view.work import Tell

NONE = Cell()
"""A figure that a run lacks."""

FLIPS = 200
"""The most tasks of one direction that are listed."""


def paired(listing: Listing, listed: Sequence[Listed], _: Tell) -> dict[str, Any]:
    """What the page shows of two runs. Raises as `Run` and `compare`."""
    a, b = (Run(one.path, listing.given(one.suite)) for one in listed)
    result = compare(a, b)
    shares = {one.name for one in a.measures if one.is_share} | PASSES.keys()
    names = [one.name for one in listed]
    return {
        "title": f"{a.about.suite or 'Runs'}: {a.about.player} and {b.about.player}",
        "sides": [
            (side, name, _link(name), run.about.player)
            for side, name, run in zip("AB", names, (a, b), strict=True)
        ],
        "swapped": "/compare?" + urlencode({"run": names[::-1]}, doseq=True),
        "notes": [*_notes(a, b, result)],
        "counts": [
            (kind, *(f"{_count(of[side]):,}" for side in ("common", "only_a", "only_b")))
            for kind, of in (("tasks", result["tasks"]), ("episodes", result["episodes"]))
        ],
        "settings": [
            (found["name"], *(_text(found[side]) for side in ("a", "b")), found["unfair"] or "")
            for found in result["settings"]
        ],
        "metrics": [*metric_rows(result["metrics"], shares)],
        "unknown": [name for name, found in result["metrics"].items() if not found["tasks"]],
        "days": [*_days(result.get("days", {}))],
        "flips": [*_flips(result["flips"], names, counterparts(a, b))],
    }


def tabled(listing: Listing, listed: Sequence[Listed], _: Tell) -> dict[str, Any]:
    """What the page shows of several runs. Raises as `Run` and `compare`."""
    try:
        lines = lines_of([Run(one.path, listing.given(one.suite)) for one in listed])
        measure, other = ranked(lines)
        rows = [line.row() for line in lines]
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        text = "the metrics.json of one of the runs is not that of a run"
        raise RunDirectoryError(text) from error
    names = [one.name for one in listed]
    players = dict.fromkeys(line.run.about.player for line in lines)
    suites = dict.fromkeys(line.run.about.suite or "runs" for line in lines)
    heads = [
        head
        for head in dict.fromkeys(head for row in rows for head in row)
        if head != "agent" and any(row.get(head, NONE).is_known for row in rows)
    ]
    made_up: dict[str, list[str]] = {}
    for name, line in zip(names, lines, strict=True):
        if found := simulated(line.run.about):
            made_up.setdefault("; ".join(found), []).append(name)
    return {
        "title": f"{', '.join(suites)}: {', '.join(players)}",
        "heads": heads,
        "rows": [
            (
                _link(name),
                name,
                line.run.about.player,
                [row.get(head, Cell())[:2] for head in heads],
            )
            for name, line, row in zip(names, lines, rows, strict=True)
        ],
        "measure": measure,
        "others": [name for name, line in zip(names, lines, strict=True) if line in other],
        "simulated": made_up,
    }


def _link(run: str, **given: str) -> str:
    return "/run?" + urlencode({"name": run, **given}) + ("#episodes" if given else "")


def _count(of: int | Sequence[str]) -> int:
    return of if isinstance(of, int) else len(of)


def _notes(a: Run, b: Run, result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is to be known about the runs before their figures are read."""
    for side, run in (("A", a), ("B", b)):
        if found := simulated(run.about):
            yield f"{side} is simulated:", "; ".join(found)
        if len(run.judges) > 1:
            yield f"{side} has judgements of several judges:", ", ".join(sorted(run.judges))
    unfair: dict[str, list[str]] = {}
    for found in result["settings"]:
        if found["unfair"]:
            unfair.setdefault(found["unfair"], []).append(found["name"])
    for name, what in UNLIKE.items():
        if found := result["tasks"].get(name):
            yield "Not alike:", f"{what}: {len(found):,}"
    for reason, names in unfair.items():
        yield "Not alike:", f"{reason} ({', '.join(names)})"


def _days(days: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    """By task and figure, the difference by day with its interval."""
    for task, figures in days.items():
        for name, found in figures.items():
            if found is not None:
                ends = [figure_text(end, sign=True) for end in found["interval"] or ()]
                difference = figure_text(found["difference"], sign=True)
                yield task, name, difference, " to ".join(ends) or "undefined"


def _flips(
    flips: Sequence[Mapping[str, Any]], names: Sequence[str], same: Mapping[str, str]
) -> Iterator[tuple[str, int, int, list[dict[str, Any]]]]:
    """By direction how many tasks flipped, how many of them not through infrastructure alone, and
    the first of them.
    """
    a, b = names
    for direction in ("pass to fail", "fail to pass"):
        chosen = [flip for flip in flips if flip["flip"] == direction]
        own = sum(not flip["infrastructure"] for flip in chosen)
        rows = [
            {**flip, "links": [_link(a, q=flip["id"]), _link(b, q=same[flip["id"]])]}
            for flip in chosen[:FLIPS]
        ]
        yield direction, len(chosen), own, rows


def _text(value: object) -> str:
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return "none" if value is None else text[:500]

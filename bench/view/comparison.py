"""Runs compared, as a page shows it: two task by task, more in a table."""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any
from urllib.parse import urlencode

import orjson

from bench.analysis.compare import PASSES, Run, compare, counterparts
from bench.analysis.table import Line, lines_of, ranked
from bench.models.prices import amount_text
from bench.runs.about import RunDirectoryError, simulated
from bench.view.listing import Listed, Listing
from bench.view.work import Tell

NONE = ("", "")
"""A figure that a run lacks, and its interval."""

UNLIKE = {
    "other_questions": "ids of another question in each run, which are no pair",
    "other_ids": "tasks of another id in B, paired by their question",
    "other_solutions": "tasks with another gold answer or other labels in B",
}
"""What runs may have in which their tasks differ."""

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
        "metrics": [*_metrics(result["metrics"], shares)],
        "unknown": [name for name, found in result["metrics"].items() if not found["tasks"]],
        "days": [*_days(result.get("days", {}))],
        "flips": [*_flips(result["flips"], names, counterparts(a, b))],
    }


def tabled(listing: Listing, listed: Sequence[Listed], _: Tell) -> dict[str, Any]:
    """What the page shows of several runs. Raises as `Run` and `compare`."""
    try:
        lines = lines_of([Run(one.path, listing.given(one.suite)) for one in listed])
        measure, other = ranked(lines)
        rows = [_row(line) for line in lines]
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        text = "the metrics.json of one of the runs is not that of a run"
        raise RunDirectoryError(text) from error
    names = [one.name for one in listed]
    players = dict.fromkeys(line.run.about.player for line in lines)
    suites = dict.fromkeys(line.run.about.suite or "runs" for line in lines)
    heads = [
        head
        for head in dict.fromkeys(head for row in rows for head in row)
        if any(row.get(head, NONE)[0] not in ("", "undefined") for row in rows)
    ]
    made_up: dict[str, list[str]] = {}
    for name, line in zip(names, lines, strict=True):
        if found := simulated(line.run.about):
            made_up.setdefault("; ".join(found), []).append(name)
    return {
        "title": f"{', '.join(suites)}: {', '.join(players)}",
        "heads": heads,
        "rows": [
            (_link(name), name, line.run.about.player, [row.get(head, NONE) for head in heads])
            for name, line, row in zip(names, lines, rows, strict=True)
        ],
        "measure": measure,
        "others": [name for name, line in zip(names, lines, strict=True) if line in other],
        "simulated": made_up,
    }


def _row(line: Line) -> dict[str, tuple[str, str]]:
    """Figures and their intervals by column."""
    main = [metric for metric in line.suite.metrics if metric.is_main]
    money = line.money
    of_money = {}
    if money is not None and line.prices is not None:
        of_money[f"{line.prices.currency} an episode"] = amount_text(money), ""
    return {
        "rank": ("" if line.rank is None else str(line.rank), ""),
        "episodes": (f"{line.episodes:,}", ""),
        "tokens an episode": ("" if line.tokens is None else f"{line.tokens:,.0f}", ""),
        **of_money,
        **{title: (cell.text, cell.interval) for title, cell in line.cells(main)},
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


def _metrics(
    metrics: Mapping[str, Mapping[str, Any]], shares: AbstractSet[str]
) -> Iterator[tuple[str, ...]]:
    """A row for each metric that both runs have."""
    for name, found in metrics.items():
        if not found["tasks"]:
            continue
        is_share = name.removesuffix("_net") in shares
        ends = [_number(end, is_share, "+") for end in found["interval"] or ()]
        counts = (
            [f"{found[side]:,}" for side in ("both", "only_a", "only_b", "neither")]
            if ("p" in found)
            else [""] * 4
        )
        yield (
            name,
            f"{found['tasks']:,}",
            *(_number(found[side], is_share) for side in ("a", "b")),
            _number(found["difference"], is_share, "+"),
            " to ".join(ends) or "undefined",
            *counts,
            f"{found['p']:.3g}" if "p" in found else "",
        )


def _days(days: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    """By task and figure, the difference by day with its interval."""
    for task, figures in days.items():
        for name, found in figures.items():
            if found is not None:
                ends = [_number(end, False, "+") for end in found["interval"] or ()]
                difference = _number(found["difference"], False, "+")
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


def _number(value: float, is_share: bool, sign: str = "") -> str:
    if is_share:
        return format(value, f"{sign}z.1%")
    return format(value, f"{sign}z,.0f" if abs(value) >= 100 else f"{sign}z.3g")


def _text(value: object) -> str:
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return "none" if value is None else text[:500]

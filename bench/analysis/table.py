"""A table of several runs, to publish: figures with intervals, cost, and ranks.

Runs of the same tasks are ranked by one measure. Each pair is compared task by task; p-values are
of McNemar's exact test where the measure has one, else of a paired t-test over tasks. Holm's step
down (Scandinavian Journal of Statistics 6, 1979) corrects them for the number of pairs. A run's
rank is one more than the number of runs that are better at 5 %, so runs that can't be told apart
share a rank.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from bench.analysis.compare import Run, difference_of
from bench.analysis.significance import SIGNIFICANT, holm
from bench.metrics.interval import percent
from bench.metrics.passes import KS
from bench.models.prices import Prices, amount_text
from bench.suites.suite import Metric, Suite
from manifests.common.regular_file import read_text

MOST_BYTES = 2**24


class UnknownMeasureError(Exception):
    """Runs have no measure of that name; the text says which there are."""


class Cell(NamedTuple):
    """A figure and its interval, as people read them and as numbers."""

    text: str = ""
    interval: str = ""
    value: float | str | None = None
    ends: Sequence[float] | None = None

    @property
    def is_known(self) -> bool:
        return self.text not in ("", "undefined")


@dataclass(slots=True)
class Line:
    """One run of a table. `label` names it, and `rank` is None where it can't be compared."""

    run: Run
    label: str
    metrics: Mapping[str, Any]
    prices: Prices | None = None
    rank: int | None = None

    @property
    def suite(self) -> type[Suite]:
        return self.run.suite

    @property
    def tokens(self) -> float | None:
        """Tokens of the agent's model an episode, None if it has none."""
        usage = self.metrics["usage"]
        if not usage["model_calls"]["calls"]:
            return None
        return float(usage["tokens"]["input"] + usage["tokens"]["output"]) / self.episodes

    @property
    def money(self) -> float | None:
        """Money of the agent's model an episode, None where it is unknown or there is no model."""
        money = self.prices and self.prices.money(self.metrics, "agent")
        return None if not money or money.amount is None else money.amount / self.episodes

    @property
    def episodes(self) -> int:
        return int(self.metrics["episodes"])

    def row(self, only: Sequence[str] = ()) -> dict[str, Cell]:
        """Its cells by column: the suite's main metrics, or `only` these, between what it is and
        what it cost. Tokens and money are an episode's.
        """
        named = {metric.name: metric for metric in self.suite.metrics}
        shown = [named[name] for name in only if name in named] if only else named.values()
        tokens, money, rank = self.tokens, self.money, self.rank
        row = {
            "agent": Cell(self.label, value=self.label),
            "episodes": Cell(f"{self.episodes:,}", value=self.episodes),
            **dict(self._cells([metric for metric in shown if only or metric.is_main])),
            "tokens": Cell() if tokens is None else Cell(f"{tokens:,.0f}", value=tokens),
        }
        if money is not None and self.prices is not None:
            row[self.prices.currency] = Cell(amount_text(money), value=money)
        return row | {"rank": Cell() if rank is None else Cell(str(rank), value=rank)}

    def _cells(self, metrics: Sequence[Metric]) -> Iterator[tuple[str, Cell]]:
        """Each column by its heading."""
        for metric in metrics:
            value, ends = (of.get(metric.name) for of in (self.metrics, self.metrics["intervals"]))
            text = metric.text_of(value)
            yield metric.title, Cell(text, metric.interval_of(self.metrics), value, ends)
        by_k = self.metrics.get("passes", {}).get("by_k", {})
        for k in KS[1:]:
            if (found := by_k.get(str(k))) and found["pass_hat_k"] is not None:
                ends = found["intervals"]["pass_hat_k"]
                interval = "" if ends is None else " to ".join(map(percent, ends))
                value = found["pass_hat_k"]
                yield f"pass^{k}", Cell(percent(value), interval, value, ends)


def lines_of(runs: Sequence[Run], prices: Prices | None = None) -> list[Line]:
    """The lines of a table, in the order of the runs; those of one label also have the name of
    their folder. Money is by these `prices`, else by those that each run was given.
    """
    lines = [
        Line(run, run.about.player, _metrics(run.files.path), prices or run.about.prices)
        for run in runs
    ]
    labels = [line.label for line in lines]
    for line in lines:
        if labels.count(line.label) > 1:
            line.label += f" ({line.run.files.path.name})"
    return lines


def rank(lines: Sequence[Line], measure: str) -> None:
    """Rank lines of the same tasks by a measure."""
    first = lines[0].run
    of = next(one for one in first.measures if one.name == measure)
    metric = next((m for m in first.suite.metrics if m.name == measure), None)
    sign = -1 if (metric or of).better == "less" else 1
    pairs, found = [*combinations(range(len(lines)), 2)], list[tuple[float, float]]()
    for a, b in pairs:
        difference, p = difference_of(lines[a].run, lines[b].run, of)
        found.append((p, sign * difference))
    corrected = holm([p for p, _ in found])
    behind = [0] * len(lines)
    for (a, b), p, (_, better) in zip(pairs, corrected, found, strict=True):
        if p < SIGNIFICANT and better:
            behind[a if better > 0 else b] += 1
    for line, number in zip(lines, behind, strict=True):
        line.rank = number + 1


def ranked(lines: Sequence[Line], measure: str | None = None) -> tuple[str, list[Line]]:
    """Rank the lines of the tasks that most of them have, by a measure or else by the first one
    that the suite shows in tables. Returns the measure and the other lines. Raises
    `UnknownMeasureError`.
    """
    tasks = [(one.run.about.suite, one.run.about.suite_digest) for one in lines]
    (most, _), *_ = Counter(tasks).most_common(1)
    alike = [line for line, of in zip(lines, tasks, strict=True) if of == most]
    main = [metric.name for metric in alike[0].suite.metrics if metric.is_main]
    first = next((one.name for one in alike[0].suite.measures if one.name in main), "calls")
    known = [one.name for one in alike[0].run.measures]
    if (measure := measure or first) not in known:
        raise UnknownMeasureError(f"no measure {measure!r}; there are: {', '.join(known)}")
    if len(alike) > 1:
        rank(alike, measure)
    return measure, [line for line, of in zip(lines, tasks, strict=True) if of != most]


def _metrics(run: Path) -> Mapping[str, Any]:
    found: dict[str, Any] = orjson.loads(read_text(run / "metrics.json", MOST_BYTES))
    return found

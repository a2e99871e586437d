"""How reliably an agent passes tasks that it repeats: pass@k and pass^k."""

from collections import Counter
from collections.abc import Iterator, Mapping
from math import comb
from typing import Any

from bench.metrics.interval import DIGITS, ONE, OverTasks, interval_text, percent, rounded
from bench.metrics.mergeable import Mergeable

KS = (*range(1, 11), 20, 50, 100)
"""The numbers k of which there are figures, as far as a task has as many repeats."""

NAMES = ("pass_at_k", "pass_hat_k")

HEADS = ("k", "tasks", "pass@k", "95 % interval", "pass^k", "95 % interval")
"""What `pass_rows` are of."""

MEANING = "pass@k: at least one of k repeats of a task passes; pass^k: all of them do"
NOT_OF_AGENT = "repeats that the infrastructure failed or nobody judged"


def pass_parts(n: int, passed: int, k: int) -> tuple[int, int]:
    """pass@k and pass^k of a task with `n` repeats, at least `k`, in parts of `ONE`.

    They are the chances that of `k` repeats, drawn without replacement, at least one passed, which
    is 1 - C(n-c,k)/C(n,k) (Chen et al., arXiv 2107.03374), and that all did, which is
    C(c,k)/C(n,k) (Yao et al., arXiv 2406.12045).
    """
    draws = comb(n, k)
    return ONE - ONE * comb(n - passed, k) // draws, ONE * comb(passed, k) // draws


def pass_figures(tasks: Mapping[tuple[int, int], int], left_out: int) -> dict[str, Any]:
    """`passes` in `metrics.json`, empty if no task has two repeats. `tasks` says how many tasks
    have how many repeats and how many of these passed; `left_out` counts the repeats that are not
    among them.

    A figure is the mean over the tasks that have `k` repeats or more.
    """
    most = max((n for n, _ in tasks), default=0)
    if most < 2:
        return {}
    by_k = {}
    for k in (k for k in KS if k <= most):
        over = [OverTasks() for _ in NAMES]
        for (n, passed), times in tasks.items():
            if n >= k:
                for one, part in zip(over, pass_parts(n, passed, k), strict=True):
                    one.count(part, ONE, times)
        figures = dict(zip(NAMES, over, strict=True))
        by_k[str(k)] = {
            "tasks": over[0].tasks,
            **{name: round(one.part / one.whole, DIGITS) for name, one in figures.items()},
            "intervals": {name: rounded(one.interval()) for name, one in figures.items()},
        }
    return {"passes": {"left_out": left_out, "by_k": by_k}}


class Passes(Mergeable):
    """Counts the repeats of each task, and those that passed."""

    def __init__(self) -> None:
        self._repeats: Counter[str] = Counter()
        self._passed: Counter[str] = Counter()
        self._left_out = 0

    def add(self, task: str, *, passed: bool, is_left_out: bool = False) -> None:
        """Add a repeat; one is left out that says nothing about the agent."""
        self._left_out += is_left_out
        if not is_left_out:
            self._repeats[task] += 1
            if passed:
                self._passed[task] += 1

    def result(self) -> dict[str, Any]:
        """As `pass_figures`."""
        tasks = Counter((n, self._passed[task]) for task, n in self._repeats.items())
        return pass_figures(tasks, self._left_out)


def pass_rows(passes: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """`passes` of `metrics.json` as people read it: a row for each k."""
    for k, row in passes["by_k"].items():
        figures = ((percent(row[n]), interval_text(row["intervals"][n])) for n in NAMES)
        yield k, f"{row['tasks']:,}", *(text for pair in figures for text in pair)


def pass_note(passes: Mapping[str, Any]) -> str:
    """What these rows are."""
    left_out = passes["left_out"]
    return f"{MEANING}; without {left_out:,} {NOT_OF_AGENT}" if left_out else MEANING

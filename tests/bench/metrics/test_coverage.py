"""How often a 95 % interval holds the figure of all tasks of a kind, by simulation.

`pytest -s` prints the table.
"""

import random
import sys
from collections.abc import Callable

import pytest

from bench.analysis.significance import mean_interval
from bench.metrics.interval import ONE, OverTasks

SIZES = ((10, 1), (75, 1), (75, 10), (295, 5))
"""Tasks, and repeats of each."""

ROUNDS = 1_000

KINDS: dict[str, tuple[float, Callable[[random.Random, int], float]]] = {
    "half pass always, half never": (0.5, lambda luck, n: n * (luck.random() < 0.5)),
    "tasks of any difficulty": (0.5, lambda luck, n: passed(luck, luck.betavariate(1, 1), n)),
    "nearly all pass": (0.98, lambda luck, n: passed(luck, luck.betavariate(4.9, 0.1), n)),
    "all are alike": (0.93, lambda luck, n: passed(luck, 0.93, n)),
    "scores 0, 0.5 and 1": (1 / 3, lambda luck, n: passed(luck, luck.betavariate(1, 2), 2 * n) / 2),
    "scores near 1": (0.98, lambda luck, n: sum(luck.random() ** (1 / 49) for _ in range(n))),
}
"""By kind of task, the figure of all such tasks, and what gives the score of so many repeats of a
new task. The last one is Beta(49, 1) of each repeat.
"""


def passed(luck: random.Random, rate: float, repeats: int) -> int:
    draw = luck.random
    return [draw() < rate for _ in range(repeats)].count(True)


@pytest.mark.parametrize("kind", KINDS)
def test_an_interval_holds_the_figure_of_all_tasks(kind: str) -> None:
    truth, score = KINDS[kind]
    luck = random.Random(1)
    for tasks, repeats in SIZES:
        held, widths = 0, 0.0
        for _ in range(ROUNDS):
            over = OverTasks()
            for _ in range(tasks):
                over.count(round(ONE * score(luck, repeats)), ONE * repeats)
            low, high = over.interval() or (1.0, 0.0)
            held += low <= truth <= high
            widths += high - low
        sys.stdout.write(
            f"{kind:<30}{tasks:>4} x {repeats:<3}{held / ROUNDS:>7.1%}{widths / ROUNDS:>8.3f}\n"
        )
        assert held / ROUNDS >= 0.93


@pytest.mark.parametrize("tasks", [1, 10, 75])
def test_an_interval_holds_the_difference_of_two_agents(tasks: int) -> None:
    luck, held = random.Random(2), 0
    for _ in range(ROUNDS):
        pairs = [(luck.random() < 0.98, luck.random() < 0.93) for _ in range(tasks)]
        low, high = mean_interval([float(b) - float(a) for a, b in pairs], 1.0) or (1.0, 0.0)
        held += low <= -0.05 <= high
    sys.stdout.write(f"98 % and 93 % {tasks:>20} tasks{held / ROUNDS:>7.1%}\n")
    assert held / ROUNDS >= 0.93

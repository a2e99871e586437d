"""Which tasks of a suite are evaluated."""

import random
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path

from bench.suites.generated.suite import Generated
from finport import Suite, SuiteError, Task, endless_tasks, load_suite

GENERATED = "generated"

FEW = 100
"""Generated tasks without a file, if there is no limit."""

TRIED = 100_000
"""Generated tasks that are looked at for those of a difficulty and a language."""


@dataclass(frozen=True)
class Choice:
    """Tasks of the suite: those of a dataset, or generated ones of a seed. Elsewhere a seed
    shuffles them. They are those of the difficulties and the language, and the first `limit` of
    these.
    """

    suite: str
    dataset: str | None = None
    limit: int | None = None
    seed: int | None = None
    difficulty: tuple[str, ...] = ()
    language: str | None = None

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise SuiteError(f"limit must be 1 or more, not {self.limit}")
        made = self.suite == GENERATED and self.dataset is None
        if made and (odd := {*self.difficulty} - {"1", "2", "3", "4", "5"}):
            raise SuiteError(f"difficulty is 1 to 5, not {min(odd)}")
        if self.language not in (None, "en", "zh"):
            raise SuiteError(f"language must be en or zh, not {self.language!r}")

    def has(self, task: Task) -> bool:
        return (not self.difficulty or task.difficulty in self.difficulty) and (
            self.language in (None, task.language)
        )


@lru_cache(maxsize=32)
def suite_of(choice: Choice) -> Suite:
    """The suite with these tasks. Raises `SuiteError`."""
    if choice.suite == GENERATED and choice.dataset is None:
        made = islice(endless_tasks(choice.seed or 0), TRIED)
        chosen = list(islice(filter(choice.has, made), choice.limit or FEW))
        _check(choice, chosen, [str(level) for level in range(1, 6)])
        return Generated(GENERATED, chosen)
    suite = load_suite(choice.suite, None if choice.dataset is None else Path(choice.dataset))
    tasks = list(suite.tasks)
    if choice.seed is not None:
        random.Random(choice.seed).shuffle(tasks)  # noqa: S311 - an order, no secret
    chosen = list(islice(filter(choice.has, tasks), choice.limit))
    _check(choice, chosen, sorted({task.difficulty for task in tasks}))
    found = type(suite)(suite.name, chosen)
    found.dataset = suite.dataset
    return found


def _check(choice: Choice, chosen: list[Task], difficulties: list[str]) -> None:
    """Raises `SuiteError` if no task was chosen."""
    if not chosen:
        there = ", ".join(level or "none" for level in difficulties)
        asked = f"difficulty {','.join(choice.difficulty) or 'any'}, language {choice.language}"
        raise SuiteError(f"{choice.suite}: no task has {asked}; difficulties are: {there}")

"""Draws tasks from a suite by a seed.

A task's place in the draw is a hash of the seed and its question, so a sample is the same on any
machine and in any order of the tasks, and a smaller sample is part of a larger one. By strata, this
holds within each stratum: where a stratum's share is not smaller in the larger sample.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from hashlib import blake2b

from bench.question import digest_of
from bench.task import GROUPS, Task


def fields_of(tasks: Sequence[Task]) -> list[str]:
    """The fields by which these tasks can be told apart: those that any of them has."""
    return [name for name in GROUPS if any(getattr(task, name) for task in tasks)]


def sample(
    tasks: Sequence[Task], number: int, seed: int, fields: Sequence[str] = ()
) -> tuple[set[str], dict[str, int]]:
    """The ids of `number` of these tasks, drawn without replacement, and how many are of each
    stratum, which has the values of `fields`.
    """
    strata: defaultdict[str, list[Task]] = defaultdict(list)
    for task in tasks:
        strata["\n".join(getattr(task, field) or "none" for field in fields)].append(task)
    given = shares({name: len(of) for name, of in strata.items()}, number, seed)
    drawn: set[str] = set()
    for name, of_stratum in strata.items():
        places = {task.id: _place(seed, digest_of(task.question)) for task in of_stratum}
        drawn.update(sorted(places, key=lambda one: (places[one], one))[: given[name]])
    return drawn, {name.replace("\n", ", "): given[name] for name in sorted(given)}


def shares(sizes: Mapping[str, int], number: int, seed: int) -> dict[str, int]:
    """How many of `number` each stratum gets: proportional to its size, by largest remainder. Each
    gets one at least if there are enough; among equal remainders the seed decides.
    """
    given = Counter[str]()
    left = dict(sizes)
    if number >= len(sizes):
        while small := [name for name in left if left[name] * number < sum(left.values())]:
            given.update(small)
            number -= len(small)
            left = {name: size for name, size in left.items() if name not in given}
    whole = sum(left.values())
    given.update({name: size * number // whole for name, size in left.items()})
    rest = sorted(left, key=lambda name: (-(left[name] * number % whole), _place(seed, name), name))
    given.update(rest[: number - sum(given[name] for name in left)])
    return dict(given)


def _place(seed: int, text: str) -> bytes:
    return blake2b(f"{seed}\n{text}".encode("utf-8", "surrogatepass"), digest_size=16).digest()

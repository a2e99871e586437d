"""What adds the counts of another part of the same episodes or calls to its own."""

from collections import Counter
from copy import deepcopy
from typing import Any, Self


class Mergeable:
    """Merges each of its attributes: numbers add up, counters too, and what has a `merge` itself is
    merged, also within dicts and lists. Anything else is a setting, and stays.
    """

    def merge(self, other: Self) -> None:
        for name, theirs in vars(other).items():
            setattr(self, name, _merged(getattr(self, name), theirs))


def _merged(ours: Any, theirs: Any) -> Any:
    if isinstance(ours, int):
        return ours + theirs
    if isinstance(ours, Counter):
        ours.update(theirs)
    elif isinstance(ours, dict):
        for key, value in theirs.items():
            ours[key] = _merged(ours[key], value) if key in ours else deepcopy(value)
    elif isinstance(ours, list):
        return [_merged(*pair) for pair in zip(ours, theirs, strict=True)]
    elif hasattr(ours, "merge"):
        ours.merge(theirs)
    return ours

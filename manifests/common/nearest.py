"""Finds the known names that are similar to an unknown name, for "did you mean" hints.

On the 760 tools, this finds all names with one or two wrong letters or two swapped words, and 95 %
of the names that lack their first or last word. No random word is near a name.
"""

from collections.abc import Callable, Iterable, Sequence

NEAR = 70
"""The least similarity, of 100, at which names are near, by either of two measures."""

MOST = 5

MAX_SHOWN = 64
"""Characters of an unknown name that an error repeats."""


def nearest(
    name: str, names: Iterable[str], limit: int = MOST, *, own: Callable[[str], str] = str
) -> list[str]:
    """The ones of `names` that are near `name`, the most similar first. `own` gives the
    distinctive part of a name, if all names begin or end in the same way.
    """
    from rapidfuzz import fuzz, process  # few names are unknown: it takes 10 ms

    words, folded = _folded(own(name)), {known: _folded(own(known)) for known in names}
    scores: dict[str, float] = {}
    for scorer in (fuzz.ratio, fuzz.token_sort_ratio):
        found = process.extract(words, folded, scorer=scorer, limit=limit, score_cutoff=NEAR)
        for _, score, known in found:
            scores[known] = max(score, scores.get(known, 0.0))
    return sorted(scores, key=lambda known: (-scores[known], known))[:limit]


def did_you_mean(name: str, names: Iterable[str], *, own: Callable[[str], str] = str) -> str:
    """The end of a sentence that rejects `name`; empty if none of `names` is near."""
    return hint(nearest(name, names, 1, own=own))


def not_among(name: str, names: Iterable[str]) -> str:
    """The end of a sentence that rejects `name` and says which names there are."""
    known, shown = [*names], name[:MAX_SHOWN]
    return f"{shown!r}{did_you_mean(shown, known)}; it takes {', '.join(known)}"


def hint(near: Sequence[str]) -> str:
    """The same, for names that are already known to be near."""
    return f"; did you mean {', '.join(near)}?" if near else ""


def _folded(name: str) -> str:
    """The words of a name, in lower case and joined by blanks."""
    return name.lower().replace("_", " ").replace("-", " ")

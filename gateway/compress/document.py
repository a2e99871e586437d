"""Shortens a document: a JSON value pruned by path, with the question in view.

What the question names stays, with the path to it. Of an array of objects the rows stay that the
question asks for, as if it were a table. Of the rest the first items of arrays and the first fields
of objects stay, as many as fit. What is left out is counted where it was: an object has a field
`"…"`, or `"name…"` for its array `name`; an array in an array ends with a text like `"… 95 more"`.

The shortened document is written as JSON, or as TOON where that takes fewer tokens.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.compress.budget import Budget, check_time
from gateway.compress.cut import MORE, Compressed, cut
from gateway.compress.paths import DEPTH, Path, Tree, named_paths, tree_of
from gateway.compress.question import Question
from gateway.compress.text import shorten_text
from gateway.compress.toon import toon
from gateway.compress.written import Written, json_text, read

ASKED_CHARS = 400
"""How much of a long text stays that the question names."""


@dataclass(frozen=True, slots=True)
class _Detail:
    """How much stays of what the question does not name."""

    items: int
    fields: int
    chars: int
    depth: int


_DETAILS = (
    *(_Detail(0, 0, 24, 1), _Detail(0, 3, 24, 1), _Detail(1, 4, 32, 2), _Detail(1, 8, 48, 3)),
    *(_Detail(2, 12, 80, 4), _Detail(3, 24, 120, 6), _Detail(5, 40, 200, 8)),
    *(_Detail(8, 80, 400, 12), _Detail(15, 200, 800, 24), _Detail(40, 999, 2_000, DEPTH)),
    _Detail(120, 999, 8_000, DEPTH),
)
_ALL = _Detail(2**31, 2**31, 2**31, DEPTH)


def shorten_document(data: bytes, budget: Budget, question: Question | None) -> Compressed:
    """The document within the budget, with numbers as they are written. Raises `ValueError` for
    what is not JSON.
    """
    if len(data) <= budget.most_bytes and budget.fits(text := data.decode()):
        return Compressed(text, "json", whole=True)
    try:
        value = read(data)
    except RecursionError:
        return Compressed(_least(None, budget), "json")
    pruning = _Pruning(value, budget, question)
    return (pruning.whole() if len(data) <= 2 * budget.most_bytes else None) or pruning.best()


class _Pruning:
    """Finds the fullest document that fits into a budget."""

    def __init__(self, value: Any, budget: Budget, question: Question | None) -> None:
        self._value = value
        self._budget = budget
        self._question = question

    def whole(self) -> Compressed | None:
        """The document with nothing left out, if it fits in a form that is shorter than JSON."""
        if self._pruned(self._value, _ALL, None) != self._value:
            return None
        text = toon(self._value)
        return Compressed(text, "toon", whole=True) if self._fits(text) else None

    def best(self) -> Compressed:
        named = named_paths(self._value, self._question) if self._question is not None else []
        best: Compressed | None = None
        while best is None and named:  # as much as fits of what the question names
            best = self._at(_DETAILS[0], named)
            named = named if best is not None else named[: len(named) // 2]
        for detail in _DETAILS[1:]:
            more = self._at(detail, named)
            if more is None:
                break
            best = more
        return best or Compressed(_least(self._value, self._budget), "json")

    def _at(self, detail: _Detail, named: Sequence[Path]) -> Compressed | None:
        """The document in this detail in the form that takes fewer tokens, if it fits."""
        pruned = self._pruned(self._value, detail, tree_of(named))
        forms = [Compressed(write(pruned), name) for name, write in _FORMS.items()]
        fitting = [made for made in forms if self._fits(made.text)]
        return min(fitting, key=lambda made: self._budget.size(made.text), default=None)

    def _fits(self, text: str) -> bool:
        return len(text) <= self._budget.most_bytes and self._budget.fits(text)

    def _pruned(self, value: Any, detail: _Detail, named: Tree | None, depth: int = 0) -> Any:
        """`named` is the tree below this value, None where the question names nothing."""
        check_time()
        if depth > DEPTH:
            return MORE
        if isinstance(value, dict):
            return self._object(value, detail, named, depth)
        if isinstance(value, list):
            kept, left = self._items(value, detail, named, depth)
            return [*kept, f"{MORE} {left} more"] if left else kept
        if isinstance(value, Written) or not isinstance(value, str):
            return value
        return self._text(value, detail.chars, is_named=named is not None)

    def _object(
        self, value: Mapping[str, Any], detail: _Detail, named: Tree | None, depth: int
    ) -> Any:
        tree = named or {}
        most = detail.fields if depth < detail.depth else 0
        kept: dict[str, Any] = {}
        shown = 0
        for name, item in value.items():
            if name not in tree:
                if most == 0:
                    continue
                most -= 1
            shown += 1
            below = tree.get(name)
            note = f"{name}{MORE}"
            if isinstance(item, list) and depth < DEPTH and note not in value:
                kept[name], left = self._items(item, detail, below, depth + 1)
                if left:
                    kept[note] = f"{left} more"
            else:
                kept[name] = self._pruned(item, detail, below, depth + 1)
        if shown < len(value):
            kept[MORE] = f"{len(value) - shown} more"
        return kept

    def _items(
        self, value: Sequence[Any], detail: _Detail, named: Tree | None, depth: int
    ) -> tuple[list[Any], int]:
        """The items that stay, and how many do not."""
        tree = named or {}
        most = detail.items if depth + 1 < detail.depth else 0
        kept = [
            self._pruned(item, detail, tree.get(at), depth + 1)
            for at, item in enumerate(value)
            if at in tree or at < most
        ]
        return kept, len(value) - len(kept)

    def _text(self, text: str, most: int, *, is_named: bool) -> str:
        most = max(most, ASKED_CHARS) if is_named else most
        if is_named and len(text) > most and self._question is not None:
            return shorten_text(text, Budget(most, "chars"), self._question.text)
        return cut(text, most)


_FORMS: Mapping[str, Callable[[Any], str]] = {"json": json_text, "toon": toon}


def _least(value: Any, budget: Budget) -> str:
    """What fits in any case: how much there is."""
    kind = "fields" if isinstance(value, dict) else "items"
    count = len(value) if isinstance(value, dict | list) else 1
    text = json_text({MORE: f"{count} {kind}"})
    return text if budget.fits(text) else json_text(MORE)

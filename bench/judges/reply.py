"""What a model that judges replied, read strictly inside and tolerantly around.

A reply may wrap its JSON object in a code fence, in prose, or put it behind its thoughts; inside
the object only what was asked for counts.
"""

import json
from collections.abc import Iterator
from typing import Any

from bench.record import ToolVerdict
from bench.suites.fintoolbench.answer import AnswerKind

_READ = 20_000
_TRIES = 64
_DECODER = json.JSONDecoder()
_THOUGHTS_END = "</think>"
_DIMENSIONS = ("timeliness", "intent", "domain")


def read_score(text: str, kind: AnswerKind) -> float | None:
    """The score: of a number or a choice 1 where the judge gives 0.5 or more, else 0; of other
    kinds 0, 0.5 or 1. None where the reply is invalid.
    """
    found = _object_with("score", text)
    score = found.get("score") if found else None
    if isinstance(score, str):
        try:
            score = float(score)
        except ValueError:
            return None
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
        return None
    if kind in ("numeric", "choice"):
        return float(score >= 0.5)
    return float(score) if score in (0, 0.5, 1) else None


def read_verdicts(text: str, names: list[str]) -> list[ToolVerdict]:
    """The verdicts on the tools `names`, in that order. What is no boolean is None; a tool that
    the reply leaves out, or names twice, has no verdict.
    """
    found = _object_with("tools", text)
    rows = found.get("tools") if found else None
    if not isinstance(rows, list):
        return []
    by_name: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for row in rows:
        if isinstance(row, dict) and isinstance(name := row.get("name"), str) and name in by_name:
            by_name[name].append(row)
    verdicts = [
        ToolVerdict(name, *(_boolean(same[0].get(dimension)) for dimension in _DIMENSIONS))
        for name, same in by_name.items()
        if len(same) == 1
    ]
    return [v for v in verdicts if (v.timeliness, v.intent, v.domain) != (None, None, None)]


def _boolean(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _object_with(key: str, text: str) -> dict[str, Any] | None:
    """The one JSON object in a text that has `key`; None where there is none, or another too."""
    said = text.rpartition(_THOUGHTS_END)[2][-_READ:]
    found = [value for value in _objects(said) if key in value]
    return found[0] if found and all(value == found[0] for value in found) else None


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects that stand in a text, one after the other."""
    place = text.find("{")
    for _ in range(_TRIES):
        if place < 0:
            return
        try:
            value, end = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            end = place + 1
        else:
            yield value
        place = text.find("{", end)

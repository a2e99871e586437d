"""Reads scores and verdicts from a judging model's reply; only what was asked for counts."""

from typing import Any

from bench.judges.reply import object_with
from bench.record import ToolVerdict
from bench.suites.fintoolbench.answer import AnswerKind

_DIMENSIONS = ("timeliness", "intent", "domain")


def read_score(text: str, kind: AnswerKind) -> tuple[float | None, bool]:
    """The score in a reply, and whether it was rounded. For a number or a choice it is 1 where the
    judge gives 0.5 or more, else 0; for other kinds 0, 0.5 or 1. None where the reply is invalid.
    """
    found = object_with("score", text)
    score = found.get("score") if found else None
    if isinstance(score, str):
        try:
            score = float(score)
        except ValueError:
            return None, False
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
        return None, False
    if kind in ("numeric", "choice"):
        return float(score >= 0.5), score not in (0, 1)
    return (float(score) if score in (0, 0.5, 1) else None), False


def read_verdicts(text: str, names: list[str]) -> list[ToolVerdict]:
    """The verdicts on the tools `names`, in that order. A value that is no boolean is None. A tool
    that the reply leaves out, or names twice, has no verdict.
    """
    found = object_with("tools", text)
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

"""What the recorded answers of a tool were like, as a JSON Schema of their data.

Only answers of real upstreams count. The paths and types are those of `gateway/shapes/shape.py`;
a key that is data becomes `additionalProperties`.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from cache import Row, Snapshot
from cache.json_paths import DATA, ELEMENTS
from cache.row import OK
from gateway.shapes.shape import Shape, TooLarge, shape_of
from manifests.manifest import Observed

LIVE = "live"
"""The upstream of real answers."""

MOST_ANSWERS = 200
"""The answers of a tool that are read."""

MOST_PATHS = 200
MOST_DEPTH = 6
"""Of more paths, or deeper ones, only the upper ones are told."""


def observed(snapshot: Snapshot, tool: str) -> Observed | None:
    """What the answers of a tool were like; None without a real one that has data. Raises
    `SnapshotError`.
    """
    whole, last, answers = Shape(), 0.0, 0
    for row in islice(_real(snapshot, tool), MOST_ANSWERS):
        try:
            shape = shape_of(row.entry, [str(value) for value in row.arguments.values()])
        except (TooLarge, ValueError):
            continue
        if not shape.is_empty:
            _add(whole, shape)
            last, answers = max(last, row.entry.recorded_at), answers + 1
    if not answers:
        return None
    until = datetime.fromtimestamp(last, UTC).date().isoformat()
    return Observed(data=_Schema().of(whole), answers=answers, until=until)


def newer(known: Observed | None, new: Observed | None) -> Observed | None:
    """Of two observations the one whose last answer is later."""
    if known is None or new is None:
        return new or known
    return max(known, new, key=lambda one: (one.until, one.answers))


def _real(snapshot: Snapshot, tool: str) -> Iterator[Row]:
    return (r for r in snapshot.rows(tool) if r.status == OK and r.entry.upstream == LIVE)


def _add(known: Shape, new: Shape) -> None:
    known.types |= new.types
    for name, part in new.parts.items():
        _add(known.parts.setdefault(name, Shape()), part)


class _Schema:
    def __init__(self) -> None:
        self._paths = 0

    def of(self, shape: Shape, depth: int = 0) -> dict[str, Any]:
        if shape.is_table:
            records = {"type": "object", **self._parts(shape, depth)}
            return {"type": "array", "items": records}
        types = sorted(shape.types)
        schema: dict[str, Any] = {"type": types[0] if len(types) == 1 else types} if types else {}
        if depth < MOST_DEPTH:
            schema |= self._parts(shape, depth)
        return schema

    def _parts(self, shape: Shape, depth: int) -> dict[str, Any]:
        names: dict[str, Any] = {}
        schema: dict[str, Any] = {}
        for name, part in shape.parts.items():
            if name.endswith("…"):  # a name that was cut
                continue
            self._paths += 1
            if self._paths > MOST_PATHS:
                break
            if name == ELEMENTS:
                schema["items"] = self.of(part, depth + 1)
            elif name == DATA:
                schema["additionalProperties"] = self.of(part, depth + 1)
            else:
                names[name] = self.of(part, depth + 1)
        return {**({"properties": names} if names else {}), **schema}

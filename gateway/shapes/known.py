"""What is known of the shapes of earlier answers, and what a new answer changes in it.

A path that was always there and is missing is reported once. From then on it is optional, until it
has been there in `ALWAYS` compared answers in a row; so is a path that was not there at first. Of
paths below one another the uppermost is reported. What is below a null, an empty array or an empty
object is unknown, and not compared. A type that was seen once at a path is known there from then
on. At most `MAX_PATHS` paths are known: to make room for those of an answer, paths that it does not
have are forgotten.
"""

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import orjson

from cache.json_paths import ELEMENTS
from gateway.shapes.shape import MAX_PATHS, Shape

Kind = Literal[
    "column_removed", "column_added", "path_removed", "path_added", "type_changed", "empty"
]

ALWAYS = 20

MAX_PATH = 300
"""Characters of a path that are reported."""

_PLAIN = re.compile(r"[^\s\".\[\]\x00-\x20\x7f-\x9f]+")


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between an answer and earlier ones. `path` is empty for the whole answer;
    `before` and `after` are the types at the path, none if it was or is missing.
    """

    kind: Kind
    path: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Change(Difference):
    """A difference that was found. `time` is the Unix time of the answer that differs; `variant`
    has the arguments that choose between forms of the answer.
    """

    tool: str = ""
    variant: str = "{}"
    upstream: str = ""
    time: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """The change as JSON shows it, with the time as ISO 8601 writes it."""
        said = asdict(self)
        time = datetime.fromtimestamp(said.pop("time"), UTC).isoformat(timespec="seconds")
        variant = orjson.loads(said.pop("variant"))
        return {"tool": said.pop("tool"), **said, "variant": variant, "time": time}


class Known:
    """What is known of one path: its types, in how many answers in a row it has been there (at most
    `ALWAYS`), and the paths below it. For a whole answer, `streak` counts those that were not
    empty.
    """

    __slots__ = ("parts", "streak", "types")

    def __init__(self, types: set[str], streak: int, parts: dict[str, "Known"]) -> None:
        self.types = types
        self.streak = streak
        self.parts = parts

    @classmethod
    def of(cls, shape: Shape, streak: int = ALWAYS) -> "Known":
        """What the first answer tells; of an empty one, nothing but that."""
        if shape.is_empty:
            return cls(set(), 0, {})
        return cls({*shape.types}, streak, {n: cls.of(part) for n, part in shape.parts.items()})

    def learn(self, shape: Shape) -> list[Difference]:
        """Compare an answer and remember its shape."""
        if shape.is_empty:
            was_full, self.streak = self.streak >= ALWAYS, 0
            return [Difference("empty", "")] if was_full else []
        self.streak = min(self.streak + 1, ALWAYS)
        found: list[Difference] = []
        self._learn(shape, "", found, is_table=shape.is_table)
        self.forget(shape, self._count() - MAX_PATHS)
        return found

    def forget(self, shape: Shape, paths: int, size: int = 0) -> None:
        """Forget paths that an answer does not have, those added last first, until so many and so
        many bytes of JSON are gone. Wide answers whose paths always differ forget each other's.
        """
        if paths <= 0 and size <= 0:
            return
        for parts, name in [*self._absent(shape)]:
            gone = parts.pop(name)
            paths -= 1 + gone._count()
            size -= len(orjson.dumps({name: gone.to_json()})) - 2
            if paths <= 0 and size <= 0:
                return

    def _absent(self, shape: Shape) -> Iterator[tuple[dict[str, "Known"], str]]:
        for name, known in reversed(self.parts.items()):
            part = shape.parts.get(name)
            if part is None:
                yield self.parts, name
            else:
                yield from known._absent(part)

    def _learn(self, shape: Shape, path: str, found: list[Difference], *, is_table: bool) -> None:
        if self.types and not shape.types <= self.types:
            before, after = sorted(self.types), sorted(shape.types)
            found.append(Difference("type_changed", path, (*before,), (*after,)))
        self.types |= shape.types
        if not shape.parts:
            return
        if not self.parts:
            self.parts = {name: Known.of(part) for name, part in shape.parts.items()}
            return
        for name, known in self.parts.items():
            part = shape.parts.get(name)
            if part is not None:
                known.streak = min(known.streak + 1, ALWAYS)
                known._learn(part, _joined(path, name, is_table), found, is_table=is_table)
                continue
            if known.streak >= ALWAYS:
                kind: Kind = "column_removed" if is_table else "path_removed"
                before = sorted(known.types)
                found.append(Difference(kind, _joined(path, name, is_table), (*before,)))
            known.streak = 0
        for name, part in shape.parts.items():
            if name not in self.parts:
                self.parts[name] = Known.of(part, streak=1)
                kind = "column_added" if is_table else "path_added"
                after = sorted(part.types)
                found.append(Difference(kind, _joined(path, name, is_table), (), (*after,)))

    def _count(self) -> int:
        return len(self.parts) + sum(part._count() for part in self.parts.values())

    def to_json(self) -> list[Any]:
        parts = {name: part.to_json() for name, part in self.parts.items()}
        return [sorted(self.types), self.streak, parts]

    @classmethod
    def of_json(cls, said: Any) -> "Known":
        """The inverse of `to_json`. Raises `ValueError` for what it does not write."""
        try:
            types, streak, parts = said
            known = {str(name): cls.of_json(part) for name, part in parts.items()}
            return cls({*map(str, types)}, int(streak), known)
        except (TypeError, AttributeError) as error:
            raise ValueError("this is no known shape") from error


def _joined(path: str, name: str, is_table: bool) -> str:
    """A path with a further name. A name that might be taken for several is in quotation marks."""
    if is_table:
        return name[:MAX_PATH]
    if name == ELEMENTS:
        joined = f"{path}{ELEMENTS}"
    else:
        said = name if _PLAIN.fullmatch(name) else orjson.dumps(name).decode()
        joined = f"{path}.{said}" if path else said
    return joined if len(joined) <= MAX_PATH else f"{joined[: MAX_PATH - 1]}…"

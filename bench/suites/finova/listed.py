"""Reads lists of strings and lists of flat objects as models write them: as JSON or as Python.

Quotation marks may be single, double or Chinese, items may be separated by 、, and a comma may
follow the last item. Every function takes linear time for any text, and none raises.
"""

import re
from collections.abc import Iterator
from typing import Any

import orjson

Item = str | dict[str, str] | None
"""A text, the texts of an object by their keys, or None for anything else."""

_TOKEN = re.compile(
    r"""\s*+(?:
      (?P<mark>[\[\]{},:、])
    | "(?P<double>(?:[^"\\]|\\.)*+)" | '(?P<single>(?:[^'\\]|\\.)*+)'
    | “(?P<curved>[^“”]*+)” | ‘(?P<curved_single>[^‘’]*+)’
    | (?P<literal>(?:-?\d[\d.]*+(?:[eE][+-]?\d++)?|[Tt]rue|[Ff]alse|null|None)(?=\s*+[\]},、]))
    | (?P<bare>[^\s\[\]{},:、"'“”‘’][^\[\]{},:"'“”‘’\n]*+)
    )""",
    re.VERBOSE | re.DOTALL,
)
_BRACKET = re.compile(r"[\[\]]")
_OBJECT = re.compile(r"\{[^{}]*+\}")
_QUOTED = ("double", "single", "curved", "curved_single")


def read_list(text: str, *, bare: bool = False) -> list[Item] | None:
    """The list that the whole text is; None if it is none. With `bare`, items need no quotes, and
    one without quotes ends at a 、.
    """
    try:
        items = orjson.loads(text)
    except orjson.JSONDecodeError:
        return _read_loosely(text, bare)
    return [_item(item) for item in items] if isinstance(items, list) else None


def is_slot(item: Item) -> bool:
    """Whether an item has the fields of a slot."""
    return isinstance(item, dict) and {"type", "content"} <= item.keys()


def _item(read: Any) -> Item:
    if isinstance(read, dict):
        return {key: value for key, value in read.items() if isinstance(value, str)}
    return read if isinstance(read, str) else None


def _read_loosely(text: str, bare: bool) -> list[Item] | None:
    tokens = _tokens(text, bare)
    try:
        if next(tokens) != "[":
            return None
        items = list(_items(tokens))
        return items if next(tokens, None) is None else None
    except (StopIteration, ValueError):
        return None


def lists_in(text: str) -> Iterator[str]:
    """The parts of a text from a bracket to the one that closes it, the last part first. A part
    inside another one is left out.
    """
    open_at: list[int] = []
    spans: list[tuple[int, int]] = []
    for match in _BRACKET.finditer(text):
        if match[0] == "[":
            open_at.append(match.start())
        elif open_at:
            start = open_at.pop()
            while spans and spans[-1][0] > start:
                spans.pop()
            spans.append((start, match.end()))
    return (text[start:end] for start, end in reversed(spans))


def objects_in(text: str) -> list[Item]:
    """The flat objects of a text, in their order; None for what begins as an object and is none."""
    found = [read_list(f"[{part}]") for part in _OBJECT.findall(text)]
    rest: list[Item] = [None] * ("{" in _OBJECT.sub("", text))
    return [item for items in found for item in items or (None,)] + rest


class _Text(str):
    """The content of a string, unlike a mark of the same characters."""

    __slots__ = ()


class _Literal(_Text):
    """A number, a truth value or none."""

    __slots__ = ()


def _tokens(text: str, bare: bool) -> Iterator[str]:
    """Marks as `str`, strings as `_Text`. Raises `ValueError` for anything else."""
    at, end, braces = 0, len(text.rstrip()), 0
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None or (match["bare"] is not None and not bare):
            raise ValueError
        at = match.end()
        if match["mark"]:
            braces += {"{": 1, "}": -1}.get(match["mark"], 0)
            yield "," if match["mark"] == "、" else match["mark"]
        elif match["literal"] is not None:
            yield _Literal(match["literal"])
        elif match["bare"] is not None:
            first, *others = match["bare"].split("、") if braces == 0 else [match["bare"]]
            yield _Text(first.strip())
            for other in others:
                yield ","
                yield _Text(other.strip())
        else:
            yield _Text(_unescaped(next(match[q] for q in _QUOTED if match[q] is not None)))


def _items(tokens: Iterator[str]) -> Iterator[Item]:
    """The items up to the closing bracket. Raises `ValueError`."""
    for part in tokens:
        if isinstance(part, _Text):
            yield None if isinstance(part, _Literal) else str(part)
        elif part == "{":
            yield _object(tokens)
        elif part == "]":
            return
        else:
            raise ValueError
        after = next(tokens, None)
        if after == "]" and not isinstance(after, _Text):
            return
        if after != "," or isinstance(after, _Text):
            raise ValueError
    raise ValueError


def _object(tokens: Iterator[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for key in tokens:
        if not isinstance(key, _Text):
            if key == "}":
                return found
            raise ValueError
        colon, value, after = next(tokens, ""), next(tokens, ""), next(tokens, "")
        if isinstance(colon, _Text) or colon != ":" or not isinstance(value, _Text):
            raise ValueError
        if not isinstance(value, _Literal):
            found[str(key)] = str(value)
        if isinstance(after, _Text) or after not in (",", "}"):
            raise ValueError
        if after == "}":
            return found
    raise ValueError


def _unescaped(content: str) -> str:
    if "\\" not in content:
        return content
    double = re.sub(r'(\\.)|"', lambda m: m[1] or '\\"', content.replace("\\'", "'"))
    try:
        read: Any = orjson.loads(f'"{double}"')
    except orjson.JSONDecodeError:
        return content
    return str(read)

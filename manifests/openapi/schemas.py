"""Schemas of a document as JSON Schema 2020-12 without references, within bounds.

What can't be written out, because it recurs or is too long, is left out where it may be left out: a
schema here never allows what the document does not allow, except that patterns are only told (a
pattern can take forever to match) and enums of over `MAX_ENUM` values are cut. With `cut` it is the
other way round: a schema allows no less.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import unquote

import orjson

from manifests.common.text import words_of
from manifests.formats import short

MAX_NODES: Final = 3_000
MAX_ENUM: Final = 1_000
MAX_LENGTH: Final = 2**15
"""The most characters of the texts of an enum."""

MAX_REFS: Final = 32
DEPTHS: Final = (24, 12, 8, 6, 4)
"""How deep schemas are written out: less deep if they are too long then."""

MAX_WORDS: Final = 300
MAX_EXAMPLE: Final = 2_000
"""The most bytes of an example, as JSON."""

_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_COUNTS = (
    *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
    *("minContains", "maxContains"),
)
_INNER = ("items", "contains", "propertyNames", "not", "if", "then", "else")
_BRANCHES = ("anyOf", "oneOf", "allOf", "prefixItems")
_TYPES = frozenset(("string", "number", "integer", "boolean", "array", "object", "null"))
_MERGED = frozenset(("type", "properties", "required", "description"))
_TOLD = frozenset(("description", "default", "examples", "deprecated"))

Schema = dict[str, Any]


class LeftOutError(Exception):
    """A part of a document can't be imported; the text is the reason."""


class _TooLongError(Exception):
    pass


class Schemas:
    """The schemas of one document. With `cut`, what can't be written out allows anything."""

    def __init__(self, document: Mapping[str, Any], *, cut: bool = False) -> None:
        self._document = document
        self._is_30 = str(document.get("openapi")).startswith("3.0")
        self._cuts = cut
        self._nodes = 0
        self._deepest = 0

    def follow(self, value: Any) -> dict[str, Any]:
        """An object of the document, or the one that it refers to. Raises `LeftOutError`."""
        for _ in range(MAX_REFS):
            if not isinstance(value, dict):
                raise LeftOutError(f"an object is expected where {short(value)} is")
            ref = value.get("$ref")
            if not isinstance(ref, str):
                return value
            value = self.at(ref)
        raise LeftOutError("a reference leads to itself")

    def at(self, ref: str) -> Any:
        """What a reference within the document refers to. Raises `LeftOutError`."""
        if ref != "#" and not ref.startswith("#/"):
            raise LeftOutError(f"it refers to {short(ref)}, which is not in the document")
        value: Any = self._document
        for part in ref.split("/")[1:]:
            name = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict) and name in value:
                value = value[name]
            elif (
                isinstance(value, list)
                and name.isascii()
                and name.isdigit()
                and (int(name[:9]) < len(value))
            ):
                value = value[int(name[:9])]
            else:
                raise LeftOutError(f"it refers to {short(ref)}, which is not there")
        return value

    def inlined(self, schema: Any) -> Schema:
        """A schema without references. Raises `LeftOutError`."""
        for deepest in DEPTHS:
            self._nodes, self._deepest = MAX_NODES, deepest
            try:
                found = self._inline(schema, 0, ())
            except _TooLongError:
                continue
            if found is None:
                break
            return found
        raise LeftOutError("its schema recurs without an end, or is too long")

    def _inline(self, schema: Any, depth: int, seen: tuple[str, ...]) -> Schema | None:
        """None for what is nested too deeply."""
        beyond: Schema | None = {} if self._cuts else None
        self._nodes -= 1
        if self._nodes < 0:
            if self._cuts and self._deepest == DEPTHS[-1]:
                return beyond
            raise _TooLongError
        if depth > self._deepest:
            return beyond
        if not isinstance(schema, dict):
            return {"not": {}} if schema is False else {}
        ref = schema.get("$ref")
        if not isinstance(ref, str):
            return self._own(schema, depth, seen)
        if seen.count(ref) > 1 or len(seen) > MAX_REFS:
            return beyond
        target = self._inline(self._target(ref), depth + 1, (*seen, ref))
        if target is None or self._is_30:
            return target
        beside = {name: value for name, value in schema.items() if name != "$ref"}
        own = self._own(beside, depth, seen)
        if own is None or not own:
            return target if own is not None else None
        if own.keys() <= _TOLD or not target:
            return {**target, **own}
        return {"allOf": [target, own]}

    def _target(self, ref: str) -> Any:
        try:
            return self.at(ref)
        except LeftOutError:
            if self._cuts:
                return {}
            raise

    def _own(self, schema: Schema, depth: int, seen: tuple[str, ...]) -> Schema | None:
        out = self._plain(schema)
        for name in _INNER[:1] if self._cuts else _INNER:  # a `not` of less would allow less
            if name in schema and not (name == "items" and isinstance(schema[name], list)):
                inner = self._inline(schema[name], depth + 1, seen)
                if inner is None:
                    return None
                out[name] = inner
        for name in _BRANCHES:
            if not isinstance(schema.get(name), list) or not schema[name]:
                continue
            parts = [self._inline(one, depth + 1, seen) for one in schema[name]]
            kept = [one for one in parts if one is not None]
            if not kept or (len(kept) < len(parts) and name in ("allOf", "prefixItems")):
                return None
            out.setdefault("anyOf" if self._cuts and name == "oneOf" else name, kept)
        return self._with_properties(out, schema, depth, seen)

    def _with_properties(
        self, out: Schema, schema: Schema, depth: int, seen: tuple[str, ...]
    ) -> Schema | None:
        needed = schema.get("required")
        required = [n for n in needed if isinstance(n, str)] if isinstance(needed, list) else []
        given = schema.get("properties")
        properties: Schema = {}
        for name, inner in given.items() if isinstance(given, dict) else ():
            if not self._cuts and self._is_read_only(inner):
                required = [one for one in required if one != name]
                continue
            inlined = self._inline(inner, depth + 1, seen)
            if inlined is not None:
                properties[name] = inlined
            elif name in required:
                return None
        if properties:
            out["properties"] = properties
        if required:
            out["required"] = [*dict.fromkeys(required)]
        if "additionalProperties" in schema and "patternProperties" not in schema:
            inner = self._inline(schema["additionalProperties"], depth + 1, seen)
            out["additionalProperties"] = False if inner in (None, {"not": {}}) else inner
        return _merged(out)

    def _plain(self, schema: Schema) -> Schema:
        """The keywords that hold no schemas."""
        out: Schema = {}
        said = schema.get("type")
        types = [said] if isinstance(said, str) else said if isinstance(said, list) else []
        odd = [t for t in types if not isinstance(t, str) or t not in _TYPES]
        if odd and self._cuts:
            raise LeftOutError(f"{words_of(str(odd[0]), 40)} is no type of JSON Schema")
        types = [t for t in types if t not in odd]
        if types and self._is_30 and schema.get("nullable") is True:
            types = [*types, "null"]
        if types:
            out["type"] = types[0] if len(types) == 1 else [*dict.fromkeys(types)]
        bounds = dict(schema)
        if self._is_30:
            for end, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
                if bounds.get(end) is True and limit in bounds:
                    bounds[end] = bounds.pop(limit)
        for name in _NUMBERS:
            number = _number(bounds.get(name))
            if number is not None and (name != "multipleOf" or number > 0):
                out[name] = number
        for name in _COUNTS:
            count = bounds.get(name)
            if isinstance(count, int) and not isinstance(count, bool) and 0 <= count < 2**53:
                out[name] = count
        if schema.get("uniqueItems") is True:
            out["uniqueItems"] = True
        words = [words_of(schema.get("description") or schema.get("title"), MAX_WORDS)]
        if isinstance(schema.get("format"), str):
            out["format"] = words_of(schema["format"], 40)
        if isinstance(schema.get("pattern"), str):
            out["pattern"] = schema["pattern"]
        enum = schema.get("enum")
        if isinstance(enum, list) and enum:
            length = sum(len(one) for one in enum if isinstance(one, str))
            if len(enum) > MAX_ENUM or length > MAX_LENGTH:
                words.append(f"One of {len(enum)} values.")
            else:
                out["enum"] = [plain_value(one) for one in enum]
        if "const" in schema and not self._is_30:
            out["const"] = plain_value(schema["const"])
        if "default" in schema and is_short(schema["default"]):
            out["default"] = plain_value(schema["default"])
        listed = schema.get("examples")
        examples = listed if isinstance(listed, list) and not self._is_30 else []
        examples = examples or ([schema["example"]] if "example" in schema else [])
        if examples := [plain_value(one) for one in examples[:3] if is_short(one)]:
            out["examples"] = examples
        needs = schema.get("dependentRequired")
        if isinstance(needs, dict):
            out["dependentRequired"] = {
                name: [n for n in names if isinstance(n, str)]
                for name, names in needs.items()
                if isinstance(names, list)
            }
        if text := " ".join(filter(None, words)):
            out["description"] = text
        return out

    def _is_read_only(self, schema: Any) -> bool:
        if not isinstance(schema, dict):
            return False
        if schema.get("readOnly") is True:
            return True
        return "$ref" in schema and self.follow(schema).get("readOnly") is True


def _merged(schema: Schema) -> Schema:
    """A schema, in which an `allOf` of plain objects is one object."""
    parts = schema.get("allOf")
    if parts is None:
        return schema
    own = {name: value for name, value in schema.items() if name != "allOf"}
    if len(parts) == 1 and not (own.keys() & parts[0].keys() - _TOLD):
        return {**parts[0], **own}
    objects = [own, *parts]
    names = [name for one in objects for name in one.get("properties", ())]
    if len(set(names)) != len(names):
        return schema
    for one in objects:
        if one.keys() - _MERGED - _TOLD or one.get("type", "object") != "object":
            return schema
    if not names:
        return schema
    merged: Schema = {name: value for one in reversed(objects) for name, value in one.items()}
    merged["type"] = "object"
    merged["properties"] = {k: v for one in objects for k, v in one.get("properties", {}).items()}
    required = [*dict.fromkeys(name for one in objects for name in one.get("required", ()))]
    return merged | ({"required": required} if required else {})


def without_patterns(schema: Schema) -> Schema:
    """The same schema, with its patterns as words in the descriptions."""
    out = _within(schema, without_patterns)
    if "pattern" in out:
        told = f"{out.get('description', '')} Matches {words_of(out.pop('pattern'), 100)}"
        out["description"] = told.strip()
    return out


def without(schema: Schema, names: tuple[str, ...]) -> Schema:
    """The same schema, without these keywords in it and in all its parts."""
    out = _within(schema, lambda inner: without(inner, names))
    return {name: value for name, value in out.items() if name not in names}


def _within(schema: Schema, change: Callable[[Schema], Schema]) -> Schema:
    """A copy of a schema, in which the schemas that it directly holds are changed."""
    out = dict(schema)
    for name, value in schema.items():
        if name in _INNER or (name == "additionalProperties" and isinstance(value, dict)):
            out[name] = change(value)
        elif name in _BRANCHES:
            out[name] = [change(one) for one in value]
        elif name == "properties":
            out[name] = {key: change(one) for key, one in value.items()}
    return out


def is_short(value: Any) -> bool:
    """Whether a value may be an example."""
    try:
        return len(orjson.dumps(value)) <= MAX_EXAMPLE
    except (orjson.JSONEncodeError, RecursionError):
        return False


def plain_value(value: Any, depth: int = 0) -> Any:
    """A value as any JSON reader takes it. Raises `LeftOutError` if it is nested deeply."""
    if depth > MAX_REFS:
        raise LeftOutError("a value in its schema is nested too deeply")
    if isinstance(value, dict):
        return {name: plain_value(inner, depth + 1) for name, inner in value.items()}
    if isinstance(value, list):
        return [plain_value(inner, depth + 1) for inner in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**63:
        return float(value) if abs(value) < 10**300 else None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _number(value: object) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    plain = plain_value(value)
    return plain if isinstance(plain, int | float) else None

"""Sample values that a schema allows: those that the document gives, or values made up."""

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from manifests.openapi.schemas import LeftOutError, Schema, without_patterns

MAX_DEPTH: Final = 16
MAX_ITEMS: Final = 20
MAX_TEXT: Final = 200

_BY_FORMAT: Final = {
    "date": "2024-01-31",
    "date-time": "2024-01-31T09:30:00Z",
    "time": "09:30:00Z",
    "duration": "P1D",
    "email": "user@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/",
    "url": "https://example.com/",
    "uri-reference": "/example",
    "uuid": "123e4567-e89b-42d3-a456-426614174000",
    "byte": "dGV4dA==",
}
_CLASSES: Final = {"digit": "0", "space": " ", "word": "a", "not_digit": "a", "not_space": "a"}


def sample_of(schema: Schema, given: Iterable[Any] = ()) -> Any:
    """The first of the `given` values that the schema allows, or one made up. Raises
    `LeftOutError` if there is none.
    """
    validator = Draft202012Validator(without_patterns(schema))
    for value in (*given, *_made(schema, 0)):
        if is_valid(validator, value):
            return value
    raise LeftOutError("no example is given for what it requires, and none can be made up")


def is_valid(validator: Draft202012Validator, value: Any) -> bool:
    """Whether a validator without patterns allows a value."""
    try:
        return validator.is_valid(value)
    except (RecursionError, ValidationError, OverflowError, ZeroDivisionError, TypeError):
        return False


def told(schema: Schema) -> Iterator[Any]:
    """The values that a schema itself gives."""
    yield from schema.get("examples", ())
    yield from (schema[name] for name in ("default", "const") if name in schema)
    yield from schema.get("enum", ())[:MAX_ITEMS]


def _made(schema: Schema, depth: int) -> Iterator[Any]:
    """Values that a schema may allow, the likeliest first."""
    if depth > MAX_DEPTH:
        return
    yield from told(schema)
    for name in ("oneOf", "anyOf"):
        beside = {key: value for key, value in schema.items() if key != name}
        for branch in schema.get(name, ())[:MAX_ITEMS]:
            yield from _made(_both(beside, branch), depth + 1)
        if name in schema:
            return
    if "allOf" in schema:
        whole = {key: value for key, value in schema.items() if key != "allOf"}
        for part in schema["allOf"]:
            whole = _both(whole, part)
        yield from _made(whole, depth + 1)
        return
    types = schema.get("type")
    for type_ in types if isinstance(types, list) else [types or _type_by_keywords(schema)]:
        match type_:
            case "object":
                yield from _objects(schema, depth)
            case "array":
                yield from _arrays(schema, depth)
            case "integer" | "number":
                yield from _numbers(schema, whole=type_ == "integer")
            case "boolean":
                yield from (True, False)
            case "null":
                yield None
            case _:
                yield from _texts(schema)


def _both(one: Schema, other: Schema) -> Schema:
    both = {**one, **other}
    for name in ("properties", "required", "allOf"):
        if name in one and name in other:
            mine, theirs = one[name], other[name]
            both[name] = {**mine, **theirs} if isinstance(mine, dict) else [*mine, *theirs]
    return both


def _type_by_keywords(schema: Schema) -> str:
    if "properties" in schema or "required" in schema or "additionalProperties" in schema:
        return "object"
    if "items" in schema:
        return "array"
    return "number" if "minimum" in schema or "maximum" in schema else "string"


def _first(schema: Schema, depth: int) -> Any:
    validator = Draft202012Validator(without_patterns(schema))
    return next(value for value in _made(schema, depth) if is_valid(validator, value))


def _objects(schema: Schema, depth: int) -> Iterator[Any]:
    properties = schema.get("properties", {})
    required = schema.get("required", [])
    least = schema.get("minProperties", 0)
    for names in (required, [*required, *(n for n in properties if n not in required)][:least]):
        try:
            yield {name: _first(properties.get(name, {}), depth + 1) for name in names}
        except StopIteration:
            return
    extra = schema.get("additionalProperties")
    if least and extra is not False and least <= MAX_ITEMS:
        inner = extra if isinstance(extra, dict) else {}
        for value in _made(inner, depth + 1):
            yield {f"name{number}": value for number in range(least)}


def _arrays(schema: Schema, depth: int) -> Iterator[Any]:
    least = schema.get("minItems", 0)
    if least > MAX_ITEMS:
        return
    first = [*schema.get("prefixItems", ())][: max(least, 1)]
    try:
        values = [_first(one, depth + 1) for one in first]
        item: Schema = schema.get("items") or schema.get("contains") or {}
        if schema.get("maxItems", 1) == 0:
            yield []
            return
        if len(values) < max(least, 1):
            for value in _made(item, depth + 1):
                yield values + [value] * (max(least, 1) - len(values))
            if schema.get("uniqueItems"):
                made = [*dict.fromkeys(v for v in _made(item, depth + 1) if _is_scalar(v))]
                yield values + made[:least]
        else:
            yield values
    except StopIteration:
        pass
    yield []


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | int | float)


def _numbers(schema: Schema, *, whole: bool) -> Iterator[int | float]:
    step = schema.get("multipleOf") or 1
    low, high = schema.get("minimum"), schema.get("maximum")
    for name, by in (("exclusiveMinimum", 1), ("exclusiveMaximum", -1)):
        limit = schema.get(name)
        if limit is not None:
            near = limit + by * step
            low, high = (near, high) if by > 0 else (low, near)
    for start in (1, low, high, 0, 10, 100):
        if start is None:
            continue
        yield start
        yield math.ceil(start / step) * step
        yield math.floor(start / step) * step
        if not whole:
            yield from (start + 0.5, start + 0.001, start - 0.001)
    yield from (2, 3, 4, 5)
    if low is not None and high is not None:
        yield (low + high) / 2


def _texts(schema: Schema) -> Iterator[str]:
    if (pattern := schema.get("pattern")) is not None and (like := text_like(pattern)):
        yield like
    if (form := schema.get("format")) in _BY_FORMAT:
        yield _BY_FORMAT[form]
    least, most = schema.get("minLength", 0), schema.get("maxLength", MAX_TEXT)
    if least <= MAX_TEXT:
        text = "text" if least <= 4 else "text" + "x" * (least - 4)
        yield text[:most]
    yield ""


def text_like(pattern: str) -> str | None:
    """A short text that fits a regular expression, which is only read, never run; None if it
    has parts that this does not know.
    """
    from re import _parser as parser  # type: ignore[attr-defined]  # the standard library's own

    if len(pattern) > MAX_TEXT:
        return None
    try:
        return "".join(_like(parser.parse(pattern), 0))[:MAX_TEXT]
    except (re.error, RecursionError, OverflowError, LookupError, ValueError):
        return None


def _like(parsed: Any, depth: int) -> Iterator[str]:
    if depth > MAX_DEPTH:
        raise ValueError
    for operation, argument in parsed:
        match str(operation):
            case "LITERAL":
                yield chr(argument)
            case "ANY":
                yield "a"
            case "AT":
                pass
            case "IN":
                yield _one_of(argument)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                least, most, inner = argument
                times = max(least, min(1, most))
                if times > MAX_TEXT:
                    raise ValueError
                yield "".join(_like(inner, depth + 1)) * times
            case "SUBPATTERN":
                yield from _like(argument[-1], depth + 1)
            case "BRANCH":
                yield from _like(argument[1][0], depth + 1)
            case _:
                raise ValueError


def _one_of(choices: Any) -> str:
    kind, first = choices[0]
    match str(kind):
        case "LITERAL":
            return chr(first)
        case "RANGE":
            return chr(first[0])
        case "CATEGORY":
            return _CLASSES[str(first).lower().removeprefix("category_")]
    excluded = {chr(value) for kind, value in choices[1:] if str(kind) == "LITERAL"}
    return next(c for c in "aB0-_ ~" if c not in excluded)

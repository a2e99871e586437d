"""Sample values that a schema allows: those that the document gives, or values made up."""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import ValidationError

from manifests.openapi.schemas import LeftOutError, Schema, is_short

MAX_DEPTH: Final = 16
MAX_BRANCHES: Final = 20
MAX_ITEMS: Final = 100
MAX_TEXT: Final = 1_000

MAX_CHECKS: Final = 20_000
"""The most keywords of schemas that are checked for the samples of one tool."""

_MADE: Final = 10
"""How many checks it costs about as much as to begin to make a value."""

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


class Samples:
    """Finds sample values. A schema may have alternatives within alternatives, whose combinations
    are too many to try: `MAX_CHECKS` bounds the work from one `begin` to the next.
    """

    def __init__(self) -> None:
        self._left = MAX_CHECKS
        checks = {
            key: self._counted(check) for key, check in Draft202012Validator.VALIDATORS.items()
        }
        checks["pattern"] = lambda *_: ()  # it may take forever
        self._validator: Any = validators.extend(Draft202012Validator, checks)  # type: ignore[no-untyped-call]

    def begin(self) -> None:
        """The samples of another tool are next."""
        self._left = MAX_CHECKS

    def of(self, schema: Schema, given: Iterable[Any] = ()) -> Any:
        """The first of the `given` values that the schema allows, or one made up that is short.
        Raises `LeftOutError` if there is none, or none is found in time.
        """
        for value in given:
            if self.allows(schema, value):
                return value
        try:
            return self._first(schema, 0)
        except StopIteration:
            text = "no example is given for what it requires, and none can be made up"
            raise LeftOutError(text) from None

    def allows(self, schema: Schema, value: Any) -> bool:
        """Whether a schema allows a value, whatever its patterns say. Raises `LeftOutError`."""
        try:
            return bool(self._validator(schema).is_valid(value))
        except (RecursionError, ValidationError, ArithmeticError, TypeError):
            return False

    def _counted(self, check: Callable[..., Any]) -> Callable[..., Any]:
        def counted(validator: Any, said: Any, *more: Any) -> Any:
            self._spend(len(said) if isinstance(said, list | dict) else 1)
            return check(validator, said, *more)

        return counted

    def _spend(self, checks: int) -> None:
        self._left -= checks
        if self._left < 0:
            raise LeftOutError("to find an example of what it requires takes too long")

    def _first(self, schema: Schema, depth: int) -> Any:
        """Raises `StopIteration` and `LeftOutError`."""
        return next(value for value in self._made(schema, depth) if self.allows(schema, value))

    def _made(self, schema: Schema, depth: int) -> Iterator[Any]:
        """Short values that a schema may allow, the likeliest first. Raises `LeftOutError`."""
        self._spend(_MADE)
        for value in self._tried(schema, depth):
            self._spend(1)
            if is_short(value):
                yield value

    def _tried(self, schema: Schema, depth: int) -> Iterator[Any]:
        if depth > MAX_DEPTH:
            return
        yield from told(schema)
        for name in ("oneOf", "anyOf"):
            beside = {key: value for key, value in schema.items() if key != name}
            for branch in schema.get(name, ())[:MAX_BRANCHES]:
                yield from self._made(_both(beside, branch), depth + 1)
            if name in schema:
                return
        if "allOf" in schema:
            self._spend(len(schema["allOf"]))
            whole = {key: value for key, value in schema.items() if key != "allOf"}
            for part in schema["allOf"]:
                whole = _both(whole, part)
            yield from self._made(whole, depth + 1)
            return
        types = schema.get("type")
        for type_ in types if isinstance(types, list) else [types or _type_by_keywords(schema)]:
            match type_:
                case "object":
                    yield from self._objects(schema, depth)
                case "array":
                    yield from self._arrays(schema, depth)
                case "integer" | "number":
                    yield from _numbers(schema, whole=type_ == "integer")
                case "boolean":
                    yield from (True, False)
                case "null":
                    yield None
                case _:
                    yield from _texts(schema)

    def _objects(self, schema: Schema, depth: int) -> Iterator[Any]:
        properties = schema.get("properties", {})
        required = schema.get("required", [])
        least = schema.get("minProperties", 0)
        for names in (required, [*dict.fromkeys((*required, *properties))][:least]):
            try:
                yield {name: self._first(properties.get(name, {}), depth + 1) for name in names}
            except StopIteration:
                return
        extra = schema.get("additionalProperties")
        if least and extra is not False and least <= MAX_ITEMS:
            inner = extra if isinstance(extra, dict) else {}
            for value in self._made(inner, depth + 1):
                yield {f"name{number}": value for number in range(least)}

    def _arrays(self, schema: Schema, depth: int) -> Iterator[Any]:
        least = schema.get("minItems", 0)
        if least > MAX_ITEMS:
            return
        first = [*schema.get("prefixItems", ())][: max(least, 1)]
        try:
            values = [self._first(one, depth + 1) for one in first]
            item: Schema = schema.get("items") or schema.get("contains") or {}
            if schema.get("maxItems", 1) == 0:
                yield []
                return
            if len(values) < max(least, 1):
                for value in self._made(item, depth + 1):
                    yield values + [value] * (max(least, 1) - len(values))
                if schema.get("uniqueItems"):
                    made = [*dict.fromkeys(v for v in self._made(item, depth + 1) if _is_scalar(v))]
                    yield values + made[:least]
            else:
                yield values
        except StopIteration:
            pass
        yield []


def told(schema: Schema) -> Iterator[Any]:
    """The values that a schema itself gives."""
    yield from schema.get("examples", ())
    yield from (schema[name] for name in ("default", "const") if name in schema)
    yield from schema.get("enum", ())[:MAX_BRANCHES]


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
        if not math.isfinite(start / step):
            continue
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
                part = "".join(_like(inner, depth + 1))
                if len(part) * times > MAX_TEXT:
                    raise ValueError
                yield part * times
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

"""Argument binding: turning a caller's arguments into the canonical arguments of a tool.

Two spellings of one call bind to equal values, in the order of the signature. Canonical arguments
bind to themselves. Types are coerced only where nothing is lost. A value that would need a guess is
refused, and the error says what is allowed. JSON null means "not given".
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple
from unicodedata import normalize

import orjson

from manifests.formats import DATE_FORMATS, FORMATS, short
from manifests.manifest import (
    PLACEHOLDER,
    HttpBinding,
    Manifest,
    Parameter,
    ParameterType,
    RapidApiBinding,
    Scalar,
    canonical_json,
)
from manifests.ranges import Range, ranges
from manifests.synonyms import LONGEST, meant_name, meant_value

MAX_INTEGER = 2**53 - 1  # RFC 7493 (I-JSON), section 2.2

REMEMBERED = 1_024

Convert = Callable[[object], Scalar]

MAX_ARGUMENTS = 256

MAX_WORDS = 200
"""The most characters of a JSON Schema, or of words on what does not fit it, in a message."""

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_INTEGER = re.compile(r"[+-]?\d{1,16}")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with one argument, and what would be right."""

    argument: str
    problem: str
    expected: str


class ArgumentError(ValueError):
    """The arguments do not bind; `problems` lists every reason."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("; ".join(f"{p.argument}: {p.problem}, {p.expected}" for p in problems))


class _Slot(NamedTuple):
    """One parameter, prepared for binding. `text` converts strings, `other` all other values."""

    name: str
    text: Callable[[str], Scalar] | None  # None: plain text, which needs no conversion
    other: Callable[[object], Scalar]
    required: bool
    default: Scalar | None


class Signature:
    """The parameters of a tool, compiled for binding."""

    def __init__(self, manifest: Manifest) -> None:
        self.parameters = manifest.parameters
        binding = manifest.binding
        in_path: list[str] = []
        self._sent_names: dict[str, str] = {}
        if isinstance(binding, RapidApiBinding):
            in_path = PLACEHOLDER.findall(binding.path)
            self._sent_names = {sent: name for name, sent in binding.query.items()}
        elif isinstance(binding, HttpBinding):
            in_path = binding.in_path
            self._sent_names = {part.name: part.argument for part in binding.parts if part.name}
        self._slots = tuple(
            _slot(p, p.name in in_path)
            for p in manifest.parameters
            if p.filled_by == "agent" and p.withdrawn is None
        )
        self.names = tuple(slot.name for slot in self._slots)
        self._unfilled = {
            p.name: p.default
            for p in manifest.parameters
            if p.name in self.names and p.required and p.default is not None
        }
        self.ranges = ranges([p for p in manifest.parameters if p.name in self.names])

    def bind(self, arguments: Mapping[str, object]) -> dict[str, Scalar]:
        """The canonical arguments, with defaults filled in. Raises `ArgumentError`."""
        if len(arguments) > MAX_ARGUMENTS:
            text = f"{len(arguments)} are given"
            raise ArgumentError([Problem("arguments", text, f"at most {MAX_ARGUMENTS}")])
        bound: dict[str, Scalar] = {}
        problems: list[Problem] = []
        known = 0
        for name, of_text, of_other, required, default in self._slots:
            value = arguments.get(name)
            if value is None:
                known += name in arguments
                if default is not None:
                    bound[name] = default
                elif required:
                    problems.append(self._missing(name))
                continue
            known += 1
            try:
                if type(value) is not str:
                    bound[name] = of_other(value)
                elif of_text is not None:
                    bound[name] = of_text(value)
                else:
                    bound[name] = value if value.isascii() else _string(value)
            except ValueError as error:
                problems.append(Problem(name, str(error), f"expected {self._expected(name)}"))
        if known != len(arguments):
            if not all(isinstance(name, str) for name in arguments):
                raise ArgumentError([Problem("arguments", "have names that are no strings", "")])
            aliases = self.aliases(arguments)
            if aliases:
                given = {n: v for n, v in arguments.items() if v is not None or n in aliases}
                return self.bind({aliases.get(name, name): v for name, v in given.items()})
            problems.extend(self._foreign(name) for name in arguments if name not in self.names)
        for range_ in self.ranges:
            if range_.is_reversed(bound):
                problems += [_end_first(range_, bound, arguments)]
        if problems:
            raise ArgumentError(problems)
        return bound

    def completed(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments, and the upstream's default of each required parameter that they leave out:
        a call that was labelled or recorded when these defaults were filled in.
        """
        if not self._unfilled:
            return {**arguments}
        left_out = {n: v for n, v in self._unfilled.items() if arguments.get(n) is None}
        if not left_out or len(arguments) > MAX_ARGUMENTS:
            return {**arguments}
        meant = self.aliases(arguments).values()
        return {**arguments, **{n: v for n, v in left_out.items() if n not in meant}}

    def aliases(self, arguments: Mapping[str, object]) -> dict[str, str]:
        """The names in `arguments` that are aliases of parameters which are not given themselves.

        An alias is the upstream's own name, a spelling with another case or other marks between
        words, or a synonym. It counts only if it can mean a single parameter. If two names mean the
        same parameter, there are no aliases.
        """
        dates = [
            p.name for p in self.parameters if p.name in self.names and p.format in DATE_FORMATS
        ]
        meant: dict[str, str] = {}
        for name in arguments:
            if name not in self.names and all(name != p.name for p in self.parameters):
                parameter = self._sent_names.get(name) or meant_name(name, self.names, dates)
                if parameter in self.names and arguments.get(parameter) is None:
                    meant[name] = parameter
        return meant if len(set(meant.values())) == len(meant) else {}

    def allowed(self) -> dict[str, str]:
        """Every argument that an agent may give, with its expected values in words."""
        return {name: self._expected(name) for name in self.names}

    def _expected(self, name: str) -> str:
        return _in_words(next(p for p in self.parameters if p.name == name))

    def _missing(self, name: str) -> Problem:
        expected = f"expected {self._expected(name)}"
        if name not in self._unfilled:
            return Problem(name, "is missing", expected)
        example = next(p.example for p in self.parameters if p.name == name)
        text = "is missing (it names the instrument, so it has no default)"
        return Problem(name, text, f"{expected} (the sample is {short(example)})")

    def _foreign(self, name: str) -> Problem:
        for p in self.parameters:
            if p.name == name and p.withdrawn is not None:
                return Problem(name, "is no longer taken by the upstream", p.withdrawn)
            if p.name == name:
                return Problem(name, "is set by the gateway", "leave it out")
        allowed = ", ".join(self.names) or "none"
        return Problem(short(name)[1:-1], "is no argument of this tool", f"allowed: {allowed}")


def _end_first(range_: Range, bound: Mapping[str, Scalar], given: Mapping[str, object]) -> Problem:
    """The problem of a range whose end is before its start; either may be a default."""
    start, end = (
        f"{short(bound[name])}{'' if given.get(name) is not None else ' (its default)'}"
        for name in (range_.start, range_.end)
    )
    text = f"{end} is before {range_.start} {start}"
    return Problem(range_.end, text, f"expected {range_.start} <= {range_.end}")


def _slot(p: Parameter, in_path: bool) -> _Slot:
    """Converts by type, then format, then allowed values. A default is accepted unchanged."""
    convert = _segment if in_path and p.type == "string" else _CONVERT[p.type]
    if p.json_schema is not None:
        convert = _fitting(convert, p, p.json_schema)
    form = FORMATS.get(p.format or "")
    if form is not None:
        convert = _formatted(convert, form.writer(p.name, str(p.example or "")), p)
    if p.enum is not None:
        convert = _allowed(convert, p.enum)
    if p.default is not None:
        convert = _or_default(convert, p.default)
    is_free = form is None and p.enum is None and p.json_schema is None
    is_plain = p.type == "string" and is_free and not in_path
    # The same texts come often, so their values are cached.
    text = None if is_plain else _remembering(convert)
    return _Slot(p.name, text, convert, p.required, p.filling)


def _remembering(convert: Convert) -> Callable[[str], Scalar]:
    remembered = lru_cache(REMEMBERED)(convert)
    return lambda text: remembered(text) if len(text) <= LONGEST else convert(text)


def _formatted(convert: Convert, write: Callable[[str], str], p: Parameter) -> Convert:
    def formatted(value: object) -> Scalar:
        if p.format == "csv" and isinstance(value, list | tuple):
            value = ",".join(_string(part) for part in value)
        if p.type == "string":
            return write(normalize("NFKC", str(convert(value))).strip())
        return convert(write(normalize("NFKC", value).strip()) if isinstance(value, str) else value)

    return formatted


MAX_JSON = 2**16
"""The most characters of an array or object."""


def _json(type_: type, words: str) -> Convert:
    def converted(value: object) -> str:
        if isinstance(value, str):
            try:
                value = orjson.loads(value[: MAX_JSON + 1])
            except orjson.JSONDecodeError:
                raise ValueError(f"{short(value)} is no {words}") from None
        if isinstance(value, tuple):
            value = [*value]
        if not isinstance(value, type_):
            raise ValueError(f"is {_kind(value)}")
        try:
            text = canonical_json(value)
        except TypeError as error:
            raise ValueError(f"can't be written as JSON: {error}") from None
        if len(text) > MAX_JSON:
            raise ValueError(f"has over {MAX_JSON} characters as JSON")
        return text

    return converted


TOLD = 2**13
"""The most characters of a value of which a message says where it does not fit: to find the place
takes longer than to see that it does not.
"""


def _fitting(convert: Convert, p: Parameter, schema: Mapping[str, Any]) -> Convert:
    """Refuse values that the JSON Schema does not allow, with the first reason. The validator is
    compiled: in Python a value of 60 KB could take a minute.
    """
    from jsonschema_rs import Draft202012Validator, ValidationError

    validator = Draft202012Validator(dict(schema))

    def fitting(value: object) -> Scalar:
        bound = convert(value)
        meant = p.shown(bound)
        if validator.is_valid(meant):
            return bound
        if isinstance(bound, str) and len(bound) > TOLD:
            raise ValueError("does not fit its JSON Schema")
        try:
            validator.validate(meant)
        except ValidationError as wrong:
            steps = (
                f"[{step}]" if isinstance(step, int) else f".{step}" for step in wrong.instance_path
            )
            raise ValueError(
                f"does not fit at ${''.join(steps)}: {wrong.message[:MAX_WORDS]}"
            ) from None
        return bound

    return fitting


def _allowed(convert: Convert, enum: tuple[Scalar, ...]) -> Convert:
    texts = tuple(value for value in enum if isinstance(value, str))

    def allowed(value: object) -> Scalar:
        bound = convert(value)
        meant = meant_value(bound, texts) if isinstance(bound, str) else bound
        if meant is None or meant not in enum:
            raise ValueError(f"{short(value)} is not allowed")
        return meant

    return allowed


def _or_default(convert: Convert, default: Scalar) -> Convert:
    def defaulted(value: object) -> Scalar:
        is_default = type(value) is type(default) and value == default
        return default if is_default else convert(value)

    return defaulted


def _in_words(p: Parameter) -> str:
    words: str = p.type
    if p.is_json and p.json_schema is not None:
        words = f"{p.type} that fits {canonical_json(p.json_schema)[:MAX_WORDS]}"
    elif p.enum is not None:
        words += f", one of {', '.join(map(repr, p.enum))}"
    elif p.format in FORMATS:
        words = FORMATS[p.format].words
    return words


def _string(value: object) -> str:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError("holds half of a surrogate pair") from None
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(_number(value))
    raise ValueError(f"is {_kind(value)}")


def _segment(value: object) -> str:
    """A string for one segment of a path, never a dot segment (RFC 3986, 5.2.4)."""
    text = _string(value)
    if text in ("", ".", ".."):
        raise ValueError(f"{text!r} is no path segment")
    return text


def _integer(value: object) -> int:
    number = _number(value)
    if isinstance(number, int):
        return number
    raise ValueError(f"{short(value)} is no whole number")


def _number(value: object) -> int | float:
    """A finite number. Whole numbers become integers, so 1, 1.0 and "1" are the same value."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"is {_kind(value)}")
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        raise ValueError(f"{short(value)} is no number")
    try:
        number = (
            int(value) if isinstance(value, str) and _INTEGER.fullmatch(value) else float(value)
        )
    except (ValueError, OverflowError):
        raise ValueError(f"{short(value)} is no number") from None
    if number != number or number in (float("inf"), float("-inf")):
        raise ValueError(f"{short(value)} is no finite number")
    whole = int(number)
    if whole != number:
        return number
    if abs(whole) > MAX_INTEGER:
        raise ValueError(f"{short(value)} is beyond 2^53 - 1")
    return whole


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise ValueError(f"is {_kind(value)}")
    if value.lower() not in ("true", "false"):
        raise ValueError(f"{short(value)} is no boolean")
    return value.lower() == "true"


def _kind(value: object) -> str:
    match value:
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case Mapping():
            return "an object"
    return "an array"


_CONVERT: dict[ParameterType, Callable[[object], Scalar]] = {
    "string": _string,
    "number": _number,
    "integer": _integer,
    "boolean": _boolean,
    "array": _json(list, "array"),
    "object": _json(dict, "object"),
}

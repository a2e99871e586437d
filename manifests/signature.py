"""Argument binding: what a caller wrote becomes the canonical arguments of a tool.

Two spellings of one call bind to equal values, in the order of the signature; what was bound binds
to itself. Types are coerced only where nothing is lost; what would need a guess is refused with
what is allowed. JSON null means "not given".
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from manifests.manifest import (
    PLACEHOLDER,
    Manifest,
    Parameter,
    RapidApiBinding,
    Scalar,
    ScalarType,
)

MAX_INTEGER = 2**53 - 1  # RFC 7493 (I-JSON), section 2.2

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


class Signature:
    """What a tool takes, compiled for binding."""

    def __init__(self, manifest: Manifest) -> None:
        self.parameters = manifest.parameters
        binding = manifest.binding
        path = PLACEHOLDER.findall(binding.path) if isinstance(binding, RapidApiBinding) else ()
        self._slots = tuple(
            (
                p.name,
                p.type == "string" and p.name not in path,
                _segment if p.name in path and p.type == "string" else _CONVERT[p.type],
                p.enum,
                p.required,
                p.default,
            )
            for p in manifest.parameters
            if p.filled_by == "agent" and p.withdrawn is None
        )
        self.names = tuple(slot[0] for slot in self._slots)

    def bind(self, arguments: Mapping[str, object]) -> dict[str, Scalar]:
        """Canonical arguments, defaults filled in. Raises `ArgumentError`."""
        bound: dict[str, Scalar] = {}
        problems: list[Problem] = []
        known = 0
        for name, is_text, convert, enum, required, default in self._slots:
            value = arguments.get(name)
            if value is None:
                known += name in arguments
                if default is not None:
                    bound[name] = default
                elif required:
                    problems.append(Problem(name, "is missing", f"expected {self._expected(name)}"))
                continue
            known += 1
            try:
                if is_text and type(value) is str and value.isascii():  # most values: no call
                    bound[name] = value
                else:
                    bound[name] = convert(value)
                if enum is not None and bound[name] not in enum:
                    raise ValueError(f"{_short(value)} is not allowed")
            except ValueError as error:
                problems.append(Problem(name, str(error), f"expected {self._expected(name)}"))
        if known != len(arguments):
            problems.extend(self._foreign(name) for name in arguments if name not in self.names)
        if problems:
            raise ArgumentError(problems)
        return bound

    def allowed(self) -> dict[str, str]:
        """Every argument an agent may give, with what it expects in words."""
        return {name: self._expected(name) for name in self.names}

    def _expected(self, name: str) -> str:
        parameter = next(p for p in self.parameters if p.name == name)
        return _in_words(parameter)

    def _foreign(self, name: str) -> Problem:
        for p in self.parameters:
            if p.name == name and p.withdrawn is not None:
                return Problem(name, "is no longer taken by the upstream", p.withdrawn)
            if p.name == name:
                return Problem(name, "is set by the gateway", "leave it out")
        return Problem(
            name, "is no argument of this tool", f"allowed: {', '.join(self.names) or 'none'}"
        )


def _in_words(p: Parameter) -> str:
    words: str = p.type
    if p.enum is not None:
        words += f", one of {', '.join(map(repr, p.enum))}"
    elif p.format is not None:
        words += f" ({p.format})"
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
    """A string that becomes one segment of a path: never a dot segment (RFC 3986, 5.2.4)."""
    text = _string(value)
    if text in ("", ".", ".."):
        raise ValueError(f"{text!r} is no path segment")
    return text


def _integer(value: object) -> int:
    number = _number(value)
    if isinstance(number, int):
        return number
    raise ValueError(f"{_short(value)} is no whole number")


def _number(value: object) -> int | float:
    """A finite number; whole ones become integers, so that 1, 1.0 and "1" are one value."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"is {_kind(value)}")
    try:
        number = (
            int(value) if isinstance(value, str) and _INTEGER.fullmatch(value) else float(value)
        )
    except (ValueError, OverflowError):
        raise ValueError(f"{_short(value)} is no number") from None
    if number != number or number in (float("inf"), float("-inf")):
        raise ValueError(f"{_short(value)} is no finite number")
    whole = int(number)
    if whole != number:
        return number
    if abs(whole) > MAX_INTEGER:
        raise ValueError(f"{_short(value)} is beyond 2^53 - 1")
    return whole


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise ValueError(f"is {_kind(value)}")
    if value.lower() not in ("true", "false"):
        raise ValueError(f"{_short(value)} is no boolean")
    return value.lower() == "true"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


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
        case _:
            return "an array"


_CONVERT: dict[ScalarType, Callable[[object], Scalar]] = {
    "string": _string,
    "number": _number,
    "integer": _integer,
    "boolean": _boolean,
}

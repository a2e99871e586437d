"""The pipeline's first three steps: find the tool, bind the arguments, compute the key.

The result is a pure function of tool and arguments. Callers that send JSON text mostly send the
same text again, so the binding of a short text is remembered.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

import orjson

from cache import Rule, call_key, key_prefix, rule_of
from gateway.errors import CallError, ErrorCode
from manifests import ArgumentError, Catalog, Manifest, Problem, Scalar, Signature
from manifests.common.credentials import names_credential
from manifests.common.json_text import Repeating, read_json
from manifests.common.nearest import hint

REMEMBERED = 4_096
"""How many texts are remembered, and the size in bytes of the longest."""

_PLAIN = (
    orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)
"""Encodes what JSON has itself, and enums and UUIDs as their values; refuses all else."""

REDACTED = "[redacted]"

MAX_SHOWN = 32
"""The maximum number of arguments, and of problems with them, that are recorded and reported for a
call that did not bind.
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """A tool prepared for calls; it is made on first use."""

    manifest: Manifest
    signature: Signature
    host: str
    key_prefix: bytes
    freshness: Rule
    transactional: bool
    is_for_one: bool


@dataclass(slots=True)  # frozen would add a fifth to the time of a cached call
class BoundCall:
    """A call that can be made: its tool, its canonical arguments and its key. `aliases` pairs names
    that the caller used with the parameters they stand for, and `resolved` parameters with words on
    the instrument that was named.
    """

    plan: Plan
    arguments: Mapping[str, Scalar]
    key: str
    aliases: Mapping[str, str]
    resolved: Mapping[str, str] | None = None


class InvalidCall(Exception):
    """The call can't be made. `arguments` are those given, redacted for the record."""

    def __init__(self, error: CallError, arguments: Mapping[str, Any] | None = None) -> None:
        super().__init__(error.message)
        self.error = error
        self.arguments = redacted(arguments or {})


class Binder:
    """Binds calls to the tools of one catalogue."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._plans: dict[str, Plan] = {}
        self._remembered = lru_cache(REMEMBERED)(self._bind_text)
        self._version = catalog.version

    def bind(self, tool: str, arguments: Mapping[str, Any] | bytes) -> BoundCall:
        """Bind `arguments`, a mapping or its JSON text. Raises `InvalidCall`."""
        if self._version != self._catalog.version:  # its tools have changed
            self._plans.clear()
            self._remembered.cache_clear()
            self._version = self._catalog.version
        if isinstance(arguments, bytes):
            if len(arguments) <= REMEMBERED:
                return self._remembered(tool, arguments)
            return self._bind_text(tool, arguments)
        if type(arguments) is dict:
            try:  # remembered by its text, which takes a third of the time of binding it anew
                text = orjson.dumps(arguments, option=_PLAIN)
                if len(text) <= REMEMBERED and b"null" not in text:  # which may stand for a NaN
                    return self._remembered(tool, text)
            except (TypeError, InvalidCall):  # no JSON, or to be refused as it was given
                pass
        return self._bind(tool, arguments)

    def aliases(self, tool: str, given: Mapping[str, Any]) -> Mapping[str, str]:
        """The names in `given` that stand for parameters of a tool. Raises `InvalidCall`."""
        plan = self._plans.get(tool) or self._resolve(tool, given)
        return plan.signature.aliases(given)

    def _bind_text(self, tool: str, text: bytes) -> BoundCall:
        try:
            arguments = read_json(text or b"{}")
        except orjson.JSONDecodeError as error:
            raise _unreadable(f"the arguments are not JSON: {error}") from None
        if not isinstance(arguments, dict):
            raise _unreadable("the arguments must be one JSON object")
        return self._bind(tool, arguments)

    def _bind(self, tool: str, given: Mapping[str, Any]) -> BoundCall:
        if type(given) is not dict and not isinstance(given, Mapping):
            raise _unreadable("the arguments must be one JSON object, a mapping of names to values")
        plan = self._plans.get(tool) or self._resolve(tool, given)
        try:
            if isinstance(given, Repeating):
                raise ArgumentError([_repeated(name) for name in given.repeated])
            arguments = plan.signature.bind(given)
        except ArgumentError as error:
            details = {
                "problems": [
                    {"argument": p.argument, "problem": p.problem, "expected": p.expected}
                    for p in error.problems[:MAX_SHOWN]
                ],
                "allowed": plan.signature.allowed(),
            }
            text = str(ArgumentError(error.problems[:MAX_SHOWN]))
            if len(error.problems) > MAX_SHOWN:
                text += f"; and {len(error.problems) - MAX_SHOWN} more"
            unbound = CallError(ErrorCode.INVALID_ARGUMENTS, text, details=details)
            raise InvalidCall(unbound, given) from None
        aliases = {} if given.keys() <= arguments.keys() else plan.signature.aliases(given)
        return BoundCall(plan, arguments, call_key(plan.key_prefix, arguments), aliases)

    def _resolve(self, tool: str, given: Mapping[str, Any]) -> Plan:
        manifest = self._catalog.get(tool)
        if manifest is None:
            raise InvalidCall(unknown_tool(self._catalog, tool), given)
        if manifest.unavailable is not None:
            text = f"{tool} is unavailable: {manifest.unavailable}"
            raise InvalidCall(CallError(ErrorCode.UNAVAILABLE, text), given)
        plan = self._plans[tool] = Plan(
            manifest,
            Signature(manifest),
            manifest.upstream,
            key_prefix(tool, manifest.revision),
            rule_of(manifest.timeliness, manifest.freshness),
            transactional=manifest.intent_type == "transactional",
            is_for_one=manifest.is_for_one,
        )
        return plan


def _repeated(name: str) -> Problem:
    return Problem(printable(name), "is given more than once", "expected one value")


def unknown_tool(catalog: Catalog, name: str) -> CallError:
    nearest = catalog.nearest(printable(name))
    text = f"no tool is named {printable(name)!r}{hint(nearest)}"
    return CallError(ErrorCode.UNKNOWN_TOOL, text, details={"nearest": nearest})


def redacted(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A caller's arguments made safe to record: bounded, printable, and without the values of
    anything named like a credential.
    """
    shown = islice(arguments.items(), MAX_SHOWN)
    return {printable(str(name)): _shown(str(name), value) for name, value in shown}


def masked(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as they are, with the values of anything named like a credential masked."""
    shown: dict[str, Any] = {}
    for name, value in arguments.items():
        if _known(name) if len(name) <= MAX_SHOWN else names_credential(name):
            shown[name] = REDACTED
        else:
            shown[name] = value if type(value) in _SCALARS else _masked(value)
    return shown


_SCALARS = {str, int, float, bool, type(None)}


def _masked(value: Any) -> Any:
    if isinstance(value, Mapping):
        return masked(value)
    return [*map(_masked, value)] if isinstance(value, list | tuple) else value


def printable(text: str, limit: int = 64) -> str:
    """`text` as UTF-8 can hold it, cut to `limit` characters."""
    return text[:limit].encode("utf-8", "replace").decode()


def _shown(name: str, value: Any) -> Any:
    if _is_credential(name):
        return REDACTED
    if isinstance(value, str):
        return printable(value, 200)
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int) and abs(value) < 2**53:
        return value
    return f"[{type(value).__name__}]"


def _is_credential(name: str) -> bool:
    return _known(name) if len(name) <= MAX_SHOWN else names_credential(name)


# Checked for every recorded argument: uncached, this is a tenth of an episode's cost.
_known = lru_cache(maxsize=REMEMBERED)(names_credential)


def _unreadable(message: str) -> InvalidCall:
    return InvalidCall(CallError(ErrorCode.INVALID_REQUEST, message))

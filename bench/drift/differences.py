"""What changed between the public functions of two releases, as findings.

Levels follow from how tools are called here: by the names of their parameters. So a renamed
parameter breaks calls, and a new order does not.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from bench.drift.finding import Finding
from bench.drift.functions import Function, Origin, Parameter, Surface

_SHOWN = 160
_STATED = {
    "code": "its code looks up",
    "annotation": "its annotation allows",
    "documentation": "its documentation lists",
}


def differences(
    before: Surface, after: Surface, moments: Mapping[str, str] | None = None
) -> list[Finding]:
    """The changes from `before` to `after`, in the order of the functions' names. `moments`
    has for functions that are gone or new an ending of the text, which says when that happened.
    """
    found = list[Finding]()
    known = moments or {}
    for name in sorted(before.functions.keys() | after.functions.keys()):
        old, new = before.functions.get(name), after.functions.get(name)
        host = next((f.hosts[0] for f in (new, old) if f is not None and f.hosts), None)
        when = known.get(name, "")
        if name not in after.functions:
            text = f"the function is gone{when}"
            found.append(Finding(name, "function_removed", "ERR", text, host))
        elif name not in before.functions:
            text = f"the function is new{when}"
            found.append(Finding(name, "function_added", "INFO", text, host))
        elif old is not None and new is not None:
            found += (
                Finding(name, check, level, text, host, *more)
                for check, level, text, *more in _of_function(old, new)
            )
        elif old is not new:
            side = "older" if old is None else "newer"
            text = f"the code of the {side} release could not be read, so nothing is compared"
            found.append(Finding(name, "unreadable", "WARN", text, host))
    return found


Change = tuple[Any, ...]
"""The check, the level and the text of a finding; where it has them, also its column, what was
before, and what is after.
"""


def _of_function(old: Function, new: Function) -> Iterator[Change]:
    yield from _parameters(old, new)
    yield from _values(old, new)
    yield from _columns(old, new)
    if old.hosts != new.hosts:
        level = "WARN" if old.hosts and new.hosts else "INFO"
        text = f"hosts in its code: {_listed(old.hosts)}; now {_listed(new.hosts)}"
        yield "host_changed", level, text, None, [*old.hosts], [*new.hosts]
    if old.documentation != new.documentation:
        left, right = _where_they_part(old.documentation, new.documentation)
        text = f"the documentation changed: {left!r} became {right!r}"
        yield "documentation_changed", "INFO", text, None, left, right


def _parameters(old: Function, new: Function) -> Iterator[Change]:
    before = {p.name: p for p in old.parameters}
    after = {p.name: p for p in new.parameters}
    renamed = _renamed(old, new)
    for was, became in renamed.items():
        text = f"parameter {was} is now named {became}"
        yield "parameter_renamed", "ERR", text, was, was, became
        yield from _default(before[was], after[became])
    for name, parameter in before.items():
        if name not in after and name not in renamed:
            text = f"parameter {name} is gone"
            yield "parameter_removed", "ERR", text, name, parameter.default
    for name, parameter in after.items():
        if name not in before and name not in renamed.values():
            level, how = "ERR", "required"
            if parameter.default is not None:
                level, how = "INFO", f"optional, by default {parameter.default}"
            text = f"parameter {name} is new and {how}"
            yield "parameter_added", level, text, name, None, parameter.default
    common = [n for n in before if n in after]
    if common != (now := [n for n in after if n in before]):
        text = f"parameters have another order: {', '.join(now)}"
        yield "parameters_reordered", "WARN", text, None, common, now
    for name in common:
        yield from _default(before[name], after[name])


def _default(old: Parameter, new: Parameter) -> Iterator[Change]:
    if old.default == new.default:
        return
    level, text = "WARN", f"the default of {new.name} was {old.default} and is {new.default}"
    if new.default is None:
        level, text = "ERR", f"parameter {new.name} is now required; its default was {old.default}"
    elif old.default is None:
        level, text = "INFO", f"parameter {new.name} has a default now: {new.default}"
    yield "default_changed", level, text, new.name, old.default, new.default


def _renamed(old: Function, new: Function) -> dict[str, str]:
    """Parameters that have another name at the same place, where no parameter came or went."""
    if len(old.parameters) != len(new.parameters):
        return {}
    before, after = ({p.name for p in f.parameters} for f in (old, new))
    return {
        was.name: became.name
        for was, became in zip(old.parameters, new.parameters, strict=True)
        if was.kind == became.kind and was.name not in after and became.name not in before
    }


def _values(old: Function, new: Function) -> Iterator[Change]:
    """Changes of accepted values, by the surest statement of them that both releases make."""
    surest: dict[str, Origin] = {}
    for origin, stated in old.accepted.items():
        for parameter in stated:
            if parameter in new.accepted[origin]:
                surest.setdefault(parameter, origin)
    for parameter, origin in surest.items():
        before, now = old.accepted[origin][parameter], new.accepted[origin][parameter]
        gone = [value for value in before if value not in now]
        added = [value for value in now if value not in before]
        if not gone and not added:
            continue
        level, what = "INFO", f"also {_listed(added)}"
        if gone:
            level = "WARN" if origin == "documentation" else "ERR"
            what = f"not {_listed(gone)}" + (f", but {_listed(added)}" if added else "")
        text = f"values of {parameter} that {_STATED[origin]}: now {what}"
        yield "values_changed", level, text, parameter, [*before], [*now]


def _columns(old: Function, new: Function) -> Iterator[Change]:
    if old.columns and not new.columns:
        text = f"the code names its columns no longer: {_listed(old.columns)}"
        yield "columns_unnamed", "WARN", text, None, [*old.columns]
    if not (old.columns and new.columns):
        return
    level, doubt = "ERR", ""
    if not new.all_columns:
        level, doubt = "WARN", ", but may return columns that it does not name"
    for column in old.columns:
        if column not in new.columns:
            text = f"the code no longer sets column {column}{doubt}"
            yield "column_removed", level, text, column, column
    for column in new.columns:
        if column not in old.columns:
            text = f"the code sets column {column}, which it did not name before"
            yield "column_added", "INFO", text, column, None, column


def _listed(names: tuple[str, ...] | list[str]) -> str:
    shown = ", ".join(name or '""' for name in names)
    if not shown:
        return "none"
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]} ... ({len(names)})"


def _where_they_part(old: str, new: str) -> tuple[str, str]:
    """The first words in which two texts differ, with what follows, cut short."""
    left, right = old.split(), new.split()
    pairs = zip(left, right, strict=False)
    start = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))
    return " ".join(left[start:])[:_SHOWN], " ".join(right[start:])[:_SHOWN]

"""What changed between the public functions of two releases, as findings.

Levels follow from how tools are called here: by the names of their parameters. So a renamed
parameter breaks calls, and a new order does not.
"""

from collections.abc import Iterator, Mapping

from bench.drift.finding import Finding, Level
from bench.drift.functions import ORIGINS, Function, Parameter, Surface

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
        when = known.get(name, "")
        if name not in after.functions:
            host = _host(before.functions[name])
            text = f"the function is gone{when}"
            found.append(Finding(name, "function_removed", "ERR", text, host))
        elif name not in before.functions:
            host = _host(after.functions[name])
            text = f"the function is new{when}"
            found.append(Finding(name, "function_added", "INFO", text, host))
        else:
            found += _of_function(name, before.functions[name], after.functions[name])
    return found


def _host(*functions: Function | None) -> str | None:
    return next((f.hosts[0] for f in functions if f is not None and f.hosts), None)


def _of_function(name: str, old: Function | None, new: Function | None) -> Iterator[Finding]:
    host = _host(new, old)
    if old is None or new is None:
        if old is not new:
            side = "older" if old is None else "newer"
            text = f"the code of the {side} release could not be read, so nothing is compared"
            yield Finding(name, "unreadable", "WARN", text, host)
        return
    yield from _parameters(name, host, old, new)
    yield from _values(name, host, old, new)
    yield from _columns(name, host, old, new)
    if old.hosts != new.hosts:
        yield Finding(
            name,
            "host_changed",
            "WARN" if old.hosts and new.hosts else "INFO",
            f"hosts in its code: {_listed(old.hosts)}; now {_listed(new.hosts)}",
            host,
            before=list(old.hosts),
            after=list(new.hosts),
        )
    if old.documentation != new.documentation:
        left, right = _where_they_part(old.documentation, new.documentation)
        text = f"the documentation changed: {left!r} became {right!r}"
        yield Finding(name, "documentation_changed", "INFO", text, host, before=left, after=right)


def _parameters(name: str, host: str | None, old: Function, new: Function) -> Iterator[Finding]:
    before = {p.name: p for p in old.parameters}
    after = {p.name: p for p in new.parameters}
    renamed = _renamed(old, new)
    for was, became in renamed.items():
        text = f"parameter {was} is now named {became}"
        yield Finding(name, "parameter_renamed", "ERR", text, host, was, was, became)
        if before[was].default != after[became].default:
            yield _default(name, host, before[was], after[became])
    for parameter in old.parameters:
        if parameter.name not in after and parameter.name not in renamed:
            text = f"parameter {parameter.name} is gone"
            yield Finding(
                name, "parameter_removed", "ERR", text, host, parameter.name, parameter.default
            )
    for parameter in new.parameters:
        if parameter.name not in before and parameter.name not in renamed.values():
            required = parameter.default is None
            how = "required" if required else f"optional, by default {parameter.default}"
            yield Finding(
                name,
                "parameter_added",
                "ERR" if required else "INFO",
                f"parameter {parameter.name} is new and {how}",
                host,
                parameter.name,
                after=parameter.default,
            )
    common = [n for n in before if n in after]
    if common != (now := [n for n in after if n in before]):
        text = f"parameters have another order: {', '.join(now)}"
        yield Finding(name, "parameters_reordered", "WARN", text, host, before=common, after=now)
    for known in common:
        if before[known].default != after[known].default:
            yield _default(name, host, before[known], after[known])


def _default(name: str, host: str | None, old: Parameter, new: Parameter) -> Finding:
    level: Level = "WARN"
    if new.default is None:
        level, text = "ERR", f"parameter {new.name} is now required; its default was {old.default}"
    elif old.default is None:
        level, text = "INFO", f"parameter {new.name} has a default now: {new.default}"
    else:
        text = f"the default of {new.name} was {old.default} and is {new.default}"
    return Finding(name, "default_changed", level, text, host, new.name, old.default, new.default)


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


def _values(name: str, host: str | None, old: Function, new: Function) -> Iterator[Finding]:
    """Changes of accepted values, by the surest statement of them that both releases make."""
    for parameter, stated in old.accepted.items():
        now = new.accepted.get(parameter, {})
        origin = next((origin for origin in ORIGINS if origin in stated and origin in now), None)
        if origin is None or set(stated[origin]) == set(now[origin]):
            continue
        gone = [value for value in stated[origin] if value not in now[origin]]
        added = [value for value in now[origin] if value not in stated[origin]]
        level: Level = "INFO"
        what = f"also {_listed(added)}"
        if gone:
            level = "WARN" if origin == "documentation" else "ERR"
            what = f"not {_listed(gone)}" + (f", but {_listed(added)}" if added else "")
        yield Finding(
            name,
            "values_changed",
            level,
            f"values of {parameter} that {_STATED[origin]}: now {what}",
            host,
            parameter,
            list(stated[origin]),
            list(now[origin]),
        )


def _columns(name: str, host: str | None, old: Function, new: Function) -> Iterator[Finding]:
    if old.columns and not new.columns:
        text = f"the code names its columns no longer: {_listed(old.columns)}"
        yield Finding(name, "columns_unnamed", "WARN", text, host, before=list(old.columns))
    if not (old.columns and new.columns):
        return
    level: Level = "ERR" if new.all_columns else "WARN"
    doubt = "" if new.all_columns else ", but may return columns that it does not name"
    for column in old.columns:
        if column not in new.columns:
            text = f"the code no longer sets column {column}{doubt}"
            yield Finding(name, "column_removed", level, text, host, column, column)
    for column in new.columns:
        if column not in old.columns:
            text = f"the code sets column {column}, which it did not name before"
            yield Finding(name, "column_added", "INFO", text, host, column, after=column)


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

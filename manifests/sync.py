"""Compares the AkShare manifests with the installed AkShare, and updates them.

`differences` lists what differs; `synced` gives the updated manifest.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from manifests.akshare_source import REQUIRED, AkShareFunction, scalar_of, type_of
from manifests.manifest import AkShareBinding, Manifest, Parameter, is_of

Kind = Literal[
    "vanished",  # the function no longer exists
    "returned",  # a function that had vanished exists again
    "new_parameter",
    "lost_parameter",
    "now_required",
    "changed_default",
    "accepted_values",  # the code accepts other values than the manifest allows
    "not_in_catalogue",  # a function without a manifest
]


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between a tool and the installed function."""

    tool: str
    kind: Kind
    detail: str


def differences(
    manifests: Iterable[Manifest], functions: dict[str, AkShareFunction]
) -> list[Difference]:
    """All differences: tools by name, then functions outside the catalogue."""
    tools = sorted((m for m in manifests if m.source == "akshare"), key=lambda m: m.name)
    known = {m.binding.function for m in tools if isinstance(m.binding, AkShareBinding)}
    found = [d for m in tools for d in _of_tool(m, functions)]
    strangers = sorted(set(functions) - known)
    return [*found, *(Difference(n, "not_in_catalogue", functions[n].module) for n in strangers)]


def synced(manifest: Manifest, functions: dict[str, AkShareFunction], release: str) -> Manifest:
    """`manifest`, updated to the installed AkShare; unchanged if it is not of AkShare."""
    if not isinstance(manifest.binding, AkShareBinding):
        return manifest
    function = functions.get(manifest.binding.function)
    if function is None:
        gone = manifest.unavailable or f"AkShare {release} no longer has this function"
        return manifest.model_copy(update={"unavailable": gone})
    parameters = [_synced_parameter(p, function, release) for p in manifest.parameters]
    names = {p.name for p in parameters}
    parameters += [
        _new_parameter(name, default, function, release)
        for name, default in function.defaults.items()
        if name not in names
    ]
    reason = manifest.unavailable
    if reason is not None and reason.startswith("AkShare "):
        reason = None  # the function was missing; any other reason was set by an operator
    update = {"parameters": tuple(parameters), "unavailable": reason}
    return Manifest.model_validate(manifest.model_copy(update=update).model_dump())


def _of_tool(manifest: Manifest, functions: dict[str, AkShareFunction]) -> Iterable[Difference]:
    assert isinstance(manifest.binding, AkShareBinding)  # noqa: S101 - `differences` chose it
    function = functions.get(manifest.binding.function)
    if function is None:
        if manifest.unavailable is None:
            yield Difference(manifest.name, "vanished", "the function is gone")
        return
    if manifest.unavailable is not None and manifest.unavailable.startswith("AkShare "):
        yield Difference(manifest.name, "returned", "the function is there again")
    ours = {p.name: p for p in manifest.parameters}
    for name, default in function.defaults.items():
        if name not in ours:
            yield Difference(manifest.name, "new_parameter", f"{name} (default {default!r})")
    for p in manifest.parameters:
        yield from _of_parameter(manifest.name, p, function)


def _of_parameter(tool: str, p: Parameter, function: AkShareFunction) -> Iterable[Difference]:
    if p.withdrawn is not None or p.filled_by != "agent":
        return
    if p.name not in function.defaults:
        yield Difference(tool, "lost_parameter", p.name)
        return
    default = function.defaults[p.name]
    has_default = p.default is not None or not p.required
    if default == REQUIRED and has_default:
        yield Difference(tool, "now_required", p.name)
    elif scalar_of(default) is not None and default != p.default and has_default:
        yield Difference(tool, "changed_default", f"{p.name}: {p.default!r} -> {default!r}")
    accepted = function.accepted.get(p.name)
    if accepted is not None and p.enum is not None and set(accepted) != set(p.enum):
        yield Difference(tool, "accepted_values", f"{p.name}: {', '.join(accepted)}")


def _synced_parameter(p: Parameter, function: AkShareFunction, release: str) -> Parameter:
    if p.withdrawn is not None or p.filled_by != "agent":
        return p
    if p.name not in function.defaults:
        gone = f"AkShare {release} no longer takes it"
        return p.model_copy(update={"withdrawn": gone, "default": None})
    default = function.defaults[p.name]
    # A parameter that we require stays required: its default may not fit other arguments.
    update: dict[str, object] = {"required": p.required or default == REQUIRED}
    if default == REQUIRED or (p.required and p.default is None):
        update["default"] = None
        update["example"] = p.example if p.example is not None else p.default
    elif scalar_of(default) is not None:
        update["default"] = default
        if not is_of(default, p.type):
            update |= {"type": type_of(default), "example": default, "enum": None, "format": None}
        elif p.enum is not None and default not in p.enum:
            update["enum"] = (*p.enum, default)
    accepted = function.accepted.get(p.name) if "type" not in update else None
    if accepted is not None and p.enum is not None:
        update["enum"] = accepted
        update["example"] = p.example if p.example in accepted else accepted[0]
    return p.model_copy(update=update)


def _new_parameter(
    name: str, default: object, function: AkShareFunction, release: str
) -> Parameter:
    scalar = scalar_of(default)
    accepted = function.accepted.get(name)
    return Parameter.model_validate(
        {
            "name": name,
            "type": type_of(default),
            "description": f"New in AkShare {release}; see the documentation of {function.name}",
            "required": default == REQUIRED,
            "default": scalar,
            "example": scalar if scalar not in (None, "") else (accepted or ("x",))[0],
            "enum": accepted if accepted and scalar in accepted else None,
        }
    )

"""Runs one function of the user's in a worker process, which its own file or module is read in."""

import asyncio
import inspect
import sys
from collections.abc import Mapping
from functools import cache, reduce
from importlib import import_module
from pathlib import Path
from traceback import extract_tb
from typing import Any, Final

from adapters.fault import Kind, UpstreamFault
from adapters.normalise import Answer, from_own
from manifests import Scalar
from manifests.functions import FunctionTool, run_file, tool_of

LONGEST: Final = 200
"""The most characters of a function's own words that a caller is told."""

Told = tuple[Answer | None, Kind, str, str]
"""The answer, or the kind of a fault, words for the caller, and words for the log."""


def call(name: str, file: str, place: str, arguments: Mapping[str, Scalar]) -> Told:
    """Call the function at a place (`module:qualname`) of a file or module; `name` is the tool."""
    try:
        value = _function(file, place).call(arguments)
        value = asyncio.run(value) if inspect.iscoroutine(value) else value
        return from_own(value), "invalid", "", ""
    except BaseException as error:  # noqa: BLE001 - it is the function's
        return None, *told(name, error)


def told(name: str, error: BaseException) -> tuple[Kind, str, str]:
    """What an exception of a function tells the caller, and the log: its words may hold a secret of
    the function's, and its place is enough to find it.
    """
    if isinstance(error, UpstreamFault):
        return error.kind, error.message, ""
    if isinstance(error, ValueError):
        return "rejected", f"{name} refuses this: {str(error)[:LONGEST]}", ""
    where, kind = extract_tb(error.__traceback__)[-1], type(error).__name__
    text = f"{name} raised {kind}; the gateway's log has more"
    return "crashed", text, f"{kind} in {where.name}, line {where.lineno or 0}"


@cache
def _function(file: str, place: str) -> FunctionTool:
    module_name, _, qualname = place.partition(":")
    module: Any
    if module_name.startswith("finport_tools_") or module_name == "__main__":
        module_name = "__mp_main__" if module_name == "__main__" else module_name
        module = sys.modules.get(module_name)
        module = module or run_file(module_name, Path(file), Path(file).read_bytes())
    else:
        module = import_module(module_name)
    return tool_of(reduce(getattr, qualname.split("."), module))

"""Python functions as tools: type hints and docstring make the manifest.

A parameter is a `str`, `int`, `float`, `bool`, `datetime.date`, a `Literal` of these, or one of
them or None. Its description is the text of its `Annotated` hint, or its line under `Args:` in the
docstring (PEP 257; the sections of Google's style). The first paragraph describes the tool.
"""

import inspect
import linecache
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from hashlib import blake2b
from importlib.util import decode_source
from pathlib import Path
from textwrap import dedent
from types import ModuleType, NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin, overload

from manifests.manifest import (
    Domain,
    FreshnessOverride,
    Intent,
    Manifest,
    Parameter,
    PlanLimits,
    PythonBinding,
    Scalar,
    ScalarType,
    Timeliness,
)

F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__finport_tool__"
_TYPES: Final[Mapping[type, ScalarType]] = {
    str: "string", int: "integer", float: "number", bool: "boolean", date: "string",
}  # fmt: skip
_EXAMPLES: Final[Mapping[type, Scalar]] = {
    str: "text", int: 1, float: 1.5, bool: True, date: "2024-01-31",
}  # fmt: skip
_ARGUMENT = re.compile(r"\s*(\w+)\s*(?:\([^)]*\))?:\s*(.+)")


class FunctionToolError(Exception):
    """A function can't be a tool; the text names it and says what would be right."""


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """A tool and the function that answers it; `dates` are the parameters that it takes as such,
    and `in_process` says whether it runs in a worker process.
    """

    manifest: Manifest
    function: Callable[..., Any]
    dates: frozenset[str]
    in_process: bool = False

    def call(self, arguments: Mapping[str, Scalar]) -> Any:
        """Call the function. What it returns, or raises, is the caller's business."""
        given = {
            name: date.fromisoformat(str(value)) if name in self.dates else value
            for name, value in arguments.items()
        }
        return self.function(**given)


@overload
def tool(function: F, /) -> F: ...


@overload
def tool(
    *,
    name: str | None = ...,
    domains: Iterable[Domain] = ...,
    timeliness: Timeliness = ...,
    intent: Intent = ...,
    fresh_s: float | None = ...,
    per_second: float | None = ...,
    examples: Mapping[str, Scalar] | None = ...,
    in_process: bool = ...,
) -> Callable[[F], F]: ...


def tool(
    function: F | None = None,
    /,
    *,
    name: str | None = None,
    domains: Iterable[Domain] = (),
    timeliness: Timeliness = "realtime",
    intent: Intent = "informational",
    fresh_s: float | None = None,
    per_second: float | None = None,
    examples: Mapping[str, Scalar] | None = None,
    in_process: bool = False,
) -> F | Callable[[F], F]:
    """Make a tool of a function, which stays as it is.

    `timeliness` is the class of its freshness, and `fresh_s` the seconds for which its answers are
    fresh, if they differ. `intent` is `transactional` for a function that changes something: it is
    executed for each call, where that is allowed. `per_second` limits its calls. `examples` has
    arguments for a sample call. With `in_process` the function runs in a worker process, which is
    killed at the deadline of its caller: it imports the function's module. Raises
    `FunctionToolError`.
    """

    def make(of: F) -> F:
        binding, parameters, dates = _binding(of), *_parameters(of, examples or {})
        manifest = Manifest(
            name=name or of.__name__,
            description=_described(of)[0],
            timeliness=timeliness,
            intent_type=intent,
            regulatory_domains=tuple(domains),
            parameters=parameters,
            binding=binding,
            freshness=None if fresh_s is None else FreshnessOverride(fresh_s=fresh_s),
            limits=None if per_second is None else PlanLimits(per_second=per_second),
        )
        setattr(of, _MARK, FunctionTool(manifest, of, dates, in_process))
        return of

    return make if function is None else make(function)


def tool_of(function: Callable[..., Any]) -> FunctionTool:
    """The tool that a function is, by its decorator or as it stands. Raises `FunctionToolError`."""
    found = getattr(function, _MARK, None) or getattr(tool(function), _MARK)
    assert isinstance(found, FunctionTool)  # noqa: S101 - the decorator made it
    return found


def tools_in(names: Mapping[str, object]) -> list[FunctionTool]:
    """The decorated functions among the names of a module."""
    found = (getattr(value, _MARK, None) for value in names.values())
    return [*dict.fromkeys(one for one in found if isinstance(one, FunctionTool))]


def run_file(name: str, file: Path, source: bytes) -> ModuleType:
    """Run the text of a file as the module of that name. Python's own import takes the text from
    its caches where size and time are those of another one. Raises whatever the file raises.
    """
    module, text = ModuleType(name), decode_source(source)
    module.__file__ = str(file)
    linecache.cache[str(file)] = (len(text), None, text.splitlines(keepends=True), str(file))
    sys.modules[name] = module
    try:
        exec(compile(text, str(file), "exec", dont_inherit=True), vars(module))  # noqa: S102
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _binding(function: Callable[..., Any]) -> PythonBinding:
    try:
        code = inspect.getsource(function)
    except (OSError, TypeError):  # made in an interpreter
        code = getattr(function, "__code__", function).__repr__()
    digest = blake2b(code.encode(), digest_size=8).hexdigest()
    return PythonBinding(function=f"{function.__module__}.{function.__qualname__}", code=digest)


def _described(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The description of a function, and of its arguments. Raises `FunctionToolError`."""
    text = dedent(function.__doc__ or "").strip()
    first, _, rest = text.partition("\n\n")
    if not first or _ARGUMENT.match(first):
        lack = "has no docstring; its first paragraph says what the tool answers"
        raise FunctionToolError(f"{function.__qualname__}: {lack}")
    about, is_listed = dict[str, str](), False
    for line in rest.splitlines():
        if re.fullmatch(r"\s*(?:Args|Arguments|Parameters):\s*", line):
            is_listed = True
        elif is_listed and (found := _ARGUMENT.fullmatch(line)):
            about[found[1]] = found[2].strip()
    return " ".join(first.split()), about


def _parameters(
    function: Callable[..., Any], examples: Mapping[str, Scalar]
) -> tuple[tuple[Parameter, ...], frozenset[str]]:
    told, found, dates = _described(function)[1], list[Parameter](), set[str]()
    for given in inspect.signature(function, eval_str=True).parameters.values():
        where = f"{function.__qualname__}: parameter {given.name}"
        if given.kind in (given.VAR_POSITIONAL, given.VAR_KEYWORD, given.POSITIONAL_ONLY):
            raise FunctionToolError(f"{where}: each parameter has a name and takes one value")
        hint, about = given.annotation, told.get(given.name, "")
        if get_origin(hint) is Annotated:
            hint, *notes = get_args(hint)
            about = next((note for note in notes if isinstance(note, str)), about)
        if get_origin(hint) in (Union, UnionType):
            options = [option for option in get_args(hint) if option is not NoneType]
            hint = options[0] if len(options) == 1 else hint
        enum = None
        if get_origin(hint) is Literal:
            enum = get_args(hint)
            hint = type(enum[0])
        if hint not in _TYPES or any(type(value) is not hint for value in enum or ()):
            allowed = "str, int, float, bool, datetime.date, or a Literal of one of them"
            raise FunctionToolError(f"{where}: its hint is not {allowed}")
        if hint is date:
            dates.add(given.name)
        required = given.default is inspect.Parameter.empty
        default = None if required else given.default
        default = default.isoformat() if isinstance(default, date) else default
        example = examples.get(given.name, default)
        if example is None:
            example = enum[0] if enum else _EXAMPLES[hint]
        found.append(
            Parameter(
                name=given.name,
                type=_TYPES[hint],
                description=about or given.name.replace("_", " "),
                required=required,
                default=default,
                example=example,
                format="date" if hint is date else None,
                enum=enum,
            )
        )
    return tuple(found), frozenset(dates)

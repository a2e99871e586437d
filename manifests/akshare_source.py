"""Reads the functions of the installed AkShare from its files, without importing or running it.

Its index lists the functions and their documentation. Its syntax trees give the signatures, and the
values of an argument that the code looks up in a table.
"""

import ast
import re
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import orjson

from manifests.manifest import Scalar, ScalarType, is_of

REQUIRED: Final = "<required>"
COMPUTED: Final = "<computed>"

FUNCTION_NAME: Final = re.compile(r"[a-z_][a-z0-9_]*")
_MODULE = re.compile(r"akshare(?:\.[a-z_][a-z0-9_]*)+")


class AkShareMissingError(Exception):
    """AkShare is not installed; the text names the extra."""

    def __init__(self) -> None:
        super().__init__("AkShare is not installed: pip install 'finport[akshare]'")


@dataclass(frozen=True)
class AkShareFunction:
    """One function. `defaults` has for each parameter `REQUIRED`, `COMPUTED` or the value.
    `accepted` has the keys of a table, for each argument that the code looks up in one.
    """

    name: str
    module: str
    defaults: dict[str, Any]
    accepted: dict[str, tuple[str, ...]]


def akshare_version() -> str:
    """The installed version. Raises `AkShareMissingError`."""
    try:
        return version("akshare")
    except PackageNotFoundError:
        raise AkShareMissingError from None


def akshare_index() -> list[dict[str, Any]]:
    """The entries of AkShare's own index. Raises `AkShareMissingError`."""
    text = (_folder() / "data" / "interfaces.json").read_bytes()
    entries: list[dict[str, Any]] = orjson.loads(text)["interfaces"]
    return entries


def akshare_functions() -> dict[str, AkShareFunction]:
    """Every function of the index, by name. Raises `AkShareMissingError`."""
    found = {}
    for entry in akshare_index():
        name, module = entry["name"], entry["module"]
        tree = module_tree(module)
        node = next(
            (n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name), None
        )
        if node is not None:
            defaults = defaults_of(node.args)
            found[name] = AkShareFunction(name, module, defaults, accepted_by_code(node, tree))
    return found


def module_tree(module: str) -> ast.Module:
    """The syntax tree of a module of AkShare by its full name; empty if there is none."""
    if not _MODULE.fullmatch(module):
        return ast.Module([], [])
    return _tree(_folder().parent / f"{module.replace('.', '/')}.py")


def accepted_by_code(
    function: ast.FunctionDef | ast.AsyncFunctionDef, module: ast.Module
) -> dict[str, tuple[str, ...]]:
    """The keys of a table, for each parameter of a function that its code looks up in one of the
    function or of its module.
    """
    nodes = [*ast.walk(function)]
    tables = {**_tables(module.body), **_tables(nodes)}
    return _accepted(nodes, defaults_of(function.args), tables)


def _folder() -> Path:
    spec = find_spec("akshare")
    if spec is None or spec.origin is None:
        raise AkShareMissingError
    return Path(spec.origin).parent


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_bytes()) if file.is_file() else ast.Module([], [])


def defaults_of(arguments: ast.arguments) -> dict[str, Any]:
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    values: list[ast.expr | None] = [*arguments.defaults, *arguments.kw_defaults]
    padded = [None] * (len(names) - len(values)) + values
    return {name: _value(node) for name, node in zip(names, padded, strict=True)}


def scalar_of(default: object) -> Scalar | None:
    """A default as the value of an argument; None if it is required, computed or no scalar."""
    is_value = isinstance(default, str | int | float) and default not in (REQUIRED, COMPUTED)
    return default if is_value else None  # type: ignore[return-value]  # `is_value` says so


def type_of(value: object) -> ScalarType:
    """The type of a value; that of a string for what is no scalar."""
    kinds: tuple[ScalarType, ...] = ("boolean", "integer", "number")
    return next((kind for kind in kinds if is_of(value, kind)), "string")


def _value(node: ast.expr | None) -> Any:
    if node is None:
        return REQUIRED
    try:
        return ast.literal_eval(node)
    except ValueError:
        return COMPUTED


def _tables(nodes: list[Any]) -> dict[str, tuple[str, ...]]:
    """The keys of each dict literal whose keys are all strings, by the name bound to it."""
    tables = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            keys = [k.value if isinstance(k, ast.Constant) else None for k in node.value.keys]
            if keys and all(isinstance(key, str) for key in keys):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        tables[target.id] = tuple(str(key) for key in keys)
    return tables


def _accepted(
    nodes: list[ast.AST], parameters: dict[str, Any], tables: dict[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """The values accepted by a function's parameters that are used, unchanged, as a key of one of
    `tables`. `nodes` are all nodes of the function.

    A default that is not in the table shows that the code also takes values of other kinds.
    """
    reassigned = {
        target.id
        for node in nodes
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    compared = _compared(nodes)
    return {
        node.slice.id: tuple(
            dict.fromkeys((*tables[node.value.id], *compared.get(node.slice.id, ())))
        )
        for node in nodes
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and isinstance(node.slice, ast.Name)
        and isinstance(node.ctx, ast.Load)
        and node.value.id in tables
        and node.slice.id in parameters
        and node.slice.id not in reassigned
        and parameters[node.slice.id]
        in (REQUIRED, *tables[node.value.id], *compared.get(node.slice.id, ()))
    }


def _compared(nodes: list[ast.AST]) -> dict[str, list[str]]:
    """The string constants that each name is compared to; the code handles them separately."""
    found: dict[str, list[str]] = {}
    for node in nodes:
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Name):
            for other in node.comparators:
                for constant in ast.walk(other):
                    if isinstance(constant, ast.Constant) and isinstance(constant.value, str):
                        found.setdefault(node.left.id, []).append(constant.value)
    return found

"""The public functions of a release of AkShare, read from its sources: signatures, accepted values,
columns, upstream hosts and documentation.

A function is public if the package's `__init__.py` offers its name. Where its code is does not
matter, so a move between modules is no change.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from bench.drift.columns import OTHERS, Names, columns_set
from bench.drift.package import FunctionNode, Imported, Module, Package, Symbol, imported
from bench.drift.wheel import WheelError, read_sources
from manifests.akshare_source import accepted_by_code

PACKAGE: Final = "akshare"

Kind = Literal["positional", "keyword", "variadic"]
Origin = Literal["code", "annotation", "documentation"]

_MAX_SYMBOLS = 500
_MAX_DEPTH = 20
_MAX_TEXT = 20_000
_CLIPPED = 300

_FIELD = re.compile(r":(param|type|return|returns|rtype|raises)\b")
_PARAMETER = re.compile(r"\s*(\w+)\s*:")
_CHOICE = re.compile(r"choice of\s{0,20}\{([^{}]*)\}")
_QUOTED = re.compile(r"""(:\s{0,20})?(?:"([^"\n]*)"|'([^'\n]*)')""")
_URL = re.compile(r"https?://([\w*.-]+\.[A-Za-z]{2,}|[\d.]+)(?![\w*.-])", re.ASCII)
_NO_UPSTREAM = ("referer", "origin", "user-agent")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter; `default` is the source text of its default, None if it has none."""

    name: str
    kind: Kind
    default: str | None


@dataclass(frozen=True, slots=True)
class Function:
    """What the sources say about one function. `accepted` has, from the surest statement down, the
    values of each parameter that takes only some. `columns` are those that the code names; only if
    `all_columns` is set, those are all.
    """

    parameters: tuple[Parameter, ...]
    accepted: Mapping[Origin, Mapping[str, Names]]
    columns: Names
    all_columns: bool
    hosts: Names
    documentation: str


@dataclass(frozen=True, slots=True)
class Surface:
    """The public functions of a release by name; None for one whose code could not be read.
    `unread` says of each file that could not be read why.
    """

    functions: Mapping[str, Function | None]
    unread: Mapping[str, str]


def read_functions(wheel: Path) -> Surface:
    """The public functions of the release in a wheel. Raises `WheelError` if that is no release of
    AkShare that can be read.
    """
    package = Package(PACKAGE, *read_sources(wheel, PACKAGE))
    if PACKAGE not in package.modules:
        why = package.unread.get(f"{PACKAGE}/__init__.py", "it is missing")
        raise WheelError(f"{wheel.name}: {PACKAGE}/__init__.py: {why}")
    reader = _Reader(package)
    functions: dict[str, Function | None] = {}
    for name, symbol in package.public():
        if symbol is None:
            functions[name] = None
        elif isinstance(symbol.node, FunctionNode):
            functions[name] = reader.function(symbol, symbol.node)
    if not functions:
        raise WheelError(f"{wheel.name}: {PACKAGE}/__init__.py offers no function")
    return Surface(functions, package.unread)


@dataclass(slots=True)
class _Uses:
    """What the code of one function, class or value says: hosts, the names that it imports for
    itself, and the symbols that it uses.
    """

    hosts: set[str] = field(default_factory=set)
    imports: Mapping[str, Imported] = field(default_factory=dict)
    symbols: list[Symbol] = field(default_factory=list)


class _Reader:
    """Reads the functions of one package; what several of them use is read once."""

    def __init__(self, package: Package) -> None:
        self._package = package
        self._uses: dict[tuple[str, str], _Uses] = {}
        self._columns: dict[tuple[str, str], Names] = {}

    def function(self, symbol: Symbol, node: FunctionNode) -> Function | None:
        """A function, or None if its code is nested too deeply."""
        try:
            documentation = ast.get_docstring(node) or ""
            columns = self._columns_of(symbol, 0)
            return Function(
                parameters=tuple(_parameters(node.args)),
                accepted={
                    "code": accepted_by_code(node, symbol.module.tree),
                    "annotation": _annotated(node.args),
                    "documentation": _documented(documentation),
                },
                columns=tuple(name for name in columns if name != OTHERS),
                all_columns=OTHERS not in columns,
                hosts=self._hosts(symbol),
                documentation=" ".join(documentation.split()),
            )
        except RecursionError:
            return None

    def _columns_of(self, symbol: Symbol, depth: int) -> Names:
        key = symbol.module.name, symbol.name
        if key not in self._columns:
            self._columns[key] = (OTHERS,)  # while it is read, for functions that call each other
            if isinstance(symbol.node, FunctionNode) and depth < _MAX_DEPTH:
                local = self._used_by(symbol).imports

                def called(expression: ast.expr) -> Names | None:
                    used = self._named(expression, symbol.module, local)
                    return None if used is None else self._columns_of(used, depth + 1)

                def constant(expression: ast.expr) -> ast.expr | None:
                    used = self._named(expression, symbol.module, local)
                    return used.node if used and isinstance(used.node, ast.expr) else None

                self._columns[key] = columns_set(symbol.node, called, constant)
        return self._columns[key]

    def _hosts(self, symbol: Symbol) -> Names:
        """The hosts in URLs of a function's code and of all in the package that it uses."""
        seen: set[tuple[str, str]] = set()
        hosts: set[str] = set()
        waiting = [symbol]
        while waiting and len(seen) < _MAX_SYMBOLS:
            at = waiting.pop()
            if (key := (at.module.name, at.name)) not in seen:
                seen.add(key)
                uses = self._used_by(at)
                hosts |= uses.hosts
                waiting += uses.symbols
        return tuple(sorted(hosts))

    def _used_by(self, symbol: Symbol) -> _Uses:
        key = symbol.module.name, symbol.name
        if key not in self._uses:
            uses = self._uses[key] = _Uses()
            if symbol.node is not None:
                nodes = [*ast.walk(symbol.node)]
                uses.hosts |= set(_hosts_in(nodes))
                folder = symbol.module.name.rpartition(".")[0]
                statements = (node for node in nodes if isinstance(node, ast.ImportFrom))
                uses.imports = dict(i for node in statements for i in imported(node, folder))
                for expression in _loads(nodes):
                    used = self._named(expression, symbol.module, uses.imports)
                    if used is not None and used.node is not None:
                        uses.symbols.append(used)
        return self._uses[key]

    def _named(
        self, expression: ast.expr, module: Module, local: Mapping[str, Imported]
    ) -> Symbol | None:
        """What of this package a name, or an attribute of a module, stands for."""
        match expression:
            case ast.Name(id=name):
                return self._package.resolve(module, name, local.get(name))
            case ast.Attribute(value=ast.Name() as owner, attr=name):
                found = self._named(owner, module, local)
                if found is not None and found.node is None:
                    return self._package.resolve(found.module, name)
        return None


def _loads(nodes: Sequence[ast.AST]) -> Iterator[ast.expr]:
    """The names, and attributes of names, that code uses and does not bind itself."""
    own = {n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    own |= {n.arg for n in nodes if isinstance(n, ast.arg)}
    seen = set()
    for part in nodes:
        match part:
            case ast.Name(id=name, ctx=ast.Load()) if name not in own and name not in seen:
                seen.add(name)
                yield part
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name not in own:
                if (dotted := f"{name}.{attribute}") not in seen:
                    seen.add(dotted)
                    yield part


def _hosts_in(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """The hosts of the URLs in code, without those of its documentation and of headers that name a
    page. A part of a host that is computed is shown as `*`.
    """
    skipped: set[int] = set()
    for part in nodes:  # from the outside inwards
        match part:
            case ast.Expr(value=ast.Constant() as text):
                skipped.add(id(text))
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    if _is_header(key):
                        skipped |= {id(inner) for inner in ast.walk(value)}
            case ast.JoinedStr(values=values) if id(part) not in skipped:
                skipped |= {id(value) for value in values}
                texts = (v.value if isinstance(v, ast.Constant) else "*" for v in values)
                yield from _hosts_of("".join(map(str, texts)))
            case ast.Constant(value=str(text)) if id(part) not in skipped:
                yield from _hosts_of(text)


def _is_header(key: ast.expr | None) -> bool:
    value = key.value if isinstance(key, ast.Constant) else None
    return isinstance(value, str) and value.lower() in _NO_UPSTREAM


def _hosts_of(text: str) -> Iterator[str]:
    if "://" in text:
        for host in _URL.findall(re.sub(r"\{\w*\}", "*", text)):
            yield host.lower().strip(".")


def _parameters(arguments: ast.arguments) -> Iterator[Parameter]:
    positional = [*arguments.posonlyargs, *arguments.args]
    without: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    for argument, default in zip(positional, [*without, *arguments.defaults], strict=True):
        yield Parameter(argument.arg, "positional", _source(default))
    if arguments.vararg is not None:
        yield Parameter(arguments.vararg.arg, "variadic", "()")
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield Parameter(argument.arg, "keyword", _source(default))
    if arguments.kwarg is not None:
        yield Parameter(arguments.kwarg.arg, "variadic", "{}")


def _source(node: ast.expr | None) -> str | None:
    return None if node is None else ast.unparse(node)[:_CLIPPED]


def _annotated(arguments: ast.arguments) -> dict[str, Names]:
    """The values of parameters whose annotation is a `Literal`."""
    found = {}
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        match argument.annotation:
            case ast.Subscript(value=ast.Name(id="Literal") | ast.Attribute(attr="Literal")) as a:
                values = a.slice.elts if isinstance(a.slice, ast.Tuple) else [a.slice]
                texts = [v.value for v in values if isinstance(v, ast.Constant)]
                found[argument.arg] = tuple(dict.fromkeys(map(str, texts)))
    return found


def _documented(documentation: str) -> dict[str, Names]:
    """The values in `choice of {...}` of each documented parameter; of a mapping its keys."""
    found = {}
    parts = _FIELD.split(documentation[:_MAX_TEXT])
    for kind, text in zip(parts[1::2], parts[2::2], strict=True):
        parameter, choice = _PARAMETER.match(text), _CHOICE.search(text)
        if kind == "param" and parameter and choice:
            quoted = _QUOTED.findall(choice[1])
            values = [double or single for meaning, double, single in quoted if not meaning]
            if values:
                found[parameter[1]] = tuple(dict.fromkeys(values))
    return found

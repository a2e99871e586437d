"""The modules of a package as syntax trees, and what a name in one of them stands for.

Nothing is imported. A name is followed through imports and assignments, through cycles as well, for
at most `_MAX_HOPS` steps. Names that a module imports with `*` are not followed.
"""

import ast
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef

_MAX_HOPS = 32


@dataclass(frozen=True, slots=True)
class Imported:
    """A name that is imported: `name` of `module`, or the module itself if `name` is None."""

    module: str
    name: str | None


Binding = FunctionNode | ast.ClassDef | ast.expr | Imported


@dataclass(frozen=True, slots=True)
class Module:
    """A module: its tree, and what its names are bound to."""

    name: str
    tree: ast.Module
    bindings: Mapping[str, Binding]


@dataclass(frozen=True, slots=True)
class Symbol:
    """What a name stands for: a function, a class or a value of a module; with neither, the module
    itself.
    """

    module: Module
    name: str = ""
    node: FunctionNode | ast.ClassDef | ast.expr | None = None


class Package:
    """A package from its sources. `unread` says of each file that could not be read why."""

    def __init__(self, name: str, sources: Mapping[str, bytes], unread: Mapping[str, str]) -> None:
        self.name = name
        self.unread = dict(unread)
        self.modules: dict[str, Module] = {}
        for file, text in sources.items():
            try:
                self._add(file, _parsed(text))
            except (SyntaxError, ValueError) as error:
                self.unread[file] = f"it is not valid Python: {error}"
            except (RecursionError, MemoryError):
                self.unread[file] = "it is nested too deeply"

    def _add(self, file: str, tree: ast.Module) -> None:
        name = file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        folder = name if file.endswith("/__init__.py") else name.rpartition(".")[0]
        bound = _bindings(tree.body, folder)
        if bound.pop("*", None) is not None:
            self.unread[file] = "in part: names that it imports with * are not followed"
        known = {key: value for key, value in bound.items() if value is not None}
        self.modules[name] = Module(name, tree, known)

    def public(self) -> Iterator[tuple[str, Symbol | None]]:
        """The names that the package itself offers, with what each stands for; None if that could
        not be read. Its own `__init__.py` is one of the modules.
        """
        root = self.modules[self.name]
        for name, bound in root.bindings.items():
            module = bound.module if isinstance(bound, Imported) else self.name
            if not name.startswith("_") and module.partition(".")[0] == self.name:
                yield name, self.resolve(root, name)

    def resolve(self, module: Module, name: str, bound: Binding | None = None) -> Symbol | None:
        """What `name` stands for in `module`, or in a function there that binds it to `bound`; None
        if that is not in what could be read.
        """
        bound = bound or module.bindings.get(name)
        for _ in range(_MAX_HOPS):
            match bound:
                case None:
                    return None
                case Imported(module=path, name=None):
                    return self._module(path)
                case Imported(module=path, name=str(name)):
                    other = self.modules.get(path)
                    if other is None or name not in other.bindings:
                        return self._module(f"{path}.{name}")
                    module, bound = other, other.bindings[name]
                case ast.Name(id=name):
                    bound = module.bindings.get(name)
                case ast.AST():
                    return Symbol(module, name, bound)
        return None

    def _module(self, path: str) -> Symbol | None:
        module = self.modules.get(path)
        return None if module is None else Symbol(module)


def _parsed(text: bytes) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the release's authors, not of ours
        return ast.parse(text)


def _bindings(body: Iterable[ast.stmt], folder: str) -> dict[str, Binding | None]:
    """What statements bind, by name; None for a name that is deleted. Of alternatives (`else`,
    `except`) the first one that binds a name counts.
    """
    bound: dict[str, Binding | None] = {}
    for statement in body:
        bound.update(_bound_by(statement, folder))
        match statement:
            case ast.If(body=then, orelse=other):
                run, instead = [then], [other]
            case ast.Try(body=tried, orelse=other, finalbody=last, handlers=handlers):
                run, instead = [tried, other, last], [handler.body for handler in handlers]
            case _:
                continue
        for block in run:
            bound.update(_bindings(block, folder))
        for block in instead:
            for name, value in _bindings(block, folder).items():
                bound.setdefault(name, value)
    return bound


def _bound_by(statement: ast.stmt, folder: str) -> Iterator[tuple[str, Binding | None]]:
    targets: list[ast.expr] = []
    value: ast.expr | None = None
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield statement.name, statement
        case ast.ImportFrom():
            yield from imported(statement, folder)
        case ast.Import(names=aliases):
            for alias in aliases:
                module = alias.name if alias.asname else alias.name.partition(".")[0]
                yield alias.asname or module, Imported(module, None)
        case ast.Assign():
            targets, value = statement.targets, statement.value
        case ast.AnnAssign(value=ast.expr()):
            targets, value = [statement.target], statement.value
        case ast.Delete():
            targets = statement.targets
    yield from ((target.id, value) for target in targets if isinstance(target, ast.Name))


def imported(statement: ast.ImportFrom, folder: str) -> Iterator[tuple[str, Imported]]:
    """What a `from` statement in the package `folder` binds, by name."""
    module = statement.module or ""
    if statement.level:
        parts = folder.split(".")
        base = parts[: max(len(parts) - statement.level + 1, 0)]
        module = ".".join([*base, *([module] if module else [])])
    for alias in statement.names:
        yield alias.asname or alias.name, Imported(module, alias.name)

"""The modules of a package as syntax trees, and what a name in one of them stands for.

Nothing is imported. A name is followed through imports and assignments, through cycles as well, for
at most `_MAX_HOPS` steps.
"""

import ast
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from bench.drift.wheel import Sources

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef

_MAX_HOPS = 32
_MAX_STARS = 500


@dataclass(frozen=True, slots=True)
class Imported:
    """A name that is imported: `name` of `module`, or the module itself if `name` is None."""

    module: str
    name: str | None


Binding = FunctionNode | ast.ClassDef | ast.expr | Imported


@dataclass(slots=True)
class Module:
    """A module: its tree, what its names are bound to, and the modules it imports with `*`."""

    name: str
    tree: ast.Module
    bindings: dict[str, Binding] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)


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

    def __init__(self, name: str, sources: Sources) -> None:
        self.name = name
        self.unread = dict(sources.unread)
        self._modules: dict[str, Module] = {}
        for file, text in sources.files.items():
            try:
                tree = _parsed(text)
            except (SyntaxError, ValueError) as error:
                self.unread[file] = f"it is not valid Python: {error}"
            except (RecursionError, MemoryError):
                self.unread[file] = "it is nested too deeply"
            else:
                self._add(file, tree)

    def _add(self, file: str, tree: ast.Module) -> None:
        parts = file.removesuffix(".py").split("/")
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        module = Module(name, tree)
        folder = name if is_package else name.rpartition(".")[0]
        for key, bound in bindings(tree.body, folder):
            if key == "*" and isinstance(bound, Imported):
                if bound.module not in module.stars and len(module.stars) < _MAX_STARS:
                    module.stars.append(bound.module)
            elif bound is None:
                module.bindings.pop(key, None)
            else:
                module.bindings[key] = bound
        self._modules[name] = module

    @property
    def root(self) -> Module | None:
        """The package's own `__init__.py`, or None if it could not be read."""
        return self._modules.get(self.name)

    def holds(self, module: str) -> bool:
        """Whether a module name belongs to this package, also if there is no such file."""
        return module == self.name or module.startswith(f"{self.name}.")

    def resolve(self, module: Module, name: str) -> Symbol | None:
        """What `name` stands for in `module`; None if that is not in what could be read."""
        seen: set[tuple[str, str]] = set()
        waiting = [(module, name)]
        while waiting and len(seen) < _MAX_HOPS:
            at, wanted = waiting.pop(0)
            if (at.name, wanted) in seen:
                continue
            seen.add((at.name, wanted))
            bound = at.bindings.get(wanted)
            if bound is None:
                if not wanted.startswith("_"):
                    starred = (self._modules.get(star) for star in reversed(at.stars))
                    waiting += [(other, wanted) for other in starred if other is not None]
            elif isinstance(bound, Imported):
                found = self._imported(bound)
                if isinstance(found, Symbol):
                    return found
                waiting += found
            elif isinstance(bound, ast.Name):
                waiting.append((at, bound.id))
            elif isinstance(bound, ast.Call) and (inner := self._wrapped(at, bound)):
                waiting.append((at, inner))
            else:
                return Symbol(at, wanted, bound)
        return None

    def imported(self, bound: Imported) -> Symbol | None:
        """What an import stands for."""
        found = self._imported(bound)
        if isinstance(found, Symbol):
            return found
        return self.resolve(*found[0]) if found else None

    def _imported(self, bound: Imported) -> Symbol | list[tuple[Module, str]]:
        if bound.name is None:
            module = self._modules.get(bound.module)
            return [] if module is None else Symbol(module)
        module = self._modules.get(bound.module)
        if module is not None and (bound.name in module.bindings or module.stars):
            return [(module, bound.name)]
        inner = self._modules.get(f"{bound.module}.{bound.name}")
        return [] if inner is None else Symbol(inner)

    @staticmethod
    def _wrapped(at: Module, call: ast.Call) -> str | None:
        """The function that a call wraps, as `lru_cache()(f)` and `partial(f)` do."""
        for argument in call.args:
            if isinstance(argument, ast.Name) and isinstance(
                at.bindings.get(argument.id), FunctionNode | Imported
            ):
                return argument.id
        return None

    def public(self) -> Iterator[tuple[str, Symbol | None]]:
        """The names that the package itself offers, with what each stands for; None if that could
        not be read.
        """
        if self.root is None:
            return
        names = dict.fromkeys(
            name
            for name, bound in self.root.bindings.items()
            if not (isinstance(bound, Imported) and not self.holds(bound.module))
        )
        names |= dict.fromkeys(self._starred(self.root))
        for name in names:
            if not name.startswith("_"):
                yield name, self.resolve(self.root, name)

    def _starred(self, module: Module) -> Iterator[str]:
        seen, waiting = set[str](), [*module.stars]
        while waiting:
            star = waiting.pop()
            if star not in seen and (other := self._modules.get(star)) is not None:
                seen.add(star)
                waiting += other.stars
                for name, bound in other.bindings.items():
                    if not isinstance(bound, Imported) or self.holds(bound.module):
                        yield name


def _parsed(text: bytes) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the release's authors, not of ours
        return ast.parse(text)


def bindings(body: Iterable[ast.stmt], folder: str) -> Iterator[tuple[str, Binding | None]]:
    """The names that statements bind, in order; None for a name that is deleted. `*` stands for all
    names of a module. Of alternatives (`else`, `except`) the first one that binds a name counts.
    """
    bound: set[str] = set()
    # An explicit stack: a chain of `elif` is as deep as it is long.
    stack: list[tuple[Iterator[ast.stmt], bool]] = [(iter(body), False)]
    while stack:
        statements, is_other = stack[-1]
        statement = next(statements, None)
        if statement is None:
            stack.pop()
            continue
        for name, value in _bound_by(statement, folder):
            if not (is_other and name in bound):
                bound.add(name)
                yield name, value
        main, others = _blocks(statement)
        stack += [(iter(block), True) for block in reversed(others)]
        stack += [(iter(block), is_other) for block in reversed(main)]


def _blocks(statement: ast.stmt) -> tuple[list[list[ast.stmt]], list[list[ast.stmt]]]:
    """The blocks of a statement of a module that are run, and those that are run instead."""
    if isinstance(statement, ast.If):
        return [statement.body], [statement.orelse]
    if isinstance(statement, ast.Try):
        own = [statement.body, statement.orelse, statement.finalbody]
        return own, [handler.body for handler in statement.handlers]
    if isinstance(statement, ast.With):
        return [statement.body], []
    return [], []


def _bound_by(statement: ast.stmt, folder: str) -> Iterator[tuple[str, Binding | None]]:
    if isinstance(statement, FunctionNode | ast.ClassDef):
        yield statement.name, statement
    elif isinstance(statement, ast.ImportFrom):
        module = absolute(statement, folder)
        for alias in statement.names:
            yield alias.asname or alias.name, Imported(module, alias.name)
    elif isinstance(statement, ast.Import):
        for alias in statement.names:
            if alias.asname:
                yield alias.asname, Imported(alias.name, None)
            else:
                first = alias.name.partition(".")[0]
                yield first, Imported(first, None)
    elif isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            if isinstance(target, ast.Name):
                yield target.id, statement.value
    elif isinstance(statement, ast.Delete):
        for target in statement.targets:
            if isinstance(target, ast.Name):
                yield target.id, None


def absolute(statement: ast.ImportFrom, folder: str) -> str:
    """The full name of the module that a `from` statement in the package `folder` names."""
    module = statement.module or ""
    if not statement.level:
        return module
    parts = folder.split(".")
    base = parts[: max(len(parts) - statement.level + 1, 0)]
    return ".".join([*base, *([module] if module else [])])

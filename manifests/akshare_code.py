"""Reads from AkShare's code what one of its functions reaches, without importing or running it.

From the function it follows every name to functions and constants of AkShare, also of its other
modules: which hosts stand in that code, and whether it sends requests in a loop.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from urllib.parse import urlsplit

from manifests.akshare_source import module_tree

_REQUESTS = frozenset({"get", "post", "request", "urlopen", "read_html", "read_excel", "read_csv"})
_CALLERS = re.compile(r"requests|session|sess|s|scraper|urllib|curl_requests|pd|pandas|client|ak")
_NO_UPSTREAM = frozenset({"referer", "origin", "host"})
_HOST = re.compile(r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?::\d{1,5})?")
_URL_IN_TEXT = re.compile(r"https?://[A-Za-z0-9.:-]+")
_MOST_STEPS = 200

Function = ast.FunctionDef | ast.AsyncFunctionDef


def host_in(url: str) -> str | None:
    """The host of an absolute URL in lower case, with its port; None if it has none."""
    try:
        parts = urlsplit(url.strip())
        host = parts.netloc.rpartition("@")[2].lower()
    except ValueError:
        return None
    return host if parts.scheme in ("http", "https") and _HOST.fullmatch(host) else None


def hosts_in(text: str) -> Iterator[str]:
    """The hosts of all URLs in a text."""
    for url in _URL_IN_TEXT.findall(text):
        if (host := host_in(url.rstrip(".:-"))) is not None:
            yield host


@dataclass(frozen=True)
class Code:
    """A function of AkShare and all code that it reaches."""

    module: str
    function: Function

    @property
    def docstring(self) -> str:
        return ast.get_docstring(self.function) or ""

    def annotation(self, argument: str) -> str:
        """The annotation of an argument as text; empty if it has none."""
        given = self.function.args
        found = (a.annotation for a in (*given.args, *given.kwonlyargs) if a.arg == argument)
        return "".join(ast.unparse(annotation) for annotation in found if annotation is not None)

    @property
    def refusal(self) -> str | None:
        """Why the function can't be called with keyword arguments for an answer; None if it can."""
        arguments = self.function.args
        if isinstance(self.function, ast.AsyncFunctionDef):
            return "it is a coroutine"
        if arguments.posonlyargs or arguments.vararg or arguments.kwarg:
            return "it takes arguments without names, or any names"
        own = [*_own_nodes(self.function)]
        if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in own):
            return "it is a generator"
        if not any(isinstance(node, ast.Return) and node.value is not None for node in own):
            return "it returns nothing"
        return None

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """Hosts in the code, those of the function itself first. Referers are left out."""
        found: dict[str, None] = {}
        for _, node in self._reached:
            found.update(dict.fromkeys(_hosts(node)))
        return tuple(found)

    @cached_property
    def is_paged(self) -> bool:
        """Whether some function that is reached sends requests in a loop which is no retry."""
        return any(
            _sends_in_a_loop(module, top)
            for module, top in self._reached
            if isinstance(top, Function) and "retry" not in top.name
        )

    @cached_property
    def _reached(self) -> list[tuple[str, ast.AST]]:
        found: dict[ast.AST, str] = {self.function: self.module}
        waiting: list[tuple[str, ast.AST]] = [(self.module, self.function)]
        while waiting and len(found) < _MOST_STEPS:
            module, node = waiting.pop(0)
            for target in _used(module, node):
                if target[1] not in found:
                    found[target[1]] = target[0]
                    waiting.append(target)
        return [(module, node) for node, module in found.items()]


def code_of(module: str, name: str) -> Code | None:
    """The function of that name in a module; None if the module defines none."""
    node = _defined(module).get(name)
    return Code(module, node) if isinstance(node, Function) else None


def _own_nodes(function: Function) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions inside it."""
    waiting: list[ast.AST] = [*function.body]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, Function | ast.Lambda | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(node))


@cache
def _defined(module: str) -> dict[str, ast.AST]:
    """The functions, classes and constants of a module by name."""
    found: dict[str, ast.AST] = {}
    for node in module_tree(module).body:
        if isinstance(node, Function | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign):
            found.update({t.id: node.value for t in node.targets if isinstance(t, ast.Name)})
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            found[node.target.id] = node.value
    return found


@cache
def _imported(module: str) -> dict[str, tuple[str, str]]:
    """By local name, the module of AkShare and the name in it; the name is empty for a module."""
    found = {}
    for node in ast.walk(module_tree(module)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "akshare":
            for one in node.names:
                found[one.asname or one.name] = (node.module or "", one.name)
    return found


def _resolved(module: str, name: str) -> tuple[str, ast.AST] | None:
    node = _defined(module).get(name)
    if node is not None:
        return module, node
    origin, real = _imported(module).get(name, ("", ""))
    node = _defined(origin).get(real) if origin else None
    return None if node is None else (origin, node)


@cache
def _used(module: str, node: ast.AST) -> tuple[tuple[str, ast.AST], ...]:
    """What of AkShare the names in `node` stand for, in the order of the code."""
    used = list[tuple[str, ast.AST]]()
    for part in ast.walk(node):
        found = None
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
            found = _resolved(module, part.id)
        elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
            origin, name = _imported(module).get(part.value.id, ("", ""))
            constant = _defined(f"{origin}.{name}").get(part.attr) if origin else None
            found = None if constant is None else (f"{origin}.{name}", constant)
        if found is not None:
            used.append(found)
    return (*used,)


@cache
def _hosts(node: ast.AST) -> tuple[str, ...]:
    """Hosts of the URLs that texts in `node` begin with, without documentation and referers."""
    hosts, waiting = list[str](), [node]
    while waiting:
        part = waiting.pop(0)
        if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant):
            continue
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            if (host := host_in(part.value)) is not None:
                hosts.append(host)
        elif isinstance(part, ast.Dict):
            for key, value in zip(part.keys, part.values, strict=True):
                named = key.value if isinstance(key, ast.Constant) else None
                if str(named).lower() not in _NO_UPSTREAM:
                    waiting.append(value)
        else:
            waiting.extend(ast.iter_child_nodes(part))
    return (*hosts,)


@cache
def _sends_in_a_loop(module: str, function: Function) -> bool:
    return any(
        isinstance(part, ast.Call) and (_is_request(part) or _calls_sender(module, part))
        for node in ast.walk(function)
        if _is_loop(node)
        for repeated in _parts(node)
        for part in ast.walk(repeated)
    )


def _is_loop(node: ast.AST) -> bool:
    if isinstance(node, ast.For):
        return not re.search("attempt|retr|^_$", ast.unparse(node.target))
    return isinstance(node, ast.While | ast.ListComp | ast.GeneratorExp | ast.DictComp)


def _parts(loop: ast.AST) -> list[ast.AST]:
    """What a loop repeats."""
    if isinstance(loop, ast.For | ast.While):
        return [*loop.body]
    if isinstance(loop, ast.ListComp | ast.GeneratorExp):
        return [loop.elt]
    return [loop.value] if isinstance(loop, ast.DictComp) else []


def _is_request(call: ast.Call) -> bool:
    if isinstance(call.func, ast.Name):
        return call.func.id == "urlopen"
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in _REQUESTS:
        return False
    root = call.func.value
    while isinstance(root, ast.Attribute):
        root = root.value
    return isinstance(root, ast.Name) and bool(_CALLERS.fullmatch(root.id))


def _calls_sender(module: str, call: ast.Call) -> bool:
    found = _resolved(module, call.func.id) if isinstance(call.func, ast.Name) else None
    return found is not None and isinstance(found[1], Function) and _sender(found[0], found[1].name)


@cache
def _sender(module: str, name: str) -> bool:
    """Whether a function of AkShare, or one that it reaches, sends requests."""
    code = code_of(module, name)
    return code is not None and any(
        isinstance(part, ast.Call) and _is_request(part)
        for _, node in code._reached
        for part in ast.walk(node)
    )

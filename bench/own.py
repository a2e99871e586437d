"""Loads a user's own suites, agents and judges from their modules, named `module:Name`, and says
what went wrong in them.
"""

import ast
import asyncio
import importlib
import inspect
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path

_OURS = Path(__file__).parents[1]
_PACKAGES = tuple(
    f"{_OURS / name}{os.sep}"
    for name in ("finport", "gateway", "manifests", "adapters", "cache", "bench")
)
_INSTALLED = tuple(
    f"{path}{os.sep}"
    for name in ("stdlib", "platstdlib", "purelib", "platlib")
    if (path := sysconfig.get_path(name))
)


class OwnError(Exception):
    """`module:Name` can't be loaded; the text says why."""


def words_of(error: BaseException) -> str:
    """An exception in words, even if its `__str__` raises, after the line of the user's code that
    raised it: `mine.py:12: KeyError: 'price'`.
    """
    place = place_of(error)
    if type(error) is asyncio.CancelledError:
        return f"{place}CancelledError: something that it waited for was cancelled"
    try:
        return f"{place}{type(error).__name__}: {error}"
    except BaseException:  # noqa: BLE001
        return f"{place}{type(error).__name__}"


def place_of(error: BaseException) -> str:
    """`FILE:LINE: ` of the last frame that is neither ours nor of an installed module; empty if
    there is none.
    """
    found = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        if is_users(file):
            path, folder = Path(file), Path.cwd()
            name = path.relative_to(folder) if path.is_relative_to(folder) else path.name
            found = f"{name}:{line}: "
    return found


def is_users(file: str) -> bool:
    """Whether a file of code is neither ours nor of an installed module."""
    return os.path.isabs(file) and not file.startswith((*_PACKAGES, *_INSTALLED))


def lacking(found: object, method: str) -> str:
    """What an agent or a judge lacks of `name` and its `method`, in words; empty if nothing."""
    called = getattr(found, method, None)
    if not callable(called):
        return f"it has no method `{method}`"
    if not isinstance(getattr(found, "name", None), str):
        return "it has no `name`"
    plain = inspect.unwrap(called)
    is_plain = inspect.isfunction(plain) or inspect.ismethod(plain)
    if is_plain and not inspect.iscoroutinefunction(plain):
        return f"its method `{method}` is no coroutine: write `async def {method}`"
    return ""


def is_own(name: str) -> bool:
    return ":" in name


def code_of(*names: str) -> dict[str, str]:
    """The digests of a user's own code, by file: of the modules that those of `names` are in which
    are `module:Name`, and of the user's modules beside them that are imported by now or by a
    statement in one of them, wherever it stands. An installed module is left out. Raises `OSError`.
    """
    files = {file for module in [*sys.modules.values()] if (file := _file_of(module))}
    folders = set()
    for name in filter(is_own, names):
        module = name.partition(":")[0]
        if (file := _file_of(sys.modules.get(module))) is not None:
            folders.add(file.parents[module.count(".") + (file.name == "__init__.py")])
    found: dict[str, str] = {}
    for folder in sorted(folders):
        own: dict[str, str] = {}
        waiting = [file for file in files if file.is_relative_to(folder)]
        while waiting:
            file = waiting.pop()
            if (name := file.relative_to(folder).as_posix()) not in own:
                text = file.read_bytes()
                own[name] = blake2b(text, digest_size=8).hexdigest()
                waiting += _imported(text, file, folder)
        found |= sorted(own.items())
    return found


def _imported(text: bytes, file: Path, folder: Path) -> Iterator[Path]:
    """The files of the user's modules in `folder` that the code `text` in `file` imports."""
    with suppress(SyntaxError, ValueError, RecursionError, IndexError):  # raised as it is imported
        for node in ast.walk(ast.parse(text)):
            base, within = folder, ""
            if isinstance(node, ast.ImportFrom):
                base = file.parents[node.level - 1] if node.level else folder
                within = f"{node.module}." if node.module else ""
            elif not isinstance(node, ast.Import):
                continue
            for alias in node.names:
                place = base
                for part in f"{within}{alias.name}".split("."):
                    place /= part
                    for one in (place / "__init__.py", place.parent / f"{part}.py"):
                        if one.is_relative_to(folder) and is_users(str(one)) and one.is_file():
                            yield one


def _file_of(module: object) -> Path | None:
    """The file of a user's module."""
    file = getattr(module, "__file__", None)
    return Path(file) if isinstance(file, str) and is_users(file) else None


@contextmanager
def importable() -> Iterator[None]:
    """Make modules in the working directory importable while the context is open, also for late
    imports. None of them replaces an installed module.
    """
    folder = os.getcwd()
    sys.path.append(folder)
    try:
        yield
    finally:
        with suppress(ValueError):  # a module may have removed the path
            sys.path.remove(folder)


def load(name: str) -> object:
    """The object that `module:Name` names, from the working directory or an installed module.
    Raises `OwnError`.
    """
    module, _, attribute = name.partition(":")
    is_path = module.startswith(".") or module.endswith(".py") or {"/", "\\"} & {*module}
    if not module or is_path or not attribute.isidentifier():
        text = "it is neither `module:Name`, as `mine:Name` for `Name` in mine.py, nor a registered"
        raise OwnError(f"{name}: {text} name")
    try:
        with importable():
            found: object = getattr(importlib.import_module(module), attribute)
    except KeyboardInterrupt:
        raise
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise OwnError(f"{name}: {place_of(error)}{error}") from error
    except BaseException as error:  # a user's module may raise anything
        raise OwnError(f"{name}: {words_of(error)}") from error
    return found

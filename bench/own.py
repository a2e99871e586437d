"""Loads a user's own suites, agents and judges from their modules, named `module:Name`."""

import asyncio
import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class OwnError(Exception):
    """`module:Name` can't be loaded; the text says why."""


def words_of(error: BaseException) -> str:
    """An exception in words, even if its `__str__` raises."""
    if type(error) is asyncio.CancelledError:
        return "CancelledError: something that it waited for was cancelled"
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException:  # noqa: BLE001
        return type(error).__name__


def lacking(found: object, method: str) -> str:
    """What an agent or a judge lacks of `name` and its `method`, in words; empty if nothing."""
    if not callable(getattr(found, method, None)):
        return f"it has no method `{method}`"
    if not isinstance(getattr(found, "name", None), str):
        return "it has no `name`"
    return ""


def is_own(name: str) -> bool:
    return ":" in name


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
    try:
        with importable():
            found: object = getattr(importlib.import_module(module), attribute)
    except KeyboardInterrupt:
        raise
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise OwnError(f"{name}: {error}") from error
    except BaseException as error:  # a user's module may raise anything
        raise OwnError(f"{name}: {words_of(error)}") from error
    return found

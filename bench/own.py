"""Loads a user's own suites, agents and judges from their modules, named `module:Name`."""

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class OwnError(Exception):
    """`module:Name` can't be loaded; the text says why."""


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
        raise OwnError(f"{name}: {type(error).__name__}: {error}") from error
    return found

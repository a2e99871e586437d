"""What a user brings along: suites, agents and judges in modules of their own, as `module:Name`."""

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class OwnError(Exception):
    """`module:Name` can't be had; the text says why."""


def is_own(name: str) -> bool:
    return ":" in name


@contextmanager
def importable() -> Iterator[None]:
    """Modules in the working directory can be imported while the context is open, also late; none
    of them takes the place of one that is installed.
    """
    folder = os.getcwd()
    sys.path.append(folder)
    try:
        yield
    finally:
        with suppress(ValueError):  # a module may have taken it out
            sys.path.remove(folder)


def load(name: str) -> object:
    """What `module:Name` names, from the working directory or what is installed. Raises
    `OwnError`.
    """
    module, _, attribute = name.partition(":")
    try:
        with importable():
            found: object = getattr(importlib.import_module(module), attribute)
    except KeyboardInterrupt:
        raise
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise OwnError(f"{name}: {error}") from error
    except BaseException as error:  # whatever its module does
        raise OwnError(f"{name}: {type(error).__name__}: {error}") from error
    return found

"""Finport's Python API: users import every public name from here.

A name is imported on its first use, so `import finport` is cheap. It does check that no other
module hides one of Finport's packages.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from finport.exports import HOMES, __all__
from finport.packages import check_packages

# Python sets this while it locates a module to run; `python -m finport` makes the check itself.
if sys.argv[:1] != ["-m"]:
    check_packages()

if TYPE_CHECKING:
    from finport.exports import *  # noqa: F403 - `__all__` says what

    __version__: str
else:  # a type checker that saw this function would accept any name

    def __getattr__(name: str) -> object:
        if name == "__version__":
            from importlib.metadata import version

            return version("finport")
        if name not in HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        check_packages()
        return getattr(import_module(HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})

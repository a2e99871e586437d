"""Finport's Python API: users import every public name from here, as `__init__.pyi` lists them.

A name is imported on its first use, so `import finport` is cheap. It does check that no other
module hides one of Finport's packages.
"""

import sys

from finport.packages import check_packages

# Python sets this while it locates a module to run; `python -m finport` makes the check itself.
if sys.argv[:1] != ["-m"]:
    check_packages()


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("finport")
    check_packages()
    from manifests.common.lazy import importing

    get, names = importing(__name__, __file__)
    return names if name == "__all__" else get(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__"), "__version__"})

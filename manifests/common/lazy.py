"""Names of a package that are imported on first use, so that a command line starts quickly."""

from collections.abc import Callable, Mapping
from importlib import import_module


def importing(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` of a package (PEP 562) whose public names stand in these modules of it."""

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return get

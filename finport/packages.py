"""The check that no other module hides Finport's packages.

The packages have common names, and a script's folder comes first on `sys.path`. So a user's own
`cache/` or `bench.py` in that folder hides ours. The check imports nothing.
"""

import sys
from importlib.util import find_spec
from os.path import dirname, join, realpath

PACKAGES = ("adapters", "bench", "cache", "gateway", "manifests")

_HOME = dirname(dirname(realpath(__file__)))


def check_packages() -> None:
    """Raises `ImportError`, which names the folder or file that hides a package."""
    for package in PACKAGES:
        found = _place_of(package)
        if found not in (None, join(_HOME, package)):  # without a place, import fails
            raise ImportError(
                f"{found} hides Finport's package {package!r}: rename it, or run `python -P`, "
                "which does not search the script's folder or the working directory",
                name=package,
                path=found,
            )


def _place_of(package: str) -> str | None:
    """The folder of the package, or the file of the module, that `import` would load."""
    if package in sys.modules:
        folders = getattr(sys.modules[package], "__path__", None)
        file = getattr(sys.modules[package], "__file__", None)
    elif spec := find_spec(package):
        folders, file = spec.submodule_search_locations, spec.origin
    else:
        return None
    place = next(iter(folders or ()), file)
    return place and realpath(place)

"""The check that no other module hides Finport's packages.

The packages have common names, and a script's folder comes first on `sys.path`. So a user's own
`cache/` or `bench.py` in that folder hides ours. The check imports nothing.
"""

import sys
from importlib.util import find_spec
from os.path import dirname, join, realpath

ROOMS = ("adapters", "bench", "cache", "gateway", "manifests")

_HOME = dirname(dirname(realpath(__file__)))


def check_rooms() -> None:
    """Raises `ImportError`, which names the folder or file that hides a package."""
    for room in ROOMS:
        found = _place_of(room)
        if found not in (None, join(_HOME, room)):  # without a place, import fails
            raise ImportError(
                f"{found} hides Finport's package {room!r}: rename it, or run `python -P`, which "
                "does not search the script's folder or the working directory",
                name=room,
                path=found,
            )


def _place_of(room: str) -> str | None:
    """The folder of the package, or the file of the module, that `import` would load."""
    if room in sys.modules:
        folders = getattr(sys.modules[room], "__path__", None)
        file = getattr(sys.modules[room], "__file__", None)
    elif spec := find_spec(room):
        folders, file = spec.submodule_search_locations, spec.origin
    else:
        return None
    place = next(iter(folders or ()), file)
    return place and realpath(place)

"""Names of a package that are imported on first use, so that a command line starts quickly.

The stub of the package, its `__init__.pyi`, says where each name is: `from home import Name as
Name`. Type checkers read the same lines.
"""

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path


def importing(package: str, file: str) -> tuple[Callable[[str], object], list[str]]:
    """The `__getattr__` (PEP 562) and `__all__` of the package whose `__init__.py` is `file`."""
    stub = ast.parse(Path(file).with_suffix(".pyi").read_bytes())
    imports = (line for line in stub.body if isinstance(line, ast.ImportFrom))
    homes = {name.name: str(line.module) for line in imports for name in line.names}

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return get, sorted(homes)

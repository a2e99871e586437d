"""Python functions of the user's beside a catalogue: from files that settings name, or given."""

import sys
from collections.abc import Callable, Iterable
from hashlib import blake2b
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from gateway.settings_file import SettingsError
from manifests import Catalog
from manifests.catalog import CatalogError
from manifests.functions import FunctionTool, FunctionToolError, tool_of, tools_in


def with_functions(
    catalog: Catalog, files: Iterable[Path], functions: Iterable[Callable[..., Any]] = ()
) -> Catalog:
    """A catalogue with the functions of files, and further ones. Raises `SettingsError`."""
    try:
        found = [tool for file in files for tool in _read(file)]
        found += map(tool_of, functions)
        return catalog.with_functions(found) if found else catalog
    except (CatalogError, FunctionToolError) as error:
        raise SettingsError(f"setting tools: {error}") from error


def _read(file: Path) -> list[FunctionTool]:
    """The tools of a Python file, which is run once in a process. Raises `SettingsError`."""
    name = f"finport_tools_{blake2b(str(file.resolve()).encode(), digest_size=8).hexdigest()}"
    module = sys.modules.get(name)
    if module is None:
        spec = spec_from_file_location(name, file)
        if spec is None or spec.loader is None or not file.is_file():
            raise SettingsError(f"setting tools: {file}: there is no such Python file")
        module = module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except FunctionToolError as error:
            del sys.modules[name]
            raise SettingsError(f"setting tools: {file}: {error}") from error
        except Exception as error:
            del sys.modules[name]
            text = f"setting tools: {file}: it raised {type(error).__name__}: {error}"
            raise SettingsError(text) from error
    found = tools_in(vars(module))
    if not found:
        text = "no function in it is a tool; decorate it with @finport.tool"
        raise SettingsError(f"setting tools: {file}: {text}")
    return found

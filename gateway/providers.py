"""The tools of the user's own providers beside a catalogue, read at start and on each reload."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from hashlib import blake2b
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from anyio import to_thread
from pydantic import ValidationError

from gateway.settings import GatewaySettings
from gateway.settings_file import SettingsError
from manifests import Catalog, Manifest
from manifests.catalog import CatalogError
from manifests.common.problem import first_problem
from manifests.functions import FunctionTool, FunctionToolError, tool_of, tools_in
from manifests.providers import ProviderSettings


async def catalog_of(
    settings: GatewaySettings,
    base: Catalog | None = None,
    functions: Iterable[Callable[..., Any]] = (),
) -> Catalog:
    """The catalogue that settings choose, or a copy of `base`, with the tools of all providers and
    these functions. Raises `SettingsError` and `CatalogError`.
    """
    if base is None:
        base = Catalog.load() if settings.catalog == "finport" else Catalog([])
    if settings.market is not None:
        base = base.with_market()
    try:
        providers = settings.own_providers()
    except ValueError as error:
        raise SettingsError(f"setting providers: {_problem(error)}") from None
    own, callables = list[Manifest](), list[FunctionTool]()
    for name, provider in providers.items():
        try:
            if provider.python is not None:
                callables += await to_thread.run_sync(_functions, name, provider)
            else:
                own += provider.applied(name, await _manifests(name, provider))
        except (CatalogError, FunctionToolError, SettingsError) as error:
            raise SettingsError(f"provider {name}: {error}") from error
        except ValueError as error:  # a name that a prefix makes too long, and the like
            raise SettingsError(f"provider {name}: {_problem(error)}") from None
    try:
        callables += map(tool_of, functions)
        return base.with_own(own, callables, providers)
    except (CatalogError, FunctionToolError) as error:
        raise SettingsError(f"setting providers: {error}") from error


def _problem(error: ValueError) -> str:
    return first_problem(error) if isinstance(error, ValidationError) else str(error)


async def _manifests(name: str, provider: ProviderSettings) -> Iterable[Manifest]:
    if provider.manifests is not None:
        found = await to_thread.run_sync(Catalog.load, provider.manifests)
        return [m for m in found if provider.takes(m.name)]
    if provider.openapi is not None:
        from gateway.documents import manifests_of

        return await manifests_of(name, provider)
    raise SettingsError(f"{name}: {provider.kind} is not there yet")


def _functions(name: str, provider: ProviderSettings) -> list[FunctionTool]:
    """The functions of a provider's file. Raises `SettingsError`."""
    assert provider.python is not None  # noqa: S101 - the caller's condition
    found = [t for t in _read(provider.python) if provider.takes(t.manifest.name)]
    manifests = provider.applied(name, (tool.manifest for tool in found))
    return [replace(tool, manifest=m) for tool, m in zip(found, manifests, strict=True)]


def _read(file: Path) -> list[FunctionTool]:
    """The tools of a Python file, which is run once in a process, and again after it has changed.

    Raises `SettingsError`.
    """
    try:
        code = f"{file.resolve()}\0".encode() + file.read_bytes()
    except OSError as error:
        raise SettingsError(f"{file}: {error.strerror}") from None
    name = f"finport_tools_{blake2b(code, digest_size=8).hexdigest()}"
    module = sys.modules.get(name)
    if module is None:
        spec = spec_from_file_location(name, file)
        if spec is None or spec.loader is None:
            raise SettingsError(f"{file}: a Python file ends in .py")
        module = module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except FunctionToolError as error:
            del sys.modules[name]
            raise SettingsError(f"{file}: {error}") from error
        except Exception as error:
            del sys.modules[name]
            raise SettingsError(f"{file}: it raised {type(error).__name__}: {error}") from error
    found = tools_in(vars(module))
    if not found:
        text = "no function in it is a tool; decorate it with @finport.tool"
        raise SettingsError(f"{file}: {text}")
    return found

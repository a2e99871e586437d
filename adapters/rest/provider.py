"""HTTP APIs as a provider: what was imported from OpenAPI documents, or written by hand."""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from adapters.provider import Finding, Parts, Provider, Settings
from manifests import Catalog

if TYPE_CHECKING:
    from adapters.adapter import Adapter


@asynccontextmanager
async def _open(parts: Parts) -> AsyncIterator["Adapter"]:
    from adapters.rest.adapter import HttpAdapter

    async with HttpAdapter.open(parts.catalog) as adapter:
        yield adapter


def _check(catalog: Catalog, settings: Settings | None) -> Iterator[Finding]:  # noqa: ARG001
    for name, provider in catalog.providers.items():
        for variable in provider.credentials.values():
            if not os.environ.get(variable, "").strip():
                text = f"{variable} is not set: tools that need it will answer not_configured"
                yield Finding(f"provider {name}", "warn", text, f"set {variable}")


HTTP = Provider("http", "HTTP APIs", _open, check=_check, tls=None)

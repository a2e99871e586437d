"""HTTP APIs as a provider: what was imported from OpenAPI documents, or written by hand."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from adapters.provider import Parts, Provider

if TYPE_CHECKING:
    from adapters.adapter import Adapter


@asynccontextmanager
async def _open(parts: Parts) -> AsyncIterator["Adapter"]:
    from adapters.rest.adapter import HttpAdapter

    async with HttpAdapter.open(parts.catalog) as adapter:
        yield adapter


HTTP = Provider("http", "HTTP APIs", _open, tls=None)

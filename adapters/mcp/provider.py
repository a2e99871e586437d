"""MCP servers as a provider."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from adapters.provider import Parts, Provider

if TYPE_CHECKING:
    from adapters.adapter import Adapter


@asynccontextmanager
async def _open(parts: Parts) -> AsyncIterator["Adapter"]:
    from adapters.mcp.adapter import McpAdapter

    async with McpAdapter.open(parts.mcp) as adapter:
        yield adapter


MCP = Provider("mcp", "MCP servers", _open, tls=None)

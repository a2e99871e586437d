"""Calls the tools of MCP servers, whatever upstream is chosen for the packaged ones."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import orjson
from anyio import to_thread

from adapters.adapter import Adapter
from adapters.fault import UpstreamFault
from adapters.mcp.results import answer_of
from adapters.mcp.servers import McpServers
from adapters.normalise import Answer
from adapters.provider import Parts, Provider
from manifests import Manifest, Scalar
from manifests.manifest import McpBinding
from manifests.mcp_listing import JSON_TEXT


class McpAdapter(Adapter):
    """Calls tools of MCP servers. It retries nothing, and keeps nothing of a call."""

    def __init__(self, servers: McpServers | None) -> None:
        self._servers = servers

    async def fetch(
        self,
        manifest: Manifest,
        arguments: Mapping[str, Scalar],
        timeout_s: float,
        client: str = "",  # noqa: ARG002 - each call is by itself
    ) -> Answer:
        assert isinstance(manifest.binding, McpBinding)  # noqa: S101 - of this provider
        if self._servers is None:
            raise UpstreamFault("not_configured", "no MCP server is among the providers")
        given = {
            p.name: _value(arguments[p.name], p.format == JSON_TEXT, p.is_json)
            for p in manifest.parameters
            if p.name in arguments
        }
        tool = manifest.binding.tool
        result, mask = await self._servers.call(manifest, tool, given, timeout_s)
        return await to_thread.run_sync(answer_of, result, manifest, mask)


def _value(value: Scalar, is_text: bool, is_json: bool) -> Any:
    """The value of an argument. A text that is no JSON stands for itself."""
    if not (is_text or is_json):
        return value
    try:
        return orjson.loads(str(value))
    except orjson.JSONDecodeError:
        return value


@asynccontextmanager
async def _open(parts: Parts) -> AsyncIterator[Adapter]:
    yield McpAdapter(parts.mcp)


MCP = Provider("mcp", "MCP servers", _open, tls=None)

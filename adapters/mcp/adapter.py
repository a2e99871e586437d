"""Calls the tools of MCP servers, whatever upstream is chosen for the packaged ones."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import orjson

from adapters.adapter import Adapter
from adapters.fault import UpstreamFault
from adapters.http import Reply
from adapters.mask import mask_of
from adapters.mcp.results import answer_of, body_of
from adapters.mcp.servers import McpServers
from adapters.normalise import Answer
from adapters.reader import Reader
from manifests import Manifest, Scalar
from manifests.manifest import McpBinding
from manifests.mcp_listing import JSON_TEXT


class McpAdapter(Adapter):
    """Calls tools of MCP servers. It retries nothing, and keeps nothing of a call."""

    def __init__(self, servers: McpServers | None, reader: Reader) -> None:
        self._servers = servers
        self._reader = reader

    @classmethod
    @asynccontextmanager
    async def open(cls, servers: McpServers | None) -> AsyncIterator["McpAdapter"]:
        async with Reader.open() as reader:
            yield cls(servers, reader)

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
        result, secrets = await self._servers.call(manifest, tool, given, timeout_s)
        body, is_text = body_of(result, manifest, mask_of(frozenset(secrets)))
        reply = Reply(200, {}, None, body)
        return await self._reader.read(manifest.upstream, reply, answer_of, is_text, secrets)


def _value(value: Scalar, is_text: bool, is_json: bool) -> Any:
    """The value of an argument. A text that is no JSON stands for itself."""
    if not (is_text or is_json):
        return value
    try:
        return orjson.loads(str(value))
    except orjson.JSONDecodeError:
        return value

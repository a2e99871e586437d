"""Calls the tools of MCP servers, whatever upstream is chosen for the packaged ones.

`structuredContent` of a result is the answer, or else the content: one text, which is read as JSON
if it is that, or the list of its parts. Pictures, sound and resources stay as the server sent them,
with their type and in base64.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson

from adapters.adapter import Adapter
from adapters.fault import UpstreamFault, fit_for_message
from adapters.http import Reply
from adapters.mask import Mask, mask_of
from adapters.mcp.servers import McpServers
from adapters.normalise import Answer, from_value, masked, read_json
from adapters.reader import Reader
from manifests import Manifest, Scalar
from manifests.manifest import McpBinding
from manifests.mcp_listing import JSON_TEXT

_WORDS = 500
"""The most characters of what a server says of an error."""


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
            p.name: _argument(arguments[p.name], p.format == JSON_TEXT, p.is_json)
            for p in manifest.parameters
            if p.name in arguments
        }
        tool = manifest.binding.tool
        result, secrets = await self._servers.call(manifest, tool, given, timeout_s)
        body, is_text = body_of(result, manifest, mask_of(frozenset(secrets)))
        reply = Reply(200, {}, None, body)
        return await self._reader.read(manifest.upstream, reply, answer_of, is_text, secrets)


def _argument(value: Scalar, is_text: bool, is_json: bool) -> Any:
    """The value of an argument. A text that is no JSON stands for itself."""
    if not (is_text or is_json):
        return value
    try:
        return orjson.loads(str(value))
    except orjson.JSONDecodeError:
        return value


def body_of(result: Mapping[str, Any], manifest: Manifest, mask: Mask) -> tuple[bytes, bool]:
    """The JSON of a result, and whether it is a text that may be none.

    Raises `UpstreamFault`: `rejected` with the server's words, `invalid`.
    """
    content = result.get("content")
    parts = content if isinstance(content, list) else []
    if result.get("isError"):
        said = " ".join(part["text"] for part in parts if _is_text(part))
        text = fit_for_message(mask.text(said), most=_WORDS) or "without words"
        raise UpstreamFault("rejected", f"{manifest.name} refuses this: {text}")
    if result.get("resultType", "complete") != "complete":
        raise UpstreamFault("rejected", "the server asks for input, which a gateway does not give")
    value = _value(result, parts, manifest)
    try:
        if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
            return value.encode(), True
        return orjson.dumps(value), False
    except (TypeError, UnicodeEncodeError):
        text = "the result holds what JSON of 64-bit numbers and UTF-8 can't"
        raise UpstreamFault("invalid", text) from None


def answer_of(reply: Reply, is_text: bool, secrets: Sequence[str]) -> Answer:
    """The answer that a body is, without these secrets. Raises `UpstreamFault`."""
    try:
        value = read_json(reply.body)
    except UpstreamFault:
        if not is_text:
            raise
        value = reply.body.decode()
    mask = mask_of(frozenset(secrets))
    answer = from_value(value)
    return masked(answer, mask) if mask else answer


def _value(result: Mapping[str, Any], parts: list[Any], manifest: Manifest) -> Any:
    structured = result.get("structuredContent")
    others = [part for part in parts if not _is_text(part)]
    if structured is not None:
        if others:
            return {"structuredContent": structured, "content": others}
        return _table(structured) if manifest.columns else structured
    return parts[0]["text"] if len(parts) == 1 and not others else parts


def _table(structured: Any) -> Any:
    """The one list of records that an object holds, as its schema says, or the object."""
    if isinstance(structured, dict) and len(structured) == 1:
        rows = next(iter(structured.values()))
        if isinstance(rows, list):
            return rows
    return structured


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("text"), str)

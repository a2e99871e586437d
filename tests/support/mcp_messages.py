"""Messages of the Model Context Protocol, as they travel."""

import json
from collections.abc import Mapping
from io import BytesIO
from typing import Any

from gateway.api.mcp import CAPABILITIES_KEY, REVISION_KEY
from tests.support.gateways import ServedGateway

META = {REVISION_KEY: "2026-07-28", CAPABILITIES_KEY: {}}

BOTH = "application/json, text/event-stream"


def request(method: str, params: object = None, id_: object = 1) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "id": id_, "method": method}
    return message if params is None else message | {"params": params}


async def post(
    served: ServedGateway,
    message: object,
    headers: Mapping[str, str] | None = None,
    query: str = "",
) -> tuple[int, Any]:
    """The status and the JSON that answer a message; a text is sent as it is."""
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    url = f"{served.url}/mcp{query}"
    head = {"Accept": BOTH, **(headers or {})}
    async with served.client.post(url, data=BytesIO(body), headers=head) as got:
        text = await got.read()
        nothing = "application/octet-stream" if got.status == 202 else "text/event-stream"
        kind = "application/json" if text else nothing
        assert got.content_type == kind, f"{got.content_type} instead of {kind}"
        return got.status, json.loads(text) if text else None


async def result_of(
    served: ServedGateway,
    name: str,
    arguments: object,
    query: str = "",
    headers: Mapping[str, str] | None = None,
    **params: object,
) -> dict[str, Any]:
    """What a tool gives, whose structured content says the same as its text."""
    called = request("tools/call", {"name": name, "arguments": arguments, **params})
    _, answer = await post(served, called, headers, query)
    result = answer["result"]
    told: dict[str, Any] = json.loads(result["content"][0]["text"])
    assert result["isError"] == ("error" in told)
    assert result.get("structuredContent", told) == told
    return told

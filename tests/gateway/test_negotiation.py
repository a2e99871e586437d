"""What a client says it accepts is what it gets, by RFC 9110's qualities."""

import pytest
from multidict import CIMultiDict

from tests.conftest import Door
from tests.gateway.test_mcp import request

pytestmark = pytest.mark.anyio

PING = request("ping")


async def coding(door: Door, path: str, *accepted: str) -> str | None:
    headers = CIMultiDict([("Accept-Encoding", text) for text in accepted])
    async with door.client.get(
        door.url + path, headers=headers, skip_auto_headers=("Accept-Encoding",)
    ) as got:
        assert (await got.json(content_type=None)) is not None
        assert got.status == 200
        return got.headers.get("Content-Encoding")


CODINGS: list[tuple[tuple[str, ...], str | None, str | None]] = [
    ((), None, None),
    (("",), None, None),
    (("gzip",), "gzip", None),
    (("GZip;Q=0.001",), "gzip", None),
    (("x-gzip",), "gzip", None),
    (("br;q=1, *;q=0.1",), "gzip", None),
    (("br", "gzip;q=0.5"), "gzip", None),
    (("gzip;q=0",), None, None),
    (("gzip; q=0.000, deflate",), None, None),
    (("gzip;q=0, *",), None, None),
    (("*;q=0",), None, None),
    (("notgzip",), None, None),
    (("gzip;q=0.5, identity",), None, None),
    (("gzip;q=nonsense",), None, None),
    (("identity;q=0, gzip",), "gzip", "gzip"),
    (("gzip, *;q=0",), "gzip", "gzip"),
    (("identity;q=0",), None, None),
]
"""What is accepted, and how a long and a short answer to that are coded."""


async def test_an_answer_is_coded_as_its_client_accepts(door: Door) -> None:
    found = [
        (
            accepted,
            await coding(door, "/v1/tools?limit=1000", *accepted),
            await coding(door, "/v1/tools?limit=1", *accepted),
        )
        for accepted, _, _ in CODINGS
    ]
    assert found == CODINGS


async def test_mcp_is_spoken_with_those_who_accept_json(door: Door) -> None:
    expected = {
        "application/json": 200,
        "text/html, application/*;q=0.1": 200,
        "*/*;q=0.1": 200,
        "application/json;q=0, text/event-stream": 406,
        "application/json;q=0, */*": 406,
        "*/*;q=0": 406,
        "application/jsonl": 406,
    }
    found = {}
    for accepted in expected:
        headers = {"Accept": accepted}
        async with door.client.post(f"{door.url}/mcp", json=PING, headers=headers) as got:
            found[accepted] = got.status
    assert found == expected

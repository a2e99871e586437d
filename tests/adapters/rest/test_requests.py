"""Requests are what the document says: a server checks every one of them by the document."""

from pathlib import Path

import pytest

from tests.support.openapi_runs import VARIABLE, tried
from tests.support.openapi_server import Checker, load

pytestmark = pytest.mark.anyio

JSON = "application/json"
DOCUMENTS = Path(__file__).parents[2] / "manifests" / "openapi" / "documents"


@pytest.mark.parametrize(
    ("name", "tools"),
    [("market_data.yaml", 5), ("central_bank.yaml", 6), ("broker.json", 10), ("petstore.yaml", 5)],
)
async def test_every_tool_sends_requests_that_its_document_allows(
    name: str,
    tools: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, "someone:planted-secret-77")
    done = await tried(DOCUMENTS / name, tmp_path, 25)
    assert done.wrong == []
    assert (done.tools, len(done.operations)) == (tools, tools)
    assert done.calls > 10 * tools


@pytest.mark.parametrize(
    ("method", "raw", "headers", "body", "wrong"),
    [
        ("GET", "/nowhere", {}, b"", "no operation is GET /nowhere"),
        ("GET", "/orders?status=new", {}, b"", "'new' is not one of"),
        ("GET", "/orders?nested=1", {}, b"", "1 is not of type 'boolean'"),
        ("GET", "/orders?symbols=A&symbols=B", {}, b"", "stands twice"),
        ("GET", "/orders?other=1", {}, b"", "the query has {'other'}"),
        ("GET", "/orders?filter[side]=up", {}, b"", "'up' is not one of"),
        ("GET", "/orders", {}, b"{}", "a body came"),
        ("GET", "/orders/7", {}, b"", "is not a 'uuid'"),
        ("POST", "/orders", {}, b"", "the body is missing"),
        ("POST", "/orders", {"Content-Type": "text/plain"}, b"x", "the body is 'text/plain'"),
        ("POST", "/orders", {"Content-Type": JSON}, b"{}", "'symbol' is a required"),
        (
            "POST",
            "/alerts",
            {"Content-Type": JSON},
            b'{"symbol": "A", "when": {"price": -1}}',
            "is not valid under any of the given schemas",
        ),
        (
            "PUT",
            "/watchlists",
            {"Content-Type": JSON},
            b'[""]',
            "should be non-empty",
        ),
    ],
)
def test_the_server_that_checks_finds_what_is_wrong(
    method: str, raw: str, headers: dict[str, str], body: bytes, wrong: str
) -> None:
    found = Checker(load(DOCUMENTS / "broker.json")).check(method, raw, headers, body)
    assert any(wrong in one for one in found), found

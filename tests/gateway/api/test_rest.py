"""The REST API, over a real socket."""

import asyncio
from collections.abc import Callable
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from gateway.trace import JsonLines
from manifests import Catalog
from tests.support.gateways import HIST, ServedGateway, open_served_gateway, play
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

DEEP = b'{"uuid":' + b"[" * 300 + b"]" * 300 + b"}"


@pytest.fixture
def kept_tables() -> None:
    """Here a `fresh` gateway asks upstream for tables, too."""


async def test_a_call_answers_with_the_envelope(fresh: ServedGateway) -> None:
    status, first = await fresh.call("stock_zh_a_hist", HIST)
    _, second = await fresh.call("stock_zh_a_hist", HIST)
    assert status == 200
    assert list(first) == [
        *("ok", "tool", "data", "columns", "rows", "truncated", "offset", "shown"),
        *("handle", "provenance"),
    ]
    assert (first["ok"], first["tool"], first["rows"]) == (True, "stock_zh_a_hist", 22)
    assert first["columns"][0] == "日期"
    assert first["data"][0]["日期"] == "2024-01-02"
    assert set(first["provenance"]) == {
        *("source", "upstream", "age_s", "snapshot", "digest", "attempts"),
        *("elapsed_ms", "call_id"),
    }
    assert first["provenance"]["source"] == "live"
    assert second["provenance"]["source"] == "cached"
    assert second["data"] == first["data"]


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ("nocache", "did you mean no-cache?"),
        ("max-age=5, max-age=9", "max-age stands there with two values"),
        ("max-age", "max-age needs whole seconds"),
    ],
)
async def test_a_directive_that_means_nothing_is_refused(
    served: ServedGateway, header: str, told: str
) -> None:
    for path in ("/v1/tools/get_coin", "/v1/calls"):
        status, answer = await served.ask(path, {}, {"Cache-Control": header})
        assert (status, answer["error"]["code"]) == (400, "invalid_request")
        assert told in answer["error"]["message"]


@pytest.mark.parametrize(
    "header",
    [
        *("no-cache", "max-age=0", "max-age=259200", "no-transform", ""),
        "no-cache, no-store, must-revalidate",
    ],
)
async def test_what_clients_and_proxies_send_is_taken(served: ServedGateway, header: str) -> None:
    head = {"Cache-Control": header, "Pragma": "no-cache"}
    assert (await served.ask("/v1/tools/get_coin", {"uuid": "x"}, head))[0] == 200


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("limt=5", "query has no 'limt'; did you mean limit?; it takes q, source"),
        ("zzz=5", "query has no 'zzz'; it takes q, source"),
        ("limit=x", "query limit: Input should be a valid integer"),
        ("domain=bnod", "query domain: Input should be 'equity'"),
    ],
)
async def test_a_query_that_is_wrong_is_told_what_would_be_right(
    served: ServedGateway, query: str, told: str
) -> None:
    status, answer = await served.ask(f"/v1/tools?{query}")
    message = answer["error"]["message"]
    assert status == 400
    assert message.startswith(told)
    assert ("it takes" in message) == ("it takes" in told)


async def test_the_query_asks_for_rows_and_a_deadline(served: ServedGateway) -> None:
    _, envelope = await served.call("stock_zh_a_hist?max_rows=2&timeout_s=60", HIST)
    assert (len(envelope["data"]), envelope["truncated"]) == (2, True)
    _, page = await served.ask(f"/v1/results/{envelope['handle']}?offset=20&limit=10")
    assert (page["rows"], page["offset"], len(page["data"])) == (22, 20, 2)
    _, late = await served.call("get_coin?timeout_s=0.000001", {"uuid": "late"})
    assert (late["error"]["code"], late["error"]["fault"]) == ("timeout", "agent")
    assert "the caller's own limit of 1e-06 s was too short" in late["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "/v1/tools/get_coin", b"", 422, "invalid_arguments"),
        ("POST", "/v1/tools/get_coin", DEEP, 422, "invalid_arguments"),
        ("POST", "/v1/tools/get_coin", b"{'a'}", 400, "invalid_request"),
        ("POST", "/v1/tools", b"{}", 405, "method_not_allowed"),
        ("POST", "/healthz", b"{}", 405, "method_not_allowed"),
    ],
)
async def test_bad_requests_get_a_typed_json_error(
    served: ServedGateway, method: str, path: str, body: bytes, status: int, code: str
) -> None:
    """Others: what is described of each route, and ways into a gateway that must fail."""
    async with served.client.request(method, served.url + path, data=BytesIO(body)) as response:
        error = (await response.json())["error"]
    assert (response.status, error["code"]) == (status, code)
    assert set(error) == {"code", "message", "fault", "retryable", "retry_after_s", "details"}
    if status == 405:
        assert response.headers["Allow"].startswith("GET, HEAD")


async def test_what_fails_before_the_call_is_in_the_trace(
    catalog: Catalog, tmp_path: Path, json_lines: Callable[[str], list[dict[str, Any]]]
) -> None:
    async with (
        JsonLines.open(tmp_path / "trace.jsonl") as trace,
        open_served_gateway(catalog, tmp_path, trace=trace) as served,
    ):
        client, tool = served.client, f"{served.url}/v1/tools/get_coin"
        for method, body in (("POST", b"{"), ("POST", b" " * (2**20 + 1))):
            await (await client.request(method, tool, data=BytesIO(body))).read()
        await (await client.post(f"{tool}?rows=1")).read()
        headers = {"Content-Encoding": "gzip"}
        answer = await client.post(tool, data=b"not gzip", headers=headers)
        assert (await answer.json())["error"]["code"] == "invalid_request"
    codes = [record["code"] for record in json_lines("trace.jsonl")]
    assert codes == [
        *("invalid_request", "too_large", "invalid_request", "invalid_request"),
    ]


async def test_the_catalogue_is_listed_in_pages(served: ServedGateway, catalog: Catalog) -> None:
    granted = {m.name for m in catalog if m.intent_type != "transactional"}
    names: list[str] = []
    cursor: str | None = "0"
    while cursor is not None:
        _, page = await served.ask(f"/v1/tools?limit=300&cursor={cursor}")
        names += [tool["name"] for tool in page["tools"]]
        cursor = page["next_cursor"]
    assert page["total"] == len(names)
    assert set(names) == granted
    _, found = await served.ask("/v1/tools?domain=esg")
    assert [tool["name"] for tool in found["tools"]] == ["index_eri"]


async def test_a_manifest_is_shown_with_a_sample_call_that_works(served: ServedGateway) -> None:
    _, manifest = await served.ask("/v1/tools/get_coin")
    assert manifest["source"] == "rapidapi"
    assert manifest["binding"]["path"] == "/coin/{uuid}"
    status, _ = await served.call("get_coin", manifest["sample"])
    assert status == 200


async def test_health_counts_what_calls_ended_as(fresh: ServedGateway, catalog: Catalog) -> None:
    await fresh.call("get_coin", {"uuid": "x"})
    await fresh.call("get_coin", {"uuid": "x"})
    await fresh.call("get_coin", {})
    _, health = await fresh.ask("/healthz")
    assert (health["status"], health["tools"]) == ("ok", len(catalog))
    assert health["calls"] == {"live": 1, "cached": 1, "invalid_arguments": 1}
    assert health["peak_rss_bytes"] > 0
    assert health["workers"] == {"wanted": 1, "alive": 1}
    assert health["version"] == version("finport")


async def test_a_client_that_goes_away_ends_its_call(fresh: ServedGateway) -> None:
    play(fresh.local, hang_rate=1.0)
    call = asyncio.create_task(fresh.call("get_coin", {"uuid": "x"}))
    await until(lambda: fresh.local.gateway.answers.under_way)
    call.cancel()
    await until(lambda: not fresh.local.gateway.answers.under_way)

"""The access log: a line for each request, no secret in any, and no flood of them."""

import asyncio
import io
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import SecretStr

from gateway.server import access_log as access
from gateway.telemetry.logs import ACCESS, MAX_PATH, set_up, shown_path
from manifests import Catalog
from tests.support.gateways import ServedGateway, open_served_gateway, play
from tests.support.servers import answer
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

KEY = "planted-client-key-0815"
CALLER = {"Authorization": f"Bearer {KEY}"}


@pytest.fixture
async def kept(catalog: Catalog, tmp_path: Path) -> AsyncIterator[ServedGateway]:
    keys = {"api_keys": (SecretStr(f"desk={KEY}"),), "metrics_key": SecretStr("m1")}
    async with open_served_gateway(catalog, tmp_path, access_log=True, **keys) as served:
        yield served


@pytest.fixture
def stream() -> Iterator[io.BytesIO]:
    stream = io.BytesIO()
    with set_up("json", stream):
        yield stream


def lines(stream: io.BytesIO) -> list[dict[str, Any]]:
    said = map(orjson.loads, stream.getvalue().splitlines())
    return [line for line in said if line["logger"] == ACCESS]


async def test_a_line_says_who_asked_for_what_and_how_it_ended(
    kept: ServedGateway, stream: io.BytesIO
) -> None:
    sent = {**CALLER, "X-Request-Id": "r-1"}
    url = f"{kept.url}/v1/tools/get_coin?max_rows=5"
    for _ in range(2):  # the second answer leaves as ready bytes
        async with kept.client.post(url, data=b'{"uuid":"x"}', headers=sent) as got:
            body = await got.read()
    await until(lambda: len(lines(stream)) == 2)
    for line in lines(stream):
        assert line.pop("ms") > 0
        assert len(body) < line.pop("bytes") < len(body) + 1_000
        assert line.pop("at")
        assert line == {
            "level": "info",
            "logger": ACCESS,
            "remote": "127.0.0.1",
            "client": "desk",
            "method": "POST",
            "path": "/v1/tools/get_coin",
            "status": 200,
            "request_id": "r-1",
        }


async def test_every_interface_and_every_refusal_has_its_line(
    kept: ServedGateway, stream: io.BytesIO
) -> None:
    asked = [
        ("GET", "/v1/tools?limit=1", CALLER, 200, "desk"),
        ("POST", "/mcp", CALLER, 400, "desk"),
        ("POST", "/v1/calls", CALLER, 200, "desk"),
        ("GET", "/nowhere", CALLER, 404, "desk"),
        ("GET", "/healthz", {}, 200, "-"),
        ("GET", "/metrics", {"Authorization": "Bearer m1"}, 200, "-"),
        ("POST", "/mcp", {}, 401, "-"),
        ("GET", "/", {"Host": "evil.example"}, 403, "-"),
    ]
    for method, path, headers, status, _ in asked:
        async with kept.client.request(method, kept.url + path, headers=headers) as got:
            assert got.status == status
            await got.read()
    reader, writer = await asyncio.open_connection("127.0.0.1", int(kept.url.rpartition(":")[2]))
    writer.write(f"{KEY}\r\n\r\n".encode())
    assert (await answer(reader))[0] == 400
    writer.close()
    await until(lambda: len(lines(stream)) == len(asked) + 1)
    said = [(x["method"], x["path"], x["status"], x["client"]) for x in lines(stream)]
    wanted = [(m, path.partition("?")[0], status, name) for m, path, _, status, name in asked]
    assert said == [*wanted, ("UNKNOWN", "/", 400, "-")]
    assert KEY.encode() not in stream.getvalue()


@pytest.mark.parametrize("format_", ["text", "json"])
async def test_no_secret_and_no_line_of_its_own_comes_from_a_request(
    kept: ServedGateway, format_: Any
) -> None:
    stream = io.BytesIO()
    targets = (f"/v1/tools?key={KEY}", f"/{KEY}", f"/v1/results/{KEY}?{KEY}", '/a"%0a2026', "/%00")
    with set_up(format_, stream):
        for target in targets:
            reader, writer = await asyncio.open_connection(*kept.url[7:].split(":"))
            head = f"GET {target} HTTP/1.1\r\nHost: localhost\r\nCookie: {KEY}\r\n"
            writer.write(f"{head}X-Finport-Client: {KEY}\r\nUser-Agent: {KEY}\r\n\r\n".encode())
            await answer(reader)
            writer.close()
        await until(lambda: stream.getvalue().count(b"\n") == len(targets))
    assert KEY.encode() not in stream.getvalue()
    assert format_ == "json" or b'"GET /a%22%0a2026" 401 ' in stream.getvalue()


def test_of_an_address_in_place_of_a_path_nothing_is_shown(catalog: Catalog) -> None:
    assert shown_path("http://user:pw@h/x", catalog) == "***"
    assert shown_path("*", catalog) == "*"


def test_a_path_is_shown_as_far_as_it_is_known(catalog: Catalog) -> None:
    assert shown_path("/v1/tools/stock_zh_a_hist_min_em?x=1", catalog).startswith("/v1/tools/stock")
    assert shown_path(f"/a/{'k' * 16}/b", catalog) == "/a/***/b"
    assert shown_path("/\udcff\n\x1b", catalog) == "/\\udcff\n\x1b"  # which logs escape
    assert len(shown_path("/x" * 5_000, catalog)) == MAX_PATH
    assert KEY[:4] not in shown_path("/" * (MAX_PATH - 8) + KEY, catalog)


async def test_a_flood_of_unknown_callers_is_bounded_and_the_rest_is_counted(
    kept: ServedGateway, stream: io.BytesIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "UNKNOWN", 3)
    monkeypatch.setattr(access, "WINDOW_S", 0.2)

    def counted() -> tuple[int, int]:
        """Lines of unknown callers, and how many more the log says were left out."""
        said = lines(stream)
        told = [int(line["message"].split()[0]) for line in said if "message" in line]
        return sum(line.get("status") == 401 for line in said), sum(told)

    for _ in range(20):
        async with kept.client.get(f"{kept.url}/v1/tools") as got:
            assert got.status == 401
        async with kept.client.get(f"{kept.url}/v1/tools?limit=1", headers=CALLER) as got:
            assert got.status == 200
    await until(lambda: sum(counted()) == 20)
    assert sum(line.get("status") == 200 for line in lines(stream)) == 20


async def test_what_was_left_out_is_told_at_the_end(
    catalog: Catalog, tmp_path: Path, stream: io.BytesIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "UNKNOWN", 2)
    monkeypatch.setattr(access, "WINDOW_S", 3_600)
    keys = (SecretStr(KEY),)
    async with open_served_gateway(catalog, tmp_path, access_log=True, api_keys=keys) as served:
        for _ in range(5):
            async with served.client.get(f"{served.url}/v1/tools") as got:
                assert got.status == 401
    await until(lambda: len(lines(stream)) == 3)
    assert lines(stream)[-1]["message"].startswith("3 requests of callers who may not call")


async def test_a_client_that_goes_away_has_its_line(
    catalog: Catalog, tmp_path: Path, stream: io.BytesIO
) -> None:
    async with open_served_gateway(catalog, tmp_path, access_log=True) as served:
        play(served.local, hang_rate=1.0)
        call = asyncio.create_task(served.call("get_coin", {"uuid": "x"}))
        await until(served.local.simulator.requests.total)
        call.cancel()
        await until(lambda: lines(stream))
    (line,) = lines(stream)
    assert (line["status"], line["bytes"], line["path"]) == (499, 0, "/v1/tools/get_coin")


async def test_nothing_is_written_unless_it_is_asked_for(
    served: ServedGateway, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        await served.call("get_coin", {"uuid": "x"})
    assert not [record for record in caplog.records if record.name == ACCESS]

"""Tables for people over HTTP: CSV and Arrow, with all that the envelope says beside them."""

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web

from manifests import Catalog
from tests.support.gateways import ServedGateway, open_served_gateway
from tests.support.upstreams import Handler, upstream

pytestmark = pytest.mark.anyio

ARROW = "application/vnd.apache.arrow.stream"
TOOL = "stock_zh_a_hist"
COIN = "get_coin"
HIST = {"symbol": "600519", "start_date": "20230101", "end_date": "20240630"}


async def rows(served: ServedGateway) -> list[dict[str, Any]]:
    url = f"{served.url}/v1/tools/{TOOL}?max_rows=10000"
    async with served.client.post(url, json=HIST) as got:
        data: list[dict[str, Any]] = (await got.json())["data"]
        return data


async def test_a_table_is_whole_as_csv(served: ServedGateway) -> None:
    expected = await rows(served)
    url = f"{served.url}/v1/tools/{TOOL}"
    async with served.client.post(url, json=HIST, headers={"Accept": "text/csv"}) as got:
        assert (got.status, got.content_type) == (200, "text/csv")
        assert "Accept" in got.headers.getall("Vary")
        envelope = json.loads(got.headers["X-Finport-Envelope"])
        found = [*csv.DictReader(io.StringIO(await got.text(), newline=""))]
    assert found == [{name: str(cell) for name, cell in row.items()} for row in expected]
    assert envelope["rows"] == len(expected) == 359
    assert envelope["provenance"]["upstream"] == "live"
    assert not envelope["truncated"]


async def test_a_table_is_whole_as_an_arrow_stream(served: ServedGateway) -> None:
    arrow = pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    url = f"{served.url}/v1/tools/{TOOL}"
    async with served.client.post(url, json=HIST, headers={"Accept": ARROW}) as got:
        assert got.content_type == ARROW
        table = arrow.ipc.open_stream(await got.read()).read_all()
    assert table.to_pylist() == await rows(served)


async def test_pages_link_to_the_next(served: ServedGateway) -> None:
    async with served.client.post(f"{served.url}/v1/tools/{TOOL}?max_rows=1", json=HIST) as got:
        handle = (await got.json())["handle"]
    url = (
        f"/v1/results/{handle}?where=%E6%94%B6%E7%9B%98+%3E+0&columns=%E6%97%A5%E6%9C%9F&limit=150"
    )
    found: list[str] = []
    while url:
        async with served.client.get(served.url + url, headers={"Accept": "text/csv"}) as got:
            assert got.status == 200
            found += (await got.text()).splitlines()[1:]
            url = got.headers.get("Link", "").partition(">")[0].lstrip("<")
    assert found == [row["日期"] for row in await rows(served)]


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("*/*", "application/json"),
        ("text/html,*/*;q=0.8", "application/json"),
        ("application/json, text/csv;q=0.5", "application/json"),
        ("text/csv;q=0", "application/json"),
        ("application/json;q=0.5, text/csv", "text/csv"),
        (f"text/csv, {ARROW};q=0.5", "text/csv"),
        ("Application/JSON;Q=0.5, TEXT/CSV", "text/csv"),
    ],
)
async def test_the_preferred_form_is_sent(served: ServedGateway, accept: str, kind: str) -> None:
    url = f"{served.url}/v1/tools/{TOOL}?max_rows=2"
    async with served.client.post(url, json=HIST, headers={"Accept": accept}) as got:
        assert (got.status, got.content_type) == (200, kind)


@pytest.mark.parametrize(
    ("tool", "arguments", "query", "status", "said"),
    [
        ("get_coin", {"uuid": "x"}, "", 406, "is a document"),
        (TOOL, HIST, "?max_tokens=100", 406, "is a text"),
        (TOOL, {"symbol": []}, "", 422, "symbol"),
    ],
)
async def test_what_is_no_table_says_so_in_json(
    served: ServedGateway, tool: str, arguments: dict[str, Any], query: str, status: int, said: str
) -> None:
    url = f"{served.url}/v1/tools/{tool}{query}"
    async with served.client.post(url, json=arguments, headers={"Accept": "text/csv"}) as got:
        assert got.status == status
        assert said in (await got.json())["error"]["message"]


def sending(body: Callable[[str], str]) -> Handler:
    """An upstream that sends a body for each coin."""

    async def answer(request: web.Request) -> web.Response:
        text = body(request.path.rsplit("/", 1)[-1])
        return web.Response(text=text, content_type="application/json")

    return answer


LONG = "7" * 400
ODD: dict[str, tuple[str, object]] = {
    "400-digits": (LONG, LONG),
    "5000-digits": ("-" + "7" * 5_000, "-" + "7" * 5_000),
    "over-64-bits": (f"{2**64}", f"{2**64}"),
    "64-bits": (f"{2**64 - 1}", 2**64 - 1),
    "over-a-double": ("1e400", "1e400"),
    "infinity": ("-Infinity", None),
    "half-a-character": ('"\\ud800"', "\ufffd"),
}


@pytest.mark.parametrize("mode", ["live", "record"])
async def test_whatever_number_an_upstream_sends_every_form_of_the_answer_has_it(
    catalog: Catalog, tmp_path: Path, mode: str
) -> None:
    settings = {"mode": mode, "snapshot": tmp_path / "s.snap" if mode == "record" else None}

    def body(name: str) -> str:
        rows = (f'{{"k":{n},"a":{ODD[name][0]}}}' for n in range(9))
        return f"[{','.join(rows)}]"

    async with (
        upstream(sending(body)) as origin,
        open_served_gateway(catalog, tmp_path, rapidapi_base_url=origin, **settings) as served,
    ):
        for name, (_, value) in ODD.items():
            await check_forms(served, name, value, has_handle=mode == "live")


async def check_forms(served: ServedGateway, name: str, value: object, *, has_handle: bool) -> None:
    """Every form of the answer about a coin has this value in all rows."""
    url, text = f"{served.url}/v1/tools/{COIN}", "" if value is None else str(value)

    async def asked(query: str = "", **head: str) -> bytes:
        async with served.client.post(url + query, json={"uuid": name}, headers=head) as got:
            assert got.status == 200, name
            return await got.read()

    answer = orjson.loads(await asked("?max_rows=1"))
    assert answer["data"] == [{"k": 0, "a": value}]
    rows = csv.DictReader(io.StringIO((await asked(Accept="text/csv")).decode()))
    assert [row["a"] for row in rows] == [text] * 9
    short = orjson.loads(await asked("?max_tokens=50"))
    assert short["compression"]["tokens"] <= 50
    assert {*re.findall(r"\d{10,}", str(short["data"]))} <= {text.lstrip("-")}, name
    result = await served.local.gateway.call(COIN, {"uuid": name})
    assert result.value[0] == {"k": 0, "a": value}
    if has_handle:
        compared = "< -5" if len(text) > 1_000 else f"= '{text}' and a > 1"
        where = f"a {compared} and k > 6" if value != "\ufffd" else f"a = '{value}' and k > 6"
        where = where if text else "a is null and k > 6"
        page = f"{served.url}/v1/results/{answer['handle']}"
        async with served.client.get(page, params={"where": where, "columns": "a"}) as got:
            assert orjson.loads(await got.read())["data"] == [{"a": value}] * 2
    arrow = pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    cells = arrow.ipc.open_stream(await asked(Accept=ARROW)).read_all().column("a").to_pylist()
    # in Arrow integers over 63 bits are texts
    assert [None if cell is None else str(cell) for cell in cells] == [text or None] * 9


async def test_records_with_hardly_a_name_in_common_are_no_table_once_they_are_many(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adapters.normalise.MAX_VALUES", 128**2)

    def wide(count: str) -> str:
        return json.dumps([{f"k{n}": n} for n in range(int(count))])

    async with (
        upstream(sending(wide)) as origin,
        open_served_gateway(catalog, tmp_path, rapidapi_base_url=origin) as served,
    ):
        url, head = f"{served.url}/v1/tools/{COIN}", {"Accept": "text/csv"}
        async with served.client.post(url, json={"uuid": "128"}, headers=head) as got:
            assert got.status == 200
            assert (await got.text()).count("\n") == 129
        async with served.client.post(url, json={"uuid": "129"}, headers=head) as got:
            assert got.status == 406
            assert "is a document" in (await got.json())["error"]["message"]

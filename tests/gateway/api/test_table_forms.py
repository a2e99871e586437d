"""Tables for people over HTTP: CSV and Arrow, with all that the envelope says beside them."""

import csv
import io
import json
from typing import Any

import pytest

from tests.support.gateways import ServedGateway

pytestmark = pytest.mark.anyio

ARROW = "application/vnd.apache.arrow.stream"
TOOL = "stock_zh_a_hist"
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
    assert envelope["rows"] == len(expected) == 250
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

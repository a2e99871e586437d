"""What a client says it accepts is what it gets, by RFC 9110's qualities."""

from typing import Any

import pytest
from multidict import CIMultiDict
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain_text

from tests.support.gateways import ServedGateway
from tests.support.mcp_messages import request

pytestmark = pytest.mark.anyio

PING = request("ping")


async def coding(served: ServedGateway, path: str, *accepted: str) -> str | None:
    headers = CIMultiDict([("Accept-Encoding", text) for text in accepted])
    async with served.client.get(
        served.url + path, headers=headers, skip_auto_headers=("Accept-Encoding",)
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
    (("br;q=1, *;q=0.1",), "br", None),
    (("br", "gzip;q=0.5"), "br", None),
    (("gzip, deflate, br, zstd",), "zstd", None),
    (("gzip;q=0.9, br;q=0.8",), "gzip", None),
    (("zstd;q=0, gzip, br;q=0.5",), "gzip", None),
    (("identity;q=0, br",), "br", "br"),
    (("zstd;q=0, br;q=0, *",), "gzip", None),
    (("gzip;q=0",), None, None),
    (("gzip; q=0.000, deflate",), None, None),
    (("gzip;q=0, *",), "zstd", None),
    (("*",), "zstd", None),
    (("*;q=0",), None, None),
    (("notgzip",), None, None),
    (("gzip;q=0.5, identity",), None, None),
    (("gzip;q=nonsense",), None, None),
    (("identity;q=0, gzip",), "gzip", "gzip"),
    (("gzip, *;q=0",), "gzip", "gzip"),
    (("identity;q=0",), None, None),
]
"""What is accepted, and how a long and a short answer to that are coded."""


async def test_an_answer_is_coded_as_its_client_accepts(served: ServedGateway) -> None:
    found = [
        (
            accepted,
            await coding(served, "/v1/tools?limit=1000", *accepted),
            await coding(served, "/v1/tools?limit=1", *accepted),
        )
        for accepted, _, _ in CODINGS
    ]
    assert found == CODINGS


@pytest.mark.parametrize("name", ["zstd", "br", "gzip"])
async def test_clients_read_answers_that_were_coded(served: ServedGateway, name: str) -> None:
    tool = f"{served.url}/v1/tools/stock_zh_a_hist"
    arguments = {"symbol": "600519"}
    async with served.client.post(tool, json=arguments) as got:
        expected = (await got.json())["data"]
    for _ in range(2):
        async with served.client.post(
            f"{tool}?max_rows=100", json=arguments, headers={"Accept-Encoding": name}
        ) as got:
            assert got.headers["Content-Encoding"] == name
            assert ", ".join(got.headers.getall("Vary")) == "Accept, Accept-Encoding"
            assert (await got.json())["data"] == expected


async def test_answers_say_which_headers_choose_their_form(served: ServedGateway) -> None:
    tool = f"{served.url}/v1/tools/stock_zh_a_hist?max_rows=1"
    head = {"Accept-Encoding": "identity;q=0"}  # no coding of ours: the body is sent as it is
    for _ in range(2):  # the second answer is sent as ready bytes
        async with served.client.post(tool, json={"symbol": "600519"}, headers=head) as got:
            assert (got.status, got.headers.get("Content-Encoding")) == (200, None)
            assert ", ".join(got.headers.getall("Vary")) == "Accept, Accept-Encoding"
            handle = (await got.json())["handle"]
    for path, names in (
        (f"/v1/results/{handle}", "Accept, Accept-Encoding"),
        ("/v1/tools?limit=1", "Accept-Encoding"),
    ):
        tag = ""
        for status in (200, 304):
            url = f"{served.url}{path}"
            async with served.client.get(url, headers={"If-None-Match": tag}) as got:
                assert (got.status, ", ".join(got.headers.getall("Vary"))) == (status, names)
                tag = got.headers["ETag"]


async def test_mcp_is_spoken_with_those_who_accept_json(served: ServedGateway) -> None:
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
        async with served.client.post(f"{served.url}/mcp", json=PING, headers=headers) as got:
            found[accepted] = got.status
    assert found == expected


PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
PLAIN, OPEN = "text/plain; version=0.0.4", "application/openmetrics-text; version=1.0.0"


@pytest.mark.parametrize(
    ("accept", "given"),
    [
        ((), PLAIN),
        (("*/*",), PLAIN),
        (("text/plain",), PLAIN),
        (("application/json",), PLAIN),
        ((PROMETHEUS_2,), OPEN),
        ((PROMETHEUS_3,), OPEN),
        (("application/openmetrics-text",), OPEN),
        (('Application/OpenMetrics-Text; Version="1.0.0"; charset=utf-8',), OPEN),
        (("application/openmetrics-text", "text/plain"), OPEN),
        (("text/plain", "application/openmetrics-text;q=0.9"), PLAIN),
        (("application/openmetrics-text;q=0.4, text/*;q=0.5",), PLAIN),
        (("application/openmetrics-text;q=0.4, text/plain;q=0.3, */*;q=0.5",), OPEN),
        (("application/openmetrics-text;q=0",), PLAIN),
        (("application/openmetrics-text;q=nonsense",), PLAIN),
        (("application/openmetrics-text;version=0.0.1, text/plain;q=0.1",), OPEN),
    ],
)
async def test_figures_come_in_the_format_that_is_asked_for(
    served: ServedGateway, accept: tuple[str, ...], given: str
) -> None:
    headers = CIMultiDict([("Accept", text) for text in accept])
    async with served.client.get(
        f"{served.url}/metrics", headers=headers, skip_auto_headers=("Accept",)
    ) as got:
        text = await got.text()
    assert got.headers["Content-Type"] == f"{given}; charset=utf-8"
    parsed: Any = openmetrics if given == OPEN else plain_text
    assert "finport_loop_lag_seconds" in {family.name for family in parsed(text)}
    assert text.endswith("# EOF\n") == (given == OPEN)

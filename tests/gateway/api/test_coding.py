"""Coded bodies are what they were, also where a kept part is put between fresh ones."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.api import coding
from gateway.api.coding import KeptMiddles
from tests.support.gateways import ServedGateway

pytestmark = pytest.mark.anyio

texts = st.binary(max_size=300) | st.builds(
    lambda text, times: text * times, st.binary(min_size=1, max_size=40), st.integers(0, 4_000)
)


@given(texts, texts, texts)
def test_three_parts_are_one_member(before: bytes, middle: bytes, behind: bytes) -> None:
    inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
    member = coding._gzip_member(before, middle, behind, coding._deflated(middle))
    assert inflate.decompress(member) + inflate.flush() == before + middle + behind
    assert inflate.eof
    assert not inflate.unused_data


async def test_a_kept_part_is_compressed_once_and_bounded() -> None:
    kept = KeptMiddles()
    text = bytes(range(256)) * 4_000
    assert await kept.get(text) is await kept.get(text)
    for number in range(40):
        await kept.get(text[number:])
    assert kept.size <= coding.KEPT_BYTES


@pytest.mark.parametrize("name", ["zstd", "br", "gzip"])
async def test_clients_read_answers_that_were_coded(served: ServedGateway, name: str) -> None:
    tool = f"{served.url}/v1/tools/stock_zh_a_hist"
    arguments = {"symbol": "000001"}
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
        async with served.client.post(tool, json={"symbol": "000001"}, headers=head) as got:
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

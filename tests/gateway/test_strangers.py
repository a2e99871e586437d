"""A gateway with keys under requests without one: what they are given, and what it costs others."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from pydantic import SecretStr

from gateway import connection, http, strangers
from gateway.strangers import Strangers
from manifests import Catalog
from tests.conftest import Door, open_road
from tests.gateway.test_serve import answer

pytestmark = pytest.mark.anyio

KEY = {"Authorization": "Bearer k1"}
HEAD = "POST /v1/tools/get_coin HTTP/1.1\r\nHost: localhost\r\n"
MiB = 2**20


@pytest.fixture
async def kept(catalog: Catalog, tmp_path: Path) -> AsyncIterator[Door]:
    """A gateway that knows a key, and a client without one."""
    keys = (SecretStr("a=k1"),)
    async with (
        open_road(catalog, tmp_path, api_keys=keys, mode="live") as road,
        http.serve(road.gateway) as url,
        aiohttp.ClientSession() as client,
    ):
        yield Door(url, road, client)


async def status(door: Door, path: str, headers: dict[str, str] | None = None) -> int:
    async with door.client.get(door.url + path, headers=headers) as got:
        await got.read()
        return got.status


async def send(writer: asyncio.StreamWriter, megabytes: int) -> None:
    for _ in range(megabytes):
        writer.write(bytes(MiB))
        await writer.drain()


async def test_a_flood_from_one_address_does_not_keep_another_waiting() -> None:
    turns, served = Strangers(), list[str]()

    async def ask(address: str) -> None:
        async with turns.turn(address):
            await asyncio.sleep(0)
            served.append(address)

    await asyncio.gather(*(ask("a") for _ in range(40)), ask("b"))
    assert served.index("b") < 3


async def test_who_has_a_key_is_served_while_strangers_wait(
    kept: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("LEAST_S", 3_600), ("MOST_S", 3_600), ("BURST_S", 0), ("WAIT_S", 0.05)):
        monkeypatch.setattr(strangers, name, value)
    assert await status(kept, "/v1/tools?limit=1") == 401
    for path in ("/v1/tools?limit=1", "/", "/openapi.json", "/readyz", "/nowhere"):
        assert await status(kept, path) == 503
        assert await status(kept, path, KEY) == (404 if path == "/nowhere" else 200)
    reader, writer = await asyncio.open_connection("127.0.0.1", int(kept.url.rpartition(":")[2]))
    writer.write(b"no HTTP\r\n\r\n")
    assert (await answer(reader))[0] == 503
    writer.close()
    async with kept.client.post(f"{kept.url}/v1/tools/get_coin", headers=KEY, data="{}") as got:
        assert got.status != 503


async def test_tools_are_described_to_those_who_have_a_key(kept: Door) -> None:
    assert await status(kept, "/openapi.json") == 200
    assert await status(kept, "/openapi.json?tools=domain:bond") == 401
    assert await status(kept, "/openapi.json?tools=domain:bond", KEY) == 200


async def test_the_long_body_of_a_refused_request_is_not_read(
    kept: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "REST_S", 0.2)
    for head in (f"Content-Length: {2**40}", "Transfer-Encoding: chunked"):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", int(kept.url.rpartition(":")[2])
        )
        writer.write(f"{HEAD}{head}\r\n\r\n{MiB:x}\r\n".encode())
        code, said, _ = await answer(reader)
        assert (code, "connection: close" in said) == (401, True)
        with pytest.raises(ConnectionError):
            await send(writer, 64)
        writer.close()


async def test_the_short_body_of_a_refused_request_leaves_its_connection_open(kept: Door) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(kept.url.rpartition(":")[2]))
    for _ in range(2):
        writer.write(f"{HEAD}Content-Length: 2\r\n\r\n".encode())
        assert (await answer(reader))[0] == 401
        writer.write(b"{}")
    writer.close()

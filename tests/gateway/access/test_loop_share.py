"""A gateway with keys under requests without one: what they are given, and what it costs others."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from multidict import CIMultiDict
from pydantic import SecretStr

from gateway import GatewaySettings
from gateway.access import keys, loop_share
from gateway.access.clients import Clients
from gateway.access.guard import Guard
from gateway.access.loop_share import LoopShare
from gateway.server import connection
from gateway.settings import SettingsError
from manifests import Catalog
from tests.support.gateways import ServedGateway, open_served_gateway
from tests.support.servers import answer

pytestmark = pytest.mark.anyio

KEY = {"Authorization": "Bearer k1"}
SCRAPER = {"Authorization": "Bearer m1"}
CLASH: dict[str, Any] = {"metrics_key": SecretStr("m1"), "api_keys": (SecretStr("x=m1"),)}
HEAD = "POST /v1/tools/get_coin HTTP/1.1\r\nHost: localhost\r\n"
MiB = 2**20


@pytest.fixture
async def kept(catalog: Catalog, tmp_path: Path) -> AsyncIterator[ServedGateway]:
    """A gateway that knows a key, and a client without one."""
    keys = {"api_keys": (SecretStr("a=k1"),), "metrics_key": SecretStr(" m1 ")}
    async with open_served_gateway(catalog, tmp_path, **keys) as served:
        yield served


async def status(served: ServedGateway, path: str, headers: Mapping[str, str] | None = None) -> int:
    async with served.client.get(served.url + path, headers=headers) as got:
        return got.status


async def send(writer: asyncio.StreamWriter, megabytes: int) -> None:
    for _ in range(megabytes):
        writer.write(bytes(MiB))
        await writer.drain()


async def test_a_flood_from_one_address_does_not_keep_another_waiting() -> None:
    slots, order = LoopShare(0.02, "requests"), list[str]()

    async def ask(address: str) -> None:
        async with slots.slot(address):
            await asyncio.sleep(0)
            order.append(address)

    await asyncio.gather(*(ask("a") for _ in range(40)), ask("b"))
    assert order.index("b") < 3


async def test_who_has_a_key_is_served_while_strangers_wait(
    kept: ServedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("LEAST_S", 3_600), ("MOST_S", 3_600), ("BURST_S", 0), ("WAIT_S", 0.05)):
        monkeypatch.setattr(loop_share, name, value)
    assert await status(kept, "/v1/tools?limit=1") == 401
    assert await status(kept, "/metrics", {"Authorization": "Bearer wrong"}) == 503
    for path in ("/metrics", "/healthz", "/readyz"):
        assert await status(kept, path, SCRAPER) == 200
    for path in ("/v1/tools?limit=1", "/", "/openapi.json", "/readyz", "/nowhere"):
        assert await status(kept, path) == 503
        assert await status(kept, path, KEY) == (404 if path == "/nowhere" else 200)
    reader, writer = await asyncio.open_connection(*kept.url[7:].split(":"))
    writer.write(b"no HTTP\r\n\r\n")
    assert (await answer(reader))[0] == 503
    writer.close()
    assert (await kept.ask("/v1/tools/get_coin", {}, KEY))[0] != 503


async def test_the_key_of_the_figures_opens_nothing_else(kept: ServedGateway) -> None:
    opened = {path: await status(kept, path, SCRAPER) for path in ("/metrics", "/metrics?x=1")}
    assert set(opened.values()) == {200}
    assert await status(kept, "/metrics", KEY) == 200
    assert await status(kept, "/metrics") == 401
    for path in ("/v1/tools?limit=1", "/v1/results/0", "/mcp", "/metrics/", "//metrics", "/x"):
        assert await status(kept, path, SCRAPER) == 401, path
    for path in ("/v1/tools/get_coin", "/v1/calls", "/mcp", "/metrics"):
        status_, _ = await kept.ask(path, {}, SCRAPER)
        assert status_ == (405 if path == "/metrics" else 401), path
    assert await kept.ask("/healthz", None, SCRAPER) == (200, {"status": "ok"})
    _, refused = await kept.ask("/v1/tools", None, SCRAPER)
    assert "opens /metrics and nothing else" in refused["error"]["message"]
    for wrong in ("", "m", "m1x", "M1"):
        assert await status(kept, "/metrics", {"Authorization": f"Bearer {wrong}"}) == 401
    two = CIMultiDict([("Authorization", "Bearer m1"), ("Authorization", "Bearer k1")])
    assert await status(kept, "/metrics", two) == 401
    assert await status(kept, "/metrics", {**SCRAPER, "Host": "evil.example"}) == 403


async def test_the_key_of_the_figures_closes_nothing_and_is_no_clients(
    catalog: Catalog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_served_gateway(catalog, tmp_path, metrics_key=SecretStr("m1")) as served:
        assert "metrics_key closes nothing" in caplog.text
        assert await status(served, "/metrics") == 200
        assert (await served.call("get_coin", {"uuid": "x"}))[0] == 200
    (tmp_path / "clients.json").unlink(missing_ok=True)
    key, _ = keys.add(tmp_path / "clients.json", "desk")
    for settings in ({"metrics_key": SecretStr(key)}, CLASH):
        chosen = GatewaySettings(cache_dir=tmp_path, **settings)
        with pytest.raises(SettingsError, match="metrics_key: it is the key of client") as caught:
            Guard(chosen, Clients(chosen))
        assert key not in str(caught.value)
    assert GatewaySettings(metrics_key=SecretStr(" ")).metrics_key is None


async def test_the_long_body_of_a_refused_request_is_not_read(
    kept: ServedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "REST_S", 0.2)
    for head in (f"Content-Length: {2**40}", "Transfer-Encoding: chunked"):
        reader, writer = await asyncio.open_connection(*kept.url[7:].split(":"))
        writer.write(f"{HEAD}{head}\r\n\r\n{MiB:x}\r\n".encode())
        code, said, _ = await answer(reader)
        assert (code, "connection: close" in said) == (401, True)
        with pytest.raises(ConnectionError):
            await send(writer, 64)
        writer.close()


async def test_the_short_body_of_a_refused_request_leaves_its_connection_open(
    kept: ServedGateway,
) -> None:
    reader, writer = await asyncio.open_connection(*kept.url[7:].split(":"))
    for _ in range(2):
        writer.write(f"{HEAD}Content-Length: 2\r\n\r\n".encode())
        assert (await answer(reader))[0] == 401
        writer.write(b"{}")
    writer.close()

"""`finport serve` as one process: what it refuses, what it says, and how it ends."""

import asyncio
import errno
import select
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from adapters.simulator import Faults
from gateway.cli.serve import is_loopback
from gateway.server import http
from gateway.server import sockets as listening_socket
from gateway.settings import GatewaySettings, HostSettings
from gateway.upstreams.hosts import Hosts
from manifests import Catalog
from tests.support.gateways import LocalGateway, open_local_gateway
from tests.support.servers import (
    answer,
    coin,
    is_listening,
    not_ready,
    said_ready,
    server,
    stalling,
    start,
)
from tests.support.waiting import EARLY_S, PATIENCE_S, until

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *((host, True) for host in ("localhost", "127.0.0.1", "127.8.9.1", "127.1", "::1")),
        *((host, False) for host in ("", "0.0.0.0", "0", "::", "192.0.2.1", "nowhere.invalid")),
        *((host, False) for host in ("x" * 300, "a..b", "::ffff:0.0.0.0")),
    ],
)
def test_what_is_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


async def test_with_a_key_any_address_is_served(tmp_path: Path) -> None:
    options = ("--host", "0.0.0.0", "--until-stdin-closes")
    process = await start(tmp_path, *options, FINPORT_API_KEYS="mine=fp_0451")
    assert process.stdout is not None
    assert process.stdin is not None
    line = (await process.stdout.readline()).decode()
    assert line.startswith("finport ready on http://0.0.0.0:")
    port = line.rpartition(":")[2].strip()
    url = f"http://127.0.0.1:{port}/v1/tools"
    async with aiohttp.ClientSession() as client, client.get(url) as response:
        assert response.status == 401
    process.stdin.close()
    async with asyncio.timeout(PATIENCE_S):
        assert await process.wait() == 0
    await process.communicate()


async def test_a_call_that_takes_longer_than_the_drain_time_ends_as_overloaded(
    tmp_path: Path,
) -> None:
    told = {"FINPORT_DRAIN_S": "0.5", "FINPORT_SIMULATED_LATENCY_S": "600"}
    async with server(tmp_path, **told) as served:
        reader, writer = await asyncio.open_connection("localhost", served.port)
        writer.write(coin("x"))
        await served.called()
        began = time.monotonic()
        served.tell(signal.SIGTERM)
        status, head, body = await answer(reader)
        assert (status, body["error"]["code"]) == (503, "overloaded")
        assert "connection: close" in head
        assert await reader.read() == b""
        writer.close()
        assert await served.ended() == (0, "")
        assert time.monotonic() - began >= 0.5 - EARLY_S


async def test_a_gateway_that_gives_notice_is_not_ready_but_answers_new_calls(
    tmp_path: Path,
) -> None:
    async with server(tmp_path, FINPORT_DRAIN_NOTICE_S="600") as served:
        assert await said_ready(served.url) == (200, None)
        served.tell(signal.SIGTERM)
        await not_ready(served.url)
        assert await said_ready(served.url) == (503, "the gateway is about to end")
        for number in range(3):
            reader, writer = await asyncio.open_connection("localhost", served.port)
            writer.write(coin(f"new-{number}"))
            status, head, body = await answer(reader)
            assert (status, body["ok"], "connection: close" in head) == (200, True, False)
            writer.close()
        served.tell(signal.SIGTERM)
        assert await served.ended() == (-signal.SIGTERM, "")


async def test_a_gateway_drains_when_its_notice_is_over(tmp_path: Path) -> None:
    async with server(tmp_path, "--drain-notice", "0.5") as served:
        served.tell(signal.SIGTERM)
        began = time.monotonic()
        assert await served.ended() == (0, "")
        assert time.monotonic() - began >= 0.5 - EARLY_S


async def test_the_second_signal_ends_at_once(tmp_path: Path) -> None:
    told = {"FINPORT_DRAIN_S": "600", "FINPORT_SIMULATED_LATENCY_S": "600"}
    async with server(tmp_path, **told) as served:
        _, writer = await asyncio.open_connection("localhost", served.port)
        writer.write(coin("x"))
        await served.called()
        served.tell(signal.SIGINT)
        await until(lambda: not is_listening(served.port))
        assert served.process.returncode is None
        served.tell(signal.SIGTERM)
        assert await served.ended() == (-signal.SIGTERM, "")
        writer.close()


async def test_the_second_signal_ends_a_server_whose_event_loop_is_stalled(tmp_path: Path) -> None:
    async with server(tmp_path, **stalling(tmp_path / "stalling")) as served:
        served.tell(signal.SIGUSR1)
        await until((tmp_path / "stalling" / "stalled").exists)
        ended = asyncio.create_task(served.ended())
        while not ended.done():
            with suppress(ProcessLookupError):
                served.tell(signal.SIGTERM)  # two that are sent at once may arrive as one
            await asyncio.sleep(0.05)
        assert await ended == (-signal.SIGTERM, "")


@asynccontextmanager
async def ending(local: LocalGateway) -> AsyncIterator[tuple[int, asyncio.Event]]:
    """The port of a server within this process, and the event upon which serving ends."""
    loop, end = asyncio.get_running_loop(), asyncio.Event()
    port: asyncio.Future[int] = loop.create_future()

    async def serve() -> None:
        async with http.serve(local.gateway) as url:
            port.set_result(int(url.rpartition(":")[2]))
            await end.wait()

    serving = asyncio.create_task(serve())
    try:
        yield await port, end
    finally:
        end.set()
        await serving


@pytest.mark.parametrize("stands_s", [0.0, 1.2], ids=["at once", "after it stood still"])
async def test_connections_in_the_queue_are_answered_and_later_ones_refused(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stands_s: float
) -> None:
    monkeypatch.setattr(http, "LAST_S", 1.0)
    late = socket.socket()
    late.setblocking(False)

    def turn_away(listening: socket.socket) -> None:
        listening_socket.turn_away(listening)
        if sys.platform == "linux":  # it never comes into the queue, from which it would be reset
            assert late.connect_ex(listening.getsockname()) == errno.EINPROGRESS
        asyncio.get_running_loop().call_soon(time.sleep, stands_s)

    monkeypatch.setattr(http, "turn_away", turn_away)
    settings: dict[str, Any] = {"faults": Faults(latency_s=0.3), "drain_s": PATIENCE_S}
    async with (
        open_local_gateway(catalog, tmp_path, **settings) as local,
        ending(local) as (port, end),
    ):
        # Nothing is awaited: all of these wait in the queue when serving begins to end.
        queued = [socket.create_connection(("127.0.0.1", port)) for _ in range(200)]
        for number, connection in enumerate(queued):
            connection.sendall(coin(str(number % 5)))
        end.set()
        for connection in queued:
            reader, writer = await asyncio.open_connection(sock=connection)
            status, head, body = await answer(reader)
            assert (status, body["ok"]) == (200, True)
            assert "connection: close" in head
            writer.close()
    if sys.platform == "linux":
        await until(lambda: select.select([], [late], [], 0)[1])
        assert late.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED
    late.close()


async def test_a_slow_reader_gets_its_whole_answer_though_serving_ends(tmp_path: Path) -> None:
    async with server(tmp_path) as served:
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
        slow.connect(("127.0.0.1", served.port))  # the system takes 100 KB of the 478 at most
        slow.sendall(b"GET /v1/schemas/openai HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await until(lambda: select.select([slow], [], [], 0)[0])
        served.tell(signal.SIGTERM)
        await until(lambda: not is_listening(served.port))
        await asyncio.sleep(1)
        reader, writer = await asyncio.open_connection(sock=slow)
        status, _, schemas = await answer(reader)
        assert (status, len(schemas)) == (200, 752)
        writer.close()
        assert await served.ended() == (0, "")


async def test_one_of_several_processes_gives_its_connections_back_to_all(
    local: LocalGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "REQUESTS", 3)
    for workers, expected in ((2, [False, False, True]), (1, [False] * 4)):
        told = []
        async with http.serve(local.gateway, worker=http.Worker(0, workers)) as url:
            port = int(url.rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for _ in expected:
                writer.write(coin("x"))
                told.append("connection: close" in (await answer(reader))[1])
            writer.close()
        assert told == expected


async def test_limits_are_shared_out_among_workers(catalog: Catalog) -> None:
    host = "eastmoney.com"
    settings = GatewaySettings(
        max_concurrency_per_host=16,
        max_queue_per_host=5,
        max_connections=1,
        memory_bytes=0,
        hosts={host: HostSettings(concurrency=3, per_second=8, per_day=100)},
    )
    share = settings.share(4)
    assert share.max_concurrency_per_host == 4
    assert (share.max_queue_per_host, share.max_connections) == (2, 1)
    assert (share.max_pending_calls, share.akshare_workers, share.memory_bytes) == (2_500, 1, 0)
    assert share.hosts[host].concurrency == 1
    assert share.hosts[host].per_day == 100
    assert share.disk_bytes == settings.disk_bytes
    assert settings.share(1) == settings
    manifest = catalog.get("stock_zh_a_hist")
    assert manifest is not None
    for read, each_s in ((settings, 1 / 8), (share, 1 / 2)):
        pace = Hosts(read, read.hosts).of(manifest)._pace
        assert pace is not None
        assert pace.gap_s == each_s

"""Long answers and clients that read slowly or not at all."""

import asyncio
import csv
import io
import json
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gateway.api import sending
from gateway.server import connection
from manifests import Catalog
from tests.support.gate import memory
from tests.support.gateways import ServedGateway, open_keyed_gateway
from tests.support.upstreams import upstream
from tests.support.waiting import PATIENCE_S, turns

pytestmark = pytest.mark.anyio

MiB = 2**20
ROWS, TABLE = 64_000, 7_000_000
"""Rows of the table that upstream answers with, and less than its bytes: more than the system takes
from a sender.
"""


@asynccontextmanager
async def serving_tables(catalog: Catalog, folder: Path) -> AsyncIterator[ServedGateway]:
    """A gateway with the keys of two clients: any number of calls at once, and one."""
    rows = [{"n": n, "name": "NAME", "中文": "文" * 25} for n in range(ROWS)]
    whole = json.dumps(rows, ensure_ascii=False).encode()

    async def table(request: web.Request) -> web.Response:
        name = request.path.rpartition("/")[2].encode()
        return web.Response(body=whole.replace(b"NAME", name), content_type="application/json")

    clients = {"many": {}, "single": {"at_once": 1}}
    async with (
        upstream(table) as url,
        open_keyed_gateway(catalog, folder, clients, rapidapi_base_url=url) as (served, heads),
    ):
        for name, head in heads.items():
            served.client.headers[name] = head["Authorization"]  # for `asking`; read by no gateway
        yield served


@pytest.fixture(scope="module")
async def served(
    catalog: Catalog, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ServedGateway]:
    async with serving_tables(catalog, tmp_path_factory.mktemp("tables")) as opened:
        yield opened


def key_of(served: ServedGateway, client: str) -> str:
    return served.client.headers[client]


def asking(served: ServedGateway, client: str, uuid: str = "a", accept: str = "*/*") -> bytes:
    body = json.dumps({"uuid": uuid})
    return (
        f"POST /v1/tools/get_coin?max_rows=10000000 HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: {key_of(served, client)}\r\nAccept: {accept}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    ).encode()


class Reader:
    """A client whose system takes little, and which reads only when it is told to."""

    def __init__(self, served: ServedGateway) -> None:
        self._own = socket.socket()
        self._own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        host, port = served.url.removeprefix("http://").split(":")
        self._own.connect((host, int(port)))
        self._own.setblocking(False)

    async def begun(self, sent: bytes) -> int:
        """Send a request, read the head of its answer, return the status."""
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(self._own, sent)
        head = b""
        while b"\r\n\r\n" not in head:
            head += await loop.sock_recv(self._own, 1)
        return int(head[9:12])

    async def read(self, size: int) -> int:
        """Read so many bytes, and return how many came before the connection closed."""
        self._own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MiB)
        loop, left = asyncio.get_running_loop(), size
        while left and (more := await loop.sock_recv(self._own, left)):
            left -= len(more)
        return size - left

    def close(self) -> None:
        self._own.close()


async def test_connections_that_send_one_answer_share_its_bytes(served: ServedGateway) -> None:
    async with AsyncExitStack() as parts:
        first = Reader(served)
        parts.callback(first.close)
        assert await first.begun(asking(served, "many")) == 200
        before = memory()
        with turns() as longest:
            for n in range(30):
                reader = Reader(served)
                parts.callback(reader.close)
                accept = ("*/*", "text/csv")[n % 2]
                assert await reader.begun(asking(served, "many", accept=accept)) == 200
        assert memory() - before < 100 * MiB  # 30 copies are 210 MiB
        assert max(longest) < 0.1


async def test_a_slot_is_taken_until_the_answer_has_been_read(served: ServedGateway) -> None:
    line = b'{"tool":"get_coin","arguments":{"uuid":"a"}}'
    async with AsyncExitStack() as parts:
        batch = asking(served, "single").replace(b"/v1/tools/get_coin", b"/v1/calls")
        batch = batch.partition(b"Content-Length")[0]
        batch += b"Content-Length: %d\r\n\r\n%b" % (len(line), line)
        for sent in (asking(served, "single"), asking(served, "single", accept="text/csv"), batch):
            slow, other = Reader(served), Reader(served)
            parts.callback(slow.close)
            parts.callback(other.close)
            assert await slow.begun(sent) == 200
            assert await other.begun(asking(served, "single", "b")) == 429
            reading = asyncio.create_task(slow.read(20 * MiB))
            async with asyncio.timeout(PATIENCE_S):
                while await status(served, "single") != 200:
                    await asyncio.sleep(0.01)
            reading.cancel()
            slow.close()


async def status(served: ServedGateway, client: str) -> int:
    url, head = f"{served.url}/v1/tools/get_coin", {"Authorization": key_of(served, client)}
    async with served.client.post(url, data=b'{"uuid":"b"}', headers=head) as got:
        return got.status


async def test_the_oldest_of_the_client_with_most_gives_way(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "Outbox", lambda: sending.Outbox(20 * MiB))
    async with serving_tables(catalog, tmp_path) as served, AsyncExitStack() as parts:
        single, *many = [Reader(served) for _ in range(5)]
        for reader in (single, *many):
            parts.callback(reader.close)
        assert await single.begun(asking(served, "single", "mine")) == 200
        for n, reader in enumerate(many):
            assert await reader.begun(asking(served, "many", f"theirs {n}")) == 200
        for reader in many[:3]:
            assert await reader.read(TABLE) < TABLE
        for reader in (single, many[3]):
            assert await reader.read(TABLE) == TABLE


async def test_a_long_table_is_the_same_as_csv_in_every_coding(served: ServedGateway) -> None:
    url = f"{served.url}/v1/tools/get_coin"
    head = {"Authorization": key_of(served, "many"), "Accept": "text/csv"}
    found: list[list[dict[str, Any]]] = []
    for coding in ("identity", "gzip", "br", "zstd"):
        head["Accept-Encoding"] = coding
        async with served.client.post(url, data=b'{"uuid":"a"}', headers=head) as got:
            assert got.headers.get("Content-Encoding", "identity") == coding
            assert json.loads(got.headers["X-Finport-Envelope"])["rows"] == ROWS
            found.append([*csv.DictReader(io.StringIO(await got.text(), newline=""))])
    assert found[0] == found[1] == found[2] == found[3]
    assert [int(row["n"]) for row in found[0]] == [*range(10_000)][-len(found[0]) :]

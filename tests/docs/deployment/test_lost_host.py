"""Two hosts with a gateway each behind the proxies of docs/deployment, joined by real links."""

import asyncio
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.support.fleets import (
    BEGUN,
    DEPLOYMENT,
    GATEWAYS,
    METRICS_KEY,
    SENT,
    Calls,
    connected,
    needs,
    proxied,
)
from tests.support.namespaces import Network
from tests.support.servers import Server, server
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, needs("nginx"), needs("haproxy")]

CLIENTS = 16
KEY = "fp_0451"
HOSTS = [address.partition(":")[0] for address in GATEWAYS]
CLOSING = {"# option httpclose": "option httpclose"}


def tell(figures: str) -> None:
    sys.stdout.write(f"\n{figures}\n")


@dataclass
class Hosts:
    """Two hosts with a gateway each, and a front host with both proxies."""

    network: Network
    folder: Path
    parts: AsyncExitStack
    listens: dict[str, str]

    @classmethod
    @asynccontextmanager
    async def open(cls, folder: Path) -> AsyncIterator["Hosts"]:
        async with AsyncExitStack() as parts:
            network = await parts.enter_async_context(Network.open(*HOSTS))
            await network.set_front((DEPLOYMENT / "sysctl.conf").read_text())
            # The path of a socket is short, and leads into a namespace.
            sockets = parts.enter_context(tempfile.TemporaryDirectory())
            listens = {"nginx": f"unix:{sockets}/nginx", "haproxy": f"unix@{sockets}/haproxy"}
            yield cls(network, folder, parts, listens)

    async def start(self, host: str) -> Server:
        """Start the gateway of a host."""
        opened = server(
            self.folder / host,
            *("--host", host, "--port", "8000", "--simulated-latency-s", "0.05"),
            within=self.network.host(host),
            FINPORT_API_KEYS=f"load={KEY}",
            FINPORT_METRICS_KEY=METRICS_KEY,
            FINPORT_MAX_CONCURRENCY_PER_HOST="128",
        )
        return await self.parts.enter_async_context(opened)

    async def start_proxies(self) -> None:
        for proxy, listen in self.listens.items():
            changes = CLOSING if proxy == "haproxy" else {}
            running = proxied(proxy, self.folder, changes, listen, within=self.network.front)
            await self.parts.enter_async_context(running)

    @asynccontextmanager
    async def calling(self) -> AsyncIterator[dict[str, Calls]]:
        """Clients of each proxy."""
        async with AsyncExitStack() as parts:
            calls = {}
            for proxy, listen in self.listens.items():
                connect = partial(connected, listen)
                under_way = Calls.under_way(connect, CLIENTS, **{"X-Api-Key": KEY})
                calls[proxy] = await parts.enter_async_context(under_way)
            yield calls


async def answered(calls: dict[str, Calls], *pids: int) -> None:
    """Until clients of each proxy have answers of these processes."""
    await until(lambda: all({*pids} <= each.answered.keys() for each in calls.values()))


async def test_a_host_that_is_cut_off_takes_only_the_calls_on_the_wire(tmp_path: Path) -> None:
    async with Hosts.open(tmp_path) as hosts:
        gateways = await asyncio.gather(*map(hosts.start, HOSTS))
        await hosts.start_proxies()
        async with hosts.calling() as calls:
            await answered(calls, *(gateway.process.pid for gateway in gateways))
            await hosts.network.cut(HOSTS[1])
            for each in calls.values():
                await each.go_on()
    for proxy, each in calls.items():
        tell(f"{proxy}, one of two hosts cut off: {each}")
        assert each.answered.total() + each.failed == each.sent
        assert each.failed <= 2 * CLIENTS
        assert each.errors.keys() <= SENT
        assert each.lost.keys() <= BEGUN


@pytest.mark.soak
async def test_restarts_on_other_hosts_lose_no_call_and_a_mended_host_is_used_again(
    tmp_path: Path,
) -> None:
    async with Hosts.open(tmp_path) as hosts:
        gateways = await asyncio.gather(*map(hosts.start, HOSTS))
        await hosts.start_proxies()
        async with hosts.calling() as calls:
            await answered(calls, *(gateway.process.pid for gateway in gateways))
            for index in (0, 1, 0, 1, 0, 1):
                gateways[index].tell(signal.SIGTERM)
                assert (await gateways[index].ended())[0] == 0
                gateways[index] = await hosts.start(HOSTS[index])
                await answered(calls, gateways[index].process.pid)
        for proxy, each in calls.items():
            tell(f"{proxy}, gateways on two hosts restarted three times without a notice: {each}")
            assert each.answered.total() == each.sent
        async with hosts.calling() as calls:
            pids = [gateway.process.pid for gateway in gateways]
            await answered(calls, *pids)
            await hosts.network.cut(HOSTS[1])
            for each in calls.values():
                await each.go_on()
                del each.answered[pids[1]]
            await hosts.network.mend(HOSTS[1])
            await answered(calls, *pids)

"""Two hosts with a gateway each behind the proxies of docs/deployment; one host is cut off."""

import asyncio
import sys
import tempfile
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest

from tests.support.fleets import (
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
from tests.support.servers import server
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, needs("nginx"), needs("haproxy")]

CLIENTS = 16
KEY = "fp_0451"


async def test_a_host_that_is_cut_off_takes_only_the_calls_on_the_wire(tmp_path: Path) -> None:
    told = {
        "FINPORT_API_KEYS": f"load={KEY}",
        "FINPORT_METRICS_KEY": METRICS_KEY,
        "FINPORT_MAX_CONCURRENCY_PER_HOST": "128",
    }
    hosts = [address.partition(":")[0] for address in GATEWAYS]
    async with AsyncExitStack() as parts:
        network = await parts.enter_async_context(Network.open(*hosts))
        await network.set_front((DEPLOYMENT / "sysctl.conf").read_text())
        options = ("--port", "8000", "--simulated-latency-s", "0.05")
        opened = (
            server(tmp_path / host, "--host", host, *options, within=network.host(host), **told)
            for host in hosts
        )
        gateways = await asyncio.gather(*map(parts.enter_async_context, opened))
        pids = {gateway.process.pid for gateway in gateways}

        # The path of a socket is short, and leads into a namespace.
        folder = parts.enter_context(tempfile.TemporaryDirectory())
        calls: dict[str, Calls] = {}
        clients = await parts.enter_async_context(AsyncExitStack())
        closing = {"# option httpclose": "option httpclose"}
        for proxy, prefix, changes in (("nginx", "unix:", {}), ("haproxy", "unix@", closing)):
            listen = f"{prefix}{folder}/{proxy}"
            running = proxied(proxy, tmp_path, changes, listen, within=network.front)
            await parts.enter_async_context(running)
            under_way = Calls.under_way(partial(connected, listen), CLIENTS, **{"X-Api-Key": KEY})
            calls[proxy] = await clients.enter_async_context(under_way)
        await until(lambda: all(pids <= each.answered.keys() for each in calls.values()))

        await network.cut(hosts[1])
        for each in calls.values():
            await each.go_on()
        await clients.aclose()

    for proxy, each in calls.items():
        sys.stdout.write(f"\n{proxy}, one of two hosts cut off: {each}\n")
        assert each.answered.total() + each.failed == each.sent
        assert each.failed <= CLIENTS
        assert each.errors.keys() <= SENT
        assert not each.lost

"""Gateways are restarted and killed behind the proxies of docs/deployment while clients call."""

import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.support.fleets import (
    CLOSED,
    METRICS_KEY,
    SENT,
    Calls,
    Fleet,
    connected,
    needs,
    own_address,
    proxied,
)
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, needs("nginx"), needs("haproxy")]

CLIENTS = 16
PROXIES = ("nginx", "haproxy")


def tell(figures: str) -> None:
    sys.stdout.write(f"\n{figures}\n")


@asynccontextmanager
async def calling(addresses: dict[str, str], fleet: Fleet) -> AsyncIterator[dict[str, Calls]]:
    """Clients of each proxy, which reach both gateways."""
    async with AsyncExitStack() as parts:
        calls = {}
        for proxy, listen in addresses.items():
            under_way = Calls.under_way(partial(connected, listen), CLIENTS)
            calls[proxy] = await parts.enter_async_context(under_way)
        await until(lambda: all(fleet.pids <= each.answered.keys() for each in calls.values()))
        yield calls


async def answered(pid: int, calls: dict[str, Calls]) -> None:
    """Until clients of each proxy have answers of a process."""
    await until(lambda: all(each.answered[pid] for each in calls.values()))


async def test_restarts_lose_no_call_and_a_kill_only_those_on_the_wire(tmp_path: Path) -> None:
    addresses = {proxy: f"{own_address()}:8080" for proxy in PROXIES}
    options = ("--simulated-latency-s", "0.05", "--drain-notice", "2")
    told = {"FINPORT_METRICS_KEY": METRICS_KEY, "FINPORT_MAX_CONCURRENCY_PER_HOST": "128"}
    async with AsyncExitStack() as parts:
        fleet = await parts.enter_async_context(Fleet.open(tmp_path, *options, **told))
        for proxy, listen in addresses.items():
            await parts.enter_async_context(proxied(proxy, tmp_path, fleet.changes(), listen))

        async with calling(addresses, fleet) as calls:
            for index in range(2):
                new = await fleet.restart(index)
                await answered(new, calls)
        for proxy, each in calls.items():
            tell(f"{proxy}, one gateway restarted after the other: {each}")
            assert len(each.answered) == 4
            assert each.answered.total() == each.sent

        async with calling(addresses, fleet) as calls:
            killed = fleet.servers[0].process
            killed.send_signal(signal.SIGKILL)
            await killed.wait()
            for each in calls.values():
                await each.go_on()
        for proxy, each in calls.items():
            tell(f"{proxy}, one of two gateways killed: {each}")
            assert each.answered.total() + each.failed == each.sent
            assert each.failed <= CLIENTS
            assert each.errors.keys() <= SENT
        assert not calls["nginx"].lost
        assert calls["haproxy"].lost.keys() <= CLOSED

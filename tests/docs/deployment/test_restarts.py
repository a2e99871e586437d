"""Gateways are restarted and killed behind the proxies of docs/deployment while clients call."""

import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.support.fleets import (
    BEGUN,
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

SLOW = ("--simulated-latency-s", "0.05")
TOLD = {"FINPORT_METRICS_KEY": METRICS_KEY, "FINPORT_MAX_CONCURRENCY_PER_HOST": "128"}

NO_RETRIES = {
    "    option redispatch 1\n": "",
    "    retries 2\n": "    retries 0\n",
    "    retry-on conn-failure empty-response\n": "",
}
"""HAProxy as a load balancer that probes gateways, and sends no call to a second one."""


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


async def restarted(addresses: dict[str, str], fleet: Fleet) -> dict[str, Calls]:
    """What becomes of calls while both gateways are restarted, one after the other."""
    async with calling(addresses, fleet) as calls:
        for index in range(2):
            new = await fleet.restart(index)
            await answered(new, calls)
    return calls


async def test_restarts_lose_no_call_and_a_kill_only_those_on_the_wire(tmp_path: Path) -> None:
    addresses = {proxy: f"{own_address()}:8080" for proxy in PROXIES}
    async with AsyncExitStack() as parts:
        options = (*SLOW, "--drain-notice", "2")
        fleet = await parts.enter_async_context(Fleet.open(tmp_path, *options, **TOLD))
        for proxy, listen in addresses.items():
            await parts.enter_async_context(proxied(proxy, tmp_path, fleet.changes(), listen))

        calls = await restarted(addresses, fleet)
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
            assert each.failed <= 2 * CLIENTS
            assert each.errors.keys() <= SENT
            assert each.lost.keys() <= BEGUN


@pytest.mark.soak
async def test_a_notice_spares_the_calls_of_a_load_balancer_that_never_retries(
    tmp_path: Path,
) -> None:
    for notice in ("0", "2"):
        folder = tmp_path / notice
        folder.mkdir()
        listen = f"{own_address()}:8080"
        async with (
            Fleet.open(folder, *SLOW, "--drain-notice", notice, **TOLD) as fleet,
            proxied("haproxy", folder, fleet.changes() | NO_RETRIES, listen),
        ):
            calls = (await restarted({"haproxy": listen}, fleet))["haproxy"]
        tell(f"haproxy without retries, both restarted with a notice of {notice} s: {calls}")
    assert calls.answered.total() == calls.sent

"""Gateways in front of simulated upstreams, and their API.

Adapters, worker processes and the HTTP server are the real ones. Only the upstreams are simulated,
and they speak HTTP.
"""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from pydantic import SecretStr

from adapters.simulator import Faults, SimulatedUpstream
from cache import Clock
from gateway import Gateway, GatewaySettings
from gateway.server import http
from gateway.trace import Trace
from manifests import Catalog
from tests.support.waiting import until

PLANTED_KEY = "planted-rapidapi-key-0451"


@dataclass
class Road:
    """A gateway whose live upstreams are the double."""

    gateway: Gateway
    double: SimulatedUpstream
    settings: GatewaySettings


@asynccontextmanager
async def open_road(
    catalog: Catalog,
    folder: Path,
    faults: Faults | None = None,
    trace: Trace | None = None,
    clock: Clock | None = None,
    **settings: Any,
) -> AsyncIterator[Road]:
    """The road with `upstream = live` and every base URL pointing at a double."""
    async with AsyncExitStack() as parts:
        double = await parts.enter_async_context(SimulatedUpstream.open(catalog, faults=faults))
        chosen = GatewaySettings(
            **{
                "cache_dir": folder / "cache",
                "rapidapi_keys": (SecretStr(PLANTED_KEY),),
                "rapidapi_base_url": double.base_url,
                "akshare_base_url": double.base_url,
                "akshare_workers": 1,
                **settings,
            }
        )
        opened = Gateway.open(chosen, catalog=catalog, trace=trace, clock=clock)
        yield Road(await parts.enter_async_context(opened), double, chosen)


@dataclass
class Door:
    """The HTTP door of a road, and a client for it."""

    url: str
    road: Road
    client: aiohttp.ClientSession

    async def call(self, tool: str, arguments: object) -> tuple[int, dict[str, Any]]:
        url = f"{self.url}/v1/tools/{tool}"
        async with self.client.post(url, data=json.dumps(arguments)) as response:
            return response.status, await response.json()


def play(road: Road, **faults: Any) -> None:
    """From now on the upstream behaves so."""
    object.__setattr__(road.double, "faults", Faults(**faults))


async def under_way(road: Road, number: int) -> None:
    """Until so many executions are under way upstream."""
    await until(lambda: road.gateway.answers.under_way == number)


@asynccontextmanager
async def open_door(catalog: Catalog, folder: Path, **given_: Any) -> AsyncIterator[Door]:
    async with (
        open_road(catalog, folder, **given_) as road,
        http.serve(road.gateway) as url,
        aiohttp.ClientSession() as client,
    ):
        yield Door(url, road, client)

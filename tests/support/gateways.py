"""Gateways in front of simulated upstreams, in process or served over HTTP.

Adapters, worker processes and the HTTP server are the real ones. Only the upstreams are simulated,
and they speak HTTP.
"""

import json
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from pydantic import SecretStr

from adapters.simulator import Faults, SimulatedUpstream
from cache import Clock
from gateway import Gateway, GatewaySettings
from gateway.access.keys import add
from gateway.server import http
from gateway.trace import Trace
from manifests import Catalog
from tests.support.upstreams import Handler, upstream
from tests.support.waiting import until

PLANTED_KEY = "planted-rapidapi-key-0451"


@dataclass
class LocalGateway:
    """A gateway in this process, and the simulated upstream that it takes for the live ones."""

    gateway: Gateway
    simulator: SimulatedUpstream
    settings: GatewaySettings


@asynccontextmanager
async def open_local_gateway(
    catalog: Catalog,
    folder: Path,
    faults: Faults | None = None,
    trace: Trace | None = None,
    clock: Clock | None = None,
    kept: Path | None = None,
    handler: Handler | None = None,
    **settings: Any,
) -> AsyncIterator[LocalGateway]:
    """A gateway with `upstream = live` whose every base URL points at a simulated upstream; with
    a `handler` that answers in place of RapidAPI.

    Its cache starts with a copy of the answers in `kept`, from `keep_tables`.
    """
    async with AsyncExitStack() as parts:
        simulator = await parts.enter_async_context(SimulatedUpstream.open(catalog, faults=faults))
        if handler is not None:
            url = await parts.enter_async_context(upstream(handler))
            settings = {"rapidapi_base_url": url, **settings}
        chosen = GatewaySettings(
            **{
                "cache_dir": folder / "cache",
                "rapidapi_keys": (SecretStr(PLANTED_KEY),),
                "rapidapi_base_url": simulator.base_url,
                "akshare_base_url": simulator.base_url,
                "akshare_workers": 1,
                **settings,
            }
        )
        if kept is not None:
            shutil.copytree(kept, chosen.cache_dir / chosen.cache_name)
        opened = Gateway.open(chosen, catalog=catalog, trace=trace, clock=clock)
        yield LocalGateway(await parts.enter_async_context(opened), simulator, chosen)


HIST = {"symbol": "600519", "start_date": "20240101", "end_date": "20240131"}

TABLES: tuple[tuple[str, dict[str, str]], ...] = (
    ("stock_zh_a_hist", HIST),
    ("stock_zh_a_hist", {"symbol": "600519"}),
    ("stock_zh_a_hist", {"symbol": "600519", "start_date": "20230101", "end_date": "20240630"}),
    ("stock_zh_a_hist", {"symbol": "600519", "start_date": "20240620", "end_date": "20240630"}),
    ("bond_zh_us_rate", {"start_date": "20240101"}),
)
"""Calls whose answers are tables, and a process of AkShare makes them."""


async def keep_tables(catalog: Catalog, folder: Path) -> Path:
    """A cache with the answers to `TABLES`, for tests in which no process of AkShare need start."""
    clients = folder / "clients.json"
    async with open_local_gateway(catalog, folder, clients_file=clients) as local:
        for call in TABLES:
            assert (await local.gateway.call(*call)).ok
    return local.settings.cache_dir / local.settings.cache_name


@dataclass
class ServedGateway:
    """A local gateway served over HTTP, and a client for it."""

    url: str
    local: LocalGateway
    client: aiohttp.ClientSession

    async def ask(
        self, target: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """The status and the JSON of an answer, to a POST if there is a body; bytes are sent as
        they are.
        """
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        method, url = "GET" if data is None else "POST", self.url + target
        async with self.client.request(method, url, data=data, headers=headers) as response:
            return response.status, json.loads(await response.read())

    async def call(self, tool: str, arguments: object) -> tuple[int, dict[str, Any]]:
        return await self.ask(f"/v1/tools/{tool}", arguments)


def play(local: LocalGateway, **faults: Any) -> None:
    """From now on the upstream behaves so."""
    object.__setattr__(local.simulator, "faults", Faults(**faults))


async def under_way(local: LocalGateway, number: int) -> None:
    """Until so many executions are under way upstream."""
    await until(lambda: local.gateway.answers.under_way == number)


@asynccontextmanager
async def open_served_gateway(
    catalog: Catalog, folder: Path, **given_: Any
) -> AsyncIterator[ServedGateway]:
    async with (
        open_local_gateway(catalog, folder, **given_) as local,
        http.serve(local.gateway) as url,
        aiohttp.ClientSession() as client,
    ):
        yield ServedGateway(url, local, client)


@asynccontextmanager
async def open_keyed_gateway(
    catalog: Catalog, folder: Path, clients: Mapping[str, Mapping[str, Any]], **given_: Any
) -> AsyncIterator[tuple[ServedGateway, dict[str, dict[str, str]]]]:
    """A served gateway that knows these clients and their limits, and the head with which each of
    them shows its key.
    """
    file = folder / "clients.json"
    keys = {name: add(file, name, **limits)[0] for name, limits in clients.items()}
    async with open_served_gateway(catalog, folder, clients_file=file, **given_) as served:
        yield served, {name: {"Authorization": f"Bearer {key}"} for name, key in keys.items()}


@asynccontextmanager
async def open_sharing_gateways(
    catalog: Catalog,
    folder: Path,
    redis_url: str,
    number: int,
    faults: Faults | None = None,
    **settings: Any,
) -> AsyncIterator[tuple[SimulatedUpstream, list[Gateway]]]:
    """Gateways of several machines, as it were: each has a cache folder of its own. They share
    Redis, and one simulated upstream.
    """
    async with AsyncExitStack() as parts:
        simulator = await parts.enter_async_context(SimulatedUpstream.open(catalog, faults=faults))
        gateways = []
        for place in range(number):
            chosen = sharing_settings(folder / f"machine-{place}", simulator.base_url, redis_url)
            chosen = chosen.model_copy(update=settings)
            gateways.append(await parts.enter_async_context(Gateway.open(chosen, catalog=catalog)))
        yield simulator, gateways


def sharing_settings(folder: Path, upstream_url: str, redis_url: str) -> GatewaySettings:
    return GatewaySettings(
        cache_dir=folder / "cache",
        clients_file=folder / "clients.json",
        rapidapi_keys=(SecretStr(PLANTED_KEY),),
        rapidapi_base_url=upstream_url,
        akshare_base_url=upstream_url,
        akshare_workers=1,
        redis_url=SecretStr(redis_url),
        max_concurrency_per_host=64,
        shape_share=0.0,
    )

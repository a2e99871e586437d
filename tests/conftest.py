"""What tests share: the catalogue, an upstream double, a gateway in front of it, and its HTTP door.

The road under test is the real one: real adapters, real worker processes, a real HTTP server. Only
the upstream is a double, and it speaks HTTP.
"""

import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from pydantic import SecretStr

from adapters.simulator import Faults, SimulatedUpstream
from cache import Clock
from gateway import Gateway, GatewaySettings
from gateway.server import http
from gateway.trace import Trace
from manifests import Catalog
from tests.support.waiting import PATIENCE_S

# A shell starts what it puts behind itself with Ctrl-C ignored, and so would all that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

hypothesis_settings.register_profile(
    "finport", deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.load_profile("finport")

PLANTED_KEY = "planted-rapidapi-key-0451"


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("FINPORT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("FINPORT_CLIENTS_FILE", str(tmp_path / "clients.json"))
    monkeypatch.setenv("FINPORT_AKSHARE_WORKERS", "1")  # to import AkShare takes 2 s each
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def _disks_may_be_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway goes on without what a slow disk holds; most tests want to see it."""
    for name in (
        *("cache.disk.LOCK_S", "gateway.upstreams.accounts.LOCK_S"),
        *("gateway.kept.TIER_WAIT_S", "gateway.answers.RECORDING_WAIT_S"),
    ):
        monkeypatch.setattr(name, PATIENCE_S)


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return Catalog.load()


@pytest.fixture(scope="session")
def facts() -> list[dict[str, Any]]:
    """The published facts about the 760 tools."""
    path = Path(__file__).parents[2] / "shared" / "data" / "tools.jsonl"
    if not path.is_file():
        pytest.skip("the published facts are not beside this checkout")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="session")
def questions() -> Path:
    """FinToolBench's 295 questions."""
    shared = Path(__file__).parents[2] / "shared"
    path = shared / "datasets" / "fintoolbench" / "questions.jsonl"
    if not path.is_file():
        pytest.skip("FinToolBench's questions are not beside this checkout")
    return path


class Stepping:
    """A clock that a test moves: its time of day can be set, also back, and time can pass."""

    def __init__(self, wall: float) -> None:
        self.wall, self.passed = wall, 1_000.0
        self.clock = Clock(wall=lambda: self.wall, passed=lambda: self.passed)

    def step(self, seconds: float) -> None:
        """Somebody sets the time of day."""
        self.wall += seconds

    def go_on(self, seconds: float) -> None:
        """So much time passes."""
        self.wall += seconds
        self.passed += seconds


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Lets so many seconds pass for gateways opened since, in place of a wait."""
    clock, ahead = Clock(), [0.0]
    wall, passed = (lambda: clock.wall() + sum(ahead)), (lambda: clock.passed() + sum(ahead))
    monkeypatch.setattr("gateway.call.Clock", lambda: Clock(wall, passed))
    return ahead.append


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


@pytest.fixture
async def road(catalog: Catalog, tmp_path: Path) -> AsyncIterator[Road]:
    async with open_road(catalog, tmp_path) as opened:
        yield opened


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


@pytest.fixture
async def door(road: Road) -> AsyncIterator[Door]:
    async with http.serve(road.gateway, "127.0.0.1", 0) as url, aiohttp.ClientSession() as client:
        yield Door(url, road, client)


@pytest.fixture
def json_lines(tmp_path: Path) -> Iterator[Any]:
    """Reads a file of JSON lines below the test's folder."""

    def read(name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]

    return read  # type: ignore[return-value]

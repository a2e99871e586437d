"""Fixtures that tests share: the catalogue, and a gateway with simulated upstreams and its API."""

import asyncio
import gc
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from cache import Clock
from gateway.server import http
from manifests import Catalog
from tests.support.checkout import QUESTIONS, SHARED
from tests.support.gateways import (
    LocalGateway,
    ServedGateway,
    keep_tables,
    open_local_gateway,
)
from tests.support.waiting import PATIENCE_S

# A shell starts what it puts behind itself with Ctrl-C ignored, and so would all that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

for profile, examples in (("finport", 60), ("soak", 2_000)):
    hypothesis_settings.register_profile(
        profile,
        deadline=None,
        max_examples=examples,
        suppress_health_check=[HealthCheck.too_slow],
    )
hypothesis_settings.load_profile("finport")


def encodable(value: Any) -> Any:
    """The same with half characters escaped."""
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {key: encodable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(encodable, value))
    return value


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Workers of pytest-xdist send reports as UTF-8, and tests log half characters too."""
    return encodable((yield))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest test starts first, so that no process works alone at the end."""
    items.sort(key=lambda item: item.path.name != "test_docs.py")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Cycles need not be looked for among 3,000 tests and the libraries that they import."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        gc.set_threshold(50_000, 20, 50)  # tests make hardly a cycle


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("FINPORT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("FINPORT_CLIENTS_FILE", str(tmp_path / "clients.json"))
    monkeypatch.setattr("gateway.settings.user_cache_path", tmp_path.joinpath)
    monkeypatch.setenv("FINPORT_AKSHARE_WORKERS", "1")  # to import AkShare takes 2 s each
    monkeypatch.setenv("FINPORT_SHAPE_SHARE", "0")  # else chance would decide which are compared
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def _modules_of_a_test_end_with_it(tmp_path: Path) -> Iterator[None]:
    """Tests import modules of their own, of which several have one name."""
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        module = sys.modules[name]
        places = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
        if any(place is not None and place.startswith(str(tmp_path)) for place in places):
            del sys.modules[name]


@pytest.fixture(autouse=True)
def _disks_may_be_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway goes on without what a slow disk holds; most tests want to see it."""
    for name in (
        *("cache.disk.LOCK_S", "gateway.upstreams.accounts.LOCK_S"),
        *("gateway.pipeline.cached.TIER_WAIT_S", "gateway.pipeline.answers.RECORDING_WAIT_S"),
        *("gateway.shapes.store.LOCK_S", "gateway.shapes.watch.CLOSE_S"),
        "gateway.shapes.watch.READ_S",
    ):
        monkeypatch.setattr(name, PATIENCE_S)


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return Catalog.load()


@pytest.fixture(scope="session")
def facts() -> list[dict[str, Any]]:
    """The published facts about the tools."""
    path = SHARED / "data" / "tools.jsonl"
    if not path.is_file():
        pytest.skip("the published facts are not beside this checkout")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="session")
def questions() -> Path:
    """FinToolBench's 295 questions."""
    if not QUESTIONS.is_file():
        pytest.skip("FinToolBench's questions are not beside this checkout")
    return QUESTIONS


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Lets so many seconds pass for gateways opened since, in place of a wait."""
    clock, ahead = Clock(), [0.0]
    wall, passed = (lambda: clock.wall() + sum(ahead)), (lambda: clock.passed() + sum(ahead))
    monkeypatch.setattr("gateway.call.Clock", lambda: Clock(wall, passed))
    return ahead.append


@pytest.fixture(scope="session")
def tables(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with tables, for `kept_tables` of modules that don't test how AkShare answers."""
    return asyncio.run(keep_tables(catalog, tmp_path_factory.mktemp("tables")))


@pytest.fixture
def kept_tables() -> Path | None:
    """The cache that the gateway of `local` starts with; modules may override this."""
    return None


@pytest.fixture
async def local(
    catalog: Catalog, tmp_path: Path, kept_tables: Path | None
) -> AsyncIterator[LocalGateway]:
    async with open_local_gateway(catalog, tmp_path, kept=kept_tables) as opened:
        yield opened


@pytest.fixture
async def served(local: LocalGateway) -> AsyncIterator[ServedGateway]:
    async with http.serve(local.gateway, "127.0.0.1", 0) as url, aiohttp.ClientSession() as client:
        yield ServedGateway(url, local, client)


@pytest.fixture
def json_lines(tmp_path: Path) -> Iterator[Any]:
    """Reads a file of JSON lines below the test's folder."""

    def read(name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]

    return read  # type: ignore[return-value]


@pytest.fixture
def patient_with_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """An MCP server has as long to start as a busy machine needs."""
    monkeypatch.setattr("adapters.mcp.servers.START_S", PATIENCE_S)
    monkeypatch.setattr("adapters.mcp.connection.LIST_S", PATIENCE_S)

"""What tests of the API share."""

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from gateway.server import http
from manifests import Catalog
from tests.support.gateways import LocalGateway, ServedGateway, open_served_gateway


@pytest.fixture
def kept_tables(tables: Path) -> Path | None:
    """Tests of the API don't test how AkShare answers."""
    return tables


@pytest.fixture(scope="module")
async def served(
    catalog: Catalog, tables: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ServedGateway]:
    """One gateway for tests of a module that leave it as they find it; the others take `fresh`."""
    folder = tmp_path_factory.mktemp("served")
    own = {"clients_file": folder / "clients.json", "shape_share": 0.0}
    async with open_served_gateway(catalog, folder, kept=tables, **own) as opened:
        yield opened


@pytest.fixture
async def fresh(local: LocalGateway) -> AsyncIterator[ServedGateway]:
    async with http.serve(local.gateway) as url, aiohttp.ClientSession() as client:
        yield ServedGateway(url, local, client)

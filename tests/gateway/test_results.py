"""Rows behind a handle: for who may use the tool that gave it, and within its limits."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.keys import add
from manifests import Catalog
from manifests.selection import Selection
from tests.conftest import Door
from tests.gateway.test_mcp import open_door

pytestmark = pytest.mark.anyio

HIST = {"symbol": "600519", "start_date": "20240101", "end_date": "20240131"}
TOOL = "stock_zh_a_hist"


@asynccontextmanager
async def keyed(catalog: Catalog, folder: Path) -> AsyncIterator[tuple[Door, dict[str, str]]]:
    """A door, and the keys of those who come: with all tools, with one, with one call a minute."""
    file = folder / "clients.json"
    keys = {
        "all": add(file, "all")[0],
        "coins": add(file, "coins", tools=Selection.parse("names:get_coin"))[0],
        "rare": add(file, "rare", per_second=1 / 60)[0],
    }
    async with open_door(catalog, folder, clients_file=file) as door:
        yield door, keys


async def rows(door: Door, key: str, handle: str) -> tuple[int, dict[str, Any]]:
    head = {"Authorization": f"Bearer {key}"}
    url = f"{door.url}/v1/results/{handle}?offset=1&limit=2"
    async with door.client.get(url, headers=head) as answer:
        return answer.status, await answer.json()


async def shortened(door: Door, key: str) -> str:
    head = {"Authorization": f"Bearer {key}"}
    url = f"{door.url}/v1/tools/{TOOL}?max_rows=2"
    async with door.client.post(url, json=HIST, headers=head) as answer:
        return str((await answer.json())["handle"])


async def test_rows_are_for_who_may_use_the_tool_that_gave_them(
    catalog: Catalog, tmp_path: Path
) -> None:
    async with keyed(catalog, tmp_path) as (door, keys):
        handle = await shortened(door, keys["all"])
        status, page = await rows(door, keys["all"], handle)
        assert (status, len(page["data"]), page["handle"]) == (200, 2, handle)
        status, refused = await rows(door, keys["coins"], handle)
        assert (status, refused["error"]["code"]) == (403, "forbidden")
        nothing = f"{TOOL}.{'0' * 32}-{'0' * 16}"
        assert await rows(door, keys["coins"], nothing) == (403, refused), "kept or not"
        under_another_name = handle.replace(TOOL, "get_coin")
        for key in ("all", "coins"):
            assert (await rows(door, keys[key], under_another_name))[0] == 404
        for unknown in (handle.partition(".")[2], handle.replace(TOOL, "nothing_like_it")):
            assert (await rows(door, keys["all"], unknown))[0] == 404


async def test_rows_count_against_the_limits_of_their_client(
    catalog: Catalog, tmp_path: Path
) -> None:
    async with keyed(catalog, tmp_path) as (door, keys):
        handle = await shortened(door, keys["all"])
        assert (await rows(door, keys["rare"], handle))[0] == 200
        status, refused = await rows(door, keys["rare"], handle)
        assert (status, refused["error"]["code"]) == (429, "rate_limited")
        assert refused["error"]["details"] == {"limit": "per_second"}


async def test_a_handle_outlives_the_gateway_that_gave_it(catalog: Catalog, tmp_path: Path) -> None:
    origins: dict[str, Any] = {}
    async with keyed(catalog, tmp_path) as (door, keys):
        handle = await shortened(door, keys["all"])
        kept = await rows(door, keys["all"], handle)
        settings = door.road.settings
        origins = {n: getattr(settings, n) for n in ("rapidapi_base_url", "akshare_base_url")}
    file = tmp_path / "clients.json"
    async with open_door(catalog, tmp_path, clients_file=file, **origins) as door:
        assert await rows(door, keys["all"], handle) == kept
        assert (await rows(door, keys["coins"], handle))[0] == 403
        assert (await rows(door, keys["all"], handle.replace(TOOL, "get_coin")))[0] == 404

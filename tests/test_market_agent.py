"""The agent of `docs/market_agent.py`: the official MCP client in a recorded market."""

import sys
from datetime import date
from pathlib import Path

import anyio
import pytest

from gateway.server import http
from tests.support.markets import DAYS, market_gateway, write_market

pytestmark = pytest.mark.anyio

SCRIPT = Path(__file__).parents[1] / "docs" / "market_agent.py"


async def test_an_outside_agent_trades_from_the_first_day_to_the_last(tmp_path: Path) -> None:
    market = write_market(tmp_path / "market", first=date(2023, 4, 5))
    async with market_gateway(market, tmp_path) as gateway, http.serve(gateway) as url:
        command = [sys.executable, str(SCRIPT), f"{url}/mcp"]
        done = await anyio.run_process([*command, "AAA"], check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(f"AAA: {DAYS} days until 2023-04-16; 1 became ".encode())
        wrong = await anyio.run_process([*command, "ZZZ"], check=False)
        assert wrong.returncode == 1
        assert b"'ZZZ' is no asset of this market; there are AAA, BBB" in wrong.stderr

"""Sessions of a market behind several workers: each lives in one, and all of them reach it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.support.markets import DATES, DAYS, day, write_market
from tests.support.servers import asked, server
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio


async def call(url: str, operation: str, **arguments: object) -> tuple[int, dict[str, Any]]:
    """A call that any worker may accept."""
    return await asked(f"{url}/v1/tools/market_{operation}", arguments)


async def test_any_worker_answers_for_the_one_that_holds_the_session(tmp_path: Path) -> None:
    market = str(write_market(tmp_path / "market"))
    async with server(tmp_path, "--workers", "2", "--market", market) as running:
        held: dict[str, list[str]] = {"0": [], "1": []}
        async with asyncio.timeout(PATIENCE_S):
            while not all(held.values()):  # which worker accepts a connection is chance
                opening = (call(running.url, "open", symbols="AAA", **DATES) for _ in range(12))
                for _, answer in await asyncio.gather(*opening):
                    session = answer["data"]["session"]
                    held[session[0]].append(session)
        sessions = [*held["0"][:6], *held["1"][:6]]
        for number in range(DAYS):
            seen = await asyncio.gather(
                *(call(running.url, "observe", session=one) for one in sessions)
            )
            assert {status for status, _ in seen} == {200}
            assert {answer["data"]["date"] for _, answer in seen} == {day(number)}
            traded = await asyncio.gather(
                *(
                    call(running.url, "trade", session=one, date=day(number), action="buy")
                    for one in sessions
                )
            )
            assert {status for status, _ in traded} == {200}
        recalled = await asyncio.gather(
            *(call(running.url, "recall", session=one, question="q") for one in sessions)
        )
        said = {answer["error"]["message"] for _, answer in recalled}
        assert said == {"the session is over: its last day was 2024-01-12; market_close ends it"}
        other = await call(running.url, "observe", session=f"7-{'0' * 32}")
        assert other[0] == 404
        assert other[1]["error"]["code"] == "not_found"

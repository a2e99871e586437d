"""`finbench speed strangers` in small. Nothing is said about speed."""

import pytest

from bench.speed.strangers import strangers

pytestmark = [pytest.mark.anyio]


async def test_a_client_is_answered_beside_a_flood() -> None:
    figures = await strangers(seconds=0.2, rounds=1, floods=("refusals",))
    assert float(figures["refusals_answered_per_s"]) > 0
    assert float(figures["refusals_times_idle"]) > 0

"""`finbench speed overload` in small: what it counts adds up. Nothing is said about speed."""

import pytest

from bench.speed_overload import overload

pytestmark = [pytest.mark.anyio, pytest.mark.alone]


async def test_every_call_is_answered_or_refused() -> None:
    figures = await overload(seconds=0.5)
    for load in ("2x", "5x"):
        counted = {name: figures[f"at_{load}_{name}_per_s"] for name in ("refused", "others")}
        assert counted["others"] == 0
        assert float(counted["refused"]) > 0
        assert float(figures[f"at_{load}_answered_per_s"]) > 0

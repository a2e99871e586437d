"""`finbench speed overload` in small: what it counts adds up. Nothing is said about speed."""

import pytest

from bench.speed.overload import overload

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("seconds", [0.5, pytest.param(3.0, marks=pytest.mark.soak)])
async def test_every_call_is_answered_or_refused(seconds: float) -> None:
    figures = await overload(seconds=seconds)
    for load in ("2x", "5x"):
        counted = {name: figures[f"at_{load}_{name}_per_s"] for name in ("refused", "others")}
        assert counted["others"] == 0
        counted["answered"] = figures[f"at_{load}_answered_per_s"]
        if seconds > 1:  # else a machine that stands still for a moment leaves time for neither
            assert float(counted["refused"]) > 0
            assert float(counted["answered"]) > 0

"""`finbench speed ray` in small: what it counts adds up. Nothing is said about speed."""

import pytest

from bench.speed.ray import Kind, ray

pytestmark = [pytest.mark.anyio, pytest.mark.soak]


async def test_both_engines_are_measured() -> None:
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    found = await ray({"scripted": Kind(60, 20)}, rounds=1)
    figures = {name: float(value) for name, value in found.items()}
    rates = [figures[f"scripted_{side}_episodes_per_s"] for side in ("ray", "local")]
    assert min(figures.values()) > 0
    assert figures["scripted_ray_to_local"] == pytest.approx(rates[0] / rates[1])

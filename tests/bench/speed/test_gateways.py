"""`finbench speed gateways` in small: nothing is lost, asked twice or overspent."""

import pytest

from bench.speed import gateways
from tests.support.redis import needs_redis

pytestmark = [pytest.mark.anyio, needs_redis]


@pytest.mark.soak
async def test_nothing_is_lost_asked_twice_or_overspent() -> None:
    figures = await gateways.gateways(gateways.Size(40, 8, 2.0, 100))
    for name, figure in figures.items():
        if name.endswith("_lost"):
            assert figure == 0, name
        if name.endswith("_requests") and not name.startswith(("killed", "identical", "quota")):
            assert figure == 40, name
    assert figures["identical_requests"] == 1
    assert figures["killed_requests"] == 2
    assert figures["quota_requests"] == 100
    assert figures["killed_others_answered"] == "3 of 3"


async def test_without_redis_the_measurement_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateways, "is_installed", lambda: False)
    assert await gateways.gateways() == {"gateways": "not measured: redis-server is not installed"}

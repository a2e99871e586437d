"""`finbench speed wire` in small: what it counts adds up. Nothing is said about speed."""

import pytest

from bench.speed.wire import Stage, wire

pytestmark = pytest.mark.anyio


async def test_every_side_is_measured() -> None:
    found = {name: float(value) for name, value in (await wire((Stage(60, 20, 30, 1),))).items()}
    assert min(found.values()) > 0
    sides = {"inprocess": 20, "streams": 60, "requests": 30}
    assert {s: found[f"at_once_60_{s}_most_in_flight"] for s in sides} == sides
    rates = [found[f"at_once_60_{side}_episodes_per_s"] for side in ("streams", "inprocess")]
    assert found["at_once_60_streams_to_inprocess"] == pytest.approx(rates[0] / rates[1])
    assert found["at_once_60_streams_sockets"] < found["at_once_60_requests_sockets"] + 10

"""Event loop lag and memory, as they are measured."""

import asyncio
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.telemetry.vitals import PERIOD_S, Vitals
from manifests.common.memory import forget_peak, peak_rss_bytes, rss_bytes
from tests.support.checkout import ROOT

PERIOD_MS = PERIOD_S * 1e3
MIB = 2**20


def watched(*stands_ms: float, for_ms: float) -> Vitals:
    """A loop that was watched for so long, and stood so long in between."""
    vitals = Vitals()
    for stand_ms in stands_ms:
        vitals.fired(stand_ms)
    for _ in range(round((for_ms - sum(stands_ms)) / PERIOD_MS)):
        vitals.fired(0.1)
    return vitals


@given(
    st.lists(st.floats(0, 20_000), min_size=1, max_size=5),
    st.integers(0, 6_000),
    st.sampled_from((0.5, 0.9, 0.99)),
)
def test_percentiles_are_those_of_a_timer_that_fires_all_the_time(
    stands_ms: list[float], calm_periods: int, q: float
) -> None:
    vitals = watched(*stands_ms, for_ms=sum(stands_ms) + calm_periods * PERIOD_MS)
    late = [0.1] * calm_periods
    for stand_ms in stands_ms:
        late += [stand_ms - n * PERIOD_MS for n in range(int(stand_ms / PERIOD_MS) + 1)]
    expected = sorted(late)[int(q * (len(late) - 1))]
    assert vitals.lag_ms.count == len(late)
    found = vitals.lag_ms.at(q)
    assert found == pytest.approx(expected, rel=0.03, abs=2 * PERIOD_MS + max(stands_ms) / 500)


def test_a_loop_that_stood_a_day_costs_no_more_to_count() -> None:
    vitals = Vitals()
    vitals.fired(86_400_000)
    assert vitals.lag_ms.count == 8_640_001
    assert vitals.lag_ms.at(0.5) == pytest.approx(43_200_000, rel=0.02)
    assert len(vitals.lag_ms.buckets) <= 1_000


@pytest.mark.anyio
async def test_a_loop_that_stands_is_seen() -> None:
    async with Vitals.watch() as vitals:
        await asyncio.sleep(2 * PERIOD_S)
        time.sleep(0.3)  # noqa: ASYNC251 - it is what is measured
        await asyncio.sleep(2 * PERIOD_S)
    assert (vitals.lag_ms.at(0.5) or 0.0) > 50
    assert vitals.late_s > 0.25
    assert watched(for_ms=1_000).late_s == 0


CHILD = "from manifests.common.memory import peak_rss_bytes; print(peak_rss_bytes())"


def test_a_child_of_a_large_process_is_not_large() -> None:
    parent = f"""
import subprocess, sys
held = bytearray(b"x") * {300 * MIB}
print(subprocess.run([sys.executable, "-c", {CHILD!r}], capture_output=True, text=True).stdout)
"""
    done = subprocess.run(
        [sys.executable, "-c", parent], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert 1 * MIB < int(done.stdout) < 150 * MIB


def test_a_peak_can_begin_anew() -> None:
    held = bytearray(b"x") * (64 * MIB)
    with_it = peak_rss_bytes()
    del held
    forget_peak()
    assert peak_rss_bytes() < with_it - 32 * MIB
    assert abs(peak_rss_bytes() - rss_bytes()) < 32 * MIB

"""`finbench speed rows` and `hangs`: their figures, of which only memory is bounded here."""

import sys

import pytest

from bench.speed.hangs import HANGING, hangs
from bench.speed.rows import ROWS, rows

pytestmark = [pytest.mark.anyio, pytest.mark.soak]


@pytest.mark.skipif(sys.platform != "linux", reason="peaks are read from Linux's /proc")
async def test_a_million_rows_stay_within_bounds_of_memory() -> None:
    figures = await rows()
    assert figures["rows"] == ROWS
    assert 0 < float(figures["peak_mib"]) - float(figures["before_mib"]) < 64
    assert 0 < float(figures["children_peak_mib"]) < 512


async def test_a_healthy_host_is_answered_while_five_hang() -> None:
    pytest.importorskip("akshare", reason="the akshare extra is not installed")
    figures = await hangs()
    assert figures["hanging_hosts"] == HANGING
    assert float(figures["beside_p50_ms"]) > 0

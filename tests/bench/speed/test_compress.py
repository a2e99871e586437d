"""`finbench speed compress` in small: what it measures is there. Nothing is said about speed."""

import pytest

from bench.speed import compress

pytestmark = pytest.mark.anyio


async def test_every_part_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compress, "LONG_ROWS", 1_000)
    monkeypatch.setattr(compress, "TRIES", 3)
    figures = await compress.compression(seconds=0.3, rounds=1)
    for name in ("date_ms", "parsed_ms", "long_ms", "http_ratio", "whole_calls_per_s"):
        assert float(figures[name]) > 0
    assert float(figures["long_loop_lag_p99_ms"]) >= 0
    assert figures["columns"] == 11
    assert float(figures["shortened_answer_bytes"]) > 0

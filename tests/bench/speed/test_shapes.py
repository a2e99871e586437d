"""`finbench speed shapes` in small: what it measures is there. Nothing is said about speed."""

import pytest

from bench.speed import compress, shapes


def test_every_part_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compress, "TRIES", 3)
    figures = shapes.shapes()
    for kind in ("table", "document"):
        for name in ("bytes", "ms", "parsed_ms"):
            assert float(figures[f"{kind}_{name}"]) > 0

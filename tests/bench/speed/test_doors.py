"""`finbench speed doors` in small: what it counts adds up. Nothing is said about speed."""

import pytest

from bench.environment import FASTMCP_PYTHON
from bench.speed.doors import doors

pytestmark = pytest.mark.anyio


async def test_every_interface_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FASTMCP_PYTHON, raising=False)
    figures = await doors(seconds=0.3, rounds=1, batch_calls=500)
    for name in ("rest", "mcp"):
        assert float(figures[f"{name}_calls_per_s"]) > 0
        assert float(figures[f"{name}_ratio"]) > 0
    assert float(figures["mcp_answer_bytes"]) > 2 * float(figures["rest_answer_bytes"])
    assert figures["batch_calls"] == 500
    assert figures["fastmcp"] == f"not measured: set {FASTMCP_PYTHON}"

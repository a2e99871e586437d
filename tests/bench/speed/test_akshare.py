"""The AkShare measurement in small: that it measures calls that were answered, not how fast."""

import shutil

import pytest

from bench.environment import AKTOOLS_PYTHON
from bench.speed.akshare import akshare
from tests.support.installed import NEEDS_AKSHARE

pytestmark = [pytest.mark.anyio, NEEDS_AKSHARE]

CLIENTS = 4
FIGURES = ("calls", "errors", "requests_a_call", "calls_per_s", "p50_ms", "p99_ms")


async def test_every_call_is_answered_from_its_own_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(AKTOOLS_PYTHON, raising=False)
    figures = await akshare(seconds=0.2, clients=CLIENTS)
    schemes = ("clear", "tls") if shutil.which("openssl") else ("clear",)
    measured = [key for key in figures if key.startswith(("clear_", "tls_"))]
    assert measured == [f"{scheme}_finport_{name}" for scheme in schemes for name in FIGURES]
    assert figures["aktools"] == f"not measured: set {AKTOOLS_PYTHON}"
    assert ("tls" in figures) == ("tls" not in schemes)
    for scheme in schemes:
        assert figures[f"{scheme}_finport_errors"] == 0
        assert figures[f"{scheme}_finport_requests_a_call"] == 1
        calls = figures[f"{scheme}_finport_calls"]
        assert isinstance(calls, int)
        assert calls >= 2 * CLIENTS

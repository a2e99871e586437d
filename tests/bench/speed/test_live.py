"""`finbench speed live` in small, and what the command says meanwhile; not how fast that is."""

import re

import pytest
from click.testing import CliRunner

from bench.cli.main import main
from bench.speed import main as speed
from bench.speed.live import live


@pytest.mark.anyio
async def test_live_calls_are_measured_beside_a_proxy() -> None:
    figures = await live(seconds=0.3, rounds=2)
    for side in ("gateway", "proxy"):
        assert float(figures[f"{side}_calls_per_s"]) > 0
        assert float(figures[f"{side}_p99_ms"]) >= float(figures[f"{side}_p50_ms"]) > 0
    least, ratio, most = (float(figures[n]) for n in ("ratio_min", "ratio", "ratio_max"))
    assert least <= ratio <= most


def test_what_is_measured_is_told_as_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> dict[str, float | str]:
        speed.log.info("round %d of %d", 1, 2)
        return {"calls_per_s": 1234.5, "other": "not measured"}

    monkeypatch.setattr(speed, "ALL", dict.fromkeys(("one", "two"), speed.Measurement(run, 90)))
    told = CliRunner().invoke(main, ["speed"])
    assert told.exit_code == 0
    figures = "  calls_per_s: 1,234.50\n  other: not measured\n"
    assert told.stdout == f"one\n{figures}two\n{figures}"
    lines = told.stderr.splitlines()
    assert [line.partition(" (")[0] for line in lines] == [
        *("one: begun", "one: round 1 of 2"),
        *("two: begun", "two: round 1 of 2"),
    ]
    assert all(re.search(r"\(about (\d min )?\d+ (s|min) left\)$", line) for line in lines)

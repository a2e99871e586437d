"""`finbench speed` in small: what is measured adds up. Nothing is said about speed."""

import re
import shutil
import sys
from typing import Any

import pytest
from click.testing import CliRunner

from bench.cli.main import main
from bench.environment import AKTOOLS_PYTHON, FASTMCP_PYTHON, INSPECT_PYTHON
from bench.speed import driver, gateways, harness, ray, wire
from bench.speed.harness import ABOUT_S, Harness, figures_of
from bench.speed.rows import ROWS
from tests.support.installed import NEEDS_AKSHARE
from tests.support.redis import needs_redis

pytestmark = pytest.mark.anyio

TINY = driver.Sizes(
    rounds=1,
    concurrency=20,
    episodes=60,
    many=50,
    many_episodes=100,
    think_s=0.02,
    http_episodes=100,
    http_think_s=0.02,
    calls=360,
    window=90,
    windows=2,
)
ONCE: dict[str, Any] = {"seconds": 0.3, "rounds": 1}


async def figures(name: str, **sizes: Any) -> dict[str, float]:
    """The figures that are numbers."""
    found = await figures_of(name, **sizes)
    return {figure: value for figure, value in found.items() if not isinstance(value, str)}


@pytest.mark.parametrize(
    ("name", "sizes", "positive"),
    [
        ("inprocess", {"calls": 100, "rounds": 1}, ("ratio", "ratio_recorded")),
        ("cache", {"seconds": 0.1, "calls": 50}, ("written_share", "disk_hits_per_s")),
        ("snapshot", {"rows": 20}, ("open_ms", "look_up_p99_us", "verify_s")),
        ("shapes", {"tries": 3}, ("table_ms", "table_parsed_ms", "document_ms")),
        ("floods", {**ONCE, "floods": ("refusals",)}, ("refusals_answered_per_s",)),
        ("market", {"sessions": 30, "days": 2, "episodes": 2}, ("days_per_s", "episodes_took_s")),
        (
            "compress",
            {**ONCE, "long_rows": 1_000, "tries": 3},
            ("date_ms", "parsed_ms", "long_ms", "http_ratio", "shortened_answer_bytes"),
        ),
    ],
)
async def test_every_part_is_measured(
    name: str, sizes: dict[str, Any], positive: tuple[str, ...]
) -> None:
    found = await figures(name, **sizes)
    assert min(found[figure] for figure in positive) > 0


async def test_interfaces_are_measured_beside_a_bare_handler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(FASTMCP_PYTHON, raising=False)
    found = await figures_of("doors", **ONCE, batch_calls=500)
    assert min(found["rest_ratio"], found["mcp_ratio"], found["batch_calls_per_s"]) > 0
    assert found["mcp_answer_bytes"] > 2 * found["rest_answer_bytes"]
    assert found["fastmcp"] == f"not measured: set {FASTMCP_PYTHON}"


async def test_live_calls_are_measured_beside_a_proxy() -> None:
    found = await figures("live", seconds=0.3, rounds=2)
    for side in ("gateway", "proxy"):
        assert found[f"{side}_calls_per_s"] > 0
        assert found[f"{side}_p99_ms"] >= found[f"{side}_p50_ms"] > 0
    assert found["ratio_min"] <= found["ratio"] <= found["ratio_max"]


@pytest.mark.parametrize("seconds", [0.5, pytest.param(3.0, marks=pytest.mark.soak)])
async def test_every_call_is_answered_or_refused(seconds: float) -> None:
    found = await figures("overload", seconds=seconds)
    for load in ("2x", "5x"):
        assert found[f"at_{load}_others_per_s"] == 0
        if seconds > 1:  # else a machine that stands still for a moment leaves time for neither
            assert found[f"at_{load}_refused_per_s"] > 0
            assert found[f"at_{load}_answered_per_s"] > 0


@NEEDS_AKSHARE
async def test_akshare_is_measured_in_clear_and_over_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(AKTOOLS_PYTHON, raising=False)
    found = await figures_of("akshare", seconds=0.2, clients=4)
    assert found["clear_finport_calls_per_s"] > 0
    assert found["aktools"] == f"not measured: set {AKTOOLS_PYTHON}"
    assert ("tls" in found) == (shutil.which("openssl") is None)
    assert ("tls_finport_calls_per_s" in found) == ("tls" not in found)


async def test_scripted_episodes_are_measured_with_and_without_a_judge(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(INSPECT_PYTHON, raising=False)
    async with harness.harness() as own:
        found = await driver.beside_inspect(own, TINY)
    assert found.pop("inspect") == f"not measured: set {INSPECT_PYTHON}"
    assert min(found.values()) >= 0
    assert found["judged_log_bytes_per_episode"] > found["scripted_log_bytes_per_episode"] > 1_000


@pytest.mark.soak
async def test_many_episodes_and_many_calls_are_measured() -> None:
    found = await figures("driver", sizes=TINY)
    for side in ("many", "many_http"):
        assert found[f"{side}_most_in_flight"] == TINY.many
        assert found[f"{side}_calls_per_s"] == pytest.approx(3 * found[f"{side}_episodes_per_s"])
    assert found["last_to_first_min"] <= found["last_to_first"] <= found["last_to_first_max"]


async def test_each_way_to_a_gateway_is_measured() -> None:
    found = await figures("wire", sizes=(wire.Size(60, 20, 30, 1),))
    sides = {"inprocess": 20, "streams": 60, "requests": 30}
    assert {s: found[f"at_once_60_{s}_most_in_flight"] for s in sides} == sides
    rates = [found[f"at_once_60_{side}_episodes_per_s"] for side in ("streams", "inprocess")]
    assert found["at_once_60_streams_to_inprocess"] == pytest.approx(rates[0] / rates[1])


@pytest.mark.soak
async def test_model_driven_episodes_ask_as_often_as_the_official_client() -> None:
    found = await figures("model", episodes=30, concurrency=10, rounds=1)
    assert found["model_log_bytes_per_episode"] > 1_000
    assert found["model_to_official_aiohttp"] > 0


@pytest.mark.soak
async def test_both_engines_are_measured() -> None:
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    found = await figures("ray", kinds={"scripted": ray.Kind(60, 20)}, rounds=1)
    rates = [found[f"scripted_{side}_episodes_per_s"] for side in ("ray", "local")]
    assert min(found.values()) > 0
    assert found["scripted_ray_to_local"] == pytest.approx(rates[0] / rates[1])


@pytest.mark.soak
@pytest.mark.skipif(sys.platform != "linux", reason="peaks are read from Linux's /proc")
async def test_a_million_rows_stay_within_bounds_of_memory() -> None:
    found = await figures("rows")
    assert found["rows"] == ROWS
    assert 0 < found["peak_mib"] - found["before_mib"] < 64
    assert 0 < found["children_peak_mib"] < 512


@pytest.mark.soak
@NEEDS_AKSHARE
async def test_a_healthy_host_is_answered_while_five_hang() -> None:
    assert (await figures("hangs"))["beside_p50_ms"] > 0


@pytest.mark.soak
async def test_snapshots_of_any_size_are_compared() -> None:
    found = await figures("drift", calls=3_000)
    assert found["3000_answers_compared"] == 3_000
    assert found["3000_answers_peak_mib"] > 10


@pytest.mark.soak
@needs_redis
async def test_nothing_is_lost_asked_twice_or_overspent() -> None:
    found = await figures_of("gateways", gateways.Size(40, 8, 2.0, 100))
    for name, figure in found.items():
        if name.endswith("_lost"):
            assert figure == 0, name
        if name.endswith("_requests") and not name.startswith(("killed", "identical", "quota")):
            assert figure == 40, name
    assert found["identical_requests"] == 1
    assert found["killed_requests"] == 2
    assert found["quota_requests"] == 100
    assert found["killed_others_answered"] == "3 of 3"


async def test_a_measurement_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateways, "is_installed", lambda: False)
    lacks = {"gateways": "not measured: redis-server is not installed"}
    assert await figures_of("gateways") == lacks


def test_what_is_measured_is_told_as_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def measure(_: Harness) -> dict[str, float | str]:
        harness.log.info("round %d of %d", 1, 2)
        return {"calls_per_s": 1234.5, "other": "not measured"}

    for name in ("wire", "ray"):
        monkeypatch.setattr(f"bench.speed.{name}.measure", measure)
    told = CliRunner().invoke(main, ["speed", "wire", "ray"])
    assert told.exit_code == 0
    shown = "  calls_per_s: 1,234.50\n  other: not measured\n"
    assert told.stdout == f"wire\n{shown}ray\n{shown}"
    lines = told.stderr.splitlines()
    assert [line.partition(" (")[0] for line in lines] == [
        *("wire: begun", "wire: round 1 of 2"),
        *("ray: begun", "ray: round 1 of 2"),
    ]
    assert all(re.search(r"\(about (\d+ min )?\d+ (s|min) left\)$", line) for line in lines)


def test_every_measurement_is_described() -> None:
    said = CliRunner().invoke(main, ["speed", "--help"]).stdout
    assert set(re.findall(r"`(\w+)`", said)) == ABOUT_S.keys()
    unknown = CliRunner().invoke(main, ["speed", "fast"])
    assert unknown.exit_code == 2
    assert "'fast'; there are: doors, live," in unknown.stderr

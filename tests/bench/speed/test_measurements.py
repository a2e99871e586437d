"""`finbench speed` in small: what is measured adds up. Nothing is said about speed."""

import re
import shutil

import pytest
from click.testing import CliRunner

from bench.cli.main import main
from bench.environment import AKTOOLS_PYTHON, FASTMCP_PYTHON, INSPECT_PYTHON
from bench.speed import driver, floods, gateways, ray, wire
from bench.speed.harness import Figures, Harness, figures_of, log
from tests.support.installed import NEEDS_AKSHARE
from tests.support.redis import needs_redis

pytestmark = pytest.mark.anyio

SMALL = 0.01


@pytest.fixture(autouse=True)
def without_baselines(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (AKTOOLS_PYTHON, FASTMCP_PYTHON, INSPECT_PYTHON):
        monkeypatch.delenv(variable, raising=False)


@pytest.mark.parametrize(
    ("name", "positive"),
    [
        ("cache", ("ratio", "ratio_recorded", "written_share", "disk_hits_per_s")),
        ("compress", ("date_ms", "parsed_ms", "ratio")),
        ("live", ("gateway_calls_per_s", "proxy_p99_ms", "ratio_min")),
        pytest.param(
            *("model", ("model_log_bytes_per_episode", "model_to_official_aiohttp")),
            marks=pytest.mark.soak,
        ),
        pytest.param("snapshot", ("open_ms", "look_up_p99_us"), marks=pytest.mark.soak),
        pytest.param("market", ("days_per_s", "took_s"), marks=pytest.mark.soak),
    ],
)
async def test_every_part_is_measured(name: str, positive: tuple[str, ...]) -> None:
    found = await figures_of(name, SMALL)
    assert min(found[figure] for figure in positive) > 0


async def test_interfaces_are_measured_beside_a_bare_handler() -> None:
    found = await figures_of("doors", SMALL)
    assert min(found["rest_ratio"], found["mcp_ratio"], found["batch_calls_per_s"]) > 0
    assert found["mcp_answer_bytes"] > 2 * found["rest_answer_bytes"]
    assert found["fastmcp"] == f"not measured: set {FASTMCP_PYTHON}"


@NEEDS_AKSHARE
@pytest.mark.soak
async def test_dead_sources_are_stood_in_for_and_nothing_wrong_is_told() -> None:
    found = await figures_of("failover", SMALL)
    assert found["answered_share"] >= 0.95
    assert found["answered_without_stand_ins"] == 0
    assert found["trap_calls"] > 20
    assert found["wrong"] == 0


@pytest.mark.parametrize("scale", [SMALL, pytest.param(0.6, marks=pytest.mark.soak)])
async def test_calls_are_answered_or_refused_and_a_client_beside_a_flood_is_answered(
    scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(floods, "FLOODS", ("refusals",))
    found = await figures_of("floods", scale)
    for load in ("2x", "5x"):
        assert found[f"at_{load}_others_per_s"] == 0
        if scale > SMALL:  # else a machine that stands still for a moment leaves time for neither
            assert found[f"at_{load}_refused_per_s"] > 0
            assert found[f"at_{load}_answered_per_s"] > 0
    assert found["refusals_answered_per_s"] > 0
    assert found["refusals_times_idle"] > 0


@NEEDS_AKSHARE
async def test_akshare_is_measured_in_clear_and_over_tls() -> None:
    found = await figures_of("akshare", SMALL)
    assert found["clear_finport_calls_per_s"] > 0
    assert found["aktools"] == f"not measured: set {AKTOOLS_PYTHON}"
    assert ("tls" in found) == (shutil.which("openssl") is None)
    assert ("tls_finport_calls_per_s" in found) == ("tls" not in found)


async def test_scripted_episodes_are_measured_with_and_without_a_judge() -> None:
    async with Harness.open(SMALL) as harness:
        found = await driver.beside_inspect(harness)
    assert found.pop("inspect") == f"not measured: set {INSPECT_PYTHON}"
    assert min(found.values()) >= 0
    assert found["scripted_most_in_flight"] == SMALL * driver.CONCURRENCY
    assert found["judged_log_bytes_per_episode"] > found["scripted_log_bytes_per_episode"] > 1_000


@pytest.mark.soak
async def test_many_calls_are_measured() -> None:
    found = await figures_of("driver", SMALL)
    assert found["last_to_first_min"] <= found["last_to_first"] <= found["last_to_first_max"]


async def test_each_way_to_a_gateway_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "ROUNDS", {10_000: 1})
    found = await figures_of("wire", SMALL)
    sides = {"inprocess": 100, "streams": 100, "requests": 50}
    assert {side: found[f"at_once_10000_{side}_most_in_flight"] for side in sides} == sides
    rates = [found[f"at_once_10000_{side}_episodes_per_s"] for side in ("streams", "inprocess")]
    assert found["at_once_10000_streams_to_inprocess"] == pytest.approx(rates[0] / rates[1])
    assert found["at_once_10000_streams_sockets"] < found["at_once_10000_requests_sockets"]


@pytest.mark.soak
async def test_both_engines_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    monkeypatch.setattr(ray, "KINDS", {"scripted": ray.KINDS["scripted"]})
    found = await figures_of("ray", SMALL)
    rates = [found[f"scripted_{side}_episodes_per_s"] for side in ("ray", "local")]
    assert found["scripted_ray_to_local"] == pytest.approx(rates[0] / rates[1])
    assert found["scripted_ray_head_cpu_us_per_episode"] > 0


@pytest.mark.soak
async def test_snapshots_of_any_size_are_compared() -> None:
    found = await figures_of("drift", 0.03)
    assert found["3000_answers_compared"] == 3_000
    assert found["3000_answers_peak_mib"] > 10


@pytest.mark.soak
@needs_redis
async def test_nothing_is_lost_or_asked_twice() -> None:
    found = await figures_of("gateways", 0.4)
    for name, figure in found.items():
        if name.endswith("_lost"):
            assert figure == 0, name
        if name.endswith("_requests") and name != "identical_requests":
            assert figure == found["before_calls"] / gateways.GATEWAYS, name
    assert found["identical_requests"] == 1


async def test_a_measurement_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateways, "is_installed", lambda: False)
    lacks = {"gateways": "not measured: redis-server is not installed"}
    assert await figures_of("gateways") == lacks


def test_what_is_measured_is_told_as_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def measure(_: Harness) -> Figures:
        log.info("round %d of %d", 1, 2)
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


def test_an_unknown_measurement_is_refused() -> None:
    unknown = CliRunner().invoke(main, ["speed", "fast"])
    assert unknown.exit_code == 2
    assert "'fast'; there are: doors, live," in unknown.stderr

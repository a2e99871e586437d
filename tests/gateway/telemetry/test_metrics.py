"""What Prometheus is told: as many calls as were made, over all workers of a run."""

import asyncio
import math
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from adapters.rapidapi.keys import Key
from adapters.simulator import Fault, SimulatedUpstream
from cache import CacheControl
from cache.entry import View
from gateway import CallContext, Gateway
from gateway.context import DEFAULT_CONTEXT
from gateway.errors import CallError, ErrorCode
from gateway.grant import Grant
from gateway.pipeline.bind import Binder
from gateway.result import Result
from gateway.telemetry.exposition import BOUNDS_S, MAX_CLIENTS, OPENMETRICS, TEXT, Figures, merge
from gateway.telemetry.metrics import CallMetrics, Metrics
from gateway.telemetry.reports import WorkerReport
from gateway.telemetry.vitals import PERIOD_S, Vitals
from manifests import Catalog
from tests.support.gateways import PLANTED_KEY, open_local_gateway
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.anyio

COIN = ("get_coin", {"uuid": "Qwsogvtv82FCd"})
HOST = "coinranking1.p.rapidapi.com"
PROMTOOL = shutil.which("promtool")
FINGERPRINT = Key.of(PLANTED_KEY).id

Families = dict[str, Metric]


@dataclass
class Scraped:
    """A gateway whose live upstreams are simulated, and its metrics."""

    gateway: Gateway
    simulator: SimulatedUpstream
    metrics: Metrics

    async def families(self) -> Families:
        return parsed(await self.metrics.exposition())


@asynccontextmanager
async def open_scraped(
    catalog: Catalog,
    tmp_path: Path,
    folder: Path | None = None,
    name_of: Callable[[str], str | None] = lambda _: None,
    **settings: Any,
) -> AsyncIterator[Scraped]:
    calls = CallMetrics(name_of)
    opened = open_local_gateway(catalog, tmp_path, **{"retries": 0, **settings})
    async with opened as local, Vitals.watch() as vitals:
        with local.gateway.observed(calls):
            async with Metrics.open(local.gateway, vitals, calls, folder, 0) as metrics:
                yield Scraped(local.gateway, local.simulator, metrics)


@pytest.fixture
async def scraped(catalog: Catalog, tmp_path: Path) -> AsyncIterator[Scraped]:
    async with open_scraped(catalog, tmp_path) as opened:
        yield opened


def parsed(text: bytes) -> Families:
    return {family.name: family for family in text_string_to_metric_families(text.decode())}


def numbers(families: Families, name: str) -> dict[tuple[str, ...], float]:
    """Samples of a name by their label values in the order of their label names."""
    every = [sample for family in families.values() for sample in family.samples]
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for sample in every
        if sample.name == name
    }


def number(families: Families, name: str, *labels: str) -> float:
    return numbers(families, name)[labels]


async def test_calls_are_counted_as_they_ended(scraped: Scraped) -> None:
    gateway = scraped.gateway
    for _ in range(3):
        await gateway.call(*COIN)
    await gateway.call("get_coin", {})
    await gateway.call("no_such_tool", {})
    scraped.simulator.play("*", Fault.SERVER_ERROR)
    await gateway.call(*COIN, CallContext(cache=CacheControl(no_cache=True)))
    await gateway.refuse("x", CallError(ErrorCode.TOO_LARGE, "too large"))
    scraped.simulator.play("*", Fault.HUGE)
    await gateway.call(*COIN, CallContext(cache=CacheControl(no_cache=True)))
    families = await scraped.families()
    assert numbers(families, "finport_calls_total") == {
        ("ok", "", HOST, "live", "get_coin"): 1,
        ("ok", "", HOST, "cached", "get_coin"): 2,
        ("upstream_error", "tool", HOST, "live", "get_coin"): 1,
        ("invalid_arguments", "agent", "", "", ""): 1,
        ("unknown_tool", "agent", "", "", ""): 1,
        ("too_large", "agent", "", "", ""): 1,
        ("too_large", "tool", HOST, "live", "get_coin"): 1,
    }
    assert number(families, "finport_cache_lookups_total") == 5
    assert number(families, "finport_cache_hits_total") == 2


async def test_buckets_are_cumulative_and_agree_with_the_counts(scraped: Scraped) -> None:
    results = [await scraped.gateway.call(*COIN) for _ in range(5)]
    results += [await scraped.gateway.call("no_such_tool", {})]
    families = await scraped.families()
    buckets = numbers(families, "finport_call_duration_seconds_bucket")
    counts = numbers(families, "finport_call_duration_seconds_count")
    bounds = [*map(str, BOUNDS_S), "+Inf"]
    for place, count in counts.items():
        host, provenance = place
        series = [buckets[host, bound, provenance] for bound in bounds]
        assert series == sorted(series)
        assert series[-1] == count
    assert counts == {(HOST, "live"): 1, (HOST, "cached"): 4, ("", ""): 1}
    assert sum(counts.values()) == sum(numbers(families, "finport_calls_total").values())
    took_s = sum(numbers(families, "finport_call_duration_seconds_sum").values())
    assert took_s == pytest.approx(sum(result.elapsed_ms for result in results) / 1e3)
    assert number(families, "finport_answer_bytes_total") == sum(
        len(result.data) for result in results if result.ok
    )


async def test_a_caller_makes_no_label_and_no_key_is_told(catalog: Catalog, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    async with open_scraped(catalog, tmp_path, folder) as scraped:
        await scraped.gateway.call(*COIN)
        before = (await scraped.metrics.exposition()).count(b"\n")
        for n in range(300):
            await scraped.gateway.call(f'made-up-{n}\n"', {f"made-up-{n}": PLANTED_KEY})
            await scraped.gateway.call("get_coin", {f"made-up-{n}": n})
            await scraped.gateway.call(*COIN, CallContext(client=f"made-up-{n}"))
        text = await scraped.metrics.exposition()
        assert b"made-up" not in text
        assert text.count(b"\n") < before + 100
    written = b"".join(file.read_bytes() for file in folder.iterdir())
    assert PLANTED_KEY.encode() not in text + written
    assert b"made-up" not in written


async def test_the_state_of_hosts_quotas_and_tiers_is_told(
    catalog: Catalog, tmp_path: Path
) -> None:
    plan = {HOST: {"per_month": 500}}
    async with open_scraped(catalog, tmp_path, hosts=plan, breaker_attempts=3) as scraped:
        await scraped.gateway.call(*COIN)
        scraped.simulator.play("*", Fault.HANG)
        hanging = asyncio.create_task(scraped.gateway.call("get_reference_currencies", {}))
        await until(lambda: scraped.gateway.answers.hosts.state()[HOST]["in_flight"])
        await asyncio.sleep(2 * PERIOD_S)  # then the loop's lag has been sampled
        families = await scraped.families()
        hanging.cancel()
    assert number(families, "finport_host_in_flight", HOST) == 1
    assert number(families, "finport_host_waiting", HOST) == 0
    assert number(families, "finport_host_retry_tokens", HOST) == 10
    assert number(families, "finport_pending_calls") == 1
    assert number(families, "finport_flights") == 1
    assert numbers(families, "finport_host_breaker_state") == {
        (HOST, "closed"): 1,
        (HOST, "half_open"): 0,
        (HOST, "open"): 0,
    }
    quota = (HOST, FINGERPRINT, "plan", "month")
    assert number(families, "finport_quota_used", *quota) == 2
    assert number(families, "finport_quota_limit", *quota) == 500
    assert number(families, "finport_cache_entries", "memory") == 1
    assert number(families, "finport_cache_bytes", "memory") > 1_000
    assert number(families, "finport_cache_bytes", "disk") > 1_000
    assert number(families, "finport_resident_bytes") > 2**20
    assert number(families, "finport_loop_lag_seconds", "0.5") < PATIENCE_S
    assert number(families, "finport_loop_late_seconds_total") < PATIENCE_S
    assert number(families, "finport_workers") == 1
    (info,) = families["finport_info"].samples
    assert (info.labels["upstream"], info.labels["mode"]) == ("live", "live")


async def test_both_formats_say_the_same(scraped: Scraped) -> None:
    await scraped.gateway.call(*COIN)
    await scraped.gateway.call("no_such_tool", {})
    await until(lambda: scraped.metrics._report().lag.count)
    plain = parsed(await scraped.metrics.exposition(TEXT))
    text = (await scraped.metrics.exposition(OPENMETRICS)).decode()
    said = {family.name: family for family in openmetrics(text)}  # type: ignore[no-untyped-call]
    assert said.keys() ^ plain.keys() == {"finport", "finport_info"}, "an info's name differs"
    for name in ("finport_calls_total", "finport_call_duration_seconds_bucket"):
        assert numbers(said, name) == numbers(plain, name)
    assert said["finport_loop_lag_seconds"].type == "summary"
    if PROMTOOL is not None:  # apt install prometheus
        command = (PROMTOOL, "check", "metrics")
        text_ = await scraped.metrics.exposition()
        checked = await anyio.run_process(
            command, input=text_, check=False, stderr=subprocess.STDOUT
        )
        assert (checked.returncode, checked.stdout) == (0, b"")


async def test_an_open_breaker_is_told(catalog: Catalog, tmp_path: Path) -> None:
    async with open_scraped(catalog, tmp_path, breaker_attempts=3) as scraped:
        scraped.simulator.play("*", *[Fault.SERVER_ERROR] * 3)
        for _ in range(4):
            await scraped.gateway.call(*COIN)
        families = await scraped.families()
    assert number(families, "finport_host_breaker_state", HOST, "open") == 1
    assert number(families, "finport_host_breaker_state", HOST, "closed") == 0
    assert number(families, "finport_host_breaker_opened_total", HOST) == 1
    assert (
        number(families, "finport_calls_total", "circuit_open", "tool", HOST, "live", "get_coin")
        == 1
    )


async def test_the_processes_of_akshare_are_counted(catalog: Catalog, tmp_path: Path) -> None:
    async with open_scraped(catalog, tmp_path, akshare_workers=1) as scraped:
        assert numbers(await scraped.families(), "finport_akshare_workers") == {
            ("busy",): 0,
            ("idle",): 0,
            ("retiring",): 0,
        }
        assert (await scraped.gateway.call("stock_zh_a_hist", {"symbol": "600519"})).ok
        families = await scraped.families()
    assert number(families, "finport_akshare_workers", "idle") == 1
    assert number(families, "finport_akshare_workers_started_total") == 1


async def test_a_gateway_that_only_records_looks_nothing_up(
    catalog: Catalog, tmp_path: Path
) -> None:
    path = tmp_path / "snapshot"
    async with open_scraped(catalog, tmp_path, mode="record", snapshot=path) as scraped:
        await scraped.gateway.call(*COIN)
        assert numbers(await scraped.families(), "finport_cache_lookups_total") == {}


def report(pid: int, **said: Any) -> WorkerReport:
    fields = {"at": time.time(), "has_ended": False, "failed": False, "uptime_s": 1.0}
    kinds = ("calls", "state", "counters", "gauges")
    return WorkerReport(pid=pid, index=1, **fields | {kind: {} for kind in kinds} | said)


def write(folder: Path, pid: int, at: float, calls: float = 5, pending: float = 7) -> None:
    folder.mkdir(exist_ok=True)
    tally = [calls, *[0.0] * (len(BOUNDS_S)), calls * 100, calls * 10]
    counters: Figures = {"calls": [(["get_coin", HOST, "live", "ok", ""], tally)]}
    gauges: Figures = {"finport_pending_calls": [([], [pending])], "finport_workers": [([], [1])]}
    said = report(pid, at=at, counters=counters, gauges=gauges)
    (folder / f"worker-1-{pid}.json").write_bytes(orjson.dumps(said))


def ended_process() -> int:
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    process.wait()
    return process.pid


LIVE = ("ok", "", HOST, "live", "get_coin")


def keyed(client: str) -> CallContext:
    """As the calls of a client with a key begin."""
    return CallContext(client=client, grant=Grant())


async def test_calls_are_counted_by_the_names_of_clients(catalog: Catalog, tmp_path: Path) -> None:
    names = {"00000001": "desk", "00000002": "desk", "00000003": "batch"}
    async with open_scraped(catalog, tmp_path, name_of=names.get) as scraped:
        for client in ("00000001", "00000002", "00000003", "revoked"):
            await scraped.gateway.call(*COIN, keyed(client))
        del names["00000003"]
        await scraped.gateway.call("no_such_tool", {}, keyed("00000003"))
        await scraped.gateway.call(*COIN, CallContext(client="00000001"))  # who has no key
        await scraped.gateway.call(*COIN)
        families = await scraped.families()
    counted = numbers(families, "finport_client_calls_total")
    assert counted == {
        ("desk", "ok"): 2,
        ("batch", "ok"): 1,
        ("batch", "unknown_tool"): 1,
        ("(other)", "ok"): 1,
        ("", "ok"): 2,
    }
    assert sum(counted.values()) == sum(numbers(families, "finport_calls_total").values())


async def test_more_clients_than_are_told_by_name_share_one(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.telemetry.metrics.REMEMBERED", 10)
    folder = tmp_path / "run"
    async with open_scraped(catalog, tmp_path, folder, name_of=lambda id_: f"n-{id_}") as scraped:
        for n in range(MAX_CLIENTS + 50):
            for _ in range(2):
                await scraped.gateway.call("no_such_tool", {}, keyed(f"{n:03}"))
        before = numbers(await scraped.families(), "finport_client_calls_total")
        assert len(before) == MAX_CLIENTS + 1
        assert before["(other)", "unknown_tool"] == 100
        rows = [(["a", "ok"], [7.0]), (["n-000", "unknown_tool"], [1.0]), (["zz", "ok"], [5.0])]
        other = report(os.getppid(), counters={"finport_client_calls_total": rows})
        (folder / "worker-1-1.json").write_bytes(orjson.dumps(other))
        after = numbers(await scraped.families(), "finport_client_calls_total")
    assert len({name for name, _ in after}) == MAX_CLIENTS + 1
    assert after["n-000", "unknown_tool"] == 3
    assert sum(after.values()) == sum(before.values()) + 13


async def test_an_answer_about_all_workers_is_given_without_a_folder_that_hangs(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, held = tmp_path / "run", threading.Event()

    def hang(_: Metrics) -> None:
        assert held.wait(PATIENCE_S)

    async with open_scraped(catalog, tmp_path, folder) as scraped:
        monkeypatch.setattr("gateway.telemetry.metrics.LOOK_S", 0.05)
        monkeypatch.setattr(Metrics, "_look", hang)
        try:
            for _ in range(3):
                assert (await scraped.metrics.health())["alive"] == 1
        finally:
            held.set()


def health(pid: int, *, failed: bool = False, ended: bool = False, **hosts: Any) -> WorkerReport:
    return report(
        pid,
        failed=failed,
        has_ended=ended,
        uptime_s=12.5,
        calls={"live": 4, "timeout": 1},
        state={
            "cache": {"memory": {"entries": 3}, "disk": {"queued": 1}},
            "pending": 2,
            "hosts": {HOST: {"in_flight": 1, "breaker": "closed", "retry_tokens": 9.9, **hosts}},
            "children_peak_rss_bytes": None,
        },
        gauges={"lag": [(["10"], [5]), (["-20"], [5])]},
    )


async def test_how_workers_are_doing_is_said_of_all(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    monkeypatch.setattr("gateway.telemetry.metrics.KNOWN_S", 0.0)
    async with open_scraped(catalog, tmp_path, folder) as scraped:
        await scraped.gateway.call(*COIN)
        alone = await scraped.metrics.health()
        assert (alone["alive"], alone["failed"], alone["calls"]) == (1, False, {"live": 1})
        others = [
            health(os.getppid(), breaker="open", retry_tokens=0.3),
            health(ended_process()),
            health(1, ended=True),
        ]
        for n, other in enumerate(others):
            (folder / f"worker-1-{n}.json").write_bytes(orjson.dumps(other))
        both = await scraped.metrics.health()
        assert (both["alive"], both["failed"], both["uptime_s"]) == (2, False, 12.5)
        assert both["calls"] == {"live": 1 + 3 * 4, "timeout": 3}
        assert both["pending"] == 2
        assert both["cache"]["memory"]["entries"] == 1 + 3
        host = both["hosts"][HOST]
        assert (host["breaker"], host["in_flight"], host["retry_tokens"]) == ("open", 1, 10.3)
        assert both["loop_lag_ms"]["p50"] is not None
        assert not (await scraped.metrics.health())["failed"]
        (folder / "worker-1-0.json").write_bytes(orjson.dumps(health(os.getppid(), failed=True)))
        monkeypatch.setattr(scraped.metrics, "_known_until", math.inf)
        assert not (await scraped.metrics.health())["failed"], "what was read is used for a while"
        monkeypatch.setattr(scraped.metrics, "_known_until", 0.0)
        assert (await scraped.metrics.health())["failed"]
    (own,) = folder.glob(f"worker-0-{os.getpid()}-*.json")
    assert orjson.loads(own.read_bytes())["has_ended"]


async def test_workers_add_up_and_one_that_has_ended_leaves_its_counters(
    catalog: Catalog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("gateway.telemetry.reports.STALE_S", PATIENCE_S)
    folder = tmp_path / "run"
    write(folder, os.getppid(), time.time())
    write(folder, ended_process(), time.time(), calls=11)
    (folder / "worker-1-none-of-ours.json").write_text('{"pid": 1}')
    async with open_scraped(catalog, tmp_path, folder) as scraped:
        await scraped.gateway.call(*COIN)
        families = await scraped.families()
        assert number(families, "finport_calls_total", *LIVE) == 1 + 5 + 11
        assert number(families, "finport_workers") == 2
        assert number(families, "finport_pending_calls") == 7
        write(folder, os.getppid(), time.time() - 2 * PATIENCE_S)  # its id went to another process
        families = await scraped.families()
        assert number(families, "finport_calls_total", *LIVE) == 1 + 5 + 11
        assert number(families, "finport_workers") == 1
        assert number(families, "finport_pending_calls") == 0
    assert "worker-1-none-of-ours.json can't be read" in caplog.text


async def test_a_worker_leaves_its_counters_also_to_one_with_its_id(
    catalog: Catalog, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    for made in (1, 2, 3):
        async with open_scraped(catalog, tmp_path, folder) as scraped:
            demands = CallContext(cache=CacheControl(no_cache=True))
            await scraped.gateway.call(*COIN, demands)
            families = await scraped.families()
            assert number(families, "finport_calls_total", *LIVE) == made
            assert number(families, "finport_workers") == 1
            # one file for each process that was, and the one that is
            await until(lambda: len(list(folder.glob("worker-0-*.json"))) == made)  # noqa: B023
    states = [orjson.loads(file.read_bytes()) for file in folder.glob("worker-0-*.json")]
    assert {tuple(state["gauges"]) for state in states} == {()}
    assert folder.stat().st_mode & 0o777 == 0o700


async def test_a_folder_that_goes_away_is_told_once_and_hurts_nobody(
    catalog: Catalog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("gateway.telemetry.metrics.WRITE_S", 0.02)
    folder = tmp_path / "run"
    async with open_scraped(catalog, tmp_path, folder) as scraped:
        folder.rename(tmp_path / "gone")
        await until(lambda: "can't be shared" in caplog.text)
        await asyncio.sleep(0.1)
        assert (await scraped.gateway.call(*COIN)).ok
        assert number(await scraped.families(), "finport_calls_total", *LIVE) == 1
    assert caplog.text.count("can't be shared") == 1


TOOLS = ("get_coin", "stock_zh_a_hist", "no_such_tool")
ended_calls = st.tuples(
    st.sampled_from(TOOLS),
    st.sampled_from(("live", "cached", None)),
    st.sampled_from((None, ErrorCode.TIMEOUT, ErrorCode.INTERNAL)),
    st.integers(0, 200_000_000).map(lambda us: us / 1e3),
    st.binary(max_size=5),
)


@pytest.fixture(scope="module")
def binder(catalog: Catalog) -> Binder:
    return Binder(catalog)


def counted(binder: Binder, calls: Iterable[tuple[Any, ...]]) -> Figures:
    metrics = CallMetrics()
    bounds = {
        "get_coin": binder.bind("get_coin", {"uuid": "x"}),
        "stock_zh_a_hist": binder.bind("stock_zh_a_hist", {"symbol": "600519"}),
    }
    for tool, source, code, took_ms, data in calls:
        result = Result(tool, "1", took_ms, source=source, view=View(data, False, b""))
        result.error = None if code is None else CallError(code, "")
        metrics.ended(result, bounds.get(tool), DEFAULT_CONTEXT)
    return orjson.loads(orjson.dumps(metrics.figures()))  # type: ignore[no-any-return]


@given(calls=st.lists(st.tuples(ended_calls, st.integers(0, 2)), max_size=30))
def test_any_split_over_workers_adds_up_to_the_same(
    binder: Binder, calls: list[tuple[tuple[Any, ...], int]]
) -> None:
    whole = counted(binder, [call for call, _ in calls])
    workers = [counted(binder, [call for call, own in calls if own == n]) for n in range(3)]
    assert merge(workers) == merge([whole])
    assert merge([merge(workers[1:]), workers[0]]) == merge([whole])


@given(took_ms=st.floats(0, 400_000))
def test_a_call_falls_into_the_first_bucket_that_holds_it(binder: Binder, took_ms: float) -> None:
    ((_, tally),) = counted(binder, [("get_coin", "live", None, took_ms, b"")])["calls"]
    place = tally[:-2].index(1)
    assert place == len(BOUNDS_S) or took_ms <= BOUNDS_S[place] * 1e3
    assert place == 0 or took_ms > BOUNDS_S[place - 1] * 1e3

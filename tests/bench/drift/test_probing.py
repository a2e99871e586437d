"""Probes: what is asked, how politely, and what becomes of hosts that do not answer."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pydantic import SecretStr

from adapters.simulator import Fault, Faults, SimulatedUpstream
from bench.drift.probing import Probing, lacking
from cache import Snapshot
from gateway import Gateway, GatewaySettings
from gateway.pipeline.bind import Binder, BoundCall
from manifests import Catalog, Manifest
from tests.support.upstreams import upstream
from tests.support.waiting import EARLY_S

pytestmark = pytest.mark.anyio

ALPHA, YAHOO = "seeking-alpha.p.rapidapi.com", "yh-finance8.p.rapidapi.com"

NEWEST = "2026-02"
"""No example of the catalogue is later."""

WRITTEN = {"yyyymmdd": "%Y%m%d", "yyyymm": "%Y%m", "yyyy": "%Y"}
DATES = frozenset([*WRITTEN, "date", "date-time", "unix-seconds"])


def month(value: object, format_: str | None) -> str:
    """The month that a date of a probe names, as `2024-06`."""
    if format_ == "unix-seconds":
        return f"{datetime.fromtimestamp(float(str(value)), UTC):%Y-%m}"
    if format_ in WRITTEN:
        return f"{datetime.strptime(str(value), WRITTEN[format_]):%Y-%m}"  # noqa: DTZ007
    return f"{datetime.fromisoformat(str(value)):%Y-%m}"


def test_every_tool_that_can_be_called_has_a_probe_that_binds(catalog: Catalog) -> None:
    binder = Binder(catalog)
    called = [manifest for manifest in catalog if not manifest.unavailable]
    assert len(called) == len(catalog) - 8
    for manifest in called:
        probe = manifest.probe()
        assert binder.bind(manifest.name, probe).arguments.items() >= probe.items()
        assert probe.keys() >= manifest.sample().keys()
        defaults = {p.name: p.default for p in manifest.parameters if p.default is not None}
        for name in probe.keys() & defaults.keys() & manifest.sample().keys():
            assert probe[name] == defaults[name], "as in snapshots that were recorded before"


def test_dates_of_probes_are_fixed_and_past(catalog: Catalog) -> None:
    count = 0
    for manifest in catalog:
        probe = manifest.probe()
        for parameter in manifest.parameters:
            name = parameter.name
            if name in probe and (
                parameter.format in DATES or re.match(r"\d{4}-\d\d-\d\d", str(probe[name]))
            ):
                assert month(probe[name], parameter.format) <= NEWEST, (manifest.name, name)
                count += 1
            elif parameter.filled_by == "agent" and parameter.withdrawn is None:
                by_default = name not in probe and parameter.format in DATES
                assert not by_default, f"{manifest.name}: {name} depends on the day of the call"
    assert count > 200
    by_year = catalog.get("macro_china_nbs_region")
    assert by_year is not None
    assert by_year.probe()["period"] == "2022", "and not its default, LAST10"


def tools_of(catalog: Catalog, host: str, count: int) -> list[Manifest]:
    reads = [m for m in catalog if m.upstream == host and not m.is_for_one]
    return reads[:count]


def bound(catalog: Catalog, manifests: list[Manifest]) -> list[BoundCall]:
    binder = Binder(catalog)
    return [binder.bind(manifest.name, dict(manifest.probe())) for manifest in manifests]


def settings_of(folder: Path, url: str, **settings: Any) -> GatewaySettings:
    return GatewaySettings(
        **{
            "cache_dir": folder / "cache",
            "rapidapi_base_url": url,
            "rapidapi_keys": (SecretStr("planted"),),
            "mode": "record",
            "snapshot": folder / "s.snapshot",
            "retries": 0,
            **settings,
        }
    )


class Round:
    """One round of probes in front of a simulated upstream, and what it told."""

    def __init__(self, probing: Probing, simulated: SimulatedUpstream, told: list[str]) -> None:
        self.probing, self.simulated, self.told = probing, simulated, told

    def requests(self, host: str) -> int:
        return sum(n for (asked, _), n in self.simulated.requests.items() if asked == host)


@asynccontextmanager
async def round_of(
    catalog: Catalog,
    folder: Path,
    *hosts: str,
    faults: Faults | None = None,
    each: int = 6,
    pace_s: float = 0.0,
    **settings: Any,
) -> AsyncIterator[Round]:
    calls = bound(catalog, [m for host in hosts for m in tools_of(catalog, host, each)])
    told: list[str] = []
    async with SimulatedUpstream.open(catalog, faults=faults) as simulated:
        chosen = settings_of(folder, simulated.base_url, **settings)
        async with Gateway.open(chosen, catalog=catalog) as gateway:
            yield Round(Probing(gateway, calls, pace_s, told.append, 0.02), simulated, told)


async def test_a_host_is_asked_one_call_at_a_time_and_hosts_at_the_same_time(
    catalog: Catalog, tmp_path: Path
) -> None:
    now, most, together = Counter[str](), Counter[str](), 0

    async def handle(request: web.Request) -> web.Response:
        nonlocal together
        host = request.headers["X-RapidAPI-Host"]
        now[host] += 1
        most[host] = max(most[host], now[host])
        together = max(together, now.total())
        await asyncio.sleep(0.02)
        now[host] -= 1
        return web.json_response({"x": 1})

    calls = bound(catalog, [m for h in (ALPHA, YAHOO) for m in tools_of(catalog, h, 6)])
    async with (
        upstream(handle) as url,
        Gateway.open(settings_of(tmp_path, url), catalog=catalog) as gateway,
    ):
        probing = Probing(gateway, calls, 0.0, print)
        await probing.run()
        assert probing.answered == 12
    assert most == {ALPHA: 1, YAHOO: 1}
    assert together == 2


async def test_calls_to_one_host_keep_the_pace(catalog: Catalog, tmp_path: Path) -> None:
    async with round_of(catalog, tmp_path, ALPHA, YAHOO, pace_s=0.05) as one:
        started = time.monotonic()
        await one.probing.run()
        assert time.monotonic() - started >= 5 * (0.05 - EARLY_S)


@pytest.mark.parametrize(("open_s", "answered"), [(0.05, 10), (1_000, 6)])
async def test_an_open_breaker_is_waited_for_unless_it_stays_open(
    catalog: Catalog, tmp_path: Path, open_s: float, answered: int
) -> None:
    async with round_of(
        catalog, tmp_path, ALPHA, YAHOO, breaker_attempts=2, breaker_open_s=open_s
    ) as one:
        one.simulated.play(ALPHA, Fault.SERVER_ERROR, Fault.SERVER_ERROR)
        await one.probing.run()
        assert one.probing.answered == answered
        assert one.probing.later == ({} if open_s < 1 else {ALPHA: 4})
        assert one.requests(ALPHA) == (6 if open_s < 1 else 2)


async def test_a_host_that_hangs_is_left_after_three_calls(
    catalog: Catalog, tmp_path: Path
) -> None:
    async with round_of(
        catalog, tmp_path, ALPHA, each=9, attempt_timeout_s=1.0, deadline_s=3.0
    ) as one:
        one.simulated.play(ALPHA, Fault.HANG, Fault.HANG, None, *[Fault.HANG] * 6)
        await one.probing.run()
        assert one.requests(ALPHA) == 6
        assert one.probing.later == {ALPHA: 3}
        assert (one.probing.made, one.probing.answered) == (6, 1)


async def test_errors_of_our_settings_are_told_at_once_and_not_recorded(
    catalog: Catalog, tmp_path: Path
) -> None:
    async with round_of(catalog, tmp_path, ALPHA, YAHOO) as one:
        one.simulated.play(ALPHA, Fault.KEY_REFUSED, Fault.KEY_REFUSED, Fault.NOT_FOUND)
        await one.probing.run()
        assert one.probing.unmade == {"not_configured": 2}
    (told,) = (text for text in one.told if " calls made" not in text)
    assert "not_configured: the upstream does not accept the key" in told
    assert told.endswith("such errors are not recorded")
    with Snapshot(tmp_path / "s.snapshot") as snapshot:
        assert snapshot.summary.statuses == {"ok": 9, "upstream_error": 1}


def test_the_credential_that_a_host_wants_is_known_before_the_first_call(
    catalog: Catalog, tmp_path: Path
) -> None:
    calls = bound(catalog, [m for m in catalog if not m.unavailable])
    lacked = lacking(settings_of(tmp_path, "http://127.0.0.1:9"), calls)
    assert 0 < len(lacked) < 20
    assert all("FINPORT_CREDENTIALS" in reason for reason in lacked.values())


async def test_progress_is_told_with_failures_and_time_left(
    catalog: Catalog, tmp_path: Path
) -> None:
    faults = Faults(latency_s=0.05)
    async with round_of(catalog, tmp_path, ALPHA, each=4, faults=faults, pace_s=0.4) as one:
        one.simulated.play(ALPHA, Fault.NOT_FOUND)
        await one.probing.run()
    line = re.compile(r"\d of 4 calls made(, 1 failed)?(, about [\d.]+ m?s left)?")
    assert [text for text in one.told if not line.fullmatch(text)] == []
    assert any(" 1 failed, about " in text for text in one.told)

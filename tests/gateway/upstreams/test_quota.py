"""The quota ledger: never under-counted, shared by processes, and kept over runs."""

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from adapters.fault import UpstreamFault
from adapters.rapidapi.keys import Key
from gateway.cli.main import main
from gateway.upstreams.accounts import MOST_REPORTED, SPANS, Accounts, Standing, planned
from gateway.upstreams.hosts import NotAdmitted
from gateway.upstreams.quota import MOST_LEASED, UNKNOWN_RESET_S, Ledger, standings
from manifests import PlanLimits
from tests.support.checkout import ROOT
from tests.support.waiting import EARLY_S, PATIENCE_S, Stepping, until

pytestmark = pytest.mark.anyio

HOST = "coinranking1.p.rapidapi.com"


def used(path: Path, secrets: tuple[str, ...] = ("k",)) -> int:
    return sum(
        s.used
        for s in standings(path, secrets, {}, time.time())
        if s.span == "month" and not s.learned
    )


async def test_keys_are_used_in_turn_and_then_there_are_none(tmp_path: Path) -> None:
    path, plans = tmp_path / "q.sqlite", {HOST: PlanLimits(per_month=3)}
    async with Ledger.open(path, ["one", "two"], plans) as ledger:
        given = Counter([(await ledger.take(HOST, 1)).secret for _ in range(6)])
        assert given == {"one": 3, "two": 3}
        began = time.time()
        with pytest.raises(NotAdmitted) as denied:
            await ledger.take(HOST, 1)
        ended = time.time()
    error = denied.value.error
    assert (error.code, error.fault, error.retryable) == ("quota_exhausted", "quota", True)
    resets = datetime.fromisoformat(error.details["resets_at"])
    assert (resets.day, resets.hour) == (1, 0)
    assert error.retry_after_s is not None
    assert resets.timestamp() - ended - 1 <= error.retry_after_s <= resets.timestamp() - began + 1
    async with Ledger.open(path, ["one", "two"], plans) as ledger:
        with pytest.raises(NotAdmitted):
            await ledger.take(HOST, 1)
        await ledger.take("other", 1)  # another host, another quota


async def test_a_ledger_of_an_older_version_keeps_its_count(tmp_path: Path) -> None:
    path, plans = tmp_path / "quota.sqlite", {HOST: PlanLimits(per_month=2)}
    async with Ledger.open(path, ["one"], plans) as ledger:
        await ledger.take(HOST, 1)
    with closing(sqlite3.connect(path)) as store, store:
        store.execute("ALTER TABLE account DROP COLUMN part")  # which it did not have
    async with Ledger.open(path, ["one"], plans) as ledger:
        await ledger.take(HOST, 1)
        with pytest.raises(NotAdmitted, match="quota"):
            await ledger.take(HOST, 1)


async def test_no_key_and_a_key_that_is_not_accepted(tmp_path: Path) -> None:
    async with Ledger.open(tmp_path / "a", [], {}) as ledger:
        with pytest.raises(UpstreamFault, match="FINPORT_RAPIDAPI_KEYS"):
            await ledger.take(HOST, 1)
    async with Ledger.open(tmp_path / "b", ["one", "two"], {}) as ledger:
        first = await ledger.take(HOST, 1)
        assert ledger.refuse(HOST, first) is True
        others = {(await ledger.take(HOST, 1)).secret for _ in range(5)}
        assert others == {"one", "two"} - {first.secret}
        assert ledger.refuse(HOST, await ledger.take(HOST, 1)) is False


async def test_what_an_upstream_says_counts_until_it_resets(tmp_path: Path) -> None:
    def said(remaining: int, reset: float) -> dict[str, str]:
        names = ("limit", "remaining", "reset")
        values = ("500", str(remaining), str(reset))
        return {f"X-RateLimit-Requests-{n}": v for n, v in zip(names, values, strict=True)}

    async with Ledger.open(tmp_path / "q", ["k"], {}) as ledger:
        key = await ledger.take(HOST, 1)
        ledger.learn(HOST, key, 200, said(2, 3600))
        await ledger.take(HOST, 1)
        ledger.learn(HOST, key, 200, said(2, 3600))  # it has not seen the last one yet
        await ledger.take(HOST, 1)
        with pytest.raises(NotAdmitted, match=r"'requests' .* \(500 of 500\)"):
            await ledger.take(HOST, 1)
        ledger.learn(HOST, key, 200, said(499, 90_000))  # a new span has begun
        await ledger.take(HOST, 1)
        ledger.learn(HOST, key, 429, said(0, 0.3))
        ledger.learn(HOST, key, 429, said(0, 0.3))
    async with Ledger.open(tmp_path / "r", ["k"], {}) as ledger:
        started = time.perf_counter()
        ledger.learn(HOST, key, 429, said(0, 0.4))
        await ledger.take(HOST, 5)
        assert 0.4 - EARLY_S <= time.perf_counter() - started < PATIENCE_S, "soon: waited for"


DAY_S = 86_400.0


@pytest.mark.parametrize(
    ("reset", "held_s"),
    [
        ("3600", 3_600),
        (lambda: time.time() + 3_600, 3_600),
        (lambda: (time.time() + 3_600) * 1e3, 3_600),
        (str(86_400_000), DAY_S),  # a day in milliseconds
        (lambda: time.time() + 20 * 365 * DAY_S, UNKNOWN_RESET_S),
        ("9" * 15, UNKNOWN_RESET_S),
        ("9" * 9, UNKNOWN_RESET_S),  # 11.6 days, if these were milliseconds
        (str(20 * DAY_S), DAY_S),
        (lambda: time.time() + 20 * DAY_S, DAY_S),
        ("-1", UNKNOWN_RESET_S),
        ("nan", UNKNOWN_RESET_S),
        ("1e400", UNKNOWN_RESET_S),
        ("9" * 400, UNKNOWN_RESET_S),
    ],
)
async def test_no_reset_that_an_upstream_tells_holds_a_key_for_good(
    tmp_path: Path, reset: str | Callable[[], float], held_s: float
) -> None:
    said = reset if isinstance(reset, str) else f"{reset():.3f}"
    headers = {"x-ratelimit-requests-remaining": "0", "x-ratelimit-requests-reset": said}
    async with Ledger.open(tmp_path / "q", ["k"], {}) as ledger:
        ledger.learn(HOST, await ledger.take(HOST, 1), 429, headers)
        with pytest.raises(NotAdmitted):
            await ledger.take(HOST, 1)
    async with Ledger.open(tmp_path / "q", ["k"], {}) as ledger:
        with pytest.raises(NotAdmitted) as denied:
            await ledger.take(HOST, 1)
    assert denied.value.error.retry_after_s == pytest.approx(held_s, abs=30)


async def test_a_quota_with_a_far_reset_is_asked_about_once_a_day(tmp_path: Path) -> None:
    time_of_day, path, key = Stepping(NOON), tmp_path / "q", Key.of("k")

    async def is_given(ledger: Ledger) -> bool:
        with suppress(NotAdmitted):
            return bool(await ledger.take(HOST, 1))
        return False

    async with Ledger.open(path, ["k"], {}, time_of_day.clock):
        pass
    row = (key.id, HOST, "requests", 1, 0.0, 7, 7, NOON + 11.6 * DAY_S, NOON)
    with closing(sqlite3.connect(path)) as store, store:  # as another program has left it
        store.execute("INSERT INTO account VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)", row)
    monthly = {HOST: PlanLimits(per_month=100)}
    async with Ledger.open(path, ["k"], {}, time_of_day.clock) as ledger:
        assert not await is_given(ledger)
        time_of_day.step(DAY_S)
        async with Ledger.open(path, ["k"], monthly, time_of_day.clock) as patient:
            assert not await is_given(patient), "its plan has a period of that length"
        assert [await is_given(ledger) for _ in range(3)] == [True, False, False]
        ledger.learn(HOST, key, 429, told_of(0, 20 * DAY_S))
        assert not await is_given(ledger)
        time_of_day.step(DAY_S)
        assert [await is_given(ledger) for _ in range(3)] == [True, False, False]
        ledger.learn(HOST, key, 200, told_of(400))
        assert all([await is_given(ledger) for _ in range(3)]), "the upstream serves again"


@pytest.mark.parametrize(
    ("status", "limit", "remaining", "may"),
    [
        (200, "-1", "-1", 20),
        (200, "-1", "0", 20),
        (200, "500", "-1", 20),
        (429, "500", "-1", 0),
        (200, "0", "5", 5),
        (200, "3", "5", 5),
        (200, "500", "5", 5),
        (200, None, "5", 5),
        (200, "-7", "5", 5),
        (200, "0", "0", 0),
        (200, "9" * 30, "9" * 30, 20),
        (200, "many", "5", 5),
        (200, "9" * 15, "9" * 15, 20),
    ],
)
async def test_what_is_left_is_what_the_upstream_says_is_left(
    tmp_path: Path, status: int, limit: str | None, remaining: str, may: int
) -> None:
    headers = {"x-ratelimit-remaining": remaining, "x-ratelimit-reset": "3600"}
    if limit is not None:
        headers["x-ratelimit-limit"] = limit
    async with Ledger.open(tmp_path / "q", ["k"], {}) as ledger:
        ledger.learn(HOST, Key.of("k"), status, headers)
        taken = 0
        with suppress(NotAdmitted):
            while taken < 20:
                await ledger.take(HOST, 1)
                taken += 1
    assert taken == may


async def test_an_upstream_tells_of_so_many_quotas_and_no_more(tmp_path: Path) -> None:
    path = tmp_path / "q"
    async with Ledger.open(path, ["k"], {}) as ledger:
        for number in range(100):
            name = f"x-ratelimit-{'n' * 80}{number}" if number % 2 else f"x-ratelimit-n{number}"
            headers = {f"{name}-remaining": "9", f"{name}-reset": "3600"}
            ledger.learn(HOST, Key.of("k"), 200, headers)
        await ledger.take(HOST, 1)
    assert sum(s.learned for s in standings(path, ["k"], {}, time.time())) == MOST_REPORTED


INSERT = """INSERT INTO account VALUES (:key, :host, :span, :learned, :span_end, :used,
    :quota, :resets_at, :noted_at, :part)"""
BAD_ROWS: dict[str, dict[str, object]] = {
    "a reset in 500 years": {"resets_at": time.time() + 500 * 365 * DAY_S},
    "an infinite reset": {"resets_at": float("inf")},
    "a reset in words": {"resets_at": "soon"},
    "a count in words": {"used": "many"},
    "a count over 2^62": {"used": 2**63 - 1},
    "a negative count": {"used": -5},
    "a quota of bytes": {"quota": b"\0"},
    "a span of bytes": {"span": b"\xff"},
}


@pytest.mark.parametrize("learned", [0, 1])
@pytest.mark.parametrize("bad", BAD_ROWS.values(), ids=BAD_ROWS)
async def test_a_row_that_makes_no_sense_holds_nothing_up(
    tmp_path: Path, bad: dict[str, object], learned: int
) -> None:
    path, now = tmp_path / "q", time.time()
    (month,) = planned(None, Key.of("k").id, HOST, now)
    row: dict[str, object] = {
        "key": month.key,
        "host": HOST,
        "span": "requests" if learned else "month",
        "learned": learned,
        "used": 7,
        "quota": 7,
        "resets_at": month.resets_at,
        "span_end": 0 if learned else month.resets_at,
        "noted_at": now,
        "part": None,
    }
    async with Ledger.open(path, [], {}):
        pass
    with closing(sqlite3.connect(path)) as store, store:
        store.execute(INSERT, row | bad)
    standings(path, ["k"], {}, now)
    async with Ledger.open(path, ["k"], {}) as ledger, asyncio.timeout(60):
        assert await ledger.take(HOST, 1)
        assert await ledger.take("other", 1)
    assert used(path) >= 2


@pytest.mark.parametrize(
    "plan",
    [
        {"per_month": 2**70, "per_day": 2**63, "per_hour": 2**64},
        {"per_second": float("inf")},
        {"per_second": 1e300},
        {"per_second": 5e-324},
    ],
)
async def test_no_plan_is_too_odd_to_count(tmp_path: Path, plan: dict[str, Any]) -> None:
    plans = {HOST: PlanLimits(**plan)}
    async with Ledger.open(tmp_path / "q", ["k"], plans) as ledger, asyncio.timeout(60):
        await ledger.take(HOST, 1)
        with suppress(NotAdmitted):
            await ledger.take(HOST, 1)
        await ledger.take("other", 1)


async def test_a_ledger_that_was_damaged_fails_its_calls_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "q"
    async with Ledger.open(path, ["k"], {}) as ledger, asyncio.timeout(60):
        await ledger.take(HOST, 1)
        with closing(sqlite3.connect(path)) as store:
            store.execute("ALTER TABLE account RENAME TO elsewhere")
        for _ in range(2):
            with pytest.raises(NotAdmitted, match="can't be written") as caught:
                await ledger.take(HOST, 1)
            assert caught.value.error.code == "overloaded"
        with closing(sqlite3.connect(path)) as store:
            store.execute("ALTER TABLE elsewhere RENAME TO account")
        await ledger.take(HOST, 1)
    assert used(path) == 2


NOON = datetime(2026, 3, 10, 12, 0, 0, tzinfo=UTC).timestamp()


@pytest.mark.parametrize("span", ["per_hour", "per_day", "per_month"])
@pytest.mark.parametrize("away_s", [3_600.0, 40 * DAY_S, -3_600.0, -40 * DAY_S, 4_000 * DAY_S])
async def test_a_clock_that_jumps_and_comes_back_forgets_no_count(
    tmp_path: Path, span: str, away_s: float
) -> None:
    time_of_day, plans = Stepping(NOON), {HOST: PlanLimits(**{span: 3})}
    async with Ledger.open(tmp_path / "q", ["k"], plans, time_of_day.clock) as ledger:
        for _ in range(3):
            await ledger.take(HOST, 1)
        time_of_day.step(away_s)
        with suppress(NotAdmitted):
            await ledger.take(HOST, 1)
        time_of_day.step(-away_s)
        with pytest.raises(NotAdmitted):
            await ledger.take(HOST, 1)


@pytest.mark.parametrize("step_s", [-3_600.0, -400 * DAY_S, 3_600.0])
async def test_a_step_of_the_clock_uses_no_rate_up(tmp_path: Path, step_s: float) -> None:
    time_of_day, plans = Stepping(NOON), {HOST: PlanLimits(per_second=2)}
    said = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "10"}
    async with Ledger.open(tmp_path / "q", ["k"], plans, time_of_day.clock) as ledger:
        for _ in range(2):
            key = await ledger.take(HOST, 1)
        ledger.learn(HOST, key, 200, said)
        with pytest.raises(NotAdmitted):
            await ledger.take(HOST, 1)
        time_of_day.step(step_s)
        if step_s < 0:
            with pytest.raises(NotAdmitted) as denied:
                await ledger.take(HOST, 1)
            assert denied.value.error.retry_after_s == pytest.approx(10)
        time_of_day.go_on(10)
        assert await ledger.take(HOST, 1)


async def test_counts_of_spans_long_past_are_not_kept_for_ever(tmp_path: Path) -> None:
    time_of_day, plans = Stepping(NOON), {HOST: PlanLimits(per_second=2, per_hour=5)}
    async with Ledger.open(tmp_path / "q", ["k"], plans, time_of_day.clock) as ledger:
        for _ in range(30):
            await ledger.take(HOST, 1)
            time_of_day.go_on(3_600)
    with closing(sqlite3.connect(tmp_path / "q")) as store:
        ((rows,),) = store.execute("SELECT count(*) FROM account")
    assert rows <= 3 * SPANS


async def test_a_plan_of_so_many_a_second_is_kept(tmp_path: Path) -> None:
    time_of_day, plans = Stepping(NOON), {HOST: PlanLimits(per_second=5)}
    async with Ledger.open(tmp_path / "q", ["k"], plans, time_of_day.clock) as ledger:
        for _ in range(3):
            takes = [ledger.take(HOST, 0.5) for _ in range(12)]
            given = await asyncio.gather(*takes, return_exceptions=True)
            assert sum(isinstance(key, NotAdmitted) for key in given) == 7
            time_of_day.go_on(1)


async def test_who_finds_a_second_used_up_waits_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.upstreams.quota.WAIT_S", PATIENCE_S)
    started = time.monotonic()
    async with Ledger.open(tmp_path / "q", ["k"], {HOST: PlanLimits(per_second=5)}) as ledger:
        await asyncio.gather(*(ledger.take(HOST, PATIENCE_S) for _ in range(12)))
    assert time.monotonic() - started > 1, "there is a whole second between the others"


TAKER = """
import asyncio, sys
from pathlib import Path
from gateway.upstreams import quota
from gateway.upstreams.quota import Ledger
from manifests import PlanLimits
quota.WAIT_S = 60
async def main(path, plan):
    plans = {"h": PlanLimits.model_validate_json(plan)}
    async with Ledger.open(Path(path), ["k"], plans) as ledger:
        print("ready", flush=True)
        while True:
            await ledger.take("h", 60)
            sys.stdout.write("sent\\n"); sys.stdout.flush()
asyncio.run(main(*sys.argv[1:]))
"""


def taker(path: Path, plan: str = "{}") -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", TAKER, str(path), plan]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    )


async def test_what_is_counted_ahead_is_given_back(tmp_path: Path) -> None:
    path = tmp_path / "q"
    async with Ledger.open(path, ["k"], {}) as ledger:
        for sent in range(1, 201):
            await ledger.take(HOST, 1)
            assert used(path) >= sent, "none is sent that is not counted on disk"
        assert used(path) > 200, "some are counted ahead where many are sent"
        await until(lambda: used(path) == 200)
        await ledger.take(HOST, 1)
    async with Ledger.open(path, ["k"], {}) as ledger:
        await asyncio.gather(*(ledger.take(HOST, PATIENCE_S) for _ in range(300)))
    assert used(path) == 501, "closing gives back what is left"


async def test_nothing_is_counted_ahead_of_a_small_quota(tmp_path: Path) -> None:
    path, plans = tmp_path / "q", {HOST: PlanLimits(per_month=100)}
    async with Ledger.open(path, ["k"], plans) as ledger:
        takes = (ledger.take(HOST, PATIENCE_S) for _ in range(130))
        given = await asyncio.gather(*takes, return_exceptions=True)
    assert sum(isinstance(key, Key) for key in given) == 100 == used(path)


async def test_a_lease_ends_with_the_span_it_was_counted_in(tmp_path: Path) -> None:
    time_of_day, path = Stepping(NOON), tmp_path / "q"
    plans = {HOST: PlanLimits(per_day=1_000)}
    day, later = (planned(plans[HOST], "k", HOST, NOON + step)[1] for step in (0, 86_400))
    async with Ledger.open(path, ["k"], plans, time_of_day.clock) as ledger:
        for _ in range(40):
            await ledger.take(HOST, 1)
        time_of_day.step(86_400)
        await ledger.take(HOST, 1)
    with closing(sqlite3.connect(path)) as store:
        counts = store.execute("SELECT span_end, used FROM account WHERE span = 'day'")
        assert dict(counts.fetchall()) == {day.resets_at: 40, later.resets_at: 1}


async def test_a_key_that_is_refused_or_rests_is_in_no_lease(tmp_path: Path) -> None:
    async with Ledger.open(tmp_path / "q", ["one", "two"], {}) as ledger:
        for _ in range(40):
            key = await ledger.take(HOST, 1)
        ledger.rest(HOST, key, PATIENCE_S)
        other = await ledger.take(HOST, 1)
        assert other != key
        for _ in range(40):
            assert await ledger.take(HOST, 1) == other
    assert used(tmp_path / "q", ("one", "two")) == 81


async def test_what_an_upstream_has_counted_is_not_given_back(tmp_path: Path) -> None:
    path = tmp_path / "q"
    async with Ledger.open(path, ["k"], {}) as ledger:
        for _ in range(40):
            key = await ledger.take(HOST, 1)
        told = {"x-ratelimit-requests-limit": "5000", "x-ratelimit-requests-remaining": "4000"}
        ledger.learn(HOST, key, 200, {**told, "x-ratelimit-requests-reset": "3600"})
        await until(lambda: any(s.learned for s in standings(path, ["k"], {}, time.time())))
        await until(lambda: used(path) == 40)
        (learned,) = (s for s in standings(path, ["k"], {}, time.time()) if s.learned)
    assert learned.used >= 1_000, "others use the key too"


def told_of(remaining: int, reset_s: float = 3_600, limit: int = 500) -> dict[str, str]:
    told = {"limit": limit, "remaining": remaining, "reset": reset_s}
    return {f"x-ratelimit-requests-{name}": str(value) for name, value in told.items()}


def learned(path: Path) -> Standing | None:
    return next((s for s in standings(path, ["k"], {}, time.time()) if s.learned), None)


async def test_what_was_counted_ahead_is_not_charged_to_an_account_told_of_later(
    tmp_path: Path,
) -> None:
    path = tmp_path / "q"
    async with Ledger.open(path, ["k"], {}) as ledger:
        for _ in range(200):
            key = await ledger.take(HOST, 1)
        ledger.learn(HOST, key, 200, told_of(300))
        await until(lambda: used(path) == 200 and learned(path) is not None)
        takes = (ledger.take(HOST, 1) for _ in range(350))
        given = await asyncio.gather(*takes, return_exceptions=True)
        assert sum(isinstance(key, Key) for key in given) == 300


async def test_a_lease_of_one_span_is_not_given_back_in_the_next(tmp_path: Path) -> None:
    path = tmp_path / "q"
    async with (
        Ledger.open(path, ["k"], {}) as ledger,
        Ledger.open(path, ["k"], {}) as other,
    ):
        key = await ledger.take(HOST, 1)
        ledger.learn(HOST, key, 200, told_of(4_900, 30, 5_000))
        await until(lambda: learned(path) is not None)
        for _ in range(60):
            await ledger.take(HOST, 1)
        assert used(path) > 61, "some are counted ahead"
        other.learn(HOST, key, 200, told_of(4_970, 90_000, 5_000))
        await until(lambda: used(path) == 61)
        account = learned(path)
        assert account is not None
        assert account.used >= 30


async def test_nothing_more_of_a_lease_is_sent_once_nothing_is_left(tmp_path: Path) -> None:
    async with Ledger.open(tmp_path / "q", ["k"], {}) as ledger:
        for _ in range(60):
            key = await ledger.take(HOST, 1)
        ledger.learn(HOST, key, 429, told_of(0))
        ledger.learn(HOST, key, 200, told_of(20))  # an answer that was overtaken
        with pytest.raises(NotAdmitted):
            await ledger.take(HOST, 1)


async def test_closing_gives_back_what_is_being_leased(tmp_path: Path) -> None:
    path = tmp_path / "q"
    async with Ledger.open(path, ["k"], {}) as ledger:
        for _ in range(20):
            await ledger.take(HOST, 1)
        takes = [asyncio.create_task(ledger.take(HOST, 1)) for _ in range(100)]
        await asyncio.sleep(0)
        for take in takes:
            take.cancel()
    assert used(path) <= 120
    with pytest.raises(NotAdmitted, match="closing"):
        await ledger.take("another", 1)


async def test_nothing_is_counted_ahead_at_a_slow_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.upstreams.quota.LEASE_S", 0.05)
    path = tmp_path / "q"
    async with Ledger.open(path, ["k"], {}) as ledger:
        for sent in range(1, 41):
            await ledger.take(HOST, 1)
            assert used(path) == sent
            await asyncio.sleep(0.01)


def test_no_kill_makes_the_ledger_forget_what_was_sent(tmp_path: Path) -> None:
    sent = 0
    for attempt in range(2):
        with taker(tmp_path / "q") as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            for _ in range(80 * (attempt + 1)):
                sent += process.stdout.readline() == "sent\n"
            process.send_signal(signal.SIGKILL)
            sent += process.stdout.read().count("sent")
    most = sent + 2 * (MOST_LEASED + 1)
    assert 200 <= sent <= used(tmp_path / "q") <= most, "some are counted and not yet sent"


def test_processes_share_one_quota(tmp_path: Path) -> None:
    takers = [taker(tmp_path / "q", '{"per_month": 200}') for _ in range(2)]
    sent = [process.communicate(timeout=PATIENCE_S)[0].count("sent") for process in takers]
    assert sum(sent) == 200 == used(tmp_path / "q")


def test_several_may_open_a_new_ledger_at_once(tmp_path: Path) -> None:
    def open_one(path: Path) -> None:
        together.wait(PATIENCE_S)
        Accounts.open(path).close()

    together = Barrier(6)
    with ThreadPoolExecutor(6) as threads:
        for number in range(20):
            opened = [threads.submit(open_one, tmp_path / f"q{number}") for _ in range(6)]
            for one in opened:
                one.result()


async def test_a_ledger_that_cannot_be_read_is_not_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "q"
    path.write_bytes(b"this is no database, and longer than its head " * 50)
    with pytest.raises(OSError, match="can't be opened"):
        async with Ledger.open(path, ["k"], {}):
            pass
    assert path.read_bytes().startswith(b"this is")


@given(now=st.floats(1e9, 4e9), per_second=st.floats(0.01, 1000))
def test_spans_end_after_now_and_within_their_length(now: float, per_second: float) -> None:
    plan = PlanLimits(per_second=per_second, per_hour=1, per_day=1, per_month=1)
    ends = {s.span: s.resets_at - now for s in planned(plan, "k", "h", now)}
    assert all(left > 0 for left in ends.values())
    assert ends["second"] <= max(1, 1 / per_second) + 1e-3
    assert ends["hour"] <= 3_600
    assert ends["day"] <= 86_400
    assert ends["month"] <= 31 * 86_400
    month = next(s for s in planned(plan, "k", "h", now) if s.span == "month")
    assert datetime.fromtimestamp(month.resets_at, UTC).day == 1


async def test_the_command_shows_what_is_left_and_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FINPORT_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("FINPORT_RAPIDAPI_KEYS", "planted-one,planted-two")
    monkeypatch.setenv("FINPORT_HOSTS", json.dumps({HOST: {"per_month": 20}}))
    async with Ledger.open(tmp_path / "quota.sqlite", ["planted-one"], {}) as ledger:
        for _ in range(3):
            await ledger.take(HOST, 1)
    shown = CliRunner().invoke(main, ["quota", "--json"])
    rows = json.loads(shown.stdout)
    assert sorted((row["used"], row["quota"], row["left"]) for row in rows) == [
        (0, 20, 20),
        (3, 20, 17),
    ]
    assert {row["host"] for row in rows} == {HOST}
    text = CliRunner().invoke(main, ["quota"]).stdout
    assert HOST in text
    assert "planted" not in text + shown.stdout
    wrong = CliRunner().invoke(main, ["quota", "--host", "nowhere.example"])
    assert wrong.exit_code == 2
    monkeypatch.setenv("FINPORT_HOSTS", json.dumps({"coinranking.p.rapidapi.com": {}}))
    typo = CliRunner().invoke(main, ["quota"])
    assert typo.exit_code == 2
    assert HOST in typo.output, "the nearest is named"

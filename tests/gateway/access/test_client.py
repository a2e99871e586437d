"""What one client may: calls a second and calls at once, with a clock that is given."""

import asyncio
import math
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.access import clients
from gateway.access.clients import Client
from gateway.access.keys import KeyEntry
from gateway.access.rejection import RequestRejected
from gateway.errors import ErrorCode
from tests.support.waiting import PATIENCE_S


def entry_of(**limits: Any) -> KeyEntry:
    digest = sha256(b"a key").hexdigest()
    return KeyEntry(id=digest[:8], name="bob", sha256=digest, **limits)


def limited(
    per_second: float | None = None, at_once: int | None = None, workers: int = 1
) -> tuple[Client, list[float]]:
    """A client, and the time as it sees it."""
    now = [1e6]
    entry = entry_of(per_second=per_second, at_once=at_once)
    return Client(entry, workers=workers, clock=lambda: now[0]), now


def refusal(of: Callable[[], object]) -> tuple[ErrorCode, str, float | None]:
    with pytest.raises(RequestRejected) as denied:
        of()
    error = denied.value.error
    return error.code, error.message, error.retry_after_s


@given(
    per_second=st.floats(1e-3, 1e4),
    gaps=st.lists(st.one_of(st.just(0.0), st.floats(0, 5)), min_size=1, max_size=80),
)
def test_no_span_sees_more_than_the_rate_and_a_burst(per_second: float, gaps: list[float]) -> None:
    client, now = limited(per_second)
    passed = list[float]()
    for gap in gaps:
        now[0] += gap / per_second
        try:
            client.begin()
        except RequestRejected as denied:
            wait_s = denied.error.retry_after_s
            assert wait_s is not None
            assert 0 < wait_s <= 1 / per_second + 1e-3
        else:
            passed.append(now[0])
            client.end()
    burst = max(1.0, per_second)
    for first, start in enumerate(passed):
        for last in range(first, len(passed)):
            span = passed[last] - start
            assert last - first + 1 <= burst + per_second * span + 0.01


@given(per_second=st.floats(1e-3, 1e4), calls=st.integers(1, 50))
def test_who_comes_again_when_told_is_let_in(per_second: float, calls: int) -> None:
    client, now = limited(per_second)
    for _ in range(calls):
        try:
            client.begin()
        except RequestRejected as denied:
            now[0] += denied.error.retry_after_s or 0
            client.begin()


def test_a_rate_allows_a_second_s_worth_at_once_and_then_one_by_one() -> None:
    client, now = limited(per_second=4)
    for _ in range(4):
        client.begin()
    assert refusal(client.begin) == (
        ErrorCode.RATE_LIMITED,
        "this client's 4 calls a second are used up",
        0.25,
    )
    now[0] += 0.25
    client.begin()
    now[0] += 100
    for _ in range(4):
        client.begin()
    with pytest.raises(RequestRejected):
        client.begin()


def test_what_is_refused_for_being_too_many_at_once_costs_no_rate() -> None:
    client, _ = limited(per_second=2, at_once=1)
    client.begin()
    for _ in range(10):
        code, text, retry_after_s = refusal(client.begin)
        assert (code, retry_after_s) == (ErrorCode.RATE_LIMITED, clients.FULL_RETRY_S)
        assert text == "this client's 1 calls at once are all under way"
    client.end()
    client.begin()


def test_workers_share_what_a_client_may() -> None:
    client, now = limited(per_second=6, at_once=10, workers=3)
    for _ in range(2):
        client.begin()
    assert "6 calls a second" in refusal(client.begin)[1]
    for _ in range(2):
        now[0] += 1
        client.begin()
    now[0] += 1
    assert "10 calls at once" in refusal(client.begin)[1]
    assert client.in_flight == math.ceil(10 / 3)


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(("wait", "leave", "end")), st.integers(0, 9)),
        min_size=8,
        max_size=40,
    ),
    at_once=st.integers(1, 3),
)
def test_slots_are_given_in_order_and_none_is_lost(
    steps: list[tuple[str, int]], at_once: int
) -> None:
    async def play() -> None:
        client, _ = limited(at_once=at_once)
        served, held = list[int](), 0
        tasks = list[asyncio.Task[None]]()

        async def call(number: int) -> None:
            nonlocal held
            await client.wait_for_slot()
            held += 1
            served.append(number)

        def end() -> None:
            nonlocal held
            if held:
                held -= 1
                client.end()

        for step, number in steps:
            if step == "wait":
                tasks.append(asyncio.create_task(call(len(tasks))))
            elif step == "leave" and tasks:
                tasks[-1 - number // 2 % len(tasks)].cancel()
            elif step == "end":
                end()
            if number % 2:
                await asyncio.sleep(0)
            assert client.in_flight <= at_once
        for _ in range(len(tasks) + 1):
            for _ in range(3):
                await asyncio.sleep(0)
            while held:
                end()
        assert all(task.done() for task in tasks)
        if at_once == 1:  # of several who have a slot, a later one may go on first
            assert served == sorted(served)
        assert (client.in_flight, client.waiting) == (0, 0)

    asyncio.run(play())


@pytest.mark.anyio
async def test_those_who_wait_come_before_those_who_do_not() -> None:
    client, now = limited(per_second=100)
    for _ in range(100):
        client.begin()
    waits = [asyncio.create_task(client.wait_for_slot()) for _ in range(3)]
    await asyncio.sleep(0)
    assert client.waiting == 3
    now[0] += 0.015
    assert refusal(client.begin)[2] == pytest.approx(0.025, abs=2e-3)
    now[0] += 0.02
    await asyncio.wait_for(asyncio.gather(*waits), PATIENCE_S)
    assert client.waiting == 0


@pytest.mark.anyio
async def test_a_caller_who_leaves_the_line_costs_no_rate() -> None:
    client, now = limited(per_second=0.01)
    client.begin()
    gone = asyncio.create_task(client.wait_for_slot())
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.wait([gone])
    assert (client.waiting, client.in_flight) == (0, 1)
    now[0] += 100
    client.begin()


@pytest.mark.anyio
async def test_a_client_that_is_revoked_begins_nothing_any_more() -> None:
    for limits in ({}, {"at_once": 1}, {"per_second": 0.01}):
        client, _ = limited(**limits)
        client.begin()
        waits = [asyncio.create_task(client.wait_for_slot()) for _ in range(3 if limits else 0)]
        await asyncio.sleep(0)
        client.revoke()
        assert refusal(client.begin)[0] is ErrorCode.UNAUTHORIZED
        for wait in (*waits, client.wait_for_slot()):
            with pytest.raises(RequestRejected, match="was revoked"):
                await asyncio.wait_for(wait, PATIENCE_S)
        client.end()
        assert (client.waiting, client.in_flight) == (0, 0)


@pytest.mark.anyio
async def test_a_limit_that_is_lifted_lets_those_in_who_wait() -> None:
    client, _ = limited(per_second=0.01, at_once=1)
    client.begin()
    waits = [asyncio.create_task(client.wait_for_slot()) for _ in range(2)]
    await asyncio.sleep(0)
    client.change(entry_of(at_once=2))
    await asyncio.wait_for(waits[0], PATIENCE_S)
    assert (client.in_flight, client.waiting) == (2, 1)
    client.end()
    await asyncio.wait_for(waits[1], PATIENCE_S)

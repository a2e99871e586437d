"""Slots and breakers by themselves: fairness, bounds, and times that are given, not waited for."""

import asyncio
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.fair_queue import FairQueue
from gateway.upstreams.breaker import Breaker
from gateway.upstreams.pace import LATE_S, Pace

pytestmark = pytest.mark.anyio


async def test_clients_are_served_in_turn_and_each_in_order() -> None:
    queue, served = FairQueue(1, 1000), list[str]()

    async def call(client: str, number: int) -> None:
        await queue.take(client)
        served.append(f"{client}{number}")
        await asyncio.sleep(0)
        queue.give_back()

    big = [call("a", n) for n in range(100)]
    small = [call("b", n) for n in range(3)]
    await asyncio.gather(*big, *small)
    assert served[:8] == ["a0", "a1", "b0", "a2", "b1", "a3", "b2", "a4"]
    assert [name for name in served if name[0] == "a"] == [f"a{n}" for n in range(100)]
    assert (queue.taken, queue.waiting) == (0, 0)


@given(
    steps=st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from(("take", "leave", "end"))), max_size=60
    ),
    at_once=st.integers(1, 3),
)
def test_no_turn_is_lost_or_given_twice(steps: list[tuple[str, str]], at_once: int) -> None:
    async def play() -> None:
        queue, held, tasks = FairQueue(at_once, 20), Counter[str](), list[asyncio.Task[None]]()

        async def call(client: str) -> None:
            await queue.take(client)
            held[client] += 1

        for client, step in steps:
            if step == "take" and queue.waiting < 20:
                tasks.append(asyncio.create_task(call(client)))
            elif step == "leave" and tasks:
                tasks[len(held) % len(tasks)].cancel()
            elif step == "end" and held.total():
                held -= Counter([next(iter(held.elements()))])
                queue.give_back()
            if len(tasks) % 2:
                await asyncio.sleep(0)
            assert queue.taken <= at_once
        await asyncio.sleep(0)  # then every call has begun
        while queue.waiting:
            if held.total():  # else a slot has been given that nobody has taken yet
                held -= Counter([next(iter(held.elements()))])
                queue.give_back()
            await asyncio.sleep(0)
        await asyncio.gather(*tasks, return_exceptions=True)
        assert queue.taken == held.total() <= at_once

    asyncio.run(play())


async def test_starts_are_spaced_evenly() -> None:
    pace, began = Pace(50), time.monotonic()
    starts = []

    async def start() -> None:
        await pace.start()
        starts.append(time.monotonic() - began)

    await asyncio.gather(*(start() for _ in range(8)))
    for number, at in enumerate(starts):
        assert at >= number / 50 - LATE_S - 0.001, "none is early"


async def test_all_starts_that_are_due_begin_at_once() -> None:
    pace = Pace(1_000)
    await pace.start()
    waits = [asyncio.create_task(pace.start()) for _ in range(9)]
    await asyncio.sleep(0)
    time.sleep(0.05)  # noqa: ASYNC251 - the loop stands, as it does under load
    done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    assert len(done) == len(waits)


async def test_who_leaves_takes_no_start_along() -> None:
    pace = Pace(5)
    await pace.start()
    leaves = [asyncio.create_task(pace.start()) for _ in range(500)]
    stays = asyncio.create_task(pace.start())
    await asyncio.sleep(0)
    for task in leaves:
        task.cancel()
    async with asyncio.timeout(60):  # 500 starts would take 100 s
        await stays


async def test_no_rate_is_too_odd_to_keep() -> None:
    for per_second in (5e-324, 1e-9):
        pace = Pace(per_second)
        await pace.start()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await pace.start()
    pace = Pace(float("inf"))
    await asyncio.gather(*(pace.start() for _ in range(100)))


def attempt(breaker: Breaker, good: bool | None, now: float) -> None:
    breaker.end(breaker.begin(now, within_s=60), good=good, now=now)


def test_a_breaker_opens_probes_once_and_closes() -> None:
    breaker = Breaker(failure_rate=0.5, least=4, window_s=10, open_s=5)
    for good in (True, True, False):
        attempt(breaker, good, 1)
    attempt(breaker, None, 1)
    assert breaker.state(1) == "closed"
    attempt(breaker, False, 2)
    assert (breaker.state(2), breaker.wait_s(2), breaker.opened) == ("open", 5, 1)
    assert (breaker.state(7), breaker.wait_s(7)) == ("half_open", 0)
    probe = breaker.begin(7, within_s=60)
    assert breaker.wait_s(8) == 59, "one probe at a time, and it can't be lost for ever"
    breaker.end(probe, good=False, now=9)
    assert breaker.wait_s(9) == 10, "twice as long"
    probe = breaker.begin(19, within_s=60)
    breaker.end(probe, good=True, now=20)
    assert (breaker.state(20), breaker.wait_s(20)) == ("closed", 0)


def test_what_lies_before_the_window_is_forgotten() -> None:
    breaker = Breaker(failure_rate=0.5, least=4, window_s=10, open_s=5)
    for now in (0, 1, 2, 12, 13):
        attempt(breaker, False, now)
    assert breaker.state(13) == "closed"
    attempt(breaker, False, 13)
    assert breaker.state(13) == "closed", "three are left"
    attempt(breaker, False, 14)
    assert breaker.state(14) == "open"


def test_only_its_probe_closes_or_reopens_a_breaker() -> None:
    breaker = Breaker(failure_rate=0.5, least=1, window_s=10, open_s=5)
    before = [breaker.begin(0, within_s=60) for _ in range(4)]
    breaker.end(before[0], good=False, now=0)
    breaker.end(before[1], good=True, now=1)
    assert breaker.state(1) == "open"
    probe = breaker.begin(5, within_s=60)
    breaker.end(before[2], good=False, now=6)
    assert breaker.wait_s(6) == 59, "the probe is still under way"
    breaker.end(probe, good=True, now=7)
    assert breaker.state(7) == "closed"
    breaker.end(before[3], good=False, now=8)
    assert (breaker.state(8), breaker.opened) == ("closed", 1)


def test_a_probe_that_says_nothing_makes_room_for_another() -> None:
    breaker = Breaker(failure_rate=0.5, least=1, window_s=10, open_s=5)
    attempt(breaker, False, 0)
    lost = breaker.begin(5, within_s=60)
    assert breaker.wait_s(65) == 0, "it never ended"
    attempt(breaker, None, 65)
    assert (breaker.state(66), breaker.wait_s(66)) == ("half_open", 0)
    probe = breaker.begin(66, within_s=60)
    breaker.end(lost, good=False, now=67)
    assert breaker.wait_s(67) == 59
    breaker.end(probe, good=True, now=68)
    assert breaker.state(68) == "closed"


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(("begin", "end", "wait")),
            st.integers(0, 9),
            st.sampled_from((True, False, None)),
        ),
        max_size=80,
    )
)
def test_in_any_interleaving_a_breaker_believes_who_began_in_its_state(
    steps: list[tuple[str, int, bool | None]],
) -> None:
    breaker = Breaker(failure_rate=0.5, least=2, window_s=1_000, open_s=5)
    under_way: list[tuple[int, str, int]] = []  # the attempt, and the state in which it began
    now, changes = 0.0, 0
    for step, number, good in steps:
        if step == "wait":
            now += number
        elif step == "begin" and breaker.wait_s(now) == 0:
            state = breaker.state(now)
            under_way.append((breaker.begin(now, within_s=20), state, changes))
        elif step == "end" and under_way:
            attempt, began_in, began_after = under_way.pop(number % len(under_way))
            was_closed, opened = breaker.state(now) == "closed", breaker.opened
            breaker.end(attempt, good=good, now=now)
            is_closed = breaker.state(now) == "closed"
            if is_closed != was_closed or breaker.opened != opened:
                assert began_after == changes, "it began before the last change"
                assert began_in == ("closed" if was_closed else "half_open")
                assert good is is_closed or (was_closed and good is not None)
                changes += 1
            elif began_in == "half_open" and began_after == changes and good is not None:
                newer = [a for a, state, _ in under_way if state == "half_open" and a > attempt]
                assert newer, "a probe's result counts unless another took its place"

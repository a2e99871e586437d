"""Turns and breakers by themselves: fairness, bounds, and times that are given, not waited for."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.breaker import Breaker
from gateway.turns import LineFull, Turns

pytestmark = pytest.mark.anyio


async def test_clients_are_served_in_turn_and_each_in_order() -> None:
    turns, served = Turns(1, 1000), list[str]()

    async def call(client: str, number: int) -> None:
        await turns.take(client)
        served.append(f"{client}{number}")
        await asyncio.sleep(0)
        turns.give_back()

    big = [call("a", n) for n in range(100)]
    small = [call("b", n) for n in range(3)]
    await asyncio.gather(*big, *small)
    assert served[:8] == ["a0", "a1", "b0", "a2", "b1", "a3", "b2", "a4"]
    assert [name for name in served if name[0] == "a"] == [f"a{n}" for n in range(100)]
    assert (turns.taken, turns.waiting) == (0, 0)


async def test_a_full_line_lets_nobody_in() -> None:
    turns = Turns(1, 1)
    await turns.take("a")
    waits = asyncio.create_task(turns.take("a"))
    await asyncio.sleep(0)
    with pytest.raises(LineFull):
        await turns.take("b")
    turns.give_back()
    await waits


@given(
    steps=st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from(("take", "leave", "end"))), max_size=60
    ),
    at_once=st.integers(1, 3),
)
def test_no_turn_is_lost_or_given_twice(steps: list[tuple[str, str]], at_once: int) -> None:
    async def play() -> None:
        turns, held, tasks = Turns(at_once, 20), Counter[str](), list[asyncio.Task[None]]()

        async def call(client: str) -> None:
            await turns.take(client)
            held[client] += 1

        for client, step in steps:
            if step == "take" and turns.waiting < 20:
                tasks.append(asyncio.create_task(call(client)))
            elif step == "leave" and tasks:
                tasks[len(held) % len(tasks)].cancel()
            elif step == "end" and held.total():
                held -= Counter([next(iter(held.elements()))])
                turns.give_back()
            if len(tasks) % 2:
                await asyncio.sleep(0)
            assert turns.taken <= at_once
        await asyncio.sleep(0.001)
        while turns.waiting:
            held -= Counter([next(iter(held.elements()))])
            turns.give_back()
            await asyncio.sleep(0.001)
        await asyncio.gather(*tasks, return_exceptions=True)
        assert turns.taken == held.total() <= at_once

    asyncio.run(play())


def test_a_breaker_opens_probes_once_and_closes() -> None:
    breaker = Breaker(failure_rate=0.5, least=4, window_s=10, open_s=5)
    for good in (True, True, False):
        breaker.end(good=good, now=1)
    breaker.end(good=None, now=1)
    assert breaker.state(1) == "closed"
    breaker.end(good=False, now=2)
    assert (breaker.state(2), breaker.wait_s(2), breaker.opened) == ("open", 5, 1)
    assert (breaker.state(7), breaker.wait_s(7)) == ("half_open", 0)
    breaker.begin(7, within_s=60)
    assert breaker.wait_s(8) == 59, "one probe at a time, and it can't be lost for ever"
    breaker.end(good=False, now=9)
    assert breaker.wait_s(9) == 10, "twice as long"
    breaker.begin(19, within_s=60)
    breaker.end(good=True, now=20)
    assert (breaker.state(20), breaker.wait_s(20)) == ("closed", 0)


def test_what_lies_before_the_window_is_forgotten() -> None:
    breaker = Breaker(failure_rate=0.5, least=4, window_s=10, open_s=5)
    for now in (0, 1, 2, 12, 13):
        breaker.end(good=False, now=now)
    assert breaker.state(13) == "closed"
    breaker.end(good=False, now=13)
    assert breaker.state(13) == "closed", "three are left"
    breaker.end(good=False, now=14)
    assert breaker.state(14) == "open"


def test_attempts_that_end_after_it_opened_say_nothing() -> None:
    breaker = Breaker(failure_rate=0.5, least=1, window_s=10, open_s=5)
    breaker.end(good=False, now=0)
    breaker.end(good=True, now=1)
    assert breaker.state(1) == "open"

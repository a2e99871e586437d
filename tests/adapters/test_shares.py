"""Whoever waits here waits for another's step, never for time."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.fair_queue import Shares

pytestmark = pytest.mark.anyio


async def taken(shares: Shares, host: str, times: int) -> list[asyncio.Task[None]]:
    """As many takes as that, and what the loop makes of them."""
    tasks = [asyncio.create_task(shares.take(host)) for _ in range(times)]
    await settle()
    return tasks


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def granted(tasks: list[asyncio.Task[None]]) -> int:
    return sum(task.done() and not task.cancelled() for task in tasks)


async def leave(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_one_host_alone_gets_most_threads_and_never_all() -> None:
    for threads, alone in ((64, 36), (16, 9), (4, 3), (2, 1), (1, 1)):
        shares = Shares(threads)
        tasks = await taken(shares, "a", threads + 1)
        assert granted(tasks) == alone
        await leave(tasks)


@pytest.mark.parametrize("threads", [16, 64])
async def test_five_hosts_that_hang_leave_threads_to_a_sixth(threads: int) -> None:
    shares = Shares(threads)
    hanging = [task for n in range(5) for task in await taken(shares, f"hangs{n}", threads)]
    assert granted(hanging) < threads
    for _ in range(100):
        (task,) = await taken(shares, "healthy", 1)
        assert task.done()
        shares.give_back("healthy")
    await leave(hanging)


async def test_hosts_that_wait_are_served_in_turn_and_each_in_its_order() -> None:
    shares = Shares(1)
    await shares.take("x")
    served: list[str] = []

    async def take(name: str) -> None:
        await shares.take(name[0])
        served.append(name)
        shares.give_back(name[0])

    tasks = [asyncio.create_task(take(name)) for name in ("a1", "a2", "a3", "b1", "c1", "c2")]
    await settle()
    shares.give_back("x")
    await asyncio.gather(*tasks)
    assert served == ["a1", "b1", "c1", "a2", "c2", "a3"]


async def test_who_leaves_takes_no_thread_along() -> None:
    shares = Shares(1)
    await shares.take("a")
    waiting = await taken(shares, "b", 2)
    waiting[0].cancel()
    shares.give_back("a")  # to one who is about to leave
    waiting[1].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await shares.take("c")
    shares.give_back("c")


@given(st.lists(st.tuples(st.sampled_from("abcdefg"), st.sampled_from(["take", "give", "leave"]))))
def test_no_thread_is_lost_and_none_stays_idle_without_reason(steps: list[tuple[str, str]]) -> None:
    async def run() -> None:
        shares, waiting, held = Shares(5), [], Counter[str]()

        async def take(host: str) -> None:
            await shares.take(host)
            held[host] += 1

        for host, step in steps:
            if step == "take":
                waiting.append(asyncio.create_task(take(host)))
            elif step == "give" and held[host]:
                held[host] -= 1
                shares.give_back(host)
            elif step == "leave" and waiting:
                waiting.pop().cancel()
            await settle()
            assert held.total() <= 5
        await leave(waiting)
        for host in held.elements():
            shares.give_back(host)
        last = [task for host in "hijkl" for task in await taken(shares, host, 1)]
        assert granted(last) == 5

    asyncio.run(run())

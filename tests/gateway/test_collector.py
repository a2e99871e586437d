"""How Python's collector of cycles is adjusted."""

import asyncio
import gc
import weakref

import pytest

from manifests.common.collector import SEARCHES, calmed_collector

pytestmark = pytest.mark.anyio


async def test_the_collector_is_as_it_was_after_a_run() -> None:
    gc.freeze()
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    with calmed_collector():
        assert gc.get_threshold() != before
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() >= frozen, "what the process had frozen itself"


async def test_what_is_in_flight_is_searched_once_and_garbage_is_found_in_the_end() -> None:
    class Knot:
        def __init__(self) -> None:
            self.itself = self

    with calmed_collector():
        knot = Knot()
        gone = weakref.ref(knot)
        gc.collect(0)
        assert not any(one is knot for one in gc.get_objects()), "frozen"
        del knot
        for _ in range(SEARCHES):
            assert gone() is not None
            gc.collect(0)
        await asyncio.sleep(0)
        assert gone() is None, "a full search came by itself"

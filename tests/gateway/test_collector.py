"""How Python's collector of cycles is adjusted."""

import gc
import weakref

from manifests.common.collector import calmed_collector


def test_the_collector_is_as_it_was_after_a_run() -> None:
    gc.freeze()
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    with calmed_collector():
        assert gc.get_threshold() != before
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() >= frozen, "what the process had frozen itself"


def test_what_is_in_flight_is_searched_once_and_garbage_is_found_in_the_end() -> None:
    class Knot:
        def __init__(self) -> None:
            self.itself = self

    with calmed_collector():
        knot = Knot()
        gone = weakref.ref(knot)
        gc.collect(0)
        assert not any(one is knot for one in gc.get_objects()), "frozen"
        del knot
        gc.collect(1)
        assert gone() is not None
        gc.collect()
        assert gone() is None

"""How Python's collector of cycles is adjusted."""

import gc

from manifests.common.collector import calmed_collector


def test_the_collector_is_as_it_was_after_a_run() -> None:
    gc.freeze()
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    with calmed_collector(200_000):
        assert gc.get_threshold()[0] == 200_000
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() >= frozen, "what the process had frozen itself"

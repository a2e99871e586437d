"""Adjusts Python's collector of cycles: most objects of our processes stay until the end."""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

YOUNG = 50_000
"""New objects after which cycles among them are collected: this takes some 2 ms."""

_BRIEF = 20_000
"""New objects of a run, all of which may be in flight and stay: a search takes some 8 ms."""

_SELDOM = YOUNG, 20, 50


def calm_collector() -> None:
    """Collect cycles less often, and never among start-up objects.

    A call makes hundreds of objects and hardly a cycle. A full collection walks through every
    cached answer and every open connection, and blocks the event loop meanwhile.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_SELDOM)


@contextmanager
def calmed_collector() -> Iterator[None]:
    """Look for cycles among new objects only while the context is open: those that a search leaves
    are frozen, so that none walks through all that is in flight. A full search comes after 1,000
    others, and only where a quarter of the objects is new since the last one. Where objects are
    frozen before, all stay frozen.
    """
    before, is_frozen = gc.get_threshold(), gc.get_freeze_count() > 0
    gc.freeze()
    gc.set_threshold(_BRIEF, 20, 50)
    gc.callbacks.append(_searched)
    try:
        yield
    finally:
        gc.callbacks.remove(_searched)
        if not is_frozen:
            gc.unfreeze()
        gc.set_threshold(*before)


def _searched(phase: str, info: Mapping[str, int]) -> None:
    if phase == "stop":
        gc.freeze()
    elif info["generation"] == 2:
        gc.unfreeze()


@contextmanager
def quick_start_and_end() -> Iterator[None]:
    """Spare a process the collections while it imports modules, and those of its last moment.

    They find nothing, and are a third of the processor time of a short command.
    """
    gc.set_threshold(*_SELDOM)
    try:
        yield
    finally:
        gc.freeze()

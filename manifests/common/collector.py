"""Adjusts Python's collector of cycles: most objects of our processes stay until the end."""

import asyncio
import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

YOUNG = 50_000
"""New objects after which cycles among them are collected: this takes some 2 ms."""

_BRIEF = 20_000
"""New objects of a run, all of which may be in flight and stay: a search takes some 8 ms."""

SEARCHES = 400
"""Searches of a run before a full one: 8 million objects that are new and stay."""

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
    """Look for cycles among new objects only, while the context is open in a running event loop:
    what a search leaves is frozen, so that none walks through all that is in flight. After
    `SEARCHES` of them the loop is asked for a full one, because freezing puts off Python's own.
    Objects that were frozen before stay frozen.
    """
    before, is_frozen = gc.get_threshold(), gc.get_freeze_count() > 0
    loop, searches = asyncio.get_running_loop(), 0

    def searched(phase: str, info: Mapping[str, int]) -> None:
        nonlocal searches
        is_full = info["generation"] == 2
        if phase == "stop":
            gc.freeze()
            searches = 0 if is_full else searches + 1
            if searches == SEARCHES:
                loop.call_soon_threadsafe(gc.collect)
        elif is_full:
            gc.unfreeze()

    gc.freeze()
    gc.set_threshold(_BRIEF)
    gc.callbacks.append(searched)
    try:
        yield
    finally:
        gc.callbacks.remove(searched)
        if not is_frozen:
            gc.unfreeze()
        gc.set_threshold(*before)


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

"""Adjusts Python's collector of cycles: most objects of our processes stay until the end."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG = 50_000
"""New objects after which cycles among them are collected: this takes some 2 ms."""


def calm_collector(young: int = YOUNG) -> None:
    """Collect cycles less often, after `young` new objects, and never among start-up objects.

    A call makes hundreds of objects and hardly a cycle. A full collection walks through every
    cached answer and every open connection, and blocks the event loop meanwhile.
    """
    gc.collect()
    _freeze(young)


@contextmanager
def calmed_collector(young: int) -> Iterator[None]:
    """Do as `calm_collector` does while the context is open. Cycles that are garbage already stay
    until it closes: in a large process, collecting them first would take longer than a short run.
    Where objects are frozen already, all stay frozen.
    """
    before, is_frozen = gc.get_threshold(), gc.get_freeze_count() > 0
    _freeze(young)
    try:
        yield
    finally:
        if not is_frozen:
            gc.unfreeze()
        gc.set_threshold(*before)


@contextmanager
def quick_start_and_end() -> Iterator[None]:
    """Spare a process the collections while it imports modules, and those of its last moment.

    They find nothing, and are a third of the processor time of a short command.
    """
    _set_threshold(YOUNG)
    try:
        yield
    finally:
        gc.freeze()


def _freeze(young: int) -> None:
    gc.freeze()
    _set_threshold(young)


def _set_threshold(young: int) -> None:
    gc.set_threshold(young, 20, 50)

"""Adjusts limits of the system and the interpreter for a server of thousands of connections."""

import gc
import resource
from collections.abc import Iterator
from contextlib import contextmanager


def raise_file_limit() -> None:
    """Raise the soft limit on open files to the hard limit, because each connection is a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def calm_collector(young: int = 50_000) -> None:
    """Collect cycles less often, after `young` new objects, and never among start-up objects.

    A call makes hundreds of objects and hardly a cycle. A full collection walks through every
    cached answer and every open connection, and blocks the event loop meanwhile.
    """
    gc.collect()
    _freeze(young)


def _freeze(young: int) -> None:
    gc.freeze()
    gc.set_threshold(young, 20, 50)


@contextmanager
def calmed_collector(young: int) -> Iterator[None]:
    """Do as `calm_collector` does while the context is open. Cycles that are garbage already stay
    until it closes: in a large process, collecting them first would take longer than a short run.
    """
    before = gc.get_threshold()
    _freeze(young)
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)

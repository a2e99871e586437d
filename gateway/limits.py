"""Limits of the system and the interpreter that a server of thousands of connections meets."""

import gc
import resource


def raise_file_limit() -> None:
    """Raise the soft limit on open files to the hard one: a connection is a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def calm_collector() -> None:
    """Look for cycles less often, and never among what start-up made.

    A call makes hundreds of objects and hardly a cycle, while a full collection walks through every
    kept answer and every open connection and holds the event loop meanwhile.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)

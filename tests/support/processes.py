"""Processes that a test looks after by their ids."""

from pathlib import Path

from adapters.akshare.adapter import AkShareAdapter


def is_running(process: object) -> bool:
    """Whether the process is there and not merely waits for its parent to notice its end."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children(parent: int) -> set[int]:
    return {*map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text().split())}


def akshare_workers(adapter: AkShareAdapter) -> list[int]:
    """The workers that take calls; the worker for paged functions is last."""
    workers = [*adapter._plain.workers, *adapter._paged.workers]
    return [p.id for worker in workers for p in worker.processes if p.is_open]

"""The memory that a process holds now, and the most that it has held.

This file imports nothing of this project: `bench/speed/baselines/inspect_ai.py` runs it in a Python
that does not have the project.

The peak is that of the memory itself (VmHWM). It begins anew with each program and can be reset in
between. The peak of getrusage(2) persists through fork and exec, so a small program that was
started by a large one seems as large. It is used only if the system has no /proc.
"""

import os
import re
import resource
import sys
from pathlib import Path

_PEAK = re.compile(r"VmHWM:\s+(\d+) kB")


def rss_bytes() -> int:
    """The memory that this process holds now, or its peak so far if the system does not report
    that.
    """
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return peak_rss_bytes()
    return pages * resource.getpagesize()


def peak_rss_bytes() -> int:
    """The most memory this process has held at once since it began, or since `forget_peak`."""
    peak = _peak_of("self")
    if peak is not None:
        return peak
    inherited = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return inherited if sys.platform == "darwin" else inherited * 1024


def forget_peak() -> None:
    """Reset the peak to the memory held now. Where the system can't do that (proc(5), clear_refs),
    it stays the peak of the whole process.
    """
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def children_peak_rss_bytes() -> int | None:
    """The sum of the peaks of this process's living children; None if the system does not report
    it.
    """
    try:
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    except OSError:
        return None
    return sum(_peak_of(child) or 0 for child in children)


def _peak_of(process: str) -> int | None:
    """The peak of a process; None if it has ended or the system does not report it."""
    try:
        found = _PEAK.search(Path(f"/proc/{process}/status").read_text())
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None

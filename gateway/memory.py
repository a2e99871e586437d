"""How much memory a process holds, and has held at most.

This file stands alone: `bench/speed/baselines/inspect_ai.py` runs it in a Python that has nothing
of this project.

The peak is that of the memory itself (VmHWM), which begins anew with the program and can be begun
anew in between. That of getrusage(2) goes on through fork and exec, so a small program that was
started by a large one seems as large; it is taken only where the system has no /proc.
"""

import os
import re
import resource
import sys
from pathlib import Path

_PEAK = re.compile(r"VmHWM:\s+(\d+) kB")


def rss_bytes() -> int:
    """The memory that this process holds now; its peak so far where the system does not tell."""
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
    """Let the peak begin anew with what is held now; where the system has no such thing (proc(5),
    clear_refs) it stays that of the whole process.
    """
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def children_peak_rss_bytes() -> int | None:
    """The peaks of this process's living children added up; None where the system does not tell."""
    try:
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    except OSError:
        return None
    return sum(_peak_of(child) or 0 for child in children)


def _peak_of(process: str) -> int | None:
    """None for a process that has ended, and where the system does not tell."""
    try:
        found = _PEAK.search(Path(f"/proc/{process}/status").read_text())
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None

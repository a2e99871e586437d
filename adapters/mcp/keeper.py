"""Runs a program of others and ends it, with its process group, when its parent is gone.

`python keeper.py FD PROGRAM ARGUMENT...`: FD is the end of a pipe whose other end only the parent
holds. The system closes that when the parent ends, in whatever way.
"""

import os
import signal
import subprocess
import sys
import threading
import time

GRACE_S = 2.0


def main() -> int:
    lifeline = int(sys.argv[1])
    try:
        program = subprocess.Popen(sys.argv[2:])  # noqa: S603 - the operator names it
    except OSError as error:
        sys.stderr.write(f"{sys.argv[2]}: {error.strerror}\n")
        return 127
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # sent to the whole group, of which this waits
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):  # only the program holds the pipes now
        os.dup2(nothing, descriptor)
    threading.Thread(target=_end_with_parent, args=(lifeline,), daemon=True).start()
    code = program.wait()
    _end_group()
    return code if code >= 0 else 128 - code


def _end_with_parent(lifeline: int) -> None:
    os.read(lifeline, 1)
    os.killpg(0, signal.SIGTERM)
    time.sleep(GRACE_S)
    _end_group()


def _end_group() -> None:
    """Kill whatever is left of the group, this process too."""
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())

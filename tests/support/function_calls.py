"""Counts the calls of Python functions of the project on the event loop's thread.

The count is the same each time, whatever else the machine does: functions of libraries and of
asyncio, and those in other threads, are left out. Other tasks may run meanwhile, so that the
smallest count of several tries is that of the work itself.
"""

import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from tests.support.checkout import ROOT

PACKAGES = ("finport", "gateway", "manifests", "adapters", "cache", "bench")
_OWN = tuple(f"{ROOT / name}/" for name in PACKAGES)
_SIMULATED = f"{ROOT / 'adapters' / 'simulator'}/"


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Functions of the project and how often each is called in the context, by file and name."""
    calls: Counter[str] = Counter()
    start = len(f"{ROOT}/")

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        file = code.co_filename
        if event == "call" and file.startswith(_OWN) and not file.startswith(_SIMULATED):
            calls[f"{file[start:]} {code.co_qualname}"] += 1

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)


async def calls_of(
    work: Callable[[], Awaitable[object]], tries: int = 10, warm_up: int = 3
) -> Counter[str]:
    """The functions that `work` calls, in the try with the fewest calls."""
    for _ in range(warm_up):
        await work()
    tried = []
    for _ in range(tries):
        with counted() as calls:
            await work()
        tried.append(calls)
    return min(tried, key=Counter.total)

"""What a command says of work that takes long."""

import time
from collections.abc import Callable


class Progress:
    """Tells how much of some work is done, and about how long the rest takes, at most once in
    `every_s` seconds.
    """

    def __init__(self, tell: Callable[[str], None], every_s: float = 2.0) -> None:
        self._tell, self._every_s = tell, every_s
        self._started = time.monotonic()
        self._told = self._started if every_s else 0.0

    def at(self, part: float, text: str) -> None:
        """`part` of the work is done, as `text` says."""
        now = time.monotonic()
        if now - self._told < self._every_s:
            return
        self._told = now
        left_s = (now - self._started) * (1 / part - 1) if part else 0.0
        self._tell(f"{text}, about {left_s:.0f} s left" if part else text)

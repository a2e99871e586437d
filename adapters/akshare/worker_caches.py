"""Empties the caches in AkShare's own code, which would outlive the freshness of an answer.

Some functions keep a table in `functools.lru_cache` until their process ends: prices of options,
quotes of boards, a series of volatility. What they keep beside tables, such as the numbers that
hosts give to funds, is left: it changes seldom, and costs many requests.
"""

import time
from collections.abc import Iterable, Iterator
from functools import _lru_cache_wrapper
from types import ModuleType
from typing import Any

KEPT_S = 15.0
"""Seconds for which a table is kept, as an answer of class `realtime` is."""


class Caches:
    """The caches of AkShare's modules that hold tables."""

    def __init__(self, modules: Iterable[ModuleType]) -> None:
        self._caches = {kept for module in modules for kept in _tables(module)}
        self._cleared = time.monotonic()

    def renew(self) -> None:
        """Empty them if that is due. Two threads may do so at once."""
        if time.monotonic() - self._cleared >= KEPT_S:
            self._cleared = time.monotonic()
            for kept in self._caches:
                kept.cache_clear()


def _tables(module: ModuleType) -> "Iterator[_lru_cache_wrapper[Any]]":
    for value in [*vars(module).values()]:
        if type(value) is _lru_cache_wrapper:
            returned = getattr(value.__wrapped__, "__annotations__", {}).get("return")
            if "DataFrame" in str(returned):
                yield value

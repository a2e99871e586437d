"""Upstream hosts: whom a limit belongs to, and how many calls each may have under way.

Sources ban an address, not a function, so limits belong to the registrable domain of a host.
"""

import asyncio

ORIGINAL_HOST = "X-Finport-Host"
"""Header that carries the host a redirected request was meant for."""

_SHARED_SUFFIXES = {"com", "co", "net", "org", "gov", "edu", "ac"}


def registrable_domain(host: str) -> str:
    """`push2his.eastmoney.com` -> `eastmoney.com`; `data.stats.gov.cn` -> `stats.gov.cn`.

    A rule of thumb that is right for every host in the manifests; not the public suffix list.
    """
    labels = host.split(".")
    shared = len(labels) > 2 and len(labels[-1]) == 2 and labels[-2] in _SHARED_SUFFIXES
    return ".".join(labels[-3:] if shared else labels[-2:])


class HostLimits:
    """At most `concurrency` calls under way per name; the others wait their turn."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._turns: dict[str, asyncio.Semaphore] = {}

    def of(self, name: str) -> asyncio.Semaphore:
        """The turns at `name`."""
        return self._turns.setdefault(name, asyncio.Semaphore(self._concurrency))

"""The choice of the RapidAPI key for a request. The module that counts quotas implements `Keys`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Key:
    """A key. `id` is a fingerprint that may be shown: the key can't be computed from it."""

    id: str
    secret: str = field(repr=False)

    @classmethod
    def of(cls, secret: str) -> "Key":
        return cls(blake2b(secret.encode()).hexdigest()[:8], secret)


class Keys(Protocol):
    """Gives out keys, and learns from the answers of upstreams."""

    async def take(self, host: str, timeout_s: float) -> Key:
        """Return the key for the next request to `host`; the request counts as sent from now on.

        Raises `UpstreamFault` (`not_configured`, `quota_exhausted`).
        """
        ...

    def learn(self, host: str, key: Key, status: int, headers: Mapping[str, str]) -> None:
        """Take note of an answer's data on the key's quota (`fault.limits_of` reads it)."""
        ...

    def refuse(self, host: str, key: Key) -> bool:
        """Stop giving out `key` for `host` for a while, because the upstream does not accept it.

        Returns True if another key may be tried.
        """
        ...

    def rest(self, host: str, key: Key, seconds: float) -> bool:
        """Stop giving out `key` for `host` for `seconds`: the upstream asks it to slow down.

        Returns True if another key may be used at once.
        """
        ...

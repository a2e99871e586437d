"""Which RapidAPI key a request goes out with. Who keeps count of quotas implements `Keys`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Protocol

from adapters.fault import UpstreamFault


@dataclass(frozen=True, slots=True)
class Key:
    """A key. `id` tells it from others and may be shown: a fingerprint, from which no way back."""

    id: str
    secret: str = field(repr=False)

    @classmethod
    def of(cls, secret: str) -> "Key":
        return cls(blake2b(secret.encode()).hexdigest()[:8], secret)


class Keys(Protocol):
    """Gives out keys, and is told what became of them."""

    async def take(self, host: str, timeout_s: float) -> Key:
        """The key for the next request to `host`, which counts as sent from now on.

        Raises `UpstreamFault` (`not_configured`, `quota_exhausted`).
        """
        ...

    def learn(self, host: str, key: Key, status: int, headers: Mapping[str, str]) -> None:
        """What an answer said of the key's quota (`fault.limits_of` reads it)."""
        ...

    def refuse(self, host: str, key: Key) -> bool:
        """The upstream does not accept `key` for `host`: don't give it out there for a while.

        True if another key may be tried.
        """
        ...

    def rest(self, host: str, key: Key, seconds: float) -> bool:
        """The upstream asks `key` to slow down: don't give it out for `host` for so long.

        True if another key may be used at once.
        """
        ...


class OneKey:
    """One key or none, and no limits."""

    def __init__(self, secret: str | None) -> None:
        self._key = None if secret is None else Key.of(secret)

    async def take(self, host: str, timeout_s: float) -> Key:  # noqa: ARG002 - call shape of Keys
        if self._key is None:
            raise UpstreamFault(
                "not_configured", "no RapidAPI key is set; set FINPORT_RAPIDAPI_KEYS"
            )
        return self._key

    def learn(self, host: str, key: Key, status: int, headers: Mapping[str, str]) -> None:
        pass

    def refuse(self, host: str, key: Key) -> bool:  # noqa: ARG002 - call shape of Keys
        return False

    def rest(self, host: str, key: Key, seconds: float) -> bool:  # noqa: ARG002
        return False

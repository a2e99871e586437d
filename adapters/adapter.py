"""The interface between the gateway and an adapter: one method."""

from collections.abc import Mapping
from typing import Protocol

from adapters.normalise import Answer
from manifests import Manifest, Scalar


class Adapter(Protocol):
    """Reaches one kind of upstream. An adapter caches nothing, holds no state of a call beyond the
    sessions of the market, and never retries because of an upstream's behaviour.
    """

    async def fetch(
        self,
        manifest: Manifest,
        arguments: Mapping[str, Scalar],
        timeout_s: float,
        client: str = "",
    ) -> Answer:
        """Make one attempt. Cancellation ends the wait at once and the work by `timeout_s`.

        `timeout_s` is the longest time that the caller waits, and `client` names it; only tools
        with sessions ask who calls. Raises `UpstreamFault`.
        """
        ...

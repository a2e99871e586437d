"""What the gateway needs of an adapter: one method."""

from collections.abc import Mapping
from typing import Protocol

from adapters.normalise import Answer
from manifests import Manifest, Scalar


class Adapter(Protocol):
    """Reaches one kind of upstream. Caches nothing, holds no state of a call, and never asks again
    because of what an upstream did.
    """

    async def fetch(
        self, manifest: Manifest, arguments: Mapping[str, Scalar], timeout_s: float
    ) -> Answer:
        """One attempt. Cancellation ends the wait at once, the work at `timeout_s` at the latest.

        Raises `UpstreamFault`; `timeout_s` is what the caller will wait at most.
        """
        ...

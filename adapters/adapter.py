"""The interface between the gateway and an adapter."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from adapters.fault import UpstreamFault
from adapters.normalise import Answer
from manifests import Manifest, Scalar


class Adapter(ABC):
    """Reaches one kind of upstream. An adapter caches nothing, holds no state of a call beyond the
    sessions of the market, and never retries because of an upstream's behaviour.
    """

    digest: str | None = None
    """A hash of the recorded data from which it answers, if that is its upstream."""

    @abstractmethod
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

    def workers(self) -> dict[str, int]:
        """Count worker processes that are `busy`, `idle` or `retiring` (take no new calls), and
        those `started` so far; empty if it has none.
        """
        return {}


def credential_arguments(manifest: Manifest, credentials: Mapping[str, str]) -> dict[str, str]:
    """Return the values of the parameters that only the operator may fill.

    `credentials` holds them by upstream host. Raises `UpstreamFault` (`not_configured`) if one is
    required and not set.
    """
    filled = {}
    for parameter in manifest.parameters:
        if parameter.filled_by != "credential":
            continue
        value = credentials.get(manifest.upstream)
        if value is not None:
            filled[parameter.name] = value
        elif parameter.required:
            raise UpstreamFault(
                "not_configured",
                f"{manifest.upstream} wants a credential of its own; "
                f'set FINPORT_CREDENTIALS=\'{{"{manifest.upstream}": "..."}}\'',
            )
    return filled

"""Credentials that upstreams want inside a request. Operators set them; agents never see them."""

from collections.abc import Mapping

from adapters.fault import UpstreamFault
from manifests import Manifest


def credential_arguments(manifest: Manifest, credentials: Mapping[str, str]) -> dict[str, str]:
    """Values of the parameters that only the operator may fill, by upstream host.

    Raises `UpstreamFault` (`not_configured`) where one is required and not set.
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

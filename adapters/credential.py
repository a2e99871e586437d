"""Credentials that upstreams require in a request. Operators set them; agents never see them."""

from collections.abc import Mapping

from adapters.fault import UpstreamFault
from manifests import Manifest


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

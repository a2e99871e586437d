"""OpenAPI documents, files or fetched, as the tools of a provider."""

import logging
from functools import partial
from pathlib import Path

from anyio import to_thread

from gateway.settings_file import SettingsError
from manifests import HttpBinding, Manifest
from manifests.common.nearest import not_among
from manifests.common.regular_file import read_text
from manifests.openapi.document import MAX_BYTES, OpenApiError, read_document
from manifests.openapi.importing import Imported, imported
from manifests.providers import ProviderSettings

log = logging.getLogger("finport")


async def import_document(provider: ProviderSettings) -> Imported:
    """What the document of a provider becomes. Raises `SettingsError`."""
    place = provider.openapi or ""
    try:
        text, url = None, None
        if "://" in place:
            from adapters.rest.document import fetched

            url = place
            text = await fetched(url, allow_private=provider.allow_private)
        return await to_thread.run_sync(partial(_imported, provider, place, text, url))
    except OpenApiError as error:
        raise SettingsError(f"{provider.origin}: {error}") from None
    except OSError as error:
        raise SettingsError(f"{provider.origin}: {error.strerror}") from None


def _imported(
    provider: ProviderSettings, place: str, text: bytes | None, url: str | None
) -> Imported:
    document = read_document(read_text(Path(place), MAX_BYTES) if text is None else text)
    found = imported(
        document,
        prefix=provider.prefix,
        base_url=provider.base_url,
        url=url,
        takes=provider.takes,
        tags=provider.only_tags,
    )
    bindings = (m.binding for m in found.manifests)
    schemes = {
        c.scheme for b in bindings if isinstance(b, HttpBinding) for one in b.security for c in one
    }
    for scheme in provider.credentials.keys() - schemes:
        raise OpenApiError(f"no tool of it needs the credential {not_among(scheme, schemes)}")
    return found


async def manifests_of(name: str, provider: ProviderSettings) -> list[Manifest]:
    """The tools of a provider's document; the log counts what is left out. Raises `SettingsError`,
    also if there are none.
    """
    found = await import_document(provider)
    if not found.manifests:
        first = f": {found.left_out[0].reason}" if found.left_out else ""
        text = f"none of its {found.present} operations is imported{first}"
        raise SettingsError(f"{provider.origin}: {text}")
    if found.left_out:
        log.warning(
            "provider %s: %d of %d operations are left out, such as %s (%s)",
            name,
            len(found.left_out),
            found.present,
            found.left_out[0].operation,
            found.left_out[0].reason,
        )
    return found.manifests

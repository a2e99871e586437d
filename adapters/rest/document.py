"""Fetches OpenAPI documents."""

from typing import Final

from yarl import URL

from adapters.fault import UpstreamFault
from adapters.http import open_session, send
from manifests.openapi.document import MAX_BYTES, OpenApiError

FETCH_S: Final = 30.0

_ACCEPTED: Final = {
    "Accept": "application/json, application/yaml, application/vnd.oai.openapi, */*;q=0.5"
}


async def fetched(url: str, *, allow_private: bool = False) -> bytes:
    """The text of the document at a URL. Raises `OpenApiError`."""
    try:
        whole = URL(url)
    except ValueError:
        raise OpenApiError("its URL can't be read") from None
    if whole.scheme not in ("http", "https") or not whole.host:
        raise OpenApiError("a document is a file, or is fetched over http or https")
    if whole.user is not None or whole.password is not None:
        raise OpenApiError("a credential stands in its URL")
    try:
        async with open_session(guarded=not allow_private) as session:
            reply = await send(
                session, whole.with_fragment(None), _ACCEPTED, FETCH_S, fresh=True, most=MAX_BYTES
            )
    except UpstreamFault as fault:
        raise OpenApiError(f"it can't be fetched: {fault.message}") from None
    if 300 <= reply.status < 400:
        raise OpenApiError(f"its server answers {reply.status}, and redirects are not followed")
    if not reply.ok:
        raise OpenApiError(f"its server answers {reply.status}")
    return bytes(reply.body)

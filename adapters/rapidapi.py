"""RapidAPI over one aiohttp session.

The request is built from the manifest's binding alone: host, path with percent-encoded values,
query names, and the key and host headers. Redirects are not followed, a body is read up to a bound,
and the key stands in a header and nowhere else.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import quote

import aiohttp
from yarl import URL

from adapters.credential import credential_arguments
from adapters.fault import UpstreamFault
from adapters.host import HostLimits
from adapters.http import get, normalised
from adapters.normalise import Answer
from manifests import Manifest, RapidApiBinding, Scalar


class RapidApiAdapter:
    """Calls RapidAPI endpoints. Made by `RapidApiAdapter.open`."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        key: str | None,
        base_url: str | None,
        per_host: int,
        credentials: Mapping[str, str],
    ) -> None:
        self._session = session
        self._key = key
        self._base_url = base_url
        self._hosts = HostLimits(per_host)
        self._credentials = credentials

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        *,
        key: str | None,
        base_url: str | None = None,
        per_host: int = 16,
        credentials: Mapping[str, str] | None = None,
    ) -> AsyncIterator["RapidApiAdapter"]:
        """`key` is the RapidAPI key; `base_url` sends all requests to another origin."""
        connector = aiohttp.TCPConnector(limit=0)  # the limit stands in HostLimits
        async with aiohttp.ClientSession(connector=connector) as session:
            yield cls(session, key, base_url, per_host, credentials or {})

    async def fetch(
        self, manifest: Manifest, arguments: Mapping[str, Scalar], timeout_s: float
    ) -> Answer:
        binding = manifest.binding
        if not isinstance(binding, RapidApiBinding):
            raise TypeError(f"{manifest.name} is no RapidAPI tool")
        if self._key is None:
            raise UpstreamFault(
                "not_configured", "no RapidAPI key is set; set FINPORT_RAPIDAPI_KEYS"
            )
        arguments = {**arguments, **credential_arguments(manifest, self._credentials)}
        url, headers = request_of(binding, arguments, self._base_url)
        headers |= {"X-RapidAPI-Key": self._key, "X-RapidAPI-Host": binding.host}
        async with self._hosts.of(binding.host):
            body = await get(self._session, url, headers, timeout_s)
        return await normalised(body)


def request_of(
    binding: RapidApiBinding, arguments: Mapping[str, Scalar], base_url: str | None = None
) -> tuple[URL, dict[str, str]]:
    """URL and argument headers of one call, exactly as the binding says.

    Arguments can't leave their place: in the path they are percent-encoded (binding has refused dot
    segments), in the query they are encoded by yarl, in headers control characters are refused.
    """
    texts = {name: _text(value) for name, value in arguments.items()}
    path = binding.path
    for name, text in texts.items():
        if f"{{{name}}}" in path:
            path = path.replace(f"{{{name}}}", quote(text, safe=""))
    url = URL(f"{base_url or f'https://{binding.host}'}{path}", encoded=True)
    query = [(sent, texts[name]) for name, sent in binding.query.items() if name in texts]
    headers = {sent: texts[name] for name, sent in binding.headers.items() if name in texts}
    if not all(text.isprintable() for text in headers.values()):
        raise UpstreamFault("invalid", "an argument that is sent as a header is not printable")
    return url.with_query(query) if query else url, headers


def _text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

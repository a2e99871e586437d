"""Requests to OpenAI-compatible endpoints that help the gateway: embeddings and extraction.

No redirect is followed, so a key goes only to the endpoint that it was given for. An answer is
bounded.
"""

from typing import Any

import aiohttp

from adapters.connector import Connector
from adapters.fault import UpstreamFault, fault_of_status
from adapters.http import IDENTITY, read_body


class OpenAiEndpoint:
    """One route of an endpoint, `POST {base_url}/{route}`. `what` names it in errors; `key_name` is
    the environment variable that holds its key.
    """

    def __init__(
        self,
        what: str,
        base_url: str,
        route: str,
        key: str | None,
        key_name: str,
        *,
        timeout_s: float,
    ) -> None:
        self._what = what
        self._url = f"{base_url.rstrip('/')}/{route}"
        self._key = {"Authorization": f"Bearer {key}"} if key else {}
        self._key_name = key_name
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)

    def session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=Connector(),
            timeout=self._timeout,
            headers=IDENTITY | self._key,
            auto_decompress=False,
        )

    async def post(
        self, session: aiohttp.ClientSession, asked: Any, most: int
    ) -> bytes | bytearray:
        """The body of an answer of at most so many bytes. Raises `UpstreamFault`."""
        try:
            async with session.post(self._url, json=asked, allow_redirects=False) as response:
                if response.status == 401 and not self._key:
                    text = f"{self._what} answered 401: no key was sent, set {self._key_name}"
                    raise UpstreamFault("not_configured", text)
                if response.status != 200:
                    raise fault_of_status(response.status, response.headers.get("Retry-After"))
                try:
                    return await read_body(response, most)
                except UpstreamFault as fault:
                    raise UpstreamFault(fault.kind, f"{self._what}: {fault}") from None
        except (aiohttp.ClientError, TimeoutError) as error:
            text = f"{type(error).__name__} on the way to {self._what}"
            raise UpstreamFault("unreachable", text, retryable=True) from None

"""One HTTP GET against an upstream: every way in which it can fail becomes an `UpstreamFault`."""

from collections.abc import Mapping

import aiohttp
from yarl import URL

from adapters.fault import UpstreamFault

MAX_BODY = 16 * 2**20
CHUNK = 2**16


async def get(
    session: aiohttp.ClientSession, url: URL, headers: Mapping[str, str], timeout_s: float
) -> bytes:
    """The body of a 2xx answer. Raises `UpstreamFault`."""
    timeout = aiohttp.ClientTimeout(total=timeout_s)
    try:
        async with session.get(
            url, headers=headers, timeout=timeout, allow_redirects=False
        ) as response:
            if not 200 <= response.status < 300:
                raise _refused(response)
            return await _bounded_body(response)
    except TimeoutError:
        raise UpstreamFault(
            "timeout", f"{url.host} did not answer in time", retryable=True
        ) from None
    except aiohttp.ClientError as error:
        text = f"{type(error).__name__} on the way to the upstream"
        raise UpstreamFault("unreachable", text, retryable=True) from None


async def _bounded_body(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_chunked(CHUNK):
        body += chunk
        if len(body) > MAX_BODY:
            raise UpstreamFault("too_large", f"the answer is over {MAX_BODY} bytes")
    return bytes(body)


def _refused(response: aiohttp.ClientResponse) -> UpstreamFault:
    status = response.status
    text = f"the upstream answered {status}"
    if status in (401, 403):
        return UpstreamFault("not_subscribed", f"{text}: the key is not accepted for this tool")
    if status == 429:
        after = response.headers.get("Retry-After", "")
        wait = float(after) if after.isdecimal() else None
        return UpstreamFault("rate_limited", text, retryable=True, retry_after_s=wait)
    return UpstreamFault("status", text, retryable=status >= 500)

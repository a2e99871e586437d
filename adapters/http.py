"""One HTTP GET against an upstream: every way in which it can fail becomes an `UpstreamFault`."""

from collections.abc import Mapping

import aiohttp
from anyio import to_thread
from yarl import URL

from adapters.fault import UpstreamFault, fault_of_status
from adapters.normalise import MAX_BYTES, Answer, from_json

CHUNK = 2**16
READ_AT_ONCE = 2**16


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


async def normalised(body: bytes) -> Answer:
    """Answer from a JSON body; one that takes longer than 5 ms to read is read in a thread."""
    if len(body) < READ_AT_ONCE:
        return from_json(body)
    return await to_thread.run_sync(from_json, body)


async def _bounded_body(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_chunked(CHUNK):
        body += chunk
        if len(body) > MAX_BYTES:
            raise UpstreamFault("too_large", f"the answer is over {MAX_BYTES} bytes")
    return bytes(body)


def _refused(response: aiohttp.ClientResponse) -> UpstreamFault:
    fault = fault_of_status(response.status, response.headers.get("Retry-After"))
    if response.status in (401, 403):
        text = f"{fault.message}: the key is not accepted for this tool"
        return UpstreamFault("not_subscribed", text)
    return fault

"""Execution: one call of an adapter, under a deadline, tried again where that may help.

Every tool is a plain read, so another attempt is safe. Waits between attempts are drawn with full
jitter; an upstream's own Retry-After is honoured; no wait is begun that the deadline would cut.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    wait_random_exponential,
)

from adapters.adapter import Adapter
from adapters.fault import UpstreamFault
from adapters.normalise import Answer
from cache import Flight
from gateway.errors import CallError
from gateway.settings import GatewaySettings
from manifests import Manifest, Scalar

_JITTER = wait_random_exponential(multiplier=0.2, max=5.0)


async def execute(
    adapter: Adapter,
    manifest: Manifest,
    arguments: Mapping[str, Scalar],
    flight: Flight[Any],
    settings: GatewaySettings,
) -> Answer | CallError:
    """The answer, or why there is none. `flight` holds the deadline and counts the attempts."""
    loop = asyncio.get_running_loop()

    async def attempt() -> Answer:
        flight.attempts += 1
        timeout_s = max(min(settings.attempt_timeout_s, flight.deadline - loop.time()), 0.0)
        try:
            async with asyncio.timeout(timeout_s):
                return await adapter.fetch(manifest, arguments, timeout_s)
        except TimeoutError:
            text = f"{manifest.upstream} did not answer within {timeout_s:.3g} s"
            raise UpstreamFault("timeout", text, retryable=True) from None

    def is_too_late(state: RetryCallState) -> bool:
        return loop.time() + state.upcoming_sleep >= flight.deadline

    retrying = AsyncRetrying(
        stop=stop_after_attempt(settings.retries + 1) | is_too_late,  # type: ignore[operator]
        wait=_wait_s,
        retry=retry_if_exception(lambda e: isinstance(e, UpstreamFault) and e.retryable),
        sleep=asyncio.sleep,
        reraise=True,
    )
    try:
        return await retrying(attempt)
    except UpstreamFault as fault:
        return CallError.from_fault(fault)


def _wait_s(state: RetryCallState) -> float:
    fault = state.outcome.exception() if state.outcome else None
    asked = fault.retry_after_s if isinstance(fault, UpstreamFault) else None
    return max(_JITTER(state), asked or 0.0)

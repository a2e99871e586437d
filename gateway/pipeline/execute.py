"""Executes one call of an adapter under a deadline, and retries it if that may help.

Nearly every tool is a plain read, so another attempt is safe; a tool that may have side effects, or
a session, is asked once. Each attempt takes a slot at its host. Waits between
attempts have full jitter. An upstream's own Retry-After is honoured, also by later calls. No retry
waits beyond the deadline, and no host is retried more often than its retry budget allows.
If a request fails because its kept connection had ended, it is sent once more within its slot, on a
fresh connection, and counts as another attempt.

No host bears a call of a session (`execute_in_session`), so it takes no slot. If the gateway that
holds one session is dead, that says nothing about the others.
"""

import asyncio
from typing import Any

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    wait_random_exponential,
)

from adapters.adapter import Adapter
from adapters.fault import UpstreamFault
from adapters.normalise import Answer
from cache import Flight
from gateway.errors import CallError
from gateway.pipeline.bind import BoundCall
from gateway.settings import GatewaySettings
from gateway.upstreams.hosts import NotAdmitted, UpstreamHost

_JITTER = wait_random_exponential(multiplier=0.2, max=5.0)

PATIENCE_S = 5.0
"""A timeout shorter than this says nothing about the host: the caller was in a hurry."""


async def execute(
    adapter: Adapter,
    host: UpstreamHost,
    bound: BoundCall,
    flight: Flight[Any],
    settings: GatewaySettings,
    client: str,
) -> Answer | CallError:
    """Return the answer or the error. `flight` holds the deadline and counts the attempts."""
    loop = asyncio.get_running_loop()
    manifest = bound.plan.manifest
    retries = 0 if manifest.is_for_one else settings.retries
    started, last, unsent = loop.time(), None, None

    async def fetch(until: float) -> Answer:
        nonlocal unsent
        try:
            return await adapter.fetch(manifest, bound.arguments, until - loop.time(), client)
        except UpstreamFault as fault:
            if fault.kind != "dropped" or manifest.is_for_one:
                raise
            unsent = fault
        await host.next_start()
        unsent = None
        flight.attempts += 1
        return await adapter.fetch(manifest, bound.arguments, until - loop.time(), client)

    async def attempt() -> Answer:
        nonlocal last
        slot = host.take_slot_now()
        if slot is None:
            try:
                async with flight.wait_in_queue():
                    slot = await host.take_slot(client, flight.deadline - loop.time())
            except TimeoutError:
                raise NotAdmitted(host.not_admitted(loop.time() - started)) from None
        flight.attempts += 1
        if flight.attempts == 1:
            host.first_attempt()
        good, began = None, loop.time()
        timeout_s = max(min(settings.attempt_timeout_s, flight.deadline - began), 0.0)
        try:
            async with asyncio.timeout_at(began + timeout_s):
                answer = await fetch(began + timeout_s)
            good = True
        except (UpstreamFault, TimeoutError) as error:
            text = f"{manifest.upstream} did not answer within {timeout_s:.3g} s"
            late = UpstreamFault("timeout", text, retryable=True)
            last = (unsent or late) if isinstance(error, TimeoutError) else error
            was_patient = timeout_s >= min(PATIENCE_S, settings.attempt_timeout_s)
            good = _speaks_for_its_host(last, was_patient)
            if last.kind in ("rate_limited", "status") and last.other_key is None:
                host.pause(last.retry_after_s or 0.0)
            raise last from None
        except NotAdmitted:  # by the key's quota: nothing was sent
            flight.attempts -= 1
            raise
        finally:
            host.end_slot(slot, good, loop.time() - began)
        return answer

    try:
        return await attempt()
    except UpstreamFault as fault:
        if not fault.retryable:
            return CallError.from_fault(fault)
        first: UpstreamFault | None = fault
    except NotAdmitted as denied:
        return denied.error

    async def attempt_again() -> Answer:
        """The first attempt runs without tenacity, which costs 80 us a call. This function first
        passes its fault to tenacity, then makes new attempts.
        """
        nonlocal first
        if first is not None:
            fault, first = first, None
            raise fault
        return await attempt()

    def is_over(state: RetryCallState) -> bool:
        too_late = loop.time() + state.upcoming_sleep >= flight.deadline
        return state.attempt_number > retries or too_late or not host.may_retry()

    retrying = AsyncRetrying(
        stop=is_over,
        wait=_wait_s,
        retry=retry_if_exception(lambda e: isinstance(e, UpstreamFault) and e.retryable),
        sleep=asyncio.sleep,
        reraise=True,
    )
    try:
        return await retrying(attempt_again)
    except UpstreamFault as fault:
        return CallError.from_fault(fault)
    except NotAdmitted as denied:  # before a retry: the last attempt's fault says more
        return CallError.from_fault(last) if last is not None else denied.error


async def execute_in_session(
    adapter: Adapter,
    bound: BoundCall,
    flight: Flight[Any],
    settings: GatewaySettings,
    client: str,
) -> Answer | CallError:
    """As `execute`, for a session of a recorded market."""
    left_s = flight.deadline - asyncio.get_running_loop().time()
    timeout_s = max(min(settings.attempt_timeout_s, left_s), 0.0)
    flight.attempts += 1
    try:
        async with asyncio.timeout(timeout_s):
            return await adapter.fetch(bound.plan.manifest, bound.arguments, timeout_s, client)
    except UpstreamFault as fault:
        return CallError.from_fault(fault)
    except TimeoutError:
        text = f"the market did not answer within {timeout_s:.3g} s"
        return CallError.from_fault(UpstreamFault("timeout", text, retryable=True))


def _wait_s(state: RetryCallState) -> float:
    fault = state.outcome.exception() if state.outcome else None
    if not isinstance(fault, UpstreamFault) or fault.other_key or fault.kind == "quota_exhausted":
        return _JITTER(state)
    return max(_JITTER(state), fault.retry_after_s or 0.0)


def _speaks_for_its_host(fault: UpstreamFault, was_patient: bool) -> bool | None:
    """Whether the host works, by how an attempt failed; None if that says nothing about it."""
    match fault.kind:
        case "timeout":
            return False if was_patient else None
        case "unreachable" | "status":
            return not fault.retryable
        case (
            "unread" | "dropped" | "crashed" | "not_configured" | "quota_exhausted" | "rate_limited"
        ):
            return None
    return True  # the host answered, although not usefully

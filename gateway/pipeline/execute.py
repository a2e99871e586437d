"""Executes one call of an adapter under a deadline, and retries it if that may help.

Nearly every tool is a plain read, so another attempt is safe; a tool that may have side effects, or
a session, is asked once. Each attempt takes a slot at its host. Waits between
attempts have full jitter. An upstream's own Retry-After is honoured, also by later calls. No retry
waits beyond the deadline, and no host is retried more often than its retry budget allows.
If a request fails because its kept connection had ended, it is sent once more within its slot, on a
fresh connection, and counts as another attempt.

No host bears a call that a gateway answers itself (`execute_locally`), so it takes no slot. If the
gateway that holds one session is dead, that says nothing about the others.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, wait_random_exponential

from adapters.adapter import Adapter
from adapters.fault import UpstreamFault
from adapters.normalise import Answer
from cache import Flight
from gateway.errors import CallError
from gateway.pipeline.bind import BoundCall
from gateway.settings import GatewaySettings
from gateway.upstreams.hosts import NotAdmitted, UpstreamHost
from manifests import Manifest

_JITTER = wait_random_exponential(multiplier=0.2, max=5.0)

PATIENCE_S = 5.0
"""A timeout shorter than this says nothing about the host: the caller was in a hurry."""


Sent = Callable[[Manifest, str, int], None]
"""Is told the tool, the client and the number of requests of an execution that has ended."""


class Execution:
    """The attempts of one call at its host. `flight` holds the deadline and counts them, and `sent`
    is told how many they were.
    """

    def __init__(
        self,
        adapter: Adapter,
        host: UpstreamHost,
        bound: BoundCall,
        flight: Flight[Any],
        settings: GatewaySettings,
        client: str,
        sent: Sent | None = None,
    ) -> None:
        self._sent = sent
        self._adapter = adapter
        self._host = host
        self._bound = bound
        self._flight = flight
        self._settings = settings
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._started = self._loop.time()
        self._last: UpstreamFault | None = None

    async def run(self) -> Answer | CallError:
        """Return the answer, or the error of the last attempt."""
        try:
            return await self._attempt()  # tenacity would add a fifth to the time of a call
        except UpstreamFault as fault:
            return await self._retry() if fault.retryable else CallError.from_fault(fault)
        except NotAdmitted as denied:
            return denied.error
        finally:
            if self._sent is not None and self._flight.attempts:
                self._sent(self._bound.plan.manifest, self._client, self._flight.attempts)

    async def _retry(self) -> Answer | CallError:
        """Go on after the first attempt, which failed with `_last`."""
        retrying = AsyncRetrying(
            retry=retry_if_exception(lambda e: isinstance(e, UpstreamFault) and e.retryable),
            stop=self._is_over,
            wait=_wait_s,
            sleep=asyncio.sleep,
            reraise=True,
        )
        try:
            async for trial in retrying:
                with trial:
                    if self._last is not None and trial.retry_state.attempt_number == 1:
                        raise self._last
                    return await self._attempt()
        except UpstreamFault as fault:
            return CallError.from_fault(fault)
        except NotAdmitted as denied:  # the last attempt's fault says more
            return denied.error if self._last is None else CallError.from_fault(self._last)
        raise AssertionError("the retrying ends with an answer or a fault")

    def _is_over(self, state: RetryCallState) -> bool:
        retries = 0 if self._bound.plan.is_for_one else self._settings.retries
        too_late = self._loop.time() + state.upcoming_sleep >= self._flight.deadline
        return state.attempt_number > retries or too_late or not self._host.may_retry()

    async def _attempt(self) -> Answer:
        """Make one attempt, in a slot of the host. Raises `UpstreamFault` and `NotAdmitted`."""
        host, flight, settings = self._host, self._flight, self._settings
        slot = host.take_slot_now()
        if slot is None:
            slot = await self._wait_for_slot()
        flight.attempts += 1
        if flight.attempts == 1:
            host.first_attempt()
        good, began = None, self._loop.time()
        timeout_s = max(min(settings.attempt_timeout_s, flight.deadline - began), 0.0)
        try:
            answer = await self._fetch(began + timeout_s)
            good = True
            return answer
        except UpstreamFault as fault:
            self._last = fault
            was_patient = timeout_s >= min(PATIENCE_S, settings.attempt_timeout_s)
            good = _speaks_for_its_host(fault, was_patient)
            if fault.kind in ("rate_limited", "status") and fault.other_key is None:
                host.pause(fault.retry_after_s or 0.0)
            raise
        except NotAdmitted:  # by the key's quota: nothing was sent
            flight.attempts -= 1
            raise
        finally:
            host.end_slot(slot, good, self._loop.time() - began)

    async def _wait_for_slot(self) -> int:
        left_s = self._flight.deadline - self._loop.time()
        try:
            async with self._flight.wait_in_queue():
                return await self._host.take_slot(self._client, left_s)
        except TimeoutError:
            waited_s = self._loop.time() - self._started
            raise NotAdmitted(self._host.not_admitted(waited_s)) from None

    async def _fetch(self, until: float) -> Answer:
        """Send the request, and once more if its connection had ended. Raises `UpstreamFault`."""
        fetch, bound, loop = self._adapter.fetch, self._bound, self._loop
        manifest, began, dropped = bound.plan.manifest, loop.time(), None
        try:
            async with asyncio.timeout_at(until):
                try:
                    return await fetch(manifest, bound.arguments, until - began, self._client)
                except UpstreamFault as fault:
                    if fault.kind != "dropped" or bound.plan.is_for_one:
                        raise
                    dropped = fault
                await self._host.next_start()
                self._flight.attempts += 1
                dropped, left_s = None, until - loop.time()
                return await fetch(manifest, bound.arguments, left_s, self._client)
        except TimeoutError:
            text = f"{manifest.upstream} did not answer within {until - began:.3g} s"
            raise dropped or UpstreamFault("timeout", text, retryable=True) from None


async def execute_locally(
    adapter: Adapter,
    bound: BoundCall,
    flight: Flight[Any],
    settings: GatewaySettings,
    client: str,
) -> Answer | CallError:
    """Make the one attempt of a call that no host bears."""
    left_s = flight.deadline - asyncio.get_running_loop().time()
    timeout_s = max(min(settings.attempt_timeout_s, left_s), 0.0)
    flight.attempts += 1
    try:
        async with asyncio.timeout(timeout_s):
            return await adapter.fetch(bound.plan.manifest, bound.arguments, timeout_s, client)
    except UpstreamFault as fault:
        return CallError.from_fault(fault)
    except TimeoutError:
        text = f"it was not answered within {timeout_s:.3g} s"
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

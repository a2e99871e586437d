"""Asks every tool its probe calls for a recording, without straining any host.

Calls to one host are made one after another, and start `pace_s` apart or more; hosts are asked at
the same time. A host is asked no more, and its other calls are left for later, if its quota is used
up, if its circuit breaker stays open, or if several calls in succession got no answer in time.
"""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import anyio

from adapters.adapter import credential_arguments
from adapters.fault import UpstreamFault
from cache import SnapshotError
from gateway import Gateway
from gateway.errors import ErrorCode
from gateway.pipeline.bind import BoundCall
from gateway.result import Result
from gateway.settings import GatewaySettings
from gateway.upstreams.hosts import host_of
from manifests.common.duration import duration

PATIENCE_S: Final = 90.0
"""The longest wait for a host that asks to come back later."""

ROUNDED_S: Final = 0.01
"""What a stated wait may lack: it is rounded to milliseconds."""

HUNG: Final = 3
"""So many calls of a host in succession without an answer in time, each of which may take the
gateway's whole deadline, show that it hangs. The breaker counts attempts of half a minute only.
"""

FIRST: Final = 10
"""If at most one of so many first calls is answered, the user hears of it at once: what all calls
have in common is wrong.
"""

LEAST_HOSTS: Final = 3
"""If none of so many hosts answers, the fault is not theirs."""

LATER: Final = frozenset(
    [
        *(ErrorCode.RATE_LIMITED, ErrorCode.QUOTA_EXHAUSTED, ErrorCode.CIRCUIT_OPEN),
        *(ErrorCode.OVERLOADED, ErrorCode.CANCELLED),
    ]
)
"""Errors that are no answer of the tool: the call is to be made again later."""

Tell = Callable[[str], None]


@dataclass
class _Host:
    """The calls of a host that are left; how many were made and answered, and the seconds that they
    took. A tool whose host is not known may need no network.
    """

    calls: list[BoundCall] = field(default_factory=list)
    is_known: bool = True
    made: int = 0
    answered: int = 0
    took_s: float = 0.0


def lacking(settings: GatewaySettings, calls: Sequence[BoundCall]) -> dict[str, str]:
    """Why calls can't be made with these settings, by the call's key."""
    if settings.upstream == "simulated":
        return {}
    credentials = {host: value.get_secret_value() for host, value in settings.credentials.items()}
    reasons = {}
    for call in calls:
        manifest = call.plan.manifest
        if manifest.source == "rapidapi" and not settings.secrets:
            reasons[call.key] = "no RapidAPI key is set; set FINPORT_RAPIDAPI_KEYS"
            continue
        try:
            credential_arguments(manifest, credentials)
        except UpstreamFault as fault:
            reasons[call.key] = fault.message
    return reasons


class Probing:
    """One round of probe calls through a gateway that records. `tell` hears of the progress every
    `tell_s` seconds, and of what is wrong at once.

    `unmade` counts the calls that could not be made for a reason of the gateway's own, by error
    code, and `later` those that are left for later, by host.
    """

    def __init__(
        self,
        gateway: Gateway,
        calls: Sequence[BoundCall],
        pace_s: float,
        tell: Tell,
        tell_s: float = 5.0,
    ) -> None:
        self.unmade: Counter[ErrorCode] = Counter()
        self.later: Counter[str] = Counter()
        self._count = len(calls)
        self._gateway = gateway
        self._pace_s = pace_s
        self._tell = tell
        self._tell_s = tell_s
        self._hosts: defaultdict[str, _Host] = defaultdict(_Host)
        for call in calls:
            host = self._hosts[host_of(call.plan.manifest)]
            host.calls.append(call)
            host.is_known = bool(call.plan.manifest.binding.hosts)

    @property
    def made(self) -> int:
        """How many calls were made."""
        return sum(host.made for host in self._hosts.values())

    @property
    def answered(self) -> int:
        """How many of the calls that were made were answered."""
        return sum(host.answered for host in self._hosts.values())

    @property
    def unreachable(self) -> bool:
        """Whether several hosts were asked and none answered: then the network is to blame, and
        not each tool.
        """
        asked = [host for host in self._hosts.values() if host.is_known and host.made]
        return len(asked) >= LEAST_HOSTS and not any(host.answered for host in asked)

    async def run(self) -> None:
        """Make all calls. Raises `SnapshotError` if they can't be recorded."""
        teller = asyncio.create_task(self._tell_progress())
        try:
            async with anyio.create_task_group() as hosts:
                for name, host in self._hosts.items():
                    hosts.start_soon(self._ask, name, host)
        finally:
            teller.cancel()
        recorder = self._gateway.answers.recorder
        if recorder is not None and recorder.failure is not None:
            raise SnapshotError(recorder.failure)

    async def _ask(self, name: str, host: _Host) -> None:
        late = 0
        while host.calls:
            started = time.monotonic()
            result = await self._result(host.calls[0])
            error = result.error
            if self._gateway.answers.failed:
                return
            if error is not None and error.code in LATER:
                self._leave(name, host, error.message)
                return
            host.made += 1
            host.answered += error is None
            self._tell_error(host.calls.pop(0), result)
            late = late + 1 if error is not None and error.code is ErrorCode.TIMEOUT else 0
            if host.calls and late >= HUNG:
                self._leave(name, host, f"{late} calls in succession got no answer in time")
                return
            if host.calls:
                await asyncio.sleep(max(self._pace_s - (time.monotonic() - started), 0.0))
            host.took_s += time.monotonic() - started

    async def _result(self, call: BoundCall) -> Result:
        """Make the call, and once more if its host asks for a short pause."""
        result = await self._call(call)
        error = result.error
        if error is None or error.code not in LATER or error.code is ErrorCode.QUOTA_EXHAUSTED:
            return result
        wait_s = error.retry_after_s or 0.0
        if wait_s > PATIENCE_S:
            return result
        await asyncio.sleep(max(wait_s + ROUNDED_S, self._pace_s))
        return await self._call(call)

    async def _call(self, call: BoundCall) -> Result:
        return await self._gateway.call(call.plan.manifest.name, call.arguments)

    def _leave(self, name: str, host: _Host, why: str) -> None:
        count = len(host.calls)
        self.later[name] += count
        left = f"{count:,} calls are" if count != 1 else "1 call is"
        self._tell(f"{name}: {left} left for later: {why}")
        host.calls.clear()

    def _tell_error(self, call: BoundCall, result: Result) -> None:
        error, tool = result.error, call.plan.manifest.name
        if error is None:
            return
        if error.fault == "gateway" or not result.attempts:
            self.unmade[error.code] += 1
            if self.unmade[error.code] == 1:
                self._tell(f"{tool}: {error.code}: {error.message}; such errors are not recorded")
        if self.made == FIRST and self.answered <= 1:
            text = f"{FIRST - self.answered} of the first {FIRST} calls failed"
            self._tell(f"{text}; the last one, {tool}: {error.message}")

    async def _tell_progress(self) -> None:
        while True:
            await asyncio.sleep(self._tell_s)
            made, answered = self.made, self.answered
            failed = f", {made - answered:,} failed" if made > answered else ""
            left_s = max(map(self._left_s, self._hosts.values()), default=0.0)
            left = f", about {duration(round(left_s))} left" if left_s >= 1 else ""
            self._tell(f"{made:,} of {self._count:,} calls made{failed}{left}")

    def _left_s(self, host: _Host) -> float:
        """About how long the other calls of a host take. The slowest host decides for all."""
        each_s = host.took_s / host.made if host.made else self._pace_s
        return each_s * len(host.calls)

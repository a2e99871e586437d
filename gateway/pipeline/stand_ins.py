"""Answers a call from another source while its own source fails, if its caller allows that.

The order is: a fresh answer of the own source, its kept answer while it may stand for an error (RFC
5861), the stand-ins in the order of the manifest, the own error. A stand-in is called through the
pipeline as any call: with its own key, caches, limits, quota and row in a snapshot, and only if the
caller may use it. What it answers becomes rows of the asked tool, which no cache keeps.

Only the failure of a source counts, as its error tells; so a recorded error has the same stand-ins
offline. The own source gets most of the time, but not all of it.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import orjson
from anyio import to_thread

from cache import Entry, Kept
from gateway.context import CallContext
from gateway.errors import CallError, ErrorCode
from gateway.grant import Grant
from gateway.pipeline.answers import Answers
from gateway.pipeline.bind import Binder, BoundCall, InvalidCall
from gateway.pipeline.cached import Outcome
from gateway.pipeline.execute import PATIENCE_S
from gateway.result import Stood
from gateway.settings import GatewaySettings
from gateway.upstreams.hosts import host_of
from manifests import Catalog, Manifest
from manifests.stand_ins import Pair, UnfitError, pairs, problems

log = logging.getLogger("finport")

OWN_SHARE = 0.6
"""The share of a call's time that its own source gets, and never less than a patient wait."""

OWN_MOST_S = 20.0
"""The most time that the own source gets: a call may take minutes, a source that hangs too."""

LEAST_S = 0.05
"""A stand-in is not asked with less time than this left."""

AT_ONCE = 2**14
"""Bytes of rows that are mapped on the event loop, in about a millisecond."""

_FAILED: Final = frozenset(
    [
        ErrorCode.CIRCUIT_OPEN,
        ErrorCode.RATE_LIMITED,
        ErrorCode.QUOTA_EXHAUSTED,
        ErrorCode.UPSTREAM_UNREACHABLE,
        ErrorCode.UPSTREAM_INVALID,
    ]
)


class StandIns:
    """The stand-ins of one gateway. `counts` are the answers they gave, by the tool that was asked
    and the one that answered.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        catalog: Catalog,
        binder: Binder,
        answers: Answers,
        refusal: Callable[[Manifest, Grant | None], CallError | None],
    ) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self._settings = settings
        self._catalog = catalog
        self._binder = binder
        self._answers = answers
        self._refusal = refusal
        self._pairs: dict[str, list[Pair]] = {}
        self._version = catalog.version

    async def obtain(self, bound: BoundCall, context: CallContext) -> Outcome:
        """Answer a call whose caller allows a stand-in."""
        found = self._of(bound.plan.manifest)
        if not found:
            return await self._answers.obtain(bound, context)
        settings, loop = self._settings, asyncio.get_running_loop()
        limit_s = min(context.deadline_s or settings.deadline_s, settings.deadline_s)
        until = loop.time() + limit_s
        patient_s = min(PATIENCE_S, settings.attempt_timeout_s, settings.deadline_s)
        own_s = min(max(min(OWN_SHARE * limit_s, OWN_MOST_S), patient_s), limit_s)
        outcome = await self._answers.obtain(bound, replace(context, deadline_s=own_s))
        error = outcome.error
        if error is None or not is_of_the_source(error):
            return outcome
        tried, attempts = list[dict[str, str]](), outcome.attempts
        for number, pair in enumerate(found):
            share_s = (until - loop.time()) / (len(found) - number)
            answer = await self._stand_in(pair, bound, context, share_s)
            if isinstance(answer, str):
                tried.append({"tool": pair.other.name, "why": answer})
                continue
            attempts += answer.attempts
            if answer.error is not None:
                why = f"{answer.error.code.value}: {answer.error.message}"
                tried.append({"tool": pair.other.name, "why": why})
                continue
            if not outcome.attempts:  # what was sent upstream is recorded already
                lost = await self._answers.record(bound, error)
                if lost is not None:
                    return Outcome(error=lost)
            names = pair.asked.name, pair.other.name
            self.counts[names] += 1
            stood = Stood(*names, error.code.value, pair.missing, pair.within)
            return replace(answer, attempts=attempts, stood=stood)
        told = replace(error, details={**error.details, "stand_ins": tried})
        return replace(outcome, error=told, attempts=attempts)

    async def _stand_in(
        self, pair: Pair, asked: BoundCall, context: CallContext, within_s: float
    ) -> Outcome | str:
        """What one stand-in answers, mapped to the asked tool, or why it can't be asked."""
        if within_s < LEAST_S:
            return "there is no time left for it"
        try:
            bound = self._binder.bind(pair.other.name, pair.arguments(asked.arguments))
        except UnfitError as unfit:
            return str(unfit)
        except InvalidCall as invalid:
            return f"{invalid.error.code.value}: {invalid.error.message}"
        if (refused := self._refusal(bound.plan.manifest, context.grant)) is not None:
            return f"{refused.code.value}: {refused.message}"
        if bound.plan.manifest.revision != pair.other.revision:
            return "it has changed meanwhile"
        outcome = await self._answers.obtain(bound, replace(context, deadline_s=within_s))
        kept = outcome.kept
        if kept is None:
            return outcome
        make = partial(_mapped, pair, kept.entry, asked.arguments, bound.arguments)
        try:
            is_small = len(kept.entry.data) <= AT_ONCE
            entry = make() if is_small else await to_thread.run_sync(make)
        except UnfitError as unfit:
            return str(unfit)
        since, snapshot = kept.since, kept.snapshot
        mapped = Kept(entry, since, fresh_until=since, snapshot=snapshot, stored=False)
        return replace(outcome, kept=mapped)

    def _of(self, manifest: Manifest) -> list[Pair]:
        """The stand-ins of a tool that another host answers, prepared on first use."""
        if self._version != self._catalog.version:  # the tools have changed
            self._pairs.clear()
            self._version = self._catalog.version
        found = self._pairs.get(manifest.name)
        if found is None:
            found = self._pairs[manifest.name] = [*filter(self._is_fit, self._declared(manifest))]
        return found

    def _declared(self, manifest: Manifest) -> list[Pair]:
        named = (self._catalog.get(stand_in.tool) for stand_in in manifest.stand_ins)
        return pairs(manifest, {tool.name: tool for tool in named if tool is not None})

    def _is_fit(self, pair: Pair) -> bool:
        """Whether a declaration holds; one that does not is never used."""
        wrong = [*problems(pair)]
        if host_of(pair.asked) == host_of(pair.other):
            wrong.append(f"{host_of(pair.asked)} bears the load of both")
        if wrong:
            log.warning("%s can't stand in for %s: %s", pair.other.name, pair.asked.name, wrong[0])
        return not wrong


def is_of_the_source(error: CallError) -> bool:
    """Whether an error says that the source failed: it is away, bans or limits us, breaks, or
    answers what can't be read. What it refuses, or has nothing of, no other source may answer.
    """
    match error.code:
        case ErrorCode.TIMEOUT:
            return error.fault == "tool"
        case ErrorCode.UPSTREAM_ERROR:
            return error.retryable or bool(error.details.get("banned"))
    return error.code in _FAILED


def _mapped(pair: Pair, entry: Entry, asked: Mapping[str, Any], sent: Mapping[str, Any]) -> Entry:
    """The answer of a stand-in as one of the asked tool. Raises `UnfitError`."""
    if entry.rows is None:
        raise UnfitError("it answered no table")
    rows = pair.rows(orjson.loads(entry.data), asked, sent)
    return Entry(
        data=b"[%b]" % b",\n".join(map(orjson.dumps, rows)),
        columns=tuple(rows[0]),
        rows=len(rows),
        recorded_at=entry.recorded_at,
        latency_ms=entry.latency_ms,
        upstream=entry.upstream,
        lied=entry.lied,
    )

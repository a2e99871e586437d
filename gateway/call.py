"""The call pipeline: from a tool's name and arguments to a result and a record.

`Gateway.call` never raises for anything that a caller, a tool or an upstream did: every outcome is
a `Result`. Every call, also a cancelled one, leaves exactly one record and is reported to each
observer once. While the trace can't be written, every call is refused before anything is done for
it; only such a call leaves no record. A call answered from memory does no I/O, takes no lock and
makes no task.
"""

import asyncio
import contextlib
import logging
import math
import os
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from itertools import count
from typing import Any, Protocol, TypeVar

import orjson

from adapters.mcp.servers import McpServers
from cache import Clock, Entry, Kept
from cache.flight import Shut
from gateway.compress.budget import budget_of, load
from gateway.compress.extractor import Extractor
from gateway.compress.shortener import Shortener
from gateway.context import DEFAULT_CONTEXT, CallContext
from gateway.errors import CallError, ErrorCode
from gateway.grant import Grant
from gateway.pipeline.answers import Answers
from gateway.pipeline.bind import Binder, BoundCall, InvalidCall, masked, printable
from gateway.pipeline.listings import listed
from gateway.pipeline.names import bind_names, names_instrument
from gateway.pipeline.opening import open_answers
from gateway.pipeline.stand_ins import StandIns
from gateway.result import Result
from gateway.settings import OF_PROVIDERS, GatewaySettings, SettingsError
from gateway.tables import rows
from gateway.trace import AGAIN_S, CallRecord, Trace, TraceError
from gateway.upstreams.hosts import plans_of
from gateway.upstreams.providers import catalog_of, following, servers_of
from manifests import Catalog, CatalogError, Manifest
from manifests.symbols import SymbolTable

log = logging.getLogger("finport")

_HANDLE = re.compile(r"([A-Za-z0-9_-]{1,64})\.([0-9a-f]{32})-([0-9a-f]{16})")
"""A handle: tool, key and version of an answer."""


class Observer(Protocol):
    """Is notified once of every call that has ended, also of one that was refused or cancelled.

    `bound` is None for a call that could not be made. `ended` may neither wait nor raise.
    """

    def ended(self, result: Result, bound: BoundCall | None, context: CallContext) -> None: ...


Watcher = TypeVar("Watcher", bound=Observer)


class Gateway:
    """The call pipeline for one event loop. Made by `Gateway.open`."""

    def __init__(
        self,
        settings: GatewaySettings,
        catalog: Catalog,
        answers: Answers,
        trace: Trace | None,
        observers: Sequence[Observer] = (),
        symbols: SymbolTable | None = None,
    ) -> None:
        self.settings = settings
        self.catalog = catalog
        self.symbols = symbols or SymbolTable()
        self.answers = answers
        self.outcomes: Counter[str] = Counter()
        self._memory = answers.memory
        self._passed = answers.clock.passed
        self._max_rows = settings.max_rows
        self._trace = trace
        self._observers = [*observers]
        self._grant = Grant(transactional=settings.transactional)
        self._binder = Binder(catalog)
        self._stand_in = settings.stand_in
        self.stand_ins = StandIns(settings, catalog, self._binder, answers, self.refusal)
        self._shortens = settings.max_tokens is not None
        self._shortener = Shortener(Extractor.of(settings))
        self._call_prefix = f"{os.getpid():x}-{time.time_ns():x}-"
        self._call_numbers = count(1)
        self._sources: tuple[Catalog | None, Sequence[Callable[..., Any]]] = None, ()
        self._servers: McpServers | None = None
        self._reloading = asyncio.Lock()

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        settings: GatewaySettings | None = None,
        *,
        catalog: Catalog | None = None,
        tools: Iterable[Callable[..., Any]] = (),
        trace: Trace | None = None,
        observers: Sequence[Observer] = (),
        clock: Clock | None = None,
        lazy: bool = False,
    ) -> AsyncIterator["Gateway"]:
        """Open a gateway; leaving the context ends everything that it started. `tools` are Python
        functions that it serves beside its catalogue, as the tools of the providers in settings.
        With `lazy` no upstream is opened before a call asks one, which suits few calls.

        Raises `SettingsError`, `CatalogError`, `SnapshotError` if the snapshot can't be read or
        recorded, and `OSError` if the cache can't be opened.
        """
        settings = settings or GatewaySettings.read()
        base, tools = catalog, [*tools]
        async with AsyncExitStack() as parts:
            servers = await parts.enter_async_context(servers_of(settings))
            catalog = await catalog_of(settings, base, tools, servers)
            kept = settings.cache_dir / f"symbols-{settings.upstream}.tsv"
            asks = settings.listings and settings.mode == "live"
            symbols = SymbolTable(
                kept if settings.listings else None,
                (lambda: listed(answers, gateway._binder)) if asks else None,
            )
            answers = await parts.enter_async_context(
                open_answers(settings, catalog, clock or Clock(), symbols, servers, lazy=lazy)
            )
            gateway = cls(settings, catalog, answers, trace, observers, symbols)
            gateway._sources, gateway._servers = (base, tools), servers
            parts.push_async_callback(symbols.aclose)
            if answers.store is not None:
                answers.store.counts = gateway.outcomes
            if settings.max_tokens is not None:
                load(settings.encoding)
            parts.push_async_callback(gateway._shortener.aclose)
            await parts.enter_async_context(servers.announcing(gateway._listed))
            yield gateway

    async def reload(self, settings: GatewaySettings | None = None) -> None:
        """Read the tools of the user's providers anew, those of other settings if they are given.
        Calls under way end as they began. Raises `SettingsError` and `CatalogError`, and then
        nothing has changed.
        """
        async with self._reloading:
            if settings is not None:
                update = {name: getattr(settings, name) for name in OF_PROVIDERS}
                settings = self.settings.model_copy(update=update)
            settings = settings or self.settings
            servers = self._servers
            assert servers is not None  # noqa: S101 - of a gateway that was opened
            async with following(servers, settings):
                self._adopt(settings, await catalog_of(settings, *self._sources, servers))

    async def _listed(self) -> None:
        """Have the tools that MCP servers have listed anew."""
        async with self._reloading:
            settings = self.settings
            try:
                sources = *self._sources, self._servers, self.catalog
                self._adopt(settings, await catalog_of(settings, *sources))
            except (SettingsError, CatalogError) as error:
                log.error("the tools that MCP servers list are not taken: %s", error)
            except Exception:
                log.exception("the tools that MCP servers list are not taken")

    def _adopt(self, settings: GatewaySettings, catalog: Catalog) -> None:
        plans = plans_of(settings, catalog)
        self.settings = settings
        self.catalog.adopt(catalog)
        self.answers.hosts.plan_anew(plans)

    @property
    def snapshot_id(self) -> str | None:
        """The id of the snapshot that is replayed or has been recorded, if any."""
        return self.answers.snapshot_id

    @property
    def halted(self) -> str | None:
        """Why calls are refused at the moment, or None."""
        if self._trace is None:
            return None
        if self._trace.failure is not None:
            return f"the trace can't be written: {self._trace.failure}"
        return "the trace is written too slowly" if self._trace.blocked else None

    @contextmanager
    def observed(self, observer: Watcher) -> Iterator[Watcher]:
        """Notify `observer` of calls for as long as the context is open."""
        self._observers.append(observer)
        try:
            yield observer
        finally:
            self._observers.remove(observer)

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | bytes,
        context: CallContext = DEFAULT_CONTEXT,
    ) -> Result:
        """Answer one call, as the module docstring says; `arguments` may be JSON text."""
        started, trace = time.perf_counter(), self._trace
        if trace is not None and trace.blocked:
            return self._turn_away(tool, context)
        result = Result(tool, f"{self._call_prefix}{next(self._call_numbers):x}")
        bound, given = None, None
        try:
            try:
                bound = self._binder.bind(tool, arguments)
            except InvalidCall as refused:
                bound = await self._bind_names(tool, arguments, context.grant, refused)
            if bound.plan.transactional or context.grant is not None:
                self._check_grant(bound, context)
            now = self._passed()
            kept = self._memory.get(bound.key)
            if kept is not None and now < kept.fresh_until and context.cache is None:
                result.source = "cached" if kept.snapshot is None else "replayed"
            else:
                if (context.stand_in or self._stand_in) == "allow":
                    outcome = await self.stand_ins.obtain(bound, context)
                    result.stood = outcome.stood
                else:
                    outcome = await self.answers.obtain(bound, context)
                result.source, result.attempts = outcome.source, outcome.attempts
                result.error, result.snapshot = outcome.error, outcome.snapshot
                kept, now = outcome.kept, self._passed()
            if kept is not None:
                self._answer(result, bound, kept, now, context)
                if (
                    self._shortens
                    or context.max_tokens is not None
                    or context.max_chars is not None
                ):
                    await self._shorten(result, bound, kept, context, started)
        except InvalidCall as refused:
            result.tool = printable(tool)
            result.error, given = refused.error, refused.arguments
        except asyncio.CancelledError:
            self._cancelled(result, bound, context, started)
            raise
        except Exception:
            log.exception("call %s failed inside the gateway", result.call_id)
            message = "the gateway failed; its log has the details under the call's id"
            result.error = CallError(ErrorCode.INTERNAL, message)
        result.elapsed_ms = int((time.perf_counter() - started) * 1e6) / 1e3
        self._conclude(result, bound, given, context)
        if trace is not None and trace.full:
            await self._wait_for_room(trace, context, started)
        return result

    async def refuse(
        self, tool: str, error: CallError, context: CallContext = DEFAULT_CONTEXT
    ) -> Result:
        """Make a result and a record for a call that the API refused before it could be made."""
        started, trace = time.perf_counter(), self._trace
        if trace is not None and trace.blocked:
            return self._turn_away(tool, context)
        result = self._refused(tool, error)
        self._conclude(result, None, None, context)
        if trace is not None and trace.full:
            await self._wait_for_room(trace, context, started)
        return result

    def may_use(self, manifest: Manifest, grant: Grant | None) -> bool:
        """Whether a caller with that grant, or without one, may call the tool."""
        return (grant or self._grant).allows(manifest)

    def refusal(self, manifest: Manifest, grant: Grant | None) -> CallError | None:
        """Why a caller with that grant, or without one, may not call the tool; None if it may."""
        return (grant or self._grant).refusal(manifest)

    async def recall(self, handle: str, grant: Grant | None = None) -> Entry | CallError:
        """The whole answer behind a result's handle, for a caller that may use the tool.

        Other callers get the same refusal whether or not the answer is cached. A handle stops
        working when another answer replaces its own, so pages of two answers never mix.
        """
        parts = _HANDLE.fullmatch(handle)
        manifest = parts and self.catalog.get(parts[1])
        if parts and manifest:
            refusal = self.refusal(manifest, grant)
            if refusal is not None:
                return refusal
            if manifest.intent_type != "transactional":
                entry = await self.answers.recall(*parts.groups())
                if entry is not None:
                    return entry
        return CallError(ErrorCode.NOT_FOUND, "no kept answer has this handle")

    async def read_result(
        self,
        handle: str,
        offset: int = 0,
        limit: int = 100,
        columns: Sequence[str] | None = None,
        grant: Grant | None = None,
        *,
        where: str | None = None,
    ) -> rows.Page | CallError:
        """Rows of the whole table behind a result's handle, by the rules of `recall`.

        A negative offset counts from the end. The rows have `columns` in the given order, or all
        columns. With `where` (`gateway.tables.filter`) they are those that pass it.
        """
        entry = await self.recall(handle, grant)
        if isinstance(entry, CallError):
            return entry
        return await rows.read(handle, entry, offset, limit, columns, where)

    async def _bind_names(
        self,
        tool: str,
        arguments: Mapping[str, Any] | bytes,
        grant: Grant | None,
        refused: InvalidCall,
    ) -> BoundCall:
        """Bind a refused call anew if it names an instrument in place of its code, and its caller
        may use the tool. Raises `InvalidCall`.
        """
        manifest, allows = self.catalog.get(tool), partial(self.may_use, grant=grant)
        if manifest is None or not names_instrument(refused.error, manifest):
            raise refused
        if not allows(manifest):
            raise refused
        symbols = await self.symbols.read()
        given = orjson.loads(arguments) if isinstance(arguments, bytes) else arguments
        return bind_names(self._binder, self.catalog, symbols, tool, given, refused, allows)

    def _check_grant(self, bound: BoundCall, context: CallContext) -> None:
        refusal = self.refusal(bound.plan.manifest, context.grant)
        if refusal is not None:
            raise InvalidCall(refusal, bound.arguments)

    def _refused(self, tool: str, error: CallError) -> Result:
        """The result of a call for which nothing is done."""
        call_id = f"{self._call_prefix}{next(self._call_numbers):x}"
        return Result(printable(tool), call_id, error=error)

    def _turn_away(self, tool: str, context: CallContext) -> Result:
        text = f"{self.halted}; calls are refused until it is written again"
        error = CallError(ErrorCode.OVERLOADED, text, retry_after_s=AGAIN_S)
        result = self._refused(tool, error)
        self._ended(result, None, context)
        return result

    def _conclude(
        self,
        result: Result,
        bound: BoundCall | None,
        given: Mapping[str, Any] | None,
        context: CallContext,
    ) -> None:
        """Record the call and notify the observers. Nothing is awaited in between, so both happen
        once.
        """
        if self._trace is not None:
            try:
                self._trace.put(record_of(result, bound, given, context))
            except TraceError as fault:  # no answer goes out once recording has ended
                log.error("%s", fault)
                message = "the call could not be recorded; the gateway's log says why"
                result.view, result.error = None, CallError(ErrorCode.INTERNAL, message)
        self._ended(result, bound, context)

    async def _wait_for_room(self, trace: Trace, context: CallContext, started: float) -> None:
        """Let the caller of a recorded call wait for room in the trace, until its deadline."""
        most_s = self.settings.deadline_s
        limit_s = min(context.deadline_s or most_s, most_s)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s - (time.perf_counter() - started)):
                await trace.room()

    def _ended(self, result: Result, bound: BoundCall | None, context: CallContext) -> None:
        self.outcomes[result.error.code.value if result.error else str(result.source)] += 1
        for observer in self._observers:
            observer.ended(result, bound, context)

    def _answer(
        self, result: Result, bound: BoundCall, kept: Kept, now: float, context: CallContext
    ) -> None:
        entry, limit = kept.entry, context.max_rows or self._max_rows
        result.snapshot = kept.snapshot
        view = result.view = entry.views.get(limit) or entry.view(limit)
        result.rows, result.columns, result.upstream = entry.rows, entry.columns, entry.upstream
        result.digest, result.lied = entry.digest, entry.lied
        if view.truncated:
            result.handle = self._handle(bound, kept)
        result.aliases, result.resolved = bound.aliases, bound.resolved
        result.age_s = max(int((now - kept.since) * 1e3), 0) / 1e3
        result.fresh_s = kept.fresh_until - kept.since

    def _handle(self, bound: BoundCall, kept: Kept) -> str | None:
        """The name under which the whole answer can be read, if it is kept."""
        entry = kept.entry
        is_named = kept.stored and entry.tool
        return f"{entry.tool}.{bound.key}-{entry.version}" if is_named else None

    async def _shorten(
        self, result: Result, bound: BoundCall, kept: Kept, context: CallContext, started: float
    ) -> None:
        """Replace the answer by a text within the caller's budget, before the call's deadline."""
        settings, entry, shortener = self.settings, kept.entry, self._shortener
        if context.max_chars is not None:
            budget = budget_of(context.max_chars, "chars", settings.encoding)
        elif context.max_tokens is None and context.as_rows:
            return
        else:
            limit = context.max_tokens or settings.max_tokens or 0
            budget = budget_of(limit, "tokens", settings.encoding)
        result.view = shortener.known(entry, budget, context.question)
        if result.view is None:
            limit_s = min(context.deadline_s or math.inf, settings.deadline_s)
            left_s = limit_s - (time.perf_counter() - started)
            deadline, plan = asyncio.get_running_loop().time() + left_s, bound.plan
            try:
                result.view = await shortener.make(
                    entry, plan.manifest, budget, context.question, context.client, deadline
                )
            except TimeoutError:
                text = f"the answer could not be shortened within the call's {limit_s:g} s"
                result.error = CallError(ErrorCode.TIMEOUT, text, by="gateway")
                return
            except Shut:
                text = "the gateway is closing and starts nothing more"
                result.error = CallError(ErrorCode.OVERLOADED, text)
                return
        result.handle = self._handle(bound, kept) if result.view.truncated else None

    def _cancelled(
        self, result: Result, bound: BoundCall | None, context: CallContext, started: float
    ) -> None:
        """Record a call whose caller has gone; nothing is awaited on the way out."""
        result.elapsed_ms = int((time.perf_counter() - started) * 1e6) / 1e3
        result.error = CallError(ErrorCode.CANCELLED, "the caller went away")
        self._ended(result, bound, context)
        if self._trace is not None:
            with contextlib.suppress(TraceError):
                self._trace.put(record_of(result, bound, None, context))


def record_of(
    result: Result,
    bound: BoundCall | None,
    given: Mapping[str, Any] | None,
    context: CallContext,
) -> CallRecord:
    """`given` are the arguments of a call that did not bind. The answer of a tool that is executed
    for one caller may be secret, or name a session, so neither it nor the session has a trace.
    """
    error = result.error
    arguments, digest = bound.arguments if bound else given or {}, result.digest
    if bound is not None and bound.plan.is_for_one:
        arguments, digest = masked(arguments), None
    took_ms, view = result.elapsed_ms, result.view
    return CallRecord(  # by place: names would more than double the time that this takes
        result.call_id,
        round(time.time() - took_ms / 1e3, 3),
        result.tool,
        bound.plan.host if bound else None,
        arguments,
        error is None,
        error.code.value if error else None,
        error.fault if error else None,
        error.message if error else None,
        result.source,
        result.upstream,
        result.age_s,
        result.attempts,
        took_ms,
        result.rows,
        digest,
        4 if view is None or error else len(view.data),
        context.episode,
        context.step,
        result.lied,
        None if result.stood is None else result.stood.answered_by,
    )

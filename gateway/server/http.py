"""The HTTP server: accepts connections, answers requests, and drains without losing a call.

The number of connections, the time until a request has arrived and the time to send an answer are
bounded. When serving ends, the gateway is not ready any more, but answers new requests for
`drain_notice_s`, so that load balancers notice. Then accepted requests are answered, each
connection is told to close with its next answer, and calls still under way after `drain_s` end as
`overloaded`.
"""

import asyncio
import logging
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from socket import socket

import anyio
from aiohttp import hdrs, web
from anyio import to_thread

from gateway.access.clients import Clients
from gateway.access.guard import Guard
from gateway.api.batch import Batch
from gateway.api.front import Front
from gateway.api.health import HealthRoutes
from gateway.api.mcp_http import McpHttp
from gateway.api.openapi import OpenApi
from gateway.api.origin import well_known
from gateway.api.page import WebPage
from gateway.api.rest import Rest
from gateway.api.route import Handler, routes_of
from gateway.api.tasks import Tasks
from gateway.call import Gateway
from gateway.search.finder import PER_MINUTE, ToolFinder, embedder_limits
from gateway.server.access_log import AccessLog
from gateway.server.connection import Connection, Connections
from gateway.server.sockets import BACKLOG, bound_socket, is_loopback, queued, turn_away, url_of
from gateway.telemetry.metrics import CallMetrics, Metrics
from gateway.telemetry.server_spans import ServerSpans
from gateway.telemetry.spans import ToolSpans
from gateway.telemetry.usage import Usage
from gateway.telemetry.vitals import Vitals

log = logging.getLogger("finport")

REQUESTS = 1_000
"""Requests on one connection if several processes serve. The client must then reconnect, perhaps to
another process: otherwise a process that was started later would get no requests.
"""

LINGER_S = 0.5
"""Seconds that idle connections stay open while serving ends: a request may be on its way."""

HANDSHAKE_S = 0.2
"""Seconds for which connections are still accepted while serving ends: to their clients they are
already established.
"""

POLL_S = 0.02

NOTICE_MARGIN_S = 1.0
"""Seconds beyond `drain_notice_s` within which a supervisor must have ended a worker's notice."""

LAST_S = 2.0
"""Seconds for sending answers after the drain time."""


class Serving:
    """The HTTP API of one gateway, and its requests under way."""

    def __init__(
        self,
        gateway: Gateway,
        finder: ToolFinder,
        guard: Guard,
        metrics: Metrics,
        worker: "Worker",
        access: AccessLog | None,
        spans: ToolSpans | None,
        tasks: Tasks,
    ) -> None:
        self._is_ending = False
        self.draining = False
        """Whether connections are told to close, because serving is about to end."""
        self._leaving = asyncio.Event()
        self.in_flight = 0
        self._connections = Connections(gateway.settings.max_connections, access)
        self._access = access
        self._spans = spans
        self._gateway = gateway
        self._guard = guard
        self._worker = worker
        self._is_one_of_many = worker.workers > 1
        self._idle_s = 0.0
        rest, mcp = Rest(gateway, finder), McpHttp(gateway, finder, tasks)
        self._mcp = mcp
        health = HealthRoutes(gateway, metrics, worker.workers, lambda: self._is_ending)
        owners = (rest, Batch(gateway, self._leaving), mcp, health)
        routes = tuple(route for owner in owners for route in routes_of(owner))
        openapi = OpenApi(gateway, routes, lambda: guard.needs_keys)
        page = WebPage(gateway, finder, openapi.document)
        routes = (*routes, *routes_of(openapi))
        pages = (*page.routes(), well_known(lambda: guard.needs_keys))
        self._front = Front(guard, self._connections.without_key, rest, mcp, routes, pages)
        self._front.application.on_response_prepare.append(self._tell)

    @asynccontextmanager
    async def on(self, listening: socket) -> AsyncIterator[None]:
        """Serve on a bound socket; leaving the context drains."""
        runner = web.AppRunner(
            self._front.application,
            access_log=None,
            handler_cancellation=True,
            shutdown_timeout=LAST_S,
        )
        await runner.setup()
        server = runner.server
        assert server is not None  # noqa: S101 - it is set up
        self._routed = server.request_handler
        server.request_handler = self._observed(listening)  # type: ignore[assignment] # of Requests
        accepting = await asyncio.get_running_loop().create_server(
            partial(self._connect, server), sock=listening, backlog=BACKLOG
        )
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await self._give_notice()
                await self._drain(listening, accepting, server)
                await runner.cleanup()

    def _connect(self, server: web.Server) -> Connection:
        if self._is_one_of_many:
            time.sleep(1e-9)  # takes 50 us: other processes wake up and accept the next one
        return Connection(self._connections, server)

    def _observed(self, listening: socket) -> Handler:
        """The handler of all requests, with spans and the access log around it."""
        handler: Handler = self._handle
        if self._spans is not None:
            catalog, route_of = self._gateway.catalog, self._front.route_of
            spans = ServerSpans(self._spans, self._guard, catalog, route_of, listening)
            handler = spans.around(handler)
        return handler if self._access is None else self._access.around(handler)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        was_draining = self.draining
        self.in_flight += 1
        try:
            response = await self._front.handle(request, self._routed)
        finally:
            self.in_flight -= 1
        is_used_up = self._is_one_of_many and request.protocol._request_count >= REQUESTS
        # A client whose answer had no `Connection: close` may send another request.
        if self.draining:
            self._idle_s = 0.0
            if was_draining or not response.prepared:
                response.force_close()
        elif is_used_up and not response.prepared:
            response.force_close()
        return response

    async def _tell(self, _: web.BaseRequest, response: web.StreamResponse) -> None:
        """While draining, send `Connection: close` with every answer, also with streams."""
        if self.draining:
            response.force_close()
            response.headers[hdrs.CONNECTION] = "close"

    async def _give_notice(self) -> None:
        """Serve on, but not ready, while load balancers notice."""
        self._is_ending = True
        self._mcp.give_notice()
        notice_s = self._gateway.settings.drain_notice_s
        if not notice_s:
            return
        if self._is_one_of_many:
            notice_s += NOTICE_MARGIN_S
        with suppress(TimeoutError):
            async with asyncio.timeout(notice_s):
                await self._worker.end_notice.wait()

    async def _drain(
        self, listening: socket, accepting: asyncio.Server, server: web.Server
    ) -> None:
        loop = asyncio.get_running_loop()
        self.draining = True
        self._leaving.set()
        self._mcp.leave()
        end = loop.time() + self._gateway.settings.drain_s
        if self._worker.workers == 1:  # else other workers serve on, or the supervisor does this
            turn_away(listening)
        await self._take_in(listening)
        accepting.close()
        await asyncio.sleep(POLL_S)  # connections accepted last are set up after this
        while not self._is_over():
            if loop.time() >= end:
                await self._gateway.answers.close()
                break
            await asyncio.sleep(POLL_S)
            self._idle_s += POLL_S  # does not count time in which this process was stalled
        # Connections without a request close now, the others once their answers have been sent.
        end = max(end, loop.time()) + LAST_S
        server.pre_shutdown()
        await server.shutdown(end - loop.time())
        while self._connections.open:
            if loop.time() >= end:
                return
            await asyncio.sleep(POLL_S)

    async def _take_in(self, listening: socket) -> None:
        """Keep accepting until the queue is empty; other processes may share the queue."""
        least_s, waited_s = HANDSHAKE_S, 0.0
        if self._worker.workers == 1 and is_loopback(listening) and sys.platform == "linux":
            least_s = 0.0  # on one machine a connection is queued right after its handshake
        while waited_s < least_s or (waited_s < LAST_S and queued(listening)):
            await asyncio.sleep(POLL_S)
            waited_s += POLL_S

    def _is_over(self) -> bool:
        lingering = self._idle_s < LINGER_S
        return not self._connections.open or not (self.in_flight or lingering)


@dataclass(frozen=True, slots=True)
class Worker:
    """The place of this process among those that serve together; they share figures in `folder`.

    The supervisor, which has closed the queue of connections by then, sets `end_notice`.
    """

    index: int = 0
    workers: int = 1
    folder: Path | None = None
    end_notice: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def serve(
    gateway: Gateway,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    listening: socket | None = None,
    worker: Worker | None = None,
    spans: ToolSpans | None = None,
) -> AsyncIterator[str]:
    """Serve the whole API over HTTP and yield the base URL. Leaving the context drains.

    Port 0 takes a free port. `listening` is a bound socket to serve on in place of `host` and
    `port`. With `spans`, which observe the gateway, requests have spans too. Raises `OSError`, and
    `SettingsError` for clients that can't be read.
    """
    worker = worker or Worker()
    async with AsyncExitStack() as parts:
        if listening is None:
            listening = await to_thread.run_sync(bound_socket, host, port)
        parts.enter_context(listening)
        vitals = await parts.enter_async_context(Vitals.watch())
        store = gateway.answers.store
        opened = Clients.open(
            gateway.settings, workers=worker.workers, store=store, clock=gateway.answers.clock
        )
        clients = await parts.enter_async_context(opened)
        calls = parts.enter_context(gateway.observed(CallMetrics(clients.name_of)))
        if gateway.settings.usage:
            await parts.enter_async_context(Usage.open(gateway, clients.name_of))
        shared = Metrics.open(gateway, vitals, calls, worker.folder, worker.index)
        metrics = await parts.enter_async_context(shared)
        guard = Guard(gateway.settings, clients)
        if gateway.settings.metrics_key is not None and not guard.needs_keys:
            log.warning("metrics_key closes nothing: while no client has a key, anyone may call")
        limits = embedder_limits(None if guard.needs_keys else PER_MINUTE)
        finder = ToolFinder.of(gateway.catalog, gateway.settings, limits)
        await parts.enter_async_context(aclosing(finder))
        access = None
        if gateway.settings.access_log:
            access = parts.enter_context(AccessLog.open(guard, gateway.catalog))
        tasks = await parts.enter_async_context(Tasks.open(gateway))
        serving = Serving(gateway, finder, guard, metrics, worker, access, spans, tasks)
        await parts.enter_async_context(serving.on(listening))
        yield url_of(listening)

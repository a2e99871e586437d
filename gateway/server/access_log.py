"""The access log: writes one line per request once its answer has been sent.

No header and no query is written. Path segments of 16 characters or more are hidden unless they are
a tool's name, because they may be keys. Requests of callers without access are logged up to a
bound; the number left out is logged. A request whose client disconnected before its answer has
status 499, as in nginx.
"""

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from gateway.access.guard import Guard
from gateway.api.route import CALLER, Handler
from gateway.telemetry.logs import ACCESS, LONG, shown_path
from manifests import Catalog

log = logging.getLogger(ACCESS)

_BEGAN = web.RequestKey("began", float)
"""The time at which the head of a request had arrived, by `time.perf_counter`."""

UNKNOWN, WINDOW_S = 100, 10.0
"""At most this many requests of callers without access are logged in this many seconds."""

CLIENT_WENT = 499


class AccessLog:
    """Writes the lines of the log. Made by `AccessLog.open`."""

    def __init__(self, guard: Guard, catalog: Catalog) -> None:
        self._guard = guard
        self._catalog = catalog
        self._written = 0
        self._left_out = 0
        self._window: asyncio.TimerHandle | None = None

    @classmethod
    @contextmanager
    def open(cls, guard: Guard, catalog: Catalog) -> Iterator["AccessLog"]:
        access = cls(guard, catalog)
        try:
            yield access
        finally:
            if access._window is not None:
                access._window.cancel()
                access._end_window()

    def around(self, handler: Handler) -> Handler:
        """The same handler, whose requests are logged."""

        async def logged(request: web.Request) -> web.StreamResponse:
            request[_BEGAN] = time.perf_counter()
            try:
                return await handler(request)
            except BaseException as error:
                if is_lost(error) or isinstance(error, asyncio.CancelledError):
                    self.answered(request, CLIENT_WENT, 0)
                raise

        return logged

    def answered(self, request: web.BaseRequest, status: int, size: int) -> None:
        """Log an answer of `size` bytes, including its head, that has been sent."""
        now = time.perf_counter()  # the event loop's clock has only whole milliseconds
        caller, headers = request.get(CALLER), request.headers  # none if it was not valid HTTP
        is_known = caller or (headers and self._guard.may_read_figures(headers))
        if not (is_known or self._has_room()):
            return
        client = None if caller is None else caller.client
        fields = {
            "remote": request.remote or "-",
            "client": "-" if client is None else client.name,
            "method": request.method[:LONG],
            "path": shown_path(request.raw_path, self._catalog),
            "status": status,
            "bytes": size,
            "ms": round((now - request.get(_BEGAN, now)) * 1e3, 3),
        }
        log.info('%s %s "%s %s" %d %d %.3f', *fields.values(), extra={"fields": fields})

    def _has_room(self) -> bool:
        if self._window is None:
            self._window = asyncio.get_running_loop().call_later(WINDOW_S, self._end_window)
        self._written += 1
        if self._written > UNKNOWN:
            self._left_out += 1
        return self._written <= UNKNOWN

    def _end_window(self) -> None:
        if self._left_out:
            text = "%d requests of callers who may not call were left out of the access log"
            log.warning(text, self._left_out)
        self._written, self._left_out, self._window = 0, 0, None


def is_lost(error: BaseException | None) -> bool:
    """Whether an error means a lost connection; in a group of errors, whether all of them do."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_lost, error.exceptions))
    return isinstance(error, ConnectionError)

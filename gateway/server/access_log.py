"""The access log: one line a request, when its answer has left.

No header and no query is written. Parts of a path of 16 characters or more are hidden, since they
may be keys, unless they are a tool's name. Requests of those who may not call are written up to a
bound; how many were left out is said. A request whose client went away before its answer has status
499, as nginx says.
"""

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from gateway.access.guard import Guard
from gateway.access.rejection import RequestRejected
from gateway.telemetry.logs import ACCESS
from gateway.telemetry.request_path import LONG, shown_path
from manifests import Catalog

log = logging.getLogger(ACCESS)

BEGAN = web.RequestKey("began", float)
"""When the head of a request had come, by `time.perf_counter`."""

STRANGERS, WINDOW_S = 100, 10.0
"""So many requests of those who may not call are written in so many seconds."""

CLIENT_WENT = 499


class AccessLog:
    """Writes the lines. Made by `AccessLog.open`."""

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

    def answered(self, request: web.BaseRequest, status: int, size: int) -> None:
        """An answer of `size` bytes, its head included, has left."""
        now = time.perf_counter()  # the loop's own clock has whole milliseconds
        client, is_stranger = self._client(request)
        if is_stranger and not self._has_room():
            return
        fields = {
            "remote": request.remote or "-",
            "client": client,
            "method": request.method[:LONG],
            "path": shown_path(request.raw_path, self._catalog),
            "status": status,
            "bytes": size,
            "ms": round((now - request.get(BEGAN, now)) * 1e3, 3),
        }
        log.info('%s %s "%s %s" %d %d %.3f', *fields.values(), extra={"fields": fields})

    def _client(self, request: web.BaseRequest) -> tuple[str, bool]:
        """The name of the client's key, and whether it is one of those who may not call."""
        headers = request.headers
        if not headers:  # what is no HTTP has none
            return "-", True
        try:
            self._guard.check_site(headers)
            client = self._guard.caller(headers).client
        except RequestRejected:
            return "-", not self._guard.may_read_figures(headers)
        return "-" if client is None else client.name, False

    def _has_room(self) -> bool:
        if self._window is None:
            self._window = asyncio.get_running_loop().call_later(WINDOW_S, self._end_window)
        self._written += 1
        if self._written > STRANGERS:
            self._left_out += 1
        return self._written <= STRANGERS

    def _end_window(self) -> None:
        if self._left_out:
            text = "%d requests of callers who may not call were left out of the access log"
            log.warning(text, self._left_out)
        self._written, self._left_out, self._window = 0, 0, None

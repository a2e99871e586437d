"""aiohttp's connector with two things that aiohttp lacks: a bound on the heads that answer one
request, and a word on whether its connection had been kept.

An upstream may send informational responses (1xx) before its answer, and nothing says how many. One
that sends them for ever would hold the event loop, so after `MOST_HEADS` its connection is closed.
"""

import asyncio
from contextvars import ContextVar
from functools import partial
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http_exceptions import BadHttpMessage
from aiohttp.tracing import Trace

IS_KEPT: ContextVar[bool] = ContextVar("is_kept")
"""Whether the last request that was made in this context went out on a connection that had carried
another. aiohttp's own way to tell, a trace, costs 7 to 14 us a request.
"""

MOST_HEADS = 20

_STEP = 2**14
"""Bytes parsed between two looks at the count: 2 ms, if they are nothing but heads."""


class Connector(aiohttp.TCPConnector):
    """For as many connections as are wanted: limits stand elsewhere."""

    def __init__(self, *, force_close: bool = False) -> None:
        super().__init__(limit=0, force_close=force_close)
        protocol: type[ResponseHandler] = _Protocol
        self._factory = partial(protocol, loop=self._loop)

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's signature
    ) -> Connection:
        IS_KEPT.set(False)
        connection = await super().connect(req, traces, timeout)
        protocol = connection.protocol
        IS_KEPT.set(isinstance(protocol, _Protocol) and protocol.is_used)
        return connection


class _Protocol(ResponseHandler):
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._heads = 0
        self.is_used = False

    def set_response_params(self, **params: Any) -> None:
        self._heads = 0
        self.is_used = True
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        for at in range(0, len(data) or 1, _STEP):
            if self.exception() is None:
                super().data_received(data[at : at + _STEP])

    def feed_data(self, data: Any, size: int = 0) -> None:
        self._heads += 1
        if self._heads <= MOST_HEADS:
            super().feed_data(data, size)
        elif self.exception() is None:
            self.set_exception(BadHttpMessage("too many heads"))
            if self.transport is not None:
                self.transport.close()

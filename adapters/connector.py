"""aiohttp's connector with a bound that aiohttp lacks: on the heads that answer one request.

An upstream may send informational responses (1xx) before its answer, and nothing says how many. One
that sends them for ever would hold the event loop, so after `MOST_HEADS` its connection is closed.
"""

import asyncio
from functools import partial
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import BadHttpMessage

MOST_HEADS = 20

_STEP = 2**14
"""Bytes parsed between two looks at the count: 2 ms, if they are nothing but heads."""


class Connector(aiohttp.TCPConnector):
    """For as many connections as are wanted: limits stand elsewhere."""

    def __init__(self, *, force_close: bool = False) -> None:
        super().__init__(limit=0, force_close=force_close)
        protocol: type[ResponseHandler] = _Protocol
        self._factory = partial(protocol, loop=self._loop)


class _Protocol(ResponseHandler):
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._heads = 0

    def set_response_params(self, **params: Any) -> None:
        self._heads = 0
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

"""aiohttp's connector with a bound on heads per request and a flag for reused connections.

An upstream may send any number of informational responses (1xx) before its answer. An endless
sequence would block the event loop, so the connection is closed after `MOST_HEADS` heads.

A guarded connector connects to no address of a private network on behalf of a public name: its
owner may give it any address. The addresses that are checked are those that are connected to.
"""

import asyncio
import socket
from contextvars import ContextVar
from functools import partial
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http_exceptions import BadHttpMessage
from aiohttp.resolver import DefaultResolver
from aiohttp.tracing import Trace

from manifests.common.addresses import is_public_address, is_public_name

IS_KEPT: ContextVar[bool] = ContextVar("is_kept")
"""Whether the last request in this context was sent on a connection that had carried another.
aiohttp's own means, a trace, costs 7 to 14 us per request.
"""

MOST_HEADS = 20

_STEP = 2**14
"""Bytes parsed between two checks of the count: 2 ms if they hold only heads."""


class PrivateAddressError(OSError):
    """A public name has an address that is not public."""


class GuardedResolver(AbstractResolver):
    """Resolves names, and refuses a public one that has an address of a private network."""

    def __init__(self) -> None:
        self._inner = DefaultResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._inner.resolve(host, port, family)
        if is_public_name(host) and not all(is_public_address(one["host"]) for one in found):
            raise PrivateAddressError(f"{host} has an address that is not public")
        return found

    async def close(self) -> None:
        await self._inner.close()


class Connector(aiohttp.TCPConnector):
    """A connector without a limit on connections; the gateway limits requests per host."""

    def __init__(self, *, force_close: bool = False, guarded: bool = False) -> None:
        resolver = GuardedResolver() if guarded else None
        super().__init__(limit=0, force_close=force_close, resolver=resolver)
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

"""The gateway through which agents reach the tools: one at a URL, or one of our own."""

import asyncio
import atexit
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any
from urllib.parse import urlencode

from anyio import to_thread

from bench.client import HttpClient, ToolClient
from bench.environment import GATEWAY_KEY
from bench.processes import ServerNotReadyError, gateway
from finport import CallContext, Result, Suite, SuiteError

END_S = 10.0
"""Seconds for the end of a gateway of our own."""


class OwnGateway:
    """`finport serve` in a process of its own, until this process ends. Raises
    `ServerNotReadyError`.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._url: str | None = None
        self._problem: Exception | None = None
        self._is_ready = Event()
        self._over: Callable[[], object] = lambda: None
        self._thread = Thread(target=self._serve, name="finport-gateway", daemon=True)
        self._thread.start()
        self._is_ready.wait()
        if self._url is None:
            raise ServerNotReadyError(str(self._problem)) from self._problem
        atexit.register(self.end)
        self.url = self._url

    def _serve(self) -> None:
        with suppress(Exception):
            asyncio.run(self._hold())
        self._is_ready.set()

    async def _hold(self) -> None:
        try:
            with tempfile.TemporaryDirectory(prefix="finport-inspect-") as folder:
                async with gateway(Path(folder), quiet=True, **self._settings) as server:
                    loop, over = asyncio.get_running_loop(), asyncio.Event()
                    self._over = lambda: loop.call_soon_threadsafe(over.set)
                    self._url = server.url
                    self._is_ready.set()
                    await over.wait()
        except Exception as error:
            self._problem = error
            raise

    def end(self) -> None:
        self._over()
        self._thread.join(END_S)


_OWN: dict[str, OwnGateway] = {}
_ONE_STARTS = Lock()


def own_gateway(suite: Suite) -> str:
    """The URL of the gateway of our own whose answers are those of the suite; it is started if
    there is none. It reaches no real upstream. Raises `ServerNotReadyError`.
    """
    settings = {"upstream": "simulated", **suite.gateway_settings}
    if market := settings.get("market"):
        settings["market"] = Path(market).absolute()
    name = repr(sorted(settings.items()))
    with _ONE_STARTS:
        if name not in _OWN:
            _OWN[name] = OwnGateway(settings)
        return _OWN[name].url


class Untraced:
    """A trace that keeps nothing: Inspect's log has the calls."""

    failure: str | None = None
    full = blocked = False

    def put(self, record: object) -> None: ...

    async def room(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Rows:
    """A client whose calls return at most so many rows."""

    client: ToolClient
    most: int

    async def call(self, tool: str, arguments: Mapping[str, Any], context: CallContext) -> Result:
        return await self.client.call(tool, arguments, replace(context, max_rows=self.most))


class Reaching:
    """How a task's agents reach their tools."""

    def __init__(
        self,
        suite: Suite,
        url: str | None = None,
        key_variable: str | None = None,
        max_rows: int | None = None,
    ) -> None:
        self._suite, self._url, self._max_rows = suite, url, max_rows
        self._is_checked = False
        self._key = os.environ.get(key_variable or GATEWAY_KEY, "").strip() if url else ""
        if key_variable is not None and url is None:
            raise SuiteError("key_variable is for the gateway at `url`, and there is no `url`")
        if key_variable is not None and not self._key:
            raise SuiteError(f"key_variable: the variable {key_variable} has no key")
        if max_rows is not None and max_rows < 1:
            raise SuiteError(f"max_rows must be 1 or more, not {max_rows}")

    @property
    def headers(self) -> dict[str, str]:
        return {} if not self._key else {"Authorization": f"Bearer {self._key}"}

    async def url(self) -> str:
        """The gateway's URL. Raises `ServerNotReadyError`, `GatewayUnreachableError`, and
        `SuiteError` if the gateway answers about something else than the tasks.
        """
        if self._url is None:
            return await to_thread.run_sync(own_gateway, self._suite)
        if not self._is_checked and self._suite.gateway_health:
            async with HttpClient.open(self._url, Untraced(), self._key) as client:
                health = await client.health()
            self._suite.check_gateway(health)
        self._is_checked = True
        return self._url.rstrip("/")

    async def mcp_url(self, tools: list[str]) -> str:
        """The MCP endpoint that offers these tools, or tools that find others if there are none."""
        options: dict[str, Any] = {"output_schema": "none"}
        if tools:
            options["tools"] = f"names:{','.join(tools)}"
        if self._max_rows is not None:
            options["max_rows"] = self._max_rows
        return f"{await self.url()}/mcp?{urlencode(options, safe=':,')}"

    @asynccontextmanager
    async def client(self) -> AsyncIterator[ToolClient]:
        async with HttpClient.open(await self.url(), Untraced(), self._key) as client:
            yield client if self._max_rows is None else _Rows(client, self._max_rows)

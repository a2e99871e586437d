"""The gateway through which agents reach the tools: one at a URL, or one of our own."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from bench.client import HttpClient, ToolClient, Untraced
from bench.environment import GATEWAY_KEY
from bench.own_gateway import own_gateway
from finport import CallContext, Result, Suite, SuiteError


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
        """The gateway's URL. Raises `TimeoutError`, `ServerNotReadyError`,
        `GatewayUnreachableError`, and `SuiteError` if the gateway answers about something else than
        the tasks.
        """
        if self._url is None:
            return await own_gateway(self._suite).url()
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

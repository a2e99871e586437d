"""One connection to an MCP server by the official SDK: its tools, its calls, its end and return.

This module and its transports import the SDK, so it is imported only where a provider needs it.
"""

import asyncio
import base64
import binascii
import logging
import random
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Final, Literal

import anyio
import httpx2
import mcp_types as types
import orjson
from mcp.client import Client
from mcp.client._transport import TransportStreams
from mcp.client.extension import advertise
from mcp.client.session import ClientSession, IncomingMessage
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from adapters.fault import UpstreamFault, fit_for_message
from adapters.mcp.errors import breaks, ends_session, fault_of
from adapters.mcp.http import Transport
from adapters.mcp.stdio import open_program
from adapters.normalise import MAX_BYTES
from manifests.common.credentials import names_credential
from manifests.common.text import words_of
from manifests.mcp_listing import MAX_NAME, Listing
from manifests.providers import ProviderSettings

log = logging.getLogger("finport")

LIST_S: Final = 10.0
"""Time to connect and to list all tools."""

PROBE_S: Final = 5.0
"""Time to list the tools after a call was not answered; else the connection is made anew."""

MAX_TOOLS: Final = 10_000
MAX_LISTING: Final = 8 * 2**20
_DEBOUNCE_S: Final = 0.2
_BACKOFF_S, _LONGEST_BACKOFF_S = 0.25, 30.0
_WANTED_S: Final = 1.0
_STEADY_S: Final = 60.0
"""After so long a connection counts as good, and the next is made at once if it ends."""

_EARLY_S: Final = 0.1
_SECRET_LENGTH: Final = 12
"""Characters from which on a text of a variable counts as a secret, whatever the variable's name.
"""

_POLL_S: Final = (0.05, 5.0)
_TASKS: Final = "io.modelcontextprotocol/tasks"
_RAW: TypeAdapter[Any] = TypeAdapter(dict[str, Any])

# Their lines quote servers, and each request would be one.
for _name in ("mcp.client", "mcp.shared", "client", "httpx2"):
    if logging.getLogger(_name).level == logging.NOTSET:
        logging.getLogger(_name).setLevel(logging.CRITICAL)


class _Unusable(Exception):
    """A connection is of no use; the text says why."""


class _TaskParams(types.RequestParams):
    task_id: str


class _GetTask(types.Request[_TaskParams, Literal["tasks/get"]]):
    name_param = "taskId"
    method: Literal["tasks/get"] = "tasks/get"
    params: _TaskParams


class _CancelTask(types.Request[_TaskParams, Literal["tasks/cancel"]]):
    name_param = "taskId"
    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: _TaskParams


class Connection:
    """Connects until it is closed. `on_listing` is told each listing that differs."""

    def __init__(
        self,
        name: str,
        provider: ProviderSettings,
        server: str,
        variables: Mapping[str, str],
        timeout_s: float,
        on_listing: Callable[[Listing], None],
    ) -> None:
        self._name = name
        self._provider = provider
        self._server = server
        self._variables = variables
        self.secrets = _secrets_of(provider, variables)
        """The texts that may come back from the server and must not go on."""
        self._timeout_s = timeout_s
        self._on_listing = on_listing
        self._listing: Listing | None = None
        self._session: ClientSession | None = None
        self.trouble = "it was not reached yet"
        self.is_reached = False
        """Whether the last attempt to reach the server went well."""
        self._woken = asyncio.Event()
        self._wanted = asyncio.Event()
        self._suspected = self._has_ended = self._closing = False
        self._calls, self._heard_at = 0, 0.0
        self._leaving: set[asyncio.Task[None]] = set()
        self.tried = asyncio.Event()
        """Is set once the server was reached, or not."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """End the connection, and the program that serves it."""
        self._closing = True
        for task in [*self._leaving, self._task]:
            task.cancel()
        await asyncio.gather(*self._leaving, self._task, return_exceptions=True)

    async def call(
        self, tool: str, arguments: Mapping[str, Any], timeout_s: float
    ) -> dict[str, Any]:
        """The result as the server sent it. Raises `UpstreamFault`."""
        session = self._session
        if session is None:
            self._wanted.set()
            text = f"the MCP server {self._name} is not reached: {self.trouble}"
            raise UpstreamFault("unreachable", text, retryable=True)
        params = types.CallToolRequestParams(name=tool, arguments={**arguments})
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._calls += 1
        try:
            async with asyncio.timeout(timeout_s):
                result: dict[str, Any] = await session.send_request(
                    types.CallToolRequest(params=params), _RAW
                )
                if result.get("resultType") == "task":
                    result = await self._of_task(session, result)
                self._heard_at = loop.time()
                return result
        except MCPError as error:
            if breaks(error.code, error.message) and session is self._session:
                self._has_ended = ends_session(error.code, error.message)
                self._suspect()
            raise fault_of(error.code, error.message, error.data, self.secrets) from None
        except ValidationError:
            raise UpstreamFault("invalid", "the server's result is none of MCP's") from None
        except TimeoutError:
            self._suspect()
            text = f"the MCP server {self._name} did not answer within {timeout_s:.3g} s"
            raise UpstreamFault("timeout", text, retryable=True) from None
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, RuntimeError):
            text = f"the connection to the MCP server {self._name} has ended"
            raise UpstreamFault("unreachable", text, retryable=True) from None
        except asyncio.CancelledError:
            if loop.time() - began > timeout_s - _EARLY_S:  # its caller measures the same time
                self._suspect()
            raise
        finally:
            self._calls -= 1

    async def _of_task(self, session: ClientSession, task: dict[str, Any]) -> dict[str, Any]:
        """The result of the task with which the server answered, cancelled if its caller leaves.

        Raises `UpstreamFault`.
        """
        id_ = task.get("taskId")
        if not isinstance(id_, str):
            raise UpstreamFault("invalid", "the server answered with a task without an id")
        params, is_over = _TaskParams(task_id=id_), False
        try:
            while (status := task.get("status")) == "working":
                told = task.get("pollIntervalMs")
                wait_s = told / 1e3 if isinstance(told, int | float) else 1.0
                await asyncio.sleep(min(max(wait_s, _POLL_S[0]), _POLL_S[1]))
                task = await session.send_request(_GetTask(params=params), _RAW)
            is_over = status in ("completed", "failed", "cancelled")
        finally:
            if not is_over:
                leaving = asyncio.create_task(self._cancel(session, params))
                self._leaving.add(leaving)
                leaving.add_done_callback(self._leaving.discard)
        if status == "completed" and isinstance(task.get("result"), dict):
            result: dict[str, Any] = task["result"]
            return result
        if status == "failed" and isinstance(error := task.get("error"), dict):
            code = error.get("code")
            code = code if isinstance(code, int) else 0
            raise fault_of(code, str(error.get("message")), None, self.secrets)
        raise UpstreamFault("rejected", f"the server's task is {words_of(str(status), 40)}")

    async def _cancel(self, session: ClientSession, params: _TaskParams) -> None:
        with suppress(MCPError, ValidationError, TimeoutError):  # else it ends by its own time
            async with asyncio.timeout(PROBE_S):
                await session.send_request(_CancelTask(params=params), _RAW)

    def _suspect(self) -> None:
        """Have the server asked whether it still answers."""
        self._suspected = True
        self._woken.set()

    async def _run(self) -> None:
        loop, backoff_s = asyncio.get_running_loop(), 0.0
        while not self._closing:
            began = loop.time()
            try:
                await self._connected()
            except Exception as error:  # noqa: BLE001 - of the SDK, in groups of any depth
                trouble = _said(error, self.secrets)
                if self.is_reached or trouble != self.trouble:
                    log.warning("MCP server %s: %s", self._name, trouble)
                self.trouble, self.is_reached = trouble, False
            finally:
                self._session = None
                self.tried.set()
            steady = loop.time() - began > _STEADY_S
            backoff_s = 0.0 if steady else min(max(2 * backoff_s, _BACKOFF_S), _LONGEST_BACKOFF_S)
            await self._rest(backoff_s * random.uniform(0.5, 1.0))  # noqa: S311 - jitter

    async def _rest(self, rest_s: float) -> None:
        """Wait before the server is tried again; a call that wants it shortens the wait."""
        least_s = min(rest_s, _WANTED_S)
        await asyncio.sleep(least_s)
        self._wanted.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(rest_s - least_s):
                await self._wanted.wait()

    async def _connected(self) -> None:
        """Connect, list, and go on until the connection has ended, which raises."""
        self._suspected = self._has_ended = False
        self._woken.clear()
        async with asyncio.timeout(LIST_S) as limit:
            client = Client(
                self._transport(),
                client_info=types.Implementation(name="finport", version="1"),
                message_handler=self._heard,
                extensions=[advertise(_TASKS)],
                cache=None,
            )
            async with client:
                await self._list(client)
                limit.reschedule(None)
                self._session, self.is_reached = client.session, True
                log.info("MCP server %s is reached", self._name)
                self.tried.set()
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._listen, client)
                    await self._watch(client)

    async def _watch(self, client: Client) -> None:
        """List anew whenever the tools may have changed, or the server may have ended."""
        while True:
            await self._woken.wait()
            if self._has_ended:
                raise _Unusable("the server has ended the session")
            if not self._suspected:
                await asyncio.sleep(_DEBOUNCE_S)
            self._woken.clear()
            suspected, self._suspected = self._suspected, False
            try:
                async with asyncio.timeout(PROBE_S if suspected else LIST_S):
                    await self._list(client)
            except TimeoutError:
                silent_s = asyncio.get_running_loop().time() - self._heard_at
                if not self._calls or silent_s > self._timeout_s:
                    raise
                self._suspect()  # it may do one call after the other

    async def _listen(self, client: Client) -> None:
        """Hear of changes from a server of protocol 2026-07-28."""
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return  # it tells them unasked
        tools = client.server_capabilities.tools
        if tools is None or not tools.list_changed:
            return
        while True:
            try:
                async with client.listen(tools_list_changed=True) as changes:
                    async for _ in changes:
                        self._woken.set()
            except SubscriptionLost:
                self._suspect()
            except (ListenNotSupportedError, MCPError):
                return
            await asyncio.sleep(1.0)

    async def _heard(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._woken.set()

    async def _list(self, client: Client) -> None:
        """List all tools. Raises `_Unusable`."""
        tools, size, cursors, cursor = list[dict[str, Any]](), 0, set[str](), None
        while True:
            params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
            page = await client.session.list_tools(params=params)
            for tool in page.tools:
                entry = tool.model_dump(by_alias=True, exclude_none=True, mode="json")
                try:
                    size += len(orjson.dumps(entry))
                except TypeError:  # of a number over 64 bits; the tool is left out by its name
                    entry = {"name": words_of(tool.name, MAX_NAME)}
                tools.append(entry)
            if len(tools) > MAX_TOOLS or size > MAX_LISTING or len(cursors) > MAX_TOOLS:
                raise _Unusable(f"it lists over {MAX_TOOLS} tools or {MAX_LISTING} bytes")
            cursor = page.next_cursor
            if not cursor:
                break
            if cursor in cursors:
                raise _Unusable("its list of tools does not end: a cursor came twice")
            cursors.add(cursor)
        info = client.server_info
        named = f"{info.name} {info.version}" if info else self._server
        self._heard_at = asyncio.get_running_loop().time()
        listing = Listing(self._server, f"mcp {words_of(named, 100)}", tuple(tools))
        if listing != self._listing:
            self._listing = listing
            self._on_listing(listing)

    def _transport(self) -> AbstractAsyncContextManager[TransportStreams]:
        if self._provider.mcp is not None:
            return self._over_http(self._provider.mcp)
        return open_program(
            self._name,
            self._provider.command or (),
            self._variables,
            self.secrets,
            self._suspect,
        )

    @asynccontextmanager
    async def _over_http(self, url: str) -> AsyncIterator[TransportStreams]:
        transport = Transport(
            allow_private=self._provider.allow_private, silence_s=self._timeout_s + PROBE_S
        )
        headers = {"Accept-Encoding": "identity", **self._variables}
        async with (
            httpx2.AsyncClient(
                transport=transport, headers=headers, trust_env=False, follow_redirects=False
            ) as client,
            streamable_http_client(
                url, http_client=client, max_sse_event_size=MAX_BYTES + 2**16
            ) as streams,
        ):
            yield streams


def _said(error: BaseException, secrets: list[str]) -> str:
    """What ended a connection, in words without an address or a secret."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    match error:
        case TimeoutError():
            return "it did not answer in time"
        case MCPError():
            return fault_of(error.code, error.message, error.data, secrets).message
        case _Unusable():
            return str(error)
        case ValidationError():
            return "its list of tools is none of MCP's"
        case OSError():
            return f"it can't be started: {error.strerror or type(error).__name__}"
    return fit_for_message(f"{type(error).__name__}", secrets)


def _secrets_of(provider: ProviderSettings, variables: Mapping[str, str]) -> list[str]:
    """The texts to mask. Each header is a secret. A program also gets plain words such as `info`,
    which would be masked in any answer: of its variables those count that are named like a
    credential, and long texts.
    """
    found = dict[str, None]()
    for name, value in variables.items():
        is_secret = provider.mcp is not None or names_credential(name)
        least = 1 if is_secret else _SECRET_LENGTH
        found |= dict.fromkeys(form for form in _forms(value) if len(form) >= least)
    return [*found]


def _forms(value: str) -> Iterator[str]:
    """The whole value, what follows a scheme as in `Bearer TOKEN`, and what Basic encodes."""
    scheme, _, credential = value.strip().partition(" ")
    credential = credential.strip()
    yield from (value, value.strip(), credential)
    if scheme.lower() == "basic":
        try:
            pair = base64.b64decode(credential, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return
        yield from (pair, pair.partition(":")[2])

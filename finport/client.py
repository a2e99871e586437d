"""A client for scripts and notebooks: one gateway, in this process or at a URL.

`connect` gives a synchronous client, which also works where an event loop is running already, as in
a notebook: its gateway lives on an event loop of its own, in a thread. `connect_async` gives the
same with coroutines.
"""

import asyncio
import inspect
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from os import PathLike
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote
from weakref import finalize

from bench.client import HttpClient, Untraced
from gateway.call import Gateway
from gateway.context import CallContext
from gateway.result import Result
from gateway.search.finder import ToolFinder
from gateway.settings import GatewaySettings
from manifests.manifest import Manifest
from manifests.signature import Signature

ALL: Final = 2**31
"""More rows than a table has: who calls from Python wants all of them."""

LISTED: Final = 1000
"""Tools on a page of a server's list."""

T = TypeVar("T")

_KINDS: Final = {"string": str, "number": float, "integer": int, "boolean": bool}


@dataclass(frozen=True, slots=True)
class FoundTool:
    """A tool that a search found."""

    name: str
    description: str
    source: str
    provider: str


class AsyncClient(ABC):
    """Calls tools of one gateway. Made by `connect_async`."""

    async def call(
        self,
        tool: str,
        /,
        *,
        max_rows: int | None = None,
        timeout_s: float | None = None,
        **given: Any,
    ) -> Result:
        """Call a tool with its arguments by name. The result, an answer or an error, has all rows
        unless `max_rows` is given; nothing that the tool or its upstream does raises an exception.
        A tool with an argument of one of these names is called by `call_with`.
        """
        return await self.call_with(tool, given, max_rows=max_rows, timeout_s=timeout_s)

    async def call_with(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        max_rows: int | None = None,
        timeout_s: float | None = None,
    ) -> Result:
        """As `call`, with the arguments as a mapping."""
        context = CallContext(timeout_s, ALL if max_rows is None else max_rows)
        return await self._call(tool, arguments, context)

    @abstractmethod
    async def search(self, query: str, limit: int = 10, **tags: str) -> list[FoundTool]:
        """The tools that fit a question, in English or Chinese, the best first. `tags` are
        `source`, `domain`, `timeliness`, `intent` and `provider`.
        """

    @abstractmethod
    async def names(self) -> list[str]:
        """The names of all tools."""

    async def manifest(self, tool: str) -> Manifest:
        """All that is known about a tool. Raises `LookupError`."""
        found = await self._manifest(tool)
        if found is None:
            raise LookupError(f"no tool is named {tool!r}")
        return found

    @abstractmethod
    async def _call(
        self, tool: str, arguments: Mapping[str, Any], context: CallContext
    ) -> Result: ...

    @abstractmethod
    async def _manifest(self, name: str) -> Manifest | None: ...


@asynccontextmanager
async def connect_async(
    url: str | None = None, *, key: str | None = None, **settings: Any
) -> AsyncIterator[AsyncClient]:
    """A client of the gateway at `url`, or of one in this process with these settings beside those
    of environment and file. `key` is the client's key at a server. Among `tools` may be functions
    as well as files of them.

    Raises `SettingsError`, `CatalogError`, and `GatewayUnreachableError` for a URL where no gateway
    answers.
    """
    async with AsyncExitStack() as stack:
        if url is None:
            functions, settings = _functions(settings)
            gateway = await stack.enter_async_context(
                Gateway.open(GatewaySettings.read(**settings), tools=functions)
            )
            finder = ToolFinder.of(gateway.catalog, gateway.settings)
            stack.push_async_callback(finder.aclose)
            yield _Embedded(gateway, finder)
            return
        if settings:
            names = ", ".join(settings)
            raise TypeError(f"{names}: only a gateway in this process takes settings")
        http = await stack.enter_async_context(HttpClient.open(url, Untraced(), key))
        await http.health()
        yield _Remote(http)


def _functions(
    settings: dict[str, Any],
) -> tuple[list[Callable[..., Any]], dict[str, Any]]:
    """The functions among the tools in settings, and the settings without them."""
    given = settings.get("tools")
    if callable(given):
        given = [given]
    if given is None or isinstance(given, str | PathLike):
        return [], settings
    given = [*given]
    functions = [tool for tool in given if callable(tool)]
    files = [tool for tool in given if not callable(tool)]
    rest = {name: value for name, value in settings.items() if name != "tools"}
    return functions, rest if functions and not files else {**rest, "tools": files}


class Client:
    """Calls tools of one gateway and waits for their answers. Made by `connect`; as a context it
    closes at its end, else with the process.
    """

    def __init__(self, opened: Callable[[], Any]) -> None:
        self._loop = _Loop()
        self._stack = AsyncExitStack()
        try:
            self._client: AsyncClient = self._loop.run(self._stack.enter_async_context(opened()))
        except BaseException:
            self._loop.stop()
            raise
        self._close = finalize(self, _closed, self._loop, self._stack)

    def call(
        self,
        tool: str,
        /,
        *,
        max_rows: int | None = None,
        timeout_s: float | None = None,
        **given: Any,
    ) -> Result:
        """As `AsyncClient.call`."""
        return self.call_with(tool, given, max_rows=max_rows, timeout_s=timeout_s)

    def call_with(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        max_rows: int | None = None,
        timeout_s: float | None = None,
    ) -> Result:
        """As `AsyncClient.call_with`."""
        asked = self._client.call_with(tool, arguments, max_rows=max_rows, timeout_s=timeout_s)
        return self._loop.run(asked)

    def search(self, query: str, limit: int = 10, **tags: str) -> list[FoundTool]:
        """As `AsyncClient.search`."""
        return self._loop.run(self._client.search(query, limit, **tags))

    def manifest(self, tool: str) -> Manifest:
        """As `AsyncClient.manifest`."""
        return self._loop.run(self._client.manifest(tool))

    @property
    def tools(self) -> "Tools":
        """The tools as functions: `client.tools.get_coin(uuid="Qwsogvtv82FCd")`."""
        return Tools(self)

    def names(self) -> list[str]:
        """As `AsyncClient.names`."""
        return self._loop.run(self._client.names())

    def close(self) -> None:
        """End the gateway in this process, or the connections to a server."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "open" if self._close.alive else "closed"
        return f"<finport.Client, {state}>"


def connect(url: str | None = None, *, key: str | None = None, **settings: Any) -> Client:
    """A synchronous client, as `connect_async` gives it to coroutines: `connect()` has a gateway in
    this process, `connect("http://localhost:8000")` uses a server.
    """
    return Client(lambda: connect_async(url, key=key, **settings))


class Tools:
    """The tools of a client by name; completion knows them."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def __getattr__(self, name: str) -> "Tool":
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except LookupError as error:
            raise AttributeError(str(error)) from None

    def __getitem__(self, name: str) -> "Tool":
        return Tool(self._client, self._client.manifest(name))

    def __dir__(self) -> list[str]:
        return self._client.names()

    def __iter__(self) -> Iterator[str]:
        return iter(self._client.names())

    def __len__(self) -> int:
        return len(self._client.names())

    def __repr__(self) -> str:
        return f"<{len(self)} tools>"


class Tool:
    """One tool as a function, with its signature and description."""

    def __init__(self, client: Client, manifest: Manifest) -> None:
        self._client = client
        self.manifest = manifest
        self.__name__ = manifest.name
        expected = Signature(manifest).allowed()
        taken = [p for p in manifest.parameters if p.name in expected]
        lines = [f"{p.name}: {p.description} ({expected[p.name]})" for p in taken]
        self.__doc__ = "\n".join([manifest.description, "", *lines]).rstrip()
        self.__signature__ = inspect.Signature(
            [
                inspect.Parameter(
                    p.name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=inspect.Parameter.empty if p.required else p.default,
                    annotation=_KINDS.get(p.type, Any),
                )
                for p in sorted(taken, key=lambda p: not p.required)
                if p.name.isidentifier()
            ],
            return_annotation=Result,
        )

    def __call__(self, **arguments: Any) -> Result:
        return self._client.call_with(self.manifest.name, arguments)

    def __repr__(self) -> str:
        return f"<tool {self.manifest.name}{self.__signature__}>"


class _Embedded(AsyncClient):
    """A gateway in this process."""

    def __init__(self, gateway: Gateway, finder: ToolFinder) -> None:
        self._gateway = gateway
        self._finder = finder

    async def _call(self, tool: str, arguments: Mapping[str, Any], context: CallContext) -> Result:
        return await self._gateway.call(tool, arguments, context)

    async def search(self, query: str, limit: int = 10, **tags: str) -> list[FoundTool]:
        found = await self._finder.search(query, tags)
        return [
            FoundTool(tool.name, tool.description, tool.source, tool.home)
            for tool in found.tools[:limit]
        ]

    async def names(self) -> list[str]:
        return [tool.name for tool in self._gateway.catalog]

    async def _manifest(self, name: str) -> Manifest | None:
        return self._gateway.catalog.get(name)


class _Remote(AsyncClient):
    """A gateway at a URL."""

    def __init__(self, http: HttpClient) -> None:
        self._http = http

    async def _call(self, tool: str, arguments: Mapping[str, Any], context: CallContext) -> Result:
        return await self._http.call(tool, arguments, context)

    async def search(self, query: str, limit: int = 10, **tags: str) -> list[FoundTool]:
        listed = await self._http.get("/v1/tools", {"q": query, "limit": limit, **tags})
        return [_found(tool) for tool in listed["tools"]]

    async def names(self) -> list[str]:
        names, cursor = list[str](), "0"
        while cursor is not None:
            page = await self._http.get("/v1/tools", {"limit": LISTED, "cursor": cursor})
            names += (str(tool["name"]) for tool in page["tools"])
            cursor = page.get("next_cursor")
        return names

    async def _manifest(self, name: str) -> Manifest | None:
        said = await self._http.get(f"/v1/tools/{quote(name, safe='')}", {}, missing=None)
        if said is None:
            return None
        fields = {n: value for n, value in said.items() if n in Manifest.model_fields}
        fields.pop("freshness", None)  # the API tells the whole rule
        return Manifest.model_validate(fields, strict=False)


def _found(tool: Mapping[str, Any]) -> FoundTool:
    home = str(tool.get("provider", "finport"))
    return FoundTool(str(tool["name"]), str(tool["description"]), str(tool["source"]), home)


class _Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._ending: asyncio.Task[object] | None = None
        self._thread = threading.Thread(target=self._turn, daemon=True, name="finport")
        self._thread.start()

    def _turn(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end. Ctrl-C cancels it. Raises `RuntimeError` once it stopped."""
        if not self._thread.is_alive():
            work.close()
            raise RuntimeError("this client is closed; finport.connect makes another")
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return running.result()
        except BaseException:
            running.cancel()
            raise

    @property
    def is_current(self) -> bool:
        """Whether this is the thread of the loop."""
        return threading.current_thread() is self._thread

    def end_after(self, work: Coroutine[Any, Any, object]) -> None:
        """From its own thread: stop once a coroutine has ended."""
        self._ending = self._loop.create_task(work)
        self._ending.add_done_callback(lambda _: self._loop.stop())

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()


def _closed(loop: _Loop, stack: AsyncExitStack) -> None:
    if loop.is_current:  # a collection of garbage ran here: to wait for the end would be for ever
        loop.end_after(stack.aclose())
        return
    try:
        loop.run(stack.aclose())
    finally:
        loop.stop()


__all__ = ["AsyncClient", "Client", "FoundTool", "Tool", "Tools", "connect", "connect_async"]

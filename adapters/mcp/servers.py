"""The MCP servers of one gateway: their connections, what they list, and when that changes.

What they list is kept in files, for starts without them and for the replay of snapshots.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

import orjson
from anyio import to_thread

from adapters.fault import UpstreamFault
from adapters.provider import ProviderError
from manifests import Manifest
from manifests.common.files import private_folder, replaced_file
from manifests.common.regular_file import read_text
from manifests.mcp_listing import Listing
from manifests.providers import ProviderSettings

if TYPE_CHECKING:
    from adapters.mcp.connection import Connection

log = logging.getLogger("finport")

START_S: Final = 11.0
"""How long a start waits for servers: a little longer than a connection takes to give up."""

_DEBOUNCE_S, _APART_S = 0.2, 1.0
"""How long further changes are waited for, and the least time between two announcements."""

Mode = Literal["live", "record", "replay", "offline"]
Providers = Mapping[str, ProviderSettings]


class _Server:
    """One server, as its provider is set."""

    def __init__(self, name: str, provider: ProviderSettings) -> None:
        self.name = name
        self.provider = provider
        self.host = host_of(name, provider)
        self.listing: Listing | None = None
        self.connection: Connection | None = None
        self.variables = dict[str, str]()
        self.lacking: str | None = None
        self.is_served = False


class McpServers:
    """What a gateway knows of its MCP servers. Made by `open`."""

    def __init__(self, folder: Path, mode: Mode, timeout_s: float) -> None:
        self._folder = folder
        self._mode = mode
        self._timeout_s = timeout_s
        self._servers: dict[str, _Server] = {}
        self._followed: dict[str, _Server] = {}
        """Those of the settings that are being tried; calls go to `_servers` until they count."""
        self._changed = asyncio.Event()
        self._writing: set[asyncio.Task[None]] = set()

    @classmethod
    @asynccontextmanager
    async def open(cls, folder: Path, mode: Mode, timeout_s: float) -> AsyncIterator["McpServers"]:
        """`timeout_s` is the longest time that a call waits."""
        servers = cls(folder, mode, timeout_s)
        try:
            yield servers
        finally:
            await servers._close([*servers._servers.values()])
            await asyncio.gather(*servers._writing)

    @asynccontextmanager
    async def following(self, providers: Providers) -> AsyncIterator[None]:
        """Have the servers of these providers; if the context ends by an exception, still those
        from before. Raises `ProviderError`.
        """
        before = self._servers
        now = {
            name: before[name]
            if name in before and before[name].provider == provider
            else _Server(name, provider)
            for name, provider in providers.items()
            if provider.kind == "mcp"
        }
        new = [server for server in now.values() if server not in before.values()]
        try:
            await self._start(new)
            self._followed = now
            yield
        except BaseException:
            self._followed = before
            await self._close(new)
            raise
        self._servers = now
        await self._close([server for server in before.values() if server not in now.values()])

    def listing(self, name: str) -> Listing | None:
        """What a provider's server listed last, if that is known."""
        server = self._followed.get(name)
        return None if server is None else server.listing

    def trouble(self, name: str) -> str:
        """Why a provider's server was not reached."""
        return self._trouble(self._followed[name])

    def unreached(self, name: str) -> str | None:
        """Why a provider's server was not reached although it was asked, or None."""
        connection = self._followed[name].connection
        return connection.trouble if connection and not connection.is_reached else None

    async def call(
        self, manifest: Manifest, tool: str, arguments: Mapping[str, Any], timeout_s: float
    ) -> tuple[dict[str, Any], list[str]]:
        """The result of a tool, and the secrets that it may hold. Raises `UpstreamFault`."""
        server = self._servers.get(manifest.provider or "")
        if server is None:
            text = f"no provider in settings is the MCP server {manifest.upstream}"
            raise UpstreamFault("not_configured", text)
        if server.lacking is not None:
            raise UpstreamFault("not_configured", server.lacking)
        if server.connection is None:
            self._connect(server)
        connection = server.connection
        assert connection is not None  # noqa: S101 - it was made
        if not connection.tried.is_set():
            await connection.tried.wait()  # until the caller's deadline
        return await connection.call(tool, arguments, timeout_s), connection.secrets

    @asynccontextmanager
    async def announcing(self, listed: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
        """Call `listed` after servers have listed other tools, once for several changes."""

        async def announce() -> None:
            while True:
                await self._changed.wait()
                await asyncio.sleep(_DEBOUNCE_S)
                self._changed.clear()
                await listed()
                await asyncio.sleep(_APART_S)

        task = asyncio.create_task(announce())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _start(self, servers: list[_Server]) -> None:
        """Connect, and wait until each server has listed its tools or can't be reached."""
        if self._mode != "offline":
            for server in servers:
                _prepare(server)
        found = [await to_thread.run_sync(self._kept, server) for server in servers]
        if self._mode in ("offline", "replay"):
            for server, listing in zip(servers, found, strict=True):
                server.listing = listing
                if listing is None and self._mode == "offline":
                    log.warning("provider %s has no tools: no listing was kept", server.name)
        asked = [s for s in servers if s.listing is None] if self._mode != "offline" else []
        for server in asked:
            if server.lacking is None:
                self._connect(server)
        waits = [asyncio.ensure_future(s.connection.tried.wait()) for s in asked if s.connection]
        if waits:
            try:
                await asyncio.wait(waits, timeout=START_S)
            finally:
                for wait in waits:
                    wait.cancel()
        for server, listing in zip(servers, found, strict=True):
            if server in asked and server.listing is None:
                server.listing = listing
                then = "its kept tools are served" if listing else "its tools are missing"
                trouble = self._trouble(server)
                log.warning("MCP server %s is not reached: %s; %s", server.name, trouble, then)
            server.is_served = True

    def _connect(self, server: _Server) -> None:
        from adapters.mcp.connection import Connection

        def on_listing(listing: Listing) -> None:
            file = _file_of(self._folder, server.name)
            writing = asyncio.ensure_future(
                to_thread.run_sync(_write, file, server.provider, listing)
            )
            self._writing.add(writing)
            writing.add_done_callback(self._writing.discard)
            if self._mode == "replay" and server.listing is not None:
                return  # a replay asks for what was recorded
            if server.listing != listing:
                server.listing = listing
                if server.is_served:
                    self._changed.set()

        server.connection = Connection(
            server.name,
            server.provider,
            server.host,
            server.variables,
            self._timeout_s,
            on_listing,
        )

    @staticmethod
    def _trouble(server: _Server) -> str:
        if server.connection is not None:
            return server.connection.trouble
        return server.lacking or "it was not asked"

    def _kept(self, server: _Server) -> Listing | None:
        return _read(_file_of(self._folder, server.name), server.provider)

    async def _close(self, servers: list[_Server]) -> None:
        closing = [s.connection.close() for s in servers if s.connection is not None]
        await asyncio.gather(*closing)


def host_of(name: str, provider: ProviderSettings) -> str:
    """What limits count for: the host of a URL, or the name of a provider that is a program."""
    return urlsplit(provider.mcp).netloc.rpartition("@")[2] if provider.mcp else name


def _prepare(server: _Server) -> None:
    """Read what the connection needs of the environment, and note what is lacking there.

    Raises `ProviderError`.
    """
    name, provider = server.name, server.provider
    if find_spec("mcp") is None:
        text = f"provider {name}: an MCP server needs the SDK: pip install 'finport[mcp]'"
        raise ProviderError(text)
    if provider.mcp is not None:
        try:
            parts = urlsplit(provider.mcp)
            is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_url = False
        if not is_url or parts.username or parts.password:
            text = "is of the form http://HOST:PORT/PATH, and its secrets are in credentials"
            raise ProviderError(f"provider {name}: the URL of an MCP server {text}")
        wanted = dict(provider.credentials)
    else:
        wanted = {variable: variable for variable in provider.environment}
    for sent_as, variable in wanted.items():
        value = os.environ.get(variable)
        if value is None:
            server.lacking = f"the environment variable {variable} of provider {name} is not set"
            continue
        if provider.mcp is not None and not (value.isascii() and value.isprintable()):
            text = f"provider {name}: {variable} holds a character that no header can carry"
            raise ProviderError(text)
        server.variables[sent_as] = value


def _file_of(folder: Path, name: str) -> Path:
    return folder / "providers" / f"{name}.json"


def _read(file: Path, provider: ProviderSettings) -> Listing | None:
    """The listing that was kept of the same server, if any."""
    try:
        said: Mapping[str, Any] = orjson.loads(read_text(file))
        if said["origin"] != _origin(provider):
            return None
        return Listing(said["server"], said["said"], tuple(said["tools"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        log.warning("%s can't be read: %s", file.name, type(error).__name__)
        return None


def _write(file: Path, provider: ProviderSettings, listing: Listing) -> None:
    """Keep a listing, unless the file can't be written."""
    said = {
        "origin": _origin(provider),
        "server": listing.server,
        "said": listing.said,
        "tools": listing.tools,
    }
    try:
        private_folder(file.parent)
        with replaced_file(file, 0o600, synced=False) as out:
            out.write(orjson.dumps(said))
    except OSError as error:
        log.warning("%s can't be written: %s", file.name, error.strerror)


def _origin(provider: ProviderSettings) -> str:
    """Tells servers apart without their URL, which may hold a secret."""
    said = provider.mcp or "\0".join(provider.command or ())
    return blake2b(said.encode(), digest_size=16).hexdigest()

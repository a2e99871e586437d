"""What a provider of tools declares. `adapters/providers.py` has the table of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from adapters.adapter import Adapter
    from adapters.embeddings import Embedder
    from adapters.mcp.servers import McpServers
    from adapters.peers import OpenElsewhere
    from adapters.rapidapi.keys import Keys
    from adapters.simulator.lies import Lies
    from adapters.simulator.shapes import Simulation
    from manifests import Catalog, Source
    from manifests.symbols import SymbolTable


class ProviderError(Exception):
    """A provider can't be opened as the settings say; the text names the setting."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check of `finport doctor`, and what to do about it."""

    check: str
    status: Literal["ok", "warn", "fail"]
    found: str
    advice: str = ""


class Settings(Protocol):
    """The settings of a gateway that providers read."""

    upstream: Literal["live", "simulated"]
    mode: Literal["live", "record", "replay", "offline"]
    rapidapi_base_url: str | None
    akshare_base_url: str | None
    akshare_workers: int
    akshare_threads: int
    akshare_worker_bytes: int
    market: Path | None
    market_sessions: int
    market_idle_s: float

    @property
    def secrets(self) -> Sequence[str]: ...

    @property
    def worker(self) -> int: ...

    @property
    def shared_folder(self) -> Path | None: ...


@dataclass(frozen=True, slots=True)
class Parts:
    """What a gateway gives the providers that it opens.

    `keys` is None where no upstream is asked. `simulated_url` is the origin of the simulated
    upstream, if that takes the place of the real ones, and `lies` are what it tells. `elsewhere`
    leads to the sessions of other gateways. `symbols` are the instruments that are known by name.
    `mcp` are the MCP servers among the user's providers.
    """

    settings: Settings
    catalog: Catalog
    credentials: Mapping[str, str]
    symbols: SymbolTable
    keys: Keys | None = None
    simulated_url: str | None = None
    lies: Lies | None = None
    embedder: Embedder | None = None
    elsewhere: OpenElsewhere | None = None
    mcp: McpServers | None = None


def is_asked(settings: Settings) -> bool:
    """Whether a gateway with these settings asks upstreams at all."""
    return settings.mode != "offline"


@dataclass(frozen=True, slots=True)
class Provider:
    """One source of tools, for the whole project.

    `open` makes its adapter where `is_open` says that the settings want it, and may raise
    `ProviderError`. `check` examines what its tools need, for `finport doctor`; its settings are
    None if they can't be read. `simulate` makes the function that answers its requests in the
    simulated upstream, or returns None for the requests of others.

    Limits apply to `limited(host)`. With `has_keys` they count for each of the operator's keys.
    `base_url` is the setting that sends requests to another origin, None if the provider has no
    hosts; `tls` says whether these are asked over TLS, and None that it depends on the host.
    """

    source: Source
    title: str
    open: Callable[[Parts], AbstractAsyncContextManager[Adapter]]
    is_open: Callable[[Settings], bool] = is_asked
    check: Callable[[Catalog, Settings | None], Iterable[Finding]] = lambda _catalog, _settings: ()
    simulate: Callable[[Catalog], Simulation] | None = None
    limited: Callable[[str], str] = str
    has_keys: bool = False
    base_url: Callable[[Settings], str | None] | None = None
    tls: bool | None = True

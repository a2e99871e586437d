"""The table of providers. Those that are more than their adapter have a module of their own.

What an adapter needs is imported when it is opened.
"""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from adapters.akshare.provider import AKSHARE
from adapters.market.provider import MARKET
from adapters.own.provider import OWN
from adapters.provider import Parts, Provider
from adapters.python.provider import PYTHON
from adapters.rapidapi.provider import RAPIDAPI
from manifests import Catalog, Source

if TYPE_CHECKING:
    from adapters.adapter import Adapter


def _http(parts: Parts) -> AbstractAsyncContextManager["Adapter"]:
    from adapters.rest.adapter import HttpAdapter

    return HttpAdapter.open(parts.catalog)


def _mcp(parts: Parts) -> AbstractAsyncContextManager["Adapter"]:
    from adapters.mcp.adapter import McpAdapter

    return McpAdapter.open(parts.mcp)


PROVIDERS: Mapping[Source, Provider] = {
    p.source: p
    for p in (
        *(RAPIDAPI, AKSHARE, MARKET, OWN, PYTHON),
        Provider("http", "HTTP APIs", _http, tls=None),
        Provider("mcp", "MCP servers", _mcp, tls=None),
    )
}


def keyed_hosts(catalog: Catalog) -> set[str]:
    """The hosts whose quotas count for each of the operator's keys."""
    return {m.upstream for m in catalog if PROVIDERS[m.source].has_keys}

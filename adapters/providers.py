"""The table of providers: each is declared in its own folder and named here once."""

from collections.abc import Mapping

from adapters.akshare.provider import AKSHARE
from adapters.market.provider import MARKET
from adapters.mcp.provider import MCP
from adapters.own.provider import OWN
from adapters.provider import Provider
from adapters.python.provider import PYTHON
from adapters.rapidapi.provider import RAPIDAPI
from adapters.rest.provider import HTTP
from manifests import Catalog, Source

PROVIDERS: Mapping[Source, Provider] = {
    p.source: p for p in (RAPIDAPI, AKSHARE, MARKET, OWN, PYTHON, HTTP, MCP)
}


def keyed_hosts(catalog: Catalog) -> set[str]:
    """The hosts whose quotas count for each of the operator's keys."""
    return {m.upstream for m in catalog if PROVIDERS[m.source].has_keys}

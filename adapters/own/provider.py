"""Finport's own tools: `resolve_symbol`, which finds the codes of instruments by their names."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import orjson
from anyio import to_thread

from adapters.adapter import Adapter
from adapters.fault import UpstreamFault
from adapters.normalise import Answer
from adapters.provider import Parts, Provider
from manifests import Manifest, Scalar
from manifests.formats import short
from manifests.symbols import LONGEST, Symbol, SymbolTable

MOST: Final = 100
"""The most matches that are returned."""

UNSURE: Final = 5.0
"""The best match is ambiguous if another one is as similar, within so many points of 100."""


class OwnAdapter(Adapter):
    """Answers from the table of instruments that the gateway keeps."""

    def __init__(self, table: SymbolTable) -> None:
        self._table = table

    async def fetch(
        self,
        manifest: Manifest,  # noqa: ARG002 - the interface's signature
        arguments: Mapping[str, Scalar],
        timeout_s: float,  # noqa: ARG002
        client: str = "",  # noqa: ARG002
    ) -> Answer:
        """Raises `UpstreamFault` for an empty name, an unknown market, and a limit out of range."""
        name = str(arguments["name"]).strip()[:LONGEST]
        if not name:
            raise UpstreamFault("misused", "name: is empty; give a name, a code or a ticker")
        limit = int(arguments.get("limit", 10))
        if not 1 <= limit <= MOST:
            raise UpstreamFault("misused", f"limit: is {limit}, expected 1 to {MOST}")
        market = str(arguments.get("market", "")).strip().lower()
        symbols = await self._table.read()
        known = {place for one in symbols for place in (one.market, one.exchange)}
        if market and market not in known:
            text = f"market: {short(market)} is not one of {', '.join(sorted(known))}"
            raise UpstreamFault("misused", text)
        wanted = (market, str(arguments.get("kind", "")))
        found = await to_thread.run_sync(symbols.resolve, name, MOST)
        found = [one for one in found if _is_wanted(one.symbol, *wanted)][:limit]
        best = [one for one in found if one.score > found[0].score - UNSURE]
        return Answer(
            orjson.dumps(
                {
                    "name": name,
                    "ambiguous": len(best) > 1,
                    "matches": [
                        {**one.symbol.to_dict(), "score": round(one.score, 1), "by": one.by}
                        for one in found
                    ],
                    "table": {"instruments": len(symbols), "as_of": self._table.as_of},
                }
            )
        )


def _is_wanted(symbol: Symbol, market: str, kind: str) -> bool:
    return market in ("", symbol.market, symbol.exchange) and kind in ("", symbol.kind)


@asynccontextmanager
async def _open(parts: Parts) -> AsyncIterator[Adapter]:
    yield OwnAdapter(parts.symbols)


OWN = Provider("finport", "Finport itself", _open, is_open=lambda _: True)

"""Names and codes of instruments from the listings that tools answer."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import orjson
from anyio import to_thread

from gateway.context import CallContext
from gateway.pipeline.answers import Answers
from gateway.pipeline.bind import Binder, InvalidCall
from manifests.symbols import Symbol

ROWS: Final = 20_000
"""The most rows of one listing that are read."""

WAIT_S: Final = 60.0
"""Seconds that all listings have together."""


class Listing(NamedTuple):
    """A tool that lists instruments: its columns of codes and names, and where those are listed."""

    tool: str
    arguments: Mapping[str, Any]
    code: str
    name: str
    kind: str
    exchange: Callable[[str], str]


def _mainland(code: str) -> str:
    return "sh" if code[:1] in {"5", "6", "9"} else "sz"


def _shares(code: str) -> str:
    return "bj" if code[:1] in {"4", "8"} or code.startswith("920") else _mainland(code)


def _index(code: str) -> str:
    return "sz" if code.startswith("399") else "sh"


_CODE, _NAME = "证券代码", "证券简称"
_NUMBERED: Final = {"105": "nasdaq", "106": "nyse", "107": "amex"}

_FAMOUS: Final = ("科技类", "金融类", "医药食品类", "媒体类", "汽车能源类", "制造零售类")

LISTINGS: Final[tuple[Listing, ...]] = (
    Listing("stock_info_sh_name_code", {"symbol": "主板A股"}, _CODE, _NAME, "share", _shares),
    Listing("stock_info_sh_name_code", {"symbol": "科创板"}, _CODE, _NAME, "share", _shares),
    Listing(
        "stock_info_sz_name_code", {"symbol": "A股列表"}, "A股代码", "A股简称", "share", _shares
    ),
    Listing("fund_etf_spot_ths", {}, "基金代码", "基金名称", "etf", _mainland),
    Listing(
        "stock_zh_index_spot_em", {"symbol": "沪深重要指数"}, "代码", "名称", "index", _index
    ),
    *(
        Listing(
            "stock_us_famous_spot_em", {"symbol": group}, "代码", "名称", "share",
            lambda code: _NUMBERED.get(code[:3], ""),
        )
        for group in _FAMOUS
    ),
)  # fmt: skip
"""AkShare's functions that list instruments, of those in the catalogue."""


async def listed(answers: Answers, binder: Binder) -> list[Symbol]:
    """The instruments of all listings that answer. No caller made these calls, so they leave no
    record; caches, limits and quotas apply.
    """
    async with asyncio.timeout(WAIT_S):
        some = (_listed(answers, binder, listing) for listing in LISTINGS)
        found = await asyncio.gather(*some)
    return [one for some in found for one in some]


async def _listed(answers: Answers, binder: Binder, listing: Listing) -> list[Symbol]:
    try:
        bound = binder.bind(listing.tool, listing.arguments)
    except InvalidCall:  # a catalogue without it
        return []
    outcome = await answers.obtain(bound, CallContext(client="finport"))
    if outcome.kept is None:
        return []
    return await to_thread.run_sync(_read, listing, outcome.kept.entry.data)


def _read(listing: Listing, data: bytes) -> list[Symbol]:
    rows, found = orjson.loads(data), list[Symbol]()
    for row in rows[:ROWS] if isinstance(rows, list) else ():
        code, name = str(row.get(listing.code) or ""), str(row.get(listing.name) or "").strip()
        exchange = listing.exchange(code)
        if code and name and exchange:
            found.append(Symbol(exchange, code.rpartition(".")[2], listing.kind, (name,)))
    return found

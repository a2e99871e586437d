"""Where answers come from: tools over the simulated upstream, and InvestorBench's files.

A tool's answer is what a real gateway returns over the local simulator. Documents of a tool's
answers to several symbols, and of a table within an object, are put together here, in the form in
which many upstreams send them.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson

from adapters.market.prices import Market, MarketDay, MarketError
from adapters.simulator.akshare import FUNCTIONS
from bench.compression.case import Answer, Form, Language
from cache.entry import Entry
from gateway import Gateway, GatewaySettings
from gateway.context import CallContext
from gateway.result import Result
from manifests import Catalog, Manifest

ASSETS: Mapping[str, Mapping[Language, tuple[str, ...]]] = {
    "btc": {"en": ("BTC", "Bitcoin"), "zh": ("比特币", "BTC")},
    "eth": {"en": ("ETH", "Ethereum"), "zh": ("以太坊", "ETH")},
    "hon": {"en": ("HON", "Honeywell"), "zh": ("霍尼韦尔", "HON")},
    "jnj": {"en": ("JNJ", "Johnson & Johnson"), "zh": ("强生", "JNJ")},
    "msft": {"en": ("MSFT", "Microsoft"), "zh": ("微软", "MSFT")},
    "nflx": {"en": ("NFLX", "Netflix"), "zh": ("奈飞", "NFLX")},
    "uvv": {"en": ("UVV", "Universal Corporation"), "zh": ("UVV", "环球公司")},
}
"""InvestorBench's assets, each in a file of this name, and what users call them."""

SYMBOLS = (
    *("AAPL", "MSFT", "NVDA", "AMZN", "GOOGL", "META", "TSLA", "JPM", "V", "JNJ", "WMT", "PG"),
    *("XOM", "MA", "HD", "CVX", "KO", "PEP", "COST", "ORCL", "NFLX", "AMD", "INTC", "DIS", "NKE"),
    *("BA", "CAT", "HON", "IBM", "GE"),
)
_SYMBOL_PARAMETERS = ("symbol", "ticker", "symbols", "id", "ticker_symbol", "stock")

TABLE_SHARE = 0.15
"""Of the tools whose tables are made from their columns, which are alike, this share is used."""

SHAPE_SHARES = {"bars": 0.65, "periods": 0.4, "holdings": 1.0, "data": 0.35, "table": 0.6}
"""The same for the shapes of simulated documents."""

COMBINED_SHARE = 0.5
"""The share of single-object tools that are asked for many symbols."""

_TEXT_CHARS = 30_000
_DAYS_IN_DOCUMENT = 25
_THIS: Mapping[Language, tuple[str, ...]] = {
    "en": ("this table", "this data", "the instrument"),
    "zh": ("该数据", "这张表", "该品种"),
}


class SourceError(Exception):
    """An answer can't be had; the text says why and what would help."""


def _share(name: str, seed: int) -> float:
    """A number from 0 to 1 that depends on nothing but name and seed."""
    digest = blake2b(f"use {seed} {name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def answer(
    name: str,
    group: str,
    form: Form,
    value: Any,
    subject: Mapping[Language, tuple[str, ...]],
    upstream: str = "simulated",
) -> Answer:
    """An answer of our own making, as the gateway would keep it."""
    if form == "table":
        data = b"[%b]" % b",\n".join(map(orjson.dumps, value))
        entry = Entry(data, tuple(value[0]), len(value), 0.0, 0.0, upstream, tool=group)
    else:
        entry = Entry(orjson.dumps(value), None, None, 0.0, 0.0, upstream, tool=group)
    return Answer(name, group, form, entry, subject)


# --- InvestorBench -------------------------------------------------------------------------------


def asset_answers(folder: Path, asset: str, seed: int) -> Iterator[Answer]:
    """Tables, a document and a text of one asset.

    The tables have the prices and the number of news items of the file, and figures computed from
    them: the price before, the change, and means of 5 and 20 days. The document is an excerpt of
    the file; the text has the news of consecutive days.
    Raises `SourceError` if the file is missing or not as expected.
    """
    try:
        days = Market.read(folder / f"{asset}.json").records
    except MarketError as error:
        raise SourceError(f"{error}; InvestorBench's files are wanted") from error
    subject, group = ASSETS[asset], f"investorbench/{asset}"
    rows = _price_rows(days)
    english = ("date", "close", "prev_close", "change", "change_pct", "ma5", "ma20", "news_count")
    chinese = ("日期", "收盘价", "昨收", "涨跌额", "涨跌幅", "5日均线", "20日均线", "新闻数")
    for language, names in (("en", english), ("zh", chinese)):
        table = [dict(zip(names, row, strict=True)) for row in rows]
        yield answer(f"{group}/table-{language}", group, "table", table, subject, "live")
    rng = random.Random(f"{seed} {group}")  # noqa: S311 - a reproducible draw
    begin = rng.randrange(max(len(days) - _DAYS_IN_DOCUMENT, 1))
    chosen = days[begin : begin + _DAYS_IN_DOCUMENT]
    document = {str(day.date): {"prices": day.price, "news": day.news[:2]} for day in chosen}
    yield answer(f"{group}/document", group, "document", document, subject, "live")
    for part in (1, 2):
        begin = rng.randrange(len(days))
        text = _news_text(days[begin:] + days[:begin])
        yield answer(f"{group}/news-{part}", group, "text", text, subject, "live")


def _price_rows(days: Sequence[MarketDay]) -> list[tuple[object, ...]]:
    prices = [day.price for day in days]
    rows = list[tuple[object, ...]]()
    for at, day in enumerate(days):
        before = prices[at - 1] if at else None
        change = None if before is None else round(prices[at] - before, 4)
        percent = None if before is None else round((prices[at] / before - 1) * 100, 4)
        means = [
            round(sum(prices[at + 1 - length : at + 1]) / length, 4) if at + 1 >= length else None
            for length in (5, 20)
        ]
        rows.append((str(day.date), day.price, before, change, percent, *means, len(day.news)))
    return rows


def _news_text(days: Sequence[MarketDay]) -> str:
    """The news of days, as far as there is room."""
    parts, length = list[str](), 0
    for day in days:
        for item in day.news:
            part = f"{day.date}: {' '.join(item.split())}"
            if length + len(part) > _TEXT_CHARS:
                return "\n".join(parts)
            parts.append(part)
            length += len(part)
    return "\n".join(parts)


# --- tools over the simulated upstream -----------------------------------------------------------


class Tools:
    """Tools of the catalogue over the simulated upstream. Made by `Tools.open`."""

    def __init__(self, gateway: Gateway, catalog: Catalog, seed: int) -> None:
        self._gateway = gateway
        self._seed = seed
        usable = [m for m in catalog if m.intent_type != "transactional" and not m.unavailable]
        self._tools = {manifest.name: manifest for manifest in usable}

    @classmethod
    @asynccontextmanager
    async def open(cls, seed: int) -> AsyncIterator["Tools"]:
        """Open a gateway with an empty cache, whatever the user's settings say."""
        catalog = Catalog.load()
        with TemporaryDirectory(prefix="finport-compression-") as folder:
            settings = GatewaySettings(
                upstream="simulated",
                mode="live",
                snapshot=None,
                rapidapi_base_url=None,
                akshare_base_url=None,
                akshare_workers=1,
                cache_dir=Path(folder),
                simulated_seed=seed,
                simulated_latency_s=0.0,
                simulated_failure_rate=0.0,
                simulated_hang_rate=0.0,
                simulated_faults={},
                simulated_lies=0.0,
            )
            async with Gateway.open(settings, catalog=catalog) as gateway:
                yield cls(gateway, catalog, seed)

    def names(self) -> Sequence[Sequence[str]]:
        """Names of tools in groups of a kind: real AkShare code, AkShare columns, RapidAPI."""
        code, columns, rapidapi = list[str](), list[str](), list[str]()
        for name, manifest in sorted(self._tools.items()):
            if manifest.binding.source == "rapidapi":
                rapidapi.append(name)
            elif manifest.binding.source == "akshare" and manifest.binding.function in FUNCTIONS:
                code.append(name)
            elif manifest.columns and _share(name, self._seed) < TABLE_SHARE:
                columns.append(name)
        for names in (code, columns, rapidapi):
            names.sort(key=lambda name: _share(f"turn {name}", self._seed))
        return code, columns, rapidapi

    async def answers(self, name: str) -> Sequence[Answer]:
        """What is asked of a tool: none if the tool is not used. Raises `SourceError`."""
        manifest = self._tools[name]
        arguments = manifest.sample()
        result = await self._call(name, arguments)
        value = result.value
        subject = _subject(arguments)
        meanings = {c.name: c.description for c in manifest.columns if c.description}
        entry = Entry(result.data, result.columns, result.rows, 0.0, 0.0, "simulated", tool=name)
        form: Form = "table" if result.rows is not None else "document"
        whole = Answer(f"{name}/{form}", name, form, entry, subject, meanings)
        if manifest.binding.source == "akshare":
            return self._akshare(whole, value)
        return await self._rapidapi(whole, value, manifest, arguments)

    def _akshare(self, whole: Answer, value: Any) -> Sequence[Answer]:
        if whole.form == "document" or len(value) < 5:
            return ()
        if len(value) > 20 or _share(f"wrap {whole.group}", self._seed) < 0.6:
            return (whole,)
        document = {"结果": {"明细": value}}
        name, subject = f"{whole.group}/wrapped", whole.subject
        return whole, answer(name, whole.group, "document", document, subject)

    async def _rapidapi(
        self, whole: Answer, value: Any, manifest: Manifest, arguments: Mapping[str, Any]
    ) -> Sequence[Answer]:
        shape = next((name for name in SHAPE_SHARES if name in value), "")
        if whole.form == "table":
            shape = "table"
        if shape:
            return (whole,) if _share(whole.group, self._seed) < SHAPE_SHARES[shape] else ()
        given = [name for name in _SYMBOL_PARAMETERS if name in arguments]
        if not given or _share(whole.group, self._seed) >= COMBINED_SHARE:
            return ()
        several = [self._call(manifest.name, {**arguments, given[0]: s}) for s in SYMBOLS]
        replies = await asyncio.gather(*several)
        found = dict(zip(SYMBOLS, (reply.value for reply in replies), strict=True))
        name, draw = f"{whole.group}/combined", _share(f"form {whole.group}", self._seed)
        if draw < 0.4:
            return (answer(name, whole.group, "table", [*found.values()], _THIS),)
        document = {"results": found} if draw < 0.7 else {"data": {"items": [*found.values()]}}
        return (answer(name, whole.group, "document", document, _THIS),)

    async def _call(self, name: str, arguments: Mapping[str, Any]) -> Result:
        result = await self._gateway.call(name, dict(arguments), CallContext(max_rows=10_000))
        if result.error is not None:
            raise SourceError(f"{name}: {result.error.message}")
        return result


def _subject(arguments: Mapping[str, Any]) -> Mapping[Language, tuple[str, ...]]:
    named = next((str(arguments[n]) for n in _SYMBOL_PARAMETERS if n in arguments), "")
    return {"en": (named,), "zh": (named,)} if 0 < len(named) <= 12 else _THIS

"""Calls of covered tools while their source is dead, with and without stand-ins, over HTTP.

Everything comes from one simulated market, so the truth of every cell is known. Each source dies in
turn: its connections are reset. A call counts as answered if its days are all those of the range
and every price agrees with the market within what the stand-in declares. Traps are calls that no
other source can answer with the same facts; whatever answers one is wrong.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from importlib.util import find_spec
from typing import Any, Final

import aiohttp
import orjson
from aiohttp import web

from adapters.host import ORIGINAL_HOST, registrable_domain
from adapters.simulator.akshare import simulate
from adapters.simulator.shapes import Luck, Request, read_day
from adapters.simulator.world.instruments import CHINA
from adapters.simulator.world.world import World
from bench.speed.bare_server import Handler
from bench.speed.harness import Figures, Harness, NotMeasured, asked, each, latencies, log
from manifests import Catalog

SOURCES: Final[Mapping[str, tuple[str, ...]]] = {
    "eastmoney": ("eastmoney.com",),
    "sina": ("sina.com.cn", "sina.cn"),
    "tencent": ("qq.com", "gtimg.cn"),
    "csindex": ("csindex.com.cn",),
    "cnindex": ("cnindex.com.cn",),
}

RANGES, CALLERS, WITHIN = 12, 8, 0.0101
"""Ranges of days of each instrument, calls under way at once, and the most that a price may differ
from the market's: indices have three decimals in one source and two in another.
"""

SWAPPED, GONE, STRANGE = "600036", "601318", "931151"
"""The share of which Tencent sends another one and Sina nothing, the one that both do not know, and
the index of which its compiler sends another one.
"""

_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "open": ("开盘", "open", "今开", "开盘价"),
    "high": ("最高", "high", "最高价"),
    "low": ("最低", "low", "最低价"),
    "close": ("收盘", "close", "最新价", "收盘价"),
}


@dataclass(frozen=True, slots=True)
class Case:
    """One call, and the key in the market of what it asks about; None is a trap."""

    tool: str
    arguments: Mapping[str, str]
    key: str | None = None


async def measure(harness: Harness) -> Figures:
    """What was answered, by dead source and in all; what was wrong; and how long it took."""
    if find_spec("akshare") is None:
        raise NotMeasured("AkShare is not installed")
    world, figures, took = World(), dict[str, Any](), list[float]()
    counts = dict.fromkeys(("coverable", "answered", "without", "wrong", "traps"), 0)
    for source, dead in SOURCES.items():
        log.info("%s is dead", source)
        origin = await harness.serve(upstream, ",".join(dead))
        folder = harness.folder / source
        url = await harness.gateway(
            akshare_base_url=origin, cache_dir=folder, max_concurrency_per_host=CALLERS
        )
        client, ranges = await harness.client(), harness.number(RANGES)
        await asked(client, f"{url}/v1/tools/macro_fx_sentiment", b"{}")  # AkShare is loaded
        cases = [*_cases(source, ranges)]
        found = dict.fromkeys(counts, 0)
        for stand_in in ("allow", "never"):
            ask = partial(_ask, client, url, world, stand_in, found, took)
            await each(cases, CALLERS, ask)
        traps = [*_traps(source)]
        await each(traps, CALLERS, partial(_ask, client, url, world, "allow", found, []))
        found["coverable"], found["traps"] = len(cases), len(traps)
        figures[f"{source}_answered_share"] = found["answered"] / len(cases)
        counts = {name: counts[name] + found[name] for name in counts}
    return {
        "coverable_calls": counts["coverable"],
        "answered": counts["answered"],
        "answered_share": counts["answered"] / counts["coverable"],
        "answered_without_stand_ins": counts["without"],
        "trap_calls": counts["traps"],
        "wrong": counts["wrong"],
        **latencies(took),
        **figures,
    }


async def _ask(
    client: aiohttp.ClientSession,
    url: str,
    world: World,
    stand_in: str,
    found: dict[str, int],
    took: list[float],
    case: Case,
) -> None:
    """Make one call and count how it ended."""
    query, began = f"stand_in={stand_in}&max_rows=100000", time.perf_counter()
    body = orjson.dumps(case.arguments)
    async with client.post(f"{url}/v1/tools/{case.tool}?{query}", data=body) as response:
        told = orjson.loads(await response.read())
    if stand_in == "allow":
        took.append(time.perf_counter() - began)
    if told["ok"] and not _is_true(world, case, told["data"]):
        found["wrong"] += 1
        log.info("wrong: %s %s: %s", case.tool, case.arguments, told["provenance"])
    elif told["ok"]:
        found["answered" if stand_in == "allow" else "without"] += 1
    elif stand_in == "allow" and case.key is not None:
        log.info("not answered: %s %s: %s", case.tool, case.arguments, told["error"])


def _is_true(world: World, case: Case, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the rows are those of the market, day by day."""
    if case.key is None or not rows:
        return False
    first, last = (read_day(case.arguments.get(name)) for name in ("start_date", "end_date"))
    if (year := case.arguments.get("start_year")) is not None:
        first, last = date(int(year), 1, 1), date(int(case.arguments["end_year"]), 12, 31)
    bars = {str(bar.day): bar for bar in world.bars(case.key, first, last)}
    days = [str(row.get("日期") or row.get("date"))[:10] for row in rows]
    if days != [*bars]:
        return False
    return all(
        abs(row[next(name for name in names if name in row)] - getattr(bars[day], field)) < WITHIN
        for day, row in zip(days, rows, strict=True)
        for field, names in _FIELDS.items()
    )


def _cases(source: str, ranges: int) -> Iterator[Case]:
    """Calls of the tools whose source is dead, each of a range of its own."""
    spans = [
        {"start_date": f"{2013 + n % 12}0105", "end_date": f"{2013 + n % 12}{n % 3 + 4:02}28"}
        for n in range(ranges)
    ]
    shares = [one.key for one in CHINA if one.key[:3] in ("sh6", "sz0", "sz3")]
    shares = [key for key in shares if key[2:5] != "688" and key[2:] not in (SWAPPED, GONE)]
    shares = [*dict.fromkeys(("sz000001", *shares[::8]))]  # in Shanghai, 000001 is an index
    funds, indices = ("sh510300", "sz159915"), ("sh000001", "sh000300", "sz399001", "sz399006")
    hong_kong, abroad = ("00700", "00005"), ("105.AAPL", "106.KO")
    for span in spans:
        match source:
            case "eastmoney":
                for key in shares:
                    yield Case("stock_zh_a_hist", {"symbol": key[2:], **span}, key)
                for key in funds:
                    yield Case("fund_etf_hist_em", {"symbol": key[2:], **span}, key)
                yield Case("fund_lof_hist_em", {"symbol": "161725", **span}, "sz161725")
                for code in hong_kong:
                    yield Case("stock_hk_hist", {"symbol": code, **span}, f"hk{code}")
                for code in abroad:
                    yield Case("stock_us_hist", {"symbol": code, **span}, f"us:{code[4:]}")
                for key in indices:
                    yield Case("index_zh_a_hist", {"symbol": key[2:], **span}, key)
                    yield Case("stock_zh_index_daily_em", {"symbol": key, **span}, key)
            case "sina":
                for key in shares:
                    yield Case("stock_zh_a_daily", {"symbol": key, **span}, key)
                yield Case("stock_zh_a_cdr_daily", {"symbol": "sh689009", **span}, "sh689009")
            case "tencent":
                for key in shares:
                    yield Case("stock_zh_a_hist_tx", {"symbol": key, **span}, key)
                years = {"start_year": span["start_date"][:4]}
                years["end_year"] = str(int(years["start_year"]) + 1)
                yield Case("stock_zh_ah_daily", {"symbol": "02318", **years}, "hk02318")
            case "csindex":
                for code in ("000300", "000905"):
                    arguments = {"symbol": code, **span}
                    yield Case("stock_zh_index_hist_csindex", arguments, f"sh{code}")
            case "cnindex":
                for key in indices[2:]:
                    yield Case("index_hist_cni", {"symbol": key[2:], **span}, key)
    whole = {  # tools that give whole histories
        "sina": [
            *(Case("fund_etf_hist_sina", {"symbol": key}, key) for key in funds),
            *(Case("stock_hk_daily", {"symbol": code}, f"hk{code}") for code in hong_kong),
            *(Case("stock_zh_index_daily", {"symbol": key}, key) for key in indices),
            Case("index_us_stock_sina", {"symbol": ".INX"}, "us:SPX"),
            Case("index_global_hist_sina", {"symbol": "荷兰AEX综合指数"}, "ix:AEX"),
        ],
        "tencent": [Case("stock_zh_index_daily_tx", {"symbol": key}, key) for key in indices],
        "eastmoney": [
            Case("index_global_hist_em", {"symbol": "标普500"}, "us:SPX"),
            Case("index_global_hist_em", {"symbol": "荷兰AEX"}, "ix:AEX"),
        ],
    }
    yield from whole.get(source, ())


def _traps(source: str) -> Iterator[Case]:
    """Calls that no other source can answer with the same facts."""
    span = {"start_date": "20240105", "end_date": "20240628"}
    within: Mapping[str, tuple[tuple[str, dict[str, str]], ...]] = {
        "eastmoney": (
            ("stock_zh_a_hist", {"symbol": "600519", "period": "weekly"}),
            ("stock_zh_a_hist", {"symbol": "600519", "adjust": "qfq"}),
            ("stock_zh_a_hist", {"symbol": "600519", "adjust": "hfq"}),
            ("stock_zh_a_hist", {"symbol": "900901"}),  # quoted in dollars
            ("stock_zh_a_hist", {"symbol": "200012"}),  # quoted in Hong Kong dollars
            ("stock_zh_a_hist", {"symbol": SWAPPED}),
            ("stock_zh_a_hist", {"symbol": GONE}),
            ("fund_etf_hist_em", {"symbol": "510300", "adjust": "qfq"}),
            ("fund_etf_hist_em", {"symbol": "510300", "period": "monthly"}),
            ("stock_hk_hist", {"symbol": "00700", "adjust": "hfq"}),
            ("stock_hk_hist", {"symbol": "80700"}),  # the counter in yuan
            ("stock_us_hist", {"symbol": "106.BRK_A"}),  # a class of shares, spelled otherwise
            ("stock_us_hist", {"symbol": "105.AAPL", "adjust": "qfq"}),
            ("index_zh_a_hist", {"symbol": "930050"}),  # other sources do not have it
            ("index_zh_a_hist", {"symbol": "000300", "period": "weekly"}),
            ("stock_zh_index_daily_em", {"symbol": f"csi{STRANGE}"}),
        ),
        "sina": (
            ("stock_zh_a_daily", {"symbol": "sh600519", "adjust": "qfq"}),
            ("stock_zh_a_daily", {"symbol": "sh600519", "adjust": "hfq"}),
        ),
        "tencent": (("stock_zh_a_hist_tx", {"symbol": "sh600519", "adjust": "qfq"}),),
        "csindex": (("stock_zh_index_hist_csindex", {"symbol": "H30533"}),),
        "cnindex": (("index_hist_cni", {"symbol": "980017"}),),
    }
    whole = {
        "eastmoney": [("index_global_hist_em", {"symbol": "纳斯达克"})],
        "sina": [
            ("stock_us_daily", {"symbol": "AAPL"}),  # whose market is not told
            ("stock_hk_daily", {"symbol": "00700", "adjust": "qfq"}),
            ("stock_zh_b_daily", {"symbol": "sh900901"}),
            ("index_us_stock_sina", {"symbol": ".IXIC"}),
        ],
        "tencent": [("stock_zh_index_daily_tx", {"symbol": "sh600519"})],  # adjusted
    }
    for tool, arguments in within[source]:
        yield Case(tool, {**arguments, **span})
    for tool, arguments in whole.get(source, []):
        yield Case(tool, arguments)


async def upstream(dead: str) -> Handler:
    """The simulated sources without those whose domains are `dead`, and with the planted traps."""
    world, answer, domains = World(), simulate(Catalog.load()), frozenset(dead.split(","))

    async def handle(request: web.Request) -> web.Response:
        host, path, query = request.headers.get(ORIGINAL_HOST, ""), request.path, request.query
        if registrable_domain(host) in domains and request.transport is not None:
            request.transport.abort()
            return web.Response()
        about = f"{path} {' '.join(query.values())}"
        if GONE in about or (SWAPPED in about and "sina" in host):
            return web.Response(status=404)
        fields = {
            name: value.replace(SWAPPED, "600519").replace(STRANGE, "930050")
            for name, value in query.items()
        }
        luck = Luck(f"{host} {path} {sorted(fields.items())}", world, path)
        reply = answer(Request(host, path, fields, luck, has_key=False))
        if reply is None:
            return web.Response(status=404)
        headers = {"Content-Type": reply.content_type}
        return web.Response(body=reply.body, status=reply.status, headers=headers)

    return handle

"""Simulated answers of the Eastmoney hosts: price bars, market lists and data centre reports."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from itertools import pairwise

import numpy as np

from adapters.simulator import akshare_bonds, akshare_macro
from adapters.simulator.akshare_companies import REPORTS as COMPANY_REPORTS
from adapters.simulator.akshare_company_trades import TRADES, link_page
from adapters.simulator.keys import key_of
from adapters.simulator.shapes import (
    GROUPED,
    HISTORY,
    MOST,
    Luck,
    Payload,
    Query,
    Reply,
    Row,
    as_json,
    asked,
    bar_days,
    grouped,
    read_day,
    script,
    to_json,
)
from adapters.simulator.world import derivatives
from adapters.simulator.world.calendar import between
from adapters.simulator.world.companies import (
    FREE,
    industry_of,
    issued,
    listed_of,
    listing_day,
    turnover,
    valuations,
)
from adapters.simulator.world.instruments import Instrument
from adapters.simulator.world.world import Bar, World

# --- push2 family of Eastmoney -------------------------------------------------------------------


_MINUTES: Mapping[str, int] = {size: int(size) for size in ("1", "5", "15", "30", "60")}
"""Eastmoney's numbers of minutes."""

MOST_MINUTES = 2_000
"""The bars of minutes in one answer: those of the last days."""


def _kline(query: Query, rng: Luck) -> Reply:
    """Price bars of one security, the values that `fields2` asks for to a comma-separated line;
    none for a code without the number of its market.
    """
    market, _, code = query.get("secid", "1.600901").partition(".")
    if not (market.isdecimal() and re.fullmatch(r"[\w.-]{1,20}", code)):
        return as_json({"rc": 100, "rt": 17, "data": None})
    klt, world = query.get("klt", "101"), rng.world
    one = world.instrument(key_of(market, code))
    first, last = read_day(query.get("beg")), read_day(query.get("end"))
    adjust = {"1": "qfq", "2": "hfq"}.get(query.get("fqt", "0"), "")
    if klt in _MINUTES:
        bars = minutes(world, one.key, _MINUTES[klt], first=first, last=last, adjust=adjust)
    else:
        days = bar_days(world, first, last, MOST if first else HISTORY, one.exchange)
        start = None if klt in GROUPED or not days else days[0]
        bars = grouped(world.bars(one.key, start, adjust=adjust), klt) if days else []
        bars = [bar for bar in bars if days[0] <= bar.day <= days[-1]]
    if not first and query.get("lmt", "").isdecimal():
        bars = bars[-int(query["lmt"]) :]
    places = [int(field[1:]) - 51 for field in query.get("fields2", "").split(",") if field]
    lines = _lines(world, one, bars, has_more=any(place > 10 for place in places))
    if wanted := [place for place in places if 0 <= place < 14]:
        cells = (line.split(",") for line in lines)
        lines = [",".join(line[place] for place in wanted) for line in cells]
    data = {"code": code, "market": int(market), "decimal": one.digits, "klines": lines}
    return as_json({"rc": 0, "rt": 17, "data": data | {"name": one.name}})


def _lines(world: World, one: Instrument, bars: Sequence[Bar], *, has_more: bool) -> list[str]:
    digits, paid = one.digits, world.paid(one.key, bars)
    lines = [
        f"{_when(bar.day)},{bar.open:.{digits}f},{bar.close:.{digits}f},{bar.high:.{digits}f},"
        f"{bar.low:.{digits}f},{bar.volume},{amount:.2f},"
        f"{(bar.high - bar.low) / bar.before * 100:.2f},{bar.change:.2f},"
        f"{bar.close - bar.before:.{digits}f},{turnover(one, bar.volume):.2f}"
        for bar, amount in zip(bars, paid, strict=True)
    ]
    if has_more:  # what is held of a future, and how much more than the day before
        held = [0] * len(bars)
        if one.kind == "future":
            held = derivatives.open_interest(world, one.key, [bar.day for bar in bars])
        more = [0, *(b - a for a, b in pairwise(held))][: len(held)]
        lines = [f"{line},0,{n},{m}" for line, n, m in zip(lines, held, more, strict=True)]
    return lines


def _when(day: date) -> str:
    return f"{day:%Y-%m-%d %H:%M}" if isinstance(day, datetime) else f"{day}"


def minutes(
    world: World,
    key: str,
    size: int,
    days: int = 0,
    *,
    first: date | None = None,
    last: date | None = None,
    adjust: str = "",
) -> list[Bar]:
    """The bars of the last minutes, of so many days or as many as one answer holds."""
    made, digits, found = world.history(key), world.instrument(key).digits, list[Bar]()
    where = range(len(made.days))[between(made.days, first, last)]
    for number, at in enumerate(reversed(where), start=1):
        of_day = world.minutes(key, made.days[at], size)
        if adjust:
            by = float(made.factor[at] / (made.factor[-1] if adjust == "qfq" else 1.0))
            prices = [
                np.round(np.array([getattr(b, n) for n in _PRICES]) * by, digits) for b in of_day
            ]
            of_day = [
                bar._replace(**dict(zip(_PRICES, price.tolist(), strict=True)))
                for bar, price in zip(of_day, prices, strict=True)
            ]
        found[:0] = of_day
        if number == days or (not days and len(found) + len(of_day) > MOST_MINUTES):
            break
    return found


_PRICES = ("open", "high", "low", "close", "before")


def _trends(query: Query, rng: Luck) -> Reply:
    """The minutes of one security in the last days: time, open, close, high, low, volume, amount
    and the day's mean price, of which `fields2` asks for some.
    """
    market, _, code = query.get("secid", "0.000001").partition(".")
    one = rng.world.instrument(key_of(market, code))
    places = [int(field[1:]) - 51 for field in query.get("fields2", "").split(",") if field]
    lines, sold, worth, day = list[str](), 0, 0.0, ""
    bars = minutes(rng.world, one.key, 1, int(query.get("ndays", "1")))
    for bar, amount in zip(bars, rng.world.paid(one.key, bars), strict=True):
        if (when := _when(bar.day))[:10] != day:
            sold, worth, day = 0, 0.0, when[:10]
        sold, worth = sold + bar.volume, worth + bar.volume * (bar.open + bar.close) / 2
        prices = (f"{price:.{one.digits}f}" for price in (bar.open, bar.close, bar.high, bar.low))
        mean = worth / sold if sold else bar.close
        cells = [when, *prices, f"{bar.volume}", f"{amount:.2f}", f"{mean:.3f}"]
        lines.append(",".join(cells[place] for place in places or range(8) if 0 <= place < 8))
    data = {"code": code, "market": int(market), "decimal": one.digits, "trends": lines}
    told = {"rc": 0, "rt": 10, "data": data | {"name": one.name}}
    call = query.get("cb", "")
    return script(f"{call}({to_json(told)});") if call else as_json(told)


def _stock(query: Query, rng: Luck) -> Reply:
    """What is known of one share at the close: names, shares, prices and the queue of orders."""
    market, _, code = query.get("secid", "0.000001").partition(".")
    one = rng.world.instrument(key_of(market, code))
    bar, rng = rng.world.latest(one.key, 1)[-1], rng.about("orders", code)
    free, mean = round(one.shares * FREE), (bar.open + bar.high + bar.low + bar.close) / 4
    data: dict[str, object] = {"f57": code, "f58": one.name, "f84": one.shares, "f85": free}
    data |= {"f116": round(bar.close * one.shares, 2), "f117": round(bar.close * free, 2)}
    data |= {"f127": industry_of(rng.world, one)}
    data |= {"f189": int(f"{listing_day(rng.world, one):%Y%m%d}"), "f43": bar.close}
    data |= {"f44": bar.high, "f45": bar.low, "f46": bar.open}
    data |= {"f60": bar.before, "f71": round(mean, 2), "f170": round(bar.change, 2)}
    data |= {"f169": round(bar.close - bar.before, 2), "f47": bar.volume, "f50": 1.0}
    data |= {"f48": round(bar.volume * 100 * (bar.open + bar.close) / 2, 2)}
    data |= {"f168": round(bar.volume * 1e4 / (one.shares or 5e9), 2)}
    limit = one.limit or 0.1
    data |= {"f51": round(bar.before * (1 + limit), 2), "f52": round(bar.before * (1 - limit), 2)}
    data |= {"f49": bar.volume // 2, "f161": bar.volume - bar.volume // 2}
    for step in range(5):  # f11 to f20 are the bids, the lowest first; f31 to f40 the offers
        bid, offer = bar.close - 0.01 * (5 - step), bar.close + 0.01 * (5 - step)
        data |= {f"f{11 + 2 * step}": round(bid, 2), f"f{12 + 2 * step}": rng.randint(1, 900)}
        data |= {f"f{31 + 2 * step}": round(offer, 2), f"f{32 + 2 * step}": rng.randint(1, 900)}
    return as_json({"rc": 0, "rt": 4, "svr": 177617938, "lt": 1, "full": 1, "data": data})


def _codes(query: Query, rng: Luck) -> Reply:
    """The one-page list from which AkShare learns the market of an index code."""
    markets = {f"000{n:03}": 1 for n in range(1, 1000)} | {f"399{n:03}": 0 for n in range(1, 1000)}
    rows = [{"f3": round(rng.gauss(0, 1), 2), "f12": c, "f13": m} for c, m in markets.items()]
    return as_json({"rc": 0, "data": {"total": len(rows), "diff": rows}})


def _connect(query: Query, rng: Luck) -> Reply:
    """Minute net inflows of the northbound and southbound links; the total is the sum."""
    clock = [f"{9 + m // 60}:{m % 60:02}" for m in (*range(30, 151), *range(241, 361))]
    today = rng.world.now.isoformat()
    data: dict[str, object] = {"s2nDate": today, "n2sDate": today}
    for way in ("s2n", "n2s"):
        one, two, lines = 0.0, 0.0, list[str]()
        for moment in clock:
            one, two = one + rng.gauss(0, 4e3), two + rng.gauss(0, 4e3)
            left = f"{5.2e6 - one:.2f},{two:.2f},{5.2e6 - two:.2f}"
            lines.append(f"{moment},{one:.2f},{left},{one + two:.2f},0,0,0,0")
        data[way] = lines
    return as_json({"rc": 0, "data": data})


def _limit_up(query: Query, rng: Luck) -> Reply:
    """The shares that rose most on a day, in the form of those at their limit; prices are in
    thousandths.
    """
    pool, world, day = list[Row](), rng.world, read_day(query.get("date"))
    for key in listed_of(world, day) if day in world.days("CN") else ():
        one, (bar,) = world.instrument(key), world.bars(key, day, day)
        luck, free = rng.about("limit up", day, key), round(one.shares * FREE)
        amount = round(world.paid(key, [bar])[0])
        pool.append(
            {"c": one.code, "m": int(key[:2] == "sh"), "n": one.name, "p": round(bar.close * 1000)}
            | {"zdp": round(bar.change, 4), "amount": amount, "ltsz": round(bar.close * free, 2)}
            | {"tshare": round(bar.close * one.shares, 2)}
            | {"hs": round(turnover(one, bar.volume), 4), "lbc": 1}
            | {"fbt": 93000 + luck.randint(0, 59), "lbt": 145000 + luck.randint(0, 59)}
            | {"fund": round(amount * luck.uniform(0.02, 0.2)), "zbc": luck.randint(0, 3)}
            | {"hybk": industry_of(world, one), "zttj": {"days": 1, "ct": 1}}
        )
    return as_json({"rc": 0, "data": {"tc": len(pool), "qdate": query.get("date"), "pool": pool}})


# --- Eastmoney data centre: one address, many reports ---------------------------------------------


def _valuation(query: Query, rng: Luck) -> Sequence[Row]:
    """Daily valuation of one stock, newest first; market value is price times shares."""
    code, world = asked(query, "SECURITY_CODE"), rng.world
    one, first = world.instrument(key_of("", code)), bar_days(world)[0]
    total, known = issued(one), valuations(world, key_of("", code), first)
    free = round(total * FREE)
    changes = {bar.day: bar.change for bar in world.bars(one.key, first)}
    return [
        {"SECURITY_CODE": code, "TRADE_DATE": f"{each.day} 00:00:00", "CLOSE_PRICE": each.close}
        | {"CHANGE_RATE": round(changes[each.day], 4), "TOTAL_SHARES": total}
        | {"FREE_SHARES_A": free, "TOTAL_MARKET_CAP": each.value}
        | {"NOTLIMITED_MARKETCAP_A": round(each.close * free, 2), "PE_TTM": each.earnings}
        | {"PE_LAR": each.earnings_of_year, "PB_MRQ": each.book, "PEG_CAR": each.growth}
        | {"PCF_OCF_TTM": each.cash, "PS_TTM": each.sales}
        for each in reversed(known)
    ]


def _focus(query: Query, rng: Luck) -> Sequence[Row]:
    """User attention to one stock over the last thirty weekdays, newest first."""
    code, days = asked(query, "SECURITY_CODE"), bar_days(rng.world, most=30)
    return [
        {"SECURITY_CODE": code, "TRADE_DATE": f"{day} 00:00:00", "MARKET_FOCUS": round(value, 1)}
        for day, value in zip(days, rng.world.series(f"focus {code}", days, 78, 0.01), strict=True)
    ][::-1]


def _products(query: Query, rng: Luck) -> Sequence[Row]:
    """Futures products by Chinese name."""
    names = {"A": "豆一", "CU": "沪铜", "RB": "螺纹钢", "AU": "沪金", "M": "豆粕", "I": "铁矿石"}
    return [{"TRADE_MARKET_CODE": "1", "TRADE_CODE": c, "TRADE_TYPE": n} for c, n in names.items()]


def _warrants(query: Query, rng: Luck) -> Sequence[Row]:
    """Warehouse stock of one futures product with its daily change, newest first."""
    code, days = asked(query, "SECURITY_CODE"), bar_days(rng.world)
    stock = [round(n) for n in rng.world.series(f"stock of {code}", days, 24000, 0.01)]
    return [
        {"SECURITY_CODE": code, "TRADE_DATE": str(day), "ON_WARRANT_NUM": now, "ADDCHANGE": now - b}
        for day, b, now in zip(days[1:], stock, stock[1:], strict=False)
    ][::-1]


_REPORTS: Mapping[str, Callable[[Query, Luck], Sequence[Row]]] = {
    **akshare_bonds.REPORTS,
    **akshare_macro.REPORTS,
    **COMPANY_REPORTS,
    **TRADES,
    "RPT_VALUEANALYSIS_DET": _valuation,
    "RPT_STOCK_MARKETFOCUS": _focus,
    "RPT_FUTU_POSITIONCODE": _products,
    "RPT_FUTU_STOCKDATA": _warrants,
}


def _report(query: Query, rng: Luck) -> Reply:
    """One data centre report, whole on its first page; an unknown one is refused as upstream."""
    make = _REPORTS.get(query.get("reportName") or query.get("type", ""))
    if make is None:
        refusal = {"success": False, "message": "报表配置不存在", "code": 9501}
        return as_json({"version": None, "result": None} | refusal)
    rows = make(query, rng)
    result = {"pages": 1, "data": rows, "count": len(rows)}
    return as_json({"version": "1", "result": result, "success": True, "message": "ok", "code": 0})


_KLINE = "/api/qt/stock/kline/get"
_TRENDS = "/api/qt/stock/trends2/get"
EASTMONEY: Mapping[tuple[str, str], Payload] = {
    ("push2his.eastmoney.com", _KLINE): _kline,
    **{(f"{n}.push2his.eastmoney.com", _KLINE): _kline for n in (7, 33, 63, 91)},
    ("push2his.eastmoney.com", _TRENDS): _trends,
    ("push2.eastmoney.com", _TRENDS): _trends,
    ("80.push2.eastmoney.com", "/api/qt/clist/get"): _codes,
    ("push2.eastmoney.com", "/api/qt/kamtbs.rtmin/get"): _connect,
    ("push2.eastmoney.com", "/api/qt/stock/get"): _stock,
    ("push2ex.eastmoney.com", "/getTopicZTPool"): _limit_up,
    ("data.eastmoney.com", "/hsgtcg/list.html"): link_page,
    ("datacenter.eastmoney.com", "/api/data/get"): _report,
    ("datacenter.eastmoney.com", "/securities/api/data/get"): _report,
    ("datacenter.eastmoney.com", "/securities/api/data/v1/get"): _report,
    ("datacenter-web.eastmoney.com", "/api/data/get"): _report,
    ("datacenter-web.eastmoney.com", "/api/data/v1/get"): _report,
}

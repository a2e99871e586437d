"""Checks of a world: identities between its views, and what returns of real markets are like.

Identities are read from the payloads that the simulated upstream answers, as a caller would. The
facts are the eleven of R. Cont, "Empirical properties of asset returns: stylized facts and
statistical issues", Quantitative Finance 1 (2001), over the shares of Shanghai and Shenzhen.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import islice, pairwise
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from adapters.simulator.akshare import PAYLOADS
from adapters.simulator.akshare_quotes import quote
from adapters.simulator.rapidapi import document
from adapters.simulator.shapes import MONEY, MOST, Luck
from adapters.simulator.world import companies, derivatives
from adapters.simulator.world.calendar import trading_days
from adapters.simulator.world.economy import (
    COUNTRIES,
    Curve,
    Event,
    bond,
    events,
    figures,
    issued,
)
from adapters.simulator.world.instruments import CHINA, FUTURES, LISTED
from adapters.simulator.world.world import ANCHOR, Floats, World

_KLINE = ("push2his.eastmoney.com", "/api/qt/stock/kline/get")
_REPORT = ("datacenter-web.eastmoney.com", "/api/data/v1/get")
_CSINDEX = ("www.csindex.com.cn", "/csindex-home/perf/index-perf")
_LIST = (
    "vip.stock.finance.sina.com.cn",
    "/quotes_service/api/json_v2.php/Market_Center.getHQNodeData",
)
_TREASURY = "RPTA_WEB_TREASURYYIELD"

LEAST_FACTS = 9
"""How many of the eleven facts a world must have."""

RANGES = 2
"""The ranges of each instrument that are compared with the whole."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one check found: how many things it compared, and up to three that are wrong."""

    name: str
    checked: int
    wrong: tuple[str, ...] = ()


def identities(world: World) -> Iterator[Verdict]:
    """What must hold between the views of a world, check by check."""
    return (_verdict(check.__doc__ or "", check(world)) for check in _IDENTITIES)


def facts(world: World) -> list[tuple[str, float, bool]]:
    """The stylised facts: what was measured, and whether it is as in real markets."""
    returns = [_returns(world, one.key) for one in CHINA]
    return [
        (name, round(figure, 4), is_so(figure)) for name, figure, is_so in _facts(world, returns)
    ]


Found = Iterator[tuple[int, Iterable[str]]]
"""How many things were compared, and which are wrong."""


def _verdict(text: str, found: Found) -> Verdict:
    checked, wrong = 0, list[str]()
    for number, problems in found:
        checked += number
        wrong += islice(problems, 3 - len(wrong))
    return Verdict(text.rstrip("."), checked, tuple(wrong))


def _one(is_so: bool, text: object) -> tuple[int, Iterable[str]]:
    return 1, () if is_so else (str(text),)


def _each(are_so: NDArray[np.bool_], key: str, days: Sequence[date]) -> tuple[int, Iterable[str]]:
    return len(days), (f"{key} {days[place]}" for place in np.flatnonzero(~are_so).tolist())


def _body(world: World, host: str, path: str, at: str = "", **asked: str) -> bytes:
    """What is answered on a path, or on that part of it which a path with `*` stands for."""
    return PAYLOADS[host, path](asked, Luck("", world, at or path)).body


def _view(world: World, host: str, path: str, **asked: str) -> Any:
    """The JSON that is answered, whatever is around it; of a data centre the rows of a report."""
    body = _body(world, host, path, **asked)
    start = min(place for place in map(body.find, (b"[", b"{")) if place >= 0)
    answer = orjson.loads(body[start : 1 + max(map(body.rfind, (b"]", b"}")))])
    return answer["result"]["data"] if "result" in answer else answer


def _lines(world: World, key: str, klt: str = "101", **asked: str) -> list[str]:
    """The lines that Eastmoney answers about a security of Shanghai or Shenzhen."""
    market = "1" if key.startswith("sh") else "0"
    query = {"secid": f"{market}.{key[2:]}", "klt": klt, "beg": "20050104", **asked}
    lines: list[str] = _view(world, *_KLINE, **query)["data"]["klines"]
    return lines


def _bars(world: World, key: str, klt: str = "101", **asked: str) -> list[list[str]]:
    """The values in these lines."""
    return [line.split(",") for line in _lines(world, key, klt, **asked)]


def _ranges(world: World) -> Found:
    """A range has the prices of the whole history."""
    for one in CHINA:
        whole = _lines(world, one.key)
        for number in range(RANGES):
            first = int(world.luck("range", one.key, number) * (len(whole) - 300))
            some = whole[first : first + 200]
            ends = [line[:10].replace("-", "") for line in (some[0], some[-1])]
            found = _lines(world, one.key, beg=ends[0], end=ends[1])
            yield _one(found == some, f"{one.key} {ends}")


def _ordered(world: World) -> Found:
    """The low is the lowest of a day's prices, the high the highest."""
    for key in LISTED:
        made = world.history(key)
        lowest, highest = np.minimum(made.open, made.close), np.maximum(made.open, made.close)
        yield _each((made.low > 0) & (made.low <= lowest) & (made.high >= highest), key, made.days)


def _limited(world: World) -> Found:
    """A day's change stays within the limit of its exchange."""
    for one in CHINA:
        made = world.history(one.key)
        most = np.round(made.before * (one.limit or 9.0), 2) + 0.0101
        are_so = (made.high - made.before <= most) & (made.before - made.low <= most)
        yield _each(are_so, one.key, made.days)


def _weeks(world: World) -> Found:
    """Weeks and months are their days."""
    for one in CHINA[::4]:
        days = _bars(world, one.key)
        for klt, group in (("102", _week), ("103", lambda day: day[:7])):
            groups: dict[str, list[list[str]]] = {}
            for day in days:
                groups.setdefault(group(day[0]), []).append(day)
            for line in _bars(world, one.key, klt):
                own = groups[group(line[0])]
                wanted = [own[0][1], own[-1][2], max(float(d[3]) for d in own)]
                wanted += [min(float(d[4]) for d in own), sum(int(d[5]) for d in own)]
                found = [line[1], line[2], float(line[3]), float(line[4]), int(line[5])]
                yield _one(found == wanted, f"{one.key} {klt} {line[0]}")


def _week(day: str) -> str:
    return "{}-{}".format(*date.fromisoformat(day).isocalendar())


def _adjusted(world: World) -> Found:
    """An adjusted price is the price times the factor, and its returns have the payouts."""
    for one in CHINA:
        made = world.history(one.key)
        adjusted = np.array([float(line[2]) for line in _bars(world, one.key, fqt="2")])
        yield _each(abs(made.close * made.factor - adjusted) <= 0.00501, one.key, made.days)
        for payout in made.payouts:
            at = made.days.index(payout.day)
            kept = made.close[at - 1] - payout.cash
            expected = kept / (1 + payout.bonus)
            is_so = abs(made.before[at] - expected) < 0.0051 + 0.0006
            yield _one(is_so, f"{one.key} {payout} {made.before[at]} {expected}")


def _indices(world: World) -> Found:
    """An index is its members, weighted."""
    for one in LISTED.values():
        if one.kind == "index" and one.members:
            yield from _basket(world, one.key, 0.0)
            sold = sum(world.history(member).volume for member in one.members)
            made = world.history(one.key)
            yield _each(made.volume == sold, f"{one.key} volume", made.days)


def _funds(world: World) -> Found:
    """A fund is worth its holdings, less its fee."""
    for code in ("sh510300", "sh588000", "sz159915", "us:SPY", "hk02800"):
        yield from _basket(world, code, 0.005 / 365)


def _held(world: World) -> Found:
    """What a fund holds grows as the fund does, and is the fund's whole worth."""
    for code in ("000001", "110011", "005827"):
        host, year = "api.fund.eastmoney.com", str(world.now.year - 1)
        held = _view(world, host, "/f10/HYPZ/", fundCode=code, year=year)
        parts = held["Data"]["QuarterInfos"]
        days = [date.fromisoformat(part["JZRQ"]) for part in parts][::-1]
        told = _view(world, host, "/f10/lsjz", fundCode=code)["Data"]["LSJZList"]
        values = {date.fromisoformat(row["FSRQ"]): float(row["DWJZ"]) for row in told}
        for part in parts:
            whole = sum(float(row["ZJZBL"]) for row in part["HYPZInfo"])
            yield _one(abs(whole - 100) < 0.06, f"{code} {part['JZRQ']} {whole}")
        traded = world.days("CN")
        ends = [traded[bisect_right(traded, day) - 1] for day in days]
        for first, last in pairwise(ends):
            grown = sum(
                weight * _worth_of(world, member, last) / _worth_of(world, member, first)
                for member, weight in world.holdings(f"of{code}", first).items()
            )
            fair = grown * np.exp(-0.005 / 365 * (last - first).days)
            is_so = abs(values[last] / values[first] / fair - 1) < 0.004
            yield _one(is_so, f"{code} {first} {last} {fair}")


def _worth_of(world: World, key: str, day: date) -> float:
    made = world.history(key)
    at = made.days.index(day)
    return float(made.close[at] * made.factor[at])


def _basket(world: World, key: str, fee: float) -> Found:
    one, made = world.instrument(key), world.history(key)
    anchor = made.days.index(date(2024, 1, 2))
    total = np.zeros(len(made.days))
    for member, weight in world.weights(key).items():
        held = world.history(member)
        worth = held.close * held.factor
        total += weight * worth / worth[anchor]
    passed = np.array([(day - made.days[anchor]).days for day in made.days])
    wanted = one.level * total * np.exp(-fee * passed)
    slack = 0.004 + 0.51 * 10.0**-one.digits / wanted
    yield _each(abs(made.close / wanted - 1) < slack, key, made.days)


def _minutes(world: World) -> Found:
    """The minutes of a day are the day, and larger bars are their minutes."""
    for key in (*(one.key for one in CHINA[::6]), "sh000300", "hk00700", "us:AAPL", "coin:BTC"):
        days = world.bars(key)
        for number in range(RANGES):
            day = days[int(world.luck("day", key, number) * len(days))]
            for size in (1, 5, 60):
                bars = world.minutes(key, day.day, size)
                high, low = max(bar.high for bar in bars), min(bar.low for bar in bars)
                sold = sum(bar.volume for bar in bars)
                found = [bars[0].open, high, low, bars[-1].close, sold]
                is_so = found == [*day[1:5], day.volume]
                yield _one(is_so, f"{key} {day.day} {size} {found}")


def _futures(world: World) -> Found:
    """The months of a future differ by their carry, meet the spot, and one of them is the main."""
    for product in (*FUTURES,)[::4]:
        spot, main = world.history(derivatives.spot_of(product)), f"future:{product}0"
        slack, by = 0.51 * 10.0 ** -world.instrument(main).digits, derivatives.carry(world, product)
        for year in range(2012, world.now.year):
            month = derivatives.main_month(product, date(year, 6, 1))
            made, ends = (
                world.history(f"future:{product}{month}"),
                derivatives.expiry(product, month),
            )
            first = spot.days.index(made.days[0])
            left = np.array([(ends - day).days for day in made.days])
            same = spot.close[first : first + len(left)]
            yield _each(abs(made.close - same * np.exp(by * left / 365)) < slack, main, made.days)
            yield _one(
                ends > world.now or made.close[-1] == same[-1], f"{product}{month} at its end"
            )
            day = trading_days("CN", date(year, 6, 1))[-1]
            yield _one(world.close(main, day) == made.close[made.days.index(day)], f"{main} {day}")


def _parity(world: World) -> Found:
    """A call less a put of one strike is the future price less the strike, discounted."""
    for family in ("510050", "510300", "IO", "M", "us.AAPL"):
        for month in derivatives.option_months(family, world.now)[:2]:
            options = derivatives.chain(world, family, month)
            half = len(options) // 2
            for call, put in zip(options[:half:5], options[half::5], strict=True):
                made, other = world.history(call.key), world.history(put.key)
                gap = made.close - other.close
                fair = derivatives.parity(world, call)
                yield _each(abs(gap - fair) < 2.1 * 10.0**-call.digits, call.key, made.days)


def _worth(world: World) -> Found:
    """A company is worth its price times its shares."""
    for one in CHINA:
        query = {"reportName": "RPT_VALUEANALYSIS_DET", "filter": f'(SECURITY_CODE="{one.code}")'}
        for row in _view(world, *_REPORT, **query):
            is_so = abs(row["CLOSE_PRICE"] * row["TOTAL_SHARES"] - row["TOTAL_MARKET_CAP"]) < 1
            day = date.fromisoformat(row["TRADE_DATE"][:10])
            is_so = is_so and row["CLOSE_PRICE"] == world.close(one.key, day)
            yield _one(is_so, f"{one.key} {row['TRADE_DATE']}")


def _stated(world: World) -> Found:
    """Statements add up: assets, profits, cash, quarters and years, and what was paid out."""
    for key, parts in _all_stated(world):
        for part, before in zip(parts, (None, *parts), strict=False):
            own, sheet, total = part.quarter, part.sheet, part.total
            costs = ("cost", "surcharge", "selling", "administration", "research", "finance")
            start = before.total if before and part.period.month > 3 else dict.fromkeys(own, 0)
            sums = (
                (sheet["assets"], sheet["liabilities"] + sheet["equity"]),
                (sheet["equity"], sheet["capital"] + sheet["surplus"] + sheet["retained"]),
                (own["operating_profit"], own["revenue"] - sum(own[cost] for cost in costs)),
                (own["profit"], own["operating_profit"] + own["nonoperating"]),
                (own["net_profit"], own["profit"] - own["tax"]),
                (
                    own["cash_change"],
                    own["operating_cash"] + own["investing_cash"] + own["financing_cash"],
                ),
                (own["financing_cash"], own["borrowed"] + own["raised"] - own["dividends"]),
                (sheet["cash"], before.sheet["cash"] + own["cash_change"] if before else None),
                *((total[name], own[name] + start[name]) for name in own),
            )
            is_so = all(wanted in (found, None) for found, wanted in sums)
            yield _one(is_so and part.published <= world.now, f"{key} {part.period} {sums}")
        paid = sum(part.quarter["dividends"] for part in parts)
        first, last = date(companies.FIRST_YEAR - 1, 12, 31), parts[-1].period
        days = [p for p in world.history(key).payouts if first < p.day <= last]
        cash = sum(round(payout.cash * parts[-1].shares) for payout in days)
        yield _one(paid == cash, f"{key} paid out {paid} {cash}")


def _all_stated(world: World) -> Iterator[tuple[str, tuple[companies.Statement, ...]]]:
    for key, one in LISTED.items():
        if one.kind == "share":
            yield key, companies.statements(world, key)


def _owned(world: World) -> Found:
    """Holders, flows and margin balances add up."""
    for one in CHINA[::3]:
        part = companies.statements(world, one.key)[-1]
        held = companies.holders(world, one.key, part.period)
        percent = sum(holder.percent for holder in held)
        is_so = len({holder.name for holder in held}) == 10 and 0 < percent <= 100
        parts = (abs(h.shares / part.shares * 100 - h.percent) < 1e-4 for h in held)
        yield _one(is_so and all(parts), f"{one.key} {held}")
        for flow in companies.flows(world, one.key):
            zero = flow.super_large + flow.large + flow.medium + flow.small
            yield _one(zero == 0, f"{one.key} {flow}")
        margins = companies.margins(world, one.key, world.now - timedelta(60), world.now)
        for a, b in pairwise(margins):
            is_so = b.owed == a.owed + b.bought - b.repaid and b.repaid >= 0
            is_so = is_so and b.lent == a.lent + b.sold - b.returned
            yield _one(is_so, f"{one.key} {a} {b}")


def _told(world: World) -> Found:
    """Reports, pages and other hosts tell the same of a company."""
    for key, parts in _all_stated(world):
        one, last = LISTED[key], [part for part in parts if part.is_annual][-1]
        told: Any = document(
            "/income", {"symbol": one.code if one.exchange == "US" else key}, world
        )
        year = told["periods"][0]
        figures = (year["revenue"], year["netIncome"], year["totalAssets"], year["eps"])
        if one.exchange != "CN":
            wanted = (last.total["revenue"], last.total["net_profit"], last.sheet["assets"])
            yield _one(figures[:3] == wanted, f"{key} {figures} {wanted}")
            continue
        asked = f'(SECUCODE="{one.code}.{key[:2].upper()}")'
        query = {"type": "RPT_F10_FINANCE_MAINFINADATA", "filter": asked}
        for row in _view(world, *_REPORT, **query):
            if row["REPORT_DATE"][:10] == f"{last.period}":
                wanted = (row["TOTALOPERATEREVE"], row["PARENTNETPROFIT"], row["EPSJB"])
                is_so = (figures[0], figures[1], figures[3]) == wanted
                yield _one(is_so, f"{key} {figures} {wanted}")
    values = {each.day: each for each in companies.valuations(world, CHINA[0].key)}
    query = {"tag": "市净率", "code": CHINA[0].code, "chart_select": "近一年"}
    answer = _view(world, "gushitong.baidu.com", "/opendata", **query)["Result"][0]["DisplayData"]
    for day, text in answer["resultData"]["tplData"]["result"]["chartInfo"][0]["body"]:
        yield _one(f"{values[date.fromisoformat(day)].book:.2f}" == text, f"{day} {text}")


def _ratios(world: World) -> Found:
    """Lists, quotes and reports tell the same multiples of a company, which make its index's."""
    rows = _view(world, *_LIST, node="hs300")
    sina = {row["symbol"]: (row["per"], row["pb"]) for row in rows}
    worth = income = 0.0
    for key in LISTED["sh000300"].members:
        asked = {"type": "RPT_VALUEANALYSIS_DET", "filter": f'(SECURITY_CODE="{key[2:]}")'}
        last = _view(world, *_REPORT, **asked)[0]
        told, both = quote(world, key), (last["PE_TTM"], last["PB_MRQ"])
        asked = {"symbol": key.upper()}
        snow = _view(world, "stock.xueqiu.com", "/v5/stock/quote.json", **asked)["data"]["quote"]
        is_so = both == (told["f115"], told["f23"]) == (snow["pe_ttm"], snow["pb"])
        yield _one(is_so and sina[key] == tuple(round(n, 3) for n in both), f"{key} {both} {told}")
        value = last["TOTAL_MARKET_CAP"]
        worth, income = worth + value, income + value / both[0]
    days = {"startDate": f"{world.now:%Y%m%d}", "endDate": f"{world.now:%Y%m%d}"}
    for row in _view(world, *_CSINDEX, indexCode="000300", **days)["data"]:
        yield _one(abs(row["peg"] - worth / income) < 0.006, f"{row['peg']} {worth / income}")


def _spot(world: World) -> Found:
    """Pages on the spot and the main month of a good tell the same prices."""
    host, day = "www.100ppi.com", world.days("CN")[-1]
    found = list[dict[str, list[str]]]()
    cells = r"<tr><td>([^<]+)</td><td>([\d.]+)</td>{}<td>[A-Z]*(\d+)</td><td>([\d.]+)</td>"
    near = r"<td>\d+</td><td>[\d.]+</td><td></td>"
    for folder, place, between in (("sf", "day-*", near), ("sf2", "day-*.html", "")):
        page = _body(world, host, f"/{folder}/{place}", f"/{folder}/day-{day}.html").decode()
        found.append({name: told for name, *told in re.findall(cells.format(between), page)})
    for name in found[0].keys() & found[1].keys():
        yield _one(found[0][name] == found[1][name], f"{name} {found[0][name]} {found[1][name]}")


def _sources(world: World) -> Found:
    """Sources that tell the same fact tell one number."""
    for code in ("000300", "000016", "000905"):
        first = f"{world.now - timedelta(400):%Y%m%d}"
        query = {"indexCode": code, "startDate": first, "endDate": f"{world.now:%Y%m%d}"}
        traded = {line[0].replace("-", ""): float(line[2]) for line in _bars(world, f"sh{code}")}
        for row in _view(world, *_CSINDEX, **query)["data"]:
            yield _one(traded[row["tradeDate"]] == row["close"], f"{code} {row['tradeDate']}")
    for one in CHINA[::5]:
        lines, asked = _bars(world, one.key, beg=first), {"param": f"{one.key},day,,,{MOST},"}
        told = _view(
            world, "proxy.finance.qq.com", "/ifzqgtimg/appstock/app/newfqkline/get", **asked
        )["data"]
        for line, other in zip(lines[::-1], told[one.key]["day"][::-1], strict=False):
            yield _one([*map(float, line[1:5])] == [*map(float, other[1:5])], f"{line} {other}")
            shares = float(line[5]) * 100 / companies.free_shares(one) * 100
            is_so = line[10] == other[7] and abs(float(line[10]) - shares) < 0.006
            yield _one(is_so, f"turnover {line} {other}")
        query = {"symbol": one.key, "scale": "30", "datalen": "8"}
        path = "/cn/api/jsonp_v2.php/*/CN_MarketDataService.getKLineData"
        spans = [float(row["close"]) for row in _view(world, "quotes.sina.cn", path, **query)]
        minutes: Any = document("/chart", {"symbol": one.key, "interval": "30min"}, world)
        both = [[bar["close"] for bar in minutes["bars"]]]
        both.append([float(line[2]) for line in _bars(world, one.key, "30")[-8:]])
        yield _one(both == [spans, spans] and spans[-1] == float(lines[-1][2]), one.key)
    for one in [one for one in LISTED.values() if one.exchange in ("US", "CN")][::5]:
        if one.kind == "share":
            quote: Any = document("/quote", {"symbol": one.code}, world)
            chart: Any = document("/chart", {"symbol": one.code}, world)
            last = chart["bars"][-1]["close"]
            is_so = quote["price"] == last == world.close(one.key)
            yield _one(is_so, f"{one.key} {quote} {last}")


def _rates(world: World) -> Found:
    """Cross rates follow from one another."""

    def rate(base: str, quote: str) -> float:
        asked = {"from_currency": base, "to_currency": quote}
        answer: Any = document("/exchange-rate", asked, world)
        return float(answer["rate"])

    known = ("USD", "EUR", "GBP", "CNY", "JPY", "HKD")
    for a in known:
        for b in known:
            for c in known:
                both, direct = rate(a, b) * rate(b, c), rate(a, c)
                slack = 1e-5 + 1e-6 / min(rate(a, b), rate(b, c), direct)
                yield _one(abs(both / direct - 1) < slack, f"{a} {b} {c} {both} {direct}")


def _exchange(world: World) -> Found:
    """A rate of exchange is one number in every tool."""
    scoop, pae = "api.currencyscoop.com", "finance.pae.baidu.com"
    rows = _view(world, pae, "/api/getforeignrank", type="rmb")["Result"]
    ranked = {row["code"]: float(row["list"][0]["value"]) for row in rows}
    for base in MONEY.values():
        wanted = world.rate(base, "CNY")
        latest = _view(world, scoop, "/v1/latest", base=base)["response"]["rates"]["CNY"]
        asked = {"from": base, "to": "CNY", "amount": "1"}
        worth = _view(world, scoop, "/v1/convert", **asked)["response"]["value"]
        every: Any = document("/rates", {"base": base}, world)
        one: Any = document("/exchange-rate", {"from_currency": base, "to_currency": "CNY"}, world)
        exact = {latest, worth, every["rates"]["CNY"], one["rate"]}
        days = {"startdate": str(world.now - timedelta(20)), "enddate": str(world.now)}
        asked = {"money_code": base, **days}
        page = _body(world, "biz.finance.sina.com.cn", "/forex/forex.php", **asked).decode("gbk")
        day, *_, middle, _ = re.findall(r"<td>([\d.-]+)</td>", page)[:6]
        is_so = exact == {round(wanted, 6)} and abs(ranked[f"{base}CNY"] - wanted) < 6e-5
        at_bank = 100 * world.rate(base, "CNY", date.fromisoformat(day))
        is_so = is_so and abs(float(middle) - at_bank) < 0.0051
        yield _one(is_so, f"{base} {exact} {ranked[f'{base}CNY']} {middle}")


def _curves(world: World) -> Found:
    """The yield of a term is one number, and its spread is the difference."""
    days = {str(day): day for day in world.days("CN")[-60:]}
    first, *_, last = days.values()
    told = {str(e.day): e.actual for e in events(world, first, last) if _is_ten_years(e)}
    names = {"5": "EMM00166462", "10": "EMM00166466", "30": "EMM00166469"}
    host, path = "www.chinamoney.com.cn", "/ags/ms/cm-u-bk-currency/ClsYldCurvHis"
    for row in _view(world, "datacenter.eastmoney.com", "/api/data/get", type=_TREASURY):
        if (day := row["SOLAR_DATE"][:10]) not in days:
            continue
        asked = {"startDate": day, "endDate": day, "bondType": "CYCC000"}
        known = {
            one["yearTermStr"]: float(one["maturityYieldStr"])
            for one in _view(world, host, path, **asked)["records"]
        }
        is_so = all(known[f"{term}.0"] == row[name] for term, name in names.items())
        spread = round(row["EMM00166466"] - row["EMM00588704"], 4)
        yield _one(is_so and spread == row["EMM01276014"], f"{day} {row} {known}")
        yield _one(told[day] == round(row["EMM00166466"], 3), f"{day} {told[day]}")


def _is_ten_years(event: Event) -> bool:
    return event.country == "CN" and event.title.startswith("10年期")


def _bonds(world: World) -> Found:
    """A bond's price is what its payments are worth at its yield."""
    for one in issued(world, "treasury", date(2012, 1, 1), world.now)[::3]:
        bars = one.bars(world, world.now - timedelta(900))[::40]
        days = [bar.day for bar in bars]
        full = np.array([bar.close for bar in bars]) + one.accrued(days)
        for day, price, rate in zip(days, full, one.yields(days, full), strict=True):
            years, paid = one.left([day])
            worth = float((paid * (1 + rate / 100) ** -years).sum())
            zeros = np.expm1(Curve(world, "CN", [day]).zero(years) / 100)[paid > 0] * 100
            is_so = abs(worth - price) < 1e-6
            is_so = is_so and zeros.min() - 0.2 <= rate <= zeros.max() + 0.2
            yield _one(is_so, f"{one.code} {day} {price} {rate}")


def _quotes(world: World) -> Found:
    """What is quoted of a bond is the last day of its history."""
    for row in _view(world, *_LIST, node="hs_z")[::5]:
        (bar,) = world.latest(row["symbol"], 1)
        told = [row[name] for name in ("open", "high", "low", "trade", "settlement", "volume")]
        is_so = told == [*bar[1:]] == [*bond(world, row["code"]).bars(world, bar.day)[-1][1:]]
        yield _one(is_so, f"{row} {bar}")


def _convertibles(world: World) -> Found:
    """A convertible bond converts into shares at their close, and its premium follows."""
    for row in _view(world, "www.jisilu.cn", "/data/cbnew/cb_list_new/")["rows"]:
        cell = row["cell"]
        asked = {"type": "RPTA_WEB_KZZ_LS", "filter": f'(zcode="{row["id"]}")'}
        last = _view(world, "datacenter-web.eastmoney.com", "/api/data/get", **asked)[-1]
        worth = 100 * cell["sprice"] / cell["convert_price"]
        is_so = cell["sprice"] == world.close(bond(world, row["id"]).share)
        is_so = is_so and abs(cell["convert_value"] - last["SWAPVALUE"]) < 0.0051
        is_so = is_so and abs(worth - last["SWAPVALUE"]) < 0.0001
        is_so = is_so and cell["price"] == last["FCLOSE"]
        is_so = is_so and abs(cell["premium_rt"] - last["SWAPOR"]) < 0.0051
        yield _one(is_so, f"{cell} {last}")


def _released(world: World) -> Found:
    """A change on the year follows from the series, is one number, and is known once released."""
    house = {"reportName": "RPT_ECONOMY_HOUSE_PRICE", "filter": '(CITY in ("北京","上海"))'}
    rows = _view(world, *_REPORT, **house)
    bases = {(row["CITY"], row["REPORT_DATE"][:7]): row["FIRST_COMHOUSE_BASE"] for row in rows}
    for row in rows:
        year, month = row["REPORT_DATE"][:4], row["REPORT_DATE"][4:7]
        before = bases.get((row["CITY"], f"{int(year) - 1}{month}"))
        wanted = before and row["FIRST_COMHOUSE_BASE"] / before * 100
        is_so = before is None or abs(wanted - row["FIRST_COMHOUSE_SAME"]) < 0.0051
        yield _one(is_so and row["REPORT_DAY"][:10] <= str(world.now), str(row))
    asked: Any = document("/v1/inflation", {}, world)
    since = world.now - timedelta(100)
    told = {(e.country, e.title): e.actual for e in events(world, since, world.now)}
    for one in asked:
        is_so = one["yearly_rate_pct"] == told[one["country"], "CPI同比"]
        yield _one(is_so and one["released"] <= str(world.now), str(one))
    earlier = World(world.seed, ANCHOR + (world.now - ANCHOR) // 2)
    for country in COUNTRIES:
        for name in ("CPI", "GDP", "unemployment"):
            a, b = figures(earlier, country, name), figures(world, country, name)
            is_so = a == b[: len(a)] and a[-1].released <= earlier.now
            yield _one(is_so and all(one.released > earlier.now for one in b[len(a) :]), name)


def _days(world: World) -> Found:
    """Days of trading are those of the exchange, and none lies after the world's."""
    for key, one in LISTED.items():
        days = world.history(key).days
        is_so = days == world.days(one.exchange) and days[-1] <= world.now
        yield _one(is_so and all(a < b for a, b in pairwise(days)), key)


def _later(world: World) -> Found:
    """A later day adds to histories and statements and changes nothing in them."""
    earlier = World(world.seed, ANCHOR + (world.now - ANCHOR) // 2)
    for key in LISTED:
        a, b = earlier.history(key), world.history(key)
        number = len(a.days)
        is_so = all(
            np.array_equal(getattr(a, name), getattr(b, name)[:number])
            for name in ("open", "high", "low", "close", "before", "volume", "factor")
        )
        if LISTED[key].kind == "share":
            parts = companies.statements(earlier, key)
            is_so = is_so and parts == companies.statements(world, key)[: len(parts)]
        yield _one(is_so, key)


_IDENTITIES: tuple[Callable[[World], Found], ...] = (
    *(_exchange, _curves, _ordered, _adjusted, _bonds, _quotes, _convertibles, _released),
    *(_limited, _ranges, _weeks, _indices, _funds, _held, _worth, _sources, _rates),
    *(_minutes, _futures, _parity, _days, _later, _stated, _owned, _told, _ratios, _spot),
)


def _returns(world: World, key: str) -> Floats:
    made = world.history(key)
    found: Floats = np.diff(np.log(made.close * made.factor))
    return found


def _facts(
    world: World, returns: list[Floats]
) -> Iterator[tuple[str, float, Callable[[float], bool]]]:
    def mean(of: Callable[[Floats], float]) -> float:
        return float(np.mean([of(one) for one in returns]))

    lags = range(1, 11)
    linear = max(abs(mean(lambda r, lag=lag: _lagged(r, r, lag))) for lag in lags)  # type: ignore[misc]
    yield "no autocorrelation of returns: the greatest of lags 1 to 10", linear, lambda x: x < 0.04
    tail = mean(_hill)
    yield "heavy tails: Hill's index of the largest 2 %", tail, lambda x: 2 < x < 6
    skew = float(np.mean([_skew(_summed(r, 20)) for r in returns]))
    yield "gains and losses differ: skewness of 20 days", skew, lambda x: x < 0
    narrower = mean(_kurtosis) - mean(lambda r: _kurtosis(_summed(r, 40)))
    yield "aggregation towards normal: kurtosis of 1 day less that of 40", narrower, lambda x: x > 1
    bursts = mean(_bursts)
    yield "intermittency: variance by mean of large moves a month", bursts, lambda x: x > 1.2
    near = mean(lambda r: float(np.mean([_lagged(abs(r), abs(r), lag) for lag in lags])))
    yield "volatility clusters: autocorrelation of sizes, lags 1 to 10", near, lambda x: x > 0.08
    left = mean(lambda r: _kurtosis(_standard(r)))
    yield "heavy tails remain: kurtosis by the volatility of 20 days", left, lambda x: x > 3.2
    far = mean(lambda r: float(np.mean([_lagged(abs(r), abs(r), lag) for lag in range(40, 61)])))
    is_slow = 0.01 < far < 0.6 * near
    yield "slow decay: autocorrelation of sizes, lags 40 to 60", far, lambda _: is_slow
    lever = mean(lambda r: float(np.mean([_lagged(r, abs(r), lag) for lag in range(1, 6)])))
    yield "leverage: returns and later sizes", lever, lambda x: x < -0.01
    traded = float(
        np.mean([
            np.corrcoef(np.log(world.history(one.key).volume[1:]), abs(r))[0, 1]
            for one, r in zip(CHINA, returns, strict=True)
        ])
    )  # fmt: skip
    yield "volume goes with volatility", traded, lambda x: x > 0.2
    scales = mean(_scales)
    yield "coarse volatility tells more of fine than fine of coarse", scales, lambda x: x > 0


def _lagged(a: Floats, b: Floats, lag: int) -> float:
    return float(np.corrcoef(a[:-lag], b[lag:])[0, 1])


def _summed(r: Floats, days: int) -> Floats:
    whole: Floats = r[: len(r) // days * days].reshape(-1, days).sum(axis=1)
    return whole


def _kurtosis(r: Floats) -> float:
    centred = r - r.mean()
    return float((centred**4).mean() / (centred**2).mean() ** 2)


def _skew(r: Floats) -> float:
    centred = r - r.mean()
    return float((centred**3).mean() / (centred**2).mean() ** 1.5)


def _hill(r: Floats) -> float:
    sizes = np.sort(abs(r))[::-1][: len(r) // 50]
    return float(1 / np.mean(np.log(sizes[:-1] / sizes[-1])))


def _bursts(r: Floats) -> float:
    large = (abs(r) > np.quantile(abs(r), 0.95)).astype(np.float64)
    counts = _summed(large, 22)
    return float(counts.var() / counts.mean())


def _standard(r: Floats) -> Floats:
    """Returns by the volatility of the 20 days before them."""
    sums = np.cumsum(np.concatenate(([0.0], r**2)))
    before = np.sqrt((sums[20:-1] - sums[:-21]) / 20)
    moving = before > 0  # a price of a few ticks may stand still for so long
    found: Floats = r[20:][moving] / before[moving]
    return found


def _scales(r: Floats) -> float:
    """How much better a week's return tells the next week's mean daily size than the reverse."""
    coarse, fine = abs(_summed(r, 5)), _summed(abs(r), 5)
    return _lagged(coarse, fine, 1) - _lagged(fine, coarse, 1)

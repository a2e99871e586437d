"""Simulated sources on groups of shares: the indices of Shenwan, the boards of Sina, and the lists
and the days of the exchanges; and the trades of a day.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta, timezone
from typing import Final

from adapters.simulator.akshare_bonds import bond_count, bond_quotes
from adapters.simulator.akshare_company_pages import margin_detail, szse_margin
from adapters.simulator.keys import key_of_symbol
from adapters.simulator.shapes import (
    Facts,
    Luck,
    Payload,
    Query,
    Reply,
    Row,
    as_json,
    as_text,
    as_xlsx,
    bar_days,
    bar_facts,
    bar_rows,
    grouped,
    read_day,
    row_of,
    script,
    to_json,
)
from adapters.simulator.world.companies import (
    FREE,
    free_shares,
    listing_day,
    turnover,
    valuation,
    valuations,
)
from adapters.simulator.world.instruments import BOARDS, CHINA, INDUSTRIES, LISTED, Instrument
from adapters.simulator.world.world import Bar, World

# --- Shenwan -------------------------------------------------------------------------------------

_SHENWAN: Final = {
    "801001": "申万50", "801003": "申万A指", "801005": "申万创业", "801300": "申万300指数",
    "801030": "基础化工", "801050": "有色金属", "801080": "电子", "801110": "家用电器",
    "801120": "食品饮料", "801150": "医药生物", "801180": "房地产", "801780": "银行",
    "801193": "证券Ⅱ", "801125": "白酒Ⅱ", "801081": "半导体", "801737": "电池",
}  # fmt: skip
"""Indices of Shenwan by code. The world has them as `sw801001`, ten shares each."""


_KLT: Final = {"WEEK": "102", "MONTH": "103"}
"""Eastmoney's numbers of weeks and months by Shenwan's names."""


def _shenwan_facts(world: World, code: str, bars: Sequence[Bar]) -> Iterator[Facts]:
    """What is told of each bar of one index: its volume in millions, what was paid in hundred
    millions.
    """
    for facts, bar in zip(bar_facts(world, f"sw{code}", bars), bars, strict=True):
        facts |= {"millions": round(bar.volume / 1e6, 2), "title": _SHENWAN.get(code, code)}
        yield facts | {"sum": round(float(str(facts["paid"])) / 1e8, 2)}


def _shenwan_days(query: Query, rng: Luck) -> Reply:
    """The days, weeks or months of one index."""
    code = query.get("swindexcode", "801030")
    bars = grouped(rng.world.bars(f"sw{code}"), _KLT.get(query.get("period", ""), ""))
    fields = (
        "swindexcode=code bargaindate=date openindex=open maxindex=high minindex=low "
        "closeindex=close hike=move:2 markup=percent:2 bargainamount=millions bargainsum=sum"
    )
    rows = [row_of(fields, facts) for facts in _shenwan_facts(rng.world, code, bars)]
    return as_json({"code": "200", "message": "ok", "data": rows})


def _shenwan_minutes(query: Query, rng: Luck) -> Reply:
    """The minutes of the last day of one index."""
    code = query.get("swindexcode", "801001")
    bars = rng.world.minutes(f"sw{code}", rng.world.days("CN")[-1])
    fields = "l1=code l2=title l8=close trading_date=day:%Y-%m-%d trading_time=day:%H:%M:%S"
    rows = [row_of(fields, facts) for facts in _shenwan_facts(rng.world, code, bars)]
    return as_json({"code": "200", "message": "ok", "data": rows})


def _shenwan_members(query: Query, rng: Luck) -> Reply:
    """The members of one index and their weights, the greatest first."""
    weights = rng.world.holdings(f"sw{query.get('swindexcode', '801001')}")
    rows = [
        {"swindexcode": query.get("swindexcode"), "stockcode": LISTED[member].code}
        | {"stockname": LISTED[member].name, "newweight": round(weight * 100, 4)}
        | {"beginningdate": str(rng.world.days("CN")[0])}
        for member, weight in sorted(weights.items(), key=lambda item: -item[1])
    ]
    return as_json({"code": "200", "data": {"count": len(rows), "results": rows}})


def _shenwan_now(query: Query, rng: Luck) -> Reply:
    """The quotes of all indices."""
    fields = (
        "swindexcode=code swindexname=title l3=before l4=open l5=sum l6=high l7=low l8=close "
        "l11=millions"
    )
    rows = [
        row_of(fields, facts)
        for code in _SHENWAN
        for facts in _shenwan_facts(rng.world, code, rng.world.latest(f"sw{code}", 1))
    ]
    return as_json({"code": "200", "data": {"count": len(rows), "results": rows}})


def _shenwan_report(query: Query, rng: Luck) -> Reply:
    """What is told of the indices on days, weeks or months."""
    exact = read_day(query.get("bargaindate"))
    first, last = (exact or read_day(query.get(name)) for name in ("start_date", "end_date"))
    rows = list[Row]()
    klt = _KLT.get(query.get("type", ""), "")
    head = "swindexcode=code swindexname=title bargaindate=date closeindex=close"
    head += " bargainamount=millions markup=percent:2"
    for code in list(_SHENWAN)[:4]:
        members = rng.world.holdings(f"sw{code}", last)
        since = (first or rng.world.now) - timedelta(70)
        bars = grouped(rng.world.bars(f"sw{code}", since, last), klt)
        bars = [bar for bar in bars if bar.day >= (first or rng.world.now)]
        for bar, facts in zip(bars, _shenwan_facts(rng.world, code, bars), strict=True):
            worth = sum(rng.world.close(m, bar.day) * LISTED[m].shares for m in members) / 1e8
            shares = sum(LISTED[member].shares for member in members)
            ratio = round(bar.close / rng.world.instrument(f"sw{code}").level * 18, 2)
            rows.append(
                row_of(head, facts)
                | {"turnoverrate": round(bar.volume * 1e4 / shares / FREE, 2), "pe": ratio}
                | {"pb": round(ratio / 8, 2), "meanprice": round(worth * 1e8 / shares, 2)}
                | {"bargainsumrate": 25.0, "negotiablessharesum1": round(worth, 2)}
                | {"negotiablessharesum2": round(worth / len(members), 2), "dp": 2.5}
            )
    return as_json({"code": "200", "data": {"count": min(len(rows), 50), "results": rows}})


def _shenwan_ends(query: Query, rng: Luck) -> Reply:
    """The last days of the weeks or months, newest first."""
    bars = grouped(rng.world.bars("sh000001"), _KLT.get(query.get("type", ""), "103"))
    return as_json({"code": "200", "data": [{"bargaindate": str(b.day)} for b in bars[::-1]]})


def _shenwan_funds(query: Query, rng: Luck) -> Reply:
    """The quotes of the indices of funds."""
    names = {"807100": "权益基金", "807200": "主动股票型基金", "807300": "混合基金"}
    rows = list[Row]()
    for code, name in names.items():
        bar = rng.world.latest(f"sw{code}", 1)[-1]
        year = rng.world.close(f"sw{code}", date(rng.world.now.year - 1, 12, 31))
        row = {"swIndexCode": code, "swIndexName": name, "lastCloseIndex": bar.close}
        row |= {"lastMarkup": round(bar.change, 2)}
        rows.append(row | {"yearMarkup": round((bar.close / year - 1) * 100, 2)})
    return as_json({"code": 200, "data": {"list": rows, "total": len(rows)}})


def _shenwan_fund_days(query: Query, rng: Luck) -> Reply:
    """The days, weeks or months of one index of funds."""
    code = query.get("swIndexCode", "807200")
    bars = grouped(rng.world.bars(f"sw{code}"), _KLT.get(query.get("type", ""), ""))
    fields = (
        "swindexcode=code swIndexName=code bargaindate=date openindex=open maxindex=high "
        "minindex=low closeindex=close markup=percent:2"
    )
    rows = bar_rows(fields, rng.world, f"sw{code}", bars)
    return as_json({"code": 200, "data": rows})


# --- Sina ----------------------------------------------------------------------------------------


def _sectors(query: Query, rng: Luck) -> Reply:
    """The boards of industries: how many shares, their mean price, and which rose most."""
    found = dict[str, str]()
    for key, one in BOARDS.items():
        bars = {member: rng.world.latest(member, 1)[-1] for member in one.members}
        mean = sum(bar.close for bar in bars.values()) / len(bars)
        before = sum(bar.before for bar in bars.values()) / len(bars)
        best = max(bars, key=lambda member: bars[member].change)
        top, label = bars[best], key.partition(":")[2]
        volume = sum(bar.volume * 100 for bar in bars.values())
        amount = sum(_amount(bar) for bar in bars.values())
        cells = [label, one.name, len(bars), f"{mean:.4f}", f"{mean - before:.4f}"]
        cells += [f"{(mean / before - 1) * 100:.4f}", volume, amount, best, f"{top.change:.3f}"]
        cells += [f"{top.close:.3f}", f"{top.close - top.before:.3f}", LISTED[best].name]
        found[label] = ",".join(map(str, cells))
    return as_text(f"var S_Finance_bankuai_sinaindustry = {to_json(found)}", charset="gbk")


def _amount(bar: Bar) -> int:
    return round(bar.volume * 50 * (bar.open + bar.close))


def _of_node(node: str) -> list[Instrument]:
    """The shares that Sina lists under a name: a board, the CSI 300, or all."""
    if f"bk:{node}" in BOARDS:
        return [LISTED[member] for member in BOARDS[f"bk:{node}"].members]
    if node == "hs300" or node.startswith("zhishu_"):
        index = "sh000300" if node == "hs300" else node.removeprefix("zhishu_")
        key = next((k for k in (index, f"sh{index}", f"sz{index}") if k in LISTED), "sh000001")
        return [LISTED[member] for member in LISTED[key].members]
    return list(CHINA) if node.startswith(("hs_a", "hangye", "sh_a", "sz_a")) else []


_BONDS: Final = "hs_z"
"""The name under which Sina lists bonds."""


def _node_count(query: Query, rng: Luck) -> Reply:
    if query.get("node") == _BONDS:
        return bond_count(query, rng)
    return as_json(str(len(_of_node(query.get("node", "hs_a")))))


def _node(query: Query, rng: Luck) -> Reply:
    """The quotes of all shares under a name, on one page; or a page of those of bonds."""
    if query.get("node") == _BONDS:
        return bond_quotes(query, rng)
    rows = list[Row]()
    for one in _of_node(query.get("node", "hs_a")) if query.get("page", "1") == "1" else ():
        bar, known = rng.world.latest(one.key, 1)[-1], valuation(rng.world, one.key)
        worth, price = bar.close * one.shares / 1e4, f"{bar.close:.3f}"
        rows.append({
            "symbol": one.key, "code": one.code, "name": one.name, "trade": price,
            "pricechange": round(bar.close - bar.before, 3), "changepercent": round(bar.change, 3),
            "buy": price, "sell": f"{bar.close + 0.01:.3f}", "settlement": f"{bar.before:.3f}",
            "open": f"{bar.open:.3f}", "high": f"{bar.high:.3f}", "low": f"{bar.low:.3f}",
            "volume": bar.volume * 100, "amount": _amount(bar), "ticktime": "15:00:00",
            "per": round(known.earnings if known else 0.0, 3),
            "pb": round(known.book if known else 0.0, 3), "mktcap": round(worth, 2),
            "nmc": round(worth * FREE, 2), "turnoverratio": round(turnover(one, bar.volume), 5),
        })  # fmt: skip
    return as_json(rows)


def _nodes(query: Query, rng: Luck) -> Reply:
    """The tree of names under which Sina lists shares."""
    concepts = [[one.name, "", key[3:]] for key, one in BOARDS.items() if key < "bk:BK1000"]
    industries = [[one.name, "", key[3:]] for key, one in BOARDS.items() if key >= "bk:BK1000"]
    classes = [["申万行业", industries], ["热门概念", concepts], ["概念板块", concepts]]
    return as_json([[""], [["沪深股市", classes]]])


def _bills(query: Query, rng: Luck) -> Reply:
    """The trades of one share on a day, or how many there are: one at the end of each minute."""
    key, day = key_of_symbol(query.get("symbol", "sz000001")), read_day(query.get("day"))
    bars = rng.world.minutes(key, day or rng.world.days("CN")[-1])
    if rng.path.endswith("Count"):
        return as_json(str(min(len(bars), 60)))
    fields = "symbol=key name=name ticktime=day:%H:%M:%S price=close:.3f volume=hundreds:d"
    fields += " prev_price=before:.3f"
    rows = bar_rows(fields, rng.world, key, bars[::-1])
    kinds = ["U" if bar.close >= bar.before else "D" for bar in bars[::-1]]
    return as_json([{**row, "kind": kind} for row, kind in zip(rows, kinds, strict=True)])


# --- Tencent -------------------------------------------------------------------------------------


def _ticks(query: Query, rng: Luck) -> Reply:
    """The trades of the last day of one share; its first page has all."""
    key, lines = query.get("c", "sz000001"), list[str]()
    bars = rng.world.minutes(key, rng.world.days("CN")[-1]) if query.get("p", "0") == "0" else []
    for place, bar in enumerate(bars):
        change, amount = bar.close - bar.before, round(bar.volume * 100 * bar.close)
        side = "B" if change > 0 else "S" if change < 0 else "M"
        lines.append(
            f"{place}/{bar.day:%H:%M:%S}/{bar.close:.2f}/{change:.2f}/{bar.volume}/{amount}/{side}"
        )
    text = f'v_detail_data_{key}=[0,"{"|".join(lines)}"]' if lines else ""
    return Reply(text.encode(), "text/html; charset=gbk")


_IN_SHARES = ("sh688", "sz399", "sh000", "sz000")
"""The beginnings of keys whose volume Tencent counts in shares, not in lots of a hundred."""


def _assigned(query: Query, data: object) -> Reply:
    """JSON assigned to the variable that the request names."""
    text = to_json({"code": 0, "msg": "", "data": data})
    return as_text(f"{query.get('_var', 'v')}={text}")


def _tencent(query: Query, rng: Luck) -> Reply:
    """At most so many of the last daily bars of a range, by the key of a security."""
    key, _, first, last, most, adjust = [*query.get("param", "").split(","), *[""] * 6][:6]
    bars = rng.world.bars(key, read_day(first), read_day(last), adjust=adjust) if key else []
    lots = 100 if key.startswith(_IN_SHARES) else 1
    one, rows = rng.world.instrument(key), list[list[object]]()
    for bar in bars[-int(most or 640) :]:
        prices = (bar.open, bar.close, bar.high, bar.low)
        rows.append([str(bar.day), *map(str, prices), f"{bar.volume * lots}"])
        if not key.startswith("hk"):
            amount = bar.volume * (bar.open + bar.close) / 200
            rows[-1] += [{}, f"{turnover(one, bar.volume):.2f}", f"{amount:.2f}", ""]
        elif adjust:
            rows[-1] += ["", "", ""]
    return _assigned(query, {key: {f"{adjust}day": rows, "qt": {}}})


def _tencent_weeks(query: Query, rng: Luck) -> Reply:
    """The weeks of a security, of which AkShare reads the first day."""
    bars = rng.world.bars(query.get("code", "sh000001"))
    return _assigned(query, [[str(bar.day), f"{bar.close}"] for bar in (bars[0], *bars[4::5])])


# --- exchanges -----------------------------------------------------------------------------------

_MAIN: Final = [one for one in CHINA if one.key.startswith("sh60")]
_STAR: Final = [one for one in CHINA if one.key.startswith("sh688")]
_SHENZHEN: Final = [one for one in CHINA if one.key.startswith("sz")]


def _shanghai(query: Query, rng: Luck) -> Reply:
    """Shanghai's queries by their names."""
    kind = query.get("sqlId", "")
    if kind == "COMMON_SSE_SJ_GPSJ_CJGK_MRGK_C":
        return as_json({"result": _dealt(rng.world, read_day(query.get("SEARCH_DATE")))})
    if kind == "COMMON_SSE_CP_GPJCTPZ_GPLB_GP_L":
        ones = _STAR if query.get("STOCK_TYPE") == "8" else _MAIN
        rows = [
            {"A_STOCK_CODE": one.code, "B_STOCK_CODE": "-", "SEC_NAME_CN": one.name}
            | {"SEC_NAME_FULL": one.name, "COMPANY_ABBR": one.name}
            | {"FULL_NAME": f"{one.name}股份有限公司"}
            | {"LIST_DATE": f"{listing_day(rng.world, one):%Y%m%d}"}
            for one in ones
        ]
        return as_json({"result": rows})
    return as_json({"result": []})


def _dealt(world: World, day: date | None) -> list[Row]:
    """What was traded in Shanghai on a day: the main board, its B shares, the science board,
    buybacks, and all.
    """
    days = bar_days(world, None, day, 1)
    if day is not None and days != (day,):  # it was not traded on, or is to come
        return []
    rows = list[Row]()
    for code, ones in (("01", _MAIN), ("02", []), ("03", _STAR), ("17", []), ("11", _MAIN + _STAR)):
        bars = [(one, world.bars(one.key, days[0], days[0])[-1]) for one in ones] if days else []
        worth = sum(bar.close * one.shares for one, bar in bars) / 1e8
        volume = sum(bar.volume for _, bar in bars) / 1e6
        amount = sum(_amount(bar) for _, bar in bars) / 1e8
        shares = sum(one.shares for one, _ in bars) or 1
        known = [v for one, _ in bars for v in valuations(world, one.key, days[0], days[0])]
        ratio = (
            f"{sum(v.value for v in known) / sum(v.value / v.earnings for v in known):.2f}"
            if known
            else "-"
        )
        rows.append(
            {"TOTAL_VALUE": f"{worth:.2f}", "TRADE_VOL": f"{volume:.4f}", "AVG_PE_RATE": ratio}
            | {"TOTAL_TO_RATE": f"{volume * 1e10 / shares:.4f}", "TRADE_AMT": f"{amount:.2f}"}
            | {"PRODUCT_CODE": code, "NEGO_VALUE": f"{worth * FREE:.2f}"}
            | {"NEGO_TO_RATE": f"{volume * 1e10 / shares / FREE:.4f}"}
            | {"TRADE_DATE": f"{days[0]:%Y%m%d}" if days else "", "LIST_NUM": str(len(bars))}
            | {"TRADE_NUM": "-"}
        )
    return rows


def _shenzhen(query: Query, rng: Luck) -> Reply:
    """The shares of Shenzhen, or their margin trading, as an Excel file."""
    if query.get("CATALOGID", "").endswith("_xxpl"):
        return szse_margin(query, rng)
    rows: list[list[str | float]] = [
        ["板块", "A股代码", "A股简称", "A股上市日期", "A股总股本", "A股流通股本", "所属行业"]
    ]
    for one in _SHENZHEN:
        board = "创业板" if one.code.startswith("3") else "主板"
        row: list[str | float] = [board, one.code, one.name, str(listing_day(rng.world, one))]
        rows.append([*row, f"{one.shares:,}", f"{free_shares(one):,}", INDUSTRIES[one.code]])
    return as_xlsx(rows)


def _margin_sse(query: Query, rng: Luck) -> Reply:
    """Shanghai margin trading by day; the total is lending plus borrowed value, newest first."""
    if query.get("tabType") == "mxtype":
        return margin_detail(query, rng)
    rows = list[Row]()
    days = bar_days(rng.world, read_day(query.get("beginDate")), read_day(query.get("endDate")))
    debts = rng.world.series("margin of Shanghai", days, 8e11, 0.004)
    for day, owed in zip(days, debts, strict=True):
        rng = rng.about("margin of Shanghai", day)
        lent = round(6e-3 * owed)
        rows.append(
            {"detailFlag": "", "opDate": f"{day:%Y%m%d}", "rqchl": None}
            | {"rqmcl": rng.randint(10**7, 9 * 10**7), "rqyl": lent // 8, "rqylje": lent}
            | {"rqylzl": None, "rzche": None, "rzmre": round(owed * rng.uniform(0.05, 0.1))}
            | {"rzrqjyzl": round(owed) + lent, "rzye": round(owed)}
            | {"securityAbbr": "", "stockCode": ""}
        )
    return as_json({"result": rows[::-1], "pageHelp": {"total": len(rows), "pageCount": 1}})


def _margin_szse(query: Query, rng: Luck) -> Reply:
    """Shenzhen margin trading on one day, hundreds of millions with thousands separators."""
    day = read_day(query.get("txtDate")) or rng.world.now
    owed = rng.world.series("margin of Shenzhen", [day], 7000, 0.004)[0]
    lent = 0.009 * owed
    row = {"jrrzmr": owed * 0.06, "jrrzye": owed, "jrrjmc": lent / 20, "jrrjyl": lent / 8}
    row |= {"jrrjye": lent, "jrrzrjye": owed + lent}
    data = [{name: f"{value:,.2f}" for name, value in row.items()}]
    head = {"catalogid": query.get("CATALOGID"), "subname": query.get("txtDate"), "recordcount": 1}
    return as_json([{"metadata": head, "data": data, "error": None}])


# --- Tonghuashun ---------------------------------------------------------------------------------


def _tonghuashun(code: str) -> Instrument:
    """The board of an industry by its number, from 881000 on."""
    boards = [one for key, one in BOARDS.items() if key >= "bk:BK1000"]
    return boards[(int(code) - 881000) % len(boards)]


def _board_page(query: Query, rng: Luck) -> Reply:
    """The page of one industry: the names of all, and the board's quote."""
    one = _tonghuashun(rng.path.rstrip("/").rpartition("/")[2])
    names = [board.name for key, board in BOARDS.items() if key >= "bk:BK1000"]
    links = "".join(
        f'<a href="http://q.10jqka.com.cn/thshy/detail/code/{881000 + place}/">{name}</a>'
        for place, name in enumerate(names)
    )
    bar = rng.world.latest(one.key, 1)[-1]
    bars = [rng.world.latest(member, 1)[-1] for member in one.members]
    rose, fell = (sum(bar.change * sign > 0 for bar in bars) for sign in (1, -1))
    facts = {
        "今开": f"{bar.open:.2f}", "昨收": f"{bar.before:.2f}", "最低": f"{bar.low:.2f}",
        "最高": f"{bar.high:.2f}", "成交量(万手)": f"{bar.volume / 1e4:.2f}",
        "板块涨幅": f"{bar.change:.2f}%", "涨跌家数": f"{rose}\n{fell}",
        "成交额(亿)": f"{sum(map(_amount, bars)) / 1e8:.2f}",
    }  # fmt: skip
    told = "".join(f"<dl><dt>{name}</dt><dd>{value}</dd></dl>" for name, value in facts.items())
    text = f'<div class="cate_inner">{links}</div><div class="board-infos">{told}</div>'
    return as_text(f"<html><body>{text}</body></html>", charset="gbk")


def _board_year(query: Query, rng: Luck) -> Reply:
    """The days of one board in a year."""
    *_, name, _, year = rng.path.removesuffix(".js").split("/")
    number = int(year)
    key = _tonghuashun(name.removeprefix("bk_")).key
    bars = rng.world.bars(key, date(number, 1, 1), date(number, 12, 31))
    lines = [
        f"{bar.day:%Y%m%d},{bar.open:.2f},{bar.high:.2f},{bar.low:.2f},{bar.close:.2f},"
        f"{bar.volume * 100},{amount:.0f},,,,0"
        for bar, amount in zip(bars, rng.world.paid(key, bars), strict=True)
    ]
    text = to_json({"num": len(lines), "data": ";".join(lines)}) if lines else ""
    return script(f"quotebridge({text})")


# --- Xueqiu --------------------------------------------------------------------------------------


def _xueqiu(query: Query, rng: Luck) -> Reply:
    """The quote of one share."""
    world, key = rng.world, key_of_symbol(query.get("symbol", "SH600000"))
    symbol = key.removeprefix("us:").upper()
    one, bar, known = world.instrument(key), world.latest(key, 1)[-1], valuation(world, key)
    year = world.bars(key, world.now - timedelta(365))
    start = world.close(key, date(world.now.year - 1, 12, 31))
    lot = 100 if one.exchange == "CN" else 1
    amount = bar.volume * lot * (bar.open + bar.close) / 2
    at = datetime.combine(bar.day, time(15), timezone(timedelta(hours=8)))
    told = {
        "symbol": symbol, "code": one.code, "name": one.name, "exchange": symbol[:2],
        "current": bar.close, "chg": round(bar.close - bar.before, 3),
        "percent": round(bar.change, 2), "open": bar.open, "high": bar.high, "low": bar.low,
        "last_close": bar.before, "volume": bar.volume * lot, "amount": round(amount, 2),
        "avg_price": round(amount / (bar.volume * lot), 3), "currency": "CNY",
        "amplitude": round((bar.high - bar.low) / bar.before * 100, 2),
        "high52w": max(each.high for each in year), "low52w": min(each.low for each in year),
        "current_year_percent": round((bar.close / start - 1) * 100, 2),
        "turnover_rate": round(turnover(one, bar.volume), 2),
        "total_shares": one.shares, "market_capital": round(bar.close * one.shares, 2),
        "pe_ttm": known and known.earnings, "pe_lyr": known and known.earnings_of_year,
        "pb": known and known.book, "time": round(at.timestamp() * 1000),
        "timestamp": round(at.timestamp() * 1000),
    }  # fmt: skip
    return as_json({"data": {"quote": told}, "error_code": 0, "error_description": ""})


_SW = "/institute-sw/api"
_CENTER = "/quotes_service/api/json_v2.php/Market_Center."
_VIP = "vip.stock.finance.sina.com.cn"

BOARD_PAYLOADS: Mapping[tuple[str, str], Payload] = {
    ("query.sse.com.cn", "/marketdata/tradedata/queryMargin.do"): _margin_sse,
    ("www.szse.cn", "/api/report/ShowReport/data"): _margin_szse,
    ("proxy.finance.qq.com", "/ifzqgtimg/appstock/app/newfqkline/get"): _tencent,
    ("web.ifzq.gtimg.cn", "/appstock/app/kline/kline"): _tencent,
    ("web.ifzq.gtimg.cn", "/appstock/app/hkfqkline/get"): _tencent,
    ("web.ifzq.gtimg.cn", "/other/klineweb/klineWeb/weekTrends"): _tencent_weeks,
    ("www.swsresearch.com", f"{_SW}/index_publish/trend/"): _shenwan_days,
    ("www.swsresearch.com", f"{_SW}/index_publish/details/timelines/"): _shenwan_minutes,
    ("www.swsresearch.com", f"{_SW}/index_publish/details/component_stocks/"): _shenwan_members,
    ("www.swsresearch.com", f"{_SW}/index_publish/current/"): _shenwan_now,
    ("www.swsresearch.com", f"{_SW}/index_analysis/index_analysis_report/"): _shenwan_report,
    ("www.swsresearch.com", f"{_SW}/index_analysis/index_analysis_reports/"): _shenwan_report,
    ("www.swsresearch.com", f"{_SW}/index_analysis/week_month_datetime/"): _shenwan_ends,
    ("www.swsresearch.com", "/insWechatSw/fundIndex/pageList"): _shenwan_funds,
    ("www.swsresearch.com", "/insWechatSw/fundIndex/getFundKChartData"): _shenwan_fund_days,
    (_VIP, "/q/view/newSinaHy.php"): _sectors,
    ("money.finance.sina.com.cn", "/q/view/newFLJK.php"): _sectors,
    (_VIP, f"{_CENTER}getHQNodeStockCount"): _node_count,
    (_VIP, f"{_CENTER}getHQNodeStockCountSimple"): _node_count,
    (_VIP, f"{_CENTER}getHQNodeData"): _node,
    (_VIP, f"{_CENTER}getHQNodeDataSimple"): _node,
    (_VIP, f"{_CENTER}getHQNodes"): _nodes,
    (_VIP, "/quotes_service/api/json_v2.php/CN_Bill.GetBillListCount"): _bills,
    (_VIP, "/quotes_service/api/json_v2.php/CN_Bill.GetBillList"): _bills,
    ("stock.gtimg.cn", "/data/index.php"): _ticks,
    ("query.sse.com.cn", "/commonQuery.do"): _shanghai,
    ("query.sse.com.cn", "/sseQuery/commonQuery.do"): _shanghai,
    ("www.szse.cn", "/api/report/ShowReport"): _shenzhen,
    ("q.10jqka.com.cn", "/thshy/detail/code/*"): _board_page,
    ("d.10jqka.com.cn", "/v4/line/*"): _board_year,
    ("stock.xueqiu.com", "/v5/stock/quote.json"): _xueqiu,
}

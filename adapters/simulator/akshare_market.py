"""Simulated answers of the exchanges, index compilers, Sina, Tencent and Jin10."""

from collections.abc import Mapping
from datetime import date, timedelta
from html import escape

from adapters.simulator.akshare_company_pages import margin_detail
from adapters.simulator.keys import key_of
from adapters.simulator.shapes import (
    MONEY,
    Luck,
    Payload,
    Query,
    Reply,
    Row,
    as_json,
    as_text,
    as_xls,
    bar_days,
    html_table,
    read_day,
    to_json,
)
from adapters.simulator.world.companies import index_earnings, turnover
from adapters.simulator.world.world import Bar

# --- exchanges and index compilers ---------------------------------------------------------------


def _csindex(query: Query, rng: Luck) -> Reply:
    """Daily bars of one CSI index with its names, sample size and earnings ratio."""
    code = query.get("indexCode", "000300")
    days = bar_days(rng.world, read_day(query.get("startDate")), read_day(query.get("endDate")))
    key, world = key_of("2", code), rng.world
    name, number = world.instrument(key).name, len(world.weights(key))
    ratios = dict(zip(world.history(key).days, index_earnings(world, key).tolist(), strict=True))
    rows = [
        {"tradeDate": f"{bar.day:%Y%m%d}", "indexCode": code, "indexNameCnAll": name}
        | {"indexNameCn": name, "indexNameEnAll": f"CSI {code} Index"}
        | {"indexNameEn": f"CSI {code}", "open": bar.open, "high": bar.high, "low": bar.low}
        | {"close": bar.close, "change": round(bar.close - bar.before, 2)}
        | {"changePct": round(bar.change, 2), "tradingVol": round(bar.volume / 1e4, 2)}
        | {"tradingValue": round(paid / 1e8, 2), "consNumber": number}
        | {"peg": round(ratios[bar.day], 2)}
        for bar, paid in _index_bars(rng, code, days)
    ]
    return as_json({"code": "200", "msg": "Success", "data": rows, "success": True})


def _index_bars(rng: Luck, code: str, days: tuple[date, ...]) -> list[tuple[Bar, float]]:
    """The bars of an index, and what was paid in each."""
    key = key_of("2", code)
    bars = rng.world.bars(key, days[0], days[-1]) if days else []
    return list(zip(bars, rng.world.paid(key, bars), strict=True))


def _cnindex(query: Query, rng: Luck) -> Reply:
    """Daily bars of one CNI index as bare lists, newest first.

    The order is day, current, high, open, low, close, change, percent, amount, volume, average.
    """
    days = bar_days(rng.world, read_day(query.get("startDate")), read_day(query.get("endDate")))
    rows = [
        [
            *(str(bar.day), bar.close, bar.high, bar.open, bar.low, bar.close),
            *(round(bar.close - bar.before, 2), f"{bar.change:.2f}%"),
            *(round(paid, 2), bar.volume * 100, None),
        ]
        for bar, paid in reversed(_index_bars(rng, query.get("indexCode", ""), days))
    ]
    data = {"code": query.get("indexCode"), "data": rows}
    return as_json({"code": 200, "message": "OK", "data": data})


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


def _bond_workbook(query: Query, rng: Luck) -> Reply:
    """Shanghai bonds by kind on one day, held or dealt, as an old Excel file. What was dealt in the
    year is the sum of its days.
    """
    held, world = "ZQXQ" in query.get("sqlId", ""), rng.world
    day = read_day(query.get("TRADE_DATE")) or world.now
    days = bar_days(world, date(day.year, 1, 1), day)
    dealt = ["当日成交笔数", "当日成交金额", "当年成交笔数", "当年成交金额"]
    names = ["托管只数", "托管市值(亿元)", "托管面值(亿元)"] if held else dealt
    rows = list[list[str | float]]()
    for kind in ("国债", "地方政府债", "政策性金融债", "企业债券", "公司债券", "可转换公司债券"):
        if not days or days[-1] != day:
            continue  # no trading on this day
        name = f"bonds of Shanghai {kind} {held}"
        level, step = 200 + 3000 * world.luck(name), 0.001 if held else 0.03
        walk = world.series(name, days, level, step)
        counts, worth = [round(number) for number in walk], [round(12 * one, 2) for one in walk]
        more = [round(worth[-1] * 0.98, 2)] if held else [sum(counts), round(sum(worth), 2)]
        rows.append([kind, counts[-1], worth[-1], *more, str(day)])
    return as_xls([["债券现货" if held else "债券类型", *names, "数据日期"], *rows])


# --- Sina ----------------------------------------------------------------------------------------


def _boc_quotes(query: Query, rng: Luck) -> Reply:
    """Bank of China quotes of one currency as an HTML table below the form of currencies."""
    days = bar_days(rng.world, read_day(query.get("startdate")), read_day(query.get("enddate")))
    money = query.get("money_code", "USD")
    options = "".join(f'<option value="{c}">{escape(n)}</option>' for n, c in MONEY.items())
    head = ["日期", "中行汇买价", "中行钞买价", "中行钞卖价/汇卖价", "央行中间价", "中行折算价"]
    lines = [head]
    for day in days[::-1]:
        mid = 100 * rng.world.rate(money, "CNY", day)
        lines.append([str(day), *(f"{mid * k:.2f}" for k in (0.998, 0.99, 1.002, 1, 1))])
    form = f'<select id="money_code">{options}</select>'
    return as_text(f"<html><body>{form}{html_table(lines)}</body></html>", charset="gbk")


# --- Tencent -------------------------------------------------------------------------------------

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


# --- Jin10 ---------------------------------------------------------------------------------------


def _reports(query: Query, rng: Luck) -> Reply:
    """A report on one day: CME bitcoin volumes, or stocks of futures by product."""
    return (_stocks if query.get("category") == "stock" else _cme_bitcoin)(query, rng)


def _stocks(query: Query, rng: Luck) -> Reply:
    """Shanghai's warehouse stocks on a day and a week before."""
    last = min(read_day(query.get("date")) or rng.world.now, rng.world.now)
    days, rows = [last - timedelta(7), last], list[list[object]]()
    for name, code in (("铜", "CU"), ("铝", "AL"), ("锌", "ZN"), ("螺纹钢", "RB"), ("黄金", "AU")):
        old, new = (round(n) for n in rng.world.series(f"stock of {code}", days, 24000, 0.01))
        rows.append([name, old, new, new - old, round((new / old - 1) * 100, 2)])
    names = ["商品", *map(str, days), "增减", "增减幅度"]
    data = {"keys": [{"name": name} for name in names], "values": rows}
    return as_json({"status": 200, "data": data})


def _cme_bitcoin(query: Query, rng: Luck) -> Reply:
    """CME bitcoin volumes on one day, with field names separate from the values."""
    names = ["商品", "类型", "电子交易合约", "场内成交合约", "场外成交合约", "成交量", "未平仓合约"]
    rows = list[list[object]]()
    for product, size in (("比特币", 12000), ("微型比特币", 20000)):
        for kind, share in (("期货", 1.0), ("看涨期权", 0.05), ("看跌期权", 0.04)):
            screen, block = int(size * share * rng.uniform(0.7, 1.3)), rng.randint(0, 400)
            total, held = screen + block, int(size * share * rng.uniform(1.1, 1.6))
            rows.append([product, kind, screen, 0, block, total, held, rng.randint(-300, 300)])
    keys = [{"name": name} for name in [*names, "持仓变化"]]
    return as_json({"status": 200, "data": {"keys": keys, "values": rows}})


def _sentiment(query: Query, rng: Luck) -> Reply:
    """Share of long positions by currency pair, every four hours of the requested days."""
    pairs = (
        "AUDJPY AUDUSD EURAUD EURJPY EURUSD GBPJPY GBPUSD NZDUSD USDCAD USDCHF USDJPY USDX XAUUSD"
    )
    values = dict[str, dict[str, str]]()
    first, last = read_day(query.get("start_date")), read_day(query.get("end_date"))
    for day in bar_days(rng.world, first, last, 60):
        rng = rng.about("sentiment", day)
        for hour in range(0, 24, 4):
            row = {pair: f"{max(5.0, min(95.0, rng.gauss(50, 15))):.2f}" for pair in pairs.split()}
            values[f"{day} {hour:02}:00"] = row
    return as_json({"status": 200, "data": {"values": values}})


MARKET: Mapping[tuple[str, str], Payload] = {
    ("www.csindex.com.cn", "/csindex-home/perf/index-perf"): _csindex,
    ("hq.cnindex.com.cn", "/market/market/getIndexDailyDataWithDataFormat"): _cnindex,
    ("query.sse.com.cn", "/marketdata/tradedata/queryMargin.do"): _margin_sse,
    ("query.sse.com.cn", "/commonExcelDd.do"): _bond_workbook,
    ("www.szse.cn", "/api/report/ShowReport/data"): _margin_szse,
    ("biz.finance.sina.com.cn", "/forex/forex.php"): _boc_quotes,
    ("proxy.finance.qq.com", "/ifzqgtimg/appstock/app/newfqkline/get"): _tencent,
    ("web.ifzq.gtimg.cn", "/appstock/app/kline/kline"): _tencent,
    ("web.ifzq.gtimg.cn", "/appstock/app/hkfqkline/get"): _tencent,
    ("web.ifzq.gtimg.cn", "/other/klineweb/klineWeb/weekTrends"): _tencent_weeks,
    ("datacenter-api.jin10.com", "/reports/list"): _reports,
    ("datacenter-api.jin10.com", "/sentiment/datas"): _sentiment,
}

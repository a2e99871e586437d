"""Simulated answers of the exchanges, index compilers, China Money, Sina and Jin10."""

from collections.abc import Mapping
from datetime import date
from html import escape

from adapters.simulator.akshare_company_pages import margin_detail
from adapters.simulator.shapes import (
    MONEY,
    Luck,
    Payload,
    Query,
    Reply,
    Row,
    as_csv,
    as_json,
    as_xls,
    bar_days,
    key_of,
    read_day,
)
from adapters.simulator.world.world import Bar

# --- exchanges and index compilers ---------------------------------------------------------------


def _csindex(query: Query, rng: Luck) -> Reply:
    """Daily bars of one CSI index with its names, sample size and earnings ratio."""
    code = query.get("indexCode", "000300")
    days = bar_days(rng.world, read_day(query.get("startDate")), read_day(query.get("endDate")))
    rows = [
        {"tradeDate": f"{bar.day:%Y%m%d}", "indexCode": code, "indexNameCnAll": f"样本{code}指数"}
        | {"indexNameCn": f"样本{code}", "indexNameEnAll": f"CSI Sample {code} Index"}
        | {"indexNameEn": f"Sample {code}", "open": bar.open, "high": bar.high, "low": bar.low}
        | {"close": bar.close, "change": round(bar.close - bar.before, 2)}
        | {"changePct": round(bar.change, 2), "tradingVol": round(bar.volume / 1e4, 2)}
        | {"tradingValue": round(bar.volume * 12 / 1e4, 2), "consNumber": 60}
        | {"peg": round(bar.close / 300, 2)}
        for bar in _index_bars(rng, code, days)
    ]
    return as_json({"code": "200", "msg": "Success", "data": rows, "success": True})


def _index_bars(rng: Luck, code: str, days: tuple[date, ...]) -> list[Bar]:
    key = key_of("1" if code.startswith("000") else "2", code)
    return rng.world.bars(key, days[0], days[-1]) if days else []


def _cnindex(query: Query, rng: Luck) -> Reply:
    """Daily bars of one CNI index as bare lists, newest first.

    The order is day, current, high, open, low, close, change, percent, amount, volume, average.
    """
    days = bar_days(rng.world, read_day(query.get("startDate")), read_day(query.get("endDate")))
    rows = [
        [
            *(str(bar.day), bar.close, bar.high, bar.open, bar.low, bar.close),
            *(round(bar.close - bar.before, 2), f"{bar.change:.2f}%"),
            *(round(bar.volume * 1.2e4, 2), bar.volume * 1000, None),
        ]
        for bar in reversed(_index_bars(rng, query.get("indexCode", ""), days))
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
        lent = rng.randint(4 * 10**9, 6 * 10**9)
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
    rng = rng.about("margin of Shenzhen", query.get("txtDate"))
    owed, lent = rng.uniform(6500, 7500), rng.uniform(40, 90)
    row = {"jrrzmr": owed * 0.06, "jrrzye": owed, "jrrjmc": lent / 20, "jrrjyl": lent / 8}
    row |= {"jrrjye": lent, "jrrzrjye": owed + lent}
    data = [{name: f"{value:,.2f}" for name, value in row.items()}]
    head = {"catalogid": query.get("CATALOGID"), "subname": query.get("txtDate"), "recordcount": 1}
    return as_json([{"metadata": head, "data": data, "error": None}])


def _bond_workbook(query: Query, rng: Luck) -> Reply:
    """Shanghai bonds by kind on one day, held or dealt, as an old Excel file."""
    held, day = "ZQXQ" in query.get("sqlId", ""), query.get("TRADE_DATE", str(rng.world.now))
    dealt = ["当日成交笔数", "当日成交金额", "当年成交笔数", "当年成交金额"]
    names = ["托管只数", "托管市值(亿元)", "托管面值(亿元)"] if held else dealt
    rows = list[list[str | float]]()
    for kind in ("国债", "地方政府债", "政策性金融债", "企业债券", "公司债券", "可转换公司债券"):
        count, worth = rng.randint(50, 4000), round(rng.uniform(1e3, 5e4), 2)
        more = [round(worth * 0.98, 2)] if held else [count * 190, round(worth * 190, 2)]
        rows.append([kind, count, worth, *more, day])
    return as_xls([["债券现货" if held else "债券类型", *names, "数据日期"], *rows])


# --- China Money ---------------------------------------------------------------------------------

_CURVES = {
    "国债": "CYCC000",
    "政策性金融债(国开行)": "CYCC012",
    "政策性金融债(进出口行)": "CYCC013",
    "中短期票据(AAA)": "CYCC82B",
    "同业存单(AAA)": "CYCC41B",
    "企业债(AAA)": "CYCC60B",
}


def _curve_names(query: Query, rng: Luck) -> Reply:
    """Names and codes of the closing yield curves."""
    rows = [{"cnLabel": name, "value": code} for name, code in _CURVES.items()]
    return as_json({"records": rows})


def _curves(query: Query, rng: Luck) -> Reply:
    """Closing yield curves of the requested days by term in years, on one page; none for a spacing
    of terms that the upstream does not have.
    """
    if (spacing := query.get("termId", "1")) not in ("0.1", "0.5", "1"):
        return as_json({"data": {"total": 0}, "records": []})
    step, page = float(spacing), int(query.get("pageSize", "50"))
    terms, total = int(50 / step) + 1, 0
    days = bar_days(rng.world, read_day(query.get("startDate")), read_day(query.get("endDate")))
    rows = list[Row]()
    for day, short in zip(days, rng.world.series("treasury CN", days, 1.5, 0.006), strict=True):
        total += terms
        if len(rows) >= page:
            continue
        for term in (step * n for n in range(terms)):
            rate = short + 1.1 * term / (term + 8)
            rows.append(
                {"newDateValueCN": str(day), "newDateValue": f"{day:%d/%m/%Y}"}
                | {"yearTermStr": f"{term:.1f}", "maturityYieldStr": f"{rate:.4f}"}
                | {"currentYieldStr": f"{rate * 1.01:.4f}", "futureYieldStr": f"{rate * 1.04:.4f}"}
            )
    return as_json({"data": {"total": min(total, page)}, "records": rows[:page]})


def _fixings(query: Query, rng: Luck) -> Reply:
    """Repo fixing rates of 1, 7 and 14 days; lines end in an empty field."""
    days = bar_days(rng.world)
    return as_csv(
        [day, f"{rate:.4f}", f"{rate + 0.12:.4f}", f"{rate + 0.18:.4f}", ""]
        for day, rate in zip(
            days, rng.world.series(f"repo {rng.path}", days, 1.4, 0.02), strict=True
        )
    )


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
    table = "".join("<tr><td>" + "</td><td>".join(line) + "</td></tr>" for line in lines)
    text = f'<html><body><select id="money_code">{options}</select><table>{table}</table></body>'
    return Reply(f"{text}</html>".encode("gbk"), "text/html; charset=gbk")


def _futures_daily(query: Query, rng: Luck) -> Reply:
    """Daily bars of one futures contract as JSON assigned to a variable."""
    product = query.get("symbol", "RB0").rstrip("0123456789").upper()
    rng = rng.about("futures", product)
    days, rows = bar_days(rng.world) if product.isascii() and product.isalpha() else (), list[Row]()
    bars = rng.world.bars(f"future:{product}", days[0]) if days else []
    for bar, hold in zip(
        bars, rng.world.series(f"hold {product}", days, 1.2e6, 0.004), strict=True
    ):
        prices = {"o": bar.open, "h": bar.high, "l": bar.low, "c": bar.close}
        row = {name: f"{price:.3f}" for name, price in prices.items()}
        rows.append(
            {"d": str(bar.day), **row, "v": str(bar.volume), "p": str(round(hold))}
            | {"s": f"{(bar.high + bar.low) / 2:.3f}"}
        )
    text = as_json(rows).body.decode()
    body = f"/*<script>location.href='//sina.com';</script>*/\nvar _V=({text});"
    return Reply(body.encode(), "application/javascript; charset=utf-8")


def _option_months(query: Query, rng: Luck) -> Reply:
    """Expiry months of one option family; the nearest one comes twice."""
    names = [f"{rng.world.now.year}-{month:02}" for month in (7, 7, 8, 9, 12)]
    data = {"contractMonth": names, "cateList": ["50ETF", "300ETF"], "cateId": "510050C2607"}
    return as_json({"result": {"status": {"code": 0}, "data": data}})


# --- Tencent -------------------------------------------------------------------------------------

_IN_SHARES = ("sh688", "sz399", "sh000", "sz000")
"""The beginnings of keys whose volume Tencent counts in shares, not in lots of a hundred."""


def _assigned(query: Query, data: object) -> Reply:
    """JSON assigned to the variable that the request names."""
    text = as_json({"code": 0, "msg": "", "data": data}).body.decode()
    return Reply(f"{query.get('_var', 'v')}={text}".encode(), "text/html; charset=utf-8")


def _tencent(query: Query, rng: Luck) -> Reply:
    """At most so many of the last daily bars of a range, by the key of a security."""
    key, _, first, last, most, adjust = [*query.get("param", "").split(","), *[""] * 6][:6]
    bars = rng.world.bars(key, read_day(first), read_day(last), adjust=adjust) if key else []
    lots = 100 if key.startswith(_IN_SHARES) else 1
    free = rng.world.instrument(key).shares / 100 or 5e7
    rows = [
        [
            *(str(bar.day), f"{bar.open}", f"{bar.close}", f"{bar.high}", f"{bar.low}"),
            *(f"{bar.volume * lots}", {}, f"{bar.volume * 1e4 / free:.2f}"),
            *(f"{bar.volume * (bar.open + bar.close) / 200:.2f}", ""),
        ]
        for bar in bars[-int(most or 640) :]
    ]
    return _assigned(query, {key: {f"{adjust}day": rows, "qt": {}}})


def _tencent_weeks(query: Query, rng: Luck) -> Reply:
    """The weeks of a security, of which AkShare reads the first day."""
    bars = rng.world.bars(query.get("code", "sh000001"))
    return _assigned(query, [[str(bar.day), f"{bar.close}"] for bar in (bars[0], *bars[4::5])])


# --- Jin10 ---------------------------------------------------------------------------------------


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


_FUTURES = "/futures/api/jsonp.php/var%20_V21052021_4_12=/InnerFuturesNewService.getDailyKLine"
_OPTIONS = "/futures/api/openapi.php/StockOptionService.getStockName"

MARKET: Mapping[tuple[str, str], Payload] = {
    ("www.csindex.com.cn", "/csindex-home/perf/index-perf"): _csindex,
    ("hq.cnindex.com.cn", "/market/market/getIndexDailyDataWithDataFormat"): _cnindex,
    ("query.sse.com.cn", "/marketdata/tradedata/queryMargin.do"): _margin_sse,
    ("query.sse.com.cn", "/commonExcelDd.do"): _bond_workbook,
    ("www.szse.cn", "/api/report/ShowReport/data"): _margin_szse,
    ("www.chinamoney.com.cn", "/ags/ms/cm-u-bk-currency/ClsYldCurvCurvGO"): _curve_names,
    ("www.chinamoney.com.cn", "/ags/ms/cm-u-bk-currency/ClsYldCurvHis"): _curves,
    **{
        ("www.chinamoney.com.cn", f"/r/cms/www/chinamoney/data/currency/{name}-chrt.csv"): _fixings
        for name in ("frr", "fdr")
    },
    ("biz.finance.sina.com.cn", "/forex/forex.php"): _boc_quotes,
    ("stock2.finance.sina.com.cn", _FUTURES): _futures_daily,
    ("stock2.finance.sina.com.cn", _FUTURES.replace("%20", " ")): _futures_daily,  # path decoded
    ("stock.finance.sina.com.cn", _OPTIONS): _option_months,
    ("proxy.finance.qq.com", "/ifzqgtimg/appstock/app/newfqkline/get"): _tencent,
    ("web.ifzq.gtimg.cn", "/other/klineweb/klineWeb/weekTrends"): _tencent_weeks,
    ("datacenter-api.jin10.com", "/reports/list"): _cme_bitcoin,
    ("datacenter-api.jin10.com", "/sentiment/datas"): _sentiment,
}

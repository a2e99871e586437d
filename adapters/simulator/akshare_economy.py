"""Simulated answers of sources on the economy, funds, currencies, news and sentiment."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, time, timedelta

from adapters.simulator.akshare_funds import LONGEST, fund_key
from adapters.simulator.shapes import (
    MONEY,
    Luck,
    Payload,
    Query,
    Reply,
    Row,
    as_csv,
    as_json,
    as_page,
    as_xlsx,
    bar_days,
    html_table,
    months,
    script,
    to_json,
)
from adapters.simulator.world.instruments import CHINA, INDUSTRIES
from adapters.simulator.world.world import Bar

# --- Indexes of the real economy -----------------------------------------------------------------

_EPU_TEXT = "SCMP_China US Europe Korea Spain Japan UK Canada Australia Brazil India Mexico Russia"
_EPU_BOOK = "Ireland Chile Colombia Netherlands Singapore Sweden FKT_Greece"


def _uncertainty(query: Query, rng: Luck) -> list[Sequence[str | float]]:
    """Monthly economic policy uncertainty of one country, under a heading."""
    when, name = months(rng.world, 300), f"policy uncertainty {rng.path}"
    points = zip(when, rng.world.series(name, when, 150, 0.12), strict=True)
    head = ["Year", "Month", "Policy_Uncertainty_Index"]
    return [head, *([day.year, day.month, round(max(value, 12), 3)] for day, value in points)]


def _epu_text(query: Query, rng: Luck) -> Reply:
    """The index of one country as text."""
    return as_csv(_uncertainty(query, rng))


def _epu_book(query: Query, rng: Luck) -> Reply:
    """The index of one country as an Excel file."""
    return as_xlsx(_uncertainty(query, rng))


def _emission(query: Query, rng: Luck) -> Reply:
    """Emission-rights index of Zhejiang by month or quarter."""
    when = months(rng.world, 72) if query.get("cycle") == "MONTH" else months(rng.world, 24, 3)
    rows = [
        {"indexValue": round(value, 2), "stage": {"publishTime": f"{day} 00:00:00"}}
        for day, value in zip(
            when, rng.world.series("emission rights", when, 1200, 0.05), strict=True
        )
    ]
    return as_json({"code": 200, "data": rows})


def _emission_trade(query: Query, rng: Luck) -> Reply:
    """Emission rights traded in the same periods: quantity and cost."""
    is_monthly = query.get("cycle") == "MONTH"
    when = months(rng.world, 72) if is_monthly else months(rng.world, 24, 3)
    size = [rng.about("emission", day, is_monthly).randint(200, 4000) for day in when]
    rows = [{"totalQuantity": n, "totalCost": round(n * rng.uniform(0.8, 1.4), 2)} for n in size]
    return as_json({"code": 200, "data": rows})


def _indexes(*names: str) -> Payload:
    """Make the payload of the Yiwu indexes with these names, newest first."""

    def answer(query: Query, rng: Luck) -> Reply:
        when = months(rng.world, 120)
        paths = [rng.world.series(f"{rng.path} {name}", when, 105, 0.02) for name in names]
        rows = [
            {"indextimeno": str(day)}
            | {n: round(p[at], 2) for n, p in zip(names, paths, strict=True)}
            for at, day in enumerate(when)
        ]
        return as_json({"code": 0, "data": rows[::-1]})

    return answer


def _freight(query: Query, rng: Luck) -> Reply:
    """Road freight prices: fixed base, on the period before and on the year before."""
    gap = {"3": 1, "4": 3, "5": 12}.get(query.get("exponentTypeId", "2"))
    days = bar_days(rng.world)
    fridays = [day for day in days if day.weekday() == 4]
    when = months(rng.world, 40, gap) if gap else fridays
    charts = {
        f"chart{n}": {
            "xLebal": [str(day) for day in when],
            "yLebal": [
                f"{value:.2f}" for value in rng.world.series(f"freight {n}", when, level, 0.005)
            ],
        }
        for n, level in ((1, 1000), (2, 100), (3, 100))
    }
    return as_json(charts)


# --- funds, currencies, news, moods -------------------------------------------------------


def _fund_staff(query: Query, rng: Luck) -> Reply:
    """Registered staff of fund houses, on one page."""
    rows = list[Row]()
    for one in CHINA:
        staff = rng.randint(80, 900)
        rows.append(
            {"orgName": f"{one.name}基金管理有限公司", "orgType": "公募基金管理公司"}
            | {"workerTotalNum": staff, "operNum": int(staff * 0.9), "salesmanNum": staff // 10}
            | {"investmentManagerNum": staff // 20, "fundManagerNum": staff // 9}
        )
    return as_json({"content": rows, "totalElements": len(rows), "totalPages": 1})


def _fund_bars(code: str, rng: Luck, days: int = 0) -> tuple[list[int], list[Bar]]:
    """The values of an open fund, all or those of the last days, with their Unix times in ms."""
    bars = rng.world.bars(fund_key(code), rng.world.now - timedelta(days or LONGEST))
    noon = time(0)
    starts = (datetime.combine(bar.day, noon, UTC).timestamp() for bar in bars)
    return [round(start * 1000) - 8 * 3_600_000 for start in starts], bars


def _fund_values(query: Query, rng: Luck) -> Reply:
    """What is shown of an open fund, as JavaScript: values, ranks among its like, income."""
    code = rng.path.rpartition("/")[2].removesuffix(".js")
    at, bars = _fund_bars(code, rng)
    ranks = [round(n) for n in rng.world.series(f"rank {code}", [b.day for b in bars], 900, 0.05)]
    pairs = list(zip(at, bars, strict=True))
    units = [
        {"x": when, "y": bar.close, "equityReturn": round(bar.change, 2), "unitMoney": ""}
        for when, bar in pairs
    ]
    places = list(zip(at, ranks, strict=True))
    named: dict[str, object] = {"fS_code": code, "Data_netWorthTrend": units}
    named["Data_ACWorthTrend"] = [[when, bar.close] for when, bar in pairs]
    named["Data_rateInSimilarType"] = [{"x": w, "y": rank, "sc": "2000"} for w, rank in places]
    named["Data_rateInSimilarPersent"] = [[w, round(100 - rank / 20, 2)] for w, rank in places]
    named["Data_millionCopiesIncome"] = [[w, round(0.3 + rank / 9e3, 4)] for w, rank in places]
    named["Data_sevenDaysYearIncome"] = [[w, round(1.1 + rank / 3e3, 3)] for w, rank in places]
    text = "".join(f"var {name} = {to_json(v)};" for name, v in named.items())
    return script(text)


_SPANS = {"m": 30, "q": 91, "hy": 182, "y": 365, "try": 1096, "fiy": 1826, "sy": 181}


def _fund_returns(query: Query, rng: Luck) -> Reply:
    """What an open fund returned since the beginning of a span, in percent."""
    code = query.get("fundCode", "000001")
    at, bars = _fund_bars(code, rng, _SPANS.get(query.get("type", "se"), 0))
    start = bars[0].close if bars else 1.0
    points = [[w, round((b.close / start - 1) * 100, 2)] for w, b in zip(at, bars, strict=True)]
    return as_json({"Data": [{"name": code, "data": points}], "ErrCode": 0})


def _fund_payouts(query: Query, rng: Luck) -> Reply:
    """A page without payouts and splits of an open fund."""
    heads = ("年份 权益登记日 除息日 每份分红 分红发放日", "年份 拆分折算日 拆分类型 拆分折算比例")
    tables = [
        html_table([[nothing] * len(head.split())], head.split())
        for head, nothing in zip(heads, ("暂无分红信息!", "暂无拆分信息!"), strict=True)
    ]
    return as_page(html_table([["-"]]), *tables)


def _currency_rank(query: Query, rng: Luck) -> Reply:
    """Currencies quoted against the yuan or the dollar, all on the first page."""
    yuan, rows = query.get("type", "rmb") == "rmb", list[Row]()
    for name, code in MONEY.items():
        if code == "USD" and not yuan:
            continue
        quote = "CNY" if yuan else "USD"
        price = rng.world.rate(code, quote)
        before = rng.world.rate(code, quote, rng.world.now - timedelta(1))
        cells = {"最新价": f"{price:.4f}", "涨跌额": f"{price - before:.4f}"}
        cells |= {"涨跌幅": f"{(price / before - 1) * 100:+.2f}%"}
        rows.append(
            {"code": code + ("CNY" if yuan else "USD")}
            | {"name": f"{name}兑{'人民币' if yuan else '美元'}"}
            | {"market": "global", "list": [{"text": t, "value": v} for t, v in cells.items()]}
            | {"status": "", "icon1": "", "icon2": "", "financeType": "foreign"}
        )
    return as_json({"ResultCode": "0", "Result": [] if query.get("pn", "0") != "0" else rows})


def _closing(rng: Luck) -> int:
    """The Unix time of the close in Shanghai, on the world's day."""
    return int(datetime.combine(rng.world.now, time(8), UTC).timestamp())


def _flashes(query: Query, rng: Luck) -> Reply:
    """Twenty news flashes of the base day, ten minutes apart, a fifth of them important."""
    rows = list[Row]()
    for at in range(20):
        one = rng.choice(CHINA)
        change = rng.world.latest(one.key, 1)[-1].change
        moved = "走强" if change > 0.5 else "回落" if change < -0.5 else "震荡"
        title = f"{INDUSTRIES[one.code]}板块{one.name}{moved}"
        row = {"id": 2_000_000 - at, "title": title, "level": "B" if at % 5 == 0 else "C"}
        text = f"【{title}】{one.name}涨跌幅{change:+.2f}%。"
        rows.append(row | {"content": text, "ctime": _closing(rng) - at * 600})
    return as_json({"error": 0, "data": {"roll_data": rows}})


def _crowd(query: Query, rng: Luck) -> Reply:
    """Stocks ranked by followers, posts or deals, whichever `order_by` names."""
    rows = [
        {"symbol": one.key.upper(), "name": one.name, "current": rng.world.close(one.key)}
        | {kind: rng.randint(10**4, 3 * 10**6) for kind in ("follow", "tweet", "deal")}
        | {f"{kind}7d": rng.randint(10, 9000) for kind in ("follow", "tweet", "deal")}
        for one in CHINA
    ]
    rows.sort(key=lambda row: float(str(row.get(query.get("order_by", "follow"), 0))), reverse=True)
    return as_json({"data": {"count": len(rows), "list": rows}, "error_code": 0})


_YIWU = "/yiwuindex/v1/active/industry/class/history"
_PRICES = [
    f"{kind}priceindex" for kind in ["total", "stockdeal", "netdeal", "orderdeal", "outdeal"]
]
ECONOMY: Mapping[tuple[str, str], Payload] = {
    **{
        ("www.policyuncertainty.com", f"/media/{name}_Policy_Uncertainty_Data.csv"): _epu_text
        for name in _EPU_TEXT.split()
    },
    **{
        ("www.policyuncertainty.com", f"/media/{name}_Policy_Uncertainty_Data.xlsx"): _epu_book
        for name in _EPU_BOOK.split()
    },
    ("www.policyuncertainty.com", "/media/HK_EPU_Data_Annotated.xlsx"): _epu_book,
    ("zs.zjpwq.net", "/pwq-index-webapi/indexData"): _emission,
    ("zs.zjpwq.net", "/pwq-index-webapi/dataStatistics"): _emission_trade,
    ("apiserver.chinagoods.com", f"{_YIWU}/bi"): _indexes(
        "totalindex", "scopeindex", "benifitindex", "confidentindex"
    ),
    ("apiserver.chinagoods.com", f"{_YIWU}/piweek"): _indexes(*_PRICES),
    ("apiserver.chinagoods.com", f"{_YIWU}/month"): _indexes(*_PRICES),
    ("index.0256.cn", "/expcenter_trend.action"): _freight,
    ("index.0256.cn", "/volume_query.action"): _freight,
    ("gs.amac.org.cn", "/amac-infodisc/api/pof/personOrg"): _fund_staff,
    ("fund.eastmoney.com", "/pingzhongdata/*.js"): _fund_values,
    ("api.fund.eastmoney.com", "/pinzhong/LJSYLZS"): _fund_returns,
    ("fundf10.eastmoney.com", "/fhsp_*.html"): _fund_payouts,
    ("finance.pae.baidu.com", "/api/getforeignrank"): _currency_rank,
    ("www.cls.cn", "/v1/roll/get_roll_list"): _flashes,
    ("xueqiu.com", "/service/v5/stock/screener/screen"): _crowd,
}

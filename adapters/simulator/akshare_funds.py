"""Simulated sources on funds and on the members of indices.

A fund is worth its holdings less its fee, and shows both: its values are the world's prices of it,
its holdings the weights of that day.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from adapters.simulator.keys import key_of
from adapters.simulator.shapes import (
    Luck,
    Payload,
    Query,
    Reply,
    Row,
    as_json,
    as_page,
    as_text,
    as_xls,
    as_xlsx,
    bar_days,
    html_table,
    read_day,
    script,
    sheet,
    to_json,
)
from adapters.simulator.world.companies import index_earnings
from adapters.simulator.world.economy import money
from adapters.simulator.world.instruments import CHINA, INDUSTRIES, LISTED
from adapters.simulator.world.world import Bar, World

OPEN_FUNDS: Final = {
    "000001": "华夏成长混合", "110011": "易方达优质精选混合", "005827": "易方达蓝筹精选混合",
    "161725": "招商中证白酒指数A", "003096": "中欧医疗健康混合C", "260108": "景顺长城新兴成长混合A",
    "163402": "兴全趋势投资混合", "110022": "易方达消费行业股票", "519674": "银河创新成长混合A",
    "001938": "中欧时代先锋股票A", "000961": "天弘沪深300ETF联接A", "001051": "华夏上证50ETF联接A",
    "110020": "易方达沪深300ETF联接A", "000248": "汇添富中证主要消费ETF联接A",
}  # fmt: skip
"""Open funds by code."""

_INDEXED: Final = ("000961", "001051", "110020", "000248", "161725")
_MONEY: Final = frozenset({"000009", "000198", "000343", "000509"})
"""Funds of the money market, whose values are incomes."""


def fund_key(code: str) -> str:
    """The world's key of a fund: one that an exchange trades, or an open one."""
    return key_of("", code) if code.startswith(("15", "51", "56", "58")) else f"of{code}"


def _name(world: World, code: str) -> str:
    return OPEN_FUNDS.get(code) or world.instrument(fund_key(code)).name


def _shares(world: World, code: str) -> float:
    """The shares of a fund."""
    return round(10 ** (8 + 2 * world.luck("fund shares", code)))


def _returns(world: World, code: str) -> list[float]:
    """What a fund returned in a week, 1, 3 and 6 months, 1, 2 and 3 years, this year, and in all,
    in percent.
    """
    key, now = fund_key(code), world.now
    spans = [now - timedelta(days) for days in (7, 30, 91, 182, 365, 730, 1095)]
    starts = [*spans, date(now.year - 1, 12, 31), now - timedelta(LONGEST)]
    last = world.close(key)
    return [round((last / world.close(key, day) - 1) * 100, 2) for day in starts]


LONGEST: Final = 6 * 365
"""The days of an open fund."""


def _values(query: Query, rng: Luck) -> Reply:
    """The values of a fund by day, newest first, all on the first page."""
    code, world = query.get("fundCode", "000001"), rng.world
    first = read_day(query.get("startDate")) or world.now - timedelta(LONGEST)
    first = max(first, world.now - timedelta(LONGEST))
    rows = list[Row]()
    if query.get("pageIndex", "1") == "1":
        bars = world.bars(fund_key(code), first, read_day(query.get("endDate")))
        incomes = money(world, "repo", "CNY", [bar.day for bar in bars], 7 / 365)
        for bar, income in zip(bars, incomes, strict=True):
            told = (f"{bar.close:.4f}", f"{bar.close:.4f}")
            if code in _MONEY:
                told = (f"{income * 100 / 365:.4f}", f"{income:.4f}")
            rows.append(
                {"FSRQ": str(bar.day), "DWJZ": told[0], "LJJZ": told[1], "SDATE": None}
                | {"ACTUALSYI": "", "NAVTYPE": "1", "JZZZL": f"{bar.change:.2f}"}
                | {"SGZT": "开放申购", "SHZT": "开放赎回", "FHFCZ": "", "FHFCBZ": "", "DTYPE": None}
                | {"FHSP": ""}
            )
    count = min(len(rows), 20)
    data = {"LSJZList": rows[::-1], "FundType": "001", "SYType": None, "isNewType": False}
    told_ = {"Data": data, "ErrCode": 0, "ErrMsg": None, "TotalCount": count}
    return as_json(told_ | {"Expansion": None, "PageSize": 20, "PageIndex": 1})


def _ranked(query: Query, rng: Luck) -> Reply:
    """All open funds, those that returned most in a year first."""
    lines = list[tuple[float, str]]()
    for code, name in OPEN_FUNDS.items():
        bar, gains = rng.world.latest(fund_key(code), 1)[-1], _returns(rng.world, code)
        cells: list[object] = [code, name, "", bar.day, f"{bar.close:.4f}", f"{bar.close:.4f}"]
        cells += [f"{bar.change:.2f}", *gains, str(rng.world.now - timedelta(LONGEST)), 1]
        cells += [gains[4], "1.50%", "0.15%", 1, "0.15%", 1, ""]
        lines.append((-gains[4], ",".join(map(str, cells))))
    text = to_json({"datas": [line for _, line in sorted(lines)], "allRecords": len(lines)})
    return script(f"var rankData = {text};")


def _ranked_indices(query: Query, rng: Luck) -> Reply:
    """The open funds that follow an index."""
    lines = list[str]()
    for code in _INDEXED:
        bar, gains = rng.world.latest(fund_key(code), 1)[-1], _returns(rng.world, code)
        cells: list[object] = [code, OPEN_FUNDS[code], "", bar.day, f"{bar.close:.4f}"]
        cells += [f"{bar.change:.2f}", *gains, "", "", "", "0.12", *[""] * 5, "10", *[""] * 4]
        lines.append("|".join(map(str, cells)))
    data = {"datas": lines, "allRecords": len(lines)}
    return as_json({"Data": to_json(data), "ErrCode": 0, "TotalCount": len(lines)})


def _quarters(world: World, year: str) -> list[date]:
    """The ends of the quarters of a year up to now, newest first."""
    number = int(year) if year.isdecimal() else world.now.year
    ends = [date(number, month, day) for month, day in ((12, 31), (9, 30), (6, 30), (3, 31))]
    return [day for day in ends if date(2005, 3, 1) < day <= world.now]


def _held(world: World, code: str, day: date) -> Iterator[tuple[str, float, float, float]]:
    """What a fund holds at the end of a day: the member, its weight, shares and worth."""
    assets = _shares(world, code) * world.close(fund_key(code), day)
    weights = world.holdings(fund_key(code), day)
    for member, weight in sorted(weights.items(), key=lambda item: -item[1]):
        yield member, weight, assets * weight / world.close(member, day), assets * weight


def _archives(query: Query, rng: Luck) -> Reply:
    """The shares that a fund holds at the ends of a year's quarters, as tables of HTML."""
    code, text = query.get("code", "000001"), ""
    heads = ["序号", "股票代码", "股票名称", "相关资讯", "占净值比例"]
    heads += ["持股数（万股）", "持仓市值（万元）"]
    for day in _quarters(rng.world, query.get("year", "")):
        label = f"{day.year}年{day.month // 3}季度股票投资明细"
        rows = [
            [
                *(place, LISTED[member].code, LISTED[member].name, "股吧"),
                *(f"{weight * 100:.2f}%", f"{number / 1e4:.2f}", f"{worth / 1e4:.2f}"),
            ]
            for place, (member, weight, number, worth) in enumerate(
                _held(rng.world, code, day), start=1
            )
        ]
        text += f"<h4 class='t'><label>{_name(rng.world, code)}&nbsp;&nbsp;{label}&nbsp;&nbsp;"
        text += f"</label></h4>{html_table(rows, heads)}"
    told = to_json({"content": text, "arryear": [], "curyear": rng.world.now.year})
    return script(f"var apidata={told};")


def _industries(query: Query, rng: Luck) -> Reply:
    """What a fund holds by industry at the ends of a year's quarters."""
    code, quarters = query.get("fundCode", "000001"), list[Row]()
    for day in _quarters(rng.world, query.get("year", "")):
        groups: dict[str, list[float]] = {}
        for member, weight, _, worth in _held(rng.world, code, day):
            group = groups.setdefault(INDUSTRIES[LISTED[member].code], [0.0, 0.0])
            group[0], group[1] = group[0] + weight, group[1] + worth
        rows = [
            {"BZDM": code, "FSRQ": str(day), "HYDM": "C", "HYMC": industry}
            | dict.fromkeys(("SZ", "SZDesc"), f"{worth / 1e4:.2f}")
            | {"ZJZBL": f"{weight * 100:.2f}"}
            | {f"x{place}": None for place in range(9)}
            for industry, (weight, worth) in groups.items()
        ]
        quarters.append({"JZRQ": str(day), "HYPZInfo": rows})
    told = to_json({"Data": {"FundCode": code, "QuarterInfos": quarters}, "ErrCode": 0})
    return script(f"{query.get('callback', 'call')}({told})")


def _overview(query: Query, rng: Luck) -> Reply:
    """What is known of a fund: the last table of its page, two facts to a row."""
    code, world = rng.path.rpartition("_")[2].removesuffix(".html"), rng.world
    name, shares = _name(world, code), _shares(world, code)
    worth = shares * world.close(fund_key(code)) / 1e8
    since = world.now - timedelta(LONGEST)
    facts = [
        ("基金全称", f"{name}型证券投资基金"), ("基金简称", name), ("基金代码", f"{code}（前端）"),
        ("基金类型", "混合型-偏股"), ("发行日期", str(since)),
        ("成立日期/规模", f"{since} / 10亿份"),
        ("资产规模", f"{worth:.2f}亿元（截止至：{world.now}）"),
        ("份额规模", f"{shares / 1e8:.4f}亿份（截止至：{world.now}）"), ("基金管理人", "模拟基金"),
        ("基金托管人", "模拟银行"), ("基金经理人", "模拟经理"),
        ("成立来分红", "每份累计0.00元（0次）"), ("管理费率", "0.40%（每年）"),
        ("托管费率", "0.10%（每年）"), ("销售服务费率", "---（每年）"), ("最高认购费率", "1.20%"),
        ("业绩比较基准", "沪深300指数收益率"), ("跟踪标的", "该基金无跟踪标的"),
    ]  # fmt: skip
    rows = [[*facts[at], *facts[at + 1]] for at in range(0, len(facts), 2)]
    return sheet([rows])


def _hong_kong(query: Query, rng: Luck) -> Reply:
    """The values of a fund of Hong Kong, newest first."""
    bars = rng.world.latest(f"of{query.get('hkfcode', '')}", 1000)
    rows = [
        {"HKFCODE": "", "FCODE": "", "ID": place, "PDATE": str(bar.day), "NAV": bar.close}
        | {"x": "", "NAVCHG": round(bar.close - bar.before, 4), "D": round(bar.change, 2)}
        | {"y": "", "CURRENCY": "人民币", "z": ""}
        for place, bar in enumerate(reversed(bars))
    ]
    return as_json({"Data": rows, "ErrCode": 0})


def _traded(query: Query, rng: Luck) -> Reply:
    """The values of the funds that exchanges trade, by code."""
    day = read_day(rng.path.split("_")[3]) or rng.world.now
    rows = dict[str, Row]()
    for key, one in LISTED.items():
        if (one.kind, one.exchange) == ("fund", "CN"):
            bar = rng.world.bars(key, day - timedelta(20), day)[-1]
            last = rng.world.latest(key, 1)[-1]
            rows[f"f{one.code}"] = (
                {"code": one.code, "typename": "股票型", "net": f"{bar.close}", "name": one.name}
                | {"totalnet": f"{bar.close}", "newnet": f"{last.close}"}
                | {"newtotalnet": f"{last.close}", "newdate": str(last.day)}
                | {"net1": f"{bar.before}", "totalnet1": f"{bar.before}"}
                | {"ranges": f"{bar.close - bar.before:.4f}", "rate": f"{bar.change:.2f}"}
                | {"shstat": "开放", "sgstat": "开放"}
            )
    return script(f"g({to_json({'data': {'data': rows}})})")


def _sizes(query: Query, rng: Luck) -> Reply:
    """The sizes of open funds."""
    rows = list[Row]()
    for code, name in OPEN_FUNDS.items():
        bar, shares = rng.world.latest(fund_key(code), 1)[-1], _shares(rng.world, code)
        rows.append(
            {"symbol": code, "sname": name, "per_nav": bar.close, "total_nav": bar.close}
            | {"three_month": 0, "six_month": 0, "one_year": 0, "form_year": 0, "form_start": 0}
            | {"name": "", "zmjgm": f"{shares * 0.8:.0f}", "jjgm": "", "jjlx": ""}
            | {"clrq": f"{rng.world.now - timedelta(LONGEST)} 00:00:00", "jjjl": "模拟经理"}
            | {"dwjz": f"{bar.close}", "ljjz": f"{bar.close}", "jzrq": f"{bar.day} 00:00:00"}
            | {"zjzfe": f"{shares}", "jjglr_code": "80000222"}
        )
    text = to_json({"total_num": len(rows), "data": rows})
    return script(f"IO.XSRV2.CallbackList['J2cW8KXheoWKdSHc']({text});")


def _houses(query: Query, rng: Luck) -> Reply:
    """What fund houses manage at the end of a year, in hundred millions, by kind of fund."""
    heads = ["序号", "基金公司", "总规模", "股票型", "混合型", "债券型", "指数型", "QDII", "货币型"]
    rows: list[Sequence[object]] = [heads]
    names = ("易方达基金", "华夏基金", "广发基金", "富国基金", "南方基金", "嘉实基金", "博时基金")
    for place, house in enumerate(names, start=1):
        luck = rng.about("fund house", house, query.get("year"))
        kinds = [round(luck.uniform(50, 4000), 2) for _ in range(6)]
        rows.append([place, house, round(sum(kinds), 2), *kinds])
    return sheet([rows], has_head=True)


def _ratings(query: Query, rng: Luck) -> Reply:
    """The ratings of open funds at the end of a quarter, or the page that lists these days."""
    agency, _, day = rng.path.rpartition("/")[2].removesuffix(".html")[11:].partition("_")
    years = range(2021, rng.world.now.year + 1)
    ends = [one for year in years for one in _quarters(rng.world, str(year))[::-1]]
    options = "".join(f'<option value="{one}">{one}</option>' for one in reversed(ends))
    lines = list[str]()
    at = read_day(day) or ends[-1]
    for code, name in OPEN_FUNDS.items():
        luck = rng.about("rating", agency, code, at)
        bar = rng.world.bars(fund_key(code), at - timedelta(20), at)[-1]
        gains = [
            round((bar.close / rng.world.close(fund_key(code), at - timedelta(span)) - 1) * 100, 2)
            for span in (365, 1095, 1825)
        ]
        cells: list[object] = [code, name, "混合型", "模拟经理", "1", "模拟基金", "1"]
        cells += [luck.randint(1, 5), 0]
        cells += [] if agency in {"2", "4"} else [luck.randint(1, 5), 0]
        cells += [f"{bar.close:.4f}", bar.day, f"{bar.change:.2f}", *gains, "0.15%", *[""] * 4]
        lines.append("|".join(map(str, cells)))
    text = "|_".join(lines)
    info = f'<script>var fundinfos = "{text}";</script>'
    return as_page(f'<select id="rqoptions">{options}</select><div id="fundinfo">{info}</div>')


def _notices(query: Query, rng: Luck) -> Reply:
    """The notices of a fund: its report of each quarter, or what the kind is about."""
    code = query.get("fundcode", "000001")
    name = _name(rng.world, code)
    kind = {"2": "分红公告", "4": "基金经理变更公告"}.get(query.get("type", "3"), "季度报告")
    years = range(rng.world.now.year - 2, rng.world.now.year + 1)
    days = [one for year in years for one in _quarters(rng.world, str(year))[::-1]]
    rows = [
        {"FUNDCODE": code, "TITLE": f"{name}:{day.year}年第{day.month // 3}期{kind}"}
        | {"ShortTitle": name, "NEWCATEGORY": query.get("type", "3")}
        | {"PUBLISHDATEDesc": str(day), "PUBLISHDATE": str(day), "ATTACHTYPE": "0"}
        | {"ID": f"AN{day:%Y%m%d}{code}"}
        for day in days
    ]
    return as_json({"Data": rows, "ErrCode": 0, "TotalCount": len(rows)})


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


# --- Danjuan -------------------------------------------------------------------------------------


def _danjuan(query: Query, rng: Luck) -> Reply:
    """Facts of one fund: what it is, how it did, what it costs and what it holds."""
    code = query.get("fund_code") or rng.path.rpartition("/")[2]
    world, what = rng.world, rng.path.rpartition("/")[0]
    name = _name(world, code)
    made: object
    if what.endswith("/achievement"):
        made = _achieved(world, code)
    elif what.endswith("/analysis"):
        made = {"index_data_list": _analysed(world, code)}
    elif what.endswith("/ratio"):
        made = {"data_list": _won(world, code)}
    elif what.endswith("/detail"):
        buys = [{"name": "0万<买入金额<100万", "value": 1.5}]
        sells = [{"name": "0天<持有期限<7天", "value": 1.5}]
        more = [{"name": "基金管理费", "value": 0.4}, {"name": "基金托管费", "value": 0.1}]
        made = {"fund_rates": {"declare_rate_table": buys, "withdraw_rate_table": sells}
                | {"other_rate_table": more}}  # fmt: skip
    elif what.endswith("/asset"):
        made = {"chart_list": [{"type_desc": "股票", "percent": 100.0},
                               {"type_desc": "现金", "percent": 0.0}]}  # fmt: skip
    else:
        made = {
            "fd_code": code, "fd_name": name, "fd_full_name": f"{name}型证券投资基金",
            "found_date": str(world.now - timedelta(LONGEST)), "keeper_name": "模拟基金",
            "totshare": f"{_shares(world, code) / 1e8:.2f}亿", "manager_name": "模拟经理",
            "trup_name": "模拟银行", "type_desc": "混合型-偏股", "rating_source": "晨星评级",
            "rating_desc": "三星基金", "invest_orientation": "持有十只股票",
            "invest_target": "长期增值",
            "performance_bench_mark": "沪深300指数收益率",
        }  # fmt: skip
    return as_json({"data": made, "result_code": 0})


def _span(bars: Sequence[Bar]) -> tuple[float, float]:
    """The return and the deepest fall from a top, in percent."""
    top, fall = bars[0].before, 0.0
    for bar in bars:
        top = max(top, bar.close)
        fall = max(fall, 1 - bar.close / top)
    return (bars[-1].close / bars[0].before - 1) * 100, fall * 100


def _achieved(world: World, code: str) -> object:
    def row(label: str, first: date, last: date) -> Row:
        gain, fall = _span(world.bars(fund_key(code), first, last))
        rank = f"{1 + int(999 * world.luck('rank', code, label))}/1000"
        row = {"period_time": label, "self_nav": f"{gain:.2f}%"}
        return row | {"self_max_draw_down": f"{fall:.2f}%", "self_nav_rank": rank}

    now = world.now
    years = [row(str(y), date(y, 1, 1), date(y, 12, 31)) for y in range(now.year - 3, now.year)]
    stages = {"近1月": 30, "近3月": 91, "近6月": 182, "近1年": 365, "近3年": 1095, "近5年": 1825}
    spans = [row(label, now - timedelta(days), now) for label, days in stages.items()]
    return {"annual_performance_list": years, "stage_performance_list": spans}


def _analysed(world: World, code: str) -> list[Row]:
    found = list[Row]()
    for label, days in (("近1年", 365), ("近3年", 1095), ("近5年", 1825)):
        bars = world.bars(fund_key(code), world.now - timedelta(days))
        gain, fall = _span(bars)
        size = (sum(bar.change**2 for bar in bars) / len(bars) * 242) ** 0.5
        own = {"volatility_rank": round(size / 100, 4), "max_draw_down": round(fall / 100, 4)}
        own["sharpe_rank"] = round((gain * 365 / days - 1.5) / size, 2)
        rank = world.luck("analysis", code, label)
        found.append(
            {"index_time_period": label, "investment_cost_performance": round(100 * rank)}
            | {"risk_control": round(100 - 100 * rank), "self_index": own}
        )
    return found


def _won(world: World, code: str) -> list[Row]:
    """How often a fund that was held so long gained, and what it gained on average."""
    closes = [bar.close for bar in world.bars(fund_key(code), world.now - timedelta(LONGEST))]
    found = list[Row]()
    for label, days in (("满6个月", 121), ("满1年", 242), ("满2年", 484), ("满3年", 726)):
        gains = [b / a - 1 for a, b in zip(closes, closes[days:], strict=False)]
        won = sum(gain > 0 for gain in gains) / len(gains)
        mean = sum(gains) / len(gains)
        row = {"holding_time": label, "profit_ratio": f"{won * 100:.2f}%"}
        found.append(row | {"average_income": f"{mean * 100:.2f}%"})
    return found


# --- members of indices --------------------------------------------------------------------------


def _members(world: World, code: str) -> dict[str, float]:
    """The weights of an index's members on the last day; an index without members has ten."""
    return dict(sorted(world.holdings(key_of("2", code)).items(), key=lambda item: -item[1]))


def _csindex_members(query: Query, rng: Luck) -> Reply:
    """The members of one CSI index, with or without their weights, as an old Excel file."""
    name, world = rng.path.rpartition("/")[2].removesuffix(".xls"), rng.world
    has_weights = name.endswith("closeweight")
    code = name.removesuffix("closeweight").removesuffix("cons")
    heads: list[str | float] = ["日期", "指数代码", "指数名称", "指数英文名称", "成分券代码"]
    heads += ["成分券名称", "成分券英文名称", "交易所", "交易所英文名称"]
    rows: list[list[str | float]] = [heads + (["权重(%)"] if has_weights else [])]
    for member, weight in _members(world, code).items():
        one = LISTED[member]
        place = (
            ("上海证券交易所", "Shanghai") if member[:2] == "sh" else ("深圳证券交易所", "Shenzhen")
        )
        row: list[str | float] = [f"{world.days('CN')[-1]:%Y%m%d}", code]
        row += [world.instrument(key_of("2", code)).name, f"CSI {code}", one.code, one.name]
        row += [f"Sample {one.code}", place[0], f"{place[1]} Stock Exchange"]
        rows.append(row + ([round(weight * 100, 3)] if has_weights else []))
    return as_xls(rows)


def _csindex_ratios(query: Query, rng: Luck) -> Reply:
    """The ratios of price to earnings and of payouts to price of one CSI index, newest first."""
    code = rng.path.rpartition("/")[2].removesuffix("indicator.xls")
    bars = rng.world.latest(key_of("2", code), 20)
    ratios = index_earnings(rng.world, key_of("2", code))[-len(bars) :].tolist()
    name = rng.world.instrument(key_of("2", code)).name
    heads: list[str | float] = ["日期Date", "指数代码Index Code", "指数中文全称", "指数中文简称"]
    heads += ["指数英文全称", "指数英文简称", "市盈率1", "市盈率2", "股息率1", "股息率2"]
    rows: list[list[str | float]] = [heads]
    for bar, multiple in zip(reversed(bars), reversed(ratios), strict=True):
        ratio = round(multiple, 2)
        row: list[str | float] = [f"{bar.day:%Y%m%d}", code, name, name, f"CSI {code}", code]
        rows.append(
            [*row, ratio, round(ratio * 1.02, 2), round(35 / ratio, 2), round(34 / ratio, 2)]
        )
    return as_xls(rows)


def _cni_members(query: Query, rng: Luck) -> Reply:
    """The members of one CNI index with their weights, as an old Excel file."""
    code, world = query.get("indexcode", "399001"), rng.world
    rows: list[list[str | float]] = [
        ["日期", "样本代码", "样本简称", "所属行业", "总市值（亿元）", "权重（%）"]
    ]
    for member, weight in _members(world, code).items():
        one = LISTED[member]
        worth = world.close(member) * one.shares / 1e8
        row: list[str | float] = [str(world.days("CN")[-1]), one.code, one.name]
        rows.append([*row, INDUSTRIES[one.code], round(worth, 2), round(weight * 100, 2)])
    return as_xls(rows)


def _cni_changes(query: Query, rng: Luck) -> Reply:
    """The members of one CNI index, all of which have been in it from the world's first day on."""
    rows: list[list[str | float]] = [
        ["开始日期", "结束日期", "样本代码", "样本简称", "所属行业", "调整类型"]
    ]
    for member in _members(rng.world, query.get("indexcode", "399001")):
        one = LISTED[member]
        rows.append([str(rng.world.days("CN")[0]), "", one.code, one.name])
        rows[-1] += [INDUSTRIES[one.code], "调入"]
    return as_xlsx(rows)


def _sina_members(query: Query, rng: Luck) -> Reply:
    """The page of an index's members, the fourth table of which lists them."""
    code = rng.path.rpartition("/")[2].removesuffix(".phtml")
    start = str(rng.world.days("CN")[0])
    rows: list[Sequence[object]] = [
        ["最新成份", "", "", ""],
        ["品种代码", "品种名称", "纳入日期", ""],
    ]
    rows += [
        [LISTED[member].code, LISTED[member].name, start, ""]
        for member in _members(rng.world, code)
    ]
    more = "<tr><td>-</td></tr>" * 3
    pages = f'<table class="table2"><tr><td><a href="#">1</a></td></tr>{more}</table>'
    others = f"<table>{more}</table>"
    text = f"<html><body>{others}{others}{pages}{html_table(rows)}</body></html>"
    return as_text(text, charset="gbk")


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


_API = "api.fund.eastmoney.com"
_F10 = "fundf10.eastmoney.com"
_OSS = "/static/html/csindex/public/uploads/file/autofile"
_DJ = "danjuanfunds.com"

FUNDS: Mapping[tuple[str, str], Payload] = {
    ("gs.amac.org.cn", "/amac-infodisc/api/pof/personOrg"): _fund_staff,
    ("fund.eastmoney.com", "/pingzhongdata/*.js"): _fund_values,
    (_API, "/pinzhong/LJSYLZS"): _fund_returns,
    (_F10, "/fhsp_*.html"): _fund_payouts,
    ("www.csindex.com.cn", "/csindex-home/perf/index-perf"): _csindex,
    ("hq.cnindex.com.cn", "/market/market/getIndexDailyDataWithDataFormat"): _cnindex,
    (_API, "/f10/lsjz"): _values,
    (_API, "/FundTradeRank/GetRankList"): _ranked_indices,
    (_API, "/f10/HYPZ/"): _industries,
    (_API, "/f10/JJGG"): _notices,
    ("fund.eastmoney.com", "/data/rankhandler.aspx"): _ranked,
    ("fund.eastmoney.com", "/data/fundrating_*.html"): _ratings,
    ("fund.eastmoney.com", "/Company/home/HistoryScaleTable"): _houses,
    (_F10, "/FundArchivesDatas.aspx"): _archives,
    (_F10, "/jbgk_*.html"): _overview,
    ("overseas.1234567.com.cn", "/overseasapi/OpenApiHander.ashx"): _hong_kong,
    ("fund.10jqka.com.cn", "/data/Net/info/*"): _traded,
    (
        "vip.stock.finance.sina.com.cn",
        "/fund_center/data/jsonp.php/*/NetValueReturn_Service.NetValueReturnOpen",
    ): _sizes,
    **{
        (_DJ, path): _danjuan
        for path in (
            "/djapi/fund/*",
            "/djapi/fundx/base/fund/achievement/*",
            "/djapi/fund/base/quote/data/index/analysis/*",
            "/djapi/fundx/base/fund/profit/ratio/*",
            "/djapi/fund/detail/*",
            "/djapi/fundx/base/fund/record/asset/percent",
        )
    },
    ("oss-ch.csindex.com.cn", f"{_OSS}/cons/*"): _csindex_members,
    ("oss-ch.csindex.com.cn", f"{_OSS}/closeweight/*"): _csindex_members,
    ("oss-ch.csindex.com.cn", f"{_OSS}/indicator/*"): _csindex_ratios,
    ("www.cnindex.com.cn", "/sample-detail/download-history"): _cni_members,
    ("www.cnindex.com.cn", "/sample-detail/download-adjustment"): _cni_changes,
    ("vip.stock.finance.sina.com.cn", "/corp/go.php/vII_NewestComponent/indexid/*"): _sina_members,
}

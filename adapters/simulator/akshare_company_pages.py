"""Simulated pages on one company: Eastmoney's statements, holders, capital flows and news, and the
figures of 10jqka, Baidu, Xueqiu, CNINFO and the exchanges.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from statistics import median
from typing import Final

from adapters.simulator.akshare_companies import (
    SHEET_HEAD,
    SHEETS,
    Made,
    accounts,
    capital,
    held,
    payouts_of,
    profiles,
    stated,
)
from adapters.simulator.keys import key_of, key_of_symbol
from adapters.simulator.shapes import (
    Facts,
    Luck,
    Payload,
    Query,
    Reply,
    Row,
    as_json,
    as_page,
    as_text,
    as_xlsx,
    read_day,
    row_of,
    script,
    sheet,
    to_json,
)
from adapters.simulator.world.companies import (
    Event,
    Valuation,
    events,
    flows,
    growth,
    industry_of,
    margins,
    profile,
    statements,
    valuations,
    year_before,
)
from adapters.simulator.world.instruments import CHINA, INDUSTRIES, Instrument
from adapters.simulator.world.world import World

# --- Eastmoney -----------------------------------------------------------------------------------


def _company_type(query: Query, rng: Luck) -> Reply:
    """The page that tells AkShare of what type a company is."""
    body = '<html><body><input id="hidctype" type="hidden" value="4"></body></html>'
    return as_text(body)


def _stated_days(query: Query, rng: Luck) -> Reply:
    """The days of a company's statements: all (0), of years (1) or of quarters (2)."""
    rows = [
        {"REPORT_DATE": f"{part.period} 00:00:00"}
        for part in reversed(statements(rng.world, query.get("code", "").lower()))
        if part.is_annual or query.get("reportDateType") != "1"
    ]
    return as_json({"pages": 1, "data": rows, "count": len(rows)})


def _sheet(name: str) -> Payload:
    """Make the payload of one kind of statement on the days that are asked for."""

    def answer(query: Query, rng: Luck) -> Reply:
        key, is_single = query.get("code", "").lower(), query.get("reportType") == "2"
        wanted = query.get("dates", "").split(",")
        rows = [
            row_of(f"{SHEET_HEAD} {SHEETS[name]}", stated(rng.world, key, p, is_single=is_single))
            for p in reversed(statements(rng.world, key))
            if str(p.period) in wanted
        ]
        return as_json({"pages": 1, "data": rows, "count": len(rows)})

    return answer


def _top_ten(name: str, fields: str) -> Payload:
    """Make the payload of the ten largest holders of all shares, or of those freely traded."""

    def answer(query: Query, rng: Luck) -> Reply:
        day = read_day(query.get("date")) or rng.world.now
        rows = held(rng.world, query.get("code", "").lower(), day)
        return as_json({name: [row_of(fields, facts) for facts in rows]})

    return answer


def _business(query: Query, rng: Luck) -> Reply:
    """What a company's revenue is made of, by industry, product and region, each half-year."""
    key, rows = query.get("code", "").lower(), list[Row]()
    industry = profile(rng.world, key).industry
    parts = {"1": (industry, "其他业务"), "2": (f"{industry}产品", "服务"), "3": ("境内", "境外")}
    for part in reversed(statements(rng.world, key)):
        if part.period.month not in (6, 12):
            continue
        revenue, cost = part.total["revenue"], part.total["cost"]
        for kind, names in parts.items():
            share = 0.6 + 0.35 * rng.world.luck("business", key, kind, part.period.year)
            most = (round(revenue * share), round(cost * share))
            for name, (sold, spent) in zip(
                names, (most, (revenue - most[0], cost - most[1])), strict=True
            ):
                rows.append(
                    {"SECUCODE": "", "SECURITY_CODE": key[2:], "REPORT_DATE": f"{part.period}"}
                    | {"MAINOP_TYPE": kind, "ITEM_NAME": name, "MAIN_BUSINESS_INCOME": sold}
                    | {"MBI_RATIO": round(sold / revenue, 6), "MAIN_BUSINESS_COST": spent}
                    | {"MBC_RATIO": round(spent / cost, 6), "MAIN_BUSINESS_RPOFIT": sold - spent}
                    | {"MBR_RATIO": round((sold - spent) / (revenue - cost), 6)}
                    | {"GROSS_RPOFIT_RATIO": round(1 - spent / sold, 6), "RANK": 1}
                )
    return as_json({"zygcfx": rows})


def _fund_flow(query: Query, rng: Luck) -> Reply:
    """Net inflows of a security by day, in money and in percent of what was traded."""
    market, _, code = query.get("secid", "1.600519").partition(".")
    key, lines = key_of(market, code), list[str]()
    bars = {bar.day: bar for bar in rng.world.latest(key, 120)}
    for flow in flows(rng.world, key):
        nets = (flow.main, flow.small, flow.medium, flow.large, flow.super_large)
        parts = (f"{net / flow.amount * 100:.2f}" for net in nets)
        bar = bars[flow.day]
        cells = (flow.day, *nets, *parts, bar.close, f"{bar.change:.2f}", 0, 0)
        lines.append(",".join(map(str, cells)))
    return as_json({"rc": 0, "data": {"code": code, "market": int(market), "klines": lines}})


def _article(one: Instrument, event: Event) -> str:
    return f"{event.day:%Y%m%d}{one.code}{len(event.title):03}"


def _news(query: Query, rng: Luck) -> Reply:
    """News on a company: its last ten events."""
    keyword = str(json.loads(query.get("param", "{}")).get("keyword", "600519"))
    one = rng.world.instrument(key_of_symbol(keyword))
    first = rng.world.now - timedelta(1500)
    rows = [
        {"date": f"{event.day} 18:00:00", "mediaName": "模拟财经", "title": event.title}
        | {"code": _article(one, event), "content": f"{event.kind}。{event.title}。", "image": ""}
        for event in events(rng.world, one.key, first, rng.world.now)[:10]
    ]
    text = to_json({"code": 0, "result": {"cmsArticleWebOld": rows}})
    return script(f"{query.get('cb', 'jQuery')}({text})")


def _notices(query: Query, rng: Luck) -> Reply:
    """Announcements of a range of days, of one company or all, a page of a hundred."""
    last = read_day(query.get("end_time")) or rng.world.now
    first = read_day(query.get("begin_time")) or last - timedelta(365)
    wanted = "财务报告" if query.get("f_node") == "1" else ""
    code, found = query.get("stock_list", ""), list[Row]()
    for one in [rng.world.instrument(key_of("", code))] if code else CHINA:
        move = 4.0 if code else 0.0
        for event in events(rng.world, one.key, first, last, move=move):
            if wanted not in ("", event.kind):
                continue
            names = {"short_name": one.name, "stock_code": one.code, "inner_code": one.code}
            found.append(
                {"art_code": f"AN{_article(one, event)}", "title": event.title}
                | {"codes": [{"ann_type": "A", "market_code": "1", **names}]}
                | {"columns": [{"column_code": "001", "column_name": event.kind}]}
                | {"display_time": f"{event.day} 18:00:00:000", "notice_date": f"{event.day}"}
                | {"eiTime": f"{event.day} 18:00:00:000"}
            )
    start = 100 * (int(query.get("page_index", "1")) - 1)
    data = {"list": found[start : start + 100], "total_hits": len(found)}
    return as_json({"data": data, "success": 1})


# --- 10jqka --------------------------------------------------------------------------------------

_LABELS: Final[Mapping[str, Mapping[str, str]]] = {
    "debt": {
        "cash": "货币资金", "receivables": "应收账款", "inventories": "存货",
        "current_assets": "流动资产合计", "fixed_assets": "固定资产合计", "assets": "*资产合计",
        "payables": "应付账款", "advances": "预收款项", "borrowings": "短期借款",
        "current_liabilities": "流动负债合计", "liabilities": "*负债合计", "capital": "实收资本",
        "retained": "未分配利润", "equity": "*所有者权益(或股东权益)合计",
    },
    "benefit": {
        "revenue": "*营业总收入", "operating_cost": "*营业总成本", "cost": "营业成本",
        "surcharge": "营业税金及附加", "selling": "销售费用", "administration": "管理费用",
        "research": "研发费用", "finance": "财务费用", "operating_profit": "三、营业利润",
        "profit": "四、利润总额", "tax": "所得税费用", "net_profit": "*净利润",
    },
    "cash": {
        "operating_cash": "*经营活动产生的现金流量净额",
        "investing_cash": "*投资活动产生的现金流量净额",
        "financing_cash": "*筹资活动产生的现金流量净额",
        "dividends": "分配股利、利润或偿付利息支付的现金",
        "cash_change": "*现金及现金等价物净增加额",
        "cash": "*期末现金及现金等价物余额",
    },
    "finance": {
        "net_profit": "净利润", "net_profit_yoy": "净利润同比增长率", "revenue": "营业总收入",
        "revenue_yoy": "营业总收入同比增长率", "eps": "基本每股收益", "bps": "每股净资产",
        "surplus_per_share": "每股资本公积金", "retained_per_share": "每股未分配利润",
        "cps": "每股经营现金流", "net_margin": "销售净利率", "roe": "净资产收益率",
        "current_ratio": "流动比率", "quick_ratio": "速动比率", "debt_ratio": "资产负债率",
    },
}  # fmt: skip
"""The items of 10jqka's pages, by the name of the page."""

_RATES: Final = ("_yoy", "margin", "roe", "debt_ratio")


def _in_words(name: str, value: object) -> object:
    """A figure as 10jqka writes it: money in hundred millions, rates with their sign."""
    if value is None:
        return False
    if isinstance(value, int):
        return f"{value / 1e8:.2f}亿"
    return f"{value}%" if name.endswith(_RATES) else f"{value}"


def _grid(world: World, key: str, page: str) -> Row:
    """The statements of a company as lists by item, newest first: by day, by quarter, by year."""
    labels = _LABELS[page]
    found: dict[str, object] = {
        "title": ["科目\\时间", *([text, "元"] for text in labels.values())]
    }
    parts = statements(world, key)[::-1]
    for name in ("report", "simple", "year"):
        chosen = [part for part in parts if part.is_annual or name != "year"]
        columns = [stated(world, key, part, is_single=name == "simple") for part in chosen]
        heads = [str(p.period.year) if name == "year" else str(p.period) for p in chosen]
        rows = [[_in_words(item, one.get(item)) for one in columns] for item in labels]
        found[name] = [heads, *rows]
    return found


def _tables(page: str) -> Payload:
    """Make the payload of one of 10jqka's pages on a company's statements."""

    def answer(query: Query, rng: Luck) -> Reply:
        code = re.search(r"\d{6}", rng.path)
        text = to_json(_grid(rng.world, key_of("", code[0] if code else "000063"), page))
        if page == "finance":
            return as_page(f'<p id="main">{text}</p>')
        return as_json({"flashData": text})

    return answer


def _bonus(query: Query, rng: Luck) -> Reply:
    """A company's payouts as a table."""
    code = re.search(r"\d{6}", rng.path)
    text = f'(SECURITY_CODE="{code[0] if code else "603444"}")'
    head = "报告期 董事会日期 股东大会预案公告日期 实施公告日 分红方案说明 A股股权登记日"
    head += " A股除权除息日 分红总额 方案进度 股利支付率 税前分红率"
    rows = list[list[str]]()
    for facts in payouts_of({"filter": text}, rng):
        cash, shares, net = (float(str(facts[n])) for n in ("cash", "shares", "net_profit"))
        paid = cash / 10 * shares
        days = [str(facts[name])[:10] for name in ("published", "published", "eve")]
        cells = [str(facts["report_name"]), *days, str(facts["plan"])]
        cells += [str(facts["eve"])[:10], str(facts["day"])[:10], f"{paid / 1e8:.2f}亿"]
        cells += [str(facts["progress"]), f"{paid / net * 100:.2f}%"]
        rows.append([*cells, f"{float(str(facts['rate'])) * 100:.2f}%"])
    return sheet([[head.split(), *rows]], has_head=True)


_INDEXES: Final[Mapping[str, Mapping[str, str]]] = {
    "debt": {"assets": "total_assets", "liabilities": "total_debt", "equity": "total_equity",
             "cash": "currency_funds", "inventories": "inventory"},
    "benefit": {"revenue": "operating_income_total", "cost": "operating_costs",
                "profit": "total_profit", "net_profit": "net_profit"},
    "cash": {"operating_cash": "act_cash_flow_net", "investing_cash": "invest_cash_flow_net",
             "financing_cash": "financing_cash_flow_net", "cash_change": "cash_net_increase"},
    "importance": {"revenue": "operating_income_total", "net_profit": "parent_holder_net_profit",
                   "assets": "total_assets", "equity": "holder_equity_total"},
}  # fmt: skip
"""The items of 10jqka's newer interface, by the end of the name of a table."""


def _indexed(query: Query, rng: Luck) -> Reply:
    """The items of a company's statements: since January, of the quarter, and their changes."""
    key, found = key_of("", query.get("code", "000063")), list[Row]()
    labels = _INDEXES[query.get("id", "").rpartition("_")[2]]
    parts, period = statements(rng.world, key), int(query.get("period", "0"))
    for at in range(len(parts) - 1, -1, -1):
        part, quarter = parts[at], parts[at].period.month // 3
        if period not in (0, quarter):
            continue
        before = year_before(parts, part)
        items: dict[str, object] = {}
        for name, label in labels.items():
            is_flow = name in part.total
            old = (before.total if is_flow else before.sheet)[name] if before else 0
            single = (part.quarter if is_flow else part.sheet)[name]
            last = (parts[at - 1].quarter if is_flow else parts[at - 1].sheet)[name] if at else 0
            single_old = (before.quarter if is_flow else before.sheet)[name] if before else 0
            value = (part.total if is_flow else part.sheet)[name]
            items[label] = {"value": value, "single": single, "yoy": growth(value, old)}
            items[label] |= {"mom": growth(single, last), "single_yoy": growth(single, single_old)}  # type: ignore[operator]
        name = ("一季报", "中报", "三季报", "年报")[quarter - 1]
        found.append(
            {"date": str(part.period), "report_name": f"{part.period.year}{name}"}
            | {"report": f"{part.period.year}-{quarter}", "quarter_name": f"第{quarter}季度"}
            | {"index_list": items}
        )
    return as_json({"status_code": 0, "data": {"data": found[: int(query.get("size", "50"))]}})


# --- Baidu, Xueqiu, CNINFO and the exchanges -----------------------------------------------------

_MULTIPLES: Final = {
    "总市值": "value",
    "市盈率(TTM)": "earnings",
    "市盈率(静)": "earnings_of_year",
    "市净率": "book",
    "市现率": "cash",
}
_SPANS: Final = {"近一年": 365, "近三年": 1095, "近五年": 1825, "近十年": 3650}


def _multiples(query: Query, rng: Luck) -> Reply:
    """The history of one multiple of a share, or of its market value in hundred millions."""
    name = _MULTIPLES.get(query.get("tag", "总市值"), "value")
    code, days = query.get("code", "002044"), _SPANS.get(query.get("chart_select", ""), 8000)
    by = 1e8 if name == "value" else 1.0
    body = [
        [str(each.day), f"{getattr(each, name) / by:.2f}"]
        for each in valuations(rng.world, key_of("", code), rng.world.now - timedelta(days))
    ]
    chart = {"chartInfo": [{"body": body}]}
    shown = {"DisplayData": {"resultData": {"tplData": {"result": chart}}}}
    return as_json({"ResultCode": "0", "Result": [shown]})


def _xueqiu(query: Query, rng: Luck) -> Reply:
    """What a company is, as Xueqiu tells it."""
    symbol = query.get("symbol", "SH600519")
    about = profile(rng.world, key_of_symbol(symbol))
    fields: dict[str, object] = {"org_id": f"T{symbol}", "org_name_cn": about.name}
    fields |= {"org_short_name_cn": about.name, "main_operation_business": about.industry}
    fields |= {"listed_date": (about.listed - date(1970, 1, 1)).days * 86_400_000}
    fields |= {"staff_num": about.employees, "currency": "CNY", "country": about.country}
    return as_json({"data": {"company": fields}, "error_code": 0, "error_description": ""})


def _home(query: Query, rng: Luck) -> Reply:
    """A page that AkShare opens to be given a cookie."""
    return Reply(b"<html></html>", "text/html")


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


def margin_detail(query: Query, rng: Luck) -> Reply:
    """Margin trading of the shares of Shanghai on one day."""
    day, rows = read_day(query.get("detailsDate")) or rng.world.now, list[Row]()
    for one in CHINA:
        if one.key.startswith("sh"):
            rows += [
                {"detailFlag": "", "opDate": f"{day:%Y%m%d}", "rqchl": each.returned}
                | {"rqmcl": each.sold, "rqyl": each.lent, "rqylje": None, "rqylzl": None}
                | {"rzche": each.repaid, "rzmre": each.bought, "rzrqjyzl": None}
                | {"rzye": each.owed, "securityAbbr": one.name, "stockCode": one.code}
                for each in margins(rng.world, one.key, day, day)
            ]
    return as_json({"result": rows, "pageHelp": {"total": len(rows), "pageCount": 1}})


def szse_margin(query: Query, rng: Luck) -> Reply:
    """Margin trading of the shares of Shenzhen on one day as an Excel file, or which of them may be
    traded so (1834_xxpl).
    """
    day, rows = read_day(query.get("txtDate")) or rng.world.now, list[list[str | float]]()
    head = ["证券代码", "证券简称", "融资买入额(元)", "融资余额(元)", "融券卖出量(股/份)"]
    head += ["融券余量(股/份)", "融券余额(元)", "融资融券余额(元)"]
    if query.get("CATALOGID") == "1834_xxpl":
        head = ["证券代码", "证券简称", "融资标的", "融券标的", "当日可融资", "当日可融券"]
        head += ["融券卖出价格限制", "涨跌幅限制"]
    for one in CHINA:
        if one.key.startswith("sz") and query.get("CATALOGID") == "1834_xxpl":
            limit = f"{(one.limit or 0.1) * 100:.0f}%"
            rows.append([one.code, one.name, "Y", "Y", "Y", "Y", "Y", limit])
        elif one.key.startswith("sz"):
            for each in margins(rng.world, one.key, day, day):
                worth = round(each.lent * rng.world.close(one.key, day))
                figures = (each.bought, each.owed, each.sold, each.lent, worth, each.owed + worth)
                rows.append([one.code, one.name, *(f"{figure:,}" for figure in figures)])
    return as_xlsx([head, *rows])


def _controllers(query: Query, rng: Luck) -> Iterator[Facts]:
    """Who controls each company: its first holder."""
    for one in CHINA:
        part = statements(rng.world, one.key)[-1]
        first = next(iter(held(rng.world, one.key, part.period)))
        holding = round(int(str(first["held"])) / 1e4, 2)
        yield first | {"holding": holding, "control": "单独控制"}


def _industry_multiples(query: Query, rng: Luck) -> Iterator[Facts]:
    """Multiples of the year's earnings by industry, on one day."""
    day = read_day(query.get("tdate")) or rng.world.now
    groups = defaultdict[str, list[Valuation]](list)
    for one in CHINA:
        last = valuations(rng.world, one.key, day - timedelta(12), day)[-1:]
        groups[industry_of(rng.world, one)] += last
    for number, (name, found) in enumerate(groups.items()):
        ratios, worth = [each.earnings_of_year for each in found], sum(e.value for e in found)
        net = sum(each.value / each.earnings_of_year for each in found)
        yield {"level": 2, "mean": round(sum(ratios) / len(ratios), 2), "industry": name} | {
            "median": round(median(ratios), 2),
            "weighted": round(worth / net, 2),
            "net": round(net / 1e8, 2),
            "code": f"C{number:02}",
            "kind": "证监会行业分类",
            "worth": round(worth / 1e8, 2),
            "number": len(found),
            "day": str(day),
        }


def _records(make: Made, fields: str) -> Payload:
    """Make the payload of one of CNINFO's tables, of a company or of all."""

    def answer(query: Query, rng: Luck) -> Reply:
        code, day = query.get("scode", ""), read_day(query.get("rdate"))
        text = f'(SECURITY_CODE="{code}")' if code else ""
        text += f"(END_DATE='{day}')" if day else ""
        rows = [row_of(fields, facts) for facts in make({**query, "filter": text}, rng)]
        return as_json({"resultcode": 200, "count": len(rows), "records": rows})

    return answer


_CNINFO: Final[Mapping[str, tuple[Made, str]]] = {
    "1139": (
        payouts_of,
        "F006D=published F044V=way F011N=none F010N=bonus F012N=cash F018D=eve F020D=day F023D=day "
        "F025D=none F007V=plan F001V=report_name",
    ),
    "1133": (
        profiles,
        "name english -*1 code name -*5 market sector -*1 shares founded listed -*4 text text -*1 "
        "sector sector profile -*4",
    ),
    "1034": (
        accounts,
        "mean_held number_percent number_before number name code mean_held_percent period "
        "mean_held_before",
    ),
    "1033": (_controllers, "percent holding name holder holder control code period"),
    "1029": (capital, "free_shares shares market name day reason code day limited free_part"),
    "1087": (
        _industry_multiples,
        "level mean median weighted net industry code kind worth number day number",
    ),
}
"""CNINFO's tables by number."""

_EMWEB = "emweb.securities.eastmoney.com"
_ANALYSIS = "/PC_HSF10/NewFinanceAnalysis"
_RESEARCH = "/PC_HSF10/ShareholderResearch"
_FREE_FIELDS = "secucode code period rank holder holder_kind shares_kind held free_percent"
_ALL_FIELDS = "secucode code period rank holder shares_kind held percent"

COMPANY_PAGES: Mapping[tuple[str, str], Payload] = {
    ("www.cls.cn", "/v1/roll/get_roll_list"): _flashes,
    ("xueqiu.com", "/service/v5/stock/screener/screen"): _crowd,
    (_EMWEB, f"{_ANALYSIS}/Index"): _company_type,
    **{
        (_EMWEB, f"{_ANALYSIS}/{name}{end}"): payload
        for name, sheet in (("zcfzb", "BALANCE"), ("lrb", "INCOME"), ("xjllb", "CASHFLOW"))
        for end, payload in (("DateAjaxNew", _stated_days), ("AjaxNew", _sheet(sheet)))
    },
    (_EMWEB, f"{_RESEARCH}/PageSDLTGD"): _top_ten(
        "sdltgd", f"{_FREE_FIELDS} change_text change_percent"
    ),
    (_EMWEB, f"{_RESEARCH}/PageSDGD"): _top_ten(
        "sdgd", f"{_ALL_FIELDS} change_text change_percent"
    ),
    (_EMWEB, "/PC_HSF10/BusinessAnalysis/PageAjax"): _business,
    ("push2his.eastmoney.com", "/api/qt/stock/fflow/daykline/get"): _fund_flow,
    ("search-api-web.eastmoney.com", "/search/jsonp"): _news,
    ("np-anotice-stock.eastmoney.com", "/api/security/ann"): _notices,
    **{
        ("basic.10jqka.com.cn", f"/api/stock/finance/*_{page}.json"): _tables(page)
        for page in ("debt", "benefit", "cash")
    },
    ("basic.10jqka.com.cn", "/new/*/finance.html"): _tables("finance"),
    ("basic.10jqka.com.cn", "/new/*/bonus.html"): _bonus,
    ("basic.10jqka.com.cn", "/basicapi/finance/index/v1/app_data/"): _indexed,
    **{
        ("webapi.cninfo.com.cn", f"/api/sysapi/p_sysapi{number}"): _records(make, fields)
        for number, (make, fields) in _CNINFO.items()
    },
    ("gushitong.baidu.com", "/opendata"): _multiples,
    ("finance.baidu.com", "/opendata"): _multiples,
    ("xueqiu.com", "/"): _home,
    ("xueqiu.com", ""): _home,
    **{
        ("stock.xueqiu.com", f"/v5/stock/f10/{market}/company.json"): _xueqiu
        for market in ("cn", "hk", "us")
    },
}

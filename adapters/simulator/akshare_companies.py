"""Simulated answers about companies: reports of Eastmoney's data centre, its pages on one company,
capital flows, news, and the statements of Sina and 10jqka.

A report is a table of fields (`row_of`). AkShare reads some reports by the place of a value alone;
there a fact stands without a key, and `-*3` is three values that it drops.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import Final

from adapters.simulator.keys import key_of, key_of_symbol
from adapters.simulator.shapes import Facts, Luck, Query, Row, asked, row_of
from adapters.simulator.world.companies import (
    CURRENCIES,
    FREE,
    SHEET,
    Holder,
    Statement,
    events,
    free_shares,
    growth,
    holder_number,
    holders,
    issued,
    of_period,
    peers,
    profile,
    statements,
    valuations,
    year_before,
)
from adapters.simulator.world.instruments import CHINA, LISTED
from adapters.simulator.world.world import Payout, World

BEIJING: Final = ("bj430047", "bj830799", "bj835185")
"""Shares of Beijing, of which the world lists none."""

_MARKETS: Final = {
    "sh688": "069001001006",
    "sh": "069001001001",
    "sz30": "069001002002",
    "sz": "069001002001",
    "bj": "069001017",
}
"""Eastmoney's numbers of markets, by the beginning of a key."""


def at_midnight(day: date | None) -> str | None:
    return f"{day} 00:00:00" if day else None


def ratio(part: float, whole: float) -> float | None:
    return round(part / whole * 100, 4) if whole else None


def _secucode(key: str) -> str:
    market, code = ("US", key[3:]) if key.startswith("us:") else (key[:2].upper(), key[2:])
    return f"{code}.O" if market == "US" else f"{code}.{market}"


def _of_secucode(text: str) -> str:
    """The world's key of 600519.SH, 00700.HK or AAPL.O."""
    code, _, market = text.partition(".")
    return f"{market.lower()}{code}" if market in ("SH", "SZ", "BJ", "HK") else f"us:{code}"


def company(world: World, key: str) -> Facts:
    """What is known of a company whatever the day."""
    one = world.instrument(key)
    facts: Facts = {"key": key, "code": one.code, "name": one.name, "secucode": _secucode(key)}
    facts |= {"currency": CURRENCIES[one.exchange], "shares": issued(one), "kind": "058001001"}
    facts |= {"free_shares": free_shares(one), "org": f"10{one.code}", "none": None}
    facts["market"] = next((n for start, n in _MARKETS.items() if key.startswith(start)), None)
    return facts


def stated(world: World, key: str, part: Statement, *, is_single: bool = False) -> Facts:
    """A company and what it published about the year up to the end of a quarter, or about the
    quarter alone; `q_` are the three months in any case.
    """
    parts = statements(world, key)
    own, sheet = part.quarter if is_single else part.total, part.sheet
    at = parts.index(part)
    before = year_before(parts, part)
    last = parts[at - 1] if at else None
    facts = company(world, key) | dict(own) | dict(sheet)
    facts |= {f"q_{name}": value for name, value in part.quarter.items()}
    quarter, year = part.period.month // 3, part.period.year
    names = ("一季报", "中报", "三季报", "年报")
    facts |= {
        "period": at_midnight(part.period),
        "published": at_midnight(part.published),
        "year": str(year),
        "start": at_midnight(date(year, 1, 1)),
        "report": names[quarter - 1],
        "report_name": f"{year}{names[quarter - 1]}",
        "date_type": ("003", "002", "004", "001")[quarter - 1],
        "industry": profile(world, key).industry,
        "eps": round(own["net_profit"] / part.shares, 4),
        "bps": round(sheet["equity"] / part.shares, 4),
        "cps": round(own["operating_cash"] / part.shares, 4),
        "surplus_per_share": round(sheet["surplus"] / part.shares, 4),
        "retained_per_share": round(sheet["retained"] / part.shares, 4),
        "revenue_per_share": round(own["revenue"] / part.shares, 4),
        "roe": ratio(own["net_profit"], sheet["equity"]),
        "roa": ratio(own["net_profit"], sheet["assets"]),
        "net_margin": ratio(own["net_profit"], own["revenue"]),
        "gross": own["revenue"] - own["cost"],
        "gross_margin": ratio(own["revenue"] - own["cost"], own["revenue"]),
        "operating_cost": own["revenue"] - own["operating_profit"],
        "tax_rate": ratio(own["tax"], own["profit"]),
        "debt_ratio": ratio(sheet["liabilities"], sheet["assets"]),
        "equity_ratio": round(sheet["liabilities"] / sheet["equity"], 4),
        "multiplier": round(sheet["assets"] / sheet["equity"], 4),
        "turnover": round(own["revenue"] / sheet["assets"], 4),
        "stock_turnover": round(own["cost"] / sheet["inventories"], 4),
        "debtor_turnover": round(own["revenue"] / sheet["receivables"], 4),
        "current_ratio": round(sheet["current_assets"] / sheet["current_liabilities"], 4),
        "quick_ratio": round(
            (sheet["current_assets"] - sheet["inventories"]) / sheet["current_liabilities"], 4
        ),
        "cash_by_debt": round(own["operating_cash"] / sheet["current_liabilities"], 4),
        "cash_by_sales": round(own["operating_cash"] / own["revenue"], 4),
        "short_debt": ratio(sheet["current_liabilities"], sheet["liabilities"]),
        "nonparent": 0,
        "equity_and_debt": sheet["assets"],
    }
    for name in ("operating", "investing", "financing"):
        facts[f"{name}_part"] = ratio(own[f"{name}_cash"], own["cash_change"])
    for name in ("revenue", "net_profit", "cash_change", "assets", "liabilities", "equity"):
        here = own if name in own else sheet
        if before:
            old_flows = before.quarter if is_single else before.total
            old = (old_flows if name in own else before.sheet)[name]
            facts[f"{name}_before"], facts[f"{name}_yoy"] = old, growth(here[name], old)
        if last and name in own:
            facts[f"{name}_qoq"] = growth(part.quarter[name], last.quarter[name])
    facts["eps_yoy"] = facts.get("net_profit_yoy")
    if before:
        old_gross = before.total["revenue"] - before.total["cost"]
        facts["gross_yoy"] = growth(own["revenue"] - own["cost"], old_gross)
    change = facts.get("net_profit_yoy")
    if isinstance(change, float):
        facts["forecast"] = "略增" if change > 0 else "略减"
        facts["forecast_text"] = (
            f"预计{year}年累计净利润{own['net_profit'] / 1e8:.2f}亿元,同比变动{change:.2f}%"
        )
    facts["indicator"], facts["reason"] = "归属于上市公司股东的净利润", "主营业务的变动"
    return facts


# --- reports on all companies at the end of a quarter ---------------------------------------------


def keys_of(query: Query) -> Sequence[str]:
    """The shares of the markets that the filter names, by default of Shanghai and Shenzhen."""
    found = re.search(r"TRADE_MARKET_CODE\s*(?:=|in)\s*\(?([^)]*)\)", query.get("filter", ""))
    every = [*(one.key for one in CHINA), *(BEIJING if found else ())]
    if found is None:
        return every
    wanted = set(re.findall(r"\d+", found[1]))
    number = {key: next(n for s, n in _MARKETS.items() if key.startswith(s)) for key in every}
    return [key for key in every if number[key] in wanted]


def period_of(query: Query) -> date | None:
    for name in ("REPORT_DATE", "REPORTDATE", "END_DATE"):
        if text := asked(query, name):
            return date.fromisoformat(text[:10])
    return None


def _quarterly(query: Query, rng: Luck) -> Iterator[Facts]:
    """The statements of a quarter, one company after another, or of a company."""
    period = period_of(query)
    keys = subjects(query) or keys_of(query)
    for key in keys:
        for part in statements(rng.world, key)[::-1]:
            if period in (part.period, None):
                yield stated(rng.world, key, part)


def subjects(query: Query) -> tuple[str, ...]:
    """The company that a filter names."""
    if text := asked(query, "SECUCODE"):
        return (_of_secucode(text),)
    if text := asked(query, "SECURITY_CODE"):
        return (key_of("", text) if text.isdecimal() else key_of_symbol(text),)
    return ()


def _appointments(query: Query, rng: Luck) -> Iterator[Facts]:
    """When statements are to be published; those that lie ahead have no day on which they were."""
    for facts in _quarterly(query, rng):
        yield facts | {"first": facts["published"], "actual": facts["published"]}


# --- payouts -------------------------------------------------------------------------------------


def _paid(world: World, key: str, payout: Payout) -> Facts | None:
    """A payout of the year before it, and what was published about that year."""
    year = date(payout.day.year - 1, 12, 31)
    part = of_period(world, key, year)
    if part is None or part.published > payout.day:
        return None
    cash, bonus = payout.cash * 10, payout.bonus * 10
    words = (f"送{bonus:g}股" if bonus else "") + (f"派{cash:.2f}元(含税)" if cash else "")
    before = world.close(key, payout.day - timedelta(1))
    return stated(world, key, part) | {
        "day": at_midnight(payout.day),
        "eve": at_midnight(payout.day - timedelta(1)),
        "cash": round(cash, 2),
        "bonus": round(bonus, 2) or None,
        "plan": f"10{words}",
        "progress": "实施分配",
        "rate": round(payout.cash / before, 6),
        "way": "年度分配",
        "day_of_pay": f"{payout.day:%Y/%m/%d}",
        "in_words": f"每股派{payout.cash:g}元",
        "closed": f"{payout.day:%Y/%m/%d}-{payout.day:%Y/%m/%d}",
    }


def payouts_of(query: Query, rng: Luck) -> Iterator[Facts]:
    """The payouts of a year, or of a company."""
    period = period_of(query)
    for key in subjects(query) or keys_of(query):
        for payout in rng.world.history(key).payouts[::-1]:
            if period in (date(payout.day.year - 1, 12, 31), None):
                facts = _paid(rng.world, key, payout)
                if facts is not None:
                    yield facts


# --- holders -------------------------------------------------------------------------------------

_CHANGES: Final = ("减少", "不变", "增加")


def _change(holder: Holder) -> str:
    if holder.change == holder.shares:
        return "新进"
    return _CHANGES[(holder.change > 0) - (holder.change < 0) + 1]


def held(world: World, key: str, period: date) -> Iterator[Facts]:
    """The ten largest holders of a company at the end of a quarter, if it is published."""
    part = of_period(world, key, period)
    if part is None:
        return
    price, own = world.close(key, period), company(world, key)
    days = world.days("CN")
    later = [day for day in days if day > part.published][:60]
    start = world.close(key, part.published)
    after = {
        f"after_{n}": growth(world.close(key, later[n - 1]), start) if len(later) >= n else None
        for n in (10, 30, 60)
    }
    for rank, holder in enumerate(holders(world, key, period), 1):
        earlier = holder.shares - holder.change
        yield (
            own
            | after
            | {
                "rank": rank,
                "holder": holder.name,
                "holder_kind": holder.kind,
                "held": holder.shares,
                "percent": holder.percent,
                "free_percent": round(holder.percent / FREE, 4),
                "change": holder.change,
                "change_text": str(holder.change) if holder.change else "不变",
                "change_percent": growth(holder.shares, earlier) if holder.change else None,
                "change_name": _change(holder),
                "worth": round(holder.shares * price, 2),
                "period": at_midnight(period),
                "published": at_midnight(part.published),
                "shares_kind": "A股",
            }
        )


def _all_held(query: Query, rng: Luck) -> Iterator[Facts]:
    """The holders of all companies at the end of a quarter, of the kind and change asked for."""
    period = period_of(query)
    kind, change = asked(query, "HOLDER_NEWTYPE"), asked(query, "HOLDNUM_CHANGE_NAME")
    for key in keys_of(query) if period else ():
        for facts in held(rng.world, key, period) if period else ():
            is_kind = kind in ("", "全部", facts["holder_kind"])
            if is_kind and change in ("", "全部", facts["change_name"]):
                yield facts


def _by_holder(query: Query, rng: Luck) -> Iterator[Facts]:
    """What each holder holds at the end of a quarter, and how prices went on afterwards."""
    groups = defaultdict[str, list[Facts]](list)
    for facts in _all_held(query, rng):
        groups[str(facts["holder"])].append(facts)
    for name, rows in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        found: Facts = {"holder": name, "holder_kind": rows[0]["holder_kind"], "number": len(rows)}
        found["worth"] = round(sum(float(str(row["worth"])) for row in rows), 2)
        found["names"] = "|".join(f"{row['code']}|{row['name']}" for row in rows[:10])
        for word, text in (("new", "新进"), ("more", "增加"), ("less", "减少"), ("same", "不变")):
            found[word] = sum(row["change_name"] == text for row in rows)
        for days in (10, 30, 60):
            rises = [float(str(v)) for row in rows if (v := row[f"after_{days}"]) is not None]
            found[f"mean_{days}"] = round(sum(rises) / len(rises), 4) if rises else None
            found[f"most_{days}"] = max(rises, default=None)
            found[f"least_{days}"] = min(rises, default=None)
        yield found


def _together(query: Query, rng: Luck) -> Iterator[Facts]:
    """Pairs of holders by how many companies both hold at the last published quarter."""
    kind = asked(query, "HOLDER_TYPE")
    period = statements(rng.world, CHINA[0].key)[-1].period
    places, kinds = defaultdict[str, dict[str, str]](dict), dict[str, str]()
    for one in CHINA:
        for facts in held(rng.world, one.key, period):
            places[str(facts["holder"])][one.code] = one.name
            kinds[str(facts["holder"])] = str(facts["holder_kind"])
    for name in sorted(places):
        for other in sorted(places):
            both = sorted(places[name].keys() & places[other].keys())
            if name != other and both and kind in ("", kinds[name]):
                yield {
                    "holder": name,
                    "holder_kind": kinds[name],
                    "other": other,
                    "other_kind": kinds[other],
                    "number": len(both),
                    "names": "|".join(f"{code}|{places[name][code]}" for code in both[:10]),
                }


def accounts(query: Query, rng: Luck) -> Iterator[Facts]:
    """How many accounts hold a company, by quarter; of all companies the last one."""
    world, period = rng.world, period_of(query)
    for key in subjects(query) or keys_of(query):
        parts = statements(world, key)
        bar = world.latest(key, 1)[-1]
        wanted = parts[1:] if subjects(query) or period else parts[-1:]
        for part in reversed(wanted):
            if period not in (part.period, None):
                continue
            before = parts[parts.index(part) - 1].period
            here, earlier = (holder_number(world, key, day) for day in (part.period, before))
            close, shares = world.close(key, part.period), part.shares
            yield company(world, key) | {
                "period": at_midnight(part.period),
                "before": at_midnight(before),
                "published": at_midnight(part.published),
                "move": growth(close, world.close(key, before)),
                "mean_worth": round(close * shares / here, 2),
                "mean_held": round(shares / here, 2),
                "mean_held_before": round(shares / earlier, 2),
                "mean_held_percent": growth(earlier, here),
                "worth": round(close * shares, 2),
                "number": here,
                "number_before": earlier,
                "number_change": here - earlier,
                "number_percent": growth(here, earlier),
                "new_shares": 0,
                "price": bar.close,
                "percent": round(bar.change, 2),
            }


# --- one company: profile, peers, events ---------------------------------------------------------


def profiles(query: Query, rng: Luck) -> Iterator[Facts]:
    """What a company is, and what its last year and its price say of it."""
    world = rng.world
    for key in subjects(query):
        about, parts = profile(world, key), statements(world, key)
        last = next(one for one in reversed(parts) if one.is_annual)
        value = valuations(world, key, world.now - timedelta(30))[-1]
        made = world.history(key)
        year = [p for p in made.payouts if p.day > world.now - timedelta(365)]
        paid = sum(payout.cash for payout in year)
        yield stated(world, key, last) | {
            "listed": at_midnight(about.listed),
            "founded": str(about.listed.replace(about.listed.year - 10)),
            "employees": about.employees,
            "sector": about.industry,
            "english": about.name if key.startswith("us:") else f"Company {key[2:]}",
            "place": {"CN": "中国", "HK": "香港"}.get(about.country, "美国"),
            "profile": f"{about.name}的主营业务属于{about.industry}行业。",
            "text": f"{about.name}办公地址",
            "lot": 100,
            "issue_price": 10.0,
            "board": "主板",
            "exchange": "香港交易所",
            "stock_kind": "普通股",
            "isin": f"HK0000{key[2:]}0",
            "settle": "12-31",
            "yes": "是",
            "no_fax": "-",
            "value": value.value,
            "free_value": round(value.value * FREE, 2),
            "pe": value.earnings,
            "pe_year": value.earnings_of_year,
            "pb": value.book,
            "ps": value.sales,
            "pcf": value.cash,
            "paid": round(paid, 4),
            "paid_part": ratio(paid * last.shares, last.total["net_profit"]),
            "paid_rate": ratio(paid, value.close),
        }


def _years(parts: Sequence[Statement], count: int) -> list[Statement]:
    return [part for part in parts if part.is_annual][-count:]


_RANKED: Final = (
    *("eps_yoy", "revenue_yoy", "net_profit_yoy", "assets_yoy", "value", "free_value", "revenue"),
    *("net_profit", "pe", "pe_year", "pb", "ps", "pcf", "roe_mean", "net_profit_3y"),
)


def _compared(query: Query, rng: Luck) -> Iterator[Facts]:
    """A company and those of its industry: growth, returns and multiples, with their ranks."""
    world = rng.world
    for key in subjects(query):
        found, others = list[Facts](), [LISTED[k].key for k in LISTED if k.startswith("hk0")]
        same = others if key.startswith("hk") else peers(world, key)
        for peer in dict.fromkeys([*same, key]):
            facts = next(profiles({"filter": f'(SECUCODE="{_secucode(peer)}")'}, rng))
            years = _years(statements(world, peer), 4)
            own = {f"peer_{name}": facts[name] for name in ("code", "name", "secucode")}
            for name in ("revenue", "net_profit"):
                start, end = years[0].total[name], years[-1].total[name]
                own[f"{name}_3y"] = round(((end / start) ** (1 / 3) - 1) * 100, 4)
            for back, part in zip((3, 2, 1), years[-3:], strict=True):
                facts_of_year = stated(world, peer, part)
                for name in ("roe", "net_margin", "turnover", "multiplier"):
                    own[f"{name}_{back}"] = facts_of_year[name]
            for name in ("roe", "net_margin", "turnover", "multiplier"):
                last = [float(str(own[f"{name}_{back}"])) for back in (1, 2, 3)]
                own[f"{name}_mean"] = round(sum(last) / 3, 4)
            found.append(facts | own)
        for name in _RANKED:
            found.sort(key=lambda facts, name=name: -float(str(facts[name])))  # type: ignore[misc]
            for rank, facts in enumerate(found, 1):
                facts[f"{name}_rank"] = rank
        first = company(world, key)
        only = asked(query, r"CORRE_SECUCODE")
        for facts in found:
            if only in ("", facts["secucode"]):
                yield facts | {"secucode": first["secucode"], "code": first["code"]}


def _calendar(query: Query, rng: Luck) -> Iterator[Facts]:
    """What happened to companies on a day."""
    day = date.fromisoformat(asked(query, "TRADE_DATE"))
    for one in CHINA:
        for event in events(rng.world, one.key, day, day, move=0):
            yield company(rng.world, one.key) | {
                "event": event.kind,
                "title": event.title,
                "day": at_midnight(event.day),
            }


def capital(query: Query, rng: Luck) -> Iterator[Facts]:
    """The shares of a company since it was listed."""
    for key in subjects(query) or keys_of(query):
        facts, one = company(rng.world, key), rng.world.instrument(key)
        limited = issued(one) - free_shares(one)
        yield facts | {
            "day": at_midnight(profile(rng.world, key).listed),
            "limited": limited,
            "free_part": FREE * 100,
            "reason": "发行上市",
        }


# --- Hong Kong and New York ----------------------------------------------------------------------

_ITEMS: Final[Mapping[str, Mapping[str, str]]] = {
    "BALANCE": {
        "cash": "现金及等价物", "receivables": "应收账款", "inventories": "存货",
        "current_assets": "流动资产合计", "fixed_assets": "物业厂房及设备", "assets": "总资产",
        "payables": "应付账款", "current_liabilities": "流动负债合计", "liabilities": "总负债",
        "equity": "股东权益",
    },
    "INCOME": {
        "revenue": "营业额", "cost": "销售成本", "selling": "销售及分销费用",
        "administration": "行政开支", "research": "研发费用", "operating_profit": "经营溢利",
        "profit": "除税前溢利", "tax": "税项", "net_profit": "股东应占溢利",
    },
    "CASHFLOW": {
        "operating_cash": "经营业务现金净额", "investing_cash": "投资业务现金净额",
        "financing_cash": "融资业务现金净额", "dividends": "已付股息", "cash_change": "现金净额",
    },
}  # fmt: skip
"""The items of statements outside China, by the kind of statement."""

_TYPES: Final = {3: "一季报", 6: "中报", 9: "三季报", 12: "年报"}


def _items(query: Query, rng: Luck) -> Iterator[Facts]:
    """The items of statements, one by one: those of the days or reports that the filter names."""
    name, text = query.get("reportName", ""), query.get("filter", "")
    items = next(value for word, value in _ITEMS.items() if word in name)
    is_listing = "ITEM_NAME" not in query.get("columns", "")
    for key in subjects(query):
        for facts in _quarterly({"filter": f'(SECUCODE="{_secucode(key)}")'}, rng):
            day = str(facts["period"])[:10]
            year, month = int(day[:4]), int(day[5:7])
            words = [f"{year}/Q{month // 3}"]
            words += [f"{year}/FY"] if month == 12 else [f"{year}/Q{month}"] if month > 3 else []
            for report in words:
                is_quarter = report[-2:] in ("Q1", "Q2", "Q3", "Q4")
                facts |= {"report": report, "report_type": _TYPES[month]}
                if is_listing and name.startswith("RPT_US"):
                    yield dict(facts)
                elif report in text or (day in text and not is_quarter):
                    for number, (item, label) in enumerate(items.items()):
                        of_quarter = is_quarter and item not in SHEET
                        amount = facts[f"q_{item}" if of_quarter else item]
                        code = f"{4 + [*_ITEMS].index(name.split('_')[3]):03}{number + 1:03}"
                        yield facts | {"item": code, "label": label, "amount": amount}


def _listing(query: Query, rng: Luck) -> Iterator[Facts]:
    """Which statements there are of a company of Hong Kong."""
    names = "REPORT_DATE=period CURRENCY=currency FISCAL_YEAR=year REPORT_TYPE=report"
    for key in subjects(query):
        found = [row_of(names, facts) for facts in _quarterly(query, rng)]
        yield company(rng.world, key) | {"list": found}


def _yearly(query: Query, rng: Luck) -> Iterator[Facts]:
    """The figures of a company, of the kinds of period that the filter names."""
    kinds = re.search(r"DATE_TYPE_CODE[^\d]*([\d\", ]*)", query.get("filter", ""))
    wanted = re.findall(r"\d+", kinds[1]) if kinds else []
    for facts in _quarterly(query, rng):
        if not wanted or facts["date_type"] in wanted or "006" in wanted:
            yield facts


# --- the tables of reports -----------------------------------------------------------------------

HEAD = "SECUCODE=secucode SECURITY_CODE=code SECURITY_NAME_ABBR=name"
SHEETS: Final = {
    "BALANCE": "MONETARYFUNDS=cash ACCOUNTS_RECE=receivables INVENTORY=inventories "
    "TOTAL_CURRENT_ASSETS=current_assets FIXED_ASSET=fixed_assets TOTAL_ASSETS=assets "
    "ACCOUNTS_PAYABLE=payables ADVANCE_RECEIVABLES=advances SHORT_LOAN=borrowings "
    "TOTAL_CURRENT_LIAB=current_liabilities TOTAL_LIABILITIES=liabilities SHARE_CAPITAL=capital "
    "CAPITAL_RESERVE=surplus UNASSIGN_RPOFIT=retained TOTAL_PARENT_EQUITY=equity "
    "TOTAL_EQUITY=equity TOTAL_LIAB_EQUITY=equity_and_debt",
    "INCOME": "TOTAL_OPERATE_INCOME=revenue OPERATE_INCOME=revenue "
    "TOTAL_OPERATE_COST=operating_cost OPERATE_COST=cost OPERATE_TAX_ADD=surcharge "
    "SALE_EXPENSE=selling MANAGE_EXPENSE=administration RESEARCH_EXPENSE=research "
    "FINANCE_EXPENSE=finance OPERATE_PROFIT=operating_profit TOTAL_PROFIT=profit INCOME_TAX=tax "
    "NETPROFIT=net_profit PARENT_NETPROFIT=net_profit BASIC_EPS=eps DILUTED_EPS=eps",
    "CASHFLOW": "NETCASH_OPERATE=operating_cash NETCASH_INVEST=investing_cash "
    "NETCASH_FINANCE=financing_cash ASSIGN_DIVIDEND_PORFIT=dividends CCE_ADD=cash_change "
    "END_CCE=cash",
}
"""The fields of a company's statements in China."""

SHEET_HEAD = (
    f"{HEAD} ORG_CODE=org REPORT_DATE=period REPORT_TYPE=report REPORT_DATE_NAME=report_name "
    "SECURITY_TYPE_CODE=kind NOTICE_DATE=published UPDATE_DATE=published CURRENCY=currency"
)
_HOLDER_MEANS = " ".join(f"mean_{n} most_{n} least_{n}" for n in (10, 30, 60))
_AFTER = "D10_ADJCHRATE=after_10 D30_ADJCHRATE=after_30 D60_ADJCHRATE=after_60"
_HELD = (
    f"{HEAD} END_DATE=period HOLDER_NAME=holder HOLDER_TYPE=holder_kind HOLD_NUM=held "
    "HOLDNUM_CHANGE_NAME=change_name HOLDER_MARKET_CAP=worth HOLD_RATIO=percent "
    "HOLDER_TYPE_ORG=holder_kind HOLDER_NEWTYPE=holder_kind HOLDER_RANK=rank RANK=rank "
    "FREE_HOLDNUM_RATIO=free_percent XZCHANGE=change HOLD_NUM_CHANGE=change "
    "CHANGE_RATIO=change_percent HOLD_RATIO_CHANGE=change_percent UPDATE_DATE=published "
    "NOTICE_DATE=published SHARES_TYPE=shares_kind"
)
_PEER = "CORRE_SECURITY_CODE=peer_code CORRE_SECURITY_NAME=peer_name CORRE_SECUCODE=peer_secucode"
_NUMBERS = (
    "period move mean_worth mean_held worth shares published number number_before number_change "
    "number_percent"
)

Made = Callable[[Query, Luck], Iterator[Facts]]

_TABLES: Final[Mapping[str, tuple[Made, str]]] = {
    "RPT_LICO_FN_CPD": (
        _quarterly,
        "code name -*4 published -*1 eps -*1 revenue net_profit roe revenue_yoy net_profit_yoy bps "
        "cps gross_margin revenue_qoq net_profit_qoq -*2 industry -*14",
    ),
    "RPT_DMSK_FN_BALANCE": (
        _quarterly,
        "secucode code -*2 name -*7 published period assets -*1 cash -*1 receivables -*1 "
        "inventories -*1 liabilities payables -*1 advances -*1 equity -*1 assets_yoy "
        "liabilities_yoy -*1 debt_ratio -*24",
    ),
    "RPT_DMSK_FN_INCOME": (
        _quarterly,
        "secucode code -*2 name -*7 published period net_profit revenue operating_cost -*1 cost "
        "-*2 selling administration finance operating_profit profit -*15 revenue_yoy -*1 "
        "net_profit_yoy -*2",
    ),
    "RPT_DMSK_FN_CASHFLOW": (
        _quarterly,
        "secucode code -*2 name -*7 published period operating_cash operating_part -*4 "
        "investing_cash investing_part -*4 financing_cash financing_part cash_change "
        "cash_change_yoy -*18",
    ),
    "RPT_FCI_PERFORMANCEE": (
        _quarterly,
        "code name market -*1 kind -*1 published -*1 eps revenue revenue_before net_profit "
        "net_profit_before bps roe revenue_yoy net_profit_yoy revenue_qoq net_profit_qoq industry "
        "-*8",
    ),
    "RPT_PUBLIC_OP_NEWPREDICT": (
        _quarterly,
        "secucode code name -*1 published period -*1 indicator -*4 forecast_text reason forecast "
        "net_profit_before -*4 net_profit_yoy net_profit -*5",
    ),
    "RPT_PUBLIC_BS_APPOIN": (
        _appointments,
        f"{HEAD} FIRST_APPOINT_DATE=first FIRST_CHANGE_DATE=none SECOND_CHANGE_DATE=none "
        "THIRD_CHANGE_DATE=none ACTUAL_PUBLISH_DATE=actual REPORT_DATE=period",
    ),
    "RPT_F10_FINANCE_MAINFINADATA": (
        _quarterly,
        f"{HEAD} REPORT_DATE=period REPORT_TYPE=report REPORT_DATE_NAME=report_name EPSJB=eps "
        "EPSKCJB=eps EPSXS=eps BPS=bps MGZBGJ=surplus_per_share MGWFPLR=retained_per_share "
        "MGJYXJJE=cps TOTALOPERATEREVE=revenue MLR=gross PARENTNETPROFIT=net_profit "
        "KCFJCXSYJLR=net_profit TOTALOPERATEREVETZ=revenue_yoy PARENTNETPROFITTZ=net_profit_yoy "
        "KCFJCXSYJLRTZ=net_profit_yoy YYZSRGDHBZC=revenue_qoq NETPROFITRPHBZC=net_profit_qoq "
        "KFJLRGDHBZC=net_profit_qoq ROEJQ=roe ROEKCJQ=roe ZZCJLL=roa XSJLL=net_margin "
        "XSMLL=gross_margin YSZKYYSR=none XSJXLYYSR=none JYXJLYYSR=cash_by_sales TAXRATE=tax_rate "
        "LD=current_ratio SD=quick_ratio XJLLB=cash_by_debt ZCFZL=debt_ratio QYCS=multiplier "
        "CQBL=equity_ratio ZZCZZTS=none CHZZTS=none YSZKZZTS=none TOAZZL=turnover "
        "CHZZL=stock_turnover YSZKZZL=debtor_turnover",
    ),
    **{
        f"RPT_F10_FINANCE_G{name}": (_quarterly, f"{SHEET_HEAD} {fields}")
        for name, fields in SHEETS.items()
    },
    "RPT_F10_EH_EQUITY": (
        capital,
        "SECUCODE=secucode SECURITY_CODE=code END_DATE=day TOTAL_SHARES=shares "
        "LIMITED_A_SHARES=limited LIMITED_OTHARS=limited LIMITED_DOMESTIC_NOSTATE=limited "
        "LIMITED_DOMESTIC_NATURAL=none FREE_SHARES=free_shares LISTED_A_SHARES=free_shares "
        "CHANGE_REASON=reason",
    ),
    "RPT_ORGOP_ALL": (
        _calendar,
        "SECURITY_CODE=code SECUCODE=secucode SECURITY_NAME_ABBR=name EVENT_TYPE=event "
        "EVENT_CONTENT=title TRADE_DATE=day",
    ),
    "RPT_HOLDERNUMLATEST": (accounts, f"code name {_NUMBERS} before price percent"),
    "RPT_COOPFREEHOLDERS_ANALYSIS": (
        _by_holder, f"-*2 holder holder_kind -*1 number {_HOLDER_MEANS} names"
    ),
    "RPT_COOPHOLDERS_ANALYSIS": (
        _by_holder, f"-*2 holder holder_kind -*1 number {_HOLDER_MEANS} names"
    ),
    "RPT_FREEHOLDERS_BASIC_INFO": (
        _by_holder,
        "-*2 holder -*1 holder_kind -*3 number new more less same -*1 worth names -*4",
    ),
    "RPT_HOLDERS_BASIC_INFO": (
        _by_holder,
        "-*2 holder -*1 holder_kind -*3 number new more less same -*2 names worth -*2",
    ),
    "RPT_F10_EH_FREEHOLDERS": (_all_held, _HELD),
    "RPT_DMSK_HOLDERS": (_all_held, _HELD),
    "RPT_CUSTOM_F10_EH_FREEHOLDERS_JOIN_FREEHOLDER_SHAREANALYSIS": (
        _all_held, f"{_HELD} {_AFTER}"
    ),
    "RPT_CUSTOM_DMSK_HOLDERS_JOIN_HOLDER_SHAREANALYSIS": (_all_held, f"{_HELD} {_AFTER}"),
    **dict.fromkeys(
        ("RPT_COOPFREEHOLDER", "RPT_TENHOLDERS_COOPHOLDERS"),
        (_together, "-*1 holder holder_kind -*1 other other_kind number -*1 names"),
    ),
    "RPT_PCF10_INDUSTRY_GROWTH": (
        _compared,
        f"SECUCODE=secucode {_PEER} MGSY_3Y=net_profit_3y MGSYTB=eps_yoy MGSYTTM=eps_yoy "
        "MGSY_1E=none MGSY_2E=none MGSY_3E=none YYSR_3Y=revenue_3y YYSRTB=revenue_yoy "
        "YYSRTTM=revenue_yoy YYSR_1E=none YYSR_2E=none YYSR_3E=none JLR_3Y=net_profit_3y "
        "JLRTB=net_profit_yoy JLRTTM=net_profit_yoy JLR_1E=none JLR_2E=none JLR_3E=none "
        "PAIMING=net_profit_3y_rank",
    ),
    "RPT_PCF10_INDUSTRY_DBFX": (
        _compared,
        f"SECUCODE=secucode {_PEER} "
        + " ".join(
            f"{name}_AVG={fact}_mean {more}_L3={fact}_3 {more}_L2={fact}_2 {more}_L1={fact}_1"
            for name, more, fact in (
                ("ROE", "ROEPJ", "roe"), ("XSJLL", "XSJLL", "net_margin"),
                ("TOAZZL", "TOAZZL", "turnover"), ("QYCS", "QYCS", "multiplier"),
            )
        )
        + " PAIMING=roe_mean_rank",
    ),
    "RPT_PCF10_INDUSTRY_MARKET": (
        _compared,
        f"{HEAD} {_PEER} TOTAL_CAP=value FREECAP=free_value TOTAL_OPERATEINCOME=revenue "
        "NETPROFIT=net_profit REPORT_TYPE=report TOTAL_CAP_RANK=value_rank "
        "FREECAP_RANK=free_value_rank TOTAL_OPERATEINCOME_RANK=revenue_rank "
        "NETPROFIT_RANK=net_profit_rank",
    ),
    "RPT_PCF10_INDUSTRY_HKGROWTH": (
        _compared,
        f"{_PEER} EPS_YOY=eps_yoy EPS_YOY_RANK=eps_yoy_rank OPERATE_INCOME_YOY=revenue_yoy "
        "OPINCOME_YOY_RANK=revenue_yoy_rank OPERATE_PROFIT_YOY=net_profit_yoy "
        "OPROFIT_YOY_RANK=net_profit_yoy_rank TOTAL_ASSET_YOY=assets_yoy "
        "TOASSET_YOY_RANK=assets_yoy_rank",
    ),
    "RPT_PCF10_INDUSTRY_HKCVALUE": (
        _compared,
        f"{_PEER} PE_TTM=pe PE_TTM_RANK=pe_rank PE_LYR=pe_year PE_LYR_RANK=pe_year_rank PB_MQR=pb "
        "PB_MQR_RANK=pb_rank PB_LYR=pb PB_LYR_RANK=pb_rank PS_TTM=ps PS_TTM_RANK=ps_rank PS_LYR=ps "
        "PS_LYR_RANK=ps_rank PCE_TTM=pcf PCE_TTM_RANK=pcf_rank PCE_LYR=pcf PCE_LYR_RANK=pcf_rank",
    ),
    "RPT_PCF10_INDUSTRY_SCALE": (
        _compared,
        f"{_PEER} HKSDQMV=value HKSDQMV_RANK=value_rank HKTOTAL_MARKET_CAP=free_value "
        "HKTOTAL_CAP_RANK=free_value_rank OPERATE_INCOME=revenue OPERATE_INCOME_RANK=revenue_rank "
        "GROSS_PROFIT=net_profit GROSS_PROFIT_RANK=net_profit_rank",
    ),
    "RPT_HKF10_INFO_SECURITYINFO": (
        profiles,
        f"{HEAD} SECURITY_TYPE=stock_kind LISTING_DATE=listed ISIN_CODE=isin BOARD=board "
        "TRADE_UNIT=lot TRADE_MARKET=exchange GANGGUTONGBIAODISHEN=yes GANGGUTONGBIAODIHU=yes "
        "PAR_VALUE=none ISSUE_PRICE=issue_price ISSUE_NUM=shares YEAR_SETTLE_DAY=settle",
    ),
    "RPT_HKF10_INFO_ORGPROFILE": (
        profiles,
        "SECUCODE=secucode SECURITY_CODE=code ORG_NAME=name ORG_EN_ABBR=english "
        "BELONG_INDUSTRY=sector FOUND_DATE=founded CHAIRMAN=none SECRETARY=none ACCOUNT_FIRM=none "
        "REG_ADDRESS=text ADDRESS=text YEAR_SETTLE_DAY=settle EMP_NUM=employees ORG_TEL=no_fax "
        "ORG_FAX=no_fax ORG_EMAIL=no_fax ORG_WEB=no_fax ORG_PROFILE=profile REG_PLACE=place",
    ),
    "RPT_USF10_INFO_ORGPROFILE": (
        profiles,
        "SECUCODE=secucode SECURITY_CODE=code ORG_CODE=org ORG_NAME=name BELONG_INDUSTRY=sector "
        "FOUND_DATE=founded EMP_NUM=employees ORG_PROFILE=profile",
    ),
    "RPT_CUSTOM_HKF10_FN_MAININDICATORMAX": (
        profiles,
        f"{HEAD} REPORT_DATE=period BASIC_EPS=eps PER_NETCASH_OPERATE=cps BPS=bps "
        "COMMON_ACS=shares PER_SHARES=lot ISSUED_COMMON_SHARES=shares HK_COMMON_SHARES=shares "
        "TOTAL_MARKET_CAP=value HKSK_MARKET_CAP=value OPERATE_INCOME=revenue "
        "OPERATE_INCOME_QOQ=revenue_qoq HOLDER_PROFIT=net_profit HOLDER_PROFIT_QOQ=net_profit_qoq "
        "PE_TTM=pe PB_TTM=pb NET_PROFIT_RATIO=net_margin ROE_AVG=roe ROA=roa DIVIDEND_TTM=paid "
        "DIVI_RATIO=paid_part DIVIDEND_RATE=paid_rate",
    ),
    "RPT_SHAREBONUS_DET": (
        payouts_of,
        "secucode name -*2 code bonus bonus none cash published eve day period progress plan "
        "published -*3 eps bps surplus_per_share retained_per_share net_profit_yoy shares "
        "published rate -*3",
    ),
    "RPT_HKF10_MAIN_DIVBASIC": (
        payouts_of,
        "SECURITY_CODE=code UPDATE_DATE=published REPORT_TYPE=way EX_DIVIDEND_DATE=day "
        "DIVIDEND_DATE=day_of_pay TRANSFER_END_DATE=closed YEAR=year PLAN_EXPLAIN=in_words",
    ),
    "RPT_CUSTOM_HKSK_APPFN_CASHFLOW_SUMMARY": (_listing, f"{HEAD} REPORT_LIST=list"),
    **{
        f"RPT_HKF10_FN_{name}_PC": (
            _items,
            f"{HEAD} ORG_CODE=org REPORT_DATE=period DATE_TYPE_CODE=date_type FISCAL_YEAR=settle "
            f"{'' if name == 'BALANCE' else 'START_DATE=start '}STD_ITEM_CODE=item "
            f"STD_ITEM_NAME=label AMOUNT=amount"
            f"{' STD_REPORT_DATE=period' if name == 'BALANCE' else ''}",
        )
        for name in _ITEMS
    },
    **dict.fromkeys(
        ("RPT_USF10_FN_BALANCE", "RPT_USF10_FN_INCOME", "RPT_USSK_FN_CASHFLOW"),
        (
            _items,
            f"{HEAD} REPORT_DATE=period REPORT_TYPE=report_type REPORT=report STD_ITEM_CODE=item "
            "AMOUNT=amount ITEM_NAME=label",
        ),
    ),
    "RPT_HKF10_FN_MAININDICATOR": (
        _yearly,
        f"{HEAD} ORG_CODE=org REPORT_DATE=period DATE_TYPE_CODE=date_type PER_NETCASH_OPERATE=cps "
        "PER_OI=revenue_per_share BPS=bps BASIC_EPS=eps DILUTED_EPS=eps OPERATE_INCOME=revenue "
        "OPERATE_INCOME_YOY=revenue_yoy GROSS_PROFIT=gross GROSS_PROFIT_YOY=gross_yoy "
        "HOLDER_PROFIT=net_profit HOLDER_PROFIT_YOY=net_profit_yoy GROSS_PROFIT_RATIO=gross_margin "
        "EPS_TTM=eps OPERATE_INCOME_QOQ=revenue_qoq NET_PROFIT_RATIO=net_margin ROE_AVG=roe "
        "GROSS_PROFIT_QOQ=none ROA=roa HOLDER_PROFIT_QOQ=net_profit_qoq ROE_YEARLY=roe "
        "ROIC_YEARLY=none TAX_EBT=tax_rate OCF_SALES=cash_by_sales DEBT_ASSET_RATIO=debt_ratio "
        "CURRENT_RATIO=current_ratio CURRENTDEBT_DEBT=short_debt START_DATE=start FISCAL_YEAR=none "
        "CURRENCY=currency IS_CNY_CODE=nonparent",
    ),
    "RPT_USF10_FN_GMAININDICATOR": (
        _yearly,
        f"{HEAD} ORG_CODE=org SECURITY_INNER_CODE=org ACCOUNTING_STANDARDS=none "
        "NOTICE_DATE=published START_DATE=start REPORT_DATE=period FINANCIAL_DATE=period "
        "STD_REPORT_DATE=period CURRENCY=currency DATE_TYPE=report DATE_TYPE_CODE=date_type "
        "REPORT_TYPE=report REPORT_DATA_TYPE=none ORGTYPE=none OPERATE_INCOME=revenue "
        "OPERATE_INCOME_YOY=revenue_yoy GROSS_PROFIT=gross GROSS_PROFIT_YOY=gross_yoy "
        "PARENT_HOLDER_NETPROFIT=net_profit PARENT_HOLDER_NETPROFIT_YOY=net_profit_yoy "
        "BASIC_EPS=eps DILUTED_EPS=eps GROSS_PROFIT_RATIO=gross_margin NET_PROFIT_RATIO=net_margin "
        "ACCOUNTS_RECE_TR=debtor_turnover INVENTORY_TR=stock_turnover TOTAL_ASSETS_TR=turnover "
        "ACCOUNTS_RECE_TDAYS=none INVENTORY_TDAYS=none TOTAL_ASSETS_TDAYS=none ROE_AVG=roe ROA=roa "
        "CURRENT_RATIO=current_ratio SPEED_RATIO=quick_ratio OCF_LIQDEBT=cash_by_debt "
        "DEBT_ASSET_RATIO=debt_ratio EQUITY_RATIO=equity_ratio BASIC_EPS_YOY=eps_yoy "
        "GROSS_PROFIT_RATIO_YOY=none NET_PROFIT_RATIO_YOY=none ROE_AVG_YOY=none ROA_YOY=none "
        "DEBT_ASSET_RATIO_YOY=none CURRENT_RATIO_YOY=none SPEED_RATIO_YOY=none",
    ),
}  # fmt: skip


def table(make: Made, fields: str) -> Callable[[Query, Luck], Sequence[Row]]:
    return lambda query, rng: [row_of(fields, facts) for facts in make(query, rng)]


def _account_history(query: Query, rng: Luck) -> Sequence[Row]:
    """Accounts by quarter; a report on one company has the changes of its shares too."""
    one = bool(asked(query, "SECURITY_CODE"))
    fields = "code name new_shares none " if one else "code name "
    tail = " -*1 price percent" if one else " before price percent"
    return [row_of(fields + _NUMBERS + tail, facts) for facts in accounts(query, rng)]


REPORTS: Mapping[str, Callable[[Query, Luck], Sequence[Row]]] = {
    **{name: table(make, fields) for name, (make, fields) in _TABLES.items()},
    "RPT_HOLDERNUM_DET": _account_history,
}

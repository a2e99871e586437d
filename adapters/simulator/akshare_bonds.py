"""Simulated answers of sources on yield curves, money rates and bonds.

All of them read the curves and bonds of the world, so that two sources tell one number.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta

import numpy as np

from adapters.simulator.shapes import (
    Luck,
    Payload,
    Query,
    Reply,
    Row,
    as_csv,
    as_json,
    as_page,
    as_text,
    as_xls,
    asked,
    bar_days,
    html_table,
    read_day,
)
from adapters.simulator.world.companies import valuation
from adapters.simulator.world.economy import (
    COUNTRY_OF,
    KINDS,
    Bond,
    Curve,
    bond,
    convertibles,
    figures,
    issued,
    money,
    yields,
)
from adapters.simulator.world.instruments import LISTED
from adapters.simulator.world.world import World

# --- yield curves and money rates ----------------------------------------------------------------


_DAYS = 750
"""The days of rates in an answer that has no range."""


def _interbank(query: Query, rng: Luck) -> Sequence[Row]:
    """An interbank rate with its change in basis points, newest first."""
    days, names = bar_days(rng.world, most=_DAYS), ("MARKET_CODE", "CURRENCY_CODE", "INDICATOR_ID")
    market, currency, term = (asked(query, name) for name in names)
    if currency not in COUNTRY_OF or not term.isdecimal():
        return []
    rates = money(rng.world, market, currency, days, _years(term))
    return [
        {"REPORT_DATE": f"{day} 00:00:00", "REPORT_PERIOD": term, "IR_RATE": rate}
        | {"CHANGE_RATE": round((rate - before) * 100, 2), "INDICATOR_ID": term}
        | {"LATEST_RECORD": int(day == days[-1]), "MARKET": market, "MARKET_CODE": market}
        | {"CURRENCY": currency, "CURRENCY_CODE": currency}
        for day, before, rate in zip(days[1:], rates, rates[1:], strict=False)
    ][::-1]


def _years(term: str) -> float:
    """The years of Eastmoney's number of a term: a unit, and how many of it."""
    unit, number = int(term) // 100, int(term) % 100
    return number * (1 / 365, 7 / 365, 1 / 12, 1.0)[min(unit, 3)]


def _treasury(query: Query, rng: Luck) -> Sequence[Row]:
    """Chinese and US treasury yields and growth, newest first; the spread is 10 less 2 years."""
    days, terms, rows = bar_days(rng.world, most=500), (2, 5, 10, 30), list[Row]()
    growth = {
        country: {one.released: one.yoy for one in figures(rng.world, country, "GDP")}
        for country in ("CN", "US")
    }
    china, us = (yields(rng.world, country, days, terms) for country in growth)
    for before, day, cn, am in zip((days[0], *days), days, china, us, strict=False):
        us_ = [round(rate, 2) for rate in am]
        told = [
            next((yoy for at, yoy in known.items() if before < at <= day), None)
            for known in growth.values()
        ]
        rows.append(
            {"SOLAR_DATE": f"{day} 00:00:00", "EMM00588704": cn[0], "EMM00166462": cn[1]}
            | {"EMM00166466": cn[2], "EMM00166469": cn[3], "EMM01276014": round(cn[2] - cn[0], 4)}
            | {"EMG00001306": us_[0], "EMG00001308": us_[1], "EMG00001310": us_[2]}
            | {"EMG00001312": us_[3], "EMG01339436": round(us_[2] - us_[0], 2)}
            | {"EMM00000024": told[0], "EMG00159635": told[1]}
        )
    return rows[::-1]


_CURVES = {
    "国债": ("CYCC000", 0.0),
    "政策性金融债(国开行)": ("CYCC012", 0.12),
    "政策性金融债(进出口行)": ("CYCC013", 0.14),
    "中短期票据(AAA)": ("CYCC82B", 0.45),
    "同业存单(AAA)": ("CYCC41B", 0.3),
    "企业债(AAA)": ("CYCC60B", 0.5),
}
"""The code of a curve, and what it is above the treasury's."""


def _curve_names(query: Query, rng: Luck) -> Reply:
    """Names and codes of the closing yield curves."""
    rows = [{"cnLabel": name, "value": code} for name, (code, _) in _CURVES.items()]
    return as_json({"records": rows})


def _curves(query: Query, rng: Luck) -> Reply:
    """Closing yield curves of the requested days by term in years, on one page; none for a spacing
    of terms that the upstream does not have.
    """
    if (spacing := query.get("termId", "1")) not in ("0.1", "0.5", "1"):
        return as_json({"data": {"total": 0}, "records": []})
    step, page = float(spacing), int(query.get("pageSize", "50"))
    terms = [round(step * n, 1) for n in range(int(50 / step) + 1)]
    days = bar_days(rng.world, read_day(query.get("startDate")), read_day(query.get("endDate")))
    days = days[: -(-page // len(terms))]
    spread = dict(_CURVES.values()).get(query.get("bondType", ""), 0.0)
    curve, rows = Curve(rng.world, "CN", days, spread), list[Row]()
    for term in terms[:page]:
        columns = [of(term).tolist() for of in (curve.par, curve.spot, curve.forward)]
        for day, rate, spot, forward in zip(days, *columns, strict=True):
            rows.append(
                {"newDateValueCN": str(day), "newDateValue": f"{day:%d/%m/%Y}"}
                | {"yearTermStr": f"{term:.1f}", "maturityYieldStr": f"{rate:.4f}"}
                | {"currentYieldStr": f"{spot:.4f}", "futureYieldStr": f"{forward:.4f}"}
            )
    rows.sort(key=lambda row: str(row["newDateValueCN"]))
    return as_json({"data": {"total": min(len(rows), page)}, "records": rows[:page]})


_CHINABOND = {
    "中债国债收益率曲线": 0.0,
    "中债中短期票据收益率曲线(AAA)": 0.45,
    "中债商业银行普通债收益率曲线(AAA)": 0.35,
}


def _chinabond(query: Query, rng: Luck) -> Reply:
    """A page whose second table has three curves by day."""
    days = bar_days(rng.world, read_day(query.get("startDate")), read_day(query.get("endDate")))
    rows: list[Sequence[object]] = [
        ["曲线名称", "日期", "3月", "6月", "1年", "3年", "5年", "7年", "10年", "30年"]
    ]
    for name, spread in _CHINABOND.items():
        told = yields(rng.world, "CN", days, (0.25, 0.5, 1, 3, 5, 7, 10, 30), spread)
        rows += [[name, day, *of_day] for day, of_day in zip(days, told, strict=True)]
    return as_page(html_table([["查询"], ["-"]]), html_table(rows))


_FIXED = {"001": 1 / 365, "007": 7 / 365, "014": 14 / 365}


def _fixed(rng: Luck, market: str, days: Sequence[date]) -> list[tuple[float, ...]]:
    """The repo fixing rates of 1, 7 and 14 days, of all (`repo`) or of banks (`FDR`)."""
    columns = [money(rng.world, market, "CNY", days, years) for years in _FIXED.values()]
    return list(zip(*columns, strict=True))


def _fixings(query: Query, rng: Luck) -> Reply:
    """Repo fixing rates by day; lines end in an empty field."""
    days = bar_days(rng.world, most=_DAYS)
    told = _fixed(rng, "FDR" if "/fdr-" in rng.path else "repo", days)
    return as_csv(
        [day, *(f"{r:.4f}" for r in rates), ""] for day, rates in zip(days, told, strict=True)
    )


def _fixing_days(query: Query, rng: Luck) -> Reply:
    """Repo fixing rates of a range of days, by name."""
    days = bar_days(rng.world, read_day(query.get("startDate")), read_day(query.get("endDate")))
    rows = list[Row]()
    told = (_fixed(rng, market, days) for market in ("repo", "FDR"))
    for day, every, banks in zip(days, *told, strict=True):
        named = {f"FR{n}": f"{r:.4f}" for n, r in zip(_FIXED, every, strict=True)}
        named |= {f"FDR{n}": f"{r:.4f}" for n, r in zip(_FIXED, banks, strict=True)}
        rows.append({"frValueMap": {"date": str(day), **named}})
    return as_json({"data": {"total": len(rows)}, "records": rows})


_SWAPS = (1 / 12, 0.25, 0.5, 0.75, 1, 2, 3, 4, 5, 7, 10)


def _swaps(query: Query, rng: Luck) -> Reply:
    """The swap curve of the seven-day repo: the treasury's and what the repo pays above it."""
    days = bar_days(rng.world, read_day(query.get("startDate")), read_day(query.get("endDate")))
    rows = list[Row]()
    for day, rates in zip(days, yields(rng.world, "CN", days, _SWAPS, 0.05), strict=True):
        named = {f"rate{n}": f"{rate:.4f}" for n, rate in enumerate(rates)}
        row = {f"field{n}": "" for n in range(16)} | {"field0": str(day), "field3": "16:30"}
        rows.append(row | {"field9": "均值", "field11": "FR007", "data": named})
    return as_json({"data": {"total": len(rows)}, "records": rows})


# --- bonds ---------------------------------------------------------------------------------------


def _convertible(query: Query, rng: Luck) -> Sequence[Row]:
    """Daily value of one convertible bond; the premiums follow from the three prices."""
    code = asked(query, "zcode") or asked(query, "SECURITY_CODE")
    if not (len(code) == 6 and code.isdecimal()):
        return []
    one, rows = bond(rng.world, code), list[Row]()
    days = [day for day in rng.world.days("CN") if one.issued <= day <= one.matures]
    if not one.share or not days:
        return []
    columns = (one.closes(rng.world, days), one.worth(rng.world, days))
    values = zip(
        days, *(c.tolist() for c in (*columns, one.converted(rng.world, days))), strict=True
    )
    for day, close, pure, worth in values:
        rows.append(
            {"DATE": f"{day} 00:00:00", "FCLOSE": close, "PUREBONDVALUE": round(pure, 4)}
            | {"SWAPVALUE": worth, "PUREBONDOR": round((close / pure - 1) * 100, 4)}
            | {"SWAPOR": round((close / worth - 1) * 100, 4)}
        )
    return rows


def _convertibles(query: Query, rng: Luck) -> Reply:
    """All convertible bonds; value, premium, double-low and yield follow from the prices."""
    rows, world = list[Row](), rng.world
    for code in convertibles():
        one = bond(world, code)
        share, rng = LISTED[one.share], rng.about("convertible", code)
        (quoted,) = world.latest(one.share, 1)
        bar, day = one.bars(world, quoted.day)[-1], [quoted.day]
        strike, worth = float(one.strikes(world, day)[0]), float(one.converted(world, day)[0])
        premium, left = (bar.close / worth - 1) * 100, (one.matures - world.now).days / 365
        cell: dict[str, object] = {"bond_id": code, "bond_nm": one.name, "price": bar.close}
        cell |= {"increase_rt": round(bar.change, 2), "sincrease_rt": round(quoted.change, 2)}
        cell |= {"pb": round(known.book, 2) if (known := valuation(world, one.share)) else None}
        cell |= {"volume": round(bar.volume * bar.close / 1000, 2)}
        cell |= {"stock_id": share.code, "stock_nm": share.name, "sprice": quoted.close}
        cell |= {"convert_price": strike, "convert_value": round(worth, 2)}
        cell |= {"premium_rt": round(premium, 2), "dblow": round(bar.close + premium, 2)}
        cell |= {"rating_cd": _rating(one), "maturity_dt": str(one.matures)}
        cell |= {"put_convert_price": round(strike * 0.7, 2), "year_left": round(left, 3)}
        cell |= {"force_redeem_price": round(strike * 1.3, 2), "curr_iss_amt": one.size}
        cell |= {"convert_amt_ratio": round(one.size * 1e10 / quoted.close / share.shares, 2)}
        cell |= {"turnover_rt": round(bar.volume / one.size / 1e3, 2)}
        rate = float(one.yields(day, np.array([bar.close]))[0])
        rows.append({"id": code, "cell": cell | {"ytm_rt": round(rate, 2)}})
    return as_json({"page": 1, "rows": rows, "total": len(rows)})


def _rating(one: Bond) -> str:
    return "AAA" if one.spread < 0.9 else "AA+" if one.spread < 1.3 else "AA"


def _strikes(query: Query, rng: Luck) -> Reply:
    """A page on how the conversion price of a bond was lowered, after what its share paid out."""
    one = bond(rng.world, query.get("bond_id", convertibles()[0]))
    head = ["转债名称", "股东大会日", "下修前转股价", "下修后转股价", "新转股价生效日期"]
    rows = list[Sequence[object]]()
    for payout in rng.world.history(one.share).payouts if one.share else ():
        if payout.day > one.issued:
            days = [payout.day - timedelta(1), payout.day]
            before, after = one.strikes(rng.world, days).tolist()
            met = payout.day - timedelta(12)
            rows.append([one.name, met, before, after, payout.day, round(after * 0.9, 2)])
    return as_page(html_table(rows, [*head, "下修底价"]))


def _code_of(rng: Luck) -> str:
    """The code of a bond in Sina's path."""
    return rng.path.rpartition("/")[2].removesuffix(".html")[2:]


def _profile(query: Query, rng: Luck) -> Reply:
    """A page on one bond: its terms as two columns."""
    one = bond(rng.world, _code_of(rng))
    rows = {"债券名称": one.name, "债券简称": one.name, "债券代码": one.code}
    rows |= {"债券类型": KINDS[one.kind].name if one.kind in KINDS else "可转换债券"}
    rows |= {"债券面值（元）": "100", "债券年限（年）": f"{len(one.rates)}"}
    rows |= {"票面利率（%）": f"{one.rates[0]}", "计息方式": "附息", "付息方式": "周期性付息"}
    rows |= {"起息日期": str(one.issued), "到期日": str(one.matures), "发行价格（元）": "100"}
    rows |= {"发行规模（亿元）": f"{one.size}", "信用等级": _rating(one), "发行单位": one.issuer}
    if one.share:
        strike = float(one.strikes(rng.world, [rng.world.now])[0])
        rows |= {"正股代码": one.share[2:], "转股价格（元）": f"{strike}"}
    return as_page(html_table([*rows.items()], ["项目", "内容"]))


def _summary(query: Query, rng: Luck) -> Reply:
    """A page whose eleventh table has three pairs of columns on the terms of a bond."""
    one = bond(rng.world, _code_of(rng))
    pairs = [("债券名称", one.name), ("发行日期", one.issued), ("到期日", one.matures)]
    pairs += [("票面利率(%)", one.rates[0]), ("年限(年)", len(one.rates)), ("发行价(元)", 100)]
    pairs += [("发行量(亿元)", one.size), ("发行人", one.issuer), ("信用等级", _rating(one))]
    rows = [[cell for pair in pairs[at : at + 3] for cell in pair] for at in (0, 3, 6)]
    return as_page(html_table([["-"]]) * 10, html_table(rows))


def bond_count(query: Query, rng: Luck) -> Reply:
    return as_text(f'"{len(_quoted(rng.world))}"')


def _quoted(world: World) -> list[Bond]:
    """The treasury bonds that are traded."""
    every = issued(world, "treasury", date(2012, 1, 1), world.now)
    return [one for one in every if one.matures > world.now]


def bond_quotes(query: Query, rng: Luck) -> Reply:
    """A page of quotes of treasury bonds."""
    size, page, rows = int(query.get("num", "80")), int(query.get("page", "1")), list[Row]()
    for one in _quoted(rng.world)[size * (page - 1) : size * page]:
        bar = one.bars(rng.world, rng.world.days("CN")[-1])[-1]
        row: Row = {"symbol": f"sh{one.code}", "code": one.code, "name": one.name}
        price = {"trade": bar.close, "pricechange": round(bar.close - bar.before, 3)}
        price |= {"changepercent": round(bar.change, 3), "buy": round(bar.close - 0.01, 3)}
        price |= {"sell": round(bar.close + 0.01, 3), "settlement": bar.before, "open": bar.open}
        price |= {"high": bar.high, "low": bar.low, "volume": bar.volume}
        price |= {"amount": round(bar.volume * 10 * bar.close, 2)}
        rest = {"ticktime": "15:00:00", "per": 0, "pb": 0, "mktcap": 0, "nmc": 0}
        rows.append({**row, **price, **rest, "turnoverratio": 0})
    return as_json(rows)


_BANDS = {
    "00": (0, 30), "01": (0, 1), "02": (1, 3), "03": (3, 5), "04": (5, 7), "05": (7, 10),
    "06": (10, 30), "07": (0, 0.25), "08": (0.25, 0.5), "09": (0.5, 0.75), "10": (0.75, 1),
    "11": (0, 0.5), "12": (0.5, 1),
}  # fmt: skip


def _bond_index(query: Query, rng: Luck) -> Reply:
    """A figure of a bond index by day: that of a bond at par in the middle of its terms, which is
    replaced each day. A day's return is the yield, and what the yield's move does to the price.
    """
    days, band = rng.world.days("CN"), query.get("qxlxt", "00")
    low, high = _BANDS.get(band, (0, 30))
    term = 5.0 if band == "00" else (low + high) / 2
    spread = 0.15 if query.get("indexid", "").startswith("8a8b") else 0.25
    y = np.array(yields(rng.world, "CN", days, [term], spread))[:, 0] / 100
    duration = (1 - (1 + y) ** -term) / y
    convexity = duration**2 + duration
    moved = np.diff(y, prepend=y[0])
    passed = np.diff([day.toordinal() for day in days], prepend=days[0].toordinal()) / 365
    clean = np.cumsum(-duration * moved + convexity * moved**2 / 2)
    earned = np.cumsum(np.roll(y, 1) * passed)
    net, gross = 100 * np.exp(clean), 100 * np.exp(clean + earned)
    full = net * (1 + y * (np.array([day.month for day in days]) % 12) / 24)
    kind = query.get("zslxt", "CFZS")
    found = {"CFZS": gross, "JJZS": net, "QJZS": full, "PJSZFTX": convexity, "PJXJLFTX": convexity}
    found |= {"PJSZFJQ": duration, "PJXJLFJQ": duration, "PJDQSYL": y * 100, "PJSZFDQSYL": y * 100}
    found |= {"PJJDJZ": duration * net / 1e4, "PJDCQ": np.full(len(days), term), "PJPXL": y * 100}
    rises = {
        f"{k}ZDF": 100 * np.diff(np.log(found[k]), prepend=np.log(100)) for k in list(found)[:3]
    }
    values = (found | rises).get(kind, 1e4 * net)
    told = {_ms(day): round(value, 4) for day, value in zip(days, values.tolist(), strict=True)}
    return as_json({f"{kind}_{band}": told, "zslxt": kind, "dqcName": {band: ""}})


def _ms(day: date) -> str:
    return str(round(datetime.combine(day, time(0), UTC).timestamp() * 1000))


_ISSUED: Mapping[str, str] = {
    "p_sysapi1120": "treasury",
    "p_sysapi1121": "local",
    "p_sysapi1122": "corporate",
    "p_sysapi1123": "convertible",
}


def _issues(query: Query, rng: Luck) -> Reply:
    """The bonds of a kind that were announced in a range of days."""
    kind = _ISSUED[rng.path.rpartition("/")[2]]
    first, last = read_day(query.get("sdate")), read_day(query.get("edate"))
    rows = list[Row]()
    for one in issued(rng.world, kind, first or rng.world.now, last or rng.world.now):
        amount, end = round(one.size, 2), str(one.issued + timedelta(1))
        row: dict[str, object] = {"SECCODE": one.code, "SECNAME": one.name, "BONDNAME": one.name}
        row |= {"DECLAREDATE": str(one.issued), "F003D": end, "F004D": str(one.issued)}
        row |= {"F005N": amount, "F006N": amount, "F007N": 100, "F008N": 100, "F009D": end}
        row |= {"F002V": "上海证券交易所", "F013V": "公开招标", "F014V": "机构投资者", "F028N": 0}
        row |= {"F015V": "全国", "F017V": "余额包销", "F022N": 1000, "F023V": "补充流动资金"}
        row |= {"F052N": 1000}
        if one.share:
            opens, number = str(one.issued + timedelta(182)), f"7{one.code[1:]}"
            row |= {"F007N": 100, "F052N": 100, "F029D": str(one.issued), "F027D": opens}
            row |= {"F053D": str(one.matures), "F026N": one.strike, "F066N": 10, "F067N": 10}
            row |= {"F008N": 10_000, "F051D": str(one.issued), "F032V": one.name[:2] + "发债"}
            row |= {"F031V": number, "F086V": one.code, "F028D": str(one.issued - timedelta(1))}
            row |= {"F004D": str(one.issued), "F054D": end, "F068D": end, "F065N": 100}
            row |= {"F021V": "项目建设"}
        rows.append(row)
    return as_json({"resultcode": 200, "resultmsg": "success", "records": rows})


def _registered(query: Query, rng: Luck) -> Reply:
    """A page of notes registered with the interbank association, newest first."""
    page, rows = int(query.get("page", "1")), list[Row]()
    notes = issued(rng.world, "note", date(2012, 1, 1), rng.world.now)[::-1]
    for one in notes[50 * (page - 1) : 50 * page]:
        number = f"中市协注〔{one.issued.year}〕CP{one.code[-3:]}号"
        rows.append(
            {"regFileName": one.name, "regPrdtType": "CP", "isReg": "注册"}
            | {"firstIssueAmount": one.size, "regNoticeNo": number}
            | {"releaseTime": str(one.issued), "projPhase": "60"}
        )
    return as_json({"total": len(notes), "rows": rows})


_CONDITIONS = {
    "bondType": [{"code": name, "name": kind.name} for name, kind in KINDS.items()],
    "couponType": [{"code": "1", "name": "附息式固定利率"}, {"code": "2", "name": "零息式"}],
    "issueYear": [{"name": str(year)} for year in range(2026, 2011, -1)],
    "bondRtngShrt": [{"name": name} for name in ("AAA", "AA+", "AA", "A-1")],
}
_ISSUERS = sorted({name for kind in KINDS.values() for name in kind.issuers.split()})


def _conditions(query: Query, rng: Luck) -> Reply:
    """What bonds may be searched by."""
    enty = [{"code": f"{900 + at}", "name": name} for at, name in enumerate(_ISSUERS)]
    return as_json({"data": {**_CONDITIONS, "enty": enty}})


def _named(rng: Luck, text: str) -> list[Bond]:
    """The bonds whose name has the text; one with this name if no bond is called so."""
    year = rng.world.now - timedelta(365)
    every = [one for kind in KINDS for one in issued(rng.world, kind, year, rng.world.now)]
    found = [one for one in every if text in one.name]
    made = bond(rng.world, f"{130_000_000 + int(500 * rng.world.luck('bond', text))}")
    return found or [replace(made, name=text)]


def _search(query: Query, rng: Luck) -> Reply:
    """The bonds that a search finds, on one page."""
    wanted = {"bondType": query.get("bondType"), "issueYear": query.get("issueYear")}
    rows = list[Row]()
    for one in _named(rng, query.get("bondName", "")):
        row = {"bondDefinedCode": one.name.encode().hex(), "bondName": one.name}
        row |= {"bondCode": one.code, "issueStartDate": str(one.issued), "issueEndDate": ""}
        row |= {"bondTypeCode": one.kind, "bondType": KINDS[one.kind].name, "isin": "---"}
        row |= {"entyFullName": one.issuer, "entyDefinedCode": "", "debtRtng": "---", "inptTp": "0"}
        asked_ = {"bondType": one.kind, "issueYear": str(one.issued.year)}
        if all(not text or text == asked_[name] for name, text in wanted.items()):
            rows.append(row)
    return as_json({"data": {"pageTotal": 1, "total": len(rows), "resultList": rows}})


def _details(query: Query, rng: Luck) -> Reply:
    """The terms of the bond that a search has found."""
    one = _named(rng, bytes.fromhex(query.get("bondDefinedCode", "")).decode())[0]
    about: Row = {
        "bondName": one.name,
        "bondFullName": one.name,
        "bondCode": one.code,
        "bondType": KINDS[one.kind].name,
        "entyFullName": one.issuer,
        "issueDate": str(one.issued),
        "frstValueDate": str(one.issued),
        "mrtyDate": str(one.matures),
        "bondPeriod": f"{len(one.rates)}年",
        "parValue": "100",
        "issuePrice": "100",
        "parCouponRate": f"{one.rates[0]}",
        "bondCouponFrqncy": "年",
        "plnndIssueVlmnByk": f"{one.size}",
        "creditRateEntyList": [],
        "exerciseInfoList": [],
    }
    return as_json({"data": {"bondBaseInfo": about}})


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


_CM = "www.chinamoney.com.cn"

REPORTS: Mapping[str, Callable[[Query, Luck], Sequence[Row]]] = {
    "RPT_IMP_INTRESTRATEN": _interbank,
    "RPTA_WEB_KZZ_LS": _convertible,
    "RPTA_WEB_TREASURYYIELD": _treasury,
}
"""The reports of Eastmoney's data centre."""

BONDS: Mapping[tuple[str, str], Payload] = {
    ("query.sse.com.cn", "/commonExcelDd.do"): _bond_workbook,
    (_CM, "/ags/ms/cm-u-bk-currency/ClsYldCurvCurvGO"): _curve_names,
    (_CM, "/ags/ms/cm-u-bk-currency/ClsYldCurvHis"): _curves,
    (_CM, "/ags/ms/cm-u-bk-currency/FrrHis"): _fixing_days,
    (_CM, "/ags/ms/cm-u-bk-shibor/IfccHis"): _swaps,
    (_CM, "/r/cms/www/chinamoney/data/currency/frr-chrt.csv"): _fixings,
    (_CM, "/r/cms/www/chinamoney/data/currency/fdr-chrt.csv"): _fixings,
    (_CM, "/ags/ms/cm-u-bond-md/EntyFullNameSearchCondition"): _conditions,
    (_CM, "/ags/ms/cm-u-bond-md/BondBaseInfoSearchCondition"): _conditions,
    (_CM, "/ags/ms/cm-u-bond-md/BondMarketInfoList2"): _search,
    (_CM, "/ags/ms/cm-u-bond-md/BondDetailInfo"): _details,
    ("yield.chinabond.com.cn", "/cbweb-pbc-web/pbc/historyQuery"): _chinabond,
    ("yield.chinabond.com.cn", "/cbweb-mn/indices/singleIndexQuery"): _bond_index,
    ("zhuce.nafmii.org.cn", "/fans/publicQuery/releFileProjDataGrid"): _registered,
    **{("webapi.cninfo.com.cn", f"/api/sysapi/{name}"): _issues for name in _ISSUED},
    ("www.jisilu.cn", "/data/cbnew/cb_list_new/"): _convertibles,
    ("www.jisilu.cn", "/data/cbnew/adj_logs/"): _strikes,
    ("money.finance.sina.com.cn", "/bond/info/*.html"): _profile,
    ("money.finance.sina.com.cn", "/bond/quotes/*.html"): _summary,
}

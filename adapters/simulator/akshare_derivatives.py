"""Simulated futures and options of Sina and Eastmoney."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Final

import numpy as np

from adapters.simulator.akshare_eastmoney import minutes
from adapters.simulator.akshare_quotes import jsonp, quoted, share_quote
from adapters.simulator.shapes import (
    Facts,
    Luck,
    Payload,
    Query,
    Reply,
    Row,
    as_json,
    as_text,
    bar_facts,
    bar_rows,
    read_day,
    row_of,
    sheet,
    to_json,
)
from adapters.simulator.world import derivatives
from adapters.simulator.world.derivatives import OPTION_FUNDS, Month, Option
from adapters.simulator.world.instruments import ABROAD, FUTURES
from adapters.simulator.world.world import Bar, World

_EXCHANGES: Final = {
    "czce": ("郑州商品交易所", 115),
    "dce": ("大连商品交易所", 114),
    "shfe": ("上海期货交易所", 113),
    "ine": ("上海国际能源交易中心", 142),
    "cffex": ("中国金融期货交易所", 8),
    "gfex": ("广州期货交易所", 225),
}
"""The names of the exchanges of futures, and Eastmoney's numbers of their markets."""


def _future(world: World, symbol: str) -> list[Bar]:
    """The days of a contract such as `RB2610`, or of the main one, `RB0`; none if there is none."""
    key = f"future:{symbol.upper()}"
    return world.bars(key) if derivatives.future_of(key, world.now) else []


def _held(world: World, symbol: str, bars: Sequence[Bar]) -> list[int]:
    return derivatives.open_interest(world, f"future:{symbol.upper()}", [bar.day for bar in bars])


def _future_days(query: Query, rng: Luck) -> Reply:
    """Daily bars of one futures contract as JSON assigned to a variable."""
    symbol = query.get("symbol", "RB0")
    rows = _contract_rows(rng.world, symbol, _future(rng.world, symbol))
    return jsonp("var _V=", [row_of(f"d=date {_CONTRACT} s=middle:.3f", row) for row in rows])


_CONTRACT: Final = "o=open:.3f h=high:.3f l=low:.3f c=close:.3f v=volume:d p=held:d"


def _contract_rows(world: World, symbol: str, bars: Sequence[Bar]) -> Iterator[Facts]:
    """What is told of each bar of a contract, with what is held of it at its end."""
    facts = bar_facts(world, f"future:{symbol.upper()}", bars)
    for one, bar, hold in zip(facts, bars, _held(world, symbol, bars), strict=True):
        yield one | {"held": hold, "middle": (bar.high + bar.low) / 2}


def _future_minutes(query: Query, rng: Luck) -> Reply:
    """The last bars of so many minutes of one contract."""
    symbol, size = query.get("symbol", "RB0"), int(query.get("type", "1"))
    known = _future(rng.world, symbol)
    bars = minutes(rng.world, f"future:{symbol.upper()}", size, 4) if known else []
    rows = _contract_rows(rng.world, symbol, bars)
    return jsonp("=", [row_of(f"d=date {_CONTRACT}", row) for row in rows])


def _abroad_days(query: Query, rng: Luck) -> Reply:
    """Daily bars of one future of an exchange abroad."""
    key = f"ff:{query.get('symbol', 'ZSD')}"
    fields = "date=date open=open:.3f high=high:.3f low=low:.3f close=close:.3f volume=volume:d"
    return jsonp("var _S=", bar_rows(fields, rng.world, key, rng.world.bars(key)))


def _products(query: Query, rng: Luck) -> Reply:
    """The products of the exchanges by name, and the lists of their contracts."""
    nodes = dict[str, list[object]]()
    for exchange, (name, _) in _EXCHANGES.items():
        own = [
            [one.name, f"{code.lower()}_qh", "1"]
            for code, one in FUTURES.items()
            if one.exchange.replace("ine", "shfe") == exchange
        ]
        if own:
            nodes[exchange] = [name, *own]
    body = f"ARRFUTURESNODES = {to_json(nodes)};".encode("gb2312", "replace")
    return Reply(body, "application/x-javascript")


def _contracts(query: Query, rng: Luck) -> Reply:
    """The quotes of the main contract of one product and of all its months."""
    product, world = query.get("node", "rb_qh").removesuffix("_qh").upper(), rng.world
    rows = list[Row]()
    months = [str(month) for month, _ in derivatives.months(product, world.now)]
    for symbol in (f"{product}{month}" for month in ("0", *months)):
        one, bar = world.instrument(f"future:{symbol}"), world.latest(f"future:{symbol}", 1)[-1]
        (hold,), mean = _held(world, symbol, [bar]), (bar.high + bar.low) / 2
        rows.append({
            "symbol": symbol, "exchange": FUTURES[product].exchange if product in FUTURES else "",
            "name": one.name, "trade": f"{bar.close:.3f}", "settlement": f"{mean:.3f}",
            "presettlement": f"{bar.before:.3f}", "open": f"{bar.open:.3f}",
            "high": f"{bar.high:.3f}", "low": f"{bar.low:.3f}", "close": f"{bar.close:.3f}",
            "bidprice1": f"{bar.close - 1:.3f}", "askprice1": f"{bar.close + 1:.3f}",
            "bidvol1": "10", "askvol1": "12", "volume": str(bar.volume), "position": str(hold),
            "ticktime": "15:00:00", "tradedate": str(bar.day), "preclose": f"{bar.before:.3f}",
            "changepercent": f"{bar.change / 100:.6f}", "bid": f"{bar.close - 1:.3f}",
            "ask": f"{bar.close + 1:.3f}", "prevsettlement": f"{bar.before:.3f}",
        })  # fmt: skip
    return as_json(rows)


def _terms(query: Query, rng: Luck) -> Reply:
    """The terms of one contract: the seventh table of the page, three pairs of columns."""
    symbol = rng.path.rsplit("/", 1)[-1].removesuffix(".shtml").upper()
    product = symbol.rstrip("0123456789")
    one = FUTURES.get(product)
    name, market = (one.name, one.exchange) if one else (product, "shfe")
    found = derivatives.future_of(f"future:{symbol}", rng.world.now)
    month = (found[1] if found else None) or derivatives.main_month(product, rng.world.now)
    last = derivatives.expiry(product, month)
    cells = [
        ("交易品种", name), ("最小变动价位", "1"), ("交易时间", "9:00-11:30 13:30-15:00"),
        ("交易代码", product), ("交易单位", f"{one.lot if one else 10}"), ("涨跌停板幅度", "10%"),
        ("最后交易日", str(last)), ("上市交易所", _EXCHANGES[market][0]), ("报价单位", "元"),
        ("合约交割月份", "1-12"), ("交割方式", "现金" if market == "cffex" else "实物"),
        ("最低交易保证金", "8%"),
    ]  # fmt: skip
    rows = [[cell for pair in cells[at : at + 3] for cell in pair] for at in range(0, 12, 3)]
    return sheet([*[[["-"]]] * 6, rows])


def _positions(query: Query, rng: Luck) -> Reply:
    """The members with most trading, long and short positions in one contract on a day."""
    symbol, day = query.get("t_breed", "RB0").upper(), query.get("t_date", "")
    known = [bar for bar in _future(rng.world, symbol) if str(bar.day) <= day]
    bars = known[-1:] or _future(rng.world, symbol)[:1]
    tables = list[Sequence[Sequence[object]]]()
    for what in ("成交量", "多单持仓", "空单持仓"):
        luck = rng.about("positions", symbol, day, what)
        whole = bars[-1].volume if what == "成交量" else _held(rng.world, symbol, bars)[0]
        shares = sorted((luck.random() ** 2 for _ in _MEMBERS), reverse=True)
        rows: list[Sequence[object]] = [["名次", "会员简称", what, "比上交易增减"]]
        for place, share in enumerate(shares):
            number = round(0.6 * whole * share / sum(shares))
            member = _MEMBERS[(place + len(what)) % len(_MEMBERS)]
            rows.append([place + 1, member, number, luck.randint(-number // 9, number // 9)])
        total = sum(int(str(row[2])) for row in rows[1:])
        tables.append([*rows, ["合计", "", total, 0]])
    return sheet([[["-"]], [["-"]], *tables], has_head=True)


_MEMBERS: Final = (
    "国泰君安", "中信期货", "永安期货", "华泰期货", "海通期货", "东证期货", "银河期货", "方正中期",
    "广发期货", "光大期货", "南华期货", "中粮期货", "申银万国", "浙商期货", "国投期货",
)  # fmt: skip


def _redis(query: Query, rng: Luck) -> Reply:
    """Eastmoney's lists of futures: the markets, then the pages of one, then its contracts."""
    asked = query.get("msgid", "gnweb")
    if asked == "gnweb":
        return as_json([{"mktid": number} for _, number in _EXCHANGES.values()])
    market, _, page = asked.partition("_")
    if not page:
        return as_json([{"page": 1}])
    rows = list[Row]()
    exchange = {str(number): key for key, (_, number) in _EXCHANGES.items()}.get(market, "")
    for code, one in FUTURES.items():
        if one.exchange != exchange:
            continue
        is_upper = exchange in {"czce", "cffex"}
        letters = code if is_upper else code.lower()
        names = [(f"{one.name}主连", f"{letters}{'M' if is_upper else 'm'}")]
        names += [
            (f"{one.name}{month}", f"{letters}{str(month)[exchange == 'czce' :]}")
            for month, _ in derivatives.months(code, rng.world.now)
        ]
        rows += [
            {"mktid": int(market), "mktname": _EXCHANGES[exchange][0], "name": name}
            | {"code": contract, "vcode": letters, "vname": one.name}
            for name, contract in names
        ]
    return as_json(rows)


_SPOTS: Final = {
    "RB": "螺纹钢", "HC": "热轧卷板", "CU": "铜", "AL": "铝", "ZN": "锌", "PB": "铅", "NI": "镍",
    "SN": "锡", "AU": "黄金", "AG": "白银", "RU": "天然橡胶", "BU": "石油沥青", "FU": "燃料油",
    "SP": "纸浆", "A": "豆一", "M": "豆粕", "Y": "豆油", "P": "棕榈油", "C": "玉米", "I": "铁矿石",
    "J": "焦炭", "JM": "焦煤", "V": "PVC", "PP": "聚丙烯", "EG": "乙二醇", "TA": "PTA",
    "SR": "白糖", "CF": "棉花", "OI": "菜籽油", "RM": "菜籽粕", "MA": "甲醇",
}  # fmt: skip
"""What the site on commodities calls the products."""


def _spots(query: Query, rng: Luck) -> Reply:
    """Prices of commodities on a day beside those of the nearest month and the main one."""
    day, world = read_day(rng.path.rpartition("day-")[2].removesuffix(".html")), rng.world
    if day not in world.days("CN"):
        return sheet([[["-"]]], charset="utf-8")
    rows: list[Sequence[object]] = [["商品", "价格", "", "", "", "", ""]]
    for product, name in _SPOTS.items():
        near = derivatives.months(product, day)[0][0]
        main = derivatives.main_month(product, day)
        prices = [world.close(f"future:{product}{month}", day) for month in (near, main)]
        spot = world.close(derivatives.spot_of(product), day)
        rows.append([name, spot, str(near), prices[0], "", str(main), prices[1]])
    return sheet([[["", ""], ["", f"生意社100ppi {day:%Y年%m月%d日}"]], rows], charset="utf-8")


def _opened(world: World, product: str, day: date) -> Iterator[tuple[str, Month, list[Bar]]]:
    """The contracts of a product that are traded on a day, and their days."""
    for month, _ in derivatives.months(product, day):
        if bars := world.bars(f"future:{product}{month}", None, day):
            yield f"{product}{month}", month, bars


def _financial_terms(query: Query, rng: Luck) -> Reply:
    """The terms of the futures on indices on a day, as XML."""
    day = read_day("".join(rng.path.split("/")[3:5])) or rng.world.now
    text = ""
    for product in ("IF", "IH", "IC", "IM"):
        for symbol, month, bars in _opened(rng.world, product, day):
            before = bars[-1].before
            facts = {
                "TRADING_DAY": f"{day:%Y%m%d}", "PRODUCT_ID": product, "INSTRUMENT_ID": symbol,
                "INSTRUMENT_MONTH": str(month), "BASIS_PRICE": f"{bars[0].open:.1f}",
                "OPEN_DATE": f"{bars[0].day:%Y%m%d}",
                "END_TRADING_DAY": f"{derivatives.expiry(product, month):%Y%m%d}",
                "UPPER_VALUE": "10%", "LOWER_VALUE": "10%",
                "UPPERLIMITPRICE": f"{before * 1.1:.1f}", "LOWERLIMITPRICE": f"{before * 0.9:.1f}",
                "LONG_LIMIT": "5000",
            }  # fmt: skip
            cells = "".join(f"<{name}>{value}</{name}>" for name, value in facts.items())
            text += f"<INDEX>{cells}</INDEX>"
    return as_text(f"<INDEXES>{text}</INDEXES>", "text/xml")


def _commodity_terms(query: Query, rng: Luck) -> Reply:
    """The terms of the futures of Shanghai on a day, or those of its energy exchange."""
    day = read_day(rng.path[-12:-4]) or rng.world.now
    exchange = "ine" if "rnd" in query else "shfe"  # the two have one path
    rows = list[Row]()
    for product in (code for code, one in FUTURES.items() if one.exchange == exchange):
        for symbol, month, bars in _opened(rng.world, product, day):
            last = derivatives.expiry(product, month)
            rows.append(
                {"INSTRUMENTID": symbol.lower(), "OPENDATE": f"{bars[0].day:%Y%m%d}"}
                | {"EXPIREDATE": f"{last:%Y%m%d}", "STARTDELIVDATE": f"{last:%Y%m%d}"}
                | {"ENDDELIVDATE": f"{last:%Y%m%d}", "BASISPRICE": f"{bars[0].open:.1f}"}
                | {"TRADINGDAY": f"{day:%Y%m%d}"}
            )
    return as_json({"ContractBaseInfo": rows, "update_date": f"{day} 15:00:00"})


def _commodity_index(query: Query, rng: Luck) -> Reply:
    """The days of an index of commodities: the mean of their main contracts."""
    keys = [f"future:{product}0" for product in ("CU", "RB", "M", "TA", "AU", "I")]
    days = rng.world.days("CN")
    start = days.index(date(2010, 1, 4))
    made = [rng.world.history(key).close[start:] for key in keys]
    means = sum(close / close[0] for close in made) / len(keys) * np.ones(len(days) - start)
    closes = [round(1000 * value, 2) for value in means.tolist()]
    rows = [
        {"tradeDate": str(day), "indexId": query.get("indexId", ""), "closingPrice": now}
        | {"settlePrice": now, "dailyIncreaseAndDecrease": round(now - before, 2)}
        | {"dailyIncreaseAndDecreasePercentage": round((now / before - 1) * 100, 2)}
        for day, before, now in zip(days[start + 1 :], closes, closes[1:], strict=False)
    ]
    return as_json({"data": {"dateLineJson": rows}})


# --- options -------------------------------------------------------------------------------------


def _fund_of(query: Query) -> str:
    """The code of the fund that Sina calls `50ETF`, or `XD50ETF` after a payout."""
    name = query.get("cate", "50ETF").removeprefix("XD")
    return next((code for code, short in OPTION_FUNDS.items() if short == name), "510050")


def _option_months(query: Query, rng: Luck) -> Reply:
    """Expiry months of the options on one fund; the nearest one comes twice."""
    family = _fund_of(query)
    months = derivatives.option_months(family, rng.world.now)
    names = [f"{one.year}-{one.month:02}" for one in (months[0], *months)]
    data: dict[str, object] = {"contractMonth": names, "cateList": [*OPTION_FUNDS.values()]}
    data |= {"cateId": f"{family}C{months[0]}", "stockId": family}
    return as_json({"result": {"status": {"code": 0}, "data": data}})


def _option_end(query: Query, rng: Luck) -> Reply:
    """The last day of a month's options and how far it is."""
    digits = query.get("date", "").replace("-", "")
    found = Month.read(digits[2:6], rng.world.now) if len(digits) == 6 else None
    family = _fund_of(query)
    last = derivatives.option_expiry(
        family, found or derivatives.option_months(family, rng.world.now)[0]
    )
    data = {"expireDay": str(last), "remainderDays": (last - rng.world.now).days}
    return as_json({"result": {"status": {"code": 0}, "data": data | {"stockId": family}}})


def _option_days(query: Query, rng: Luck) -> Reply:
    """Daily bars of one option on an index or a commodity."""
    key, world = f"option:{query.get('symbol', '').upper().replace('-', '')}", rng.world
    bars = world.bars(key) if derivatives.option_of(key, world.now) else []
    fields = "o=open:s h=high:s l=low:s c=close:s v=volume:s d=date"
    return jsonp("var _o=", bar_rows(fields, world, key, bars))


def _numbered_days(query: Query, rng: Luck) -> Reply:
    """Daily bars of one option on a fund, by Shanghai's number."""
    key = _numbered(query, rng).key
    fields = "d=date o=open:.4f h=high:.4f l=low:.4f c=close:.4f v=volume:d"
    return jsonp("", bar_rows(fields, rng.world, key, rng.world.bars(key)))


def _numbered(query: Query, rng: Luck) -> Option:
    code = query.get("symbol", "").removeprefix("CON_OP_")
    return derivatives.option_by_code(rng.world, code)


def _numbered_minutes(query: Query, rng: Luck) -> Reply:
    """The minutes of the last day, or of the last five as a list of days."""
    one, world = _numbered(query, rng), rng.world
    days, is_long = list[list[Row]](), rng.path.endswith("getFiveDayLine")
    for day in world.latest(one.key, 5 if is_long else 1):
        rows, sold, paid = list[Row](), 0, 0.0
        for bar in world.minutes(one.key, day.day):
            sold, paid = sold + bar.volume, paid + bar.volume * bar.close
            row = {"i": f"{bar.day:%H:%M:%S}", "p": f"{bar.close:.4f}", "v": str(bar.volume)}
            row |= {"t": str(day.volume * 5), "a": f"{paid / sold if sold else bar.close:.4f}"}
            rows.append(row | {"d": str(day.day)})
        days.append(rows)
    return as_json({"result": {"status": {"code": 0}, "data": days if is_long else days[0]}})


def _chain(query: Query, rng: Luck) -> Reply:
    """All options of one month of an index or a commodity: bid, price, offer, positions, change."""
    found = re.fullmatch(r"([A-Z]+)(\d{3,4})", query.get("pinzhong", "").upper())
    month = Month.read(found[2], rng.world.now) if found else None
    options = derivatives.chain(rng.world, found[1], month) if found and month else []
    sides: dict[bool, list[list[str]]] = {True: [], False: []}
    for one in options:
        bar = rng.world.latest(one.key, 1)[-1]
        tick = 10.0**-one.digits
        cells = ["8", f"{max(bar.close - tick, 0):.1f}", f"{bar.close:.1f}"]
        cells += [f"{bar.close + tick:.1f}", "9", str(bar.volume * 5), f"{bar.change:.2f}"]
        cells += [f"{one.strike:g}"] if one.is_call else []
        sides[one.is_call].append([*cells, one.key.partition(":")[2].lower()])
    data = {"up": sides[True], "down": sides[False]}
    return as_json({"result": {"status": {"code": 0}, "data": data}})


_COMMODITIES: Final = {
    "M": "豆粕期权", "C": "玉米期权", "I": "铁矿石期权", "CF": "棉花期权", "SR": "白糖期权",
    "TA": "PTA期权", "MA": "甲醇期权", "CU": "沪铜期权", "RU": "橡胶期权", "AU": "黄金期权",
    "RM": "菜籽粕期权", "PG": "液化石油气期权",
}  # fmt: skip


def _option_page(query: Query, rng: Luck) -> Reply:
    """The page of the options on one commodity: links to the others, and the months."""
    product = rng.path.split("/")[-2].removesuffix("_o").upper()
    product = product if product in _COMMODITIES else "M"
    links = "".join(
        f'<li class="active"><a href="/futures/view/optionsDP.php/{code.lower()}_o/'
        f'{FUTURES[code].exchange}">{name}</a></li>'
        for code, name in _COMMODITIES.items()
    )
    months = "".join(
        f"<li>{product.lower()}{month}</li>"
        for month in derivatives.option_months(product, rng.world.now)
    )
    text = (
        f'<html><body><ul>{links}</ul><ul id="option_symbol"><li class="selected">'
        f'{_COMMODITIES[product]}</li></ul><ul id="option_suffix">{months}</ul></body></html>'
    )
    return as_text(text)


# --- quotes by name ------------------------------------------------------------------------------


def _hq(query: Query, rng: Luck) -> Reply:
    """Quotes of anything, by Sina's names of it; an empty text for a name that it does not know."""
    asked = query.get("list") or rng.path.rsplit("list=", 1)[-1]
    return quoted({name: _told(rng.world, name) for name in asked.split(",")})


def _told(world: World, name: str) -> Sequence[object]:
    if found := re.fullmatch(r"OP_(UP|DOWN)_(\d{6})(\d{4})", name):
        month = Month.read(found[3], world.now)
        if found[2] not in OPTION_FUNDS or month is None:
            return []
        options = derivatives.chain(world, found[2], month)
        is_call = found[1] == "UP"
        return [*(f"CON_OP_{one.code}" for one in options if one.is_call == is_call), ""]
    if name.startswith("CON_OP_"):
        return _option_quote(world, derivatives.option_by_code(world, name[7:]))
    if name.startswith("CON_SO_"):
        return _option_greeks(world, derivatives.option_by_code(world, name[7:]))
    if name.startswith("nf_"):
        return _future_quote(world, name[3:].upper())
    if name.startswith("hf_"):
        return _abroad_quote(world, name[3:])
    if re.fullmatch(r"(sh|sz|bj)\d{6}", name):
        return share_quote(world, name)
    if re.fullmatch(r"[A-Z]{6}", name):
        rate = round(world.rate(name[:3], name[3:]), 4)
        label = {"USDCNY": "美元人民币"}.get(name, name)
        return ["15:00:00", *[rate] * 8, label, str(world.now)]
    return []


def _book(close: float, digits: int) -> list[object]:
    """Five offers, the highest first, and five bids, each a price and a number."""
    tick = 10.0**-digits
    offers = [(close + tick * step, 10 * step) for step in range(5, 0, -1)]
    bids = [(max(close - tick * step, 0.0), 10 * step) for step in range(1, 6)]
    return [cell for price, number in (*offers, *bids) for cell in (f"{price:.{digits}f}", number)]


def _option_quote(world: World, one: Option) -> Sequence[object]:
    bar, name = world.latest(one.key, 1)[-1], world.instrument(one.key).name
    spot = world.close(one.underlying, bar.day)
    limit = 0.1 * spot
    amount = round(bar.volume * 10_000 * (bar.open + bar.close) / 2, 2)
    head = [10, f"{max(bar.close - 0.0001, 0):.4f}", f"{bar.close:.4f}"]
    head += [f"{bar.close + 0.0001:.4f}", 10, bar.volume * 5, f"{bar.change:.2f}"]
    head += [f"{one.strike:.4f}", f"{bar.before:.4f}"]
    head += [f"{bar.open:.4f}", f"{bar.before + limit:.4f}"]
    head += [f"{max(bar.before - limit, 0.0001):.4f}"]
    tail = [f"{bar.day} 15:00:00", "0", "E 01", "EBS", one.family, name]
    tail += [f"{(bar.high - bar.low) / bar.before * 100:.2f}", f"{bar.high:.4f}", f"{bar.low:.4f}"]
    return [*head, *_book(bar.close, 4), *tail, bar.volume, amount, "M"]


def _option_greeks(world: World, one: Option) -> Sequence[object]:
    bar, found = world.latest(one.key, 1)[-1], derivatives.greeks(world, one)
    told = [bar.volume, *(f"{value:.4f}" for value in found), f"{bar.high:.4f}", f"{bar.low:.4f}"]
    trading = one.key.partition(":")[2]
    last = [trading, f"{one.strike:.4f}", f"{bar.close:.4f}", f"{bar.close:.4f}", "M"]
    return [world.instrument(one.key).name, "", "", "", *told, *last]


def _future_quote(world: World, symbol: str) -> Sequence[object]:
    bars = _future(world, symbol)[-1:]
    if not bars:
        return []
    (bar,), (hold,) = bars, _held(world, symbol, bars)
    mean = f"{(bar.high + bar.low) / 2:.3f}"
    head = [world.instrument(f"future:{symbol}").name, "150000", bar.open, bar.high, bar.low]
    head += [bar.before, *[bar.close] * 3, mean, bar.before, 10, 12, hold, bar.volume]
    return [*head, "", "", str(bar.day), *[""] * 10]


def _abroad_quote(world: World, code: str) -> Sequence[object]:
    bar = world.latest(f"ff:{code}", 1)[-1]
    name = world.instrument(f"ff:{code}").name
    told = [bar.close, "", bar.close, bar.close, bar.high, bar.low, "23:59:00", bar.before]
    return [*told, bar.open, 1000, 1, 1, str(bar.day), name]


def _abroad_names(query: Query, rng: Luck) -> Reply:
    """The page with the names of futures abroad, and by what a price is multiplied."""
    names = to_json({code: [name, [1, 1]] for code, (name, _) in ABROAD.items()})
    text = (
        '<html><head><script type="text/javascript">'
        f"var oHF_1 = {names};\nvar oHF_2 = {{}};</script>"
        '<script type="text/javascript">var none = 0;</script></head></html>'
    )
    return as_text(text)


_INNER = "/futures/api/jsonp.php/*/InnerFuturesNewService."
_GLOBAL = "/futures/api/jsonp.php/*/GlobalFuturesService."
_OPEN = "/futures/api/openapi.php/"
_SINA = "stock.finance.sina.com.cn"

DERIVATIVES: Mapping[tuple[str, str], Payload] = {
    ("stock2.finance.sina.com.cn", f"{_INNER}getDailyKLine"): _future_days,
    ("stock2.finance.sina.com.cn", f"{_INNER}getFewMinLine"): _future_minutes,
    ("stock2.finance.sina.com.cn", f"{_GLOBAL}getGlobalFuturesDailyKLine"): _abroad_days,
    ("vip.stock.finance.sina.com.cn", "/quotes_service/view/js/qihuohangqing.js"): _products,
    (
        "vip.stock.finance.sina.com.cn",
        "/quotes_service/api/json_v2.php/Market_Center.getHQFuturesData",
    ): _contracts,
    ("vip.stock.finance.sina.com.cn", "/q/view/vFutures_Positions_cjcc.php"): _positions,
    ("finance.sina.com.cn", "/futures/quotes/*"): _terms,
    ("finance.sina.com.cn", "/money/future/hf.html"): _abroad_names,
    ("futsse-static.eastmoney.com", "/redis"): _redis,
    ("www.100ppi.com", "/sf/day-*"): _spots,
    ("www.100ppi.com", "/sf/"): _spots,
    ("www.cffex.com.cn", "/sj/jycs/*"): _financial_terms,
    ("www.shfe.com.cn", "/data/busiparamdata/future/*"): _commodity_terms,
    ("www.ine.cn", "/data/busiparamdata/future/*"): _commodity_terms,
    ("www.ccidx.com", "/CCI-ZZZS/index/getDateLine"): _commodity_index,
    (_SINA, f"{_OPEN}StockOptionService.getStockName"): _option_months,
    (_SINA, f"{_OPEN}StockOptionService.getRemainderDay"): _option_end,
    (_SINA, f"{_OPEN}StockOptionDaylineService.getOptionMinline"): _numbered_minutes,
    (_SINA, f"{_OPEN}StockOptionDaylineService.getFiveDayLine"): _numbered_minutes,
    (_SINA, "/futures/api/jsonp_v2.php/*/StockOptionDaylineService.getSymbolInfo"): _numbered_days,
    (_SINA, "/futures/api/jsonp.php/*/FutureOptionAllService.getOptionDayline"): _option_days,
    (_SINA, f"{_OPEN}OptionService.getOptionData"): _chain,
    (_SINA, "/futures/view/optionsDP.php/*"): _option_page,
    ("hq.sinajs.cn", "/*"): _hq,
}

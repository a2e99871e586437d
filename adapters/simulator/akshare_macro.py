"""Simulated answers of sources on currencies, spot prices, released figures and trade indexes.

All of them read the world's rates and figures, so that two sources tell one number.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from html import escape

import orjson

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
    as_text,
    as_xlsx,
    asked,
    bar_days,
    html_table,
    months,
    read_day,
    to_json,
)
from adapters.simulator.world import derivatives
from adapters.simulator.world.economy import (
    COUNTRIES,
    events,
    figures,
)
from adapters.simulator.world.instruments import CHINA, INDUSTRIES, LISTED
from adapters.simulator.world.world import World

# --- currencies ----------------------------------------------------------------------------------

_UNITS = [key.removeprefix("fx:") for key in LISTED if key.startswith("fx:")]


def _scoop(query: Query, rng: Luck) -> Reply:
    """The rates of a base currency on a day, the conversion of an amount, or the currencies."""
    base, wanted = query.get("base", "USD").upper(), query.get("symbols", "")
    units, world = wanted.split(",") if wanted else _UNITS, rng.world

    def rates(day: date) -> dict[str, float]:
        return {unit: round(world.rate(base, unit, day), 6) for unit in units}

    match rng.path.rpartition("/")[2]:
        case "currencies":
            found: object = [
                {"id": at, "name": code, "short_code": code, "code": f"{at:03}", "precision": 2}
                | {"subunit": 100, "symbol": code, "symbol_first": True, "decimal_mark": "."}
                | {"thousands_separator": ","}
                for at, code in enumerate(_UNITS, 1)
            ]
        case "convert":
            base, to = (query.get(name, "USD").upper() for name in ("from", "to"))
            amount = float(query.get("amount") or 1)
            stamp = int(datetime.combine(world.now, time(0), UTC).timestamp())
            worth = round(amount * world.rate(base, to), 6)
            found = {"timestamp": stamp, "date": str(world.now), "from": base, "to": to}
            found |= {"amount": amount, "value": worth}
        case "timeseries":
            days = [read_day(query.get(name)) or world.now for name in ("start_date", "end_date")]
            days[1] = min(days[1], world.now, days[0] + timedelta(365))
            found = {
                str(day): rates(day)
                for day in (days[0] + timedelta(n) for n in range((days[1] - days[0]).days + 1))
            }
        case _:
            day = min(read_day(query.get("date")) or world.now, world.now)
            found = {"date": str(day), "base": base, "rates": rates(day)}
    return as_json({"meta": {"code": 200, "disclaimer": ""}, "response": found})


_NAMED = {"人民币": "CNY", **MONEY}


def _regions(query: Query, rng: Luck) -> Reply:
    """The currencies of a region, of which the first one has all."""
    names = enumerate(_NAMED, 1) if query.get("region_ID") == "4" else ()
    return as_page(
        *(f'<li data-sml-id="{at}" continentid="{at}"><i>{n}</i></li>' for at, n in names)
    )


def _pairs(query: Query, rng: Luck) -> Reply:
    """Links to the pairs of a currency."""
    one = [*_NAMED.values()][int(query.get("currency_ID", "1")) - 1]
    links = [
        f'<a href="/currencies/{one.lower()}-{other.lower()}" title="{one} {other}"></a>'
        for other in _UNITS
        if other != one
    ]
    return as_page(*links)


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


# --- spot prices ---------------------------------------------------------------------------------

_GOODS = {
    "螺纹钢": "RB", "黄金": "AU", "铜": "CU", "白银": "AG", "铁矿石": "I", "豆粕": "M", "豆一": "A",
    "PTA": "TA", "甲醇MA": "MA", "棕榈油": "P", "豆油": "Y", "玉米": "C", "锌": "ZN", "铝": "AL",
}  # fmt: skip


def _goods(world: World, code: str, days: Sequence[date]) -> list[tuple[float, float]]:
    """The spot price of a product by day, with the main contract's."""
    keys = (derivatives.spot_of(code), f"future:{code}0")
    return [(world.close(keys[0], day), world.close(keys[1], day)) for day in days]


def _nearest(world: World, code: str, day: date) -> float:
    """The price of the nearest contract of a product."""
    month, _ = derivatives.months(code, day)[0]
    return world.close(f"future:{code}{month}", day)


def _spot_index(query: Query, rng: Luck) -> Reply:
    """The products of which there is a page."""
    links = (f'<li><a href="/sf/{9000 + at}.html">{n}</a></li>' for at, n in enumerate(_GOODS))
    return as_page(f'<div class="q8"><ul>{"".join(links)}</ul></div>')


def _spot_product(query: Query, rng: Luck) -> Reply:
    """The last days of one product: prices, basis by price, and basis."""
    code = [*_GOODS.values()][int(rng.path[-8:-5]) % len(_GOODS)]
    days = rng.world.days("CN")[-30:]
    columns = [
        (spot, main, _nearest(rng.world, code, day))
        for day, (spot, main) in zip(days, _goods(rng.world, code, days), strict=True)
    ]
    head = ["日期", *(f"{day:%m-%d}" for day in days)]
    prices = zip(*columns, strict=True)
    names = ("现货价格", "主力合约", "最近合约")
    one: list[Sequence[object]] = [head, *([n, *row] for n, row in zip(names, prices, strict=True))]
    two: list[Sequence[object]] = [
        head,
        ["基差率", *(f"{(spot - main) / spot * 100:.2f}%" for spot, main, _ in columns)],
    ]
    three: list[Sequence[object]] = [
        head,
        ["主力基差", *(round(spot - main, 2) for spot, main, _ in columns)],
    ]
    return as_page(html_table([["-"]]), *(html_table(rows) for rows in (one, two, three)))


def _bases(query: Query, rng: Luck) -> Reply:
    """A page that compares spot prices and main contracts of one day, and half a year's bases."""
    days = bar_days(rng.world, None, read_day(rng.path[-15:-5]) or rng.world.now, 125)
    above = ["商品", "现货价格", "主力合约", "主力合约", "主力合约基差", *["180日内主力基差"] * 3]
    below = [*above[:2], "代码", "价格", above[4], "最高", "最低", "平均"]
    lines = ["".join(f"<td>{name}</td>" for name in head) for head in (above, below)]
    for name, code in _GOODS.items():
        known = _goods(rng.world, code, days)
        bases = [round(spot - main, 2) for spot, main in known]
        spot, main = known[-1]
        now = html_table([[bases[-1], f"{bases[-1] / spot * 100:.2f}%"]])
        rest = (max(bases), min(bases), round(sum(bases) / len(bases), 2))
        cells = (name, spot, f"{code}{derivatives.main_month(code, days[-1])}", main, now, *rest)
        lines.append("".join(f"<td>{cell}</td>" for cell in cells))
    table = "".join(f"<tr>{line}</tr>" for line in lines)
    return as_page(html_table([["-"]]), f"<table>{table}</table>", html_table([["-"]]))


_SECTORS = {
    "能源": {"原油": "SC"}, "化工": {"PTA": "TA", "甲醇MA": "MA"}, "塑料": {"聚丙烯": "PP"},
    "纺织": {"棉花": "CF"}, "有色": {"铜": "CU", "铝": "AL", "锌": "ZN"},
    "钢铁": {"螺纹钢": "RB", "铁矿石": "I"}, "建材": {"玻璃": "FG"},
    "农副": {"豆一": "A", "豆粕": "M", "豆油": "Y", "棕榈油": "P", "玉米": "C"},
}  # fmt: skip
_MAKERS = {"能源": "石油行业", "有色": "有色金属", "建材": "工程建设", "农副": "农牧饲渔"}
"""The industries that make the goods of a sector; chemicals if none is named."""


def _spot_shares(query: Query, rng: Luck) -> Reply:
    """A script with the spot prices of the last days by sector, and who makes and uses a good."""
    days = rng.world.days("CN")[-125:]
    sectors = list[Row]()
    for sector, goods in _SECTORS.items():
        rows = list[Row]()
        for name, code in goods.items():
            prices = [spot for spot, _ in _goods(rng.world, code, days)]
            row = {"name": name} | {f"p{n}": price for n, price in enumerate(prices[-6:-1])}
            row |= {"price": prices[-1], "zdf": round((prices[-1] / prices[0] - 1) * 100, 2)}
            industry = _MAKERS.get(sector, "化学制品")
            makers = [{"name": one.name} for one in CHINA if INDUSTRIES[one.code] == industry]
            rows.append({**row, "scss": makers, "xyyhs": []})
        sectors.append({"name": sector, "list": rows})
    data = {"dates": {f"d{n}": str(day) for n, day in enumerate(days[-6:-1])}, "datas": sectors}
    text = to_json(data)
    script = "/newstatic/js/common/emdataview.js"
    return as_page(
        f'<script>pagedata= {text};\n        </script>\n        <script src="{script}"></script>'
    )


def _metals(query: Query, rng: Luck) -> Sequence[Row]:
    """The gold or silver in the stores of New York's exchange by day, newest first."""
    number, days = asked(query, "INDICATOR_ID1"), bar_days(rng.world, most=750)
    level = 900.0 if number == "EMI00069026" else 9_000.0
    tons = rng.world.series(f"store {number}", days, level, 0.004)
    return [
        {"REPORT_DATE": f"{day} 00:00:00", "INDICATOR_NAME": "", "INDICATOR_ID1": number}
        | {"STORAGE_TON": round(ton, 2), "STORAGE_OUNCE": round(round(ton, 2) * 32150.7466, 2)}
        for day, ton in zip(days, tons, strict=True)
    ][::-1]


def _hogs(query: Query, rng: Luck) -> Reply:
    """Prices of hogs and feed by day; those of feed are the spot prices of the exchange's goods."""
    kind, days = query.get("ptype", "1"), rng.world.days("CN")[-365:]
    if rng.path.endswith("getzhujiahitsdata"):
        if kind in {"4", "5"}:
            values = [one[0] for one in _goods(rng.world, "C" if kind == "4" else "M", days)]
        else:
            values = rng.world.series(f"hogs {kind}", days, 15.2 - int(kind) * 0.3, 0.008)
        return as_json({"data": [[f"{v:.2f}", str(d)] for v, d in zip(values, days, strict=True)]})
    if kind in {"5", "6", "7"}:
        columns = range(3 if kind == "6" else 4)
        walks = [rng.world.series(f"hogs {kind}{n}", days[::30], 3000, 0.01) for n in columns]
        rows = zip(days[::30], *walks, strict=True)
        return as_json({"data": [[f"{m:%Y%m}", *(round(v, 2) for v in vs)] for m, *vs in rows]})
    walk = zip(days, rng.world.series(f"hogs of {kind}", days, 24.0, 0.008), strict=True)
    if kind == "9":
        return as_json({"data": [{"date": str(d), "benzhou": round(v, 2)} for d, v in walk]})
    middle = [kind] if kind in {"3", "10"} else []
    return as_json({"data": [[str(day), *middle, round(value, 2)] for day, value in walk]})


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


# --- released figures ----------------------------------------------------------------------------


def _houses(query: Query, rng: Luck) -> Sequence[Row]:
    """House prices of two cities by month, on the year, on the month and by their base."""
    found = query.get("filter", "").partition("in (")[2].rstrip(")").replace('"', "")
    rows = list[Row]()
    for city in dict.fromkeys(found.split(",")):
        new, used = (figures(rng.world, "CN", name, city) for name in ("house", "used"))
        for a, b in zip(new, used, strict=True):
            if a.yoy is None or b.yoy is None:
                continue
            rows.append(
                {"REPORT_DATE": f"{a.period:%Y-%m}-01 00:00:00", "CITY": city}
                | {"FIRST_COMHOUSE_SAME": round(100 + a.yoy, 2)}
                | {"FIRST_COMHOUSE_SEQUENTIAL": round(100 + (a.mom or 0.0), 2)}
                | {"FIRST_COMHOUSE_BASE": a.value, "SECOND_HOUSE_SAME": round(100 + b.yoy, 2)}
                | {"SECOND_HOUSE_SEQUENTIAL": round(100 + (b.mom or 0.0), 2)}
                | {"SECOND_HOUSE_BASE": b.value, "REPORT_DAY": f"{a.released} 00:00:00"}
            )
    return sorted(rows, key=lambda row: str(row["REPORT_DATE"]), reverse=True)


def _calendar(query: Query, rng: Luck) -> Reply:
    """The releases of a day: actual, expected and previous value."""
    start = int(query.get("start", "0"))
    day = datetime.fromtimestamp(start + 8 * 3600, UTC).date()
    rows = list[Row]()
    for at, one in enumerate(events(rng.world, day, day)):
        rows.append(
            {"id": at, "public_date": start + 3600 * (8 + at % 14), "importance": 1 + at % 3}
            | {"country": COUNTRIES[one.country], "title": one.title, "actual": str(one.actual)}
            | {"forecast": str(one.expected), "previous": str(one.previous)}
            | {"revised": str(one.previous)}
            | {"uri": f"https://wallstreetcn.com/calendar/{day:%Y%m%d}{at}"}
        )
    return as_json({"code": 20000, "message": "OK", "data": {"items": rows}})


_STATISTICS: Mapping[tuple[str, str], tuple[tuple[str, str, str], ...]] = {
    ("3", "人口 > 总人口"): (("年末总人口(万人)", "population", ""),),
    ("3", "国民经济核算 > 国内生产总值"): (("国内生产总值(亿元)", "GDP", "累计"),),
    ("3", "人民生活 > 居民人均可支配收入"): (("居民人均可支配收入(元)", "income", "累计"),),
    ("6", "国民经济核算 > 地区生产总值"): (("地区生产总值(亿元)", "GDP", "累计"),),
    ("6", "人民生活 > 居民人均可支配收入"): (("居民人均可支配收入(元)", "income", "累计"),),
    ("5", "国民经济核算 > 地区生产总值"): (("地区生产总值_累计值(亿元)", "GDP", "累计"),),
    ("1", "价格指数 > 居民消费价格指数"): (
        ("居民消费价格指数_同比增长(%)", "CPI", "同比"),
        ("居民消费价格指数_环比增长(%)", "CPI", "环比"),
    ),
    ("1", "价格指数 > 工业生产者出厂价格指数"): (
        ("工业生产者出厂价格指数_同比增长(%)", "PPI", "同比"),
    ),
    ("1", "金融 > 货币供应量"): tuple(
        (f"{text}_{way or '期末值'}{unit}", name, way[:2])
        for text, name in (("货币和准货币(M2)供应量", "M2"), ("货币(M1)供应量", "M1"))
        for way, unit in (("", "(亿元)"), ("同比增长", "(%)"))
    ),
    ("1", "国内贸易 > 社会消费品零售总额"): (
        ("社会消费品零售总额_当期值(亿元)", "retail", ""),
        ("社会消费品零售总额_同比增长(%)", "retail", "同比"),
    ),
    ("2", "国民经济核算 > 国内生产总值"): (
        ("国内生产总值_当期值(亿元)", "GDP", ""),
        ("国内生产总值_同比增长(%)", "GDP", "同比"),
    ),
    ("5", "人民生活 > 居民人均可支配收入"): (
        ("居民人均可支配收入_累计值(元)", "income", "累计"),
        ("居民人均可支配收入_累计增长(%)", "income", "累计增长"),
    ),
}
"""Indicators by the number of a sort of data and a path: name, figure, and what is told of it."""

_PROVINCES = """
北京市 天津市 河北省 山西省 内蒙古自治区 辽宁省 吉林省 黑龙江省 上海市 江苏省 浙江省 安徽省
福建省 江西省 山东省 河南省 湖北省 湖南省 广东省 广西壮族自治区 海南省 重庆市 四川省 贵州省
云南省 西藏自治区 陕西省 甘肃省 青海省 宁夏回族自治区 新疆维吾尔自治区
"""
_MONTHS = {"2": 3, "3": 12, "5": 3, "6": 12}
"""The months of a period by the number of a sort of data; one for others."""


def _empty(query: Query, rng: Luck) -> Reply:
    """A page that is asked for its cookies."""
    return as_page()


def _tree(query: Query, rng: Luck) -> Reply:
    """The nodes below one of the statistics office's catalogue. A node is named by its path."""
    code, pid = query.get("code", "1"), query.get("pid", "")
    if not pid:
        return as_json({"data": [{"_id": f"{code}/", "name": "root"}]})
    above = [part for part in pid.partition("/")[2].split(" > ") if part]
    paths = [path.split(" > ") for number, path in _STATISTICS if number == code]
    below = [p for p in paths if p[: len(above)] == above and len(p) > len(above)]
    names = dict.fromkeys(path[len(above)] for path in below)
    rows = [{"_id": f"{code}/{' > '.join([*above, name])}", "name": name} for name in names]
    return as_json({"data": rows})


def _indicators(cid: str) -> tuple[tuple[str, str, str], ...]:
    code, _, path = cid.partition("/")
    return _STATISTICS.get((code, path), ())


def _indicator_list(query: Query, rng: Luck) -> Reply:
    found = enumerate(_indicators(query.get("cid", "")))
    rows = [{"_id": str(at), "i_showname": name.replace("_", "")} for at, (name, *_) in found]
    return as_json({"data": {"list": rows}})


def _areas(query: Query, rng: Luck) -> Reply:
    return as_json({"data": [{"_id": "all", "name": "全部地区"}]})


def _provinces(query: Query, rng: Luck) -> Reply:
    places = enumerate(_PROVINCES.split(), 11)
    rows = [{"show_name": name, "name_value": f"{at}0000000000"} for at, name in places]
    return as_json({"data": rows})


def _statistics(query: Query, rng: Luck) -> Reply:
    """Figures of the statistics office by period, newest first. A range after them all has the
    last ten: AkShare counts the last periods by its own clock, which may be ahead of the world's.
    """
    cid = query.get("cid", "")
    known, months = _indicators(cid), _MONTHS.get(cid[:1], 1)
    wanted: list[str] = orjson.loads(query.get("indicatorIds", "[]"))
    places: list[dict[str, str]] = orjson.loads(query.get("das", "[]"))
    spans: list[str] = orjson.loads(query.get("dts", "[]"))
    first, _, last = spans[0].partition("-") if spans else ("", "", "")
    found = dict[date, list[Row]]()
    for place in places:
        where = "" if place["text"] == "全国" else place["text"]
        for title, name, way in (known[int(number)] for number in wanted):
            for one in figures(rng.world, "CN", name, where):
                if one.period.month % months:
                    continue
                value = {"i_showname": title.replace("_", ""), "da_name": place["text"]}
                told = one.told(way)
                row = {**value, "area": place["text"], "value": "" if told is None else str(told)}
                found.setdefault(one.period, []).append(row)
    every = {_period(period, months): found[period] for period in sorted(found, reverse=True)}
    rows = [{"code": code, "name": name, "values": told} for (code, name), told in every.items()]
    if last:
        inside = [row for row in rows if first <= str(row["code"]) <= last]
        return as_json({"data": inside or rows[:10]})
    if len(spans) == 2 and spans[0][4:6] == "01" and spans[1][4:6] in {"04", "12"}:
        return as_json({"data": [r for r in rows if spans[0] <= str(r["code"]) <= spans[1]]})
    return as_json({"data": [row for row in rows if not spans or row["code"] in spans]})


def _period(day: date, months: int) -> tuple[str, str]:
    """The code and the name of a period by its last day."""
    if months == 12:
        return f"{day.year}YY", f"{day.year}年"
    quarter = day.month // 3
    if months == 3:
        return f"{day.year}{quarter:02}SS", f"{day.year}年第{'一二三四'[quarter - 1]}季度"
    return f"{day:%Y%m}MM", f"{day.year}年{day.month}月"


# --- indexes of trades and freight ---------------------------------------------------------------


def _freight_boxes(query: Query, rng: Luck) -> Reply:
    """A page whose fourth script from the end has the container freight rates of eight routes."""
    days = [day for day in rng.world.days("ALL")[-1460:] if day.weekday() == 3]
    tables = list[list[list[object]]]()
    for route in range(8):
        rates = rng.world.series(f"container {route}", days, 1500 + 400 * route, 0.02)
        rows: list[list[object]] = [["", "USD"]]
        rows += [
            [{"value": f"{day:%d-%b-%y}"}, {"value": str(round(rate))}]
            for day, rate in zip(days, rates, strict=True)
        ]
        tables.append(rows)
    inner = {"entities": {"7a55585f-3fb3-44e6-9b54-beea1cd20b4d": {"data": tables}}}
    data = {"elements": {"content": {"content": inner}}}
    text = f"window.infographicData={to_json(data)};"
    return as_page(f"<script>{text}</script>", "<script></script>" * 3)


def _fashion(query: Query, rng: Luck) -> Reply:
    """A fashion index of Keqiao by month."""
    code = query.get("structCode", "root")
    days = [one.period for one in figures(rng.world, "CN", "retail")]
    walk = rng.world.series(f"fashion {code}", days, 105, 0.02)
    rows = [
        {"id": at, "indexValue": round(value, 2), "lastValue": None, "projId": 34}
        | {"publishTime": f"{day} 00:00:00", "sameValue": None, "stageId": at}
        | {"structCode": code, "structName": code, "version": 1}
        for at, (day, value) in enumerate(zip(days, walk, strict=True))
    ]
    return as_json({"code": 200, "data": rows})


def _cloth(query: Query, rng: Luck) -> Reply:
    """The price, activity or trade index of Keqiao's textile market on one page."""
    kind = query.get("indexType", "1_1")
    days = [one.period for one in figures(rng.world, "CN", "retail")][::-1]
    names = {"1_1": ("index",), "1_2": ("index", "trade", "made"), "2": ("price", "mood")}[kind]
    walks = {n: rng.world.series(f"cloth {kind} {n}", days, 104, 0.01) for n in names}
    rows = list[Row]()
    for at, day in enumerate(days[:-1]):
        row: dict[str, object] = {"time": f"{day}" if kind == "1_1" else f"{day:%Y-%m}"}
        for number, (name, walk) in enumerate(walks.items()):
            row[name] = f"{walk[at]:.2f}"
            if number == 0 or kind == "2":
                row[f"{name}Change"] = f"{(walk[at] / walk[at + 1] - 1) * 100:.2f}"
        rows.append(row)
    return as_json({"page": 1, "result": rows})


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


_YIWU = "/yiwuindex/v1/active/industry/class/history"


_PRICES = [
    f"{kind}priceindex" for kind in ["total", "stockdeal", "netdeal", "orderdeal", "outdeal"]
]


# --- registers -----------------------------------------------------------------------------------


def _rich(query: Query, rng: Luck) -> Reply:
    """A page on the richest of a year: each has a twentieth of what a company is worth."""
    year = 2000 + int(rng.path[-10:-8])
    ends = [min(date(year - n, 12, 31), rng.world.now) for n in (0, 1)]
    rows = list[tuple[float, float, str]]()
    for one in (one for one in LISTED.values() if one.kind == "share" and one.exchange == "US"):
        now, before = (rng.world.close(one.key, day) * one.shares / 20e9 for day in ends)
        rows.append((round(now, 1), round(now - before, 1), one.name))
    rows.sort(reverse=True)
    head = ["Rank", "Name", "Age", "Citizenship", "Net Worth(bil US$)", "$ Last change"]
    table: list[Sequence[object]] = [["Billionaires"], [*head, "$ YTD change", "Industry"]]
    for at, (worth, gain, name) in enumerate(rows, 1):
        age = 40 + int(50 * rng.world.luck("age", name))
        owner = f"Founder of {name}"
        table.append([at, owner, age, "United States", worth, "0.0", gain, "Shares"])
    return as_page(html_table(table))


def _private_funds(query: Query, rng: Luck) -> Reply:
    """A page of registered private funds; there are two pages."""
    page, rows = int(query.get("page", "0")), list[Row]()
    for number in range(20):
        at = 20 * page + number
        day = date(2016, 1, 4) + timedelta(37 * at)
        owner = CHINA[at % len(CHINA)].name
        rows.append(
            {"fundName": f"{owner}{at + 1}号私募证券投资基金", "managerName": f"{owner}私募基金"}
            | {"managerType": "受托管理", "workingState": "正在运作", "mandatorName": "招商银行"}
            | {"putOnRecordDate": f"{day}", "establishDate": f"{day - timedelta(9)}"}
        )
    return as_json({"content": rows, "totalElements": 40, "totalPages": 2})


def _penalties(query: Query, rng: Luck) -> Reply:
    """A page that lists penalties on banks: one."""
    at = int(query.get("pageIndex", "1"))
    row = {"docId": 1_100_000 - at, "docSubtitle": "行政处罚信息公开表", "docTitle": "行政处罚"}
    row |= {"publishDate": str(rng.world.now - timedelta(7 * at)), "docFileUrl": ""}
    return as_json({"data": {"total": 90, "rows": [row | {"generaltype": "0"}]}})


def _penalty(query: Query, rng: Luck) -> Reply:
    """A penalty as a table of names and values."""
    number = int(rng.path.partition("=")[2].removesuffix(".json"))
    at = 1_100_000 - number
    day = rng.world.now - timedelta(7 * at)
    bank = f"模拟{at}银行"
    cells = {"行政处罚决定书文号": f"金罚决字〔{day.year}〕{at}号", "被处罚当事人": f"{bank}支行"}
    cells |= {"单位名称": bank, "主要负责人": "-", "主要违法违规事实": "贷款管理不到位"}
    cells |= {"行政处罚依据": "《中华人民共和国银行业监督管理法》第四十六条"}
    fine = 10 + int(90 * rng.world.luck("fine", number))
    cells |= {"行政处罚决定": f"罚款{fine}万元", "作出处罚决定的机关名称": "国家金融监督管理总局"}
    table = html_table([*(cells | {"作出处罚决定的日期": str(day - timedelta(5))}).items()])
    return as_json({"data": {"docClob": table, "publishDate": str(day)}})


_PPI = "www.100ppi.com"
_DATA = "/dg/website/publicrelease/web/external"

REPORTS: Mapping[str, Callable[[Query, Luck], Sequence[Row]]] = {
    "RPT_ECONOMY_HOUSE_PRICE": _houses,
    "RPT_FUTUOPT_GOLDSIL": _metals,
}
"""The reports of Eastmoney's data centre."""

MACRO: Mapping[tuple[str, str], Payload] = {
    ("biz.finance.sina.com.cn", "/forex/forex.php"): _boc_quotes,
    ("finance.pae.baidu.com", "/api/getforeignrank"): _currency_rank,
    ("datacenter-api.jin10.com", "/reports/list"): _reports,
    ("datacenter-api.jin10.com", "/sentiment/datas"): _sentiment,
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
    **{
        ("api.currencyscoop.com", f"/v1/{name}"): _scoop
        for name in ("latest", "historical", "timeseries", "currencies", "convert")
    },
    ("cn.investing.com", "/currencies/Service/region"): _regions,
    ("cn.investing.com", "/currencies/Service/currency"): _pairs,
    (_PPI, "/sf2/day-*.html"): _bases,
    ("data.eastmoney.com", "/ifdata/xhgp.html"): _spot_shares,
    (_PPI, "/sf/792.html"): _spot_index,
    **{(_PPI, f"/sf/{9000 + at}.html"): _spot_product for at in range(len(_GOODS))},
    ("xt.yangzhu.vip", "/data/getzhujiahitsdata"): _hogs,
    ("xt.yangzhu.vip", "/data/getmapdata"): _hogs,
    ("api-one-wscn.awtmt.com", "/apiv1/finance/macrodatas"): _calendar,
    ("data.stats.gov.cn", f"{_DATA}/new/queryIndexTreeAsync"): _tree,
    ("data.stats.gov.cn", f"{_DATA}/new/queryIndicatorsByCid"): _indicator_list,
    ("data.stats.gov.cn", f"{_DATA}/getDaCatalogTreeByIndicatorCid"): _areas,
    ("data.stats.gov.cn", f"{_DATA}/getDasByDaCatalogId"): _provinces,
    ("data.stats.gov.cn", f"{_DATA}/stream/esData"): _statistics,
    ("data.stats.gov.cn", "/dg/website/page.html"): _empty,
    ("stats.areppim.com", "/listes/*xwor.htm"): _rich,
    ("gs.amac.org.cn", "/amac-infodisc/api/pof/fund"): _private_funds,
    ("www.nfra.gov.cn", "/cbircweb/DocInfo/SelectDocByItemIdAndChild"): _penalties,
    ("www.nfra.gov.cn", "/cn/static/data/DocInfo/SelectByDocId/*.json"): _penalty,
    ("infogram.com", "/world-container-index-1h17493095xl4zj"): _freight_boxes,
    ("api.idx365.com", "/index/project/34/data"): _fashion,
    ("www.kqindex.cn", "/flzs/table_data"): _cloth,
}

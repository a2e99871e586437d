"""Simulated lists of quotes of Eastmoney, and the quotes and histories of Sina.

Sina packs long histories into a stream of bits, six to a character of base64, the lowest bit first.
`packed` writes the form that Sina numbers 3466: each day's differences to the day before.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Final

import numpy as np

from adapters.simulator.akshare_eastmoney import minutes
from adapters.simulator.keys import key_of, key_of_index, key_of_symbol
from adapters.simulator.shapes import (
    Luck,
    Payload,
    Query,
    Reply,
    Row,
    as_json,
    as_text,
    bar_rows,
    script,
    to_json,
)
from adapters.simulator.world import companies
from adapters.simulator.world.instruments import BOARDS, CHINA, LISTED, Instrument
from adapters.simulator.world.world import Bar, World

# --- Eastmoney's lists ---------------------------------------------------------------------------


def quote(world: World, key: str) -> dict[str, object]:
    """What a list says of an instrument at the close, by Eastmoney's numbers of the fields."""
    one, bar = world.instrument(key), world.latest(key, 1)[-1]
    known = companies.valuation(world, key)
    income = companies.statements(world, key)[-1].total["net_profit"] if known else "-"
    year = world.close(key, date(world.now.year - 1, 12, 31))
    days = world.history(key).days
    then = world.close(key, days[max(len(days) - 61, 0)])
    worth = bar.close * one.shares
    market = {"sh": 1, "sz": 0, "hk": 116, "us": 105, "bk": 90}.get(key[:2], 0)
    found: dict[str, object] = {
        "f1": 2, "f2": bar.close, "f3": round(bar.change, 2),
        "f4": round(bar.close - bar.before, one.digits), "f5": bar.volume,
        "f6": round(world.paid(key, [bar])[0], 2),
        "f7": round((bar.high - bar.low) / bar.before * 100, 2),
        "f8": round(companies.turnover(one, bar.volume), 2),
        "f9": known.earnings if known else "-", "f10": 1.0, "f11": 0.0, "f12": one.code,
        "f13": market, "f14": one.name, "f15": bar.high, "f16": bar.low, "f17": bar.open,
        "f18": bar.before, "f20": round(worth), "f21": round(worth * companies.FREE), "f22": 0.0,
        "f23": known.book if known else "-", "f24": round((bar.close / then - 1) * 100, 2),
        "f25": round((bar.close / year - 1) * 100, 2), "f33": 0.0, "f45": income,
        "f62": 0.0, "f115": known.earnings if known else "-", "f128": "-", "f140": "-", "f136": "-",
        "f152": 2,
    }  # fmt: skip
    if one.kind == "index" and one.members and key.startswith("bk:"):
        found |= _board(world, one)
    return found


def _board(world: World, one: Instrument) -> dict[str, object]:
    """What a list says of a board's members: their worth, how many rose, and which rose most."""
    bars = {member: world.latest(member, 1)[-1] for member in one.members}
    best = max(bars, key=lambda member: bars[member].change)
    worth = sum(bar.close * LISTED[member].shares for member, bar in bars.items())
    rose = sum(bar.close > bar.before for bar in bars.values())
    fell = sum(bar.close < bar.before for bar in bars.values())
    lead = LISTED[best]
    return {
        "f20": round(worth), "f21": round(worth * companies.FREE), "f104": rose, "f105": fell,
        "f128": lead.name, "f140": lead.code, "f136": round(bars[best].change, 2), "f141": 1,
        "f8": round(sum(bar.volume for bar in bars.values()) * 1e4
                    / sum(LISTED[member].shares for member in bars) / companies.FREE, 2),
    }  # fmt: skip


_FAMOUS: Final = {
    "0216": "AAPL MSFT GOOGL NVDA META IBM AMD INTC",
    "0217": "JPM V",
    "0218": "JNJ",
    "0219": "TSLA XOM",
    "0220": "NFLX DIS",
    "0221": "AMZN KO WMT PG BA",
}
"""Known shares of New York by Eastmoney's number of the list."""


def _asked(world: World, text: str) -> list[str]:
    """The keys of the instruments that a filter such as `m:90 t:2` names."""
    kind = text.replace("+", " ").split(" f:")[0].strip()
    if kind == "m:90 t:2":
        return [key for key in BOARDS if key >= "bk:BK1000"]
    if kind == "m:90 t:3":
        return [key for key in BOARDS if key < "bk:BK1000"]
    if kind.startswith("b:BK"):
        return list(world.instrument(f"bk:{kind[2:]}").members)
    if kind.startswith("b:MK0404"):
        return [
            f"sz{code}" for code in ("160105", "161725", "162411", "163402", "166009", "169101")
        ]
    if kind[:4] == "b:MK" and kind[4:] in _FAMOUS:
        return [f"us:{code}" for code in _FAMOUS[kind[4:]].split()]
    indices = [key for key, one in LISTED.items() if one.kind == "index" and one.exchange == "CN"]
    if kind == "m:1 t:1":
        return [key for key in indices if key.startswith("sh")]
    if kind == "m:0 t:5":
        return [key for key in indices if key.startswith("sz")]
    if kind == "m:2":
        return [f"zz{code}" for code in ("930050", "930955", "931151", "932000")]
    if kind.startswith(("m:124", "m:125", "m:305")):
        return [f"ix:{code}" for code in ("HSTECF2L", "HSCEI", "HSTECH", "HSCCI")] + ["hkHSI"]
    return indices if kind.startswith(("b:MK0010", "m:1 s:3")) else [one.key for one in CHINA]


_OF_LEAD: Final = {"f140": 128.1, "f141": 128.2}
"""The code and the market of the share that leads a board, which follow its name."""


def _list(query: Query, rng: Luck) -> Reply:
    """All quotes of a list on one page, the fields in the order of their numbers."""
    wanted = set((query.get("fields") or "f12,f14,f2,f3").split(","))
    if "f128" in wanted:
        wanted |= _OF_LEAD.keys()
    order = sorted(wanted, key=lambda field: _OF_LEAD.get(field) or float(field[1:]))
    rows = list[Row]()
    for key in _asked(rng.world, query.get("fs", "")):
        known = quote(rng.world, key)
        if key.startswith("ix:") or key == "hkHSI":
            known |= {"f13": 124}
        rows.append({field: known.get(field, "-") for field in order})
    listed: object = rows
    if query.get("np") == "2":
        listed = {str(place): row for place, row in enumerate(rows)}
    return as_json({"rc": 0, "rt": 6, "data": {"total": len(rows), "diff": listed}})


def _board_quote(query: Query, rng: Luck) -> Reply:
    """The quote of one board: prices and percent in hundredths."""
    market, _, code = query.get("secid", "90.BK0500").partition(".")
    known = quote(rng.world, key_of(market, code))
    names = {"f43": "f2", "f44": "f15", "f45": "f16", "f46": "f17", "f168": "f8", "f169": "f4"}
    names |= {"f170": "f3", "f171": "f7"}
    scaled = {name: round(float(str(known[of])) * 100) for name, of in names.items()}
    data = {"f47": known["f5"], "f48": known["f6"], **scaled}
    order = sorted(data, key=lambda name: int(name[1:]))
    return as_json({"rc": 0, "rt": 4, "data": {name: data[name] for name in order}})


def _abroad(query: Query, rng: Luck) -> Reply:
    """Daily bars of one index abroad, oldest first."""
    key = key_of_index(query.get("symbol", "SWI20"))
    bars = rng.world.bars(key)[-int(query.get("num", "10000")) :]
    rows = bar_rows("d=date o=open:s h=high:s l=low:s c=close:s v=volume:s", rng.world, key, bars)
    return as_json({"result": {"status": {"code": 0}, "data": rows}})


def _ticks(query: Query, rng: Luck) -> Reply:
    """The trades of the last day as one server-sent event: time, price, lots, number, side."""
    market, _, code = query.get("secid", "0.000001").partition(".")
    lines = [
        f"{bar.day:%H:%M:%S},{bar.close:.2f},{bar.volume},1,{2 if bar.close >= bar.open else 1}"
        for bar in rng.world.minutes(key_of(market, code), _last(rng.world))
    ]
    body = as_json({"rc": 0, "data": {"prePrice": 0, "details": lines}}).body
    return Reply(b"data: " + body + b"\n\n", "text/event-stream; charset=utf-8")


def _last(world: World) -> date:
    return world.days("CN")[-1]


# --- Sina ----------------------------------------------------------------------------------------

_SIGNS: Final = np.frombuffer(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", dtype=np.uint8
)
_SINCE: Final = date(1990, 12, 19).toordinal()


def packed(
    bars: Sequence[Bar], paid: Sequence[float], digits: int, lot: int, *, has_before: bool = False
) -> str:
    """Daily bars as Sina packs them: prices of so many digits, volumes in shares, and amounts. The
    first day may have its previous close.
    """
    scale = 10**digits
    days = [bar.day.toordinal() for bar in bars]
    opened, high, low, close = (
        [round(getattr(bar, name) * scale) for bar in bars]
        for name in ("open", "high", "low", "close")
    )
    volumes = [bar.volume * lot for bar in bars]
    amounts = [round(amount) for amount in paid]
    before = round(bars[0].before * scale) if bars and has_before else 0
    columns = [
        [a - b for a, b in zip(opened, [before, *close], strict=False)],
        [a - b for a, b in zip(high, opened, strict=True)],
        [b - a for a, b in zip(low, opened, strict=True)],
        [a - b for a, b in zip(close, opened, strict=True)],
        [a - b for a, b in zip(volumes, [0, *volumes], strict=False)],
        [a - b for a, b in zip(amounts, [0, *amounts], strict=False)],
    ]
    columns[0].append(before)
    widths = [max(map(int.bit_length, map(abs, column)), default=1) // 3 + 1 for column in columns]
    bits = [_bits(3466, 12), _bits(63, 6)]
    for place, day in enumerate(days):
        if place == 0:  # no mean price is given, then the digits, the widths and the day
            bits += ["111", "11", "000", "0", _step(3 * (digits - 2)), "00", "1"]
            bits += [_step(w - d) for w, d in zip(widths, (3, 3, 3, 3, 5, 5), strict=True)]
            bits += ["1", _bits(1, 3), _bits(day - _SINCE, 18), "10" if has_before else "0"]
            bits += [_bits(before, 3 * widths[0])] if has_before else []
        elif day == days[place - 1] + (3 if (days[place - 1] - 1) % 7 == 4 else 1):
            bits.append("0")  # the next weekday
        else:
            bits += ["10111", _bits(1, 3), _bits(day - _SINCE, 18)]
        bits += [_bits(c[place], 3 * w) for c, w in zip(columns, widths, strict=True)]
    text = "".join([*bits, "11000"])
    text += "0" * (-len(text) % 6)
    places = (np.frombuffer(text.encode(), dtype=np.uint8) - 48).reshape(-1, 6)
    signs: bytes = _SIGNS[places @ np.array([1, 2, 4, 8, 16, 32])].tobytes()
    return signs.decode()


def _bits(number: int, width: int) -> str:
    """A number, negative ones as a complement, the lowest bit first."""
    return f"{number & (1 << width) - 1:0{width}b}"[::-1]


def _step(number: int) -> str:
    """By how much a setting changes: a bit that says whether, its sign, and as many bits."""
    if not number:
        return "0"
    return f"1{int(number > 0)}{'1' * (abs(number) - 1)}0"


def jsonp(call: str, content: object) -> Reply:
    """JSON as the argument of a call, after Sina's line against being embedded."""
    text = to_json(content)
    return script(f"/*<script>location.href='//sina.com';</script>*/\n{call}({text});")


def _history(key: str) -> Callable[[World], Reply]:
    def made(world: World) -> Reply:
        one = world.instrument(key)
        lot = 100 if one.exchange == "CN" else 1
        has_before = key.startswith(("sh900", "sz200"))
        bars, digits = world.bars(key), max(one.digits, 2)
        text = packed(bars, world.paid(key, bars), digits, lot, has_before=has_before)
        return script(f'var KLC_KL_{one.code}="{text}";')

    return made


def _a_history(query: Query, rng: Luck) -> Reply:
    return _history(key_of_symbol(rng.path.split("/")[3]))(rng.world)


def _us_history(query: Query, rng: Luck) -> Reply:
    return _history(key_of_symbol(rng.path.rsplit("/", 1)[-1]))(rng.world)


def _factors(query: Query, rng: Luck) -> Reply:
    """By what prices are multiplied (`hfq`) or divided (`qfq`), from each day on, newest first."""
    *_, symbol, name = rng.path.split("/")
    key = key_of_symbol(symbol)
    made = rng.world.history(key)
    by = made.factor if name.startswith("hfq") else made.factor[-1] / made.factor
    changed = [0, *(np.flatnonzero(np.diff(by)) + 1).tolist()]
    rows = [
        {"d": str(made.days[at]) if at else "1900-01-01", "f": f"{by[at]:.16f}"}
        for at in reversed(changed)
    ]
    if rng.world.instrument(key).kind == "fund":
        rows = [row | {"s": "1.0", "u": "0.0"} for row in rows]
    if key.startswith("hk"):
        rows = [row | {"c": "0.0"} for row in rows]
    text = to_json({"total": len(rows), "data": rows})
    return script(f"var {symbol}{name[:3]}={text}\n/* 模拟 */")


def _us_factors(query: Query, rng: Luck) -> Reply:
    symbol = rng.path.rsplit("/", 1)[-1].removesuffix("_qfq.js")
    made = rng.world.history(key_of_symbol(symbol))
    by = made.factor / made.factor[-1]
    ends = [*(np.flatnonzero(np.diff(by)) + 1).tolist(), len(by)]
    rows: list[Row] = [
        {"d": str(made.days[at]) if at < len(by) else str(rng.world.now), "f": f"{by[at - 1]:.16f}"}
        | {"c": "0.0"}
        for at in reversed(ends)
    ]
    rows.append({"d": "1900-01-01", "f": f"{by[0]:.16f}", "c": "0.0"})
    text = to_json({"total": len(rows), "data": rows})
    return script(f"var {symbol}_qfq={text}\n/* 模拟 */")


def _shares(query: Query, rng: Luck) -> Reply:
    """The shares that are traded, in units of ten thousand, by day."""
    one = rng.world.instrument(key_of_symbol(query.get("symbol", "sh600519")))
    amount = f"{(one.shares or 10**9) * companies.FREE / 1e4:.4f}"
    rows = [{"date": str(day), "amount": amount} for day in (rng.world.days("CN")[0],)]
    return jsonp(f"var KKE_ShareAmount_{one.key}=", rows)


def _minutes(query: Query, rng: Luck) -> Reply:
    """The last bars of so many minutes."""
    size, symbol = int(query.get("scale", "1")), query.get("symbol", "sh600519")
    key = key_of_symbol(symbol)
    bars = minutes(rng.world, key, size)[-int(query.get("datalen", "1970")) :]
    fields = "day=date open=open:.3f high=high:.3f low=low:.3f close=close:.3f volume=hundreds:d"
    return jsonp("=", bar_rows(f"{fields} amount=paid:.4f", rng.world, key, bars))


_STAR_SINCE: Final = date(2019, 7, 22)
"""The first day of the science board."""


def _star(query: Query, rng: Luck) -> Reply:
    """Daily bars of a share of the science board, with those of the trading after the close."""
    key = key_of_symbol(query.get("symbol", "sh688399"))
    bars = rng.world.bars(key, _STAR_SINCE)
    fields = "d=date o=open:.3f h=high:.3f l=low:.3f c=close:.3f v=hundreds:d"
    return jsonp(
        "var _kcb=",
        [
            {**row, "pv": str(bar.volume // 50), "e": f"{bar.volume // 50 * bar.close:.0f}"}
            for row, bar in zip(bar_rows(fields, rng.world, key, bars), bars, strict=True)
        ],
    )


def _fields(one: Instrument, bar: Bar, paid: float) -> list[object]:
    """The fields of a quote of a share or a fund of Shanghai or Shenzhen."""
    lot, tick = 100, 10.0**-one.digits
    book = [
        cell
        for step in range(5)
        for cell in (100 * (step + 1), f"{bar.close - tick * (step + 1):.3f}")
    ]
    offers = [
        cell
        for step in range(5)
        for cell in (100 * (step + 1), f"{bar.close + tick * (step + 1):.3f}")
    ]
    prices = [f"{p:.3f}" for p in (bar.open, bar.before, bar.close, bar.high, bar.low)]
    head = [one.name, *prices, book[1], offers[1], bar.volume * lot, f"{paid:.3f}"]
    return [*head, *book, *offers, str(bar.day), "15:00:00", "00", ""]


def quoted(values: Mapping[str, Sequence[object]]) -> Reply:
    """Quotes as scripts that assign texts to variables."""
    lines = (f'var hq_str_{name}="{",".join(map(str, cells))}";' for name, cells in values.items())
    return as_text("\n".join([*lines, ""]), charset="gbk")


def share_quote(world: World, symbol: str) -> Sequence[object]:
    """The quote of one share, fund or index by its symbol."""
    bars = world.latest(symbol, 1)
    return _fields(world.instrument(symbol), bars[-1], world.paid(symbol, bars)[-1])


def _fund_list(query: Query, rng: Luck) -> Reply:
    """Quotes of all funds of a kind that exchanges trade."""
    node = query.get("node", "etf_hq_fund")
    keys = {
        "etf_hq_fund": [
            k for k, one in LISTED.items() if (one.kind, one.exchange) == ("fund", "CN")
        ],
        "lof_hq_fund": _asked(rng.world, "b:MK0404"),
        "close_fund": ["sz184801", "sh505888", "sh501005"],
    }.get(node, [])
    more = ("ticktime", "code") if node == "close_fund" else ("ticktime", "code", "a", "b")
    rows = [_node_row(rng.world, key) | dict.fromkeys(more, "15:00:00") for key in keys]
    return script(f"IO.XSRV2.CallbackList['da_yPT46_Ll7K6WD']({to_json(rows)});")


def _node_row(world: World, key: str) -> dict[str, object]:
    one, bar = world.instrument(key), world.latest(key, 1)[-1]
    return {
        "symbol": key, "name": one.name, "trade": f"{bar.close:.3f}",
        "pricechange": round(bar.close - bar.before, 3), "changepercent": round(bar.change, 3),
        "buy": f"{bar.close:.3f}", "sell": f"{bar.close:.3f}", "settlement": f"{bar.before:.3f}",
        "open": f"{bar.open:.3f}", "high": f"{bar.high:.3f}", "low": f"{bar.low:.3f}",
        "volume": bar.volume * 100, "amount": round(bar.volume * 50 * (bar.open + bar.close)),
    }  # fmt: skip


_LIST = "/api/qt/clist/get"
_VIP = "/quotes_service/api"

QUOTES: Mapping[tuple[str, str], Payload] = {
    **{(f"{n}.push2.eastmoney.com", _LIST): _list for n in (2, 15, 17, 29, 33, 48, 69, 79)},
    ("91.push2.eastmoney.com", "/api/qt/stock/get"): _board_quote,
    ("70.push2.eastmoney.com", "/api/qt/stock/details/sse"): _ticks,
    ("finance.sina.com.cn", "/realstock/company/*/hisdata_klc2/klc_kl.js"): _a_history,
    ("finance.sina.com.cn", "/realstock/company/*/hisdata/klc_kl.js"): _a_history,
    ("finance.sina.com.cn", "/realstock/company/*/hfq.js"): _factors,
    ("finance.sina.com.cn", "/realstock/company/*/qfq.js"): _factors,
    ("finance.sina.com.cn", "/stock/hkstock/*/klc2_kl.js"): _a_history,
    ("finance.sina.com.cn", "/stock/hkstock/*/hfq.js"): _factors,
    ("finance.sina.com.cn", "/stock/hkstock/*/qfq.js"): _factors,
    ("gi.finance.sina.com.cn", "/hq/daily"): _abroad,
    ("finance.sina.com.cn", "/staticdata/us/*"): _us_history,
    ("finance.sina.com.cn", "/us_stock/company/reinstatement/*"): _us_factors,
    ("stock.finance.sina.com.cn", "/stock/api/jsonp.php/*/StockService.getAmountBySymbol"): _shares,
    ("quotes.sina.cn", "/cn/api/jsonp_v2.php/*/CN_MarketDataService.getKLineData"): _minutes,
    ("quotes.sina.cn", "/cn/api/jsonp.php/*/KC_MarketDataService.getKLineData"): _star,
    ("vip.stock.finance.sina.com.cn", f"{_VIP}/jsonp.php/*/Market_Center.getHQNodeDataSimple"): (
        _fund_list
    ),
}

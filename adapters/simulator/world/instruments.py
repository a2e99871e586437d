"""The instruments of the world: real codes and names, made-up prices.

A key names an instrument: an exchange and a code (`sh600519`, `hk00700`, `us:AAPL`), or a class and
a code (`coin:BTC`, `fx:EUR`, `future:RB`). Codes that are not listed here exist too: they get a
level by their class.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from adapters.simulator.world.calendar import Exchange

Kind = Literal["share", "index", "fund", "coin", "currency", "future", "option", "bond"]


@dataclass(frozen=True, slots=True)
class Instrument:
    """`level` is the price at the start of 2024, `volatility` that of a day, `beta` how much of the
    market's return is in its own, `digits` the decimals of its price, `shares` those issued.
    """

    key: str
    code: str
    name: str
    kind: Kind
    exchange: Exchange
    level: float
    volatility: float = 0.018
    beta: float = 1.0
    digits: int = 2
    shares: int = 0
    members: tuple[str, ...] = ()
    limit: float | None = None
    """The greatest change of a day, as exchanges set it."""


# Code, name, price and shares issued (hundred millions) at about the start of 2024.
_CHINA: Final = """
600519 贵州茅台 1700 12.6;601398 工商银行 4.8 3564;600036 招商银行 27.8 252
601318 中国平安 40.3 182;600900 长江电力 23.3 245;601857 中国石油 7.1 1830
600028 中国石化 5.6 1199;601288 农业银行 3.6 3500;601988 中国银行 4 2944;600276 恒瑞医药 45.2 63.8
600030 中信证券 20.4 148;601012 隆基绿能 22.9 75.8;600887 伊利股份 26.7 63.7
603259 药明康德 72.8 29.7;600809 山西汾酒 231 12.2;601888 中国中免 83.7 20.7
600309 万华化学 76.8 31.4;601166 兴业银行 16.2 208;600000 浦发银行 6.6 294;601668 中国建筑 4.8 419
601899 紫金矿业 12.5 263;600031 三一重工 13.8 85;688981 中芯国际 53 79.5;688111 金山办公 316 4.6
000001 平安银行 9.4 194;000002 万科A 10.5 119;000333 美的集团 54.6 70.3;000651 格力电器 32.2 56.3
000858 五粮液 140 38.8;000725 京东方A 3.9 377;002415 海康威视 34.7 93.3;002594 比亚迪 198 29.1
002475 立讯精密 34.4 71.8;002714 牧原股份 41.2 54.7;000568 泸州老窖 179 14.7
002304 洋河股份 110 15.1;300750 宁德时代 163 44;300059 东方财富 14 158.6;300760 迈瑞医疗 291 12.1
300015 爱尔眼科 15.8 93.3;300274 阳光电源 87.6 14.9;002230 科大讯飞 46.4 23.2
000063 中兴通讯 26.5 47.8;002352 顺丰控股 40.4 49
"""
INDUSTRIES: Final[Mapping[str, str]] = {
    code: industry
    for industry, codes in {
        "银行": "601398 600036 601288 601988 601166 600000 000001",
        "酿酒行业": "600519 600809 000858 000568 002304",
        "食品饮料": "600887",
        "保险": "601318",
        "证券": "600030 300059",
        "电力行业": "600900",
        "石油行业": "601857 600028",
        "化学制药": "600276",
        "医疗服务": "603259 300015",
        "医疗器械": "300760",
        "光伏设备": "601012 300274",
        "电池": "300750",
        "旅游酒店": "601888",
        "化学制品": "600309",
        "工程建设": "601668",
        "工程机械": "600031",
        "有色金属": "601899",
        "半导体": "688981",
        "软件开发": "688111 002230",
        "计算机设备": "002415",
        "通信设备": "000063",
        "消费电子": "002475",
        "光学光电子": "000725",
        "家电行业": "000333 000651",
        "汽车整车": "002594",
        "房地产开发": "000002",
        "农牧饲渔": "002714",
        "物流行业": "002352",
    }.items()
    for code in codes.split()
}
"""The industries of the listed shares of Shanghai and Shenzhen, by code."""

_HONG_KONG: Final = """
00700 腾讯控股 294 95;09988 阿里巴巴-W 75.6 203;03690 美团-W 82 62;00941 中国移动 64.8 214
00005 汇丰控股 63 193;00388 香港交易所 268 12.7;01299 友邦保险 68 114;00939 建设银行 4.7 2504
01810 小米集团-W 15.6 250;02318 中国平安 35.4 182;00883 中国海洋石油 13 476
01211 比亚迪股份 214 29
"""
_STATES: Final = """
AAPL Apple 185 155;MSFT Microsoft 371 74;GOOGL Alphabet 138 125;AMZN Amazon 150 103
NVDA NVIDIA 48 247;META Meta_Platforms 346 25.7;TSLA Tesla 248 31.8;JPM JPMorgan_Chase 172 28.9
V Visa 259 20.3;KO Coca-Cola 59.8 43;JNJ Johnson_&_Johnson 159.7 24;WMT Walmart 53 80
IBM IBM 161 9.1;PG Procter_&_Gamble 147.7 23.5;XOM Exxon_Mobil 102 40;NFLX Netflix 468 4.4
AMD AMD 138 16.2;INTC Intel 47.8 42.3;DIS Disney 90.8 18.3;BA Boeing 251 6.1
"""
_COINS: Final = (
    "BTC 44200 0.030;ETH 2355 0.038;SOL 110 0.055;BNB 314 0.032;XRP 0.63 0.048;DOGE 0.092 0.055"
)
_DOLLARS: Final = """
USD 1;EUR 1.104;GBP 1.273;JPY 0.00704;CNY 0.1404;HKD 0.12805;AUD 0.681;CAD 0.755;CHF 1.189
NZD 0.632;SGD 0.758;SEK 0.0992;NOK 0.0984;DKK 0.148;KRW 0.00077;INR 0.012;THB 0.0292;PHP 0.018
MOP 0.1243;BRL 0.206;MXN 0.0589;ZAR 0.0546;TRY 0.0339;RUB 0.0111;TWD 0.0326
"""
"""What a currency is worth in dollars."""

_INDICES: Final[Mapping[str, tuple[str, float, str]]] = {
    "sh000001": ("上证指数", 2967.0, "6"),
    "sh000016": ("上证50", 2317.0, "60"),
    "sh000300": ("沪深300", 3386.0, "6 0 3"),
    "sh000905": ("中证500", 5402.0, "0 3"),
    "sh000688": ("科创50", 851.0, "688"),
    "sz399001": ("深证成指", 9461.0, "0 3"),
    "sz399006": ("创业板指", 1867.0, "300"),
}
"""Name, level and the beginnings of the codes of the members."""

_FUNDS: Final = """
sh510050 上证50ETF 2.35 sh000016;sh510300 沪深300ETF 3.45 sh000300;sz159919 沪深300ETF 3.49 sh000300
sh510500 中证500ETF 5.46 sh000905;sh588000 科创50ETF 0.85 sh000688;sz159915 创业板ETF 1.82 sz399006
sz159901 深证100ETF 2.52 sz399001;sh510210 上证指数ETF 0.71 sh000001;hk02800 盈富基金 17.1 hkHSI
us:SPY SPDR_S&P_500_ETF 475 us:SPX;us:VOO Vanguard_S&P_500_ETF 437 us:SPX
us:QQQ Invesco_QQQ_Trust 409 us:AAPL,us:MSFT,us:NVDA,us:AMZN,us:GOOGL,us:META,us:TSLA,us:NFLX,us:AMD
"""
"""Funds: key, name, price, and the index whose members they hold, or these."""

# Product, name, exchange, price at about the start of 2024, units in a lot, and the months that are
# traded most.
_FUTURES: Final = """
RB 螺纹钢 shfe 3900 10 1,5,10;HC 热卷 shfe 4000 10 1,5,10;CU 沪铜 shfe 69000 5 0
AL 沪铝 shfe 19400 5 0;ZN 沪锌 shfe 21500 5 0;PB 沪铅 shfe 15800 5 0;NI 沪镍 shfe 126000 1 0
SN 沪锡 shfe 211000 1 0;AU 沪金 shfe 482 1000 2,4,6,8,10,12;AG 沪银 shfe 6000 15 2,4,6,8,10,12
RU 橡胶 shfe 13800 10 1,5,9;BU 沥青 shfe 3700 10 3,6,9,12;FU 燃油 shfe 3000 10 1,5,9
SP 纸浆 shfe 5700 10 1,5,9;SS 不锈钢 shfe 13800 5 0;SC 原油 ine 550 1000 0
A 豆一 dce 4900 10 1,5,9;B 豆二 dce 4300 10 1,5,9;M 豆粕 dce 3300 10 1,5,9;Y 豆油 dce 7500 10 1,5,9
P 棕榈油 dce 7000 10 1,5,9;C 玉米 dce 2400 10 1,5,9;CS 玉米淀粉 dce 2800 10 1,5,9
I 铁矿石 dce 970 100 1,5,9;J 焦炭 dce 2450 100 1,5,9;JM 焦煤 dce 1900 60 1,5,9
L 塑料 dce 8200 5 1,5,9;V PVC dce 5900 5 1,5,9;PP 聚丙烯 dce 7500 5 1,5,9
EG 乙二醇 dce 4500 10 1,5,9
EB 苯乙烯 dce 8500 5 0;JD 鸡蛋 dce 3600 10 1,5,9;LH 生猪 dce 13800 16 1,5,9
PG 液化石油气 dce 4600 20 0
TA PTA czce 5900 5 1,5,9;MA 甲醇 czce 2400 10 1,5,9;SR 白糖 czce 6300 10 1,5,9
CF 棉花 czce 15500 5 1,5,9;FG 玻璃 czce 1900 20 1,5,9;SA 纯碱 czce 2000 20 1,5,9
OI 菜油 czce 8000 10 1,5,9;RM 菜粕 czce 2700 10 1,5,9;AP 苹果 czce 8500 10 1,5,10
UR 尿素 czce 2100 20 1,5,9;SF 硅铁 czce 6800 5 1,5,9;SM 锰硅 czce 6400 5 1,5,9
PF 短纤 czce 7200 5 1,5,9;PK 花生 czce 8800 5 1,4,10;CJ 红枣 czce 14800 5 1,5,9
SI 工业硅 gfex 14000 5 0;LC 碳酸锂 gfex 105000 1 0
IF 沪深300指数期货 cffex 3386 300 0;IH 上证50指数期货 cffex 2317 300 0
IC 中证500指数期货 cffex 5402 200 0;IM 中证1000指数期货 cffex 5880 200 0
"""


class Product(NamedTuple):
    """What a future is about; a price is that of a unit, and `lot` the units of a contract."""

    name: str
    exchange: str
    lot: int
    main: tuple[int, ...]


def _rows(text: str) -> list[list[str]]:
    return [row.split() for line in text.split("\n") for row in line.split(";") if row]


_ALL: Final = tuple(range(1, 13))


def _china(code: str) -> str:
    return f"{'sh' if code[0] in '65' else 'sz'}{code}"


def _limit(code: str) -> float:
    return 0.2 if code.startswith(("300", "301", "688")) else 0.1


def _listed() -> dict[str, Instrument]:
    found: dict[str, Instrument] = {}
    for code, name, price, shares in _rows(_CHINA):
        key, number = _china(code), round(float(shares) * 1e8)
        found[key] = Instrument(
            key, code, name, "share", "CN", float(price), shares=number, limit=_limit(code)
        )
    for code, name, price, shares in _rows(_HONG_KONG):
        number = round(float(shares) * 1e8)
        key = f"hk{code}"
        found[key] = Instrument(key, code, name, "share", "HK", float(price), shares=number)
    for code, name, price, shares in _rows(_STATES):
        key, number = f"us:{code}", round(float(shares) * 1e8)
        words = name.replace("_", " ")
        found[key] = Instrument(key, code, words, "share", "US", float(price), 0.014, shares=number)
    for key, (name, level, starts) in _INDICES.items():
        of_index = tuple(
            one.key
            for one in found.values()
            if (one.kind, one.exchange) == ("share", "CN")
            and one.code.startswith(tuple(starts.split()))
        )
        found[key] = Instrument(key, key[2:], name, "index", "CN", level, members=of_index)
    elsewhere: tuple[tuple[str, str, float, Exchange], ...] = (
        ("hkHSI", "恒生指数", 17047.0, "HK"),
        ("us:SPX", "S&P 500", 4770.0, "US"),
    )
    for key, name, level, exchange in elsewhere:
        own = tuple(
            one.key for one in found.values() if (one.kind, one.exchange) == ("share", exchange)
        )
        code = key[-3:]
        found[key] = Instrument(key, code, name, "index", exchange, level, members=own)
    for key, name, price, index in _rows(_FUNDS):
        held = found[index].members if index in found else tuple(index.split(","))
        code, where = key.removeprefix("us:").removeprefix("hk"), found[held[0]].exchange
        found[key] = Instrument(
            key, code[2:] if where == "CN" else code, name.replace("_", " "), "fund", where,
            float(price), digits=3 if where == "CN" else 2, members=held,
        )  # fmt: skip
    for code, price, volatility in _rows(_COINS):
        key = f"coin:{code}"
        found[key] = Instrument(
            key, code, code, "coin", "ALL", float(price), float(volatility), 0.3, 4
        )
    for code, price in _rows(_DOLLARS):
        key, volatility_ = f"fx:{code}", 0.0 if code == "USD" else 0.004
        found[key] = Instrument(
            key, code, code, "currency", "ALL", float(price), volatility_, 0.0, 6
        )
    for code, name, _, price, _, _ in _rows(_FUTURES):
        key = f"future:{code}"
        found[key] = Instrument(key, code, name, "future", "CN", float(price), 0.011, 0.2, 1)
    return found


LISTED: Final[Mapping[str, Instrument]] = _listed()

FUTURES: Final[Mapping[str, Product]] = {
    code: Product(
        name, exchange, int(lot), tuple(map(int, main.split(","))) if main != "0" else _ALL
    )
    for code, name, exchange, _, lot, main in _rows(_FUTURES)
}
"""The futures by product."""


CHINA: Final = tuple(one for one in LISTED.values() if one.kind == "share" and one.exchange == "CN")
"""The listed shares of Shanghai and Shenzhen."""


_CONCEPTS: Final = ("融资融券", "绿色电力", "人工智能", "可燃冰", "长寿药", "新能源车", "车联网")
"""Boards of shares that have an idea in common. The shares of one are every third or so."""


def _boards() -> dict[str, Instrument]:
    industries: dict[str, list[str]] = {"小金属": ["sh601899"], "互联网服务": ["sz300059"]}
    industries |= {"元件": ["sz002475"]}
    for one in CHINA:
        industries.setdefault(INDUSTRIES[one.code], []).append(one.key)
    found = [(f"BK{1000 + n}", *item) for n, item in enumerate(sorted(industries.items()))]
    for place, name in enumerate(_CONCEPTS):
        found.append((f"BK{500 + place:04}", name, [one.key for one in CHINA[place % 4 :: 3]]))
    return {
        f"bk:{code}": Instrument(f"bk:{code}", code, name, "index", "CN", 1000.0, members=(*of,))
        for code, name, of in found
    }


BOARDS: Final[Mapping[str, Instrument]] = _boards()
"""Indices of the shares of an industry (codes from `BK1000` on) or of a concept."""

ABROAD: Final[Mapping[str, tuple[str, float]]] = {
    "GC": ("COMEX黄金", 2071), "SI": ("COMEX白银", 24.1), "HG": ("COMEX铜", 3.89),
    "CL": ("NYMEX原油", 71.7), "NG": ("NYMEX天然气", 2.51), "ZSD": ("LME锌3个月", 2658),
    "CAD": ("LME铜3个月", 8559), "AHD": ("LME铝3个月", 2384), "NID": ("LME镍3个月", 16603),
    "PBD": ("LME铅3个月", 2068), "SND": ("LME锡3个月", 25415), "S": ("CBOT-黄豆", 1290),
    "C": ("CBOT-玉米", 471), "W": ("CBOT-小麦", 628), "BO": ("CBOT-黄豆油", 48),
    "SM": ("CBOT-黄豆粉", 386), "CT": ("NYBOT-棉花", 81), "RS": ("美国原糖", 20.6),
    "LHC": ("CME-瘦肉猪", 68), "OIL": ("布伦特原油", 77.0), "FCPO": ("马棕油", 3720),
    "FEF": ("新加坡铁矿石", 140), "XAU": ("伦敦金", 2063), "XAG": ("伦敦银", 23.8),
    "XPT": ("伦敦铂金", 992), "XPD": ("伦敦钯金", 1100), "EUA": ("欧洲碳排放", 80),
    "BTC": ("CME比特币期货", 44200), "TRB": ("日本橡胶", 250), "RSS3": ("日橡胶", 250),
}  # fmt: skip
"""Futures of exchanges abroad: name, and price at about the start of 2024."""

_INDICES_ABROAD: Final[Mapping[str, tuple[str, float]]] = {
    "NDX": ("纳斯达克", 15011), "DJIA": ("道琼斯", 37690), "UDI": ("美元指数", 101.4),
    "N225": ("日经225", 33464), "KS11": ("韩国KOSPI", 2655), "FTSE": ("英国富时100", 7733),
    "GDAXI": ("德国DAX30", 16752), "FCHI": ("法国CAC40", 7543), "HSCEI": ("国企指数", 5768),
    "HSTECH": ("恒生科技指数", 3764), "SWI20": ("瑞士股票指数", 11138),
}  # fmt: skip
"""Indices abroad without members: name, and level at about the start of 2024."""


def unlisted(key: str, luck: float) -> Instrument:
    """An instrument that is not listed has a level by its class and by `luck`, from 0 to 1."""
    kind, _, code = key.partition(":")
    spread = 4.0 ** (2 * luck - 1)
    if kind == "us":
        return Instrument(key, code, f"Simulated {code}", "share", "US", 80 * spread, 0.018)
    if kind == "ix":
        name, level = _INDICES_ABROAD.get(code, (f"模拟{code}", 5000 * spread))
        return Instrument(key, code, name, "index", "US", level, 0.008, 0.5)
    if kind == "ff":
        name, level = ABROAD.get(code, (f"模拟{code}", 100 * spread))
        return Instrument(key, code, name, "future", "US", level, 0.012, 0.0)
    if kind == "coin":
        return Instrument(key, code, code, "coin", "ALL", spread, 0.05, 0.3, 4)
    if kind == "fx":
        return Instrument(key, code, code, "currency", "ALL", spread, 0.006, 0.0, 6)
    if kind == "future":
        return Instrument(key, code, code, "future", "CN", 1000 * spread, 0.012, 0.2, 1)
    code = key[2:]
    if re.fullmatch(r"sh(?:01|1[1235])\d{4}|sz1[012]\d{4}|sh204\d{3}|sz1318\d\d", key):
        return Instrument(key, code, f"债券{code}", "bond", "CN", 100.0, digits=3)
    if key.startswith("hk"):
        number = round(1e9 * spread)
        return Instrument(key, code, f"模拟{code}", "share", "HK", 20 * spread, shares=number)
    if key.startswith("of"):
        return Instrument(key, code, f"模拟{code}基金", "fund", "CN", 1.2, 0.012, digits=4)
    if key.startswith(("sh000", "sz399", "zz", "sw")):
        return Instrument(key, code, f"模拟{code}指数", "index", "CN", 3600 * spread, 0.012)
    if code[:1] in {"1", "5"}:
        return Instrument(key, code, f"模拟{code}基金", "fund", "CN", 1.2, 0.012, digits=3)
    name, number = f"模拟{code}", round(8e8 * spread)
    level, limit = 14 * spread, _limit(code)
    return Instrument(key, code, name, "share", "CN", level, shares=number, limit=limit)


def lot_of(one: Instrument) -> int:
    """How many units a volume of 1 has."""
    if one.kind == "future":
        product = FUTURES.get(one.code.rstrip("0123456789"))
        return product.lot if product else 1
    if one.kind == "bond":
        return 10
    return 100 if one.exchange == "CN" else 1

"""Simulated reports of Eastmoney's data centre on who trades a company: blocks, links from Hong
Kong, executives, pledges, visits and moods; and on goodwill.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import Final

from adapters.simulator.akshare_companies import (
    HEAD,
    Facts,
    Made,
    at_midnight,
    company,
    held,
    keys_of,
    period_of,
    ratio,
    stated,
    subjects,
    table,
)
from adapters.simulator.shapes import Luck, Query, Reply, Row, asked, bar_days, read_day
from adapters.simulator.world.companies import (
    DEPARTMENTS,
    FREE,
    Block,
    blocks,
    growth,
    issued,
    northbound,
    profile,
    statements,
)
from adapters.simulator.world.instruments import CHINA
from adapters.simulator.world.world import World

MOST_DAYS: Final = 60
"""The days of one answer about all companies."""


def _span(query: Query, world: World, most: int = MOST_DAYS) -> tuple[date, ...]:
    """The days of trading that a filter names."""
    found = re.findall(r"_DATE\s*([<>]?)=\s*'([\d-]{8,10})", query.get("filter", ""))
    limits = {sign: read_day(text[:10]) for sign, text in found}
    first, last = limits.get(">", limits.get("")), limits.get("<", limits.get(""))
    return bar_days(world, first, last, most)[-most:]


def _of_day(world: World, key: str, day: date) -> Facts:
    """A company and its price on a day."""
    (bar,) = world.bars(key, day, day) or world.latest(key, 1)
    facts = company(world, key) | {"day": at_midnight(day), "close": bar.close}
    return facts | {"percent": round(bar.change, 2)}


# --- blocks --------------------------------------------------------------------------------------


def _later(world: World, block: Block, days: int) -> float | None:
    """How a share went on after a trade, in percent; nothing if that lies ahead."""
    made = world.history(block.key)
    at = made.days.index(block.day) + days
    if at >= len(made.days):
        return None
    worth = made.close * made.factor
    return growth(float(worth[at]), float(worth[at - days]))


def _daily_blocks(query: Query, rng: Luck) -> Iterator[Facts]:
    """The blocks of each share by day."""
    for day in _span(query, rng.world)[::-1]:
        groups = defaultdict[str, list[Block]](list)
        for block in blocks(rng.world, day):
            groups[block.key].append(block)
        for key, found in groups.items():
            amount, volume = sum(b.amount for b in found), sum(b.volume for b in found)
            free = rng.world.close(key, day) * issued(rng.world.instrument(key)) * FREE
            price = round(amount / volume, 2)
            yield _of_day(rng.world, key, day) | {
                "price": price,
                "premium": growth(price, found[0].close),
                "number": len(found),
                "volume": round(volume / 1e4, 4),
                "amount": round(amount / 1e4, 2),
                "part": ratio(amount, free),
            }


def _recent(query: Query, world: World, name: str, by: int = 1) -> list[Block]:
    """The blocks of so many last days as the filter says."""
    found = re.search(rf"{name}=-?(\d+)", query.get("filter", ""))
    number = (int(found[1]) if found else 1) * by
    days = [d for d in world.days("CN") if d > world.now - timedelta(number)]
    return [block for day in days[-MOST_DAYS:] for block in blocks(world, day)]


def _active_blocks(query: Query, rng: Luck) -> Iterator[Facts]:
    """The shares of which blocks were traded in the last months."""
    groups = defaultdict[str, list[Block]](list)
    for block in _recent(query, rng.world, "DATE_TYPE_CODE", 30):
        groups[block.key].append(block)
    for key, found in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        amount = sum(block.amount for block in found)
        at_close = sum(block.close * block.volume for block in found)
        above = sum(block.price > block.close for block in found)
        free = rng.world.close(key) * issued(rng.world.instrument(key)) * FREE
        facts = _of_day(rng.world, key, rng.world.days("CN")[-1])
        for days in (1, 5, 10, 20):
            rises = [r for block in found if (r := _later(rng.world, block, days)) is not None]
            facts[f"after_{days}"] = round(sum(rises) / len(rises), 4) if rises else None
        yield facts | {
            "day": at_midnight(found[-1].day),
            "amount": round(amount / 1e4, 2),
            "premium": growth(amount, at_close),
            "part": ratio(amount, free),
            "number": len(found),
            "above": above,
            "below": len(found) - above,
        }


def _departments(query: Query, rng: Luck) -> Iterator[Facts]:
    """What each department of a broker bought and sold in blocks, and how the shares went on."""
    found = _recent(query, rng.world, "N_DATE")
    for number, name in enumerate(DEPARTMENTS):
        bought = [block for block in found if block.buyer == name]
        sold = [block for block in found if block.seller == name]
        if not bought and not sold:
            continue
        spent, got = (round(sum(b.amount for b in side) / 1e4, 2) for side in (bought, sold))
        facts: Facts = {"department": name, "code": f"1000{number}", "buys": len(bought)}
        facts |= {"sells": len(sold), "spent": spent, "got": got, "net": round(spent - got, 2)}
        facts["day"] = at_midnight(max(block.day for block in (*bought, *sold)))
        names = [rng.world.instrument(block.key).name for block in bought]
        facts["names"] = ",".join(dict.fromkeys(names)) or None
        for days in (1, 5, 10, 20):
            rises = [r for block in bought if (r := _later(rng.world, block, days)) is not None]
            facts[f"buys_{days}"] = len(rises)
            facts[f"mean_{days}"] = round(sum(rises) / len(rises), 4) if rises else None
            facts[f"rose_{days}"] = ratio(sum(rise > 0 for rise in rises), len(rises))
        yield facts


# --- links from Hong Kong ------------------------------------------------------------------------

_BANKS: Final = ("香港上海汇丰银行有限公司", "渣打银行(香港)有限公司", "花旗银行", "摩根大通银行")


def _linked(world: World, key: str, day: date) -> Facts:
    """What is held of a share through the links on a day, and how that changed."""
    days = [d for d in world.days("CN") if d <= day][-11:]
    shares, made = northbound(world, key, days), issued(world.instrument(key))
    worth = [n * world.close(key, d) for n, d in zip(shares, days, strict=True)]
    facts = _of_day(world, key, days[-1]) | {"held": shares[-1], "worth": round(worth[-1], 2)}
    facts |= {"part": ratio(shares[-1], made), "free_part": ratio(shares[-1], made * FREE)}
    facts |= {f"change_{n}": round(worth[-1] - worth[-1 - n], 2) for n in (1, 5, 10)}
    more = shares[-1] - shares[-6]
    facts |= {"more": more, "more_worth": round(more * worth[-1] / shares[-1], 2)}
    facts |= {"more_rate": ratio(more, shares[-6]), "more_part": ratio(more, made)}
    facts |= {"more_free": ratio(more, made * FREE), "more_day": shares[-1] - shares[-2]}
    facts["more_day_worth"] = round((shares[-1] - shares[-2]) * worth[-1] / shares[-1], 2)
    return facts | {"industry": profile(world, key).industry}


def _north(query: Query, rng: Luck) -> Iterator[Facts]:
    """What is held of shares through the links, by day: of one, or of all in a few days."""
    named, text = subjects(query), query.get("filter", "")
    markets = ("sh",) if 'MUTUAL_TYPE="001"' in text else ("sh", "sz")
    markets = ("sz",) if 'MUTUAL_TYPE="003"' in text else markets
    for day in _span(query, rng.world, 250 if named else 5)[::-1]:
        for key in named or [one.key for one in CHINA if one.key.startswith(markets)]:
            yield _linked(rng.world, key, day)


def _custody(query: Query, rng: Luck) -> Iterator[Facts]:
    """What each bank holds of a share through the links, by day."""
    for key in subjects(query):
        for day in _span(query, rng.world, 120)[::-1]:
            facts = _linked(rng.world, key, day)
            for bank, part in zip(_BANKS, (0.4, 0.3, 0.2, 0.1), strict=True):
                scaled = ("held", "worth", "part", "change_1", "change_5", "change_10")
                own = {name: float(str(facts[name])) * part for name in scaled}
                rounded = {name: round(value, 4) for name, value in own.items()}
                yield facts | rounded | {"bank": bank, "held": round(own["held"])}


def _banks(query: Query, rng: Luck) -> Iterator[Facts]:
    """What each bank holds of all listed shares through the links, by day."""
    for day in _span(query, rng.world, 10)[::-1]:
        found = [_linked(rng.world, one.key, day) for one in CHINA]
        names = ("worth", "change_1", "change_5", "change_10")
        sums = {name: sum(float(str(facts[name])) for facts in found) for name in names}
        for bank, part in zip(_BANKS, (0.4, 0.3, 0.2, 0.1), strict=True):
            own = {name: round(value * part, 2) for name, value in sums.items()}
            yield {"day": at_midnight(day), "number": len(found), "bank": bank, **own}


def link_page(query: Query, rng: Luck) -> Reply:
    """The page from which AkShare reads the last day of the links."""
    text = f'<html><div class="title"><span>（{rng.world.days("CN")[-1]}）</span></div></html>'
    return Reply(text.encode(), "text/html; charset=utf-8")


# --- holders who trade, pledges, visits, moods, goodwill ------------------------------------------


def _traders(query: Query, rng: Luck) -> Iterator[Facts]:
    """Holders who bought or sold in the last published quarter."""
    way = asked(query, "DIRECTION")
    for one in CHINA:
        part = statements(rng.world, one.key)[-1]
        bar = rng.world.latest(one.key, 1)[-1]
        for facts in held(rng.world, one.key, part.period):
            change, now = int(str(facts["change"])), int(str(facts["held"]))
            side = "增持" if change > 0 else "减持"
            if change and way in ("", side):
                yield facts | {
                    "side": side,
                    "moved": round(abs(change) / 1e4, 4),
                    "moved_part": ratio(abs(change), part.shares),
                    "moved_free": ratio(abs(change), part.shares * FREE),
                    "after": round(now / 1e4, 4),
                    "start": at_midnight(part.period - timedelta(60)),
                    "price": bar.close,
                    "move": round(bar.change, 2),
                }


def _pledged(query: Query, rng: Luck) -> Iterator[Facts]:
    """What part of each company's shares is pledged, by week."""
    day = (_span(query, rng.world, 1) or bar_days(rng.world))[-1]
    for one in CHINA:
        part = 12 * rng.world.luck("pledged", one.key) ** 2
        shares = round(one.shares * part / 100 / 1e4, 2)
        before = rng.world.close(one.key, day - timedelta(365))
        close = rng.world.close(one.key, day)
        yield company(rng.world, one.key) | {
            "day": at_midnight(day),
            "part": round(part, 2),
            "pledged": shares,
            "number": 1 + int(30 * rng.world.luck("pledges", one.key)),
            "free": shares,
            "limited": 0,
            "worth": round(shares * close, 2),
            "industry": profile(rng.world, one.key).industry,
            "year_move": growth(close, before),
            "board": "BK0000",
        }


def _visits(query: Query, rng: Luck) -> Iterator[Facts]:
    """Visits of investors to companies after a day, the newest first."""
    after = read_day(asked(query, "NOTICE_DATE>") or asked(query, "RECEIVE_START_DATE>"))
    days = [day for day in rng.world.days("CN") if after is None or day > after]
    bars = {one.key: rng.world.latest(one.key, 1)[-1] for one in CHINA}
    for day in days[-MOST_DAYS:][::-1]:
        one = CHINA[int(rng.world.luck("visited", day) * len(CHINA))]
        yield company(rng.world, one.key) | {
            "day": at_midnight(day),
            "notice": at_midnight(day),
            "place": "公司会议室",
            "way": "特定对象调研",
            "host": "董事会秘书",
            "guest": "中信证券股份有限公司",
            "guest_kind": "证券公司",
            "number": 1 + int(80 * rng.world.luck("visitors", day)),
            "price": bars[one.key].close,
            "percent": round(bars[one.key].change, 2),
        }


def _moods(query: Query, rng: Luck) -> Iterator[Facts]:
    """What is thought of a share on its last days: scores from 0 to 100."""
    for key in subjects(query):
        days = bar_days(rng.world, most=30)[::-1]
        names = ("part of institutions", "score", "wish")
        series = (rng.world.series(f"{name} of {key}", days, 50, 0.01) for name in names)
        rows = list(zip(days, *series, strict=True))
        for at, (day, part, score, wish) in enumerate(rows):
            last = [row[3] for row in rows[at : at + 5]]
            mean, before = sum(last) / len(last), rows[min(at + 1, len(rows) - 1)][3]
            yield company(rng.world, key) | {
                "day": at_midnight(day),
                "part": round(part / 100, 4),
                "score": round(score, 2),
                "wish": round(wish, 2),
                "wish_mean": round(mean, 2),
                "wish_change": round(wish - before, 2),
                "wish_mean_change": round((wish - before) / 5, 2),
            }


def _goodwill(query: Query, rng: Luck) -> Iterator[Facts]:
    """Goodwill in the statements of a quarter: a part of the other assets."""
    period = period_of(query)
    for key in keys_of(query) if period else ():
        parts = statements(rng.world, key)
        part = next((one for one in parts if one.period == period), None)
        if part is None:
            continue
        facts = stated(rng.world, key, part)
        share = 0.3 * rng.world.luck("goodwill", key) ** 2
        here = round(part.sheet["other_assets"] * share)
        lost = round(here * 0.02 * rng.world.luck("impairment", key, period))
        net, equity = part.total["net_profit"], part.sheet["equity"]
        yield facts | {
            "goodwill": here,
            "goodwill_before": here + lost,
            "lost": lost,
            "goodwill_part": round(here / equity, 6),
            "lost_of_equity": round(lost / equity, 6),
            "lost_of_profit": round(lost / net, 6),
            "board": "沪市主板" if key.startswith("sh") else "深市主板",
            "least": round(net * 0.97),
            "most": round(net * 1.03),
        }


def _goodwill_of_industries(query: Query, rng: Luck) -> Iterator[Facts]:
    """Goodwill by industry."""
    groups = defaultdict[str, list[Facts]](list)
    for facts in _goodwill(query, rng):
        groups[str(facts["industry"])].append(facts)
    for industry, rows in groups.items():
        names = ("goodwill", "equity", "net_profit")
        sums = {name: sum(int(str(row[name])) for row in rows) for name in names}
        part = round(sums["goodwill"] / sums["equity"], 6)
        own: Facts = {"period": rows[0]["period"], "industry": industry, "number": len(rows)}
        yield own | sums | {"goodwill_part": part}


_STOCK_LINKS = (
    f"{HEAD} TRADE_DATE=day CLOSE_PRICE=close CHANGE_RATE=percent HOLD_SHARES=held "
    "HOLD_MARKET_CAP=worth HOLD_SHARES_RATIO=part A_SHARES_RATIO=part HMC_CHANGE=change_1 "
    "ADD_SHARES_REPAIR=more_day PREDICT_AMC=more_day_worth HOLD_MARKETCAP_CHG1=change_1 "
    "HOLD_MARKETCAP_CHG5=change_5 HOLD_MARKETCAP_CHG10=change_10"
)
_AFTER_BLOCKS = " ".join(f"buys_{n} mean_{n} rose_{n}" for n in (1, 5, 10, 20))

_TABLES: Final[Mapping[str, tuple[Made, str]]] = {
    "RPT_BLOCKTRADE_STA": (
        _daily_blocks,
        "day code secucode name percent close price premium number volume amount part -*4",
    ),
    "RPT_BLOCKTRADE_ACSTA": (
        _active_blocks,
        "code secucode name close percent day amount premium part number above below after_1 "
        "after_5 after_10 after_20 -",
    ),
    "RPT_BLOCKTRADE_OPERATEDEPTSTATISTICS": (
        _departments, "code department day names buys sells spent got net -"
    ),
    "RPT_BLOCKTRADE_OPERATEDEPT_RANK": (_departments, f"code department {_AFTER_BLOCKS} -*2"),
    "RPT_MUTUAL_STOCK_NORTHSTA": (
        _north,
        "-*2 day - name -*2 code -*4 held worth free_part part close percent - industry -*10 "
        "more_worth more more_rate more_free more_part -*2 change_1 change_5 change_10 -*3",
    ),
    "RPT_MUTUAL_HOLDSTOCKNDATE_STA": (_north, _STOCK_LINKS),
    "RPT_MUTUAL_HOLD_DET": (
        _custody,
        f"{HEAD} HOLD_DATE=day ORG_NAME=bank HOLD_NUM=held HOLD_SHARES_RATIO=part "
        "HOLD_MARKET_CAP=worth CLOSE_PRICE=close CHANGE_RATE=percent HOLD_MARKET_CAPONE=change_1 "
        "HOLD_MARKET_CAPFIVE=change_5 HOLD_MARKET_CAPTEN=change_10",
    ),
    "PRT_MUTUAL_ORG_STA": (
        _banks, "day - number - worth change_1 change_5 change_10 - bank -*8"
    ),
    "RPT_SHARE_HOLDER_INCREASE": (
        _traders,
        "moved published code holder moved_part -*2 period - after percent - free_percent after - "
        "name side - moved_free start - price move -",
    ),
    "RPT_CSDC_LIST": (
        _pledged,
        "secucode code name day part pledged number free limited worth industry year_move board -",
    ),
    "RPT_ORG_SURVEYNEW": (
        _visits,
        "secucode code name - notice day -*7 place - way - host -*5 number -*6 price percent",
    ),
    "RPT_ORG_SURVEY": (
        _visits,
        "secucode code name notice day guest place way - host guest_kind price percent",
    ),
    "RPT_DMSK_TS_STOCKEVALUATE": (_moods, f"{HEAD} TRADE_DATE=day ORG_PARTICIPATE=part"),
    "RPT_STOCK_HISTORYMARK": (_moods, f"{HEAD} DIAGNOSE_DATE=day TOTAL_SCORE=score"),
    "RPT_GOODWILL_STOCKDETAILS": (
        _goodwill,
        f"{HEAD} TRADE_BOARD=board GOODWILL=goodwill NOTICE_DATE=published REPORT_DATE=period "
        "GOODWILL_PRE=goodwill_before GOODWILL_CHANGE=lost SUMSHEQUITY_RATIO=goodwill_part "
        "SE_CHANGE_RATIO=lost_of_equity PARENTNETPROFIT=net_profit PNP_CHANGE_RATIO=lost_of_profit "
        "PNP_YOY_RATIO=net_profit_yoy",
    ),
    "RPT_GOODWILL_STOCKPREDICT": (
        _goodwill,
        f"{HEAD} TRADE_MARKET=board NOTICE_DATE=published REPORT_DATE=period "
        "PREDICT_NETPROFIT_LOWER=least PREDICT_NETPROFIT_UPPER=most "
        "PERFORM_CHANGE_UPPER=net_profit_yoy PERFORM_CHANGE_LOWER=net_profit_yoy "
        "PERFORM_CHANGE_EXPLAIN=reason PE_SAMEREPORT_NETPROFIT=net_profit_before "
        "PE_GOODWILL=goodwill_before NEWEST_REPORT_DATE=period NEWEST_GOODWILL=goodwill",
    ),
    "RPT_GOODWILL_INDUSTATISTICS": (
        _goodwill_of_industries,
        "REPORT_DATE=period INDUSTRY_NAME=industry ORG_NUM=number GOODWILL=goodwill "
        "SUMSHEQUITY=equity SUMSHEQUITY_RATIO=goodwill_part PARENTNETPROFIT=net_profit",
    ),
}  # fmt: skip

TRADES: Mapping[str, Callable[[Query, Luck], Sequence[Row]]] = {
    name: table(make, fields) for name, (make, fields) in _TABLES.items()
}

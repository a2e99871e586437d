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
from adapters.simulator.shapes import (
    Facts,
    Luck,
    Query,
    Reply,
    Row,
    as_text,
    asked,
    bar_days,
    read_day,
)
from adapters.simulator.world.calendar import between
from adapters.simulator.world.companies import (
    DEPARTMENTS,
    FREE,
    Block,
    Board,
    blocks,
    board,
    growth,
    issued,
    listed_of,
    northbound,
    of_period,
    profile,
    statements,
)
from adapters.simulator.world.instruments import CHINA
from adapters.simulator.world.world import World

MOST_DAYS: Final = 250
"""The most days of one answer."""


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


def _later(world: World, block: Block | Board, days: int) -> float | None:
    """How a share went on after a trade, in percent; nothing if that lies ahead."""
    made = world.history(block.key)
    at = between(made.days, None, block.day).stop - 1 + days
    if at >= len(made.days):
        return None
    worth = made.close * made.factor
    return growth(float(worth[at]), float(worth[at - days]))


def _fared(world: World, found: Sequence[Block | Board], spans: Sequence[int]) -> Facts:
    """How shares went on after these trades: of how many it is known, the mean, and in what percent
    of them they rose.
    """
    facts: Facts = {}
    for days in spans:
        rises = [rise for one in found if (rise := _later(world, one, days)) is not None]
        facts[f"buys_{days}"] = len(rises)
        facts[f"mean_{days}"] = round(sum(rises) / len(rises), 4) if rises else None
        facts[f"rose_{days}"] = ratio(sum(rise > 0 for rise in rises), len(rises))
    return facts


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
        yield (
            facts
            | _fared(rng.world, found, (1, 5, 10, 20))
            | {
                "day": at_midnight(found[-1].day),
                "amount": round(amount / 1e4, 2),
                "premium": growth(amount, at_close),
                "part": ratio(amount, free),
                "number": len(found),
                "above": above,
                "below": len(found) - above,
            }
        )


def _departments(query: Query, rng: Luck) -> Iterator[Facts]:
    """What each department of a broker bought and sold in blocks, and how the shares went on."""
    found = _recent(query, rng.world, "N_DATE")
    for number, name in enumerate(DEPARTMENTS):
        bought = [(one, one.amount) for one in found if one.buyer == name]
        sold = [(one, one.amount) for one in found if one.seller == name]
        if facts := _of_department(rng.world, name, bought, sold, ",", 1e4):
            facts["code"] = f"1000{number}"
            yield facts | _fared(rng.world, [one for one, _ in bought], (1, 5, 10, 20))


_Deals = Sequence[tuple[Block | Board, float]]
"""Trades, and the amount of each."""


def _of_department(
    world: World, name: str, bought: _Deals, sold: _Deals, sep: str, unit: float = 1.0
) -> Facts:
    """What a department of a broker bought and sold; nothing of one that did not trade."""
    if not bought and not sold:
        return {}
    spent, got = (round(sum(amount for _, amount in side) / unit, 2) for side in (bought, sold))
    names = dict.fromkeys(world.instrument(one.key).name for one, _ in bought)
    return {
        "department": name, "buys": len(bought), "sells": len(sold), "spent": spent, "got": got,
        "net": round(spent - got, 2), "amount": round(spent + got, 2),
        "times": len(bought) + len(sold), "names": sep.join(names) or None,
        "day": at_midnight(max(one.day for one, _ in (*bought, *sold))),
    }  # fmt: skip


# --- the list of a day's most traded -------------------------------------------------------------

_CYCLES: Final = {"01": 22, "02": 63, "03": 126, "04": 250}
"""The days of trading of a cycle of statistics: one, three, six and twelve months."""
_INSTITUTION: Final = DEPARTMENTS[0]


def _board(world: World, found: Board) -> Facts:
    """A share on the list of a day."""
    (bar,) = world.bars(found.key, found.day, found.day)
    free = issued(world.instrument(found.key)) * FREE
    seats = (*found.buyers, *found.sellers)
    own = [seat for seat in seats if seat.department == _INSTITUTION]
    facts = _of_day(world, found.key, found.day)
    facts |= {f"after_{n}": _later(world, found, n) for n in (1, 2, 3, 5, 10, 20, 30)}
    facts |= {"bought": found.bought, "sold": found.sold, "traded": found.amount}
    facts |= {"net": round(found.bought - found.sold, 2), "times": 1}
    facts |= {"amount": round(found.bought + found.sold, 2), "reason": "日涨幅居前的前5只证券"}
    facts |= {"net_part": ratio(found.bought - found.sold, found.amount), "text": "买卖双方各5家"}
    facts |= {"part": ratio(found.bought + found.sold, found.amount)}
    facts |= {"turnover": ratio(bar.volume * 100, free), "cap": round(bar.close * free, 2)}
    facts |= {"own_buys": sum(seat.bought > 0 for seat in own)}
    facts |= {"own_sells": sum(seat.sold > 0 for seat in own)}
    spent = round(sum(seat.bought for seat in own), 2)
    got = round(sum(seat.sold for seat in own), 2)
    facts |= {"own_spent": spent, "own_got": got, "own_net": round(spent - got, 2)}
    return facts | {"own_part": ratio(spent - got, found.amount), "own_amount": spent + got}


def _on_list(world: World, days: Sequence[date]) -> Iterator[Board]:
    for day in days:
        for key in listed_of(world, day):
            yield board(world, key, day)


def _boards(query: Query, rng: Luck) -> Iterator[Facts]:
    """The shares on the lists of a range of days, by code."""
    found = [_board(rng.world, one) for one in _on_list(rng.world, _span(query, rng.world))]
    yield from sorted(found, key=lambda facts: str(facts["code"]))


def _board_days(query: Query, rng: Luck) -> Iterator[Facts]:
    """The days on which a share was on the list, newest first; one that is not listed, by luck."""
    for key in subjects(query):
        for day in bar_days(rng.world)[::-1]:
            is_known = any(key == one.key for one in CHINA)
            if key in listed_of(rng.world, day) if is_known else rng.world.luck(key, day) > 0.9:
                yield company(rng.world, key) | {"day": at_midnight(day), "date": str(day)}


def _cycle(query: Query, world: World) -> list[Board]:
    """The lists of the cycle that a filter names."""
    name = asked(query, "STATISTICS_?CYCLE")
    return list(_on_list(world, world.days("CN")[-_CYCLES.get(name, 22) :]))


def _board_sums(query: Query, rng: Luck) -> Iterator[Facts]:
    """The shares on the lists of a cycle, and what was traded of them."""
    groups = defaultdict[str, list[Board]](list)
    for one in _cycle(query, rng.world):
        groups[one.key].append(one)
    today = rng.world.days("CN")[-1]
    for key, found in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        rows = [_board(rng.world, one) for one in found]
        facts = _of_day(rng.world, key, today) | {"day": rows[-1]["day"]}
        names = ("bought", "sold", "net", "amount", "times", "own_buys", "own_sells")
        for name in (*names, "own_spent", "own_got", "own_net", "own_amount"):
            facts[name] = round(sum(float(str(row[name])) for row in rows), 2)
        for name in ("times", "own_buys", "own_sells"):
            facts[name] = round(float(str(facts[name])))
        made = rng.world.history(key)
        worth = made.close * made.factor
        for days in (22, 63, 126, 250):
            facts[f"move_{days}"] = growth(float(worth[-1]), float(worth[-1 - days]))
        yield facts


def _seats(query: Query, rng: Luck) -> Iterator[Facts]:
    """The departments that bought or sold a share most on a day."""
    for key in subjects(query):
        for day in _span(query, rng.world, 1):
            found = board(rng.world, key, day)
            side = found.buyers if "BUY" in query.get("reportName", "") else found.sellers
            for seat in side:
                yield _board(rng.world, found) | {
                    "department": seat.department,
                    "bought": seat.bought,
                    "sold": seat.sold,
                    "net": seat.bought - seat.sold,
                    "bought_part": ratio(seat.bought, found.amount),
                    "sold_part": ratio(seat.sold, found.amount),
                }


def _houses(query: Query, rng: Luck) -> Iterator[Facts]:
    """What each department traded of the shares on the lists of a cycle or of some days."""
    is_cycle = "CYCLE" in query.get("filter", "")
    days = _span(query, rng.world)
    found = _cycle(query, rng.world) if is_cycle else list(_on_list(rng.world, days))
    for number, name in enumerate(DEPARTMENTS):
        bought = [(b, s.bought) for b in found for s in b.buyers if s.department == name]
        sold = [(b, s.sold) for b in found for s in b.sellers if s.department == name]
        if facts := _of_department(rng.world, name, bought, sold, " "):
            facts["code"] = f"1018{number:04}"
            yield facts | _fared(rng.world, [one for one, _ in bought], (1, 2, 3, 5, 10))


def _house(query: Query, rng: Luck) -> Iterator[Facts]:
    """The shares on the lists of the last days that one department traded."""
    code = asked(query, "OPERATEDEPT_CODE")
    name = DEPARTMENTS[int(code) % len(DEPARTMENTS)] if code.isdecimal() else _INSTITUTION
    for found in _on_list(rng.world, bar_days(rng.world, most=60)[::-1]):
        seats = [s for s in (*found.buyers, *found.sellers) if s.department == name]
        if seats:
            spent, got = sum(s.bought for s in seats), sum(s.sold for s in seats)
            own: Facts = {"department": name, "house": code, "bought": spent, "sold": got}
            yield _board(rng.world, found) | own | {"net": round(spent - got, 2)}


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
    for day in _span(query, rng.world, MOST_DAYS if named else 22)[::-1]:
        for key in named or [one.key for one in CHINA if one.key.startswith(markets)]:
            yield _linked(rng.world, key, day)


def _custody(query: Query, rng: Luck) -> Iterator[Facts]:
    """What each bank holds of a share through the links, by day."""
    for key in subjects(query):
        for day in _span(query, rng.world)[::-1]:
            facts = _linked(rng.world, key, day)
            for bank, part in zip(_BANKS, (0.4, 0.3, 0.2, 0.1), strict=True):
                scaled = ("held", "worth", "part", "change_1", "change_5", "change_10")
                own = {name: float(str(facts[name])) * part for name in scaled}
                rounded = {name: round(value, 4) for name, value in own.items()}
                yield facts | rounded | {"bank": bank, "held": round(own["held"])}


def _banks(query: Query, rng: Luck) -> Iterator[Facts]:
    """What each bank holds of all listed shares through the links, by day."""
    for day in _span(query, rng.world, 22)[::-1]:
        found = [_linked(rng.world, one.key, day) for one in CHINA]
        names = ("worth", "change_1", "change_5", "change_10")
        sums = {name: sum(float(str(facts[name])) for facts in found) for name in names}
        for bank, part in zip(_BANKS, (0.4, 0.3, 0.2, 0.1), strict=True):
            own = {name: round(value * part, 2) for name, value in sums.items()}
            yield {"day": at_midnight(day), "number": len(found), "bank": bank, **own}


def link_page(query: Query, rng: Luck) -> Reply:
    """The page from which AkShare reads the last day of the links."""
    text = f'<html><div class="title"><span>（{rng.world.days("CN")[-1]}）</span></div></html>'
    return as_text(text)


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
    for day in days[-60:][::-1]:
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
        names = ("part of institutions", "score")
        series = (rng.world.series(f"{name} of {key}", days, 50, 0.01) for name in names)
        for day, part, score in zip(days, *series, strict=True):
            facts = {"day": at_midnight(day), "part": round(part / 100, 4)}
            yield company(rng.world, key) | facts | {"score": round(score, 2)}


def _executives(query: Query, rng: Luck) -> Iterator[Facts]:
    """What an executive bought and sold of the own company, in each of the last ten quarters."""
    person = asked(query, "PERSON_NAME")
    for key in subjects(query):
        parts, kept = statements(rng.world, key)[-10:], 50_000
        for part in parts:
            luck = rng.world.luck("executive", key, person, part.period)
            bought = round(80 * (luck - 0.4)) * 100
            day = rng.world.days("CN")[between(rng.world.days("CN"), None, part.period).stop - 1]
            price = rng.world.close(key, day)
            yield company(rng.world, key) | {
                "day": at_midnight(day),
                "person": person,
                "moved": bought,
                "price": price,
                "amount": round(abs(bought) * price, 2),
                "reason": "竞价交易",
                "part": ratio(bought, part.shares),
                "before": kept,
                "after": kept + bought,
                "shares_kind": "A股",
                "position": "董事",
                "relation": "本人",
            }
            kept += bought


def _goodwill(query: Query, rng: Luck) -> Iterator[Facts]:
    """Goodwill in the statements of a quarter: a part of the other assets."""
    period = period_of(query)
    for key in keys_of(query):
        part = of_period(rng.world, key, period) if period else None
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
        "code secucode name close percent day amount premium part number above below mean_1 "
        "mean_5 mean_10 mean_20 -",
    ),
    "RPT_BLOCKTRADE_OPERATEDEPTSTATISTICS": (
        _departments, "code department day names buys sells spent got net -"
    ),
    "RPT_BLOCKTRADE_OPERATEDEPT_RANK": (_departments, f"code department {_AFTER_BLOCKS} -*2"),
    "RPT_DAILYBILLBOARD_DETAILSNEW": (
        _boards,
        f"{HEAD} TRADE_DATE=day EXPLAIN=text EXPLANATION=reason CLOSE_PRICE=close "
        "CHANGE_RATE=percent TURNOVERRATE=turnover BILLBOARD_NET_AMT=net BILLBOARD_BUY_AMT=bought "
        "BILLBOARD_SELL_AMT=sold BILLBOARD_DEAL_AMT=amount ACCUM_AMOUNT=traded "
        "DEAL_NET_RATIO=net_part DEAL_AMOUNT_RATIO=part FREE_MARKET_CAP=cap "
        "D1_CLOSE_ADJCHRATE=after_1 D2_CLOSE_ADJCHRATE=after_2 D5_CLOSE_ADJCHRATE=after_5 "
        "D10_CLOSE_ADJCHRATE=after_10 SECURITY_TYPE_CODE=kind",
    ),
    "RPT_LHB_BOARDDATE": (_board_days, "SECURITY_CODE=code TRADE_DATE=day TR_DATE=date"),
    "RPT_BILLBOARD_TRADEALL": (
        _board_sums,
        "- code day name move_22 move_63 move_126 move_250 percent close - amount net -*2 own_net "
        "times bought sold own_spent own_got own_buys own_sells -",
    ),
    "RPT_ORGANIZATION_SEATNEW": (
        _board_sums,
        f"{HEAD} CLOSE_PRICE=close CHANGE_RATE=percent AMOUNT=amount ONLIST_TIMES=times "
        "BUY_AMT=own_spent BUY_TIMES=own_buys SELL_AMT=own_got SELL_TIMES=own_sells "
        "NET_BUY_AMT=own_net M1_CLOSE_ADJCHRATE=move_22 M3_CLOSE_ADJCHRATE=move_63 "
        "M6_CLOSE_ADJCHRATE=move_126 Y1_CLOSE_ADJCHRATE=move_250",
    ),
    "RPT_ORGANIZATION_TRADE_DETAILS": (
        _boards,
        "- name code day close percent own_buys own_sells own_spent own_got own_net traded "
        "own_part turnover cap reason -*9",
    ),
    "RPT_OPERATEDEPT_ACTIVE": (
        _houses, "department day buys sells spent got net - code names -*2"
    ),
    "RPT_OPERATEDEPT_LIST_STATISTICS": (
        _houses,
        "OPERATEDEPT_NAME=department AMOUNT=amount SALES_ONLIST_TIMES=times ACT_BUY=spent "
        "TOTAL_BUYER_SALESTIMES=buys ACT_SELL=got TOTAL_SELLER_SALESTIMES=sells",
    ),
    "RPT_RATEDEPT_RETURNT_RANKING": (
        _houses,
        "OPERATEDEPT_NAME=department "
        + " ".join(
            f"TOTAL_BUYER_SALESTIMES_{n}DAY=buys_{n} AVERAGE_INCREASE_{n}DAY=mean_{n} "
            f"RISE_PROBABILITY_{n}DAY=rose_{n}"
            for n in (1, 2, 3, 5, 10)
        ),
    ),
    "RPT_OPERATEDEPT_TRADE_DETAILSNEW": (
        _house,
        f"{HEAD} OPERATEDEPT_CODE=house OPERATEDEPT_NAME=department ORG_NAME_ABBR=department "
        "TRADE_DATE=day CHANGE_RATE=percent ACT_BUY=bought ACT_SELL=sold NET_AMT=net "
        "EXPLANATION=reason OPERATEDEPT_CODE_OLD=house "
        + " ".join(f"D{n}_CLOSE_ADJCHRATE=after_{n}" for n in (1, 2, 3, 5, 10, 20, 30)),
    ),
    **dict.fromkeys(
        ("RPT_BILLBOARD_DAILYDETAILSBUY", "RPT_BILLBOARD_DAILYDETAILSSELL"),
        (_seats, "-*4 department reason -*4 bought sold net -*4 bought_part sold_part -"),
    ),
    "RPT_MUTUAL_STOCK_NORTHSTA": (
        _north,
        "-*2 day - name -*2 code -*4 held worth free_part part close percent - industry -*10 "
        "more_worth more more_rate more_free more_part -*2 change_1 change_5 change_10 -*3",
    ),
    "RPT_MUTUAL_HOLDSTOCKNDATE_STA": (_north, _STOCK_LINKS),
    "RPT_MUTUAL_STOCK_HOLDRANKS": (
        _north,
        f"{HEAD} TRADE_DATE=day CHANGE_RATE=percent CLOSE_PRICE=close HOLD_SHARES=held "
        "HOLD_MARKET_CAP=worth HOLD_SHARES_RATIO=part HOLD_MARKETCAP_CHG1=change_1 "
        "HOLD_MARKETCAP_CHG5=change_5 HOLD_MARKETCAP_CHG10=change_10",
    ),
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
    "RPT_EXECUTIVE_HOLD_DETAILS": (
        _executives,
        "SECURITY_CODE=code DERIVE_SECURITY_CODE=secucode SECURITY_NAME=name CHANGE_DATE=day "
        "PERSON_NAME=person CHANGE_SHARES=moved AVERAGE_PRICE=price CHANGE_AMOUNT=amount "
        "CHANGE_REASON=reason CHANGE_RATIO=part CHANGE_AFTER_HOLDNUM=after HOLD_TYPE=shares_kind "
        "DSE_PERSON_NAME=person POSITION_NAME=position PERSON_DSE_RELATION=relation ORG_CODE=org "
        "GGEID=none BEGIN_HOLD_NUM=before END_HOLD_NUM=after",
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

"""What `finbench drift diff` finds in hand-made answers, and what it does not: beside each change
stands the nearest movement that is expected.
"""

import json
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from functools import partial
from typing import Any

import pytest

from bench.drift.snapshots.report import CHECKS
from cache import Row
from gateway.errors import ErrorCode
from tests.support import answers
from tests.support.answers import DAY_S, START, snapshot
from tests.support.commands import finbench

Answer = Callable[[str], Row]
Found = tuple[str, str, str | None, Any, Any]
"""Level, check, column, before, after."""

DAILY = ("stock_zh_a_hist", "stock_zh_index_daily", "stock_us_daily")
"""Tools whose manifests say that their answers change every day."""

LATER = START + 30 * DAY_S


def table(rows: Sequence[dict[str, Any]], columns: Sequence[str] = (), **more: Any) -> Answer:
    return lambda tool: answers.table(tool, rows, columns, **more)


def document(value: Any, **more: Any) -> Answer:
    return lambda tool: answers.document(tool, value, **more)


def error(code: ErrorCode, **more: Any) -> Answer:
    return lambda tool: answers.error(tool, code, **more)


def days(count: int, first: int = 0) -> list[str]:
    """So many days in a row that end on 29 June 2026, `first` days later."""
    return [str(date(2026, 6, 30) + timedelta(first - count + n)) for n in range(count)]


def luck(seed: str) -> random.Random:
    return random.Random(seed)


def history(count: int = 60, first: int = 0, times: float = 1.0) -> list[dict[str, Any]]:
    """A price a day, which depends on the day alone, and a number of shares."""
    return [
        {
            "date": day,
            "close": round(luck(day).lognormvariate(3, 0.1) * times, 2),
            "volume": luck(day).randrange(10**6),
        }
        for day in days(count, first)
    ]


def market(count: int = 60, move: float = 1.0, seed: str = "a") -> list[dict[str, Any]]:
    """Prices of stocks, which moved by a factor and a little."""
    rows = []
    for n in range(count):
        price = luck(f"{n}").lognormvariate(3, 1) * move * luck(f"{n} {seed}").uniform(0.98, 1.02)
        kind = luck(f"kind {n}").choice(["bank", "food", "steel"])
        rows.append({"code": f"{600_000 + n}", "price": round(price, 3), "industry": kind})
    return rows


def events(seed: str = "a", first: int = 0) -> list[dict[str, Any]]:
    """Three a day for 20 days, each with a name of its own."""
    return [
        {
            "date": day,
            "name": f"{seed}{n}",
            "n": n,
            "price": luck(f"{seed}{n}").lognormvariate(3, 1),
        }
        for place, day in enumerate(days(20, first))
        for n in range(3 * place, 3 * place + 3)
    ]


def each(rows: list[dict[str, Any]], change: Callable[[dict[str, Any]], Any]) -> list[Any]:
    return [{**row, **change(row)} for row in rows]


def put(
    rows: list[dict[str, Any]], name: str, cell: Any, where: Callable[[dict[str, Any]], bool]
) -> list[dict[str, Any]]:
    return [{**row, name: cell} if where(row) else row for row in rows]


def without(rows: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [{key: cell for key, cell in row.items() if key != name} for row in rows]


def renamed(rows: list[dict[str, Any]], old: str, new: str) -> list[dict[str, Any]]:
    return [{new if name == old else name: cell for name, cell in row.items()} for row in rows]


def moved(
    rows: list[dict[str, Any]], by: int, of: str = "date", place: int = 0
) -> list[dict[str, Any]]:
    """Dates so many days later, from the record at `place` on."""
    return [
        {**row, of: str(date.fromisoformat(row[of]) + timedelta(by if n >= place else 0))}
        for n, row in enumerate(rows)
    ]


def listed(count: int = 60) -> list[dict[str, Any]]:
    """Stocks, each with its first day and first price, and a price that moves."""
    first = [str(date(2020, 1, 1) + timedelta(37 * n)) for n in range(count)]
    return [
        {**row, "listed": day, "issue price": luck(day).lognormvariate(3, 0.5)}
        for row, day in zip(market(count), first, strict=True)
    ]


def shuffled(rows: list[dict[str, Any]], name: str, share: float = 1.0) -> list[dict[str, Any]]:
    """Values of a column of which a share stands in another record."""
    chosen = rows[: int(share * len(rows))]
    cells = [row[name] for row in chosen]
    luck(name).shuffle(cells)
    return [{**row, name: c} for row, c in zip(chosen, cells, strict=True)] + rows[len(chosen) :]


def ranked(rows: list[dict[str, Any]], name: str = "序号") -> list[dict[str, Any]]:
    return [{name: n, **row} for n, row in enumerate(rows, 1)]


def reports(count: int, with_image: float, seed: str = "a") -> dict[str, Any]:
    """News, of which a share has an image."""
    chance = luck(seed)
    items: list[dict[str, Any]] = [{"id": f"{seed}{n}", "title": f"news {n}"} for n in range(count)]
    for item in items:
        if chance.random() < with_image:
            item["image"] = "a.png"
    return {"data": items, "meta": {"page": 1}}


def probes(make: Callable[..., Answer], *milliseconds: float) -> list[Answer]:
    return [make(probe=n, ms=ms) for n, ms in enumerate(milliseconds)]


QUOTE = {"symbol": "A", "currency": "USD", "price": 12.5, "bid": 12.4, "asOf": "2026-06-29"}
PRICE = {"symbol": "A", "price": 1.5, "more": {"bid": 1.4, "ask": 1.6}}
UP = ErrorCode.UPSTREAM_ERROR

FIRST, LAST = days(60)[0], days(60)[-1]
CLOSE, SPLIT = history()[0]["close"], round(history()[0]["close"] / 10, 4)


def changes(centre: float, seed: str = "a", spread: float = 1.8) -> list[dict[str, Any]]:
    """The changes of a day, in percent, of stocks in the order of their codes."""
    drawn = luck(seed)
    return [
        {"code": f"{600_000 + n}", "chg": round(drawn.gauss(centre, spread), 2)} for n in range(400)
    ]


Case = tuple[list[Answer], list[Answer], list[Found]]


def tables(before: list[dict[str, Any]], after: list[dict[str, Any]], *found: Found) -> Case:
    return [table(before)], [table(after)], [*found]


def documents(before: Any, after: Any, *found: Found) -> Case:
    return [document(before)], [document(after)], [*found]


def errors(before: ErrorCode, after: ErrorCode, *found: Found) -> Case:
    return [error(before)], [error(after)], [*found]


CASES: dict[str, Case] = {
    # availability, error_code
    "fails": (
        [document(PRICE)],
        [error(UP)],
        [("ERR", "availability", None, "ok", "upstream_error")],
    ),
    "fails in part": (
        [document(PRICE, probe=0), document(PRICE, probe=1)],
        [document(PRICE, probe=0), error(ErrorCode.TIMEOUT, probe=1)],
        [("WARN", "availability", None, "ok", "timeout")],
    ),
    "answers again": (
        [error(UP)],
        [document(PRICE)],
        [("INFO", "availability", None, "upstream_error", "ok")],
    ),
    "fails otherwise": errors(
        UP, ErrorCode.TIMEOUT, ("WARN", "error_code", None, "upstream_error", "timeout")
    ),
    "fails as before": errors(UP, UP),
    "our quota": ([document(PRICE)], [error(ErrorCode.QUOTA_EXHAUSTED)], []),
    "our settings": errors(ErrorCode.NOT_CONFIGURED, UP),
    "our gateway": ([document(PRICE)], [error(ErrorCode.OVERLOADED)], []),
    # empty
    "no rows": ([table(history())], [table([], ["date"])], [("ERR", "empty", None, 60, 0)]),
    "an empty list": tables(history(), [], ("ERR", "empty", None, 60, 0)),
    "an empty list in an older snapshot": (
        [table(history())],
        [document([])],
        [("ERR", "empty", None, 60, 0)],
    ),
    "an empty list, and nested records later": (
        [table([])],
        [document([{"a": {"b": 1}}])],
        [("INFO", "empty", None, 0, 1)],
    ),
    "an empty list as another version wrote it": ([document([])], [table([])], []),
    "a list in a document has no records": documents(
        {"status": "ok", "data": history()},
        {"status": "ok", "data": []},
        ("ERR", "empty", "data[]", 60, 0),
    ),
    "a document holds nothing but an empty list": documents(
        {"data": [1]}, {"data": []}, ("ERR", "empty", None, 2, 0)
    ),
    "a short list in a document is empty": documents(
        {"status": "ok", "news": [{"title": "a"}]}, {"status": "ok", "news": []}
    ),
    "no values": documents(
        PRICE, {"symbol": "", "price": None, "more": {}}, ("ERR", "empty", None, 1, 0)
    ),
    "empty by code": (
        [table(market())],
        [error(ErrorCode.UPSTREAM_EMPTY)],
        [("ERR", "empty", None, "ok", "upstream_empty")],
    ),
    "some are empty and some no longer": (
        [document({"a": None}, probe=0), document({"a": 1}, probe=1)],
        [document({"a": 1}, probe=0), document({"a": None}, probe=1)],
        [("ERR", "empty", None, 1, 0)],
    ),
    "some are empty": (
        [document({"a": 1}, probe=0), document({"a": 1}, probe=1)],
        [document({"a": None}, probe=0), document({"a": 1}, probe=1)],
        [("WARN", "empty", None, 1, 0)],
    ),
    "a table without rows loses a column": (
        [table([], ["a", "b. c"])],
        [table([], ["a"])],
        [("ERR", "column_removed", "b. c", "b. c", None)],
    ),
    "a table without rows loses all columns": ([table([], ["a"])], [table([])], []),
    "always empty": ([table([], ["a"])], [table([], ["a", "b"])], []),
    "far too deep to read": documents(
        PRICE,
        {"a": {"a": json.loads('{"a":' * 200 + "1" + "}" * 200)}},
        ("ERR", "path_removed", "more", "more", None),
        ("ERR", "path_removed", "price", "price", None),
        ("ERR", "path_removed", "symbol", "symbol", None),
        ("INFO", "path_added", "a", None, "a"),
    ),
    # columns
    "a column goes": tables(
        market(),
        without(market(seed="b"), "industry"),
        ("ERR", "column_removed", "industry", "industry", None),
    ),
    "a column comes": tables(
        without(market(), "industry"),
        market(seed="b"),
        ("INFO", "column_added", "industry", None, "industry"),
    ),
    "a column without values stays": (
        [table(each(market(), lambda _: {"note": None}))],
        [table(market(seed="b"), ["code", "price", "industry", "note"])],
        [],
    ),
    "another name, the same values": tables(
        history(),
        renamed(history(), "close", "收盘"),
        ("ERR", "column_renamed", "close", "close", "收盘"),
    ),
    "a similar name, values that moved": tables(
        market(),
        renamed(market(seed="b"), "price", "lastPrice"),
        ("ERR", "column_renamed", "price", "price", "lastPrice"),
    ),
    "another name and other values": tables(
        market(),
        each(without(market(), "price"), lambda _: {"remark": "none so far"}),
        ("ERR", "column_removed", "price", "price", None),
        ("INFO", "column_added", "remark", None, "remark"),
    ),
    # paths
    "a path goes": documents(
        PRICE,
        {"symbol": "A", "price": 1.6, "more": {"bid": 1.5}},
        ("ERR", "path_removed", "more.ask", "more.ask", None),
    ),
    "an object goes": documents(
        PRICE, {"symbol": "A", "price": 1.6}, ("ERR", "path_removed", "more", "more", None)
    ),
    "an optional path goes": documents(
        reports(40, 0.5),
        reports(40, 0.0, "b"),
        ("WARN", "path_removed", "data[].image", "data[].image", None),
    ),
    "an optional path is rare": documents(reports(10, 0.3), reports(10, 0.0, "b")),
    "a path comes": documents(
        {"symbol": "A", "price": 1.6}, PRICE, ("INFO", "path_added", "more", None, "more")
    ),
    # type_changed
    "numbers as texts": tables(
        market(),
        each(market(seed="b"), lambda row: {"price": str(row["price"])}),
        ("ERR", "type_changed", "price", "number", "number as text"),
    ),
    "some numbers as texts": tables(
        market(),
        put(market(), "price", "?", lambda row: row["code"] < "600012"),
        ("WARN", "type_changed", "price", "number", "text"),
    ),
    "dates are written otherwise": tables(
        history(),
        each(history(), lambda row: {"date": row["date"].replace("-", "/")}),
        ("ERR", "type_changed", "date", "date 9-9-9", "date 9/9/9"),
    ),
    "a table becomes a document": (
        [table(market())],
        [document(market())],
        [("ERR", "type_changed", None, "a table", "a document")],
    ),
    "whole and decimal numbers": documents({"price": 2}, {"price": 2.1}),
    # null_share
    "all are missing": tables(
        history(),
        each(history(), lambda _: {"close": None}),
        ("ERR", "null_share", "close", 0.0, 1.0),
    ),
    "a third is missing": tables(
        market(),
        put(market(), "price", "", lambda row: row["code"] <= "600019"),
        ("WARN", "null_share", "price", 0.0, 0.3333),
    ),
    "fewer are missing": tables(
        each(market(), lambda row: {"price": None if row["code"] < "600030" else 1.5}),
        each(market(), lambda _: {"price": 1.5}),
        ("INFO", "null_share", "price", 0.5, 0.0),
    ),
    "one is missing": tables(
        market(),
        put(market(), "price", "", lambda row: row["code"] <= "600000"),
    ),
    # row_count
    "fewer rows": tables(market(60), market(30, seed="b"), ("WARN", "row_count", None, 60, 30)),
    "more records of a document": documents(
        {"data": market(20)}, {"data": market(60)}, ("WARN", "row_count", "data[]", 20, 60)
    ),
    "some fewer rows": tables(market(60), market(50, seed="b")),
    "a history grew": tables(history(60), history(120, 60)),
    # unit_changed
    "another unit": tables(
        market(),
        each(market(seed="b"), lambda row: {"price": row["price"] * 1e4}),
        ("ERR", "unit_changed", "price", ..., ...),
    ),
    "another unit of one value": documents(
        {"price": 12.5}, {"price": 1262}, ("WARN", "unit_changed", "price", 12.5, 1262.0)
    ),
    "another unit of new dates alone": tables(
        history(60),
        [*history(60), *history(10, 10, times=1_000)],
        ("ERR", "unit_changed", "close", ..., ...),
    ),
    "percent becomes a fraction on a day on which all fell": tables(
        changes(0.2),
        [{**row, "chg": row["chg"] / 100} for row in changes(-3.0, "b")],
        ("ERR", "unit_changed", "chg", ..., ...),
    ),
    "a day on which all fell and moved more": tables(changes(0.2), changes(-3.0, "b", 2.6)),
    "another currency": documents(
        QUOTE,
        QUOTE | {"currency": "CNY", "price": 88.1, "bid": 88.0},
        ("ERR", "unit_changed", "currency", "USD", "CNY"),
    ),
    "another unit in words, of some records": tables(
        each(market(), lambda _: {"unit": "kg"}),
        each(market(), lambda row: {"unit": "lb" if row["code"] < "600010" else "kg"}),
        ("WARN", "unit_changed", "unit", "kg", "lb"),
    ),
    "a split by ten": tables(
        history(),
        each(history(), lambda row: {"close": round(row["close"] / 10, 4)}),
        ("WARN", "restated", "close", CLOSE, SPLIT),
    ),
    "one value jumped": tables(
        market(),
        each(
            market(),
            lambda row: {"price": row["price"] * (1e4 if row["code"] == "600007" else 1)},
        ),
    ),
    # distribution
    "another distribution": tables(
        without(market(200), "industry"),
        [
            {
                "code": f"{600_000 + n}",
                "price": round(luck(f"x{n}").lognormvariate(4, 2), 2),
            }
            for n in range(200)
        ],
        ("WARN", "distribution", "price", ..., ...),
    ),
    "all prices moved": tables(market(200), market(200, 1.15, "b")),
    "other stocks of the same kind": tables(
        without(market(200), "code"), without(market(400), "code")[200:]
    ),
    "numbers of news rise": documents(
        [{"id": n, "score": 1} for n in range(100, 140)],
        [{"id": n, "score": 1} for n in range(900, 940)],
    ),
    # identity_changed
    "another symbol": documents(
        QUOTE,
        QUOTE | {"symbol": "B", "price": 88.1, "bid": 88.0},
        ("WARN", "identity_changed", "symbol", "A", "B"),
    ),
    "a list of one record that was asked for": (
        [document({"data": [QUOTE]}, probe="A")],
        [document({"data": [QUOTE | {"symbol": "B", "price": 0}]}, probe="A")],
        [
            ("WARN", "identity_changed", "data[].symbol", "A", "B"),
            ("WARN", "invalid", "data[].price", 12.5, 0),
        ],
    ),
    "a list of the newest record": documents(
        {"data": [QUOTE]}, {"data": [QUOTE | {"symbol": "B", "price": 88.1}]}
    ),
    # invalid
    "a third is 0": tables(
        market(),
        put(market(seed="b"), "price", 0, lambda row: row["code"] <= "600019"),
        ("WARN", "invalid", "price", 0.0, 0.3333),
    ),
    "a third of the past is -1": tables(
        history(),
        put(history(), "close", -1, lambda row: row["date"] <= days(60)[19]),
        ("WARN", "invalid", "close", 0.0, ...),
    ),
    "new dates are -999": tables(
        history(),
        [*history(), *each(history(10, 10), lambda _: {"volume": -999})],
        ("WARN", "invalid", "volume", 0.0, 1.0),
    ),
    "some are 0, as some were": tables(
        each(market(), lambda row: {"lots": int(row["code"]) % 7}),
        each(market(seed="b"), lambda row: {"lots": int(row["code"]) % 3}),
    ),
    "two prices are 0": tables(
        market(),
        put(market(seed="b"), "price", 0, lambda row: row["code"] <= "600001"),
    ),
    "a price below 0": documents(
        QUOTE, QUOTE | {"price": -12.5}, ("WARN", "invalid", "price", 12.5, -12.5)
    ),
    "nobody bids": documents(QUOTE, QUOTE | {"bid": 0}),
    # permuted
    "values of other codes": tables(
        each(market(), lambda row: {"size": int(row["price"] * 1e6)}),
        shuffled(each(market(), lambda row: {"size": int(row["price"] * 1e6)}), "size"),
        ("WARN", "permuted", "size", ..., ...),
    ),
    "codes of other values": tables(
        without(market(), "industry"),
        shuffled(without(market(), "industry"), "code"),
        ("WARN", "permuted", "price", ..., ...),
    ),
    "a third of the prices moved, and of other codes": tables(
        market(90),
        shuffled(market(90, 1.1, "b"), "price", 1 / 3),
        ("WARN", "permuted", "price", ..., ...),
    ),
    "ranks of other codes": tables(
        ranked(market(), "place"), shuffled(ranked(market(seed="b"), "place"), "place")
    ),
    # categories
    "other words": tables(
        market(200),
        each(market(200), lambda row: {"industry": row["industry"].replace("bank", "Bank")}),
        ("WARN", "categories", "industry", ..., ...),
    ),
    "a word more": tables(
        market(200),
        put(market(200), "industry", "gas", lambda row: row["code"] < "600040"),
        ("INFO", "categories", "industry", ..., ...),
    ),
    # gap
    "dates are missing": tables(
        history(60),
        [row for row in history(60) if row["date"] not in days(60)[20:23]],
        ("WARN", "gap", "date", 60, 57),
    ),
    "a window rolled on": tables(history(60), history(60, 10)),
    "the newest date is not there yet": tables(history(60), history(60)[:-1]),
    # restated
    "a past value": tables(
        history(),
        put(history(), "close", 9.99, lambda row: row["date"] == FIRST),
        ("WARN", "restated", "close", CLOSE, 9.99),
    ),
    "a past value among many": tables(
        history(200),
        put(history(200), "close", 9.99, lambda row: row["date"] == FIRST),
        ("INFO", "restated", "close", CLOSE, 9.99),
    ),
    "a past value of one of several a day": tables(
        events(),
        put(events(), "price", 1.0, lambda row: row["n"] == 3),
        ("WARN", "restated", "price", ..., 1.0),
    ),
    "a word of one day stands on another event": tables(
        events(), each(events("b", 10), lambda row: {"name": row["name"] if row["n"] else "a30"})
    ),
    "the newest value is provisional": tables(
        history(),
        put(history(), "close", 9.99, lambda row: row["date"] == LAST),
    ),
    "rounded": tables(history(), each(history(), lambda row: {"close": round(row["close"], 1)})),
    "dates moved by a day": tables(
        history(), moved(history(), 1), ("WARN", "restated", "date", FIRST, days(60, 1)[0])
    ),
    "dates of three days moved by a day": tables(
        without(history(3), "volume"),
        moved(without(history(3), "volume"), 1),
        ("WARN", "restated", "close", ..., ...),
    ),
    "dates of a chart moved by a day": documents(
        {"history": {row["date"]: {"close": row["close"]} for row in history()}},
        {"history": {row["date"]: {"close": row["close"]} for row in moved(history(), -1)}},
        ("WARN", "restated", "history.*.*", FIRST, days(60, -1)[0]),
    ),
    "first days moved by a day": tables(
        listed(),
        moved(listed(), -1, "listed"),
        ("WARN", "restated", "listed", "2020-01-01", "2019-12-31"),
    ),
    "days to come moved with today": documents(
        [{"due": d, "rate": luck(f"{n}").random()} for n, d in enumerate(days(20, 40))],
        [{"due": d, "rate": luck(f"{n}").random()} for n, d in enumerate(days(20, 41))],
    ),
    "one in ten first days is another": tables(listed(), moved(listed(), 1, "listed", 54)),
    "numbers of rows in a window that rolled on": tables(
        ranked(history()), ranked(history(65, 10))
    ),
    "bars of a chart by date": documents(
        {"history": {row["date"]: {"close": row["close"]} for row in history()}},
        {
            "history": {
                row["date"]: {"close": row["close"] * 1.5}
                for row in history(70, 10)
                if row["date"] != days(60)[5]
            }
        },
        ("WARN", "gap", "history.*.*", 60, 59),
        ("WARN", "restated", "history.*.close", ..., ...),
    ),
    # order
    "newest first": tables(
        history(), history()[::-1], ("WARN", "order", "date", "oldest first", "newest first")
    ),
    "columns in another order": tables(
        market(),
        [dict(reversed(row.items())) for row in market()],
        ("INFO", "order", None, ["code", "price", "industry"], ["industry", "price", "code"]),
    ),
    "a ranking": tables(
        sorted(market(), key=lambda row: row["price"]),
        sorted(market(seed="b"), key=lambda row: row["price"]),
    ),
    # latency
    "slow": (
        probes(partial(document, PRICE), 100, 110, 90),
        probes(partial(document, PRICE), 400, 300, 500),
        [("WARN", "latency", None, 100.0, 400.0)],
    ),
    "slow once": (
        probes(partial(document, PRICE), 100, 110, 90),
        probes(partial(document, PRICE), 400, 120, 500),
        [],
    ),
    "slow within a blink": (
        probes(partial(document, PRICE), 10, 11, 9),
        probes(partial(document, PRICE), 40, 30, 50),
        [],
    ),
    # stale, of tools that answer daily
    DAILY[0]: (
        [table(history())],
        [table(history(), at=LATER)],
        [("WARN", "stale", "date", LAST, LAST)],
    ),
    DAILY[1]: ([table(history())], [table(history(60, 28), at=LATER)], []),
    DAILY[2]: ([table(history(60, -60))], [table(history(60, -60), at=LATER)], []),
    "a quote of another year": documents(
        QUOTE, QUOTE | {"asOf": "2019-01-02"}, ("WARN", "stale", "asOf", "2026-06-29", "2019-01-02")
    ),
    "a history of another year": tables(
        history(), history(60, -900), ("WARN", "stale", "date", LAST, days(60, -900)[-1])
    ),
    "a quote of the day before": documents(QUOTE, QUOTE | {"asOf": "2026-06-28"}),
    # names with marks of a path, and without a letter
    "columns with dots": tables(
        each(market(), lambda row: {"1. x": row["code"], "v. a": 1, "v. b": 2, "c[]": 3}),
        market(seed="b"),
        ("ERR", "column_removed", "1. x", "1. x", None),
        ("ERR", "column_removed", "c[]", "c[]", None),
        ("ERR", "column_removed", "v. a", "v. a", None),
        ("ERR", "column_removed", "v. b", "v. b", None),
    ),
    "a name with a dot becomes two names": documents(
        {"a.b": 1, "c": 1},
        {"a": {"b": 1}, "c": 1},
        ("ERR", "path_removed", "a.b", "a.b", None),
        ("INFO", "path_added", "a", None, "a"),
    ),
    "shown alike": documents(
        {"a.b": 1, "a": {"b": 1, "c": 1}, "c": 1},
        {"a": {"c": 1}, "c": 1},
        *[("ERR", "path_removed", "a.b", "a.b", None)] * 2,
    ),
    "the whole is a text": documents(1, "one", ("ERR", "type_changed", "", "number", "text")),
    "an empty name": documents(
        {"": 1, "a": {"": 1, "b": 1}},
        {"a": {"b": 1}},
        ("ERR", "path_removed", "", "", None),
        ("ERR", "path_removed", "a.", "a.", None),
    ),
    # what is no change
    "another revision of the manifest": (
        [document(PRICE)],
        [document(PRICE, revision="1" * 16)],
        [],
    ),
    "only before": ([document(PRICE, probe=1), document(PRICE)], [document(PRICE)], []),
    "only after": ([document(PRICE)], [document(PRICE, probe=1), document(PRICE)], []),
}


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One comparison of all cases, each of which is a tool."""
    folder = tmp_path_factory.mktemp("checks")
    sides = [
        snapshot(folder / "before", [make(t) for t, case in CASES.items() for make in case[0]]),
        snapshot(folder / "after", [make(t) for t, case in CASES.items() for make in case[1]]),
    ]
    done = finbench("drift", "diff", *map(str, sides), "--json")
    assert done.returncode == 0, done.stderr
    content: dict[str, Any] = json.loads(done.stdout)
    return content


@pytest.fixture(scope="module")
def found(compared: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The findings by tool."""
    by_tool = defaultdict(list)
    for finding in compared["findings"]:
        by_tool[finding["tool"]].append(finding)
    return by_tool


@pytest.mark.parametrize("tool", CASES)
def test_what_is_found(tool: str, found: dict[str, list[dict[str, Any]]]) -> None:
    expected = CASES[tool][2]
    some = sorted(found[tool], key=lambda f: (f["level"], f["check"], f["column"] or ""))
    names = ("level", "check", "column", "before", "after")
    assert [tuple(f[name] for name in names[:3]) for f in some] == [e[:3] for e in expected]
    for finding, wanted in zip(some, expected, strict=True):
        for name, value in zip(names, wanted, strict=True):
            assert value is ... or finding[name] == value
        assert finding["text"]


def test_an_empty_name_and_the_whole_are_said_in_words(
    found: dict[str, list[dict[str, Any]]],
) -> None:
    texts = [finding["text"] for finding in found["an empty name"]]
    assert texts == ['path "" (the empty name) is gone', 'path a."" is gone']
    (one,) = found["the whole is a text"]
    assert one["text"] == "the document was number and is text"


def test_every_check_has_a_case() -> None:
    assert {found[1] for _, _, some in CASES.values() for found in some} == {*CHECKS}


def test_what_is_counted(compared: dict[str, Any]) -> None:
    calls = compared["calls"]
    assert (calls["only_before"], calls["only_after"]) == (1, 1)
    assert calls["not_measured"] == 3
    assert calls["in_part"] == 0
    both = sum(min(map(len, case[:2])) for case in CASES.values())
    assert calls["in_both"] == both
    assert [row["findings"] for row in compared["counts"]]
    total = sum(row["findings"] for row in compared["counts"])
    assert total == len(compared["findings"]) == sum(len(case[2]) for case in CASES.values())
    levels = [finding["level"] for finding in compared["findings"]]
    assert levels == sorted(levels, key=("ERR", "WARN", "INFO").index)
    assert len({finding["id"] for finding in compared["findings"]}) == total

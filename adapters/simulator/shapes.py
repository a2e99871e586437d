"""Building blocks of the made-up upstream payloads: requests, ranges of days, file encodings.

Prices and figures of the economy come from the world, so that all requests read the same ones; what
is left comes from the random numbers of the request. Open ranges end on the world's day.
"""

import io
import json
import random
import re
import struct
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache, partial
from itertools import groupby
from typing import Any
from xml.sax.saxutils import escape

from adapters.simulator.world.calendar import Exchange, between
from adapters.simulator.world.world import Bar, World


@dataclass(frozen=True, slots=True)
class Reply:
    """The body of one upstream answer and its content type."""

    body: bytes
    content_type: str = "application/json"
    status: int = 200


class Luck(random.Random):
    """The random numbers of one request, and the world that it is about."""

    def __init__(self, seed: str, world: World, path: str = "") -> None:
        super().__init__(seed)
        self.world = world
        self.path = path

    def about(self, *names: object) -> "Luck":
        """The random numbers of a fact, whichever request asks for it."""
        return Luck(f"{self.world.seed} {names}", self.world)


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it would reach `host`; `has_key` says whether it carries a RapidAPI key."""

    host: str
    path: str
    query: "Query"
    rng: Luck
    has_key: bool


# Answers the requests to one provider's hosts; None for the requests of others.
Simulation = Callable[[Request], Reply | None]
# Answers one request. `query` holds the URL query and, for POST, the form fields; the last value of
# a name wins.
Payload = Callable[[Mapping[str, str], Luck], Reply]
Query = Mapping[str, str]
Row = Mapping[str, object]
Facts = dict[str, object]

MOST = 250  # bars in one answer, if it was not asked from which day on
HISTORY = 10_000  # bars where AkShare asks for everything and cuts the range itself
MONEY = {
    "美元": "USD", "英镑": "GBP", "欧元": "EUR", "澳门元": "MOP",
    "泰国铢": "THB", "菲律宾比索": "PHP", "港币": "HKD",
    "瑞士法郎": "CHF", "新加坡元": "SGD", "瑞典克朗": "SEK",
    "丹麦克朗": "DKK", "挪威克朗": "NOK", "日元": "JPY",
    "加拿大元": "CAD", "澳大利亚元": "AUD", "新西兰元": "NZD",
    "韩国元": "KRW",
}  # fmt: skip


# --- dates ---------------------------------------------------------------------------------------


def read_day(text: str | None) -> date | None:
    """Read 20240131 or 2024-01-31; None for a missing or open date such as 0 or 20500000."""
    digits = (text or "").replace("-", "")
    try:
        return date.fromisoformat(digits) if len(digits) == 8 else None
    except ValueError:
        return None


def asked(query: Query, name: str) -> str:
    """Read the value that a data centre filter such as (CODE="x")(DAY>='y') gives a field."""
    found = re.search(rf"\b{name}=[\"']([^\"']*)", query.get("filter", ""))
    return found[1] if found else ""


def bar_days(
    world: World,
    first: date | None = None,
    last: date | None = None,
    most: int = MOST,
    exchange: Exchange = "CN",
) -> tuple[date, ...]:
    """The trading days of a range, oldest first: all from `first` on, or the last `most` if that is
    missing or before 2000.
    """
    days = world.days(exchange)
    is_open = first is None or first.year < 2000  # the functions' own defaults are 1900 to 1990
    found = days[between(days, None if is_open else first, last)]
    return found[-most:] if is_open else found


GROUPED = frozenset({"102", "103"})
"""Eastmoney's numbers of weeks and months."""


def grouped(bars: Sequence[Bar], klt: str) -> list[Bar]:
    """Daily bars as bars of weeks (102) or months (103), each with its last day."""
    if klt not in GROUPED:
        return list(bars)
    groups = groupby(bars, lambda bar: bar.day.isocalendar()[:2] if klt == "102" else bar.day.month)
    found = list[Bar]()
    for _, group in groups:
        days = list(group)
        high, low = max(bar.high for bar in days), min(bar.low for bar in days)
        before = found[-1].close if found else days[0].before
        volume = sum(bar.volume for bar in days)
        ends = days[-1]
        found.append(Bar(ends.day, days[0].open, high, low, ends.close, before, volume))
    return found


def months(world: World, count: int, step: int = 1) -> list[date]:
    """The first days of `count` months up to the world's, `step` months apart, oldest first."""
    top = world.now.year * 12 + world.now.month - 1
    return [date(n // 12, n % 12 + 1, 1) for n in range(top - (count - 1) * step, top + 1, step)]


# --- rows ----------------------------------------------------------------------------------------


@cache
def _fields(text: str) -> tuple[tuple[str, str, Callable[[Any], object] | None], ...]:
    """The key of each value of a row, its fact, and what writes it."""
    found = list[tuple[str, str, Callable[[Any], object] | None]]()
    for word in text.split():
        if word.startswith("-"):
            found += [(f"F{len(found) + n}", "", None) for n in range(int(word[2:] or 1))]
            continue
        name, _, fact = word.rpartition("=")
        fact, _, how = fact.partition(":")
        found.append((name or f"F{len(found)}", fact, _writer(how) if how else None))
    return tuple(found)


def _writer(how: str) -> Callable[[Any], object]:
    if how.isdecimal():
        return partial(round, ndigits=int(how) or None)
    return str if how == "s" else f"{{:{how}}}".format


def row_of(fields: str, facts: Mapping[str, object]) -> dict[str, object]:
    """A row by its fields. A field is the key of a value and the fact that it has: `EPS=eps`. The
    fact may be rounded, `EPS=eps:2`, to a whole number, `EPS=eps:0`, or written as text,
    `EPS=eps:s` or `EPS=eps:.2f`. A fact without a key has one by its place.
    """
    return {
        name: facts.get(fact) if write is None else write(facts[fact])
        for name, fact, write in _fields(fields)
    }


def bar_facts(world: World, key: str, bars: Sequence[Bar]) -> Iterator[Facts]:
    """What rows tell of each bar of an instrument: `date` is its day as text, `move` and `percent`
    are its change, `paid` is what was paid in it, `hundreds` is its volume in units, where that is
    in lots of a hundred.
    """
    one = world.instrument(key)
    for bar, paid in zip(bars, world.paid(key, bars), strict=True):
        yield {
            "key": key, "code": one.code, "name": one.name, **bar._asdict(), "date": str(bar.day),
            "move": bar.close - bar.before, "percent": bar.change, "paid": paid,
            "hundreds": bar.volume * 100,
        }  # fmt: skip


def bar_rows(fields: str, world: World, key: str, bars: Sequence[Bar]) -> list[Row]:
    return [row_of(fields, facts) for facts in bar_facts(world, key, bars)]


# --- encodings -----------------------------------------------------------------------------------


def to_json(content: object) -> str:
    """JSON the way the upstreams write it, in plain UTF-8."""
    return json.dumps(content, ensure_ascii=False)


def as_json(content: object) -> Reply:
    return Reply(to_json(content).encode())


def as_text(text: str, kind: str = "text/html", charset: str = "utf-8") -> Reply:
    """Text of any kind; what the character set lacks is a question mark."""
    return Reply(text.encode(charset, "replace"), f"{kind}; charset={charset}")


def script(text: str) -> Reply:
    return as_text(text, "application/javascript")


def as_csv(rows: Iterable[Sequence[object]]) -> Reply:
    """Encode comma-separated text."""
    text = "".join(",".join(map(str, row)) + "\n" for row in rows)
    return Reply(text.encode(), "text/csv; charset=utf-8")


def as_page(*parts: str) -> Reply:
    """A page in HTML."""
    return as_text(f"<html><body>{''.join(parts)}</body></html>")


def html_table(rows: Sequence[Sequence[object]], head: Sequence[object] = ()) -> str:
    """A table in HTML, below its head."""
    lines = ["".join(f"<td>{escape(str(cell))}</td>" for cell in row) for row in rows]
    lines[:0] = ["".join(f"<th>{name}</th>" for name in head)] if head else []
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def sheet(
    tables: Iterable[Sequence[Sequence[object]]], *, has_head: bool = False, charset: str = "gbk"
) -> Reply:
    """A page of tables; their first rows may be heads."""
    text = "".join(html_table(t[1:], t[0]) if has_head else html_table(t) for t in tables)
    page = f'<html><head><meta charset="{charset}"></head><body>{text}</body></html>'
    return as_text(page, charset=charset)


def as_xls(rows: Sequence[Sequence[str | float]]) -> Reply:
    """Encode one sheet as a BIFF2 stream, the oldest .xls, with texts in GBK."""
    records = [(0x09, struct.pack("<HH", 7, 0x10)), (0x42, struct.pack("<H", 936))]
    for at, row in enumerate(rows):
        for column, value in enumerate(row):
            place = struct.pack("<HH3x", at, column)
            if isinstance(value, str):
                text = value.encode("gbk", "replace")[:255]
                records.append((0x04, place + struct.pack("<B", len(text)) + text))
            else:
                records.append((0x03, place + struct.pack("<d", value)))
    records.append((0x0A, b""))
    body = b"".join(struct.pack("<HH", code, len(data)) + data for code, data in records)
    return Reply(body, "application/vnd.ms-excel")


def as_xlsx(rows: Sequence[Sequence[str | float]]) -> Reply:
    """Encode one sheet as the smallest .xlsx that Excel readers accept."""
    base = "http://schemas.openxmlformats.org/"
    office, parts = base + "officeDocument/2006/relationships", base + "package/2006/"
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml."
    cells = "".join(
        "<row>"
        + "".join(
            f'<c t="inlineStr"><is><t>{escape(value)}</t></is></c>'
            if isinstance(value, str)
            else f"<c><v>{value}</v></c>"
            for value in row
        )
        + "</row>"
        for row in rows
    )
    files = {
        "[Content_Types].xml": f'<Types xmlns="{parts}content-types">'
        '<Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{kind}sheet.main+xml"/>'
        f'<Override PartName="/xl/sheet.xml" ContentType="{kind}worksheet+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{parts}relationships"><Relationship Id="r1" '
        f'Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{parts}relationships"><Relationship '
        f'Id="r1" Type="{office}/worksheet" Target="sheet.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{base}spreadsheetml/2006/main" xmlns:r="{office}">'
        '<sheets><sheet name="EPU" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/sheet.xml": f'<worksheet xmlns="{base}spreadsheetml/2006/main">'
        f"<sheetData>{cells}</sheetData></worksheet>",
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text)  # ZipInfo keeps a fixed date
    return Reply(buffer.getvalue(), f"{kind}sheet")

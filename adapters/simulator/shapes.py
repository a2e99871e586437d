"""Building blocks of the made-up upstream payloads: bar days, random walks, file encodings.

Every value comes from the given random generator, so equal requests get equal answers. Open ranges
end at `BASE`, the day that these upstreams treat as today.
"""

import io
import json
import random
import struct
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import NamedTuple
from xml.sax.saxutils import escape


@dataclass(frozen=True, slots=True)
class Reply:
    """The body of one upstream answer and its content type."""

    body: bytes
    content_type: str = "application/json"
    status: int = 200


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it would reach `host`; `has_key` says whether it carries a RapidAPI key."""

    host: str
    path: str
    query: "Query"
    rng: random.Random
    has_key: bool


# Answers the requests to one provider's hosts; None for the requests of others.
Simulation = Callable[[Request], Reply | None]
# Answers one request. `query` holds the URL query and, for POST, the form fields; the last value of
# a name wins.
Payload = Callable[[Mapping[str, str], random.Random], Reply]
Query = Mapping[str, str]
Row = Mapping[str, object]

BASE = date(2026, 6, 30)  # the "today" of these upstreams
FIRST = date(1990, 12, 19)  # the first bar day
MOST = 250  # bars in one answer, if it was not asked from which day on
HISTORY = 2900  # bars where AkShare asks for everything and cuts the range itself
STOCKS = [
    ("600901", "样本银行", "银行"),
    ("600902", "样本电力", "电力"),
    ("600903", "样本钢铁", "钢铁"),
    ("603904", "样本食品", "食品饮料"),
    ("603905", "样本家居", "家用轻工"),
    ("688906", "样本芯片", "半导体"),
    ("000907", "样本地产", "房地产"),
    ("000908", "样本汽车", "汽车整车"),
    ("002909", "样本软件", "软件开发"),
    ("002910", "样本医药", "化学制药"),
    ("300911", "样本光伏", "光伏设备"),
    ("300912", "样本传媒", "文化传媒"),
]
MONEY = {
    "美元": ("USD", 712.0), "英镑": ("GBP", 920.0), "欧元": ("EUR", 790.0), "澳门元": ("MOP", 88.0),
    "泰国铢": ("THB", 20.5), "菲律宾比索": ("PHP", 12.4), "港币": ("HKD", 91.0),
    "瑞士法郎": ("CHF", 830.0), "新加坡元": ("SGD", 540.0), "瑞典克朗": ("SEK", 69.0),
    "丹麦克朗": ("DKK", 105.0), "挪威克朗": ("NOK", 67.0), "日元": ("JPY", 4.8),
    "加拿大元": ("CAD", 520.0), "澳大利亚元": ("AUD", 470.0), "新西兰元": ("NZD", 430.0),
    "韩国元": ("KRW", 0.52),
}  # fmt: skip


class Bar(NamedTuple):
    """One price bar; `before` is the previous close, `volume` counts traded units."""

    day: date
    open: float
    high: float
    low: float
    close: float
    before: float
    volume: int

    @property
    def change(self) -> float:
        """Percent change on the previous close."""
        return (self.close / self.before - 1) * 100


# --- dates, walks and encodings ------------------------------------------------------------------


def read_day(text: str | None) -> date | None:
    """Read 20240131 or 2024-01-31; None for a missing or open date such as 0 or 20500000."""
    digits = (text or "").replace("-", "")
    try:
        return date.fromisoformat(digits) if len(digits) == 8 else None
    except ValueError:
        return None


def closes(day: date, klt: str) -> bool:
    """Tell whether a bar ends on this day: each weekday, each Friday or a month's last weekday."""
    if klt == "103":
        after = day + timedelta(days=3 if day.weekday() == 4 else 1)
        return day.weekday() < 5 and after.month != day.month
    return day.weekday() == 4 if klt == "102" else day.weekday() < 5


def bar_days(
    first: date | None = None, last: date | None = None, most: int = MOST, klt: str = "101"
) -> list[date]:
    """List the bar days of a range, oldest first: all from `first` on; the last `most` if that is
    missing, before the first bar or in the future.
    """
    if last is None or (last > BASE and (first is None or first <= BASE)):
        last = BASE
    floor, found = max(first or FIRST, FIRST), list[date]()
    is_whole = first == floor <= BASE
    while last >= floor and (is_whole or len(found) < most):
        if closes(last, klt):
            found.append(last)
        last -= timedelta(days=1)
    return found[::-1]


def months(count: int, step: int = 1) -> list[date]:
    """List the first days of `count` months up to BASE, `step` months apart, oldest first."""
    top = BASE.year * 12 + BASE.month - 1
    return [date(n // 12, n % 12 + 1, 1) for n in range(top - (count - 1) * step, top + 1, step)]


def walk(rng: random.Random, count: int, level: float, step: float = 0.015) -> list[float]:
    """Make a random walk around a level, pulled gently back to it."""
    value, path = level * (1 + rng.uniform(-6, 6) * step), list[float]()
    for _ in range(count):
        value += (level - value) * 0.02 + value * max(-3.0, min(3.0, rng.gauss(0, 1))) * step
        path.append(value)
    return path


def price_bars(
    rng: random.Random, days: Sequence[date], level: float, digits: int = 2, size: float = 4e5
) -> list[Bar]:
    """Build consistent price bars whose closes follow a walk."""
    path = [round(value, digits) for value in walk(rng, len(days) + 1, level)]
    bars = list[Bar]()
    for day, before, close in zip(days, path, path[1:], strict=False):
        start = round(before * (1 + rng.gauss(0, 0.004)), digits)
        high = round(max(start, close) * (1 + abs(rng.gauss(0, 0.005))), digits)
        low = round(min(start, close) * (1 - abs(rng.gauss(0, 0.005))), digits)
        volume = max(1, int(size * rng.lognormvariate(0, 0.3)))
        bars.append(Bar(day, start, high, low, close, before, volume))
    return bars


def near(rng: random.Random, **spans: tuple[float, float]) -> dict[str, object]:
    """Draw one number per named span, rounded to two digits."""
    return {name: round(rng.uniform(*span), 2) for name, span in spans.items()}


def as_json(content: object) -> Reply:
    """Encode JSON the way the upstreams do, in plain UTF-8."""
    return Reply(json.dumps(content, ensure_ascii=False).encode())


def as_csv(rows: Iterable[Sequence[object]]) -> Reply:
    """Encode comma-separated text."""
    text = "".join(",".join(map(str, row)) + "\n" for row in rows)
    return Reply(text.encode(), "text/csv; charset=utf-8")


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

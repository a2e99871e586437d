"""Simulated answers that move as real ones do: prices walk, lists turn over, windows roll on.

Nothing here is real. A tool's answers have the columns of its manifest, if it has some; values come
from a generator that is seeded by the tool's name.
"""

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import exp
from typing import Any, Final, Literal

from cache.dates import is_time_name
from manifests import Manifest

START: Final = datetime(2026, 6, 30, 9, tzinfo=UTC)
"""When the first of two snapshots is recorded."""

APART_DAYS: Final = 14
"""Days between the two recordings of a tool."""

DAYS: Final = (START, START + timedelta(days=APART_DAYS))

PROBES: Final = 3

Kind = Literal["series", "cross", "events", "document"]
Role = Literal["price", "amount", "percent", "category", "text", "count", "rank"]

_PRICE = re.compile(
    "(?<![溢差折])价$|(?:价格|净值|收盘|开盘|今开|昨收|最高|最低)$|^(?:price|open|high|low|close)$"
)
_NAMES: Final[Mapping[Role, re.Pattern[str]]] = {
    "percent": re.compile("(?i)%|率|幅|占比|比例|percent|yield|change"),
    "amount": re.compile("(?i)额|市值|资产|收入|利润|规模|量|amount|volume|value|cap"),
    "rank": re.compile("序号|排名|名次|^rank$"),
    "price": _PRICE,
}
"""What names of columns say of their role, the first that fits."""

_CODE = re.compile("(?i:代码|code|symbol|编号)|ID$")
_NAME = re.compile("名称|简称|^name$")
_WORDS = ("银行", "电力", "钢铁", "食品", "芯片", "地产", "汽车", "软件")
_TEXT = ("alpha", "borealis", "cygnus", "dorado", "eridanus", "fornax", "grus", "hydra", "indus")


@dataclass
class Column:
    """A column of a simulated table: what its values are, and the parameters of their law."""

    role: Role
    level: float
    nulls: float
    words: tuple[str, ...]


@dataclass
class Answer:
    """A simulated answer of one call: a table if `columns` is set, else a document."""

    value: Any
    columns: list[str] | None = None
    status: str = "ok"
    latency_ms: float = 100.0
    recorded_at: float = 0.0


@dataclass
class Simulated:
    """The answers of one tool in both snapshots, and what the tests may plant in them."""

    manifest: Manifest
    kind: Kind
    luck: random.Random
    before: list[Answer] = field(default_factory=list)
    after: list[Answer] = field(default_factory=list)
    columns: dict[str, Column] = field(default_factory=dict)
    date: str | None = None

    def named(self, *roles: Role) -> list[str]:
        """The names of the columns with one of these roles."""
        return [name for name, column in self.columns.items() if column.role in roles]

    def prices(self) -> list[str]:
        """The names of the columns that say that they are prices."""
        return [name for name in self.named("price") if _PRICE.search(name)]


def simulate(manifest: Manifest, seed: int) -> Simulated:
    """The answers of a tool, with nothing but the movement that is expected."""
    luck = random.Random(f"{seed} {manifest.name}")  # noqa: S311 - simulation
    kind = _kind_of(manifest, luck)
    tool = Simulated(manifest, kind, luck)
    if kind != "document":
        _set_columns(tool)
    base_ms = luck.uniform(60, 400)
    for probe in range(PROBES):
        values = [copied(value) for value in _MAKERS[kind](tool, probe)]
        for name in tool.named("rank"):
            for value in values:
                for place, row in enumerate(value):
                    row[name] = place + 1
        for value, day, answers in zip(values, DAYS, (tool.before, tool.after), strict=True):
            columns = None if kind == "document" else [*value[0]] if value else []
            at = day + timedelta(seconds=luck.uniform(0, 3600))
            latency_ms = base_ms * luck.lognormvariate(0, 0.2)
            answers.append(Answer(value, columns, "ok", latency_ms, at.timestamp()))
    return tool


def copied(value: Any) -> Any:
    """A JSON value of which nothing is shared with the original."""
    if isinstance(value, dict):
        return {key: copied(inner) for key, inner in value.items()}
    return [copied(inner) for inner in value] if isinstance(value, list) else value


def _kind_of(manifest: Manifest, luck: random.Random) -> Kind:
    if manifest.source == "rapidapi" and not manifest.columns:
        return "document"
    names = [column.name for column in manifest.columns]
    if any(map(is_time_name, names)):
        return luck.choice(("series", "series", "events"))
    return "cross"


def _set_columns(tool: Simulated) -> None:
    luck = tool.luck
    names = list(dict.fromkeys(column.name for column in tool.manifest.columns))[:30]
    values = [n for n in names if not (is_time_name(n) or _CODE.search(n) or _NAME.search(n))]
    if tool.kind != "cross":
        tool.date = next((name for name in names if is_time_name(name)), "日期")
    spare = [f"指标{n}" for n in range(1, 5)]
    for place, name in enumerate([*values, *spare[: max(4 - len(values), 0)]]):
        role = _role(name, place, luck)
        level = exp(luck.uniform(2, 4)) if role == "price" else exp(luck.uniform(14, 20))
        nulls = luck.choice((0.0, 0.0, 0.0, 0.04))
        words = tuple(luck.sample(_WORDS, luck.randint(3, 5)))
        tool.columns[name] = Column(role, level, nulls, words)


def _role(name: str, place: int, luck: random.Random) -> Role:
    if said := next((role for role, names in _NAMES.items() if names.search(name)), None):
        return said
    if place == 2:
        return "category"
    return luck.choice(("price", "price", "amount", "percent", "text", "count"))


def _cell(column: Column, level: float, luck: random.Random) -> Any:
    if column.nulls and luck.random() < column.nulls:
        return None
    match column.role:
        case "price":
            return round(level, 2)
        case "amount":
            return round(level * luck.lognormvariate(0, 0.3), 0)
        case "percent":
            return round(luck.gauss(0, 2.5), 2)
        case "count":
            return luck.randrange(1, 5_000)
        case "category":
            weights = [1 / (place + 1) for place in range(len(column.words))]
            return luck.choices(column.words, weights)[0]
        case _:
            return " ".join(luck.choices(_TEXT, k=3))


def _walk(level: float, count: int, luck: random.Random) -> list[float]:
    path = []
    for _ in range(count):
        level *= exp(luck.gauss(0, 0.012))
        path.append(level)
    return path


def _weekdays(last: datetime, count: int) -> list[str]:
    days: list[str] = []
    while len(days) < count:
        if last.weekday() < 5:
            days.append(last.date().isoformat())
        last -= timedelta(days=1)
    return days[::-1]


def _series(tool: Simulated, _: int) -> tuple[Any, Any]:
    """A window of days that rolls on, or a history that grows; the newest day is provisional."""
    luck, rows = tool.luck, tool.luck.choice((60, 120, 250))
    later = _weekdays(DAYS[1], rows + 10)
    today = START.date().isoformat()
    columns = tool.columns.items()
    paths = {name: _walk(column.level, len(later), luck) for name, column in columns}
    date = tool.date or "日期"
    every = [
        {date: day, **{name: _cell(c, paths[name][place], luck) for name, c in columns}}
        for place, day in enumerate(later)
    ]
    known = sum(day <= today for day in later)
    before = [dict(row) for row in every[:known]]
    for name in tool.named("price", "amount"):
        if (value := before[-1][name]) is not None:
            before[-1][name] = round(value * 0.995, 2)
    start = len(every) - known if luck.random() < 0.5 else 0
    after = every[start:]
    return (before, after) if luck.random() < 0.7 else (before[::-1], after[::-1])


def _cross(tool: Simulated, probe: int) -> tuple[Any, Any]:
    """All things of a market on two days: most are the same, and their values have moved."""
    luck, rows = tool.luck, tool.luck.choice((80, 150, 300))
    codes = [f"{600_000 + 1_000 * probe + n:06d}" for n in range(rows + 6)]
    market = luck.gauss(0, 0.02)
    has_code = luck.random() < 0.8
    before, after = [], []
    for code in codes:
        first: dict[str, Any] = {"代码": code} if has_code else {}
        second = dict(first)
        for name, column in tool.columns.items():
            level = column.level * luck.lognormvariate(0, 0.7)
            first[name] = _cell(column, level, luck)
            move = exp(market + luck.gauss(0, 0.02))
            second[name] = _cell(column, level * move, luck)
            if column.role in ("category", "text", "count") and luck.random() < 0.98:
                second[name] = first[name]
        before.append(first)
        after.append(second)
    before, after = before[:-3], after[3:]
    ranked = luck.choice([None, *tool.named("price", "percent")])
    if ranked is not None:
        for table in (before, after):
            table.sort(key=lambda row: -(row[ranked] or 0.0))
    return before, after


def _events(tool: Simulated, _: int) -> tuple[Any, Any]:
    """The latest events, several a day, newest first; most of them are others two weeks later."""
    luck, rows = tool.luck, tool.luck.choice((40, 80))
    tables = []
    for last in DAYS:
        day = last
        table: list[dict[str, Any]] = []
        while len(table) < rows:
            for _ in range(luck.randint(1, 4)):
                row: dict[str, Any] = {tool.date or "日期": day.date().isoformat()}
                for name, c in tool.columns.items():
                    row[name] = _cell(c, c.level * luck.lognormvariate(0, 0.7), luck)
                table.append(row)
            day -= timedelta(days=1)
        tables.append(table[:rows])
    return tables[0], tables[1]


def _document(tool: Simulated, probe: int) -> tuple[Any, Any]:
    """A document of one of several forms: a quote, news, statements, a chart, rates."""
    forms = (*[_quote] * 3, _news, _statements, _chart, _rates)
    form = forms[int(tool.manifest.revision, 16) % len(forms)]
    return form(tool.luck, probe)


def _moved(value: float, luck: random.Random, by: float = 0.02, digits: int = 2) -> float:
    return round(value * exp(luck.gauss(0, by)), digits)


def _quote(luck: random.Random, probe: int) -> tuple[Any, Any]:
    price, volume = exp(luck.uniform(2, 5)), luck.randrange(10**5, 10**8)
    symbol = f"SIM{probe}"
    made = []
    for day in DAYS:
        last = _moved(price, luck)
        is_open = luck.random() < 0.8
        made.append(
            {
                "symbol": symbol,
                "currency": "USD",
                "price": last,
                "bid": round(last * 0.999, 2) if is_open else 0,
                "ask": round(last * 1.001, 2) if is_open else 0,
                "change": round(luck.gauss(0, 1.5), 2),
                "volume": int(volume * luck.lognormvariate(0, 0.3)),
                "open": _moved(price, luck),
                "summary": {
                    "marketCap": int(_moved(price * 1e9, luck)),
                    "peRatio": _moved(18.5, luck),
                    "dividend": {"rate": 0.88, "yield": _moved(0.51, luck)},
                },
                "asOf": day.isoformat(),
            }
        )
    return made[0], made[1]


def _news(luck: random.Random, _: int) -> tuple[Any, Any]:
    made = []
    for side, day in enumerate(DAYS):
        items = []
        for place in range(25):
            item: dict[str, Any] = {
                "id": str(luck.randrange(10**6, 10**7)),
                "title": " ".join(luck.choices(_TEXT, k=6)),
                "publishedAt": (day - timedelta(hours=3 * place)).isoformat(),
                "commentCount": luck.randrange(0, 300),
                "source": luck.choice(("Reuters", "Bloomberg", "AP")),
            }
            if luck.random() < 0.5:
                item["image"] = f"https://example.com/{luck.randrange(10**6)}.png"
            items.append(item)
        made.append({"data": items, "meta": {"page": 1, "total": 1_000 + 40 * side}})
    return made[0], made[1]


def _statements(luck: random.Random, probe: int) -> tuple[Any, Any]:
    base = exp(luck.uniform(20, 23))
    periods = [
        {
            "endDate": f"{2026 - year}-03-31",
            "income": {
                "revenue": int(_moved(base * 0.9**year, luck)),
                "netIncome": int(_moved(base * 0.2 * 0.9**year, luck)),
                "eps": round(luck.uniform(1, 6), 2),
            },
            "sharesOutstanding": int(_moved(base / 50, luck)),
        }
        for year in range(12)
    ]
    document = {"symbol": f"SIM{probe}", "currency": "USD", "periods": periods}
    return document, {**document, "periods": [dict(p) for p in periods]}


def _chart(luck: random.Random, probe: int) -> tuple[Any, Any]:
    days = _weekdays(DAYS[1], 90)
    path = _walk(exp(luck.uniform(2, 5)), 90, luck)
    bars = {
        day: {
            "open": round(price * 0.998, 2),
            "close": round(price, 2),
            "volume": luck.randrange(10**5, 10**7),
        }
        for day, price in zip(days, path, strict=True)
    }
    today = START.date().isoformat()
    old = {day: bar for day, bar in bars.items() if day <= today}
    new = dict([*bars.items()][10:])
    about = {"symbol": f"SIM{probe}", "timezone": "America/New_York"}
    return {"meta": about, "history": old}, {"meta": dict(about), "history": new}


def _rates(luck: random.Random, _: int) -> tuple[Any, Any]:
    codes = ["EUR", "GBP", "JPY", "CNY", "CHF", "CAD", "AUD", "SEK", "NOK", "HKD", "SGD"]
    rates = {code: exp(luck.uniform(-1, 5)) for code in codes}
    made = []
    for day in DAYS:
        moved = {code: _moved(rate, luck, 0.01, 5) for code, rate in rates.items()}
        made.append(
            {"base": "USD", "date": day.date().isoformat(), "rates": moved, "success": True}
        )
    return made[0], made[1]


_MAKERS: Final[Mapping[Kind, Callable[[Simulated, int], tuple[Any, Any]]]] = {
    "series": _series,
    "cross": _cross,
    "events": _events,
    "document": _document,
}

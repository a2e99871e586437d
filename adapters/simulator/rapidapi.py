"""Documents for RapidAPI endpoints: the path decides the shape, the arguments the subject.

Shapes are plausible but not those of a provider. Prices, rates, statements, holders and events are
those of the world; other figures depend on the subject alone, so that every host says the same of
it. Requested identifiers are repeated.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta

import orjson

from adapters.simulator.shapes import (
    Luck,
    Query,
    Reply,
    Request,
    Simulation,
    as_json,
    read_day,
)
from adapters.simulator.world import companies
from adapters.simulator.world.instruments import CHINA, LISTED
from adapters.simulator.world.world import Bar, World
from manifests import Catalog, Manifest, RapidApiBinding

SUBJECTS = (
    *("symbol", "symbols", "ticker", "ticker_slug", "ticker_slugs", "id", "base"),
    *("from_currency", "query", "uuid", "name"),
)


def simulate(catalog: Catalog) -> Simulation:
    """Answer the hosts of the catalogue by the paths in its manifests."""
    needed = dict[str, list[str]]()
    tools: defaultdict[str, list[tuple[re.Pattern[str], Manifest]]] = defaultdict(list)
    for manifest in catalog:
        if isinstance(manifest.binding, RapidApiBinding):
            pattern = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(manifest.binding.path))
            sent = manifest.binding.query
            needed[manifest.name] = [
                sent[p.name] for p in manifest.parameters if p.required and p.name in sent
            ]
            tools[manifest.binding.host].append((re.compile(pattern), manifest))

    def answer(request: Request) -> Reply | None:
        if request.host not in tools:
            return None
        if not request.has_key:
            return replace(as_json({"message": "Invalid API key"}), status=401)
        for pattern, manifest in tools[request.host]:
            if pattern.fullmatch(request.path):
                made = document(
                    request.path,
                    request.query,
                    request.rng.world,
                    manifest.name,
                    needed[manifest.name],
                )
                return Reply(orjson.dumps(made))
        return None

    return answer


def document(
    path: str, query: Query, world: World, name: str = "", required: Sequence[str] = ()
) -> object:
    """The JSON value for one request to the endpoint of that path and tool. Its subject is the
    first argument that names one, or the first that is required.
    """
    names = (*SUBJECTS, *required)
    subject = next((query[one] for one in names if query.get(one)), path.rsplit("/", 1)[-1])
    hint = f"{path} {name}".lower()
    shape = next((s for words, s in _SHAPES if any(w in hint for w in words.split())), _quote)
    subjects = subject.split(",")[:MOST_SUBJECTS] if shape in _BY_SUBJECT else [subject]
    made = [
        shape(Asked(one, hint, query), Luck(f"{world.seed} {shape.__name__} {one}", world))
        for one in subjects
    ]
    return made[0] if len(made) == 1 else made


MOST_SUBJECTS = 20


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request is about: its `subject` as the caller named it."""

    subject: str
    hint: str
    query: Query

    @property
    def key(self) -> str:
        """The world's key of the subject."""
        code = _ALIASES.get(self.subject, self.subject).strip().upper().lstrip("^$")
        code = _ALIASES.get(code, code)
        if code in LISTED or code.lower() in LISTED:
            return code if code in LISTED else code.lower()
        if found := re.fullmatch(r"(SH|SZ|BJ)[.:]?(\d{6})|(\d{6})\.(SS|SH|SZ|BJ)", code):
            market = (found[1] or found[4]).replace("SS", "SH").lower()
            return f"{market}{found[2] or found[3]}"
        if found := re.fullmatch(r"(?:HK[.:]?)?(\d{4,5})(?:\.HK)?|HK[.:]?(\d{3,5})", code):
            return f"hk{found[1] or found[2]:0>5}"
        if re.fullmatch(r"\d{6}", code):
            for market in ("sz", "sh"):
                if market + code in LISTED:
                    return market + code
            return f"{'sh' if code[0] in '569' else 'sz'}{code}"
        is_coin = "coin" in self.hint or "crypto" in self.hint
        for symbol in (code, re.sub(r"[-/]?USDT?$", "", code)):
            if f"coin:{symbol}" in LISTED and (is_coin or f"us:{symbol}" not in LISTED):
                return f"coin:{symbol}"
        bare = re.split(r"[.:]", code)[0]
        return f"{'coin' if is_coin else 'us'}:{bare}"

    @property
    def pair(self) -> tuple[str, str] | None:
        """Two currencies or coins, if the subject names them."""
        found = re.fullmatch(r"([A-Z]{3,4})[-/_]?([A-Z]{3,4})(?:=X)?", self.subject.upper())
        known = ("fx", "coin")
        if found and all(any(f"{k}:{one}" in LISTED for k in known) for one in found.groups()):
            return found[1], found[2]
        return None

    def bars(self, world: World, number: int) -> list[Bar]:
        """The bars of the subject in the days that are asked for, or the last ones, so many; those
        of a pair in its second one.
        """
        if self.pair is None:
            return self._bars_of(self.key, world, number)
        base, quote = self.pair
        kind = "fx" if f"fx:{base}" in LISTED else "coin"
        found = []
        for bar in self._bars_of(f"{kind}:{base}", world, number):
            by = 1 / world.rate(quote, "USD", bar.day)
            names = ("open", "high", "low", "close", "before")
            prices = {name: round(getattr(bar, name) * by, 6) for name in names}
            found.append(bar._replace(**prices))
        return found

    def _bars_of(self, key: str, world: World, number: int) -> list[Bar]:
        first, last = (_day(self.query, names) for names in (_FIRST, _LAST))
        if number == 1 or first is last is None:
            return world.latest(key, number)
        return world.bars(key, first, last)[-MOST_BARS:]


MOST_BARS = 1_000
_FIRST = ("start", "start_date", "date_start", "startDate", "from", "from_date", "period1")
_LAST = ("end", "end_date", "date_end", "endDate", "to", "to_date", "period2")


def _day(query: Query, names: Sequence[str]) -> date | None:
    """The day of the first of these arguments that is a date or a Unix time."""
    for text in (query.get(name, "") for name in names):
        if (day := read_day(text[:10])) is not None:
            return day
        if re.fullmatch(r"1\d{9}", text):
            return datetime.fromtimestamp(int(text), UTC).date()
    return None


_ALIASES = {
    "Qwsogvtv82FCd": "BTC",
    "BITCOIN": "BTC",
    "razxDUgYGNAdQ": "ETH",
    "ETHEREUM": "ETH",
    "GSPC": "us:SPX",
    "SPX": "us:SPX",
    "HSI": "hkHSI",
    "000300.SS": "sh000300",
}
"""Instruments by the names and numbers that hosts have for them."""


def _now(rng: Luck) -> datetime:
    return datetime.combine(rng.world.now, time(21), UTC)


def _quote(asked: Asked, rng: Luck) -> object:
    bar = asked.bars(rng.world, 1)[-1]
    return {
        "symbol": asked.subject,
        "price": bar.close,
        "change": round(bar.close - bar.before, 4),
        "changePercent": round(bar.change, 2),
        "volume": bar.volume,
        "time": _now(rng).isoformat(),
    }


def _bars(asked: Asked, rng: Luck) -> object:
    bars = [
        {
            "time": bar.day.isoformat(),
            "open": bar.open,
            "high": bar.high,
            "low": bar.low,
            "close": bar.close,
            "volume": bar.volume,
        }
        for bar in asked.bars(rng.world, 60)
    ]
    return {"symbol": asked.subject, "bars": bars}


def _company(asked: Asked) -> str:
    """The key of the share that a request is about; any other subject is a share of New York."""
    key = asked.key
    is_known = re.match(r"us:|hk0|bj|sh6|sz[0-3]", key) is not None
    is_known = is_known and LISTED.get(key, CHINA[0]).kind == "share"
    return key if is_known else f"us:{asked.subject.upper()}"


def _news(asked: Asked, rng: Luck) -> object:
    """The last events of a company, or of the listed shares of New York."""
    world, key = rng.world, _company(asked)
    is_one = re.fullmatch(r"us:[A-Z]{1,5}(\.[A-Z])?|[a-z]{2}\d+", key)
    others = [one.key for one in LISTED.values() if one.kind == "share" and one.exchange == "US"]
    first = world.now - timedelta(1500 if is_one else 60)
    found = [
        event
        for share in ([key] if is_one else others)
        for event in companies.events(world, share, first, world.now)
    ]
    found.sort(key=lambda event: (event.day, event.english), reverse=True)
    return {
        "data": [
            {
                "id": str(rng.about("news", event.english).randrange(10**6, 10**7)),
                "title": event.english,
                "publishedAt": datetime.combine(event.day, time(20), UTC).isoformat(),
                "commentCount": rng.about("comments", event.english).randrange(200),
            }
            for event in found[:10]
        ]
    }


def _statements(asked: Asked, rng: Luck) -> object:
    """The last five years of a company, in the currency of its share."""
    key = _company(asked)
    parts = [part for part in companies.statements(rng.world, key) if part.is_annual]
    periods = [
        {
            "fiscalYear": part.period.year,
            "revenue": part.total["revenue"],
            "netIncome": part.total["net_profit"],
            "totalAssets": part.sheet["assets"],
            "totalLiabilities": part.sheet["liabilities"],
            "totalEquity": part.sheet["equity"],
            "operatingCashFlow": part.total["operating_cash"],
            "dividendsPaid": part.total["dividends"],
            "eps": round(part.total["net_profit"] / part.shares, 4),
        }
        for part in parts[:-6:-1]
    ]
    currency = companies.CURRENCIES[rng.world.instrument(key).exchange]
    return {"symbol": asked.subject, "currency": currency, "periods": periods}


_EXCHANGES = {
    "sh": "SSE",
    "sz": "SZSE",
    "hk": "HKEX",
    "us": "US",
    "coin": "CRYPTO",
    "fx": "FOREX",
    "future": "FUTURES",
}
_TEXTS = ("q", "query", "text", "keyword", "string", "search", "term", "ticker_slug")


def _matches(asked: Asked, rng: Luck) -> object:
    """The listed instruments that a text is in the name or code of, or the one that it names; some
    of them, if nothing is searched for.
    """
    text = next((asked.query[name] for name in _TEXTS if asked.query.get(name)), "").casefold()
    alias = _ALIASES.get(text.upper(), text).casefold()
    found = [
        one
        for one in LISTED.values()
        if any(word in f"{one.code} {one.name}".casefold() for word in (text, alias))
    ]
    found.sort(key=lambda one: (one.code.casefold() not in (text, alias), len(one.name)))
    if not text:
        rng.shuffle(found)
    return [
        {
            "symbol": one.code,
            "name": one.name,
            "exchange": _EXCHANGES.get(re.split(r":|\d|HSI", one.key)[0], "US"),
            "score": round(1 - number / 10, 2),
        }
        for number, one in enumerate((found or [rng.world.instrument(asked.key)])[:8])
    ]


def _holdings(asked: Asked, rng: Luck) -> object:
    """What a fund or an index holds, or who holds a company: percent of the whole."""
    world, key = rng.world, asked.key
    kind = world.instrument(key).kind
    if kind in ("fund", "index") or any(word in asked.hint for word in ("portfolio", "etf")):
        key = key if kind in ("fund", "index") else f"of{asked.subject}"
        worth = {
            member: weight * made.close[-1] * made.factor[-1] / world.instrument(member).level
            for member, weight in world.weights(key).items()
            for made in [world.history(member)]
        }
        whole, day = sum(worth.values()), world.now
        shares = sorted(worth.items(), key=lambda item: -item[1])[:10]
        held = [(world.instrument(one).name, float(100 * part / whole)) for one, part in shares]
    else:
        key = _company(asked)
        day = companies.statements(world, key)[-1].period
        held = [(one.name, one.percent) for one in companies.holders(world, key, day)]
    rows = [{"name": name, "weight": round(weight, 4)} for name, weight in held]
    return {"id": asked.subject, "asOf": day.isoformat(), "holdings": rows}


def _profile(asked: Asked, rng: Luck) -> object:
    """What a company is."""
    about = companies.profile(rng.world, _company(asked))
    return {
        "symbol": asked.subject,
        "name": about.name,
        "sector": about.sector,
        "employees": about.employees,
        "country": about.country,
        "founded": about.listed.year - 10,
    }


def _rate(asked: Asked, rng: Luck) -> object:
    base, quote = asked.pair or (asked.subject.upper(), "USD")
    for name in ("to", "to_currency", "target", "quote", "currency", "symbols"):
        if re.fullmatch(r"[A-Za-z]{3,4}", text := asked.query.get(name, "")):
            quote = text.upper()
            break
    middle = rng.world.rate(base, quote)
    return {
        "base": asked.subject,
        "quote": quote,
        "rate": round(middle, 6),
        "bid": round(middle * 0.9995, 6),
        "ask": round(middle * 1.0005, 6),
        "time": _now(rng).isoformat(),
    }


def _figures(asked: Asked, rng: Luck) -> object:
    return {
        "subject": asked.subject,
        "monthly": round(rng.uniform(200, 4_000), 2),
        "total": round(rng.uniform(10**4, 10**6), 2),
        "percent": round(rng.uniform(0.5, 9), 3),
    }


_BY_SUBJECT = (_quote, _bars, _statements, _holdings, _profile)
"""The shapes of which each subject of a list has its own."""

_SHAPES: tuple[tuple[str, Callable[[Asked, Luck], object]], ...] = (
    ("search auto-complete suggest available list-pairs /pairs", _matches),
    ("news article press transcript comment /analysis trending", _news),
    ("chart hist candle ohlc kline series daily intraday trades", _bars),
    ("balance cash income financial earning dividend split growth ratio", _statements),
    ("holding portfolio exposure etf fund", _holdings),
    ("profile overview about info insider", _profile),
    ("mortgage tax calculator deposit inflation gas amount", _figures),
    ("exchange rate currenc convert latest forex", _rate),
    ("list screener categories companies coins markets", _matches),
)
"""The shape of an endpoint, by words in its path or name: the first match, or a quote if none."""

"""Documents for RapidAPI endpoints: the path decides the shape, the arguments the subject.

Shapes are plausible but not those of a provider. Prices, rates, statements, holders and events are
those of the world; other figures depend on the subject alone, so that every host says the same of
it. Requested identifiers are repeated.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta

import orjson

from adapters.simulator.keys import UnknownError, key_of_code, key_of_name
from adapters.simulator.shapes import (
    Luck,
    Query,
    Reply,
    Request,
    Simulation,
    as_json,
    grouped,
    read_day,
)
from adapters.simulator.world import companies, derivatives
from adapters.simulator.world.calendar import FIRST
from adapters.simulator.world.economy import COUNTRIES, figures, yields
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
        """The world's key of the subject. Raises `UnknownError` for an unknown name."""
        code = _ALIASES.get(self.subject, self.subject).strip().upper().lstrip("^$")
        code = _ALIASES.get(code, code)
        if found := key_of_code(code):
            return found
        is_coin = "coin" in self.hint or "crypto" in self.hint
        for symbol in (code, re.sub(r"[-/]?USDT?$", "", code)):
            if f"coin:{symbol}" in LISTED and (is_coin or f"us:{symbol}" not in LISTED):
                return f"coin:{symbol}"
        if found := key_of_name(self.subject.strip()):
            return found
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
            day = bar.day
            by = 1 / world.rate(quote, "USD", date(day.year, day.month, day.day))
            names = ("open", "high", "low", "close", "before")
            prices = {name: round(getattr(bar, name) * by, 6) for name in names}
            found.append(bar._replace(**prices))
        return found

    def _bars_of(self, key: str, world: World, number: int) -> list[Bar]:
        if number == 1:
            return world.latest(key, 1)
        first, last = (_day(self.query, names) for names in (_FIRST, _LAST))
        size, unit = self.interval
        if first is last is None and (days := self.span(world.now)):
            first = world.now - timedelta(days)
        if unit == "minute":
            known = world.latest(key, 1) if first is last is None else world.bars(key, first, last)
            minutes = (world.minutes(key, day.day, size) for day in known[-MOST_BARS:])
            return [bar for of_day in minutes for bar in of_day][-MOST_BARS:]
        if unit in _GROUPS:
            bars = grouped(world.bars(key, None, last), _GROUPS[unit])
            bars = [bar for bar in bars if first is None or bar.day >= first]
            return bars[-(number if first is last is None else MOST_BARS) :]
        if first is last is None:
            return world.latest(key, number)
        return world.bars(key, first, last)[-MOST_BARS:]

    @property
    def interval(self) -> tuple[int, str]:
        """How long a bar is: a number of minutes, a day, a week or a month."""
        for name, text in self.query.items():
            if _plain(name) in _INTERVALS and (found := _INTERVAL.fullmatch(text.strip())):
                unit = next(unit for unit, text in found.groupdict().items() if text)
                number = int(found[1] or 1)
                if unit == "hour":
                    return number * 60, "minute"
                return max(number, 1), unit
        words = " ".join((self.hint, self.query.get("function", "").lower()))
        return 1, next((unit for unit in _GROUPS if f"{unit}ly" in words), "day")

    def span(self, now: date) -> int:
        """How many days up to now are asked for; 0 if none."""
        for name, text in self.query.items():
            asked, plain = text.strip().lower(), _plain(name)
            found = _RANGE.fullmatch(asked)
            if found and (plain in _RANGES or (plain == "interval" and found["c"])):
                number, unit = int(found["a"] or found["d"]), found["b"] or found["c"]
                return min(max(number * _DAYS[unit], 1), (now - FIRST).days)
            if plain in _RANGES and asked == "ytd":
                return now.timetuple().tm_yday
        return 0


def _plain(name: str) -> str:
    return re.sub("[^a-z]", "", name.lower())


_INTERVALS = frozenset(
    {
        *("interval", "pairinterval", "timebucket", "gran", "granularity", "showby", "resolution"),
        *("timeframe", "period"),
    }
)
"""What hosts call the length of a bar."""

_INTERVAL = re.compile(
    r"(\d*) ?(?:(?P<month>M|1mo|mo|months?|monthly)|(?P<minute>m|mins?|minutes?)"
    r"|(?P<hour>h|H|hours?|hourly)|(?P<day>[dD]|days?|daily)|(?P<week>[wW]k?|weeks?|weekly))"
)
_GROUPS = {"week": "102", "month": "103"}
_RANGES = frozenset({"range", "chartperiod", "timeperiod", "period"})
_RANGE = re.compile(r"(?P<a>\d+)(?P<b>h|d|w|m|mo|y)|(?P<c>[dmy])(?P<d>\d+)")
_DAYS = {"h": 0, "d": 1, "w": 7, "m": 30, "mo": 30, "y": 365}
"""What hosts call a span up to now, such as `1Y`, `6mo` or `m6`."""

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


_CURRENCY_NUMBERS = {
    "12": "USD", "17": "EUR", "3": "GBP", "2": "JPY", "4": "CHF", "15": "CAD", "1": "AUD",
    "8": "NZD", "37": "CNY", "39": "HKD", "189": "BTC",
}  # fmt: skip
"""Currencies by the numbers that Investing.com has for them."""

CURRENCIES = [key.removeprefix("fx:") for key in LISTED if key.startswith("fx:")]

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


def _option_family(key: str) -> str:
    """The options on an instrument, if any."""
    if key.startswith("us:"):
        return key.replace(":", ".", 1)
    known = {"sh000300": "IO", "sh000016": "HO", "sh000852": "MO"}
    return known.get(key) or (key[2:] if key[2:] in derivatives.OPTION_FUNDS else "")


def _expirations(asked: Asked, rng: Luck) -> object:
    family = _option_family(asked.key)
    months = derivatives.option_months(family, rng.world.now) if family else []
    ends = [derivatives.option_expiry(family, month).isoformat() for month in months]
    return {"symbol": asked.subject, "expirations": ends}


def _options(asked: Asked, rng: Luck) -> object:
    """The options of one expiry: that which is asked for, or the nearest."""
    family, world = _option_family(asked.key), rng.world
    months = derivatives.option_months(family, world.now) if family else []
    day = _day(asked.query, ("expiration", "expiration_date", "date", "expiry"))
    ends = {derivatives.option_expiry(family, month): month for month in months}
    end = day if day in ends else min(ends, default=None)
    sides: dict[bool, list[object]] = {True: [], False: []}
    for one in derivatives.chain(world, family, ends[end]) if end else []:
        bar, tick = world.latest(one.key, 1)[-1], 10.0**-one.digits
        sides[one.is_call].append({
            "contract": one.key.partition(":")[2].removeprefix("us."), "strike": one.strike,
            "last": bar.close, "change": round(bar.close - bar.before, 4),
            "bid": round(max(bar.close - tick, 0.0), 4), "ask": round(bar.close + tick, 4),
            "volume": bar.volume, "openInterest": bar.volume * 5,
            "impliedVolatility": round(derivatives.greeks(world, one).volatility, 4),
        })  # fmt: skip
    return {
        "symbol": asked.subject,
        "price": world.close(asked.key),
        "expiration": end.isoformat() if end else None,
        "expirations": [one.isoformat() for one in ends],
        "calls": sides[True],
        "puts": sides[False],
    }


def _company(asked: Asked) -> str:
    """The key of the share that a request is about; any other subject is a share of New York."""
    key = asked.key
    is_known = re.match(r"us:|hk0|bj|sh6|sz[0-3]", key) is not None
    is_known = is_known and LISTED.get(key, CHINA[0]).kind == "share"
    return key if is_known else f"us:{asked.subject.upper()}"


def _news(asked: Asked, rng: Luck) -> object:
    """The last events of a company, or of the listed shares of New York."""
    world, key = rng.world, ""
    with suppress(UnknownError):
        key = _company(asked)
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
    if not found:
        with suppress(UnknownError):
            found = [rng.world.instrument(replace(asked, subject=text or asked.subject).key)]
    return [
        {
            "symbol": one.code,
            "name": one.name,
            "exchange": _EXCHANGES.get(re.split(r":|\d|HSI", one.key)[0], "US"),
            "score": round(1 - number / 10, 2),
        }
        for number, one in enumerate(found[:8])
    ]


def _holdings(asked: Asked, rng: Luck) -> object:
    """What a fund or an index holds, or who holds a company, the largest first: percent of it."""
    world, key = rng.world, asked.key
    kind = world.instrument(key).kind
    if kind in ("fund", "index") or any(word in asked.hint for word in ("portfolio", "etf")):
        weights = world.holdings(key if kind in ("fund", "index") else f"of{asked.subject}")
        day, held = world.now, sorted(weights.items(), key=lambda item: -item[1])
        rows = [
            {"symbol": one.code, "name": one.name, "weight": round(100 * part, 4)}
            for one, part in ((world.instrument(member), part) for member, part in held)
        ]
    else:
        key = _company(asked)
        day = companies.statements(world, key)[-1].period
        rows = [
            {"name": one.name, "weight": round(one.percent, 4)}
            for one in companies.holders(world, key, day)
        ]
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
    base, quote = asked.pair or (_money(asked.subject), "USD")
    for name in ("to", "to_currency", "toCurrency", "target", "quote", "currency", "symbols"):
        text = _money(asked.query.get(name, ""))
        if re.fullmatch(r"[A-Z]{3,4}", text):
            quote = text
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


def _money(text: str) -> str:
    """The code of a currency or coin by a name or number that hosts have for it."""
    upper = text.upper()
    return _CURRENCY_NUMBERS.get(upper) or _ALIASES.get(upper, upper)


def _rates(asked: Asked, rng: Luck) -> object:
    """What a currency is worth in all others."""
    base = _money(asked.query.get("base", "USD") if asked.subject == "rates" else asked.subject)
    rates = {code: round(rng.world.rate(base, code), 6) for code in CURRENCIES}
    return {"base": base, "date": rng.world.now.isoformat(), "rates": rates}


def _currencies(asked: Asked, rng: Luck) -> object:
    """The currencies that have a rate, at most `limit`, and what they are worth in dollars."""
    limit = asked.query.get("limit", "")
    codes = CURRENCIES[: int(limit) if limit.isdecimal() else None]
    rates = [round(rng.world.rate(code, "USD"), 6) for code in codes]
    pairs = zip(codes, rates, strict=True)
    return {"currencies": [{"code": code, "type": "fiat", "usd": rate} for code, rate in pairs]}


def _swap(asked: Asked, rng: Luck) -> object:
    """What an amount of one currency or coin gives in another, after fees in percent."""
    found = re.search(r"/exchange/(\w+)/(\w+)/([\d.]+)", asked.hint)
    base, quote, amount = found.groups() if found else ("usd", "usd", "1")
    fees = sum(float(asked.query.get(name) or 0) for name in ("bfee", "sfee"))
    worth = float(amount) * rng.world.rate(_money(base), _money(quote)) * (1 - fees / 100)
    received = worth - float(asked.query.get("withdraw") or 0)
    return {"from": base, "to": quote, "amount": float(amount), "received": round(received, 6)}


def _least(asked: Asked, rng: Luck) -> object:
    """The smallest amount that may be swapped: two dollars of it."""
    base, quote = asked.pair or ("USD", "USD")
    return {"from": base, "to": quote, "minAmount": round(2 / rng.world.rate(base, "USD"), 8)}


def _inflation(asked: Asked, rng: Luck) -> object:
    """The change of consumer prices by country, as last released."""
    latest = {country: figures(rng.world, country, "CPI")[-1] for country in COUNTRIES}
    return [
        {"country": country, "type": asked.query.get("type") or "CPI"}
        | {"period": f"{one.period:%b %Y}", "released": one.released.isoformat()}
        | {"monthly_rate_pct": one.mom, "yearly_rate_pct": one.yoy}
        for country, one in latest.items()
    ]


def _mortgage(asked: Asked, rng: Luck) -> object:
    """The equal payments of a loan; without a rate, at the yield of thirty years and a spread."""
    sent = {name: float(text) for name, text in asked.query.items() if _is_number(text)}
    loan = sent.get("loan_amount") or sent.get("home_value", 2e5) - sent.get("downpayment", 0.0)
    ((market,),) = yields(rng.world, "US", [rng.world.now], [30], 1.8)
    rate, months = sent.get("interest_rate", market) / 1200, 12 * sent.get("duration_years", 30)
    payment = loan * rate / (1 - (1 + rate) ** -months) if rate else loan / months
    taxes = (sent.get("annual_property_tax", 0.0) + sent.get("annual_home_insurance", 0.0)) / 12
    whole = payment + taxes + sent.get("monthly_hoa", 0.0)
    return {
        "monthly_payment": {"mortgage": round(payment, 2), "total": round(whole, 2)},
        "annual_payment": {"mortgage": round(12 * payment, 2), "total": round(12 * whole, 2)},
        "interest_rate": round(rate * 1200, 4),
        "total_interest_paid": round(payment * months - loan, 2),
    }


def _deposit(asked: Asked, rng: Luck) -> object:
    """What a fixed deposit is worth at its end, with interest each quarter; without a rate, at the
    yield of a year.
    """
    sent = {name: float(text) for name, text in asked.query.items() if _is_number(text)}
    years = sent.get("year", 0.0) + sent.get("month", 0.0) / 12 + sent.get("day", 0.0) / 365
    ((market,),) = yields(rng.world, "US", [rng.world.now], [1])
    amount, rate = sent.get("pa", 0.0), sent.get("rate", market)
    value = amount * (1 + rate / 400) ** (4 * years)
    return {
        "principal": amount,
        "interest": round(value - amount, 2),
        "maturity": round(value, 2),
    }


def _is_number(text: str) -> bool:
    return bool(re.fullmatch(r"\d{1,12}(\.\d{1,9})?", text))


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
    ("option-expirations options/expirations", _expirations),
    ("/op/option /options", _options),
    ("search auto-complete suggest available list-pairs /pairs", _matches),
    ("news article press transcript comment /analysis trending", _news),
    ("chart hist candle ohlc kline series daily intraday trades", _bars),
    ("balance cash income financial earning dividend split growth ratio", _statements),
    ("holding portfolio exposure etf fund", _holdings),
    ("profile overview about info insider", _profile),
    ("inflation", _inflation),
    ("mortgage", _mortgage),
    ("fixed_deposit", _deposit),
    ("min-amount", _least),
    ("tax calculator gas", _figures),
    ("/exchange/", _swap),
    ("get-rate", _rate),
    ("/rates /latest/", _rates),
    ("reference-currencies /currencies", _currencies),
    ("exchange rate currenc convert latest forex", _rate),
    ("list screener categories companies coins markets", _matches),
)
"""The shape of an endpoint, by words in its path or name: the first match, or a quote if none."""

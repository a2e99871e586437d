"""Documents for RapidAPI endpoints: the path decides the shape, the arguments the subject.

Shapes and figures are plausible but not those of a provider; requested identifiers are repeated.
"""

import random
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta

import orjson

from adapters.simulator.shapes import BASE, Reply, Request, Simulation, as_json
from manifests import Catalog, Manifest, RapidApiBinding

NOW = datetime.combine(BASE, time(21), UTC)
SUBJECTS = ("symbol", "symbols", "ticker", "id", "base", "from_currency", "query", "uuid", "name")


def simulate(catalog: Catalog) -> Simulation:
    """Answer the hosts of the catalogue by the paths in its manifests."""
    tools: defaultdict[str, list[tuple[re.Pattern[str], Manifest]]] = defaultdict(list)
    for manifest in catalog:
        if isinstance(manifest.binding, RapidApiBinding):
            pattern = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(manifest.binding.path))
            tools[manifest.binding.host].append((re.compile(pattern), manifest))

    def answer(request: Request) -> Reply | None:
        if request.host not in tools:
            return None
        if not request.has_key:
            return replace(as_json({"message": "Invalid API key"}), status=401)
        for pattern, manifest in tools[request.host]:
            if pattern.fullmatch(request.path):
                return Reply(orjson.dumps(_document(manifest, request)))
        return None

    return answer


def _document(manifest: Manifest, request: Request) -> object:
    """Return the JSON value for one request to the endpoint of `manifest`."""
    path, query, rng = request.path, request.query, request.rng
    subject = next((query[name] for name in SUBJECTS if name in query), path.rsplit("/", 1)[-1])
    hint = f"{path} {manifest.name}".lower()
    for words, shape in _SHAPES:
        if any(word in hint for word in words.split()):
            return shape(subject, rng)
    return _quote(subject, rng)


def _quote(subject: str, rng: random.Random) -> object:
    price, change = round(rng.lognormvariate(4, 0.8), 2), round(rng.gauss(0, 1.6), 2)
    return {
        "symbol": subject,
        "price": price,
        "change": round(price * change / 100, 2),
        "changePercent": change,
        "volume": rng.randrange(10**5, 10**8),
        "time": NOW.isoformat(),
    }


def _bars(subject: str, rng: random.Random) -> object:
    close, bars = rng.lognormvariate(4, 0.8), []
    for day in range(60, 0, -1):
        opened, close = close, close * (1 + rng.gauss(0, 0.015))
        low, high = sorted((opened, close))
        bars.append(
            {
                "time": (NOW - timedelta(days=day)).date().isoformat(),
                "open": round(opened, 2),
                "high": round(high * (1 + rng.random() / 100), 2),
                "low": round(low * (1 - rng.random() / 100), 2),
                "close": round(close, 2),
                "volume": rng.randrange(10**5, 10**8),
            }
        )
    return {"symbol": subject, "bars": bars}


def _news(subject: str, rng: random.Random) -> object:
    topics = ("results", "guidance", "a new product", "its dividend", "regulation", "demand")
    return {
        "data": [
            {
                "id": str(rng.randrange(10**6, 10**7)),
                "title": f"Simulated news on {subject}: {rng.choice(topics)}",
                "publishedAt": (NOW - timedelta(hours=hours)).isoformat(),
                "commentCount": rng.randrange(200),
            }
            for hours in range(10)
        ]
    }


def _statements(subject: str, rng: random.Random) -> object:
    revenue = rng.lognormvariate(23, 1)
    periods = []
    for year in range(2025, 2020, -1):
        margin = rng.uniform(0.05, 0.3)
        periods.append(
            {
                "fiscalYear": year,
                "revenue": round(revenue),
                "netIncome": round(revenue * margin),
                "totalAssets": round(revenue * rng.uniform(1, 3)),
                "operatingCashFlow": round(revenue * margin * rng.uniform(0.8, 1.4)),
                "eps": round(margin * 20, 2),
            }
        )
        revenue *= 1 - rng.uniform(0, 0.1)
    return {"symbol": subject, "currency": "USD", "periods": periods}


def _matches(subject: str, rng: random.Random) -> object:
    return [
        {
            "symbol": f"{subject[:4].upper()}{number}",
            "name": f"Simulated {subject} {number}",
            "exchange": rng.choice(("NASDAQ", "NYSE", "LSE", "HKEX")),
            "score": round(1 - number / 10, 2),
        }
        for number in range(8)
    ]


def _holdings(subject: str, rng: random.Random) -> object:
    weights = sorted((rng.random() for _ in range(10)), reverse=True)
    return {
        "id": subject,
        "asOf": NOW.date().isoformat(),
        "holdings": [
            {"name": f"Holding {n + 1}", "weight": round(40 * w / sum(weights), 2)}
            for n, w in enumerate(weights)
        ],
    }


def _profile(subject: str, rng: random.Random) -> object:
    return {
        "symbol": subject,
        "name": f"Simulated {subject} Corp.",
        "sector": rng.choice(("Technology", "Financials", "Energy", "Health Care")),
        "employees": rng.randrange(500, 200_000),
        "country": "US",
        "founded": rng.randrange(1890, 2015),
    }


def _rate(subject: str, rng: random.Random) -> object:
    middle = rng.lognormvariate(0, 0.8)
    return {
        "base": subject,
        "rate": round(middle, 5),
        "bid": round(middle * 0.9995, 5),
        "ask": round(middle * 1.0005, 5),
        "time": NOW.isoformat(),
    }


def _figures(subject: str, rng: random.Random) -> object:
    return {
        "subject": subject,
        "monthly": round(rng.uniform(200, 4_000), 2),
        "total": round(rng.uniform(10**4, 10**6), 2),
        "percent": round(rng.uniform(0.5, 9), 3),
    }


_SHAPES: tuple[tuple[str, Callable[[str, random.Random], object]], ...] = (
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

"""The simulated market as one page of HTML, which requests nothing and has no script."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from typing import Final

import numpy as np
from markupsafe import Markup

from adapters.simulator.shapes import grouped
from adapters.simulator.world.check import facts
from adapters.simulator.world.economy import yields
from adapters.simulator.world.instruments import CHINA, Instrument
from adapters.simulator.world.world import Bar, Floats, World
from gateway.common import drawing as d
from gateway.common.html import environment, rendered, style

SPAN: Final = timedelta(3 * 365)
"""How much of histories is drawn, by week."""

PRICES: Final = ("sh600519", "hk00700", "us:AAPL", "sh510300", "coin:BTC", "future:RB")
INDEX: Final = "sh000300"
MEMBERS: Final = 12
CURRENCIES: Final = ("EUR", "GBP", "JPY", "CNY")
LAGS: Final = 60

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _BOTTOM = 280.0, 184.0, 44.0, 270.0, 166.0
_MONEY = {"CN": "CNY", "HK": "HKD", "US": "USD"}
_YEARS = (2.0, 5.0, 10.0, 30.0)
"""The maturities of treasury yields."""

_STYLES = (("accent", ""), ("ink", "5 3"), ("soft", "2 2"), ("strong-line", "8 2 2 2"))
"""Colours and dashes of the lines of one figure."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture with its title, and with what its axes are."""

    title: str
    note: str
    picture: Markup


Lines = Mapping[str, Sequence[d.Point]]
"""Points in the units of the axes, by the name of the line."""


def page(world: World) -> str:
    """The page of a world; it takes about a second."""
    template = environment("gateway.cli").get_template("world.html.j2")
    returns = [np.diff(np.log(h.close * h.factor)) for h in (world.history(o.key) for o in CHINA)]
    sections = [
        ("Prices and volumes", [_prices(world, key) for key in PRICES]),
        ("An index, yields and currencies", [_index(world), _yields(world), _currencies(world)]),
        ("Returns", [_histogram(returns), _memory(returns)]),
    ]
    css = style(("gateway.cli", "world.css"))
    about = facts(world)
    return rendered(template, css, seed=world.seed, now=world.now, sections=sections, facts=about)


def _weeks(world: World, key: str, adjust: str = "") -> list[Bar]:
    return grouped(world.bars(key, world.now - SPAN, adjust=adjust), "102")


def _prices(world: World, key: str) -> Figure:
    one, bars = world.instrument(key), _weeks(world, key)
    x = _times([bar.day for bar in bars])
    y = d.Scale(min(b.low for b in bars), max(b.high for b in bars), 112, 8)
    most = max(bar.volume for bar in bars)
    volume = d.Scale(0, most, _BOTTOM, 126)
    places = [x(bar.day.toordinal()) for bar in bars]
    low, high, close = (
        [*zip(places, (y(getattr(bar, name)) for bar in bars), strict=True)]
        for name in ("low", "high", "close")
    )
    width = (x.end - x.start) / len(bars)
    parts = [
        *d.y_axis(y, x.start, y.ticks(4), x.end),
        *d.y_axis(volume, x.start, {most: _short(most)}, x.end),
        *d.x_axis(x, _BOTTOM, _years(x)),
        *(
            d.bar((at - width / 2, volume(bar.volume)), width, _BOTTOM - volume(bar.volume), "rest")
            for at, bar in zip(places, bars, strict=True)
        ),
        d.line(low + high[::-1], "accent", 0, fill="accent"),
        d.line(close, "accent", 1.2),
    ]
    money = _money(one)
    note = f"{money}, week's close within its low and high; below it units traded in a week"
    return _figure(f"{one.name} ({key})", note, parts)


def _money(one: Instrument) -> str:
    return "USD" if one.kind == "coin" else _MONEY.get(one.exchange, "CNY")


def _index(world: World) -> Figure:
    weights = sorted(world.weights(INDEX).items(), key=lambda item: -item[1])[:MEMBERS]
    members = [_rebased(_weeks(world, key, "hfq")) for key, _ in weights]
    index = _rebased(_weeks(world, INDEX))
    points = [p for line in (index, *members) for p in line]
    x, y = _scales(points, is_log=True)
    draw = partial(_line, x, y)
    parts = [
        *d.y_axis(y, x.start, _round(y), x.end),
        *d.x_axis(x, _BOTTOM, _years(x)),
        *(draw(line, "strong-line", 0.7) for line in members),
        draw(index, "accent", 2.2),
        *_legend({world.instrument(INDEX).name: ("accent", ""), "members": ("strong-line", "")}),
    ]
    note = f"the first week is 100, logarithmic; its {len(members)} largest members, adjusted"
    return _figure(f"{world.instrument(INDEX).name} and its members", note, parts)


def _yields(world: World) -> Figure:
    days = world.days("CN")
    lines = {
        f"{name} {day:%Y-%m}": [
            (years, round(rate, digits))
            for (told,) in [yields(world, country, [day], _YEARS)]
            for years, rate in zip(_YEARS, told, strict=True)
        ]
        for name, country, digits in (("China", "CN", 4), ("USA", "US", 2))
        for day in (days[-1], days[-251])
    }
    x, y = _scales([p for line in lines.values() for p in line])
    parts = _lines(lines, x, y, {years: f"{years:g}" for years in _YEARS})
    return _figure("Treasury yields", "percent a year, by years to maturity", parts)


def _currencies(world: World) -> Figure:
    lines = {code: _rebased(_weeks(world, f"fx:{code}")) for code in CURRENCIES}
    x, y = _scales([p for line in lines.values() for p in line])
    return _figure("Currencies", "in USD; the first week is 100", _lines(lines, x, y, _years(x)))


def _histogram(returns: Sequence[Floats]) -> Figure:
    whole = np.concatenate([(one - one.mean()) / one.std() for one in returns])
    counts, edges = np.histogram(whole, np.arange(-8, 8.01, 0.5))
    shares = counts / len(whole) / 0.5
    x, y = d.Scale(-8, 8, _LEFT, _RIGHT), d.Scale(1e-5, 1, _BOTTOM, 30, is_log=True)
    normal = [
        (at, float(np.exp(-at * at / 2) / np.sqrt(2 * np.pi))) for at in np.arange(-8, 8.1, 0.1)
    ]
    bars = [(left, share) for left, share in zip(edges, shares, strict=False) if share > y.low]
    parts = [
        *d.y_axis(y, x.start, {10.0**n: f"1e{n}" if n else "1" for n in range(-5, 1)}, x.end),
        *d.x_axis(x, _BOTTOM, {float(n): f"{n}" for n in range(-8, 9, 2)}),
        *(
            d.bar(
                (x(left) + 0.5, y(share)), x(left + 0.5) - x(left) - 1, _BOTTOM - y(share), "rest"
            )
            for left, share in bars
        ),
        _line(x, y, [point for point in normal if point[1] >= y.low], "accent", 2),
        *_legend({"returns": ("rest", ""), "normal": ("accent", "")}),
    ]
    note = (
        f"density by standard deviations, logarithmic; {len(whole):,} days of {len(returns)} shares"
    )
    return _figure("Daily returns", note, parts)


def _memory(returns: Sequence[Floats]) -> Figure:
    lags = range(1, LAGS + 1)
    of = {"returns": returns, "sizes of returns": [abs(one) for one in returns]}
    lines = {
        name: [(float(lag), float(np.mean([_correlation(r, lag) for r in those]))) for lag in lags]
        for name, those in of.items()
    }
    x, y = _scales([(0.0, 0.0), *(p for line in lines.values() for p in line)])
    note = f"by lag in days, mean of {len(returns)} shares"
    return _figure("Autocorrelation", note, _lines(lines, x, y, x.ticks(6)))


def _correlation(r: Floats, lag: int) -> float:
    return float(np.corrcoef(r[:-lag], r[lag:])[0, 1])


# --- parts of pictures ---------------------------------------------------------------------------


def _figure(title: str, note: str, parts: Sequence[str]) -> Figure:
    return Figure(title, note, d.drawing(parts, _WIDTH, _HEIGHT, f"{title}: {note}"))


def _rebased(bars: Sequence[Bar]) -> list[d.Point]:
    return [(float(bar.day.toordinal()), bar.close / bars[0].close * 100) for bar in bars]


def _times(days: Sequence[date]) -> d.Scale:
    return d.Scale(days[0].toordinal(), days[-1].toordinal(), _LEFT, _RIGHT)


def _years(x: d.Scale) -> dict[float, str]:
    first, last = (date.fromordinal(round(end)).year for end in (x.low, x.high))
    return {date(year, 1, 1).toordinal(): f"{year}" for year in range(first + 1, last + 1)}


def _scales(points: Sequence[d.Point], *, is_log: bool = False) -> tuple[d.Scale, d.Scale]:
    xs, ys = zip(*points, strict=True)
    return (
        d.Scale(min(xs), max(xs), _LEFT, _RIGHT),
        d.Scale(min(ys), max(ys), _BOTTOM, 34, is_log=is_log),
    )


def _line(
    x: d.Scale, y: d.Scale, points: Sequence[d.Point], paint: str, width: float, dash: str = ""
) -> str:
    return d.line([(x(a), y(b)) for a, b in points], paint, width, dash=dash)


def _lines(lines: Lines, x: d.Scale, y: d.Scale, ticks: Mapping[float, str]) -> list[str]:
    styles = dict(zip(lines, _STYLES, strict=False))
    return [
        *d.y_axis(y, x.start, y.ticks(5), x.end),
        *d.x_axis(x, _BOTTOM, ticks),
        *(_line(x, y, points, styles[n][0], 1.6, styles[n][1]) for n, points in lines.items()),
        *_legend(styles),
    ]


def _legend(styles: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    def swatch(at: d.Point, paint: str, dash: str) -> str:
        return d.line([(at[0] - 8, at[1]), (at[0] + 5, at[1])], paint, 2, dash=dash)

    entries = {name: partial(swatch, paint=p, dash=dash) for name, (p, dash) in styles.items()}
    yield from d.legend(entries, (_LEFT, 8), _RIGHT - _LEFT)[1]


def _round(y: d.Scale) -> dict[float, str]:
    """Round values of a logarithmic axis."""
    values = [by * 10.0**power for power in range(6) for by in (1, 2, 5)]
    return {value: f"{value:g}" for value in values if y.low <= value <= y.high}


def _short(number: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:g}"

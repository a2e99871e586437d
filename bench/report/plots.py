"""The figures of a report, in the colours of the page. A figure is None if there is nothing to
draw. All have one width, at which their letters are as large as those of the page's notes.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import cycle
from math import isfinite
from typing import Any

from markupsafe import Markup

from bench.report.facts import MOST_CALLS, Use
from bench.report.timeline import Span
from bench.suites.suite import Chart, Metric
from gateway.common import drawing as d

WIDTH = 320.0
ROW = 22.0
"""The height of a row that has a name."""

PANEL = 92.0
"""The height of one of several panels, without its title and texts below it."""

ERRORS = 12
"""The most kinds of error in the figure; the table has them all."""

_NAMES = 0.45 * WIDTH
_MARKERS = ("circle", "square", "triangle", "diamond", "wedge", "cross")


def metrics_figure(
    metrics: Mapping[str, Any],
    which: Sequence[Metric],
    published: Mapping[str, Mapping[str, float]],
) -> Markup | None:
    """The metrics `which` with their 95 % intervals, beside published figures of other models. Each
    is drawn between the ends of its own scale.
    """
    drawn = {metric.name: metric for metric in which if metrics.get(metric.name) is not None}
    if not drawn:
        return None
    titles = [
        m.title if m.is_share else f"{m.title} ({m.low:g} to {m.high:g})" for m in drawn.values()
    ]
    left, parts = d.names(titles, 4, ROW, _NAMES)
    x, bottom = d.Scale(0, 1, left + 12, WIDTH - 18), 4 + ROW * len(drawn)
    ticks = {0.0: "0", 0.25: "25", 0.5: "50", 0.75: "75", 1.0: "100 %"}
    parts += d.x_axis(x, bottom, ticks, 4)
    of_models = {
        model: partial(d.mark, paint="soft", shape=shape, fill="none")
        for model, shape in zip(published, _MARKERS, strict=False)
    }
    of_run = partial(d.mark, paint="accent")
    for row, (name, metric) in enumerate(drawn.items()):
        y, interval = 4 + ROW * (row + 0.5), metrics["intervals"].get(name)
        for model, draw in of_models.items():
            if (figure := published[model].get(name)) is not None:
                parts.append(draw((x(metric.place_of(figure)), y)))
        if interval:
            ends = [(x(metric.place_of(end)), y) for end in interval]
            parts.append(d.line(ends, "accent", 2.5))
        parts.append(of_run((x(metric.place_of(metrics[name])), y), size=3.6))
    height = bottom + 20
    if published:
        entries = {"this run": of_run, **of_models}
        more, marks = d.legend(entries, (8, height + 8), WIDTH - 8)
        height, parts = height + 8 + more, parts + marks
    said = ", ".join(f"{m.title} {m.text_of(metrics[name])}" for name, m in drawn.items())
    return d.drawing(parts, WIDTH, height, f"Metrics with intervals of 95 %: {said}.")


def days_figure(chart: Chart) -> Markup:
    """The panels of a chart, one below the other, over the same days."""
    parts, top, last = list[str](), 0.0, len(chart.days) - 1
    marks = sorted({round(n * last / 3) for n in range(4)})
    x = d.Scale(0, max(last, 1), 44, WIDTH - 28)
    for title, given in chart.panels.items():
        top += 20
        lines = {name: [*map(_number, of)] for name, of in given.items()}
        y = _scale_over([value for of in lines.values() for value in of], top)
        parts.append(d.text((0, top - 8), title, "soft"))
        parts += d.y_axis(y, x.start, y.ticks(4), x.end)
        parts += d.x_axis(x, top + PANEL, {})
        drawn = {}
        for paint, (name, of) in zip(cycle(("accent", "rest", "bad-ink", "soft")), lines.items()):
            drawn[name] = partial(_dash, paint=paint)
            edges = [x(place) for place in range(len(of))]
            points = [*zip(edges, map(y, of), strict=True)]
            if title == "position":
                points = d.stairs(edges, [at for _, at in points[:-1]]) + points[-1:]
            parts.append(d.line(points, paint, 1.3))
        if len(drawn) > 1:
            parts += d.legend(drawn, (44 + d.width_of(title), top - 11), WIDTH)[1]
        top += PANEL
    texts = {float(place): chart.days[place] for place in marks}
    parts += d.x_axis(x, top, texts)
    final = next(iter(chart.panels.values()))
    said = ", ".join(f"{label} {values[-1]:.3f}" for label, values in final.items())
    label = f"{chart.title} by day; on the last day: {said}."
    return d.drawing(parts, WIDTH, top + 20, label)


def _number(value: object) -> float:
    """A value of a line; 0 for what a trace has in place of a finite number."""
    return float(value) if isinstance(value, int | float) and isfinite(value) else 0.0


def _scale_over(values: Sequence[float], top: float, low: float | None = None) -> d.Scale:
    """The vertical scale of a panel, with some room at the ends of the values, or from `low`."""
    least, most = min(values, default=0.0), max(values, default=1.0)
    room = 0.05 * (most - least) or 0.05 * abs(most) or 1.0
    return d.Scale(least - room if low is None else low, most + room, top + PANEL, top)


def _dash(at: d.Point, paint: str) -> str:
    return d.line([(at[0] - 5, at[1]), (at[0] + 5, at[1])], paint, 1.6)


def _block(at: d.Point, paint: str) -> str:
    return d.bar((at[0] - 5, at[1] - 3), 10, 6, paint)


def tool_use_figure(counts: Counter[tuple[int, bool]]) -> Markup | None:
    """Episodes by number of calls, with those that passed shown apart."""
    if not counts:
        return None
    most = max(calls for calls, _ in counts)
    bars = max(most, 3) + 1
    tallest = max(counts[calls, True] + counts[calls, False] for calls in range(bars))
    y, x = d.Scale(0, 1.05 * tallest, 150, 20), d.Scale(-0.5, bars - 0.5, 36, WIDTH - 8)
    parts = d.y_axis(y, x.start, y.ticks(4, least=1), x.end)
    wide = 0.72 * (x(1) - x(0))
    for calls in range(bars):
        base = y(0)
        for passed, paint in ((True, "accent"), (False, "rest")):
            tall = y(0) - y(counts[calls, passed])
            base -= tall
            if tall:
                parts.append(d.bar((x(calls) - wide / 2, base), wide, tall, paint))
    texts = {n: f"{int(n)}{'+' if n == MOST_CALLS else ''}" for n in map(float, range(bars))}
    parts += d.x_axis(x, y(0), texts)
    parts.append(d.text(((x.start + x.end) / 2, 178), "calls in an episode", "soft", "middle"))
    parts.append(d.text((0, 8), "episodes", "soft"))
    shown = {
        "passed": partial(_block, paint="accent"),
        "did not pass": partial(_block, paint="rest"),
    }
    parts += d.legend(shown, (70, 5), WIDTH)[1]
    mean = sum(calls * n for (calls, _), n in counts.items()) / counts.total()
    label = f"Episodes by number of calls, from 0 to {most}; {mean:.2f} on average."
    return d.drawing(parts, WIDTH, 184, label)


def latency_figure(sources: Mapping[str, Use]) -> Markup | None:
    """Latency of calls by the source of their answers: median, and up to the 99th percentile."""
    known = {name: use for name, use in sources.items() if use.calls}
    if not known:
        return None
    points = {
        name: [max(use.latency_ms.at(q) or 0, 1e-3) for q in (0.5, 0.9, 0.99)]
        for name, use in known.items()
    }
    every = [value for of in points.values() for value in of]
    powers = [p for p in range(-3, 7) if min(every) / 10 < 10.0**p < max(every) * 10]
    left, parts = d.names([*known], 4, ROW, _NAMES)
    ends = 10.0 ** powers[0], 10.0 ** max(powers[-1], powers[0] + 1)
    x = d.Scale(*ends, left + 14, WIDTH - 22, is_log=True)
    bottom = 4 + ROW * len(known)
    parts += d.x_axis(x, bottom, {10.0**power: _ms(10.0**power) for power in powers}, 4)
    for row, (half, most, nearly_all) in enumerate(points.values()):
        y = 4 + ROW * (row + 0.5)
        parts.append(d.line([(x(half), y), (x(nearly_all), y)], "accent"))
        parts.append(d.mark((x(half), y), "accent", size=3.6))
        parts.append(d.mark((x(most), y), "accent", "tick", 3.6))
        parts.append(d.mark((x(nearly_all), y), "accent", size=2.8, fill="ground"))
    said = ", ".join(f"{n} median {_ms(use.latency_ms.at(0.5) or 0)}" for n, use in known.items())
    label = f"Latency of calls by provenance: {said}."
    return d.drawing(parts, WIDTH, bottom + 18, label)


def errors_figure(errors: Counter[tuple[str, str]]) -> Markup | None:
    """Failed calls by owner and code."""
    most = errors.most_common(ERRORS)
    if not most:
        return None
    left, parts = d.names([code for (_, code), _ in most], 0, ROW, _NAMES)
    x = d.Scale(0, most[0][1], left + 6, WIDTH - 80)
    for row, ((fault, _), count) in enumerate(most):
        y = ROW * (row + 0.5)
        parts.append(d.bar((x.start, y - 5), x(count) - x.start, 10, "bad-ink"))
        parts.append(d.text((x(count) + 5, y + 3), f"{count:,} · {fault}", "soft"))
    said = ", ".join(f"{code} ({fault}) {count}" for (fault, code), count in most)
    return d.drawing(parts, WIDTH, ROW * len(most), f"Failed calls by code and owner: {said}.")


def timeline_figure(spans: Sequence[Span], width_s: float) -> Markup | None:
    """Episodes in flight and calls a second over the time of the run."""
    if not spans:
        return None
    length_s = spans[-1].at_s + width_s
    size_s, unit = next(
        (size, unit)
        for size, unit in ((3600, "h"), (60, "min"), (1, "s"))
        if length_s > 2 * size or unit == "s"
    )
    x = d.Scale(0, length_s / size_s, 36, WIDTH - 12)
    edges = [x(second / size_s) for second in (*(span.at_s for span in spans), length_s)]
    in_flight, calls, failed = (
        [getattr(span, name) for span in spans]
        for name in ("in_flight", "calls_per_s", "failed_per_s")
    )
    parts, top = list[str](), 0.0
    for title, values, fill in (
        ("episodes in flight", in_flight, "accent"),
        ("calls begun a second", calls, ""),
    ):
        top += 20
        y = _scale_over(values, top, low=0.0)
        parts.append(d.text((x.start, top - 7), title))
        parts += d.y_axis(y, x.start, y.ticks(4), x.end)
        ends = [(x.start, y(0)), *d.stairs(edges, list(map(y, values))), (x.end, y(0))]
        parts.append(d.line(ends, "accent", fill=fill))
        if values is calls and any(failed):
            parts.append(d.line(d.stairs(edges, list(map(y, failed))), "bad-ink"))
        top += PANEL
        parts += d.x_axis(x, top, x.ticks(5) if values is calls else {})
    middle = (x.start + x.end) / 2
    parts.append(d.text((middle, top + 28), f"{unit} since the first record", "soft", "middle"))
    label = (
        f"Over {length_s:.3g} seconds: at most {max(in_flight):.0f} episodes in flight, "
        f"at most {max(calls):.0f} calls a second."
    )
    return d.drawing(parts, WIDTH, top + 34, label)


def _ms(milliseconds: float) -> str:
    if milliseconds >= 1e3:
        return f"{milliseconds / 1e3:.3g} s"
    return f"{milliseconds:.3g} ms" if milliseconds >= 1 else f"{milliseconds * 1e3:.3g} µs"

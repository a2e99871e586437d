"""The figures of a report, drawn by matplotlib as SVG in the colours of the page.

A figure is None if there is nothing to draw. All have one width, at which their letters are as
large as those of the page's notes.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from itertools import cycle
from typing import TYPE_CHECKING, Any, ParamSpec

from markupsafe import Markup

from bench.report.facts import MOST_CALLS, Use
from bench.report.svg import PAINT, svg
from bench.report.timeline import Span
from bench.suites.suite import Chart, Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH_PT = 320
ERRORS = 12
"""The most kinds of error in the figure; the table has them all."""

_MARKERS = ("o", "s", "^", "D", "v", "P")
_STYLE: Mapping[Any, Any] = {
    "font.size": 9.5,
    "text.color": PAINT["ink"],
    "text.parse_math": False,
    "axes.edgecolor": PAINT["soft"],
    "axes.labelcolor": PAINT["soft"],
    "axes.labelsize": 9.5,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": PAINT["soft"],
    "ytick.color": PAINT["soft"],
    "xtick.labelcolor": PAINT["soft"],
    "ytick.labelcolor": PAINT["ink"],
    "grid.color": PAINT["line"],
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "legend.handletextpad": 0.3,
    "legend.columnspacing": 1.1,
}


P = ParamSpec("P")


def _styled(draw: Callable[P, Markup | None]) -> Callable[P, Markup | None]:
    """Draw in our style, whatever the user's own matplotlibrc says. The style also applies to what
    matplotlib draws late, such as ticks.
    """

    @wraps(draw)
    def styled(*args: P.args, **kwargs: P.kwargs) -> Markup | None:
        import matplotlib as mpl

        with mpl.rc_context():
            mpl.rcdefaults()
            mpl.rcParams.update(_STYLE)
            return draw(*args, **kwargs)

    return styled


@_styled
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
    figure, (axes,) = _figure(62 + 21 * len(drawn) + (34 if published else 0))
    rows = {name: place for place, name in enumerate(reversed(drawn))}
    for (model, figures), marker in zip(published.items(), _MARKERS, strict=False):
        at = [(m.place_of(figures[n]), rows[n]) for n, m in drawn.items() if n in figures]
        axes.plot(
            [x for x, _ in at],
            [y for _, y in at],
            marker=marker,
            linestyle="none",
            markersize=5,
            markerfacecolor="none",
            markeredgecolor=PAINT["soft"],
            label=model,
        )
    for name, place in rows.items():
        place_of, interval = drawn[name].place_of, metrics["intervals"].get(name)
        if interval:
            low, high = map(place_of, interval)
            axes.hlines(place, low, high, color=PAINT["accent"], linewidth=2.5)
        axes.plot(
            place_of(metrics[name]),
            place,
            marker="o",
            linestyle="none",
            markersize=6.5,
            color=PAINT["accent"],
            label="this run" if place == 0 else None,
        )
    axes.set_yticks(list(rows.values()), [_with_scale(drawn[name]) for name in rows])
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100 %"])
    axes.grid(axis="x")
    axes.spines["left"].set_visible(False)
    axes.tick_params(length=0)
    if published:
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(
            [handles[-1], *handles[:-1]],
            [labels[-1], *labels[:-1]],
            loc="outside lower left",
            ncols=3,
        )
    said = ", ".join(f"{m.title} {m.text_of(metrics[name])}" for name, m in drawn.items())
    return svg(figure, "metrics", f"Metrics with intervals of 95 %: {said}.")


def _with_scale(metric: Metric) -> str:
    scale = "" if metric.is_share else f" ({metric.low:g} to {metric.high:g})"
    return f"{metric.title}{scale}"


@_styled
def days_figure(chart: Chart, name: str) -> Markup:
    """The panels of a chart, one below the other, over the same days."""
    figure, panels = _figure(110 * len(chart.panels), rows=len(chart.panels))
    places = range(len(chart.days))
    colours = [PAINT[paint] for paint in ("accent", "rest", "bad", "soft")]
    for axes, (title, lines) in zip(panels, chart.panels.items(), strict=True):
        for colour, (label, values) in zip(cycle(colours), lines.items()):
            style = "steps-post" if title == "position" else "default"
            axes.plot(places, values, color=colour, linewidth=1.3, label=label, drawstyle=style)
        axes.set_ylabel(title)
        axes.grid(axis="y")
        axes.tick_params(length=0)
        if len(lines) > 1:
            axes.legend(loc="lower left", bbox_to_anchor=(0, 0.98), ncols=4)
    marks = sorted({round(n * (len(chart.days) - 1) / 3) for n in range(4)})
    for axes in panels:
        axes.set_xticks(marks, [""] * len(marks))
    panels[-1].set_xticks(marks, [chart.days[mark] for mark in marks])
    last = next(iter(chart.panels.values()))
    said = ", ".join(f"{label} {values[-1]:.3f}" for label, values in last.items())
    return svg(figure, name, f"{chart.title} by day; on the last day: {said}.")


@_styled
def tool_use_figure(counts: Counter[tuple[int, bool]]) -> Markup | None:
    """Episodes by number of calls, with those that passed shown apart."""
    if not counts:
        return None
    most = max(calls for calls, _ in counts)
    places = range(max(most, 3) + 1)
    figure, (axes,) = _figure(190)
    passed = [counts[calls, True] for calls in places]
    other = [counts[calls, False] for calls in places]
    axes.bar(places, passed, width=0.72, color=PAINT["accent"], label="passed")
    axes.bar(places, other, width=0.72, bottom=passed, color=PAINT["rest"], label="did not pass")
    labels = [f"{calls}+" if calls == MOST_CALLS else str(calls) for calls in places]
    axes.set_xticks(list(places), labels)
    axes.set_xlabel("calls in an episode")
    axes.set_ylabel("episodes")
    axes.grid(axis="y")
    axes.tick_params(length=0)
    _whole(axes, "y")
    figure.legend(loc="outside upper left", ncols=2)
    mean = sum(calls * n for (calls, _), n in counts.items()) / counts.total()
    text = f"Episodes by number of calls, from 0 to {most}; {mean:.2f} on average."
    return svg(figure, "tool-use", text)


@_styled
def latency_figure(sources: Mapping[str, Use]) -> Markup | None:
    """Latency of calls by the source of their answers: median, and up to the 99th percentile."""
    known = {name: use for name, use in sources.items() if use.calls}
    if not known:
        return None
    figure, (axes,) = _figure(66 + 24 * len(known))
    said = []
    for place, (_, use) in enumerate(reversed(known.items())):
        half, most, nearly_all = (max(use.latency_ms.at(q) or 0, 1e-3) for q in (0.5, 0.9, 0.99))
        axes.hlines(place, half, nearly_all, color=PAINT["accent"], linewidth=1.2)
        axes.plot(half, place, "o", markersize=6.5, color=PAINT["accent"])
        axes.plot(most, place, "|", markersize=9, markeredgewidth=1.8, color=PAINT["accent"])
        axes.plot(
            nearly_all,
            place,
            "o",
            markersize=5.5,
            markerfacecolor=PAINT["ground"],
            markeredgecolor=PAINT["accent"],
        )
    for name, use in known.items():
        said.append(f"{name} median {_ms(use.latency_ms.at(0.5) or 0)}")
    axes.set_yticks(range(len(known)), list(reversed(known)))
    axes.set_ylim(-0.6, len(known) - 0.4)
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    ticks = [10.0**power for power in range(-3, 7) if low / 3 <= 10.0**power <= high * 3]
    axes.set_xticks(ticks, [_ms(tick) for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlim(min(low, ticks[0]), max(high, ticks[-1]))
    axes.grid(axis="x")
    axes.spines["left"].set_visible(False)
    axes.tick_params(length=0)
    return svg(figure, "latency", f"Latency of calls by provenance: {', '.join(said)}.")


@_styled
def errors_figure(errors: Counter[tuple[str, str]]) -> Markup | None:
    """Failed calls by owner and code."""
    most = errors.most_common(ERRORS)
    if not most:
        return None
    figure, (axes,) = _figure(34 + 19 * len(most))
    for place, ((fault, _), count) in enumerate(reversed(most)):
        axes.barh(place, count, height=0.5, color=PAINT["bad"])
        axes.annotate(
            f"{count:,} · {fault}",
            (count, place),
            (5, 0),
            textcoords="offset points",
            va="center",
            color=PAINT["soft"],
        )
    axes.set_yticks(range(len(most)), [code for (_, code), _ in reversed(most)])
    axes.set_xlim(0, most[0][1] * 1.45)
    axes.set_ylim(-0.6, len(most) - 0.4)
    axes.set_xticks([])
    axes.spines[["bottom", "left"]].set_visible(False)
    axes.tick_params(length=0)
    said = ", ".join(f"{code} ({fault}) {count}" for (fault, code), count in most)
    return svg(figure, "errors", f"Failed calls by code and owner: {said}.")


@_styled
def timeline_figure(spans: Sequence[Span], width_s: float) -> Markup | None:
    """Episodes in flight and calls a second over the time of the run."""
    if not spans:
        return None
    figure, (above, below) = _figure(250, rows=2)
    length_s = spans[-1].at_s + width_s
    size_s, unit = next(
        (size, unit)
        for size, unit in ((3600, "h"), (60, "min"), (1, "s"))
        if length_s > 2 * size or unit == "s"
    )
    edges = [*(span.at_s / size_s for span in spans), length_s / size_s]
    in_flight = [span.in_flight for span in spans]
    above.stairs(in_flight, edges, fill=True, color=PAINT["accent"], alpha=0.22)
    above.stairs(in_flight, edges, color=PAINT["accent"], linewidth=1.2)
    above.set_title("episodes in flight", loc="left", fontsize=9.5, color=PAINT["ink"])
    calls = [span.calls_per_s for span in spans]
    below.stairs(calls, edges, color=PAINT["accent"], linewidth=1.2)
    if any(span.failed_per_s for span in spans):
        failed = [span.failed_per_s for span in spans]
        below.stairs(failed, edges, color=PAINT["bad"], linewidth=1.2)
    below.set_title("calls begun a second", loc="left", fontsize=9.5, color=PAINT["ink"])
    below.set_xlabel(f"{unit} since the first record")
    for axes in (above, below):
        axes.grid(axis="y")
        axes.set_xlim(0, edges[-1])
        axes.set_ylim(bottom=0)
        axes.tick_params(length=0)
        axes.locator_params(nbins=4, integer=False)
        axes.tick_params(axis="x", pad=5)
        axes.ticklabel_format(useOffset=False, style="plain")
    above.set_xticklabels([])
    text = (
        f"Over {length_s:.3g} seconds: at most {max(in_flight):.0f} episodes in flight, "
        f"at most {max(calls):.0f} calls a second."
    )
    return svg(figure, "timeline", text)


def _figure(height_pt: float, rows: int = 1) -> "tuple[Figure, list[Axes]]":
    """A figure of the common width with its axes, one below the other."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH_PT / 72, height_pt / 72), layout="constrained")
    return figure, [figure.add_subplot(rows, 1, row + 1) for row in range(rows)]


def _whole(axes: "Axes", axis: str) -> None:
    from matplotlib.ticker import MaxNLocator

    getattr(axes, f"{axis}axis").set_major_locator(MaxNLocator(5, integer=True))


def _ms(milliseconds: float) -> str:
    if milliseconds >= 1e3:
        return f"{milliseconds / 1e3:.3g} s"
    return f"{milliseconds:.3g} ms" if milliseconds >= 1 else f"{milliseconds * 1e3:.3g} µs"

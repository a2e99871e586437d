"""The content of a report, as texts and rows for its template; every number is formatted here."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from bench.metrics.passes import HEADS, pass_note, pass_rows
from bench.report.facts import FAILED, OTHER, SOURCES, Facts, Use
from bench.runs.about import COMPLETE, RunInfo, simulated
from bench.suites.suite import Metric
from gateway.telemetry.quantile import Quantiles
from manifests.common.duration import duration

ROWS: Final = 40
"""The most rows of a group."""

HOSTS: Final = 12
CONFUSED: Final = 16
"""The most rows and the most columns of a confusion table."""

NONE: Final = "–"


Number = tuple[str, str, str]
"""One of the report's large numbers: its name, its value, and a note."""

Cell = tuple[str, str]
"""A cell of a heat map: its text and its classes."""


def content(about: RunInfo, facts: Facts, digest: str) -> dict[str, Any]:
    """Everything but figures, scripts and styles. `digest` is that of the run's files."""
    metrics, suite = facts.metrics.result(), facts.suite
    traffic = metrics["traffic"]
    kept, errors = facts.trajectories, facts.errors
    return {
        "suite": about.suite or "a run",
        "player": about.player,
        "simulated": _simulated(about, facts),
        "warnings": list(_warnings(about, facts, digest)),
        "head": [(name, text) for name, text in _head(about, facts, digest) if text],
        "numbers": [list(_big_metrics(facts, metrics)), list(_big_rest(about, facts, metrics))],
        "title": suite.title,
        "metrics": list(_metrics(metrics, facts)),
        "own_scales": any(not metric.is_share for metric in suite.metrics if metric.is_main),
        "metric_names": 2 if any(metric.axis for metric in suite.metrics) else 1,
        "metrics_note": suite.metrics_note
        or " ".join(f"{metric.title}: {metric.text}." for metric in suite.metrics),
        "passes": _passes(metrics.get("passes")),
        "models_published": list(suite.published),
        "published_note": suite.published_note,
        "heat": _heat(facts, metrics.get("breakdown", {})),
        "confusion": [_confusion(name, of) for name, of in metrics.get("confusion", {}).items()],
        "bin": duration(facts.timeline.width_s),
        "times_taken_up": about.parts - 1,
        "sources": list(_sources(facts)),
        "errors": [(*of, *share) for of, share in _shares(errors)],
        "endings": [(name, *share) for name, share in _shares(facts.endings)],
        "models": list(_models(facts)),
        "slowest": [_tool(row) for row in traffic["slowest"]],
        "failing": [_tool(row) for row in traffic["most_failing"]],
        "hosts": list(_hosts(facts)),
        "embedded": _embedded(len(kept), kept.episodes),
        "settings": list(_flat(about.content)),
    }


def percent(share: float | None) -> str:
    return NONE if share is None else f"{share:.1%}"


def _shares(counts: Counter[Any]) -> Iterator[tuple[Any, tuple[str, str]]]:
    """What was counted, the most frequent first, with its number and its share of all."""
    for of, n in counts.most_common():
        yield of, (f"{n:,}", percent(n / counts.total()))


def _took(milliseconds: float | None) -> str:
    return NONE if milliseconds is None else duration(milliseconds / 1e3)


def _compact(n: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if n >= size:
            return f"{n / (1e3 if unit == 'k' else size):.3g} {unit}"
    return f"{n:,.0f}"


def _simulated(about: RunInfo, facts: Facts) -> list[str]:
    """What was simulated, by the settings; of a remote gateway possibly only by its answers."""
    found = simulated(about)
    if facts.simulated_calls and "simulated" not in (about.upstream or ""):
        found.insert(0, f"answers are simulated ({facts.simulated_calls:,} of them)")
    return found


def _warnings(about: RunInfo, facts: Facts, digest: str) -> Iterator[tuple[str, str]]:
    episodes = facts.trajectories.episodes
    if about.ended != COMPLETE:
        of = f" of {about.episodes:,}" if "episodes" in about.content else ""
        yield "This run did not end.", f"{episodes:,}{of} episodes are on record."
    elif about.content.get("digest", digest) != digest:
        yield "The files are not those that the run left.", f"Their digest is {digest}."
    if failed := facts.metrics.result().get("failed_by_infrastructure"):
        of = f"{failed:,} of {episodes:,} episodes failed only by a quota, the gateway or the"
        yield "Not all figures tell of the agent.", f"{of} model's endpoint."


def _head(about: RunInfo, facts: Facts, digest: str) -> Iterator[tuple[str, str | None]]:
    def said(*names: str, of: str = "{}") -> str | None:
        values = [about.content.get(name) for name in names]
        return None if None in values else of.format(*values)

    began = about.started_at or facts.first_s
    yield "Suite", said("suite", "tasks", of="{}, {} tasks")
    yield "Agent", said("agent")
    yield "Model", said("model")
    yield "Judge", said("judge")
    yield "Began", f"{datetime.fromtimestamp(began, UTC):%Y-%m-%d %H:%M:%S} UTC" if began else None
    yield "Took", duration(about.took_s) if "took_s" in about.content else None
    yield "Tools answered", said("upstream", "mode", of="{}, mode {}") or said("upstream")
    yield "Gateway", said("gateway")
    yield "At once", said("concurrency", of="at most {} episodes")
    yield "Candidate tools", said("top_k", of="{} retrieved a task")
    yield "Seed", said("seed")
    yield "Versions", said("finport", "python", of="Finport {}, Python {}")
    yield "Suite digest", said("suite_digest")
    yield "Tools revision", said("catalog_revision")
    yield "Snapshot", about.snapshot or "none"
    yield "Run digest", digest if about.digest == digest else None


def _big_metrics(facts: Facts, metrics: Mapping[str, Any]) -> Iterator[Number]:
    for metric in facts.shown:
        value = metrics.get(metric.name)
        if metric.is_main and value is not None:
            interval = metric.interval_of(metrics) or "no interval"
            yield metric.title, metric.text_of(value), interval


def _big_rest(about: RunInfo, facts: Facts, metrics: Mapping[str, Any]) -> Iterator[Number]:
    traffic = metrics["traffic"]
    episodes, failed = facts.metrics.episodes, facts.errors.total()
    invoked = episodes - facts.metrics.tool_use.calls[0]
    yield "Episodes", f"{episodes:,}", f"{invoked:,} with a call"
    yield "Calls", f"{traffic['calls']:,}", f"{failed:,} failed"
    if "calls_per_s" in about.content:
        most = f"at most {about.content.get('most_in_flight', '?')} episodes in flight"
        yield "Calls a second", f"{about.calls_per_s:,.0f}", most
    if traffic["cache_hit_rate"] is not None:
        of = f"of {traffic['answered']:,} answered"
        yield "From the cache", percent(traffic["cache_hit_rate"]), of
    for name, uses in (("Tokens", facts.by_model), ("Tokens of the judge", facts.by_judge)):
        if uses:
            tokens = [(use.input_tokens, use.output_tokens) for use in uses.values()]
            into, out = (sum(column) for column in zip(*tokens, strict=True))
            yield name, _compact(into + out), f"{into:,} in, {out:,} out"
    for name, whose in (("Money", "agent"), ("Money of the judge", "judge")):
        if about.prices and (money := about.prices.money(metrics, whose)):
            known = money.amount is not None
            yield (name, str(money), "") if known else (name, "unknown", money.why)


def _metrics(metrics: Mapping[str, Any], facts: Facts) -> Iterator[tuple[str, ...]]:
    """One row for each metric: its axis if any has one, name, value, interval, counts, published
    values.
    """
    counts = facts.metrics.own.counts()
    have_axes = any(metric.axis for metric in facts.shown)
    for metric in facts.shown:
        value = metrics.get(metric.name)
        published = (row.get(metric.name) for row in facts.suite.published.values())
        yield (
            *((metric.axis,) if have_axes else ()),
            metric.title,
            "not judged" if value is None and metric.is_judged else metric.text_of(value),
            metric.interval_of(metrics),
            counts.get(metric.name, ""),
            *(NONE if figure is None else metric.text_of(figure) for figure in published),
        )


def _passes(passes: Mapping[str, Any] | None) -> dict[str, Any]:
    """pass@k and pass^k, where tasks have repeats."""
    if passes is None:
        return {}
    return {"heads": list(HEADS), "rows": list(pass_rows(passes)), "note": pass_note(passes)}


def _heat(facts: Facts, breakdown: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """The main metrics by group: `groups` of (name, rows, how many rows are left out)."""
    every = [row for rows in breakdown.values() for row in rows.values()]
    heads = [
        metric
        for metric in facts.shown
        if metric.is_main and any(row.get(metric.name) is not None for row in every)
    ]
    groups = []
    for key, label in facts.suite.groups.items():
        rows = sorted(
            breakdown.get(key, {}).items(), key=lambda item: (-item[1].get("episodes", 0), item[0])
        )
        if rows:
            shown = []
            for name, row in rows[:ROWS]:
                cells = [_cell(row.get(head.name), head) for head in heads]
                shown.append((name or "none", f"{row.get('episodes', 0):,}", cells))
            groups.append((label, shown, max(len(rows) - ROWS, 0)))
    return {"heads": [head.title for head in heads], "groups": groups}


def _cell(value: float | None, metric: Metric) -> Cell:
    if value is None:
        return NONE, ""
    kind = "worse" if metric.better == "less" else "more"
    text = f"{value * 100:.1f}" if metric.is_share else metric.text_of(value)
    return text, f"{kind} l{round(metric.place_of(value) * 10)}"


def _confusion(title: str, counts: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    """Right answers as rows, given answers as columns: those that are right answers, then the most
    frequent others.
    """
    given = sum(map(Counter, counts.values()), Counter[str]())
    right = sorted(counts, key=lambda name: (-sum(counts[name].values()), name))[:CONFUSED]
    others = [name for name, _ in given.most_common() if name not in right]
    columns = [*right, *others[: max(CONFUSED - len(right), 1)]]
    rows = []
    for name in right:
        of, cells = sum(counts[name].values()), []
        shown = [(column, counts[name].get(column, 0)) for column in columns]
        for column, n in shown:
            kind = f"{'more' if column == name else 'worse'} l{round(10 * n / of)}" if n else ""
            cells.append((f"{n:,}" if n else "", kind))
        rest = of - sum(n for _, n in shown)
        rows.append((name or "none", f"{of:,}", cells, rest or ""))
    heads = [column or "none" for column in columns]
    return {"title": title, "heads": heads, "rows": rows, "left": len(counts) - len(right)}


def _sources(facts: Facts) -> Iterator[tuple[str, ...]]:
    for name in (*SOURCES, OTHER, FAILED):
        if name in facts.by_source:
            use = facts.by_source[name]
            yield name, f"{use.calls:,}", *_latency(use, 0.5, 0.9, 0.99)


def _models(facts: Facts) -> Iterator[tuple[str, ...]]:
    for (model, purpose), use in (*sorted(facts.by_model.items()), *sorted(facts.by_judge.items())):
        counts = (use.calls, use.attempts, use.failed)
        tokens = (use.input_tokens, use.cached_tokens, use.output_tokens)
        yield model, purpose, *(f"{n:,}" for n in (*counts, *tokens)), *_latency(use, 0.5, 0.99)


def _hosts(facts: Facts) -> Iterator[tuple[str, ...]]:
    ranked = sorted(facts.by_host.items(), key=lambda item: (-item[1].calls, item[0]))
    for host, use in ranked[:HOSTS]:
        yield host, f"{use.calls:,}", f"{use.failed:,}", *_latency(use, 0.5, 0.99)


def _latency(use: Use, *points: float) -> Iterable[str]:
    latency: Quantiles = use.latency_ms
    return (_took(latency.at(point)) for point in points)


def _tool(row: Mapping[str, Any]) -> Sequence[str]:
    latency = row["latency_ms"]
    counts = (f"{row['calls']:,}", f"{row['failed']:,}")
    return row["tool"], *counts, _took(latency["p50"]), _took(latency["p99"])


_FIRST: Final = "those that did not pass or answered wrongly first"


def _embedded(kept: int, episodes: int) -> str:
    if not episodes:
        return "No episode is on record."
    if kept == episodes:
        return f"All {episodes:,} episodes of the run, {_FIRST}."
    return (
        f"{kept:,} of the {episodes:,} episodes of the run are in this page: {_FIRST}, then by "
        "order."
    )


def _flat(about: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """All settings, nested ones under their path."""
    for name, value in about.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            text = value if isinstance(value, str) else orjson.dumps(value).decode()
            yield f"{before}{name}", text

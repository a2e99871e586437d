"""The results of a run, as tables and lines on standard output."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text

from bench.metrics.interval import percent
from bench.metrics.passes import HEADS, pass_note, pass_rows
from bench.models.need import Amounts, ModelBound
from bench.models.prices import amount_text
from bench.runs.about import RunInfo
from bench.runs.forecast import HostNeed
from bench.runs.live import add_metrics
from bench.suites.suite import Metric, Suite, read_as
from manifests.common.console import PlainConsole
from manifests.common.terminal import echo


@contextmanager
def if_seen() -> Iterator[None]:
    """Show the results of a finished run in this context. If that fails because the terminal is
    gone or can't write a character, standard error says so; the run is not affected.
    """
    try:
        yield
        sys.stdout.flush()
    except (OSError, ValueError, SystemExit) as error:  # rich exits on a broken pipe
        with suppress(OSError, ValueError):
            print(f"finbench: the tables can't be shown: {error}", file=sys.stderr)  # noqa: T201
        with suppress(OSError, ValueError):  # unwritten output would fail again at exit
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)


_OF_JUDGES = {
    "invalid": "answers of the judge were no scores, or none came",
    "invalid_tools": "tools got no verdict from the judge",
    "rounded": "scores of the judge were rounded to 0 or 1",
}


def report(
    suite: type[Suite],
    metrics: dict[str, Any],
    about: RunInfo,
    reading: str = "program",
    by: Sequence[str] = (),
) -> None:
    """The metrics of a finished run, by one reading of the suite's paper, also by these groups."""
    console = PlainConsole(narrowest=100)
    traffic = metrics["traffic"]
    judge = f", judged by {about.judge}" if about.judge not in ("", "none") else ""
    title = f"{about.suite}: {suite.title} metrics{judge}"
    table = Table("metric", "value", "95 % interval", "what it is", title=title, box=SIMPLE)
    shown = read_as(suite.metrics, reading)
    add_metrics(table, (metric for metric in shown if metric.name in metrics), metrics)
    console.print(table)
    console.print(suite.summary(metrics))
    if passes := metrics.get("passes"):
        by_k = Table(*HEADS, title="repeats", box=SIMPLE)
        for texts in pass_rows(passes):
            by_k.add_row(*texts)
        console.print(by_k)
        console.print(pass_note(passes))
    breakdown = metrics.get("breakdown", {})
    languages = ["language"] if len(breakdown.get("language", ())) > 1 else []
    for group in by or [suite.tabled, *languages]:
        if rows := breakdown.get(group):
            intervals = metrics.get("task_intervals", {}) if group == suite.tabled else {}
            of = {name: {"intervals": intervals[name]} for name in rows if name in intervals}
            told = {name: {**row, **of.get(name, {})} for name, row in rows.items()}
            _group_table(suite.all_groups()[group], told, shown)
        elif group in by:
            console.print(f"no episode says its {group}")
    if traffic["calls"]:
        console.print(
            f"calls {traffic['calls']}, answered {traffic['answered']}: "
            + (", ".join(f"{source} {n}" for source, n in traffic["sources"].items()) or "none")
            + f"; cache hit rate {percent(traffic['cache_hit_rate'])}"
        )
    else:
        console.print("no calls")
    if "lies" in traffic:
        console.print("lied: " + ", ".join(f"{kind} {n}" for kind, n in traffic["lies"].items()))
    console.print("failed: " + (", ".join(f"{c} {n}" for c, n in traffic["errors"].items()) or "0"))
    endings = metrics["usage"]["endings"]
    console.print("endings: " + ", ".join(f"{ending} {n}" for ending, n in endings.items()))
    for who, used in (("agent", metrics["usage"]), ("judge", metrics["usage"]["judge"])):
        if (asked := used["model_calls"])["calls"]:
            tokens = used["tokens"]
            cached = f" ({tokens['cached']} of them cached)" if tokens["cached"] else ""
            money = about.prices and about.prices.money(metrics, who)
            console.print(
                f"the {who}'s model: {asked['calls']} requests in {asked['attempts']} attempts, "
                f"{asked['failed']} failed; {tokens['input']} tokens in{cached}, "
                f"{tokens['output']} out{f'; {money}' if money else ''}",
                soft_wrap=True,
            )
    for name, text in _OF_JUDGES.items():
        if counted := metrics.get("judged", {}).get(name):
            console.print(f"{counted} {text}")
    if about.failed_judgements:
        console.print(f"the judge failed on {about.failed_judgements} of {about.judged} episodes")
    for ending, text in about.first_errors.items():
        console.print(f"the first {ending}: {text}")
    for title, rows in (("slowest", "slowest"), ("most failing", "most_failing")):
        if not traffic[rows]:
            continue
        tools = Table(f"{title} tools", "calls", "failed", "p50 ms", "p99 ms", box=SIMPLE)
        for row in traffic[rows]:
            latency = row["latency_ms"]
            figures = (row["calls"], row["failed"], latency["p50"], latency["p99"])
            tools.add_row(row["tool"], *map(str, figures))
        console.print(tools)


def _group_table(
    title: str, rows: Mapping[str, Mapping[str, Any]], metrics: Sequence[Metric]
) -> None:
    """Print the main metrics of a group's rows that any row has, with their intervals if known."""
    shown = [
        metric
        for metric in metrics
        if metric.is_main and any(row.get(metric.name) is not None for row in rows.values())
    ]
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column(title, overflow="fold", max_width=30)
    for head in ("episodes", *(metric.name for metric in shown)):
        table.add_column(head, justify="right", overflow="fold")
    for name, row in rows.items():
        cells = []
        for metric in shown:
            value, ends = row.get(metric.name), row.get("intervals", {}).get(metric.name)
            text = "" if value is None else metric.text_of(value)
            if ends and metric.is_share:
                text += f"\n{ends[0]:.0%} to {ends[1]:.0%}".replace("% to", " to")
            elif ends:
                text += f"\n{ends[0]:.2f} to {ends[1]:.2f}"
            cells.append(text)
        table.add_row(Text(name or "none"), f"{row['episodes']:,}", *cells)
    PlainConsole(narrowest=120).print(table)


def rows_table(rows: Sequence[Mapping[str, Any]], suite: type[Suite]) -> None:
    """Print rows of figures: what they are of, and the suite's main metrics, with their intervals
    where a row has any.
    """
    metrics = [metric for metric in suite.metrics if metric.is_main and metric.name in rows[0]]
    figures = {metric.name for metric in suite.metrics}
    heads = [
        name
        for name, value in rows[0].items()
        if isinstance(value, str | int) and name not in figures
    ]
    table = Table(box=SIMPLE)
    for name in (*heads, *(metric.name for metric in metrics)):
        table.add_column(name, overflow="fold")
    for row in rows:
        intervals = {"intervals": row.get("intervals", {})}
        cells = []
        for metric in metrics:
            interval = metric.interval_of(intervals)
            cells.append(metric.text_of(row[metric.name]) + (f"\n{interval}" if interval else ""))
        table.add_row(*(str(row[name]) for name in heads), *cells)
    PlainConsole(narrowest=100).print(table)


def closing(about: RunInfo, folder: Path, **vitals: dict[str, Any]) -> None:
    """How long the run took, how the processes fared, and where its files are."""
    before = about.episodes_before
    lines = [
        f"{about.episodes} episodes{f', {before} of them before' if before else ''}, at most "
        f"{about.most_in_flight} in flight, in {about.took_s:.1f} s: "
        f"{about.calls_per_s:.0f} calls/s"
    ]
    for name, figures in vitals.items():
        lag, peak = figures["loop_lag_ms"]["p99"], figures["peak_rss_bytes"] / 2**20
        workers = (figures["children_peak_rss_bytes"] or 0) / 2**20
        beside = f", its workers {workers:.0f} MiB" if workers and name == "gateway" else ""
        # It was over before the first sample where there is no lag.
        late = "not measured" if lag is None else f"p99 {lag:.1f} ms"
        lines.append(f"{name}: event loop lag {late}, peak memory {peak:.0f} MiB{beside}")
    if about.failed_saves:
        lines.append(
            f"{about.failed_saves} times metrics.json or run.json could not be saved meanwhile; "
            "now all is on disk"
        )
    if about.engine.get("name") == "ray":
        engine = about.engine
        lost = f"; {engine['lost_players']} were lost" if engine["lost_players"] else ""
        lines.append(
            f"Ray {engine['version']}: at most {engine['most_players']} players at once on "
            f"{engine['nodes']} nodes{lost}"
        )
    if gone_on := about.content.get("gone_on"):
        lines.append(
            f"{gone_on['episodes']} interrupted episodes went on where they stood, after "
            f"{gone_on['calls']} decisions; {gone_on['begun_again']} began again, because their "
            "agent can't begin in the middle"
        )
    if about.snapshot:
        lines.append(f"snapshot: {about.snapshot} ({about.mode})")
    if about.digest:
        lines.append(f"run digest: {about.digest}")
    echo("\n".join([*lines, f"run directory: {folder}"]))


def plan_table(needs: Sequence[HostNeed]) -> None:
    """Print what a run would request of each host."""
    table = Table("host", "calls", "distinct", "at most", "quota left", "runs out", box=SIMPLE)
    for need in needs:
        out = "" if need.left is None else "no"
        if need.runs_out_at_most is not None:
            out = f"at worst at episode {need.runs_out_at_most}"
        if need.runs_out is not None:
            out = f"at episode {need.runs_out}"
        left = "" if need.left is None else str(need.left)
        counts = (str(n) for n in (need.calls, need.distinct, need.most))
        table.add_row(need.host, *counts, left, out)
    console = PlainConsole(narrowest=120)
    console.print(table)
    console.print(
        "distinct: upstream requests when every answer is kept and no attempt fails; "
        "at most: when none is kept and every attempt is used"
    )


_BOUND = """\
At most: an episode uses all its rounds, makes all its calls in the first, and each turn is asked \
for twice, as after an empty answer; a byte of text is a token. Estimate: all rounds, with a call \
and a request each; four bytes are a token. In both each answer is as long as it may be. A \
request that fails is sent up to three times. What an endpoint charges for that, and for episodes \
that are played again, comes on top."""


def bound_table(bounds: Sequence[tuple[str, ModelBound]], *, heading: str = "") -> None:
    """Print what runs request of models, and their sum; each bound has a name if there is a
    `heading` for it.
    """
    heads = ("model", "", "requests", "tokens in", "tokens out", "money")
    table = Table(*([heading] if heading else []), *heads, box=SIMPLE)

    def add(name: str, model: str, what: str, amounts: Amounts, currency: str | None) -> None:
        counts = (amounts.requests, amounts.input_tokens, amounts.output_tokens)
        told = ("no bound" if n is None else f"{n:,}" for n in counts)
        money = "" if amounts.money is None else f"{amount_text(amounts.money)} {currency}"
        table.add_row(*([name] if heading else []), model, what, *told, money)

    for name, bound in bounds:
        model = f"{bound.whose}: {bound.model}"
        add(name, model, "at most", bound.most, bound.currency)
        add("", "", "estimate", bound.estimate, bound.currency)
    if len(bounds) > 1:
        most, estimate, currency = ModelBound.together([bound for _, bound in bounds])
        add("", "together", "at most", most, currency)
        add("", "", "estimate", estimate, currency)
    console = PlainConsole(narrowest=110)
    console.print(table)
    for why in dict.fromkeys(why for _, bound in bounds for why in bound.why):
        console.print(why)
    console.print(_BOUND)

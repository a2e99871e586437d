"""`finbench report`: a run directory as one page of HTML.

The page requests nothing from anywhere, and its own policy forbids it. No text of a trace becomes
markup in it, and none has characters that change the direction of writing. Every figure is computed
from the files of the run, by the rules of `bench/metrics`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from bench.report import plots
from bench.report.content import content
from bench.report.facts import FAILED, OTHER, SOURCES, Facts
from bench.runs.about import RunInfo
from bench.runs.digest import run_digest
from bench.runs.output import made_from
from bench.runs.reader import Run
from bench.runs.transcripts import Transcripts
from bench.suites import suite_of_run
from gateway.common.html import environment, rendered, style, text_of

TRAJECTORIES = 1_000

SHEET = ("bench.report", "report.css")
"""The style of the page, which other pages of the bench share."""


@dataclass(frozen=True, slots=True)
class Written:
    """A report on disk: its size in bytes, how many episodes it shows, and how many there are.
    `digest` is that of the files of its `run`.
    """

    path: Path
    run: Run
    digest: str
    size: int
    embedded: int
    episodes: int


def write(
    run_dir: Path,
    out: Path | None = None,
    *,
    force: bool = False,
    trajectories: int = TRAJECTORIES,
    suite: str | None = None,
) -> Written:
    """Write the report of `run_dir`, by default into it as `report.html`, with at most
    `trajectories` episodes to read. With `force` it replaces an existing file. Memory does not grow
    with the size of the run.

    Raises `RunDirectoryError` where there is no run, `SuiteError`, and `OSError` where the page
    can't be written.
    """
    out = out or run_dir / "report.html"
    run = Run.open(run_dir)
    with made_from(run_dir, out, force=force) as file:
        kind = suite_of_run(run.about.suite, suite)
        facts = Facts(kind, trajectories, Transcripts(run_dir))
        for record in run.records():
            facts.add(record)
        digest = run_digest(run_dir)
        text = page(run.about, facts, digest).encode()
        file.write(text)
    kept = facts.trajectories
    return Written(out, run, digest, len(text), len(kept), kept.episodes)


def page(about: RunInfo, facts: Facts, digest: str) -> str:
    """The page of a run from its settings, its facts and the digest of its files."""
    script = text_of("gateway.api.static", "duration.js") + text_of("bench.report", "report.js")
    # JSON without characters that are special in HTML.
    episodes = Markup(facts.trajectories.json())  # noqa: S704
    template = environment("bench.report").get_template("report.html.j2")
    return rendered(
        template, style(SHEET), script, **parts(about, facts, digest), episodes=episodes
    )


def parts(about: RunInfo, facts: Facts, digest: str) -> dict[str, Any]:
    """What the page of a run shows, without its episodes."""
    drawn = facts.charts.drawn() if facts.charts is not None else ()
    return {
        **content(about, facts, digest),
        "figures": _figures(facts),
        "charts": [(chart.title, chart.text, plots.days_figure(chart)) for chart in drawn],
    }


def _figures(facts: Facts) -> dict[str, Markup | None]:
    published = facts.suite.published
    drawn = [
        metric
        for metric in facts.shown
        if metric.is_bounded
        and (metric.is_main or any(metric.name in row for row in published.values()))
    ]
    sources = {name: facts.by_source[name] for name in (*SOURCES, OTHER, FAILED)}
    return {
        "metrics": plots.metrics_figure(facts.metrics.result(), drawn, published),
        "timeline": plots.timeline_figure(facts.timeline.spans(), facts.timeline.width_s),
        "tool_use": plots.tool_use_figure(facts.calls_an_episode),
        "latency": plots.latency_figure(sources),
        "errors": plots.errors_figure(facts.errors),
    }

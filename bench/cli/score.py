"""`finbench score`: computes metrics from traces alone."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from bench.cli.options import beside, judge_settings, judging, suite_in, with_dataset
from gateway.cli.options import OutPath, echo_json, force, run
from manifests.common.terminal import echo

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.analysis.score import Gold
    from bench.judges.judging import Judging
    from bench.judges.registry import JudgeSettings
    from bench.record import EpisodeRecord
    from bench.runs.reader import Run
    from bench.suites.suite import Suite
    from gateway import CallRecord


@dataclass(frozen=True, slots=True)
class _Order:
    """What to score. With `keep`, existing judgements stay unchanged."""

    path: Path
    is_run: bool
    suite_given: str | None
    suite: "type[Suite]"
    judge: "JudgeSettings | None"
    keep: bool
    gold: "Gold | None"
    out: Path | None
    items: Path | None
    force: bool

    @property
    def name(self) -> str:
        return self.suite_given or self.path.name


@click.command()
@click.argument("path", metavar="RUN_DIR|TRACE.jsonl", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--suite",
    metavar="SUITE",
    callback=beside,
    help="Supplies what a trace does not say about its tasks.",
)
@with_dataset
@judging
@click.option(
    "--out",
    type=OutPath(),
    metavar="DIR|FILE",
    help="Write a run with the new judgements as a new run directory, the judged episodes of a "
    "trace as JSON Lines.",
)
@click.option(
    "--items",
    type=OutPath(dir_okay=False),
    help="Write the verdict on each episode as JSON Lines.",
)
@force
@click.option(
    "--intervals",
    is_flag=True,
    help="investorbench: add intervals to recorded decisions, 0.1 s a line.",
)
@click.option("--json", "as_json", is_flag=True)
@click.pass_context
def score(
    context: click.Context,
    /,
    path: Path,
    suite: str | None,
    dataset: Path | None,
    out: Path | None,
    items: Path | None,
    force: bool,
    intervals: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Compute metrics from the files of RUN_DIR, from a trace in FinToolBench's format, from
    recorded answers to Finova's tasks, or from decisions in InvestorBench's markets.

    Without --judge, the recorded judgements count, and rules judge the episodes of a trace that
    have none. With --judge, all episodes are judged again; the input files do not change.
    """
    from bench.analysis.score import Gold
    from bench.suites import load_suite, suite_of_run
    from bench.suites.suite import SuiteError

    is_run = path.is_dir()
    keep = context.get_parameter_source("judge") is ParameterSource.DEFAULT
    if out is not None and is_run and keep:
        raise click.UsageError("--out wants --judge: without, a run stays as it was judged")
    if dataset is not None and suite is None:
        raise click.UsageError("--dataset wants --suite")
    try:
        kind = suite_in(path, suite) if is_run else suite_of_run("", suite)
        if not is_run:
            _score_rows(kind, path, dataset, as_json, with_intervals=intervals)
        if intervals:
            raise click.UsageError("--intervals is for recorded decisions; a run has its own")
        gold = Gold(load_suite(suite, dataset)) if suite is not None else None
    except SuiteError as error:
        raise click.UsageError(str(error)) from error
    settings = judge_settings(options, kind)
    judge = None if is_run and keep else settings
    order = _Order(path, is_run, suite, kind, judge, keep, gold, out, items, force)
    run(lambda: _score(order, as_json))


def _score_rows(
    kind: "type[Suite]", path: Path, dataset: Path | None, as_json: bool, *, with_intervals: bool
) -> None:
    """Print the figures of a file that holds no episodes, and end the command; return if it holds
    some. Raises `SuiteError`.
    """
    from bench.cli.tables import rows_table
    from bench.suites.suite import TraceFormatError

    try:
        rows = kind.score_file(path, dataset, with_intervals=with_intervals)
    except TraceFormatError as error:
        raise click.ClickException(str(error)) from error
    if rows is None:
        return
    if as_json:
        echo_json({"rows": rows})
    else:
        rows_table(rows, kind)
    raise SystemExit(0)


async def _score(order: _Order, as_json: bool) -> int:
    from bench.cli.warnings import warn_of_changes, warn_of_suite
    from bench.judges.registry import JudgeSettingsError
    from bench.runs.directory import RunDirectoryError
    from bench.runs.silence import of_judge, of_model
    from bench.suites.suite import SuiteError, TraceFormatError
    from gateway.trace import TraceError

    faults = (RunDirectoryError, SuiteError)
    try:
        metrics, facts, judging = await _measure(order)
        read, digest = await _read(order)
    except JudgeSettingsError as error:
        raise click.UsageError(str(error)) from error
    except (*faults, TraceFormatError, TraceError) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        text = f"{error.filename or order.out or order.path}: {error.strerror}"
        raise click.ClickException(text) from error
    if read is not None:
        facts |= {"digest": digest, "snapshot": read.about.snapshot}
        warn_of_suite(read, order.suite_given)
    if judging is not None:
        facts["failed_judgements"] = judging.failed
    if unmatched := metrics["episodes"] - facts.get("filled", metrics["episodes"]):
        of = f"{unmatched:,} of {metrics['episodes']:,} episodes"
        echo(f"finbench: {of} are of no task of {order.name}", err=True)
    if as_json:
        echo_json({**metrics, **facts})
    else:
        _show(order.suite, metrics, (read and read.about.suite) or order.name, judging)
        if facts.get("outcome") == "text":
            echo(order.suite.untyped_note)
        if read is not None:
            echo(f"run digest: {digest}")
    if read is not None and warn_of_changes(read, digest):
        return 1
    silent = [] if metrics["episodes"] else [f"{order.path} holds no episodes"]
    if judging is not None:
        silent += of_judge(judging.asked, judging.failed, judging.first_error)
    if order.judge is not None and order.judge.needs_model:
        silent += of_model("judge", order.judge.base_url, metrics["usage"]["judge"])
    for text in silent:
        echo(f"finbench: {text}", err=True)
    return 1 if silent else 0


def _show(
    suite: "type[Suite]", metrics: dict[str, Any], name: str, judging: "Judging | None"
) -> None:
    """Print the metrics as tables."""
    from bench.cli.tables import report
    from bench.runs.about import RunInfo

    judged = metrics.get("judged", {"judges": {}, "invalid": 0})
    judges = ", ".join(judged["judges"]) or "none"
    about: dict[str, Any] = {"suite": name, "judge": judges}
    if judging is not None and judging.failed:
        about |= {"judged": judging.asked, "failed_judgements": judging.failed}
        about["first_errors"] = {"judge": judging.first_error}
    report(suite, metrics, RunInfo.of(about))


async def _measure(order: _Order) -> tuple[dict[str, Any], dict[str, Any], "Judging | None"]:
    """The metrics, further facts to print beside them, and what the judge did."""
    from contextlib import AsyncExitStack

    from anyio import to_thread

    from bench.analysis.score import Episodes, judged_again, score_records, written
    from bench.cli.warnings import warn_of_incomplete
    from bench.judges.judging import Judging
    from bench.judges.registry import open_judge
    from bench.runs.reader import Run
    from manifests import Catalog

    async with AsyncExitStack() as parts:
        judging = None
        if order.judge is not None:
            judge = await parts.enter_async_context(open_judge(order.judge, Catalog.load()))
            if judge is not None:
                suite, most_s = order.suite, order.judge.wall_s
                judging = Judging(judge, suite.kind_of, suite.scores, most_s)
        out = made = episodes = None
        records: Iterable[EpisodeRecord | CallRecord]
        if order.is_run:
            run = Run.open(order.path)
            records = run.records()
            if order.out is not None and order.judge is not None:
                again = judged_again(run, order.judge, judging, order.suite, order.out)
                made = await parts.enter_async_context(again)
        else:
            gold = order.gold
            read = order.suite.read_traces if gold is None else gold.suite.traces
            records = episodes = Episodes(read(order.path))
            if order.out is not None:
                out = await parts.enter_async_context(
                    written(order.out, order.path, force=order.force)
                )
        items = None
        if order.items is not None:
            opened = written(order.items, order.path, force=order.force)
            items = await parts.enter_async_context(opened)
        metrics = await score_records(
            order.suite,
            records,
            judging,
            keep=order.keep,
            gold=order.gold,
            out=out,
            items=items,
            run=made,
        )
    facts: dict[str, Any] = {}
    if episodes is not None:
        facts["outcome"] = "typed" if episodes.typed else "text"
        facts["incomplete_line"] = episodes.incomplete and episodes.incomplete.number
        warn_of_incomplete(episodes)
    if order.gold is not None:
        facts["filled"] = order.gold.filled
    return await to_thread.run_sync(metrics.whole), facts, judging


async def _read(order: _Order) -> tuple["Run | None", str]:
    """The run and the present digest of its files; a trace has neither."""
    from anyio import to_thread

    from bench.runs.digest import run_digest
    from bench.runs.reader import Run

    if not order.is_run:
        return None, ""
    return Run.open(order.path), await to_thread.run_sync(run_digest, order.path)

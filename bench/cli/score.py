"""`finbench score`: computes metrics from traces alone."""

from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from bench.cli.options import (
    beside,
    by_groups,
    catalog_in,
    check_groups,
    is_given,
    judge_settings,
    judging,
    reading,
    suite_in,
    with_cards,
    with_dataset,
    with_manifests,
)
from gateway.cli.options import OutPath, echo_json, failures, force, run, wrong_usage
from manifests.common.terminal import echo

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.judges.judging import Judging
    from bench.record import EpisodeRecord
    from bench.suites.suite import Suite
    from gateway import CallRecord


@click.command()
@click.argument("path", metavar="RUN_DIR|TRACE.jsonl", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--suite",
    metavar="SUITE",
    callback=beside,
    help="Supplies what a trace does not say about its tasks.",
)
@with_dataset
@with_manifests
@with_cards
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
@by_groups
@reading
@click.option(
    "--intervals",
    is_flag=True,
    help="investorbench: add intervals to recorded decisions, 0.1 s a line.",
)
@click.option("--json", "as_json", is_flag=True)
@click.pass_context
def score(context: click.Context, /, **options: Any) -> None:
    """Compute metrics from the files of RUN_DIR, from a trace in FinToolBench's format, from
    recorded answers to Finova's tasks, or from decisions in InvestorBench's markets.

    Without --judge, the recorded judgements count, which must be of one judge; rules judge a trace
    that has none. With --judge, all episodes are judged again; the input files do not change.
    """
    from bench.analysis.score import Gold
    from bench.suites import load_suite, suite_of_run
    from bench.suites.suite import SuiteError

    given = SimpleNamespace(**options)
    path, suite = given.path, given.suite
    given.is_run, given.keep = path.is_dir(), not is_given(context, "judge")
    given.name = suite or path.name
    if given.out is not None and given.is_run and given.keep:
        raise click.UsageError("--out wants --judge: without, a run stays as it was judged")
    if given.dataset is not None and suite is None:
        raise click.UsageError("--dataset wants --suite")
    with wrong_usage(SuiteError):
        kind = given.kind = suite_in(path, suite) if given.is_run else suite_of_run("", suite)
        if not given.is_run and _score_rows(kind, given):
            return
        if given.intervals:
            raise click.UsageError("--intervals is for recorded decisions; a run has its own")
        given.gold = None if suite is None else Gold(load_suite(suite, given.dataset))
    for note in given.gold.suite.notes if given.gold else ():
        echo(f"finbench: {suite}: {note}", err=True)
    check_groups(given.by, kind)
    given.catalog = catalog_in(given.manifests, given.cards)
    settings = judge_settings(options, kind)
    given.judge = None if given.is_run and given.keep else settings
    run(lambda: _score(given))


def _score_rows(kind: "type[Suite]", given: SimpleNamespace) -> bool:
    """Print the figures of a file without episodes; False for another. Raises `SuiteError`."""
    from bench.cli.tables import rows_table
    from bench.suites.suite import TraceFormatError

    with failures(TraceFormatError):
        rows = kind.score_file(given.path, given.dataset, with_intervals=given.intervals)
    if rows is None:
        return False
    if given.as_json:
        echo_json({"rows": rows})
    else:
        rows_table(rows, kind)
    return True


async def _score(given: SimpleNamespace) -> int:
    from anyio import to_thread

    from bench.cli.warnings import warn_of_changes, warn_of_suite
    from bench.judges.registry import JudgeSettingsError
    from bench.runs.digest import run_digest
    from bench.runs.directory import RunDirectoryError
    from bench.runs.reader import Run
    from bench.runs.silence import of_judge, of_model
    from bench.suites.suite import SuiteError, TraceFormatError
    from gateway.trace import TraceError

    faults = (RunDirectoryError, SuiteError, TraceFormatError, TraceError)
    with wrong_usage(JudgeSettingsError), failures(*faults, of=given.out or given.path):
        metrics, facts, judging = await _measure(given)
        read = Run.open(given.path) if given.is_run else None
        digest = await to_thread.run_sync(run_digest, given.path) if read else ""
    if read is not None:
        facts |= {"digest": digest, "snapshot": read.about.snapshot}
        warn_of_suite(read, given.suite)
    if judging is not None:
        facts["failed_judgements"] = judging.failed
    if unmatched := metrics["episodes"] - facts.get("filled", metrics["episodes"]):
        of = f"{unmatched:,} of {metrics['episodes']:,} episodes"
        echo(f"finbench: {of} are of no task of {given.name}", err=True)
    if given.as_json:
        echo_json({**metrics, **facts})
    else:
        name = (read and read.about.suite) or given.name
        prices = read.about.content.get("prices") if read else None
        _show(given, metrics, name, judging, prices)
        if facts.get("outcome") == "text":
            echo(given.kind.untyped_note)
        if read is not None:
            echo(f"run digest: {digest}")
    if read is not None and warn_of_changes(read, digest):
        return 1
    silent = [] if metrics["episodes"] else [f"{given.path} holds no episodes"]
    if judging is not None:
        silent += of_judge(judging.asked, judging.failed, judging.first_error)
    if given.judge is not None and given.judge.needs_model:
        silent += of_model("judge", given.judge.base_url, metrics["usage"]["judge"])
    for text in silent:
        echo(f"finbench: {text}", err=True)
    return 1 if silent else 0


def _show(
    given: SimpleNamespace,
    metrics: dict[str, Any],
    name: str,
    judging: "Judging | None",
    prices: dict[str, Any] | None,
) -> None:
    """Print the metrics as tables."""
    from bench.cli.tables import report
    from bench.runs.about import RunInfo

    judged = metrics.get("judged", {"judges": {}, "invalid": 0})
    judges = ", ".join(judged["judges"]) or "none"
    about: dict[str, Any] = {"suite": name, "judge": judges, "prices": prices}
    if judging is not None and judging.failed:
        about |= {"judged": judging.asked, "failed_judgements": judging.failed}
        about["first_errors"] = {"judge": judging.first_error}
    report(given.kind, metrics, RunInfo.of(about), given.reading, given.by)


async def _measure(
    given: SimpleNamespace,
) -> tuple[dict[str, Any], dict[str, Any], "Judging | None"]:
    """The metrics, further facts to print beside them, and what the judge did."""
    from anyio import to_thread

    from bench.analysis.score import Episodes, judged_again, score_records, written
    from bench.cli.warnings import check_one_judge, warn_of_incomplete
    from bench.judges.judging import Judging
    from bench.judges.registry import open_judge
    from bench.runs.metrics import Breakdown
    from bench.runs.reader import Run

    recorded: Counter[str] = Counter()
    if not given.is_run:
        gold = given.gold
        read = given.kind.read_traces if gold is None else gold.suite.traces
        if given.keep:
            recorded = await to_thread.run_sync(_recorded, Episodes(read(given.path)))
            check_one_judge(recorded, given.path)
    async with AsyncExitStack() as parts:
        judging = None
        if given.judge is not None:
            judge = await parts.enter_async_context(open_judge(given.judge, given.catalog))
            if judge is not None and not recorded:
                suite, most_s = given.kind, given.judge.wall_s
                judging = Judging(judge, suite.kind_of, suite.scores_of(judge.name), most_s)
        out = made = items = episodes = None
        records: Iterable[EpisodeRecord | CallRecord]
        if given.is_run:
            run = Run.open(given.path)
            records = run.records()
            if given.out is not None and given.judge is not None:
                again = judged_again(run, given.judge, judging, given.kind, given.out)
                made = await parts.enter_async_context(again)
        else:
            records = episodes = Episodes(read(given.path))
            if given.out is not None:
                opened = written(given.out, given.path, force=given.force)
                out = await parts.enter_async_context(opened)
        if given.items is not None:
            opened = written(given.items, given.path, force=given.force)
            items = await parts.enter_async_context(opened)
        metrics = await score_records(
            given.kind,
            records,
            judging,
            keep=given.keep,
            gold=given.gold,
            out=out,
            items=items,
            run=made,
            groups=(groups := Breakdown(given.kind, given.by)),
        )
    result = await to_thread.run_sync(metrics.whole)
    if given.by:
        result.setdefault("breakdown", {}).update(groups.result())
    if given.keep:
        check_one_judge(result.get("judged", {}).get("judges", {}), given.path)
    if recorded and (left := metrics.episodes - recorded.total()):
        text = f"{left:,} of {metrics.episodes:,} episodes have no judgement of {max(recorded)}"
        echo(f"finbench: {given.path}: {text}; --judge judges all of them anew", err=True)
    facts: dict[str, Any] = {}
    if episodes is not None:
        facts["outcome"] = "typed" if episodes.typed else "text"
        facts["incomplete_line"] = episodes.incomplete and episodes.incomplete.number
        warn_of_incomplete(episodes)
    if given.gold is not None:
        facts["filled"] = given.gold.filled
    return result, facts, judging


def _recorded(episodes: "Iterable[EpisodeRecord]") -> Counter[str]:
    """How many judgements episodes have, by judge."""
    return Counter(one.judgement.judge for one in episodes if one.judgement is not None)

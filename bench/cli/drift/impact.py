"""`finbench drift impact`: what drift of tools does to the scores of a recorded run.

The run is played again on each snapshot, and both replays are compared as by `finbench compare`.
"""

import contextlib
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from bench.cli.drift.output import SNAPSHOT, table_of
from bench.cli.options import (
    Number,
    catalog_in,
    judge_settings,
    judging,
    of_suite,
    suite_in,
    with_dataset,
    with_manifests,
)
from gateway.cli.options import OutPath, echo_json, ended, failures, read_settings, wrong_usage
from gateway.cli.snapshot import tell_aside

if TYPE_CHECKING:
    from bench.analysis.compare import Run as Replayed
    from bench.drift.impact import Figures, Impact
    from bench.drift.replay import Replay
    from bench.judges.registry import JudgeSettings
    from bench.record import EpisodeRecord
    from bench.runs.reader import Run
    from bench.suites.suite import Suite

_SHOWN = 20
_SIDES = ("a", "b")
_COLUMNS = {
    "calls": "calls",
    "same": "same",
    "changed": "changed",
    "other answer": "other_answer",
    "now fails": "now_fails",
    "now answers": "now_answers",
    "other error": "other_error",
    "not in A": "missing_a",
    "not in B": "missing_b",
}
_ALWAYS = ("calls", "same", "changed")


@click.command()
@click.argument("run_dir", metavar="RUN", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--snapshots",
    type=(SNAPSHOT, SNAPSHOT),
    metavar="A B",
    required=True,
    help="Two snapshots of the run's calls.",
)
@with_dataset
@of_suite
@with_manifests
@judging
@click.option(
    "--out", type=OutPath(), metavar="DIR", help="Keep the replayed runs, as DIR/a and DIR/b."
)
@click.option("--resume", is_flag=True, help="Go on with the replayed runs in --out.")
@click.option(
    "--fail-under",
    type=Number(0, 1),
    metavar="SHARE",
    help="Exit with 1 if the outcomes of a smaller share of episodes are the same.",
)
@click.option("--json", "as_json", is_flag=True)
@click.pass_context
def impact(
    context: click.Context,
    /,
    run_dir: Path,
    snapshots: tuple[Path, Path],
    dataset: Path | None,
    suite: str | None,
    manifests: Path | None,
    out: Path | None,
    resume: bool,
    fail_under: float | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Show which calls, episodes and metrics of RUN change between two snapshots.

    The recorded calls are made again on each snapshot, and get the recorded answers of the agent.
    Without --judge, no model judges them.
    """
    from bench.agents.declaration import AgentSettingsError
    from bench.cli.warnings import warn_of_changes, warn_of_suite
    from bench.drift.impact import Impact
    from bench.drift.replay import Replay, plan_of
    from bench.judges.registry import JudgeSettingsError
    from bench.runs.about import RunDirectoryError
    from bench.runs.driver import ModelDownError
    from bench.runs.reader import Run
    from bench.suites.suite import SuiteError
    from cache import Snapshot, SnapshotError
    from gateway.trace import TraceError

    if resume and out is None:
        raise click.UsageError("--resume wants --out DIR")
    given = [n for n in options if context.get_parameter_source(n) is ParameterSource.COMMANDLINE]
    kind = suite_in(run_dir, suite)
    faults = failures(RunDirectoryError, SnapshotError, TraceError, ModelDownError)
    wrong = wrong_usage(SuiteError, AgentSettingsError, JudgeSettingsError)
    with contextlib.ExitStack() as parts, faults, wrong:
        try:
            run = Run.open(run_dir)
            warn_of_changes(run)
            warn_of_suite(run, suite)
            opened = [parts.enter_context(Snapshot(path)) for path in snapshots]
            plan = plan_of(
                run, suite or run.about.suite, dataset, _judge(options, given, kind, run)
            )
            folders = _folders(parts, out, resume=resume)
            settings = (read_settings(mode="offline", snapshot=path) for path in snapshots)
            replay = Replay(
                run,
                plan,
                catalog_in(manifests),
                dict(zip(_SIDES, opened, strict=True)),
                dict(zip(_SIDES, settings, strict=True)),
                folders,
                resume,
                tell_aside,
            )
            notes = [*replay.notes(kind)]
            for note in notes:
                tell_aside(f"finbench: {note}")
            ending = f"finbench: ending the replay; {_left(out)}."
            if code := ended(replay.play, interrupted=ending):
                sys.exit(code)
            found = Impact()
            compared = _compared(replay, found, suite)
        except KeyboardInterrupt:
            kept = out if out is not None and out.exists() else None
            tell_aside(f"finbench: interrupted; {_left(kept)}")
            sys.exit(130)
    sides = {
        side: {
            "snapshot": str(snapshot.path),
            "id": snapshot.id,
            "run": str(folders[side]) if out is not None else None,
        }
        for side, snapshot in replay.snapshots.items()
    }
    about = {"run": str(run_dir), "suite": run.about.suite}
    result = {**about, **sides, **found.result(), **compared, "notes": notes}
    if as_json:
        echo_json(result)
    else:
        _show(result, {measure.name for measure in kind.measures if measure.is_share})
    _end(found, result, snapshots, fail_under)


def _judge(
    options: dict[str, Any], given: list[str], kind: "type[Suite]", run: "Run"
) -> "JudgeSettings":
    """The judge of the options; without `--judge` that of the run, if it needs no model."""
    from bench.judges.registry import JudgeSettings

    if "judge" in given:
        return judge_settings(options, kind)
    if given:
        raise click.UsageError(f"--{given[0].replace('_', '-')} wants --judge")
    known = {judge.name: judge for judge in kind.judges if not judge.needs_model}
    return JudgeSettings(known.get(run.about.judge))


def _folders(parts: contextlib.ExitStack, out: Path | None, *, resume: bool) -> dict[str, Path]:
    """Where the replayed runs are; without `out` a folder that is removed with `parts`."""
    if out is None:
        out = Path(parts.enter_context(TemporaryDirectory(prefix="finbench-impact-")))
    folders = {side: out / side for side in _SIDES}
    taken = [folder for folder in folders.values() if folder.exists()]
    if taken and not resume:
        raise click.UsageError(f"{taken[0]}: it exists already; --resume goes on with it")
    return folders


def _left(out: Path | None) -> str:
    if out is None:
        return "nothing of it is kept"
    return f"what was replayed is in {out}, the same command with --resume goes on"


def _compared(replay: "Replay", found: "Impact", suite: str | None) -> dict[str, Any]:
    """Count into `found` what became of the run's calls and episodes; gives metrics and flips of
    the compared episodes, as `finbench compare` has them.
    """
    from bench.analysis.compare import Run as Replayed
    from bench.analysis.compare import compare
    from bench.progress import Progress

    a, b = (Replayed(replay.folders[side], suite) for side in _SIDES)
    names = [measure.name for measure in a.suite.measures]
    fates, episodes, progress = replay.fates(), replay.plan.episodes, Progress(tell_aside)
    for number, (record, _) in enumerate(replay.run.episodes(), 1):
        found.add(record, fates, *(_figures(side, record, names) for side in (a, b)))
        text = f"comparing calls: {number:,} of {episodes:,} episodes"
        progress.at(min(number / episodes, 1.0), text)
    if not found.compared:
        return {"metrics": {}, "flips": []}
    for run in (a, b):
        for task, rows in [*run.rows.items()]:
            run.rows[task] = {n: row for n, row in rows.items() if (task, n) in found.compared}
            if not run.rows[task]:
                del run.rows[task]
    result = compare(a, b, only=names)
    return {name: result[name] for name in ("metrics", "flips")}


def _figures(run: "Replayed", record: "EpisodeRecord", names: list[str]) -> "Figures | None":
    """What a replayed episode measures; the time that it took is no such figure."""
    row = run.rows.get(record.id, {}).get(record.repeat)
    return None if row is None else {name: row.figures.get(name) for name in names}


def _end(
    found: "Impact", result: Mapping[str, Any], snapshots: tuple[Path, Path], limit: float | None
) -> None:
    """Say what is missing, and exit with 1 if no call was compared or too little is the same."""
    for side, path in zip(_SIDES, snapshots, strict=True):
        if missing := result["calls"][f"missing_{side}"]:
            calls = f"finport snapshot record --calls {result['run']}/calls.jsonl --out NEW"
            text = f"{missing} calls are not in {path}, which is no drift; `{calls}` records them"
            tell_aside(f"finbench: {text}")
    same = found.same_outcomes
    if not result["reproducibility"]["calls"]["of"]:
        text = "no call of the run is in both snapshots, so the figures say nothing"
    elif same is None:
        text = "no episode has all its calls in both snapshots"
    elif limit is not None and same < limit:
        text = f"the outcomes of {same:.1%} of the episodes are the same, fewer than {limit:.1%}"
    else:
        return
    tell_aside(f"finbench: {text}")
    sys.exit(1)


def _show(result: Mapping[str, Any], shares: set[str]) -> None:
    from bench.cli.compare import show_metrics
    from bench.metrics.interval import interval_text, percent
    from manifests.common.console import PlainConsole

    console = PlainConsole(narrowest=120)
    for side in _SIDES:
        console.print(f"{side.upper()} {result[side]['snapshot']}, {result[side]['id'][:12]}")
    calls, episodes = result["calls"], result["episodes"]
    columns = {name: key for name, key in _COLUMNS.items() if calls[key] or name in _ALWAYS}
    table = table_of("tool", *columns, texts=1)
    rows = [row for row in calls["tools"] if row["changed"] + row["missing_a"] + row["missing_b"]]
    for row in [*rows[:_SHOWN], {"tool": f"all {len(calls['tools'])} tools", **calls}]:
        table.add_row(row["tool"], *(f"{row[column]:,}" for column in columns.values()))
    console.print(table)
    if len(rows) > _SHOWN:
        console.print(f"and {len(rows) - _SHOWN} more tools; --json has them all")
    apart = {"never recorded": "never_recorded", "refused before any tool": "refused"}
    said = [f"{name} {calls[column]:,}" for name, column in apart.items() if calls[column]]
    if said:
        console.print(f"calls that are not compared: {', '.join(said)}")
    if unplayed := episodes["not_replayed"]:
        console.print(f"not replayed, so not compared: {unplayed:,} episodes")
    if left := episodes["episodes"] - episodes["compared"] - unplayed:
        console.print(
            f"not compared: {left:,} of {episodes['episodes']:,} episodes, which have a call that "
            f"a snapshot lacks; {episodes['changed_but_not_compared']:,} of them have changed calls"
        )
    if idle := episodes["compared_without_a_call"]:
        console.print(f"compared, but without a call that snapshots record: {idle:,} episodes")
    if alone := episodes["changed_outcomes_without_a_changed_call"]:
        console.print(f"other outcomes without a changed call: {alone:,} episodes")
    if result["metrics"]:
        show_metrics(console, result["metrics"], shares)
    table = table_of("the same", "of", "share", "95 % interval", texts=4)
    for name, text in (
        ("calls", "answers of calls"),
        ("episodes", "episodes with all answers the same"),
        ("outcomes", "episodes with the same outcome"),
    ):
        part = result["reproducibility"][name]
        interval = interval_text(part.get("interval"))
        table.add_row(text, f"{part['of']:,}", percent(part["share"]), interval)
    console.print(table)

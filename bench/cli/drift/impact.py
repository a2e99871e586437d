"""`finbench drift impact`: what drift of tools does to the scores of a recorded run.

The replay agent plays the run through the real driver and gateway in mode `offline`, once for each
snapshot, and both runs are compared as by `finbench compare`.
"""

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

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
from gateway.cli.options import OutPath, echo_json, ended, read_settings
from manifests.common.terminal import echo

if TYPE_CHECKING:
    from bench.analysis.compare import Run as Replayed
    from bench.drift.impact import Figures, Impact
    from bench.judges.registry import JudgeSettings
    from bench.record import EpisodeRecord
    from bench.runs.reader import Run
    from bench.runs.run import RunPlan
    from bench.suites.suite import Suite
    from cache import Snapshot
    from gateway.settings import GatewaySettings
    from manifests import Catalog

_SNAPSHOT = click.Path(exists=True, dir_okay=False, path_type=Path)
_SHOWN = 20
_ALWAYS = ("calls", "same", "changed")
_PIECE = 2**22
_TELL_EVERY_S = 2.0
_SIDES = ("a", "b")


@dataclass(frozen=True, slots=True)
class _Work:
    """What is replayed, and where: each side has a snapshot and a folder."""

    run: "Run"
    plan: "RunPlan"
    catalog: "Catalog"
    snapshots: Mapping[str, "Snapshot"]
    folders: Mapping[str, Path]
    resume: bool

    def settings(self, side: str) -> "GatewaySettings":
        return read_settings(mode="offline", snapshot=self.snapshots[side].path)


@click.command()
@click.argument("run_dir", metavar="RUN", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--snapshots",
    type=(_SNAPSHOT, _SNAPSHOT),
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
    from bench.cli.warnings import warn_of_changes, warn_of_suite
    from bench.drift.impact import Impact
    from bench.runs.about import RunDirectoryError
    from bench.runs.reader import Run
    from bench.suites.suite import SuiteError
    from cache import Snapshot, SnapshotError

    if resume and out is None:
        raise click.UsageError("--resume wants --out DIR")
    given = [name for name in options if _is_given(context, name)]
    kind = suite_in(run_dir, suite)
    with contextlib.ExitStack() as parts:
        try:
            run = Run.open(run_dir)
            warn_of_changes(run)
            warn_of_suite(run, suite)
            opened = {
                side: parts.enter_context(Snapshot(path))
                for side, path in zip(_SIDES, snapshots, strict=True)
            }
            judge = _judge(options, given, kind, run)
            plan = _plan(run, suite or run.about.suite, dataset, judge)
            folders = _folders(parts, out, resume=resume)
            catalog = catalog_in(manifests)
            work = _Work(run, plan, catalog, opened, folders, resume)
            notes = _notes(work, kind)
            for note in notes:
                echo(f"finbench: {note}", err=True)
            _replay(work, out)
            found = Impact()
            replayed = _read(work, found, suite)
            compared = _compared(replayed, found)
        except (RunDirectoryError, SnapshotError) as error:
            raise click.ClickException(str(error)) from error
        except SuiteError as error:
            raise click.UsageError(str(error)) from error
        except KeyboardInterrupt:
            kept = out if out is not None and out.exists() else None
            echo(f"finbench: interrupted; {_left(kept)}", err=True)
            sys.exit(130)
    result = {
        "run": str(run_dir),
        "suite": run.about.suite,
        **{side: _side(side, work, kept=out is not None) for side in _SIDES},
        **found.result(),
        **compared,
        "notes": notes,
    }
    if as_json:
        echo_json(result)
    else:
        _show(result, {measure.name for measure in kind.measures if measure.is_share})
    _end(found, result, snapshots, fail_under)


def _is_given(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


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


def _plan(run: "Run", suite: str, dataset: Path | None, judge: "JudgeSettings") -> "RunPlan":
    """The run again, by the replay agent. Raises `SuiteError`; a usage error for other tasks."""
    from bench.agents.registry import AgentSettings
    from bench.runs.driver import Limits
    from bench.runs.run import RunPlan
    from bench.suites import load_suite

    loaded, about = load_suite(suite, dataset), run.about
    if about.suite_digest and loaded.digest != about.suite_digest:
        text = f"the tasks have digest {loaded.digest}, those of the run {about.suite_digest}"
        raise click.UsageError(f"{text}; name the file of the run's tasks with --dataset")
    said = about.content.get("limits", {})
    return RunPlan(
        suite=loaded,
        gateway="embedded",
        episodes=about.episodes or len(loaded.tasks),
        concurrency=100,
        agent=AgentSettings.of("replay", {"trace": run.path}, seed=about.seed),
        judge=judge,
        limits=Limits(**{f.name: said[f.name] for f in fields(Limits) if f.name in said}),
        environment=about.content.get("environment", {}),
    )


def _folders(parts: contextlib.ExitStack, out: Path | None, *, resume: bool) -> dict[str, Path]:
    """Where the replayed runs are; without `out` a folder that is removed with `parts`."""
    if out is None:
        folder = Path(parts.enter_context(TemporaryDirectory(prefix="finbench-impact-")))
        return {side: folder / side for side in _SIDES}
    folders = {side: out / side for side in _SIDES}
    taken = [folder for folder in folders.values() if folder.exists()]
    if taken and not resume:
        raise click.UsageError(f"{taken[0]}: it exists already; --resume goes on with it")
    return folders


def _notes(work: _Work, kind: "type[Suite]") -> list[str]:
    """What the user must know to read the figures."""
    from bench.runs.directory import COMPLETE

    notes, about = [], work.run.about
    if about.ended != COMPLETE:
        notes.append("the run was interrupted: only the episodes that it finished count")
    judged = [metric.name for metric in kind.metrics if metric.is_judged]
    if work.plan.judge.type is None and judged:
        text = f"no judge, so {', '.join(judged)} are left out"
        if about.judge and about.judge != "none":
            text += f"; the run's was {about.judge}: name it with --judge"
        notes.append(text)
    if work.plan.judge.needs_model:
        notes.append("the judge's model is asked for each snapshot, and may itself differ")
    a, b = (sorted(work.snapshots[side].summary.upstreams) for side in _SIDES)
    if a != b:
        notes.append(
            f"the upstreams differ, and so all their answers: {' and '.join(a)} in A, "
            f"{' and '.join(b)} in B"
        )
    return notes


def _replay(work: _Work, out: Path | None) -> None:
    """Play the run on both snapshots; ends the command where that fails or is interrupted."""
    text = f"finbench: ending the replay; {_left(out)}."
    if code := ended(lambda: _replay_both(work), interrupted=text):
        sys.exit(code)


def _left(out: Path | None) -> str:
    if out is None:
        return "nothing of it is kept"
    return f"what was replayed is in {out}, the same command with --resume goes on"


async def _replay_both(work: _Work) -> int:
    from bench.agents.declaration import AgentSettingsError
    from bench.judges.registry import JudgeSettingsError
    from bench.runs.directory import RunDirectoryError
    from bench.runs.resume import Resuming
    from bench.runs.run import run as run_plan
    from bench.runs.silence import of_judge
    from bench.suites.suite import SuiteError
    from cache import SnapshotError
    from gateway.trace import TraceError

    revision = work.run.about.catalog_revision
    try:
        for side in _SIDES:
            folder = work.folders[side]
            telling = asyncio.create_task(_tell(folder, side, work.plan.episodes))
            try:
                about = await run_plan(
                    work.plan,
                    folder,
                    work.settings(side),
                    show=False,
                    resuming=Resuming() if work.resume and folder.exists() else None,
                    catalog=work.catalog,
                )
            finally:
                telling.cancel()
            for text in of_judge(
                about.judged, about.failed_judgements, about.first_errors.get("judge")
            ):
                echo(f"finbench: {text}", err=True)
        if revision and about.catalog_revision != revision:
            text = f"the tools have revision {about.catalog_revision}, those of the run {revision}"
            echo(f"finbench: {text}", err=True)
    except (AgentSettingsError, JudgeSettingsError, SuiteError) as error:
        echo(f"finbench: {error}", err=True)
        return 2
    except (RunDirectoryError, SnapshotError, TraceError, OSError) as error:
        echo(f"finbench: {error}", err=True)
        return 1
    return 0


async def _tell(folder: Path, side: str, episodes: int) -> None:
    """Say how far a replay is, by the lines that it has written."""
    from anyio import to_thread

    progress = _Progress(f"replay on {side.upper()}, {_SIDES.index(side) + 1} of 2", episodes)
    place = done = 0

    def read() -> bytes:
        try:
            with (folder / "episodes.jsonl").open("rb") as file:
                file.seek(place)
                return file.read(_PIECE)
        except OSError:
            return b""

    while True:
        await asyncio.sleep(_TELL_EVERY_S)
        while text := await to_thread.run_sync(read):
            place += len(text)
            done += text.count(b"\n")
        progress.at(done)


class _Progress:
    """Says on standard error how much of the work is done, and about how long the rest takes."""

    def __init__(self, what: str, episodes: int) -> None:
        self._what, self._episodes = what, episodes
        self._started = self._told = time.monotonic()

    def at(self, done: int) -> None:
        now = time.monotonic()
        if now - self._told < _TELL_EVERY_S or not done:
            return
        self._told = now
        left = (now - self._started) / done * max(self._episodes - done, 0)
        text = f"{self._what}: {done:,} of {self._episodes:,} episodes, about {left:.0f} s left"
        echo(text, err=True)


def _read(work: _Work, found: "Impact", suite: str | None) -> "tuple[Replayed, Replayed]":
    """Count into `found` what became of the run's calls and episodes; gives both replayed runs."""
    from bench.analysis.compare import Run as Replayed
    from bench.drift.impact import Fates

    a, b = (Replayed(work.folders[side], suite) for side in _SIDES)
    settings = work.settings("a").model_copy(update=dict(work.plan.suite.gateway_settings))
    catalog = work.catalog if settings.market is None else work.catalog.with_market()
    fates = Fates(work.snapshots["a"], work.snapshots["b"], catalog)
    own = [measure.name for measure in a.suite.measures]
    progress = _Progress("comparing calls", work.plan.episodes)
    for number, (record, _) in enumerate(work.run.episodes(), 1):
        found.add(record, fates, _figures(a, own), _figures(b, own))
        progress.at(number)
    return a, b


def _figures(run: "Replayed", names: list[str]) -> "Callable[[EpisodeRecord], Figures | None]":
    """What a replayed episode measures; the time that it took is no such figure."""

    def figures(record: "EpisodeRecord") -> "Figures | None":
        row = run.rows.get(record.id, {}).get(record.repeat)
        return None if row is None else {name: row.figures.get(name) for name in names}

    return figures


def _compared(replayed: "tuple[Replayed, Replayed]", found: "Impact") -> dict[str, Any]:
    """Metrics and flips of the compared episodes, as `finbench compare` has them."""
    from bench.analysis.compare import compare

    if not found.compared:
        return {"metrics": {}, "flips": []}
    for run in replayed:
        for task, rows in [*run.rows.items()]:
            kept = {n: row for n, row in rows.items() if (task, n) in found.compared}
            run.rows[task] = kept
            if not kept:
                del run.rows[task]
    names = [measure.name for measure in replayed[0].suite.measures]
    result = compare(*replayed, only=names)
    return {name: result[name] for name in ("metrics", "flips")}


def _side(side: str, work: _Work, *, kept: bool) -> dict[str, Any]:
    snapshot = work.snapshots[side]
    run = str(work.folders[side]) if kept else None
    return {"snapshot": str(snapshot.path), "id": snapshot.id, "run": run}


def _end(
    found: "Impact", result: Mapping[str, Any], snapshots: tuple[Path, Path], limit: float | None
) -> None:
    """Say what is missing, and exit with 1 if no call was compared or too little is the same."""
    for side, path in zip(_SIDES, snapshots, strict=True):
        if missing := result["calls"][f"missing_{side}"]:
            calls = f"finport snapshot record --calls {result['run']}/calls.jsonl --out NEW"
            text = f"{missing} calls are not in {path}, which is no drift; `{calls}` records them"
            echo(f"finbench: {text}", err=True)
    if not result["reproducibility"]["calls"]["of"]:
        echo(
            "finbench: no call of the run is in both snapshots, so the figures say nothing",
            err=True,
        )
        sys.exit(1)
    same = found.same_outcomes
    if same is None:
        echo("finbench: no episode has all its calls in both snapshots", err=True)
        sys.exit(1)
    if limit is not None and same < limit:
        text = f"the outcomes of {same:.1%} of the episodes are the same, fewer than {limit:.1%}"
        echo(f"finbench: {text}", err=True)
        sys.exit(1)


def _show(result: Mapping[str, Any], shares: set[str]) -> None:
    from rich.box import SIMPLE
    from rich.table import Table

    from bench.cli.compare import show_metrics
    from bench.metrics.interval import interval_text, percent
    from manifests.common.console import PlainConsole

    console = PlainConsole(narrowest=120)
    for side in _SIDES:
        console.print(f"{side.upper()} {result[side]['snapshot']}, {result[side]['id'][:12]}")
    columns = {
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
    calls, episodes = result["calls"], result["episodes"]
    columns = {name: column for name, column in columns.items() if calls[column] or name in _ALWAYS}
    table = Table(box=SIMPLE)
    table.add_column("tool", overflow="fold")
    for name in columns:
        table.add_column(name, justify="right")
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
    table = Table("the same", "of", "share", "95 % interval", title=None, box=SIMPLE)
    for name, text in (
        ("calls", "answers of calls"),
        ("episodes", "episodes with all answers the same"),
        ("outcomes", "episodes with the same outcome"),
    ):
        found = result["reproducibility"][name]
        interval = interval_text(found.get("interval"))
        table.add_row(text, f"{found['of']:,}", percent(found["share"]), interval)
    console.print(table)

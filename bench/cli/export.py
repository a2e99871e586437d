"""`finbench export`: runs in other projects' formats."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.cli.options import (
    MOST,
    Number,
    catalog_in,
    of_suite,
    suite_in,
    whole,
    with_dataset,
    with_manifests,
)
from gateway.cli.options import OutPath, echo_json, failures, force, together, wrong_usage
from manifests.common.terminal import echo

if TYPE_CHECKING:
    from bench.runs.reader import Run

FORMATS = ("parquet", "openinference", "atif")
TRANSCRIPTS = "transcripts"
HARBOR = "harbor"
TRAINING = ("sft", "dpo")

_training = together(
    click.option(
        "--score",
        metavar="NAME",
        help="sft, dpo: choose by this measure. Default: the suite's first.",
    ),
    click.option(
        "--min-score",
        type=Number(-MOST, MOST),
        help="sft: the lowest score of an episode. Default: 1.",
    ),
    click.option(
        "--min-margin",
        type=Number(min=0),
        help="dpo: the lowest difference of the scores of a pair. Default: 0.5.",
    ),
    click.option(
        *("--pairs", "--episodes", "take"),
        type=click.Choice(["best", "all"]),
        help="sft, dpo: the best one of each task, or all. Default: best.",
    ),
    click.option(
        "--test-share",
        type=Number(min=0, max=1),
        help="sft, dpo: the share of tasks for test.jsonl. Default: 0.1.",
    ),
    click.option("--seed", type=whole(), help="sft, dpo: seed of that split. Default: 0."),
    with_manifests,
)


@click.command("export")
@click.argument(
    "run_dirs",
    metavar="RUN...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, path_type=Path),
)
@click.option(
    "--format", "form", required=True, help="One of these, or a format of the run's suite."
)
@click.option("--out", type=OutPath(), required=True, help="The file or folder to write.")
@_training
@of_suite
@with_dataset
@force
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
def export(
    run_dirs: tuple[Path, ...],
    form: str,
    out: Path,
    suite: str | None,
    dataset: Path | None,
    force: bool,
    as_json: bool,
    **training: Any,
) -> None:
    """Write the run in the directory RUN for other tools.

    \b
    parquet        calls.parquet and episodes.parquet in the folder --out
    openinference  spans as OTLP/JSON, one episode per line of the file --out
    atif           trajectories: files in the folder --out, or lines of a file NAME.jsonl
    transcripts    all that went to models and came from them, one episode per line of --out
    fintoolbench   traces for FinToolBench's evaluator, lines of the file --out
    sft            conversations to train on: train.jsonl and test.jsonl in the folder --out
    dpo            the same with pairs of a better and a worse one; both take several RUNs
    harbor         the run's tasks, or those of a file of tasks in place of RUN: a folder a task
                   in the folder --out; --dataset is the suite's
    """
    from bench.cli.warnings import warn_of
    from bench.runs.directory import RunDirectoryError
    from bench.runs.output import check_outside
    from bench.runs.reader import ExportError, Run
    from bench.suites.suite import SuiteError

    if form not in TRAINING:
        _refuse(form, run_dirs, training)
    if form != HARBOR:
        if dataset is not None:
            raise click.UsageError(f"--dataset is for --format {HARBOR} only")
        if file := next((one for one in run_dirs if not one.is_dir()), None):
            raise click.UsageError(f"{file} is a file; --format {form} takes a run's directory")
    with wrong_usage(RunDirectoryError):
        for run_dir in run_dirs:
            check_outside(run_dir, out)
    with failures(ExportError, RunDirectoryError, SuiteError, of=out):
        if form == HARBOR:
            text, result = _harbor(run_dirs[0], out, suite, dataset, force)
        else:
            runs = [Run.open(run_dir) for run_dir in run_dirs]
            for run in runs:
                warn_of(run, suite)
            write = _training_data if form in TRAINING else _one_run
            text, result = write(form, runs, out, suite, force, **training)
    if as_json:
        echo_json({"out": str(out), **result})
    else:
        echo(f"{out}: {text}")


_Result = tuple[str, dict[str, Any]]
"""What was written, in words and as JSON."""


def _refuse(form: str, run_dirs: tuple[Path, ...], training: dict[str, Any]) -> None:
    """A usage error for what is given for training data only."""
    if len(run_dirs) > 1:
        raise click.UsageError(f"--format {form} takes one run; {' and '.join(TRAINING)} several")
    for name, value in training.items():
        if value is not None:
            option = "pairs" if name == "take" else name.replace("_", "-")
            raise click.UsageError(f"--{option} is for --format {' and '.join(TRAINING)} only")


def _harbor(
    source: Path, out: Path, suite: str | None, dataset: Path | None, force: bool
) -> _Result:
    """Write the tasks of a run, or of a dataset."""
    from bench.exports.harbor import write
    from bench.runs.reader import ExportError, Run
    from bench.suites import load_suite

    settings: dict[str, Any] = {}
    if (source / "run.json").exists():
        run = Run.open(source)
        loaded = load_suite(suite or run.about.suite, dataset)
        ids = dict.fromkeys(record.id for record, _ in run.episodes())
        by_id = {task.id: task for task in loaded.tasks}
        if missing := next((id_ for id_ in ids if id_ not in by_id), None):
            text = f"{loaded.name} has no task {missing!r} of the run; name its --dataset"
            raise ExportError(text)
        tasks = [by_id[id_] for id_ in ids]
        if run.about.upstream == "simulated":
            named = ("upstream", "simulated_seed", "simulated_now")
            about = run.about.content
            settings = {name: about[name] for name in named if name in about}
    else:
        loaded = load_suite(suite or "generated", source)
        tasks = [*loaded.tasks]
    number = write(loaded, tasks, out, settings, force=force)
    return f"{number} tasks", {"tasks": number}


def _one_run(
    form: str, runs: "list[Run]", out: Path, suite: str | None, force: bool, **_: None
) -> _Result:
    from importlib import import_module

    from bench.exports.target import write_lines

    (run,) = runs
    if form in (*FORMATS, TRANSCRIPTS):
        episodes = import_module(f"bench.exports.{form}").write(run, out, force=force)
    else:
        own = suite_in(run.path, suite).exports
        if form not in own:
            known = ", ".join((*FORMATS, TRANSCRIPTS, *own, *TRAINING, HARBOR))
            raise click.UsageError(f"no format is named {form!r}; this run has: {known}")
        episodes = write_lines(run, out, lambda _, episode: own[form](episode), force=force)
    return f"{episodes} episodes", {"episodes": episodes}


def _training_data(
    form: Any,
    runs: "list[Run]",
    out: Path,
    suite: str | None,
    force: bool,
    *,
    take: str | None,
    manifests: Path | None,
    **options: Any,
) -> _Result:
    from bench.exports.choosing import Selection, reasons
    from bench.exports.training import write
    from bench.runs.reader import ExportError

    names = sorted({run.about.suite for run in runs})
    if len(names) > 1:
        raise click.UsageError(f"the runs are of several suites ({', '.join(names)}); name one's")
    kind = suite_in(runs[0].path, suite)
    other, of = ("min_margin", "dpo") if form == "sft" else ("min_score", "sft")
    if options[other] is not None:
        raise click.UsageError(f"--{other.replace('_', '-')} is for --format {of}")
    given = {name: value for name, value in options.items() if value is not None}
    with wrong_usage(ExportError):
        selection = Selection.of(form, kind, every=take == "all", **given)
    catalog = catalog_in(manifests)
    market = catalog.with_market()
    if any(run.about.catalog_revision == market.revision for run in runs):
        catalog = market
    _warn_of_catalog(runs, catalog.revision)
    written = write(runs, out, kind, selection, catalog, force=force)
    lines, episodes, score = written.lines, written.episodes, selection.score.name
    noun, total = "conversations" if form == "sft" else "pairs", sum(lines.values())
    where = ", ".join(f"{side}.jsonl {n}" for side, n in lines.items())
    text = f"episodes {episodes}, {noun} {total} ({where}), by {score}"
    if left_out := reasons(written.left_out):
        text += f"; left out: {left_out}"
    result = {"format": form, "score": score, "episodes": episodes, noun: total}
    return text, {**result, **lines, "left_out": written.left_out}


def _warn_of_catalog(runs: "list[Run]", revision: str) -> None:
    """Say it if a run had other tools than those whose schemas are written."""
    for run in runs:
        had = run.about.catalog_revision
        if had not in ("", revision):
            text = f"the run had the catalogue {had}, the tools written are those of {revision}"
            echo(f"finbench: {run.path}: {text}; --manifests names another", err=True)

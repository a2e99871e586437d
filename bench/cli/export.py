"""`finbench export`: a run in other projects' formats."""

from pathlib import Path

import click

from bench.cli.options import of_suite, suite_in
from gateway.cli.options import OutPath, force
from gateway.terminal import echo

FORMATS = ("parquet", "openinference", "atif")


@click.command("export")
@click.argument("run_dir", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--format", "form", required=True, help="One of these, or a format of the run's suite."
)
@click.option("--out", type=OutPath(), required=True, help="The file or folder to write.")
@of_suite
@force
def export(run_dir: Path, form: str, out: Path, suite: str | None, force: bool) -> None:
    """Write the run in RUN_DIR for other tools.

    \b
    parquet        calls.parquet and episodes.parquet in the folder --out
    openinference  spans as OTLP/JSON, one episode per line of the file --out
    atif           trajectories: files in the folder --out, or lines of a file NAME.jsonl
    fintoolbench   traces for FinToolBench's evaluator, lines of the file --out
    """
    from importlib import import_module

    from bench.cli.warnings import warn_of_changes, warn_of_suite
    from bench.exports import ExportError, Run
    from bench.exports.target import write_lines
    from bench.runs.directory import RunDirectoryError
    from bench.runs.output import check_outside

    try:
        check_outside(run_dir, out)
    except RunDirectoryError as error:
        raise click.UsageError(str(error)) from error
    try:
        run = Run.open(run_dir)
        warn_of_changes(run)
        warn_of_suite(run, suite)
        if form in FORMATS:
            episodes = import_module(f"bench.exports.{form}").write(run, out, force=force)
        else:
            own = suite_in(run_dir, suite).exports
            if form not in own:
                known = ", ".join((*FORMATS, *own))
                raise click.UsageError(f"no format is named {form!r}; this run has: {known}")
            episodes = write_lines(run, out, lambda _, episode: own[form](episode), force=force)
    except (ExportError, RunDirectoryError) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{error.filename or out}: {error.strerror}") from error
    echo(f"{out}: {episodes} episodes")

"""`finbench export`: a run in other projects' formats."""

from pathlib import Path

import click

from bench.cli.options import of_suite, suite_in
from gateway.terminal import echo

FORMATS = ("parquet", "openinference", "atif")


@click.command("export")
@click.argument("run_dir", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--format", "form", required=True, help="One of these, or a format of the run's suite."
)
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="The file or folder to write."
)
@of_suite
@click.option("--force", is_flag=True, help="Replace an existing --out.")
def export(run_dir: Path, form: str, out: Path, suite: str | None, force: bool) -> None:
    """Write the run in RUN_DIR for other tools.

    \b
    parquet        calls.parquet and episodes.parquet in the folder --out
    openinference  spans as OTLP/JSON, one episode per line of the file --out
    atif           trajectories: files in the folder --out, or lines of a file NAME.jsonl
    fintoolbench   traces for FinToolBench's evaluator, lines of the file --out
    """
    from importlib import import_module

    from bench.exports import ExportError, Run
    from bench.exports.target import write_lines
    from bench.runs.directory import RunDirectoryError
    from bench.runs.reader import OWN_FILES

    whole = run_dir.resolve()
    if out.resolve() in (whole, *(whole / name for name in OWN_FILES)):
        raise click.UsageError("--out is the run itself; name another place")
    try:
        run = Run.open(run_dir)
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

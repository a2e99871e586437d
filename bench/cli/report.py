"""`finbench report`: a run as one page of HTML."""

from pathlib import Path

import click

from bench.cli.options import of_suite, suite_in
from gateway.cli.options import OutPath, failures, force
from manifests.common.terminal import echo


@click.command("report")
@click.argument("run_dir", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--out",
    type=OutPath(dir_okay=False),
    help="The HTML file to write. Default: RUN_DIR/report.html.",
)
@force
@click.option(
    "--trajectories",
    type=click.IntRange(min=0),
    default=1000,
    show_default=True,
    help="Number of episodes that the page shows in full.",
)
@of_suite
def report(
    run_dir: Path, out: Path | None, force: bool, trajectories: int, suite: str | None
) -> None:
    """Write metrics, figures and episodes of RUN_DIR as one self-contained HTML file."""
    from bench.cli.warnings import warn_of_changes, warn_of_suite
    from bench.report.report import write
    from bench.runs.directory import RunDirectoryError
    from bench.suites.suite import SuiteError

    suite_in(run_dir, suite)
    with failures(RunDirectoryError, SuiteError, of=out or run_dir / "report.html"):
        written = write(run_dir, out, force=force, trajectories=trajectories, suite=suite)
    warn_of_changes(written.run, written.digest)
    warn_of_suite(written.run, suite)
    size = written.size / 2**20
    echo(f"{written.path}: {size:.2f} MiB, {written.embedded} of {written.episodes} episodes")

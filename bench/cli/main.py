"""`finbench`: the bench on the command line. Commands import heavy modules only when they run.

Exit codes: 0 done, 1 the work failed or gave nothing, 2 usage, 130 ended by Ctrl-C,
143 a run ended by SIGTERM.
"""

import time
from pathlib import Path

import click

from bench.cli.agreement import agreement
from bench.cli.capacity import capacity
from bench.cli.compare import compare
from bench.cli.compression import compression
from bench.cli.drift import drift
from bench.cli.env import env
from bench.cli.export import export
from bench.cli.fetch import fetch
from bench.cli.model import simulated_model
from bench.cli.report import report
from bench.cli.reproduce import reproduce
from bench.cli.retrieval import retrieval
from bench.cli.run import run_suite
from bench.cli.score import score
from bench.cli.score_answer import score_answer
from bench.cli.speed import speed
from bench.cli.sweep import sweep
from bench.cli.table import table
from bench.cli.tasks import tasks
from bench.cli.view import view
from bench.environment import PREFIX, VARIABLES
from gateway.cli.options import OutPath, run
from gateway.environment import check_environment
from gateway.settings_file import SettingsError
from manifests.common.terminal import Commands, echo


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="finport")
def main() -> None:
    """Finport's bench: drive agents through the gateway and measure them."""
    try:
        check_environment(PREFIX, VARIABLES)
    except SettingsError as error:
        raise click.UsageError(str(error)) from error


for command in (
    run_suite,
    score,
    score_answer,
    report,
    view,
    compare,
    table,
    sweep,
    export,
    simulated_model,
    speed,
    compression,
    drift,
    capacity,
    agreement,
    fetch,
    reproduce,
    tasks,
    retrieval,
    env,
):
    main.add_command(command)


@main.command()
@click.option("--episodes", type=click.IntRange(min=1), default=2000, show_default=True)
@click.option("--concurrency", type=click.IntRange(min=1), default=1000, show_default=True)
@click.option("--out", type=OutPath(), help="Run directory.")
def demo(episodes: int, concurrency: int, out: Path | None) -> None:
    """Show Finport at work: a gateway and a simulated upstream on free ports, and agents driven
    through them over HTTP. Needs no key and no network.
    """
    echo("the demonstration starts; its first figures come in a few seconds")
    from bench.cli import demo as demonstration

    folder = out or Path("runs") / f"demo-{time.strftime('%Y%m%d-%H%M%S')}"
    ending = "finbench: ending the demonstration."
    run(lambda: demonstration.show(episodes, concurrency, folder), interrupted=ending)

"""`finbench drift`: how tools change over time."""

import click

from bench.cli.drift.accuracy import accuracy
from bench.cli.drift.akshare import akshare
from bench.cli.drift.diff import diff


@click.group()
def drift() -> None:
    """Show how tools change over time."""


for command in (diff, akshare, accuracy):
    drift.add_command(command)

"""`finbench drift`: how tools change over time."""

import click

from bench.cli.drift.accuracy import accuracy
from bench.cli.drift.akshare import akshare
from bench.cli.drift.diff import diff
from bench.cli.drift.impact import impact
from bench.cli.drift.record import record
from bench.cli.drift.stand_ins import stand_ins
from bench.cli.drift.watch import watch


@click.group()
def drift() -> None:
    """Show how tools change over time."""


for command in (record, watch, diff, impact, stand_ins, akshare, accuracy):
    drift.add_command(command)

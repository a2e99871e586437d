"""What the commands of `finbench drift` share: options, files that they write, tables."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.drift.finding import LEVELS, reaches
from gateway.cli.options import failures
from gateway.cli.snapshot import tell_aside

if TYPE_CHECKING:
    from rich.table import Table

SHOWN = 40
"""Rows of findings that are shown."""

SNAPSHOT = click.Path(exists=True, dir_okay=False, path_type=Path)

fail_on = click.option(
    "--fail-on",
    type=click.Choice(LEVELS),
    help="Exit with 1 if a finding is at least as bad.",
)


def check_free(files: Sequence[Path], *, force: bool) -> None:
    """Check before the work whether these files may be written. Raises `click.ClickException`."""
    from manifests.common.files import FORCE

    for file in files:
        with failures(of=file):
            if file.exists() and not force:
                raise click.ClickException(f"{file}: it exists already; {FORCE}")


def write(file: Path, text: bytes, *, force: bool) -> None:
    """Write a file. Raises `click.ClickException`."""
    from manifests.common.files import output_file

    with failures(of=file), output_file(file, force=force) as out:
        out.write(text)


def fail(findings: Sequence[Mapping[str, Any]], limit: str | None) -> None:
    """Exit with 1 if a finding reaches `limit`."""
    if limit and (bad := sum(reaches(finding["level"], limit) for finding in findings)):
        tell_aside(f"finbench: findings at level {limit} or worse: {bad}")
        sys.exit(1)


def table_of(*columns: str, texts: int = 2) -> "Table":
    """An empty table for a terminal. After the first `texts` columns all are of numbers."""
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(box=SIMPLE)
    for place, name in enumerate(columns):
        table.add_column(name, justify="left" if place < texts else "right", overflow="fold")
    return table


def show_counts(console: Any, counts: Sequence[Mapping[str, Any]], *more: str) -> None:
    """Print how many findings there are by level and check. `more` are further numbers: what each
    is, and its key.
    """
    table = table_of("level", "check", "findings", *more[::2])
    for row in counts:
        table.add_row(*(str(row[name]) for name in ("level", "check", "findings", *more[1::2])))
    console.print(table)


def show_findings(console: Any, rows: Sequence[Sequence[str]], others: int) -> None:
    """Print the first of the rows of findings. `others` counts the findings that have no row."""
    table = table_of("level", "check", "tool", "what", texts=4)
    for row in rows[:SHOWN]:
        table.add_row(*row)
    if rows:
        console.print(table)
    more = max(len(rows) - SHOWN, 0)
    if more or others:
        rest = f"{more} more rows and " if more else ""
        console.print(f"and {rest}{others:,} other findings; --json has them all")

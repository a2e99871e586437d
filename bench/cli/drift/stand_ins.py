"""`finbench drift stand-ins`: whether sources that may stand in for each other still agree."""

import sys
from pathlib import Path

import click

from bench.cli.drift.output import SHOWN, SNAPSHOT, check_free, table_of, write
from gateway.cli.options import OutPath, echo_json, failures
from manifests.common.terminal import echo


@click.command("stand-ins")
@click.argument("snapshot", type=SNAPSHOT, required=False)
@click.option(
    "--calls",
    type=OutPath(dir_okay=False),
    metavar="FILE",
    help="Write the calls that a snapshot needs for this, for finport snapshot record --calls.",
)
@click.option("--force", is_flag=True, help="Replace an existing file of --calls.")
@click.option("--json", "as_json", is_flag=True)
def stand_ins(snapshot: Path | None, calls: Path | None, force: bool, as_json: bool) -> None:
    """Compare answers of tools in SNAPSHOT with those of their stand-ins, cell by cell.

    Exits with 1 if any differ by more than the manifests declare.
    """
    from bench.drift import stand_ins as checks
    from cache import Snapshot, SnapshotError
    from manifests import Catalog

    if (snapshot is None) == (calls is None):
        raise click.UsageError("name a snapshot, or --calls FILE")
    catalog = Catalog.load()
    if snapshot is None:
        import orjson

        assert calls is not None  # noqa: S101 - checked above
        check_free([calls], force=force)
        made = [orjson.dumps(call) for call in checks.calls(catalog)]
        write(calls, b"".join(line + b"\n" for line in made), force=force)
        echo(f"{calls}: {len(made)} calls", err=True)
        return
    with failures(SnapshotError), Snapshot(snapshot) as opened:
        found = checks.checked(opened, catalog)
    if as_json:
        echo_json(found)
    else:
        _show(found)
    if not found["pairs"]:
        raise click.ClickException("the snapshot has no tool and its stand-in; see --calls")
    sys.exit(1 if found["differ"] or found["unfit"] else 0)


def _show(found: dict[str, object]) -> None:
    from manifests.common.console import PlainConsole

    console = PlainConsole(narrowest=100)
    listed = found["pairs"]
    table = table_of("tool", "stand-in", "verdict", "cells", "differing", texts=3)
    pairs = listed if isinstance(listed, list) else []
    for pair in pairs:
        cells = (str(pair[name]) for name in ("tool", "answered_by", "verdict"))
        table.add_row(*cells, f"{pair['cells']:,}", f"{pair['differing']:,}")
    if pairs:
        console.print(table)
    for pair in [pair for pair in pairs if pair["verdict"] != "agree"][:SHOWN]:
        console.print(f"{pair['tool']} {pair['arguments']}: {pair['why'] or ''}".rstrip(": "))
        for cell in pair["differences"]:
            about = f"{cell['column']} {cell['asked']}, {pair['answered_by']} {cell['answered']}"
            console.print(f"  {cell['day']}: {about}")
    console.print(
        f"agree: {found['agree']}; differ: {found['differ']}; can't be mapped: {found['unfit']}; "
        f"not recorded: {found['not_recorded']}"
    )

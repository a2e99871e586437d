"""`finbench drift accuracy`: what `finbench drift diff` finds of planted drift."""

import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from bench.cli.options import needs_checkout
from gateway.cli.options import OutPath, echo_json, ended, exit_code_of, sigterm_interrupts
from manifests.common.terminal import echo


@click.command()
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@click.option(
    "--out", type=OutPath(), metavar="DIR", help="Keep both snapshots and what was planted."
)
@click.option("--json", "as_json", is_flag=True)
def accuracy(seed: int, out: Path | None, as_json: bool) -> None:
    """Plant drift in simulated snapshots and measure what `finbench drift diff` finds.

    Both snapshots hold three calls of every tool. Drift of each kind is planted in 24 tools, at
    three strengths; 120 tools have only movement that is expected. Everything in them is simulated.
    """
    needs_checkout("bench.drift.planted")
    try:
        with sigterm_interrupts():
            measured = _measured(seed, out)
    except KeyboardInterrupt as told:
        kept = "nothing is kept" if out is None or not out.exists() else f"{out} has what was made"
        echo(f"finbench: interrupted; {kept}", err=True)
        sys.exit(exit_code_of(told))
    if as_json:
        echo_json(measured)
    else:
        _show(measured)


def _measured(seed: int, out: Path | None) -> dict[str, Any]:
    import orjson

    from bench.drift.planted.accuracy import make, measure, write
    from bench.drift.snapshots.compare import compare
    from bench.drift.snapshots.rules import Rules
    from cache import SnapshotError
    from manifests import Catalog

    catalog = Catalog.load()
    echo("simulating two snapshots", err=True)
    world = make(catalog, seed)
    with TemporaryDirectory() as made:
        folder = out or Path(made)
        before, after = folder / "before.snapshot", folder / "after.snapshot"
        try:
            folder.mkdir(parents=True, exist_ok=True)

            async def writing() -> int:
                await write(world, before, after)
                return 0

            if ended(writing):
                raise KeyboardInterrupt
            echo("comparing them", err=True)
            findings = compare(before, after, Rules(), catalog).findings
            if out is not None:
                planted = orjson.dumps(world.planted, default=sorted)  # columns are sets
                (out / "planted.json").write_bytes(planted)
        except SnapshotError as error:
            raise click.ClickException(str(error)) from error
        except OSError as error:
            raise click.ClickException(f"{error.filename or folder}: {error.strerror}") from error
    return {"seed": seed, **measure(world, findings)}


def _show(measured: Mapping[str, Any]) -> None:
    from bench.cli.drift.output import table_of
    from bench.drift.planted.plants import STRENGTHS
    from bench.metrics.interval import percent
    from manifests.common.console import PlainConsole

    console = PlainConsole(narrowest=100)
    table = table_of("kind", "planted", "recall", *STRENGTHS, "precision", "wrong", texts=1)
    for row in measured["kinds"]:
        shares = (percent(row["recall_by_strength"][name]) for name in STRENGTHS)
        table.add_row(
            *(row["kind"], str(row["planted"]), percent(row["recall"]), *shares),
            *(percent(row["precision"]), str(row["wrong"])),
        )
    console.print(table)
    console.print(
        f"simulated, seed {measured['seed']}, {measured['tools']} tools: recall "
        f"{percent(measured['recall'])}, precision {percent(measured['precision'])}"
    )
    moved = measured["moved_with_findings"]
    said = ", ".join(f"{level} {count}" for level, count in moved.items()) or "none"
    console.print(f"findings about {measured['moved_tools']} tools that only moved: {said}")

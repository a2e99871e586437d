"""`finbench compression`: what shortened answers keep of what questions need."""

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.cli.options import needs_checkout
from gateway.cli.options import OutPath, echo_json, force
from manifests.common.terminal import echo

if TYPE_CHECKING:
    from bench.compression.case import Part
    from bench.compression.measure import Failure, Figures

_LINES, _CHARS = 8, 160
_TELL_S = 1.0


@click.command()
@click.option(
    "--investorbench",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of InvestorBench's JSON files; without it, only answers of tools.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the set of cases.")
@click.option("--cases", type=click.IntRange(min=1), help="At most so many cases.")
@click.option("--held-apart", is_flag=True, help="The third of the set that is held apart.")
@click.option(
    "--failures",
    type=click.IntRange(min=1),
    metavar="N",
    help="Print the first N cases that our form loses.",
)
@click.option(
    "--out",
    type=OutPath(),
    help="Write compression.json and compression.svg into this folder.",
)
@force
@click.option("--json", "as_json", is_flag=True)
def compression(
    investorbench: Path | None,
    seed: int,
    cases: int | None,
    held_apart: bool,
    failures: int | None,
    out: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Measure how often answers that are shortened to a budget keep all that a question needs,
    beside plain cuts within the same budget. Needs AkShare, and no key and no network.

    The set is made from a seed: questions in English and Chinese on answers of simulated tools and
    on InvestorBench's prices and news. A third of it, by tool and asset, is held apart: look at it
    only when the work on compression is over.
    """
    needs_checkout("bench.compression")
    if failures and held_apart:
        raise click.UsageError(
            "--failures: not with --held-apart, whose cases nobody looks at while developing"
        )
    try:
        figures = _measure(investorbench, seed, cases, held_apart)
    except KeyboardInterrupt:
        echo("finbench: interrupted; nothing is written", err=True)
        sys.exit(130)
    if out is not None:
        _write(figures.content, out, force)
    if as_json:
        echo_json(figures.content)
    else:
        _show(figures.content)
    for failure in figures.failures[: failures or 0]:
        _show_failure(failure)


def _measure(
    investorbench: Path | None, seed: int, cases: int | None, held_apart: bool
) -> "Figures":
    import uvloop

    from bench.compression.build import build
    from bench.compression.measure import measure
    from bench.compression.sources import SourceError

    part: Part = "held-apart" if held_apart else "development"
    told = _Told()
    try:
        made = uvloop.run(build(seed, part, investorbench, cases, told))
    except SourceError as error:
        raise click.ClickException(str(error)) from error
    return measure(made, seed, part, investorbench is not None, told)


class _Told:
    """Prints progress on stderr, at most once a second."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, text: str) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _TELL_S
            echo(text, err=True)


def _write(content: Mapping[str, Any], out: Path, force: bool) -> None:
    import orjson

    from bench.compression.picture import picture
    from manifests.common.files import output_file

    try:
        with output_file(out / "compression.json", force=force) as file:
            file.write(
                orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
            )
        with output_file(out / "compression.svg", force=force) as file:
            file.write(picture(content).encode())
    except OSError as error:
        raise click.ClickException(f"{error.filename or out}: {error.strerror}") from error


def _show(content: Mapping[str, Any]) -> None:
    from rich.box import SIMPLE
    from rich.table import Table

    from bench.metrics.interval import interval_text, percent
    from manifests.common.console import PlainConsole

    console = PlainConsole(narrowest=120)
    kept, limits = content["kept"], list(content["kept"]["finport"])
    languages = ", ".join(f"{count} {name}" for name, count in content["languages"].items())
    console.print(
        f"{content['part']} part, seed {content['seed']}: {content['cases']} cases ({languages}), "
        f"{content['answers']} answers of {content['tools']} tools and {content['assets']} assets"
    )
    for text in content["provenance"]:
        console.print(f"- {text}")
    for name, title in (
        ("all", "all needed cells kept"),
        ("names_cell", "question names the cell"),
    ):
        cases = kept["finport"][limits[0]][name]["cases"]
        if not cases:
            console.print(f"{title}: no case of the set")
            continue
        table = Table("method", *(f"{int(limit):,} tokens" for limit in limits), box=SIMPLE)
        table.title = f"{title}: {cases} cases"
        for method, rates in kept.items():
            cells = (rates[limit][name] for limit in limits)
            shown = [f"{percent(c['share'])} ({interval_text(c['interval'])})" for c in cells]
            table.add_row(method, *shown)
        console.print(table)
    for split in ("kinds", "languages"):
        table = Table(split[:-1], "cases", "method", *limits, box=SIMPLE, title=f"by {split[:-1]}")
        counts = {name: of["cases"] for name, of in kept["finport"][limits[0]][split].items()}
        for name, count in counts.items():
            if not count:
                continue
            for method, rates in kept.items():
                row = (percent(rates[limit][split][name]["share"]) for limit in limits)
                table.add_row(name, str(count), method, *row)
        console.print(table)
        if missing := [name for name, count in counts.items() if not count]:
            console.print(f"{split} without a case in the set: {', '.join(missing)}")
    table = Table("method", *limits, box=SIMPLE, title="tokens left of the whole answer, median")
    for method, shares in content["tokens_left_median"].items():
        table.add_row(method, *(percent(shares[limit]) for limit in limits))
    console.print(table)
    if content["over_budget"]:
        console.print(f"{content['over_budget']} times our form exceeded the budget")


def _show_failure(failure: "Failure") -> None:
    import orjson

    case = failure.case
    echo(f"\n{case.id} ({case.kind}, {case.language}) within {failure.budget} tokens")
    echo(f"  question: {case.question}")
    echo(f"  needed: {orjson.dumps(case.needed.to_json()).decode()}")
    for line in failure.text.splitlines()[:_LINES]:
        echo(f"  | {line[:_CHARS]}")

"""`finbench compression`: what shortened answers keep of what questions need."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.cli.options import needs_checkout
from gateway.cli.options import echo_json
from manifests.common.terminal import echo

if TYPE_CHECKING:
    from bench.compression.case import Part
    from bench.compression.measure import Shortened

_LINES, _CHARS = 8, 160


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
@click.option("--json", "as_json", is_flag=True)
def compression(
    investorbench: Path | None,
    seed: int,
    cases: int | None,
    held_apart: bool,
    failures: int | None,
    as_json: bool,
) -> None:
    """Measure how often answers that are shortened to a budget keep all that a question needs,
    beside plain cuts within the same budget. Needs AkShare, and no key and no network.

    The set is made from a seed: questions in English and Chinese on answers of simulated tools and
    on InvestorBench's prices and news. A third of it, by tool and asset, is held apart: look at it
    only when the work on compression is over.
    """
    needs_checkout("bench.compression")
    import uvloop

    from bench.compression.build import build
    from bench.compression.measure import OURS, figures, measure
    from bench.compression.sources import SourceError

    if failures and held_apart:
        raise click.UsageError(
            "--failures: not with --held-apart, whose cases nobody looks at while developing"
        )
    part: Part = "held-apart" if held_apart else "development"
    try:
        found = measure(uvloop.run(build(seed, part, investorbench, cases, _tell)), _tell)
    except SourceError as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        echo("finbench: interrupted", err=True)
        sys.exit(130)
    content = figures(found, seed, part, has_assets=investorbench is not None)
    if as_json:
        echo_json(content)
    else:
        _show(content)
    lost = [one for one in found if one.method == OURS and not one.is_kept]
    for one in lost[: failures or 0]:
        _show_failure(one)


def _tell(text: str) -> None:
    echo(text, err=True)


def _show(content: Mapping[str, Any]) -> None:
    """All methods on all cases, ours by kind and language, and the tokens that are left."""
    from rich.box import SIMPLE
    from rich.table import Table

    from bench.metrics.interval import interval_text, percent
    from manifests.common.console import PlainConsole

    console = PlainConsole(narrowest=120)
    kept, ours = content["kept"], content["kept"]["finport"]
    console.print(
        f"{content['part']} part, seed {content['seed']}: {content['cases']} cases, "
        f"{content['answers']} answers of {content['tools']} tools and {content['assets']} assets"
    )
    for text in content["provenance"]:
        console.print(f"- {text}")
    table = Table("all needed cells kept", "cases", *(f"{int(at):,} tokens" for at in ours))
    table.box = SIMPLE

    def row(title: str, rates: list[Mapping[str, Any]]) -> None:
        shown = [f"{percent(r['share'])} ({interval_text(r['interval'])})" for r in rates]
        table.add_row(title, str(rates[0]["cases"]), *shown)

    for method, rates in kept.items():
        row(method, [rate["all"] for rate in rates.values()])
    row("question names the cell", [rate["names_cell"] for rate in ours.values()])
    for split in ("kinds", "languages"):
        for name in content[split]:
            if (rates := [rate[split][name] for rate in ours.values()])[0]["cases"]:
                row(name, rates)
    for method, shares in content["tokens_left_median"].items():
        table.add_row(f"{method}: tokens left, median", "", *map(percent, shares.values()))
    console.print(table)
    if content["over_budget"]:
        console.print(f"{content['over_budget']} times our form exceeded the budget")


def _show_failure(one: "Shortened") -> None:
    case = one.case
    echo(f"\n{case.id} ({case.kind}, {case.language}) within {one.budget} tokens")
    echo(f"  question: {case.question}")
    echo(f"  needed: {case.needed}")
    for line in one.text.splitlines()[:_LINES]:
        echo(f"  | {line[:_CHARS]}")

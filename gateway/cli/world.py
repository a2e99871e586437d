"""`finport world`: the market behind the simulated upstream."""

import re
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.options import OutPath, echo_json, failures, print_table
from manifests.common.terminal import echo

if TYPE_CHECKING:
    from adapters.simulator.world.world import World

DAY = click.DateTime(["%Y-%m-%d", "%Y%m%d"])
ROWS = 10
"""The days that are shown without a range."""

_seed = click.option("--seed", type=int, default=0, show_default=True)
_now = click.option("--now", type=DAY, help="The last day. Default: 2026-06-30.")


@click.group()
def world() -> None:
    """Show and check the market that the simulated upstream tells of. All of it is made up."""


@world.command()
@click.argument("instrument", default="")
@click.option("--from", "first", type=DAY, help="The first day.")
@click.option("--to", "last", type=DAY, help="The last day.")
@click.option("--adjust", type=click.Choice(["", "qfq", "hfq"]), default="")
@_seed
@_now
@click.option("--json", "as_json", is_flag=True)
def show(
    instrument: str,
    first: datetime | None,
    last: datetime | None,
    adjust: str,
    seed: int,
    now: datetime | None,
    as_json: bool,
) -> None:
    """Show the days of INSTRUMENT, such as 600519, AAPL, 00700, coin:BTC, fx:EUR or future:RB, or
    without it the listed instruments with their last prices.
    """
    from adapters.simulator.world.instruments import LISTED

    made = _world(seed, now)
    if not instrument:
        rows: list[dict[str, Any]] = [
            {"key": key, "name": one.name, "kind": one.kind, "close": made.close(key)}
            for key, one in LISTED.items()
        ]
        echo_json(rows) if as_json else print_table(rows)
        return
    key = _key(instrument)
    one = made.instrument(key)
    asked = None if first is None else first.date(), None if last is None else last.date()
    bars = made.bars(key, *asked, adjust=adjust)
    shown = bars if first is not None or last is not None else bars[-ROWS:]
    days = [{**bar._asdict(), "day": bar.day.isoformat()} for bar in shown]
    if as_json:
        payouts = [{**p._asdict(), "day": str(p.day)} for p in made.history(key).payouts]
        about = {"key": key, "name": one.name, "kind": one.kind, "shares": one.shares}
        echo_json({"simulated": True, "seed": seed, **about, "days": days, "payouts": payouts})
        return
    echo(f"{key} {one.name}, {one.kind}, made up (seed {seed}, to {made.now})")
    if days:
        print_table(days)
    else:
        echo("no day of trading in this range")


@world.command()
@click.option("--seeds", type=click.IntRange(1, 1_000), default=1, show_default=True)
@_now
@click.option("--json", "as_json", is_flag=True)
def check(seeds: int, now: datetime | None, as_json: bool) -> None:
    """Check worlds of the seeds 0, 1, ...: that all views tell the same, and that returns are like
    those of real markets (Cont 2001). Exit code 1 if an identity or over two facts of a seed fail.
    """
    from adapters.simulator.world.check import LEAST_FACTS, facts, identities

    results = []
    for seed in range(seeds):
        made = _world(seed, now)
        held, seen = [*identities(made)], facts(made)
        good = sum(is_so for _, _, is_so in seen)
        is_fine = not any(one.wrong for one in held) and good >= LEAST_FACTS
        results.append(
            {
                "seed": seed,
                "ok": is_fine,
                "identities": {v.name: {"checked": v.checked, "wrong": v.wrong} for v in held},
                "facts": {name: {"figure": f, "as_real": is_so} for name, f, is_so in seen},
            }
        )
        if as_json:
            continue
        checked = sum(one.checked for one in held)
        echo(f"seed {seed}: {checked:,} comparisons, {good} of {len(seen)} facts")
        for one in held:
            if one.wrong or seed == 0:
                echo(f"  {'WRONG' if one.wrong else 'ok'} {one.name}: {one.checked:,}")
            for text in one.wrong:
                echo(f"    {text}")
        for name, figure, is_so in seen:
            if not is_so or seed == 0:
                echo(f"  {'ok' if is_so else 'not as real'} {name}: {figure}")
    if as_json:
        echo_json(results)
    sys.exit(0 if all(result["ok"] for result in results) else 1)


@world.command()
@click.argument("out", type=OutPath(dir_okay=False))
@_seed
@_now
@click.option("--force", is_flag=True, help="Replace an existing OUT.")
def page(out: Path, seed: int, now: datetime | None, force: bool) -> None:
    """Write a page of HTML to OUT: prices, an index, yields, currencies, and how returns are."""
    from gateway.cli.world_page import page as page_of
    from manifests.common.files import output_file

    made = _world(seed, now)
    with failures(of=out), output_file(out, force=force) as file:
        file.write(page_of(made).encode())


@world.command()
@click.option("--markdown", is_flag=True, help="The page docs/simulated.md.")
@click.option("--json", "as_json", is_flag=True)
def tools(markdown: bool, as_json: bool) -> None:
    """Show by host which AkShare tools read the market, and why the others don't.

    AkShare's own code runs for the first; the others answer with invented tables.
    """
    from adapters.simulator import FUNCTIONS
    from adapters.simulator.columns import NOT_YET, WHY
    from manifests import AkShareBinding, Catalog

    hosts: dict[str, tuple[list[str], list[str]]] = {}
    for tool in Catalog.load():
        if isinstance(tool.binding, AkShareBinding):
            real, invented = hosts.setdefault(tool.upstream, ([], []))
            (real if tool.binding.function in FUNCTIONS else invented).append(tool.name)
    rows: list[dict[str, Any]] = [
        {
            "host": host,
            "real": real,
            "invented": invented,
            "why": WHY.get(host, NOT_YET) if invented else "",
        }
        for host, (real, invented) in sorted(hosts.items())
    ]
    if markdown:
        echo(_page(rows))
    elif as_json:
        echo_json(rows)
    else:
        counted = ("real", "invented")
        print_table([{**row, **{name: len(row[name]) for name in counted}} for row in rows])


def _page(rows: list[dict[str, Any]]) -> str:
    """The tools by host, as a page in Markdown."""
    real, invented = ([row for row in rows if row[name]] for name in ("real", "invented"))
    lines = [
        "# AkShare on the simulated market",
        "",
        "`finport world tools --markdown` prints this page.",
        "",
        f"## Answered by AkShare's own code: {sum(len(row['real']) for row in real)}",
        "",
        "These tools read [the simulated market](operations.md#the-simulated-market).",
        "",
        "| host | tools |",
        "|---|---|",
        *(f"| {row['host']} | {', '.join(f'`{n}`' for n in row['real'])} |" for row in real),
        "",
        f"## Invented: {sum(len(row['invented']) for row in invented)}",
        "",
        "A table is made from the columns of its tool alone and agrees with no other answer. Its",
        "provenance says `simulated_invented`.",
        "",
        "| host | tools | why |",
        "|---|---|---|",
        *(f"| {row['host']} | {len(row['invented'])} | {row['why']} |" for row in invented),
    ]
    return "\n".join(lines)


def _world(seed: int, now: datetime | None) -> "World":
    from adapters.simulator.world.world import NOW, World

    try:
        return World(seed, NOW if now is None else now.date())
    except ValueError as error:
        raise click.UsageError(f"--now: {error}") from error


def _key(text: str) -> str:
    from adapters.simulator.keys import UnknownError
    from adapters.simulator.rapidapi import Asked
    from adapters.simulator.world.instruments import LISTED

    upper = text.strip().upper()
    for key in (text, *(f"{kind}:{upper}" for kind in ("us", "fx", "coin", "future"))):
        if key in LISTED:
            return key
    kind, is_key, code = text.partition(":")
    try:
        key = f"{kind.lower()}:{code.upper()}" if is_key else Asked(text, "", {}).key
    except UnknownError:
        key = ""
    if not re.fullmatch(r"(sh|sz|bj)\d{6}|hk\d{5}|(us|coin|fx|future):[A-Z0-9.]{1,10}", key):
        raise click.UsageError(f"{text!r} is no instrument, such as 600519, AAPL or coin:BTC")
    return key

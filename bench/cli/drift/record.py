"""`finbench drift record`: the probe calls of all tools as a snapshot."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.cli.options import Number
from gateway.cli.options import OutPath, ended, read_settings, simulation
from gateway.cli.snapshot import (
    FILE,
    bound_calls,
    chosen_tools,
    echo_summary,
    recorded_calls,
    without_transactional,
)
from gateway.terminal import echo

if TYPE_CHECKING:
    from gateway.bind import BoundCall
    from gateway.settings import GatewaySettings
    from manifests import Catalog

PACE_S = 1.0

pace = click.option(
    "--pace",
    "pace_s",
    type=Number(min=0, max=3600),
    metavar="SECONDS",
    help=f"Time between calls to one host. Default: {PACE_S:g}; of simulated upstreams 0.",
)
which_tools = click.option(
    "--tools", help="Names, separated by commas. Default: all tools that only read."
)
which_calls = click.option(
    "--calls", type=FILE, help="Other calls than the probes, as JSON Lines: `tool`, `arguments`."
)


@click.command()
@click.option("--out", type=OutPath(dir_okay=False), required=True, help="The snapshot to make.")
@which_tools
@which_calls
@pace
@click.option("--partial", is_flag=True, help="Make the snapshot even if calls are left.")
@click.option("--json", "as_json", is_flag=True)
@simulation
def record(
    out: Path,
    tools: str | None,
    calls: Path | None,
    pace_s: float | None,
    partial: bool,
    as_json: bool,
    **simulated: object,
) -> None:
    """Record one probe call of every tool, for `finbench drift diff`.

    A probe has fixed arguments, with dates that stay. Each host is asked one call at a time. If you
    start an interrupted recording again, it goes on where it stopped; so it does when a host's
    quota is used up.
    """
    if calls and tools:
        raise click.UsageError("either --tools or --calls, not both")
    sys.exit(recorded(out, tools, calls, pace_s, simulated, partial=partial, as_json=as_json))


def recorded(
    out: Path,
    tools: str | None,
    calls: Path | None,
    pace_s: float | None,
    simulated: dict[str, object],
    *,
    partial: bool,
    as_json: bool,
) -> int:
    """Record a snapshot and return the command's exit code. Raises `click.UsageError`."""
    from manifests import Catalog

    settings = read_settings(mode="record", snapshot=out, **simulated)
    catalog = Catalog.load()
    wanted = (
        recorded_calls(calls)
        if calls
        else [(tool.name, dict(tool.probe())) for tool in chosen_tools(catalog, tools)]
    )
    bound = bound_calls(catalog, without_transactional(catalog, wanted))
    if pace_s is None:
        pace_s = 0.0 if settings.upstream == "simulated" else PACE_S
    chosen = pace_s

    async def main() -> int:
        return await _record(settings, catalog, bound, chosen, partial=partial, as_json=as_json)

    return ended(main, interrupted="finbench: ending; what was recorded stays.")


class _Unfinished(Exception):
    """Calls are left for later, so there is no snapshot yet."""


async def _record(
    settings: "GatewaySettings",
    catalog: "Catalog",
    calls: list["BoundCall"],
    pace_s: float,
    *,
    partial: bool,
    as_json: bool,
) -> int:
    from bench.drift.probing import Probing
    from cache import Recorder, SnapshotError
    from gateway import Gateway

    recorder: Recorder | None = None
    try:
        async with Gateway.open(settings, catalog=catalog) as gateway:
            recorder = gateway.answers.recorder
            left = [c for c in calls if recorder is None or not recorder.answered(c.key)]
            if recorder is not None and len(left) < len(calls):
                echo(f"{len(calls) - len(left):,} calls are recorded already", err=True)
            probing = Probing(gateway, left, pace_s, lambda text: echo(text, err=True))
            await probing.run()
            later = probing.progress.later
            if later and not partial:
                raise _Unfinished(", ".join(f"{host} {n}" for host, n in later.most_common()))
    except _Unfinished as unfinished:
        echo(
            f"finbench: calls are left that these hosts refuse for now: {unfinished}. The same "
            "command goes on later; with --partial it makes the snapshot without them",
            err=True,
        )
        return 1
    except (SnapshotError, OSError) as error:
        echo(f"finbench: {error}", err=True)
        return 1
    except asyncio.CancelledError:
        if recorder is not None:
            text = f"interrupted with {recorder.calls:,} calls recorded; the same command goes on"
            echo(f"finbench: {text}", err=True)
        raise
    if recorder is None or recorder.summary is None:
        echo("finbench: nothing was recorded", err=True)
        return 1
    echo_summary(recorder.summary, recorder.path, as_json)
    if later:
        echo(f"finbench: {later.total():,} calls are not in it: hosts refused them", err=True)
    return 0

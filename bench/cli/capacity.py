"""`finbench capacity`: what a large run needs, from measured unit costs."""

from dataclasses import asdict
from typing import Any

import click

from bench.cli.options import MOST, Duration, Number
from gateway.cli.options import echo_json, run
from manifests.common.duration import duration
from manifests.common.terminal import echo


@click.command()
@click.option("--episodes", type=Number(1, MOST), default=1e6, show_default=True)
@click.option("--calls", type=Number(0, MOST), default=1e9, show_default=True, help="In all.")
@click.option("--model-latency", type=Duration(), default="2s", show_default=True)
@click.option("--calls-per-turn", type=click.IntRange(1, 16), default=16, show_default=True)
@click.option(
    "--within",
    type=Duration(least_s=1.0),
    default="24h",
    show_default=True,
    help="How long it may take.",
)
@click.option(
    "--utilisation",
    type=Number(0.1, 0.95),
    default=0.6,
    show_default=True,
    help="How busy players and gateways may be.",
)
@click.option(
    "--miss-share",
    type=Number(0, 1),
    default=0.01,
    show_default=True,
    help="Calls whose answer no gateway has: they cost the Redis that gateways share.",
)
@click.option("--core-hour-price", type=Number(0, MOST), help="Of one core; gives the cost.")
@click.option("--gb-price", type=Number(0, MOST), help="Of one GB on disk, for the run's files.")
@click.option("--measure", is_flag=True, help="Measure the unit costs of this machine; minutes.")
@click.option("--check", is_flag=True, help="Compare the model with runs of three sizes; minutes.")
@click.option("--json", "as_json", is_flag=True)
def capacity(measure: bool, check: bool, as_json: bool, **options: Any) -> None:
    """Say what a run of so many episodes and calls needs: players, gateways, storage, network, and
    what breaks first. Unit costs are those that were measured on the project's machine, or with
    --measure those of this one.
    """
    run(lambda: _capacity(measure, check, as_json, options))


async def _capacity(measure: bool, check: bool, as_json: bool, options: dict[str, Any]) -> int:
    from bench.capacity.costs import CostsError, UnitCosts
    from bench.capacity.measuring import check as checked
    from bench.capacity.measuring import measured_costs
    from bench.capacity.model import WorkloadError, needs
    from bench.processes import RunFailedError, ServerNotReadyError

    try:
        costs = await measured_costs() if measure else UnitCosts.read()
        if check:
            rows = await checked(costs)
    except (CostsError, RunFailedError, ServerNotReadyError) as error:
        echo(f"finbench: {error}", err=True)
        return 1
    try:
        found = needs(costs, **options)
    except WorkloadError as error:
        raise click.UsageError(str(error)) from error
    if measure:
        found["costs"] = asdict(costs)
    if check:
        found["check"] = rows
    if as_json:
        echo_json(found)
        return 0
    for name, value in found.items():
        if name not in ("costs", "check"):
            echo(f"{name}: {_text(name, value)}")
    if measure:
        echo_json({"costs": asdict(costs)})
    if check:
        for place, row in enumerate(rows, 1):
            for name, figures in row.items():
                told = f"{figures['measured']:.4g}, model {figures['model']:.4g}"
                echo(f"size {place}, {name}: measured {told}, ratio {figures['ratio']:.2f}")
    return 0


def _text(name: str, value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{part} {share:.0%}" for part, share in value.items())
    if name in ("took_s", "episode_s", "digest_s", "waiting_of_an_episode_s"):
        return duration(value)
    if isinstance(value, float):
        return f"{value:,.2f}" if value < 1e3 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)

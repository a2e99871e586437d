"""`finbench simulated-model`: serves a model for runs without a real one.

It ends on SIGTERM, on Ctrl-C or, with the option for it, at the end of stdin. Exit codes: 0 ended
by one of these, 1 it could not serve, 2 usage.
"""

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.cli.options import Number, pairs, port_option, with_dataset
from gateway.cli.options import run
from manifests.common.terminal import echo

if TYPE_CHECKING:
    from bench.models.simulated import ModelFaults
    from bench.suites.suite import Suite


@click.command("simulated-model")
@click.argument("suite")
@with_dataset
@port_option
@click.option("--seed", type=int, default=0, show_default=True)
@click.option(
    "--latency-s",
    type=Number(min=0),
    default=0.0,
    show_default=True,
    help="Seconds before each answer.",
)
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="NAME=RATE",
    help="Share of requests that get this fault: bad_json, unknown_tool, refusal, empty, "
    "rate_limited, server_error, cut, garbage, too_many_calls, length, judge_invalid.",
)
@click.option(
    "--refuse",
    "refused",
    multiple=True,
    metavar="FIELD",
    help="Refuse requests with this field, as models do that take only their default: temperature, "
    "max_tokens; repeatable.",
)
@click.option("--until-stdin-closes", is_flag=True, hidden=True)
def simulated_model(
    suite: str,
    dataset: Path | None,
    port: int,
    seed: int,
    latency_s: float,
    faults: tuple[str, ...],
    refused: tuple[str, ...],
    until_stdin_closes: bool,
) -> None:
    """Serve a scripted model that calls the labelled tools of SUITE's tasks and judges answers.

    It speaks OpenAI's Chat Completions, and needs no key.
    """
    from bench.suites import load_suite
    from bench.suites.suite import SuiteError

    try:
        loaded = load_suite(suite, dataset)
    except SuiteError as error:
        raise click.UsageError(str(error)) from error
    read = _read_faults(faults)
    how = {"seed": seed, "faults": read, "latency_s": latency_s, "port": port, "refused": refused}
    run(lambda: _serve(loaded, how, until_stdin_closes))


def _read_faults(texts: tuple[str, ...]) -> "ModelFaults":
    from dataclasses import fields

    from bench.models.simulated import ModelFaults

    names = [field.name for field in fields(ModelFaults)]
    rates = pairs("--fault", texts)
    for name, rate in rates.items():
        if name not in names:
            raise click.UsageError(f"no fault is named {name!r}; there are: {', '.join(names)}")
        if not isinstance(rate, int | float):
            raise click.UsageError(f"--fault {name}={rate}: NAME=RATE is expected")
    try:
        return ModelFaults(**rates)
    except ValueError as error:
        raise click.UsageError(f"--fault: {error}") from error


async def _serve(suite: "Suite", how: dict[str, Any], until_stdin_closes: bool) -> int:
    from bench.models.simulated import SimulatedModel
    from gateway.server.process import raise_file_limit
    from gateway.server.supervisor import when_stdin_closes
    from manifests import Catalog
    from manifests.common.collector import calm_collector

    raise_file_limit()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    if until_stdin_closes:  # so that it never outlives the process that started it
        when_stdin_closes(stop.set)
    try:
        tasks = [task.model_copy(update={"answer": suite.stated(task)}) for task in suite.tasks]
        async with SimulatedModel.open(tasks, Catalog.load(), **how) as model:
            calm_collector()
            echo(f"simulated model ready on {model.base_url}")
            await stop.wait()
    except OSError as error:
        echo(f"finbench: {error}", err=True)
        return 1
    return 0

"""`finbench`: the bench on the command line. Commands import heavy modules only when they run.

Exit codes: 0 done, 1 the work failed or gave nothing, 2 usage, 130 ended by Ctrl-C,
143 a run ended by SIGTERM.
"""

import asyncio
import time
from pathlib import Path

import click

from bench.cli.agreement import agreement
from bench.cli.capacity import capacity
from bench.cli.compare import compare
from bench.cli.compression import compression
from bench.cli.drift import drift
from bench.cli.export import export
from bench.cli.fetch import fetch
from bench.cli.model import simulated_model
from bench.cli.options import with_dataset, with_embeddings
from bench.cli.report import report
from bench.cli.reproduce import reproduce
from bench.cli.run import run_suite
from bench.cli.score import score
from bench.cli.speed import speed
from bench.cli.tasks import tasks
from bench.environment import PREFIX, VARIABLES
from gateway.cli.options import OutPath, echo_json, run
from gateway.environment import check_environment
from gateway.settings_file import SettingsError
from manifests.common.terminal import Commands, echo


@click.group(cls=Commands)
@click.version_option(package_name="finport")
def main() -> None:
    """Finport's bench: drive agents through the gateway and measure them."""
    try:
        check_environment(PREFIX, VARIABLES)
    except SettingsError as error:
        raise click.UsageError(str(error)) from error


for command in (
    run_suite,
    score,
    report,
    compare,
    export,
    simulated_model,
    speed,
    compression,
    drift,
    capacity,
    agreement,
    fetch,
    reproduce,
    tasks,
):
    main.add_command(command)


@main.command()
@click.option("--episodes", type=click.IntRange(min=1), default=2000, show_default=True)
@click.option("--concurrency", type=click.IntRange(min=1), default=1000, show_default=True)
@click.option("--out", type=OutPath(), help="Run directory.")
def demo(episodes: int, concurrency: int, out: Path | None) -> None:
    """Show Finport at work: a gateway and a simulated upstream on free ports, and agents driven
    through them over HTTP. Needs no key and no network.
    """
    echo("the demonstration starts; its first figures come in a few seconds")
    from bench.cli import demo as demonstration

    folder = out or Path("runs") / f"demo-{time.strftime('%Y%m%d-%H%M%S')}"
    ending = "finbench: ending the demonstration."
    run(lambda: demonstration.show(episodes, concurrency, folder), interrupted=ending)


@main.command()
@click.argument("suite", default="starter")
@with_dataset
@click.option(
    "--ablation", is_flag=True, help="Also measure without each ingredient of the search."
)
@click.option("--json", "as_json", is_flag=True)
@with_embeddings
def retrieval(
    suite: str,
    dataset: Path | None,
    ablation: bool,
    as_json: bool,
    embedding_model: str | None,
    embedding_url: str | None,
) -> None:
    """Measure how well the tool search finds the labelled tools of the questions of SUITE.

    The key of the endpoint is read from FINPORT_EMBEDDINGS_KEY.
    """
    from adapters.embeddings import Embedder, EndpointEmbedder, LocalEmbedder
    from adapters.fault import UpstreamFault
    from bench.analysis.retrieval import (
        DEFAULT,
        dense_variants,
        measure,
        questions_of,
        variants,
    )
    from bench.models.settings import key_for
    from bench.suites import load_suite
    from bench.suites.suite import SuiteError
    from gateway.settings import check_variables
    from manifests import Catalog

    try:
        questions = questions_of(load_suite(suite, dataset))
    except SuiteError as error:
        raise click.UsageError(str(error)) from error
    catalog = Catalog.load()
    searches = variants(catalog) if ablation else {DEFAULT: catalog.search.rank}
    if embedding_url and not embedding_model:
        raise click.UsageError("--embedding-url needs --embedding-model")
    if embedding_model:
        embedder: Embedder = LocalEmbedder(embedding_model)
        if embedding_url:
            try:
                check_variables()
            except SettingsError as error:
                raise click.UsageError(str(error)) from error
            key = key_for(embedding_url, EndpointEmbedder.key_name).secret
            embedder = EndpointEmbedder(embedding_url, embedding_model, key)
        try:
            searches |= asyncio.run(dense_variants(catalog, questions, embedder))
        except UpstreamFault as fault:
            raise click.ClickException(fault.message) from fault
    results = {name: measure(search, questions) for name, search in searches.items()}
    if as_json:
        echo_json(results)
        return
    for name, result in results.items():
        recalls = "  ".join(f"{k} {result[k]:.3f}" for k in result if k.startswith("recall"))
        latency = result["latency_ms"]
        timing = f"p50 {latency['p50']} ms  p99 {latency['p99']} ms"
        found = f"none@20 {result['none@20']}  all@20 {result['all@20']}"
        echo(f"{name:<34}{recalls}  micro@20 {result['micro_recall@20']:.3f}  {found}  {timing}")

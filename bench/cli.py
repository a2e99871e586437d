"""`finbench`: the bench on the command line. Heavy imports stand in the commands that need them.

Exit codes: 0 done, 1 the work failed, 2 usage.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gateway.cli_options import echo_json, modes, read_settings, run, simulation

if TYPE_CHECKING:
    from bench.run import RunPlan
    from gateway.settings import GatewaySettings

Command = Callable[..., None]


@click.group()
@click.version_option(package_name="finport")
def main() -> None:
    """Finport's bench: drive agents through the gateway and measure them."""


def _share(name: str, default: float, text: str) -> Callable[[Command], Command]:
    kind = click.FloatRange(0, 1)
    return click.option(name, type=kind, default=default, show_default=True, help=text)


@main.command("run")
@click.argument("suite")
@click.option(
    "--dataset",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Tasks of a suite of your own, as JSON Lines.",
)
@click.option("--agent", type=click.Choice(["scripted"]), default="scripted", show_default=True)
@click.option("--gateway", default="embedded", show_default=True, help="`embedded` or a URL.")
@click.option("--episodes", type=click.IntRange(min=1), help="Default: one a task.")
@click.option("--concurrency", type=click.IntRange(min=1), default=100, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--think-s", type=click.FloatRange(min=0), default=0.0, help="Simulated thinking.")
@_share("--no-call-rate", 0.10, "Share of episodes without a call.")
@_share("--wrong-tool-rate", 0.08, "Share of episodes with a wrong tool.")
@_share("--bad-arguments-rate", 0.12, "Share of episodes with bad arguments.")
@click.option("--out", type=click.Path(path_type=Path), help="Run directory.")
@click.option("--resume", is_flag=True, help="Go on with the run in --out.")
@click.option(
    "--failed-too",
    is_flag=True,
    help="With --resume: run again what failed through nobody but a quota or the gateway.",
)
@click.option("--plan", "only_plan", is_flag=True, help="Say what it would ask of whom.")
@click.option("--json", "as_json", is_flag=True, help="Print the metrics as JSON only.")
@modes
@simulation
def run_suite(
    suite: str,
    dataset: Path | None,
    agent: str,  # noqa: ARG001 - one choice so far
    gateway: str,
    episodes: int | None,
    concurrency: int,
    seed: int,
    think_s: float,
    no_call_rate: float,
    wrong_tool_rate: float,
    bad_arguments_rate: float,
    out: Path | None,
    resume: bool,
    failed_too: bool,
    only_plan: bool,
    as_json: bool,
    **given: object,
) -> None:
    """Run the episodes of SUITE and stream calls, episodes and metrics into a run directory."""
    from bench.agents import ErrorRates
    from bench.client import GatewayUnreachableError
    from bench.live import closing, report
    from bench.run import RunPlan
    from bench.run import run as run_plan
    from bench.run_dir import RunDirectoryError
    from bench.suite import SuiteError, load_suite
    from cache import SnapshotError
    from gateway.trace import TraceError

    faults = (RunDirectoryError, TraceError, SnapshotError, GatewayUnreachableError, OSError)
    try:
        loaded = load_suite(suite, dataset)
    except SuiteError as error:
        raise click.UsageError(str(error)) from error
    said = sorted(f"--{name.replace('_', '-')}" for name, v in given.items() if v is not None)
    if gateway != "embedded" and said:
        text = f"{', '.join(said)}: for the embedded gateway only; `finport serve` takes them"
        raise click.UsageError(text)
    if (resume and out is None) or (failed_too and not resume):
        raise click.UsageError("--resume wants --out RUN_DIR, --failed-too wants --resume")
    settings = read_settings(**given)
    plan = RunPlan(
        suite=loaded,
        gateway=gateway,
        episodes=episodes or len(loaded.tasks),
        concurrency=concurrency,
        seed=seed,
        think_s=think_s,
        rates=ErrorRates(no_call_rate, wrong_tool_rate, bad_arguments_rate),
    )
    if only_plan:
        run(lambda: _plan(plan, settings, as_json))
    folder = out or Path("runs") / f"{suite}-{time.strftime('%Y%m%d-%H%M%S')}"

    async def once() -> int:
        try:
            about = await run_plan(
                plan, folder, settings, show=not as_json, resume=resume, failed_too=failed_too
            )
        except faults as error:
            click.echo(f"finbench: {error}", err=True)
            return 1
        except asyncio.CancelledError:
            text = f"interrupted; what was finished is in {folder}, --resume goes on"
            click.echo(f"finbench: {text}", err=True)
            raise
        metrics = _metrics(folder)
        if as_json:
            echo_json({**metrics, "digest": about["digest"], "snapshot": about["snapshot"]})
        else:
            report(metrics, about)
            closing(about, folder, driver=about["driver"])
        return 0

    run(once)


@main.command()
@click.argument("run_dir", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True)
def score(run_dir: Path, as_json: bool) -> None:
    """Compute the metrics of RUN_DIR again, from its trace files alone."""
    import orjson

    from bench.digest import run_digest
    from bench.live import report
    from bench.metrics import RunMetrics
    from bench.run_dir import RunDirectoryError, read_records

    metrics = RunMetrics()
    try:
        for record in read_records(run_dir):
            metrics.add(record)
        about = orjson.loads((run_dir / "run.json").read_bytes())
        digest = run_digest(run_dir)
    except (RunDirectoryError, OSError, orjson.JSONDecodeError) as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        echo_json({**metrics.result(), "digest": digest, "snapshot": about.get("snapshot")})
    else:
        report(metrics.result(), about)
        click.echo(f"run digest: {digest}")
    if about.get("digest", digest) != digest:
        raise click.ClickException(
            f"the files are not those that the run left: run.json has digest {about['digest']}"
        )


@main.command()
@click.option("--episodes", type=click.IntRange(min=1), default=2000, show_default=True)
@click.option("--concurrency", type=click.IntRange(min=1), default=1000, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="Run directory.")
def demo(episodes: int, concurrency: int, out: Path | None) -> None:
    """See Finport work: a gateway and a simulated upstream on free ports, and agents driven
    through them over HTTP. Needs no key and no network.
    """
    from bench import demo as demonstration

    folder = out or Path("runs") / f"demo-{time.strftime('%Y%m%d-%H%M%S')}"
    run(lambda: demonstration.show(episodes, concurrency, folder))


@main.command()
@click.option(
    "--dataset",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Labelled questions, as JSON Lines; default the starter suite.",
)
@click.option("--ablation", is_flag=True, help="Also without each ingredient.")
@click.option("--json", "as_json", is_flag=True)
@click.option("--embeddings", metavar="URL", help="Also dense, by an OpenAI-compatible endpoint.")
@click.option("--model", help="Its model; without --embeddings, a local sentence-transformers one.")
def retrieval(
    dataset: Path | None, ablation: bool, as_json: bool, embeddings: str | None, model: str | None
) -> None:
    """Measure how well the tool search finds the labelled tools of questions.

    The key of the endpoint is read from OPENAI_API_KEY.
    """
    import os

    from adapters.embeddings import Embedder, EndpointEmbedder, LocalEmbedder
    from adapters.fault import UpstreamFault
    from bench.retrieval import (
        DEFAULT,
        DatasetError,
        dense_variants,
        measure,
        read_questions,
        variants,
    )
    from bench.suite import BUILT_IN
    from manifests import Catalog

    try:
        questions = read_questions(dataset or BUILT_IN / "starter.jsonl")
    except DatasetError as error:
        raise click.ClickException(str(error)) from error
    catalog = Catalog.load()
    searches = variants(catalog) if ablation else {DEFAULT: catalog.search.rank}
    if embeddings and not model:
        raise click.UsageError("--embeddings needs --model")
    if model:
        embedder: Embedder = LocalEmbedder(model)
        if embeddings:
            embedder = EndpointEmbedder(embeddings, model, os.environ.get("OPENAI_API_KEY"))
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
        click.echo(f"{name:<34}{recalls}  micro@20 {result['micro_recall@20']:.3f}  {timing}")


@main.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--json", "as_json", is_flag=True)
def speed(names: tuple[str, ...], as_json: bool) -> None:
    """Measure speed, `doors` and `inprocess` beside a bare baseline in the same run.

    NAME: `doors` (beside FastMCP, if FINBENCH_FASTMCP_PYTHON names a Python that has it),
    `inprocess`, `cache`, `snapshot` (writes 2 GB to the temporary folder), `akshare`
    (beside AKTools, if FINBENCH_AKTOOLS_PYTHON names a Python that has it), `overload`; default
    all.
    """
    from bench import speed as measurements

    unknown = set(names) - set(measurements.ALL)
    if unknown:
        allowed = ", ".join(measurements.ALL)
        raise click.UsageError(
            f"no measurement is named {sorted(unknown)[0]!r}; there are: {allowed}"
        )
    results = {name: measurements.ALL[name]() for name in names or measurements.ALL}
    if as_json:
        echo_json(results)
        return
    for name, result in results.items():
        click.echo(name)
        for figure, value in result.items():
            click.echo(f"  {figure}: {value if isinstance(value, str) else f'{value:,.2f}'}")


async def _plan(plan: "RunPlan", settings: "GatewaySettings", as_json: bool) -> int:
    """Say what a run will ask of each host. Exit code 1 where a quota would run out."""
    from bench.driver import Limits
    from bench.live import plan_table
    from bench.plan import needs
    from bench.run import agent_of
    from gateway.hosts import plans_of
    from gateway.quota import left_by_host
    from manifests import Catalog

    catalog = Catalog.load()
    found = await needs(
        plan.suite,
        agent_of(replace(plan, think_s=0.0), catalog),
        plan.episodes,
        catalog,
        left_by_host(settings.ledger_path, settings.secrets, plans_of(settings, catalog)),
        attempts=settings.retries + 1,
        rounds=Limits().rounds,
    )
    if as_json:
        echo_json([need.to_dict() for need in found])
    else:
        plan_table(found)
    return 1 if any(need.runs_out for need in found) else 0


def _metrics(folder: Path) -> dict[str, Any]:
    import orjson

    metrics: dict[str, Any] = orjson.loads((folder / "metrics.json").read_bytes())
    return metrics

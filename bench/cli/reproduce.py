"""`finbench reproduce`: a run as a suite's paper had it, and its table with a row of our own."""

import os
import shlex
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.cli.options import beside, is_given
from bench.cli.run import run_suite

if TYPE_CHECKING:
    from bench.suites.paper import Given, Paper
    from bench.suites.suite import Suite
    from manifests.common.console import PlainConsole

DIFFERS = ("differs", "cannot be had")


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("suite", callback=beside)
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS OF FINBENCH RUN]")
@click.option("--dry-run", is_flag=True, help="Only print the settings, what lacks, and the cost.")
@click.pass_context
def reproduce(context: click.Context, suite: str, options: tuple[str, ...], dry_run: bool) -> None:
    """Run SUITE as its paper did, and print the paper's table with the row of this run.

    OPTIONS are those of `finbench run`, such as --dataset, --model, --base-url, --judge-model and
    --upstream. They replace the paper's, and each setting that differs is named.
    """
    from bench.suites import SUITES, suite_named
    from bench.suites.suite import SuiteError
    from manifests.common.console import PlainConsole

    try:
        paper = suite_named(suite).paper
    except SuiteError as error:
        raise click.UsageError(str(error)) from error
    if paper is None:
        with_paper = ", ".join(name for name, kind in SUITES.items() if kind.paper is not None)
        raise click.UsageError(f"{suite!r} is the suite of no paper; there are: {with_paper}")
    arguments, run_context = _arguments(context, suite, paper, options)
    with run_context:
        chosen = run_context.params
        if chosen["only_plan"]:
            raise click.UsageError(
                "--plan is for `finbench run`; --dry-run tells what this would do"
            )
        loaded = _loaded(suite, chosen["dataset"])
        given = _given(run_context, suite, paper, loaded)
        console = PlainConsole(narrowest=100, stderr=chosen["as_json"])
        differing = [*_settings(console, paper, given), *_of_data(paper, chosen["dataset"])]
        lacking = [*_lacking(paper, given, loaded)]
        console.print(
            f"cost, for each of {given.tasks or 'the'} tasks: {paper.cost}", soft_wrap=True
        )
        for text in lacking:
            console.print(f"lacking: {text}", soft_wrap=True)
        console.print(f"the command: finbench run {shlex.join(arguments)}", soft_wrap=True)
        if dry_run:
            return
        if lacking:
            sys.exit(2)
        try:
            run_suite.invoke(run_context)
        except SystemExit as ended:
            if ended.code:
                raise
        _tables(console, paper, Path(chosen["out"]), chosen["model"])
    console.print("what differs from the paper:")
    for text in differing:
        console.print(f"  {text}", soft_wrap=True)


def _arguments(
    context: click.Context, suite: str, paper: "Paper", options: tuple[str, ...]
) -> tuple[list[str], click.Context]:
    """The arguments of `finbench run`, and its context. The user's stand last, so that they count
    where both give an option.
    """
    name, parent = str(context.info_name), context.parent
    theirs = run_suite.make_context(name, [suite, *options], parent=parent)
    with theirs:
        implied = [
            text
            for option, brings in paper.implied.items()
            if theirs.params[option] is not None
            for text in brings
        ]
        loaded = _loaded(suite, theirs.params["dataset"])
    if paper.repeats > 1 and loaded is not None:
        implied += ["--episodes", str(paper.repeats * len(loaded.tasks))]
    folder = Path("runs") / f"{suite}-reproduced-{time.strftime('%Y%m%d-%H%M%S')}"
    if theirs.params["out"] is None:
        implied += ["--out", str(folder)]
    arguments = [suite, *paper.options, *implied, *options]
    return arguments, run_suite.make_context(name, [*arguments], parent=parent)


def _loaded(name: str, dataset: Path | None) -> "Suite | None":
    """The suite with its tasks; None without the dataset that it wants."""
    from bench.suites import BUILT_IN, load_suite
    from bench.suites.suite import SuiteError

    if dataset is None and name not in BUILT_IN:
        return None
    try:
        return load_suite(name, dataset)
    except SuiteError as error:
        raise click.UsageError(str(error)) from error


def _given(context: click.Context, suite: str, paper: "Paper", loaded: "Suite | None") -> "Given":
    from bench.suites.paper import Given

    alone = run_suite.make_context("run", [suite, *paper.options])
    changed = {
        name: value
        for name, value in context.params.items()
        if is_given(alone, name) and value != alone.params[name]
    }
    tasks, notes = (len(loaded.tasks), loaded.notes) if loaded else (0, ())
    return Given(context.params, changed, tasks, notes)


def _settings(console: "PlainConsole", paper: "Paper", given: "Given") -> list[str]:
    """Print the settings. Returns those that differ, and what always does, a line each."""
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table("setting", "the paper", "this run", title=f"{paper.title}, {paper.source}")
    table.box = SIMPLE
    found = []
    for setting in paper.settings:
        here = setting.told(given)
        table.add_row(setting.name, setting.paper, here)
        if here.startswith(DIFFERS):
            found.append(f"{setting.name}: {here}")
    console.print(table)
    console.print(f"the authors' program: {paper.program}", soft_wrap=True)
    console.print("and always:")
    for text in paper.differences:
        console.print(f"  {text}", soft_wrap=True)
    return [*found, *paper.differences]


def _of_data(paper: "Paper", dataset: Path | None) -> list[str]:
    """How the data differ from the published files."""
    if paper.repository is None or dataset is None:
        return []
    return [f"data: {text}" for text in paper.repository.differences(dataset)]


def _lacking(paper: "Paper", given: "Given", loaded: "Suite | None") -> Iterator[str]:
    """What this run wants and has not, or has in another form, and how to get it."""
    from bench.environment import JUDGE_KEY, MODEL_KEY
    from bench.models.settings import key_for

    for option, what in paper.wanted.items():
        is_other = option.startswith("judge") and "judge" in given.changed
        if given[option] is None and not is_other and not (option == "dataset" and loaded):
            text = f"--{option.replace('_', '-')}, {what}"
            if option == "dataset" and paper.repository is not None:
                text += f": `finbench fetch {paper.title.lower()}` gets it"
            yield text
    embedding = given["embedding_model"] if given["embedding_url"] is None else None
    if embedding is not None and find_spec("sentence_transformers") is None:
        yield "--embedding-url, or sentence-transformers: pip install 'finport[dense]'"
    is_live = given["upstream"] != "simulated" and given["mode"] != "offline"
    calls_tools = loaded is None or not (loaded.is_recorded or loaded.offers_tools)
    if is_live and calls_tools and given["gateway"] == "embedded":
        if find_spec("akshare") is None:
            yield "AkShare: pip install 'finport[akshare]' (or --upstream simulated)"
        if not os.environ.get("FINPORT_RAPIDAPI_KEYS"):
            yield "FINPORT_RAPIDAPI_KEYS; `finport doctor --subscriptions` tells what they may call"
    keys = (("base_url", (MODEL_KEY,)), ("judge_base_url", (JUDGE_KEY, MODEL_KEY)))
    for option, names in keys:
        url = str(given[option] or "")
        if url.startswith("https:") and key_for(url, *names).secret is None:
            yield f"{names[0]}, the key of --{option.replace('_', '-')}"


def _tables(console: "PlainConsole", paper: "Paper", folder: Path, model: str | None) -> None:
    import orjson
    from rich.box import SIMPLE
    from rich.table import Table

    metrics: dict[str, Any] = orjson.loads((folder / "metrics.json").read_bytes())
    for table in paper.tables:
        shown = Table(title=f"{paper.title}: {table.title}", box=SIMPLE, caption=table.note)
        shown.add_column(overflow="fold")
        for column in table.columns:
            shown.add_column(column.head, justify="right", no_wrap=True)
        by_head = {
            name: {column.head: column.of(metrics) for column in columns}
            for name, columns in table.baselines.items()
        }
        by_head[f"this run: {model}"] = {one.head: one.of(metrics) for one in table.columns}
        heads = [column.head for column in table.columns]
        rows = {
            **table.rows,
            **{name: [row.get(head) for head in heads] for name, row in by_head.items()},
        }
        for name, figures in rows.items():
            texts = ("-" if one is None else f"{one:.{table.digits}f}" for one in figures)
            shown.add_row(name, *texts, style="bold" if name in by_head else "")
        console.print(shown)

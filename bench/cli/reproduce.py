"""`finbench reproduce`: a run as a suite's paper had it, and its table with a row of our own."""

import os
import re
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from bench.cli.options import beside, catalog_in, is_given, suite_of_chosen
from bench.cli.run import plan_of, run_suite
from gateway.cli.options import echo_json

if TYPE_CHECKING:
    from bench.runs.about import RunInfo
    from bench.suites.paper import Given, Paper
    from bench.suites.suite import Suite
    from manifests.common.console import PlainConsole

DIFFERS = ("differs", "cannot be had")

_COLUMNS = {"setting": "setting", "paper": "the paper", "run": "this run"}
"""The columns of the settings, by their names in JSON."""

_NEUTRAL = frozenset(
    {
        *("suite", "dataset", "manifests", "cards", "model", "base_url", "header", "stream"),
        *("judge_model", "judge_base_url", "judge_header", "embedding_model", "embedding_url"),
        *("upstream", "mode", "snapshot", "market", "gateway", "reading", "seed", "as_json"),
        *("out", "resume", "failed_too", "accept_changes", "concurrency", "starts_per_s"),
        *("engine", "players", "dashboard", "only_plan", "repeats", "by", "stratify"),
        *("prices", "max_model_errors", "no_transcripts"),
        *(f"simulated_{name}" for name in ("seed", "now", "latency_s", "hang_rate")),
    }
)
"""Options that a paper does not set, or that its settings tell of."""


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("suite", callback=beside)
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS OF FINBENCH RUN]")
@click.option("--dry-run", is_flag=True, help="Only print the settings, what lacks, and the cost.")
@click.pass_context
def reproduce(context: click.Context, suite: str, options: tuple[str, ...], dry_run: bool) -> None:
    """Run SUITE as its paper did, and print the paper's table with the row of this run.

    The options are those of `finbench run`, such as --dataset, --model, --base-url, --judge-model
    and --upstream. They replace the paper's, and each setting that differs is named.
    """
    from bench.suites import SUITES, suite_named
    from bench.suites.suite import SuiteError
    from manifests.common.console import PlainConsole

    try:
        kind = suite_named(suite)
    except SuiteError as error:
        raise click.UsageError(str(error)) from error
    if (paper := kind.paper) is None:
        with_paper = ", ".join(name for name, one in SUITES.items() if one.paper is not None)
        raise click.UsageError(f"{suite!r} is the suite of no paper; there are: {with_paper}")
    arguments, run_context, loaded = _arguments(context, suite, paper, options)
    with run_context:
        chosen = run_context.params
        if chosen["only_plan"]:
            raise click.UsageError("--plan is for `finbench run`; --dry-run tells what is done")
        given = _given(run_context, suite, paper, loaded)
        console = PlainConsole(narrowest=100, stderr=chosen["as_json"])
        rows, always = [*_rows(paper, given)], [*_of_data(paper, given["dataset"])]
        always += paper.differences
        _show_settings(console, paper, rows, always)
        lacking = [*_lacking(paper, given, kind, loaded)]
        episodes = given["episodes"] or given.tasks
        cost = f"cost, for each of {episodes or 'the'} episodes: {paper.cost}"
        console.print(cost, soft_wrap=True)
        if chosen["resume"]:
            console.print("the episodes that the run has already cost nothing more")
        for text in lacking:
            console.print(f"lacking: {text}", soft_wrap=True)
        command = ["finbench", "run", *_shown(arguments)]
        console.print(f"the command: {shlex.join(command)}", soft_wrap=True)
        if not lacking:
            plan_of(run_context, SimpleNamespace(**chosen))
            catalog_in(chosen["manifests"], chosen["cards"])
        if dry_run and chosen["as_json"]:
            echo_json(
                {
                    "suite": suite,
                    "paper": paper.title,
                    "source": paper.source,
                    "settings": [dict(zip(_COLUMNS, row, strict=True)) for row in rows],
                    "always": always,
                    "cost": {"episodes": episodes or None, "each": paper.cost},
                    "lacking": lacking,
                    "command": command,
                }
            )
        if dry_run:
            return
        if lacking:
            sys.exit(2)
        try:
            run_suite.invoke(run_context)
        except SystemExit as ended:
            if ended.code:
                raise
        differing = [f"{name}: {here}" for name, _, here in rows if here.startswith(DIFFERS)]
        differing += [*always, *_tables(console, paper, Path(chosen["out"]))]
    console.print("what differs from the paper:")
    for text in differing:
        console.print(f"  {text}", soft_wrap=True)


def _arguments(
    context: click.Context, suite: str, paper: "Paper", options: tuple[str, ...]
) -> tuple[list[str], click.Context, "Suite | None"]:
    """The arguments of `finbench run`, its context, and the suite with its tasks. The arguments of
    the user's stand last, and those of the paper's that they replace are left out.
    """
    name, parent = str(context.info_name), context.parent
    theirs = run_suite.make_context(name, [suite, *options], parent=parent)
    with theirs:
        ours = [
            text
            for replaced_by, group in paper.options.items()
            if not any(is_given(theirs, option) for option in replaced_by)
            for text in group
        ]
        for option, brings in paper.implied.items():
            if theirs.params[option] is not None and not any(one in options for one in brings):
                ours += brings
        loaded = _loaded(suite, theirs.params)
        if theirs.params["out"] is None and theirs.params["resume"]:
            raise click.UsageError("--resume wants --out RUN_DIR")
    theirs_say = is_given(theirs, "episodes") or is_given(theirs, "repeats")
    if paper.repeats > 1 and loaded is not None and not theirs_say:
        ours += ["--repeats", str(paper.repeats)]
    if theirs.params["out"] is None:
        folder = Path("runs") / f"{suite}-reproduced-{time.strftime('%Y%m%d-%H%M%S')}"
        ours += ["--out", str(folder)]
    arguments = [suite, *ours, *options]
    return arguments, run_suite.make_context(name, [*arguments], parent=parent), loaded


def _loaded(name: str, options: Mapping[str, Any]) -> "Suite | None":
    """The suite with the tasks that are chosen; None without the dataset that it wants."""
    from bench.suites import BUILT_IN, load_suite
    from bench.suites.suite import SuiteError

    dataset = options["dataset"]
    if dataset is None and name not in BUILT_IN:
        return None
    try:
        return suite_of_chosen(load_suite(name, dataset), options)
    except SuiteError as error:
        raise click.UsageError(str(error)) from error


def _given(context: click.Context, suite: str, paper: "Paper", loaded: "Suite | None") -> "Given":
    from bench.suites.paper import Given

    texts = [text for group in paper.options.values() for text in group]
    alone = run_suite.make_context("run", [suite, *texts])
    changed = {
        str(option.name): _typed(option.opts[0], context.params[str(option.name)])
        for option in run_suite.params
        if option.name not in _NEUTRAL
        and is_given(context, str(option.name))
        and context.params[str(option.name)] != alone.params[str(option.name)]
    }
    tasks, notes = (len(loaded.tasks), loaded.notes) if loaded else (0, ())
    chosen = context.params
    if chosen["repeats"] is not None and tasks:
        chosen = {**chosen, "episodes": chosen["repeats"] * tasks}
    return Given(chosen, changed, suite, tasks, notes)


def _typed(flag: str, value: Any) -> str:
    """An option as the user typed it, without secrets."""
    if value is True:
        return flag
    values = value if isinstance(value, tuple) else (value,)
    return " ".join(word for one in values for word in _shown([flag, _text(one)]))


def _text(value: Any) -> str:
    import orjson

    return orjson.dumps(value).decode() if isinstance(value, dict) else str(value)


def _shown(arguments: list[str]) -> list[str]:
    """Arguments without what may be a secret in them."""
    import orjson

    from gateway.pipeline.bind import REDACTED, masked

    shown = list[str]()
    before = ""
    for word in arguments:
        is_flag = word.startswith("--")
        flag, is_joined, value = word.partition("=") if is_flag else (before, "", word)
        if flag.endswith("-url") or flag == "--gateway":
            value = re.sub(r"//[^/@]*@", f"//{REDACTED}@", value)
            value = re.sub(r"[?#].*", f"?{REDACTED}", value)
        elif flag.endswith("body"):
            try:
                value = orjson.dumps(masked(orjson.loads(value))).decode()
            except (orjson.JSONDecodeError, AttributeError):
                value = REDACTED if value else ""
        elif flag in ("--agent-option", "--environment") and "=" in value:
            name, _, text = value.partition("=")
            value = f"{name}={masked({name: text})[name]}"
        elif flag.endswith("header") and value and not re.fullmatch(r"[\w-]+=[A-Z_0-9]+", value):
            value = f"{value.partition('=')[0]}={REDACTED}"
        if is_flag:
            shown.append(f"{flag}={value}" if is_joined else word)
        else:
            shown.append(value)
        before = word if is_flag and not is_joined else ""
    return shown


def _rows(paper: "Paper", given: "Given") -> Iterator[tuple[str, str, str]]:
    """Each setting, what the paper did, and what this run does."""
    for setting in paper.settings:
        yield setting.name, setting.paper, setting.told(given)
    told = {name for one in paper.settings for name in (*one.options, *one.tells)}
    for name, text in given.changed.items():
        if name not in told:
            flag, _, value = text.partition(" ")
            yield flag, "not given", f"differs: {value or 'given'}"


def _show_settings(
    console: "PlainConsole", paper: "Paper", rows: Sequence[tuple[str, ...]], always: Sequence[str]
) -> None:
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(*_COLUMNS.values(), title=f"{paper.title}, {paper.source}")
    table.box = SIMPLE
    for row in rows:
        table.add_row(*row)
    console.print(table)
    console.print(f"the authors' program: {paper.program}", soft_wrap=True)
    console.print("and always:")
    for text in always:
        console.print(f"  {text}", soft_wrap=True)


def _of_data(paper: "Paper", dataset: Path | None) -> list[str]:
    """How the data differ from the published files."""
    if paper.repository is None or dataset is None:
        return []
    try:
        return [f"data: {text}" for text in paper.repository.differences(dataset)]
    except OSError as error:
        raise click.UsageError(f"--dataset: {error.filename}: {error.strerror}") from error


def _lacking(
    paper: "Paper", given: "Given", kind: "type[Suite]", loaded: "Suite | None"
) -> Iterator[str]:
    """What this run wants and has not, or has in another form, and how to get it."""
    from bench.environment import JUDGE_KEY, MODEL_KEY
    from bench.models.settings import key_for

    for option, what in paper.wanted.items():
        is_other = option.startswith("judge") and "judge" in given.changed
        is_other |= option in ("model", "base_url") and "agent" in given.changed
        if given[option] is None and not is_other and not (option == "dataset" and loaded):
            text = f"--{option.replace('_', '-')}, {what}"
            if option == "dataset" and paper.repository is not None:
                text += f": `finbench fetch {paper.title.lower()}` gets it"
            yield text
    embedding = given["embedding_model"] if given["embedding_url"] is None else None
    if embedding is not None and find_spec("sentence_transformers") is None:
        yield "--embedding-url, or sentence-transformers: pip install 'finport[dense]'"
    is_live = given["upstream"] != "simulated" and given["mode"] != "offline"
    calls_tools = not (kind.is_recorded or kind.overrides("offered"))
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


def _tables(console: "PlainConsole", paper: "Paper", folder: Path) -> list[str]:
    """Print the paper's tables with a row of the run. Returns what is to be known of that row."""
    import orjson
    from rich.box import SIMPLE
    from rich.table import Table

    from bench.runs.about import RunInfo, simulated

    metrics: dict[str, Any] = orjson.loads((folder / "metrics.json").read_bytes())
    about = RunInfo.read(folder)
    who = about.agent if about.agent_is_simulated or not about.model else about.model
    for table in paper.tables:
        shown = Table(title=f"{paper.title}: {table.title}", box=SIMPLE, caption=table.note)
        shown.add_column(overflow="fold")
        for column in table.columns:
            shown.add_column(column.head, justify="right", no_wrap=True)
        own = {
            **table.baselines,
            f"this run: {who}": table.columns,
        }
        heads = [column.head for column in table.columns]
        rows = dict(table.rows)
        for name, columns in own.items():
            found = {column.head: column.of(metrics) for column in columns}
            rows[name] = [found.get(head) for head in heads]
        for name, figures in rows.items():
            texts = ("-" if one is None else f"{one:.{table.digits}f}" for one in figures)
            shown.add_row(name, *texts, style="bold" if name in own else "")
        console.print(shown)
    return [*_of_run(about, metrics), *simulated(about)]


def _of_run(about: "RunInfo", metrics: dict[str, Any]) -> Iterator[str]:
    for ending, number in metrics.get("usage", {}).get("endings", {}).items():
        if ending != "answer" and number:
            whole = metrics["episodes"]
            yield f"{number} of {whole} episodes ended by {ending}, and count as failed"
    for name in ("invalid", "invalid_tools"):
        if number := metrics.get(name):
            yield f"{number} answers of the judge were no scores, so its figures are over fewer"
    if about.failed_judgements:
        yield f"{about.failed_judgements} episodes have no judgement"

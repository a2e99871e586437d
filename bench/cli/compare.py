"""`finbench compare`: a paired comparison of two runs, as tables or JSON."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.cli.options import check_groups, names_of, of_suite, suite_in
from gateway.cli.options import echo_json, failures, wrong_usage
from manifests.common.terminal import echo

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from bench.analysis.agreement import Scores
    from bench.record import EpisodeRecord

_RUN_DIR = click.Path(exists=True, path_type=Path)
_NAMED, _FLIPS = 10, 50


@click.command("compare")
@click.argument("run_a", type=_RUN_DIR)
@click.argument("run_b", type=_RUN_DIR)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME",
    help="Compare only this metric; repeatable.",
)
@click.option(
    "--judges",
    is_flag=True,
    help="Compare the judges of two runs or judged traces (`score --out`) of the same episodes.",
)
@click.option(
    "--by",
    callback=names_of,
    default="",
    metavar="GROUP,...",
    help="Also compare within each language, category, source, difficulty, or another group of the "
    "suite.",
)
@of_suite
@click.option("--json", "as_json", is_flag=True)
def compare(
    run_a: Path,
    run_b: Path,
    metrics: tuple[str, ...],
    judges: bool,
    by: list[str],
    suite: str | None,
    as_json: bool,
) -> None:
    """Compare RUN_B with RUN_A, task by task; a task is known by its question.

    Differences are B minus A, with 95 % intervals over tasks; p comes from McNemar's exact test.
    With --judges, the agreement of two judges on the same episodes: Cohen's
    kappa with quadratic weights, and Spearman's rho.
    """
    if judges:
        _compare_judges(run_a, run_b, metrics, as_json=as_json)
        return
    for run_dir in (run_a, run_b):
        if not run_dir.is_dir():
            raise click.UsageError(f"{run_dir} is no run directory")
    from bench.analysis.compare import PASSES, NothingInCommonError, Run
    from bench.analysis.compare import compare as compared
    from bench.cli.warnings import check_one_judge, warn_of
    from bench.runs.directory import RunDirectoryError
    from bench.suites.suite import SuiteError

    for run_dir in (run_a, run_b):
        suite_in(run_dir, suite)
    with failures(RunDirectoryError, SuiteError):
        a, b = Run(run_a, suite), Run(run_b, suite)
    for read in (a, b):
        check_one_judge(read.judges, read.files.path)
    for run in (a.files, b.files):
        warn_of(run, suite)
    check_groups(by, a.suite)
    passes = [*PASSES] if a.suite.has_verdicts else []
    _check_names(metrics, [*(measure.name for measure in a.measures), *passes])
    with wrong_usage(NothingInCommonError):
        result = compared(a, b, only=metrics, by=by)
    if as_json:
        echo_json({"a": str(run_a), "b": str(run_b), **result})
    else:
        shares = {*passes, *(measure.name for measure in a.measures if measure.is_share)}
        _show(result, run_a, run_b, shares, [*(one.name for one in a.suite.measures), *metrics])


def _check_names(given: Sequence[str], known: Sequence[str]) -> None:
    """A usage error for a metric that there is not."""
    if unknown := [name for name in given if name not in known]:
        raise click.UsageError(f"no metric {unknown[0]!r}; there are: {', '.join(known)}")


def _compare_judges(a: Path, b: Path, only: Sequence[str], *, as_json: bool) -> None:
    from bench.analysis.agreement import agreement

    asked_a, asked_b = dict[str, str](), dict[str, str]()
    scores_a, judges_a = _judged(a, asked_a)
    scores_b, judges_b = _judged(b, asked_b)
    if unlike := sorted(e for e, asked in asked_a.items() if asked_b.get(e, asked) != asked):
        text = f"have another question in each, and are no pair: {_named(unlike)}"
        echo(f"finbench: {len(unlike)} episodes {text}", err=True)
        for of_metric in scores_a.values():
            for episode in unlike:
                of_metric.pop(episode, None)
    metrics = agreement(scores_a, scores_b)
    if not any(found["episodes"] for found in metrics.values()):
        raise click.ClickException("no episode has valid scores of both judges for one metric")
    _check_names(only, list(metrics))
    result = {
        "a": {"path": str(a), "judges": judges_a},
        "b": {"path": str(b), "judges": judges_b},
        "metrics": {name: found for name, found in metrics.items() if not only or name in only},
    }
    if as_json:
        echo_json(result)
    else:
        _show_agreement(result)


def _named(names: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    rest = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + rest


def _judged(path: Path, asked: dict[str, str]) -> "tuple[Scores, list[str]]":
    """The scores in a run or a judged file, and who gave them. Into `asked` goes a digest of each
    episode's question, as far as it is known.
    """
    from bench.analysis.agreement import scores_of
    from bench.analysis.score import Episodes
    from bench.cli.warnings import check_one_judge, warn_of_changes, warn_of_incomplete
    from bench.question import digest_of
    from bench.runs.directory import RunDirectoryError
    from bench.runs.reader import Run
    from bench.suites.suite import TraceFormatError
    from bench.suites.traces import read_trace

    def noted(records: "Iterable[EpisodeRecord]") -> "Iterator[EpisodeRecord]":
        for record in records:
            if record.question.strip():
                asked[record.episode] = digest_of(record.question)
            yield record

    with failures(RunDirectoryError, TraceFormatError):
        if path.is_dir():
            run = Run.open(path)
            warn_of_changes(run)
            scores, judges = scores_of(noted(record for record, _ in run.episodes()))
        else:
            episodes = Episodes(read_trace(path))
            scores, judges = scores_of(noted(episodes))
            warn_of_incomplete(episodes)
    if not judges:
        raise click.ClickException(f"{path}: no episode is judged")
    check_one_judge(judges, path)
    return scores, sorted(judges)


def _show_agreement(result: dict[str, Any]) -> None:
    from bench.analysis.compare import figure_text
    from manifests.common.console import PlainConsole

    console = PlainConsole(narrowest=100, markup=True)
    for side in ("a", "b"):
        path, judges = result[side]["path"], ", ".join(result[side]["judges"])
        console.print(f"{side.upper()} {path}, judged by {judges}", markup=False)
    table = _table("metric", "episodes", "equal", "A", "B", "kappa", "rho", right=range(1, 7))
    for name, found in result["metrics"].items():
        equal = "" if found["equal"] is None else figure_text(found["equal"], is_share=True)
        figures = (found[column] for column in ("mean_a", "mean_b", "kappa", "rho"))
        texts = ("" if figure is None else figure_text(figure) for figure in figures)
        table.add_row(_plain(name), str(found["episodes"]), equal, *texts)
    console.print(table)
    console.print(
        "episodes: those that both judges scored; A, B: mean of the medians; kappa: Cohen's, with "
        "quadratic weights; rho: Spearman's; empty where nothing can be said"
    )


def _show(
    result: dict[str, Any], a: Path, b: Path, shares: AbstractSet[str], by_group: Sequence[str]
) -> None:
    from bench.analysis.compare import UNLIKE
    from manifests.common.console import PlainConsole

    console = PlainConsole(narrowest=120, markup=True)
    tasks, episodes = result["tasks"], result["episodes"]
    console.print(f"A {a}\nB {b}", markup=False)
    console.print(f"tasks in both: {tasks['common']}, by {episodes['common']} episodes of each")
    for side in ("a", "b"):
        if only := tasks[f"only_{side}"]:
            text = f"tasks only in {side.upper()}: {len(only)}: {_named(only)}"
            console.print(text, markup=False)
        if left := episodes[f"only_{side}"]:
            console.print(f"episodes of {side.upper()} without a counterpart: {left}")
    for name, text in UNLIKE.items():
        if found := tasks.get(name):
            console.print(f"{text}: {len(found)}: {_named(found)}", markup=False)
    _show_settings(console, result["settings"])
    show_metrics(console, result["metrics"], shares)
    _show_groups(console, result.get("groups", {}), shares, by_group)
    _show_days(console, result.get("days", {}))
    _show_flips(console, result["flips"])


def _show_groups(
    console: "Console",
    groups: Mapping[str, Mapping[str, Mapping[str, Any]]],
    shares: AbstractSet[str],
    metrics: Sequence[str],
) -> None:
    """The differences of these metrics in each row of the groups, if any were asked for."""
    from bench.analysis.compare import FEW, figure_text

    for group, rows in groups.items():
        heads = ("metric", "tasks", "A", "B", "B - A", "95 % interval", "p")
        table = _table(group, *heads, right=range(2, 8))
        for row, of_row in rows.items():
            shown = [name for name in dict.fromkeys(metrics) if of_row.get(name, {}).get("tasks")]
            for place, name in enumerate(shown):
                found = of_row[name]
                number = partial(figure_text, is_share=name in shares)
                ends = (number(end, sign=True) for end in found["interval"] or ())
                table.add_row(
                    *("" if place else _plain(row) or "none", name, str(found["tasks"])),
                    *(number(found[side]) for side in ("a", "b")),
                    *(number(found["difference"], sign=True), " to ".join(ends) or "undefined"),
                    "too few" if found["p"] is None else f"{found['p']:.3g}",
                )
        console.print(table)
    if groups:
        console.print(
            "by group: p is of McNemar's exact test, else of a paired t-test over tasks, corrected "
            f"by Holm's method for all groups of a metric; of fewer than {FEW} tasks it is not "
            "computed. Intervals are each of one group alone"
        )


def _show_days(console: "Console", days: Mapping[str, Mapping[str, Any]]) -> None:
    """The differences by task that are paired by day, if the suite has any."""
    from bench.analysis.compare import figure_text

    rows = {task: found for task, found in days.items() if found}
    if not rows:
        return
    table = _table("task", "figure", "B - A", "95 % interval", right=(2, 3))
    for task, figures in rows.items():
        for place, (name, found) in enumerate(figures.items()):
            difference, ends = "undefined", ""
            if found is not None:
                difference = figure_text(found["difference"], sign=True)
                ends = " to ".join(figure_text(end, sign=True) for end in found["interval"] or ())
            table.add_row("" if place else _plain(task), name, difference, ends)
    console.print(table)
    console.print("with intervals from a bootstrap over days, the same ones for both")


def _show_settings(console: "Console", settings: Sequence[dict[str, Any]]) -> None:
    if not settings:
        console.print("no setting differs")
        return
    table = _table("setting that differs", "A", "B")
    for setting in settings:
        table.add_row(*(_plain(setting[name]) for name in ("name", "a", "b")))
    console.print(table)
    for reason in dict.fromkeys(setting["unfair"] for setting in settings if setting["unfair"]):
        names = ", ".join(setting["name"] for setting in settings if setting["unfair"] == reason)
        console.print(f"[bold yellow]not alike:[/] {reason} ({names})")


def show_metrics(
    console: "Console", metrics: Mapping[str, Mapping[str, Any]], shares: AbstractSet[str]
) -> None:
    """Show each metric of A and B, with its difference; `shares` are shown in percent."""
    from bench.analysis.compare import metric_rows
    from bench.metrics.passes import MEANING, NOT_OF_AGENT

    columns = ("metric", "tasks", "A", "B", "B - A", "95 % interval")
    counts = ("both", "only A", "only B", "neither", "p")
    table = _table(*columns, *counts, right=range(1, 11))
    for row in metric_rows(metrics, shares):
        table.add_row(*row)
    console.print(table)
    if missing := [name for name, found in metrics.items() if not found["tasks"]]:
        console.print(f"without a figure in both runs: {', '.join(missing)}")
    console.print(
        "A, B: means over tasks; the interval is about other tasks of the same kind; p: McNemar's "
        "exact test, two-sided, where a task passes if more than half of its repeats do"
    )
    if metrics.get("cache_hit_rate", {}).get("tasks"):
        console.print("cache_hit_rate: answers from the cache, of all answers; these take no time")
    if any(name.startswith(("pass@", "pass^")) for name in metrics):
        console.print(f"{MEANING}; without {NOT_OF_AGENT}")
    if any(name.endswith("_net") for name in metrics):
        console.print(
            "_net: without what failed through nobody but a quota, the gateway or a model"
        )


def _show_flips(console: "Console", flips: Sequence[dict[str, Any]]) -> None:
    for direction in ("pass to fail", "fail to pass"):
        chosen = [flip for flip in flips if flip["flip"] == direction]
        own = sum(not flip["infrastructure"] for flip in chosen)
        console.print(f"\n[bold]{direction}: {len(chosen)}[/], without infrastructure {own}")
        if not chosen:
            continue
        table = _table("task", "category", "question", "A", "B", "through")
        for flip in chosen[:_FLIPS]:
            texts = (flip[name] for name in ("id", "category", "question", "a", "b"))
            table.add_row(*map(_plain, texts), "infrastructure" if flip["infrastructure"] else "")
        console.print(table)
        if len(chosen) > _FLIPS:
            console.print(f"and {len(chosen) - _FLIPS} more; --json has them all")


def _table(*columns: str, right: Sequence[int] = ()) -> "Table":
    """A table that cuts no figure; if space is short, the question is cut."""
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(box=SIMPLE)
    for place, name in enumerate(columns):
        if place in right:
            table.add_column(name, justify="right", no_wrap=True)
        elif name == "question":
            table.add_column(name, no_wrap=True, overflow="ellipsis", max_width=32)
        else:
            table.add_column(name, overflow="fold")
    return table


def _plain(value: object) -> str:
    """A text of a run with rich's markup escaped."""
    from rich.markup import escape

    return "" if value is None else escape(str(value))

"""`finbench table`: several runs as one table for a paper or a page."""

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.cli.options import of_suite, with_prices
from gateway.cli.options import failures, print_table, wrong_usage
from manifests.common.nearest import not_among
from manifests.common.terminal import echo, plain

if TYPE_CHECKING:
    from bench.analysis.table import Cell, Line
    from bench.models.prices import Prices
    from bench.suites.suite import Metric

Row = dict[str, "Cell"]
Rows = Sequence[Row]
"""The cells of each run by column."""


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "latex", "csv", "html"]),
    default="text",
    show_default=True,
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME",
    help="Only these metrics, in this order; repeatable. Default: the suite's main ones.",
)
@click.option("--rank-by", metavar="MEASURE", help="The measure of the ranks. Default: the first.")
@with_prices
@of_suite
def table(
    runs: tuple[Path, ...],
    form: str,
    metrics: tuple[str, ...],
    rank_by: str | None,
    prices: "Prices | None",
    suite: str | None,
) -> None:
    """Show RUNS as a table: metrics with 95 % intervals, pass^k, tokens, money, and ranks.

    Tokens and money are those of the agent's model, an episode. Money needs prices: those of
    --prices, else those that a run was given.

    Runs that can't be told apart at 5 % share a rank; p-values are corrected by Holm's method. Runs
    of other tasks are shown, said not to be alike, and not ranked.
    """
    from bench.analysis.compare import NothingInCommonError, Run
    from bench.analysis.table import UnknownMeasureError, lines_of, ranked
    from bench.runs.about import simulated
    from bench.runs.directory import RunDirectoryError
    from bench.suites.suite import SuiteError

    with failures(RunDirectoryError, SuiteError, NothingInCommonError, ValueError, KeyError):
        read = [Run(path, suite) for path in runs]
        lines = lines_of(read, prices)
        with wrong_usage(UnknownMeasureError):
            measure, other = ranked(lines, rank_by)
        for name in metrics:
            if all(name not in _named(line) for line in lines):
                known = _named(lines[0])
                raise click.UsageError(f"--metric: there is no metric {not_among(name, known)}")
        rows = [line.row(metrics) for line in lines]
    notes = [f"Ranks are by {measure}; runs that can't be told apart at 5 % share one (Holm)."]
    if other:
        others = ", ".join(line.label for line in other)
        notes.append(f"Not alike: {others} had other tasks than the rest, and is not ranked.")
    for line in lines:
        if failed := line.metrics.get("failed_by_infrastructure"):
            text = f"{failed:,} of {line.episodes:,} episodes failed only by a quota, the gateway"
            notes.append(f"{line.label}: {text} or the model's endpoint, and say nothing of it.")
    if made_up := dict.fromkeys(what for line in lines for what in simulated(line.run.about)):
        notes.append(f"Simulated, in all runs or some: {'; '.join(made_up)}.")
    _WRITERS[form](rows, notes)


def _named(line: "Line") -> dict[str, "Metric"]:
    return {metric.name: metric for metric in line.suite.metrics}


def _names(rows: Rows) -> list[str]:
    """All columns, in the order of the first rows; without those that are empty everywhere. Those
    from the tokens on are the last ones.
    """
    names = dict.fromkeys(name for row in rows for name in row)
    last = {name for row in rows for name in [*row][[*row].index("tokens") :]} - {"rank"}
    ordered = [*(n for n in names if n not in last and n != "rank")]
    ordered += [*(n for n in names if n in last), "rank"]
    return [name for name in ordered if any(name in row and row[name].text for row in rows)]


def _joined(row: Row, name: str) -> str:
    """A cell in one line."""
    cell = row.get(name)
    if cell is None:
        return ""
    return f"{cell.text} ({cell.interval})" if cell.interval else cell.text


def _text(rows: Rows, notes: Sequence[str]) -> None:
    names = _names(rows)
    cells = [{name: _joined(row, name) for name in names} for row in rows]
    width = 2 + sum(2 + max(len(name), *(len(row[name]) for row in cells)) for name in names)
    print_table(cells, width=width)
    for note in notes:
        echo(note)


def _markdown(rows: Rows, notes: Sequence[str]) -> None:
    names = _names(rows)

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(plain(cell).replace("|", "\\|") for cell in cells) + " |"

    echo(line(names))
    echo("|---|" + "---:|" * (len(names) - 1))
    for row in rows:
        echo(line([_joined(row, name) for name in names]))
    echo("\n" + " ".join(notes))


_TEX = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
    }
)


def _latex(rows: Rows, notes: Sequence[str]) -> None:
    """Each run has two lines, the second with the intervals."""
    names = _names(rows)

    def line(cells: Sequence[str]) -> str:
        return " & ".join(plain(cell).translate(_TEX) for cell in cells) + r" \\"

    echo(r"{\footnotesize\setlength{\tabcolsep}{3pt}%")
    echo(rf"\begin{{tabular}}{{l{'r' * (len(names) - 1)}}}")
    echo(r"\hline")
    echo(line(names))
    echo(r"\hline")
    for row in rows:
        cells = [row.get(name) for name in names]
        echo(line([cell.text if cell else "" for cell in cells]))
        ends = [cell.interval if cell else "" for cell in cells]
        if any(ends):
            short = (end.replace("%", "").replace(" to ", ", ") for end in ends)
            echo(" & ".join(rf"\scriptsize [{end}]" if end else "" for end in short) + r" \\")
    echo(r"\hline")
    echo(r"\end{tabular}}")
    for note in notes:
        echo(f"% {note}")


def _csv(rows: Rows, notes: Sequence[str]) -> None:
    """Numbers as they are: shares lie between 0 and 1; `_low` and `_high` are ends of intervals."""
    from gateway.tables.conversion import to_csv

    columns, flat = dict[str, None](), list[dict[str, Any]]()
    for name in _names(rows):
        has_ends = any(name in row and row[name].ends for row in rows)
        columns |= dict.fromkeys((name, f"{name}_low", f"{name}_high") if has_ends else (name,))
    for row in rows:
        found: dict[str, Any] = {}
        for name, cell in row.items():
            found[name] = cell.value
            if cell.ends:
                found[f"{name}_low"], found[f"{name}_high"] = cell.ends
        flat.append({column: found.get(column) for column in columns})
    click.echo(to_csv(flat, [*columns]), nl=False)
    for note in notes:
        echo(f"finbench: {note}", err=True)


def _html(rows: Rows, notes: Sequence[str]) -> None:
    names = _names(rows)
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    echo(f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>")
    for row in rows:
        cells = [_joined(row, name) for name in names]
        echo(f"<tr>{''.join(f'<td>{escape(plain(cell))}</td>' for cell in cells)}</tr>")
    echo(f"</tbody>\n</table>\n<p>{escape(' '.join(notes))}</p>")


_WRITERS: dict[str, Callable[[Rows, Sequence[str]], None]] = {
    "text": _text,
    "markdown": _markdown,
    "latex": _latex,
    "csv": _csv,
    "html": _html,
}

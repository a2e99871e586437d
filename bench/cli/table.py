"""`finbench table`: several runs as one table for a paper or a page."""

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.cli.options import of_suite, with_prices
from gateway.cli.options import failures, print_table
from manifests.common.terminal import echo, plain

if TYPE_CHECKING:
    from bench.analysis.table import Line
    from bench.models.prices import Prices

Cell = tuple[str, str]
"""A figure, and its interval."""


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "latex", "csv", "html"]),
    default="text",
    show_default=True,
)
@click.option("--rank-by", metavar="MEASURE", help="The measure of the ranks. Default: the first.")
@with_prices
@of_suite
def table(
    runs: tuple[Path, ...],
    form: str,
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
    from bench.runs.directory import RunDirectoryError
    from bench.suites.suite import SuiteError

    with failures(RunDirectoryError, SuiteError, NothingInCommonError, ValueError, KeyError):
        read = [Run(path, suite) for path in runs]
        lines = lines_of(read, prices)
        try:
            measure, other = ranked(lines, rank_by)
        except UnknownMeasureError as error:
            raise click.UsageError(str(error)) from error
    rows = [_row(line) for line in lines]
    notes = [f"Ranks are by {measure}; runs that can't be told apart at 5 % share one (Holm)."]
    if other:
        others = ", ".join(line.label for line in other)
        notes.append(f"Not alike: {others} had other tasks than the rest, and is not ranked.")
    if any(line.run.about.content.get("upstream") == "simulated" for line in lines):
        notes.append("The tools of runs here were simulated.")
    _WRITERS[form](rows, notes)


def _row(line: "Line") -> dict[str, Cell]:
    from bench.models.prices import amount_text

    main = [metric for metric in line.suite.metrics if metric.is_main]
    row: dict[str, Cell] = {"agent": (line.label, ""), "episodes": (f"{line.episodes:,}", "")}
    row |= {title: (value, interval) for title, value, interval in line.cells(main)}
    row["tokens"] = ("" if line.tokens is None else f"{line.tokens:,.0f}", "")
    if line.money is not None and line.prices is not None:
        row[line.prices.currency] = (amount_text(line.money), "")
    row["rank"] = ("" if line.rank is None else str(line.rank), "")
    return row


def _names(rows: Sequence[dict[str, Cell]]) -> list[str]:
    """All columns, in the order of the first rows; without those that are empty everywhere. Those
    from the tokens on are the last ones.
    """
    names = dict.fromkeys(name for row in rows for name in row)
    last = {name for row in rows for name in [*row][[*row].index("tokens") :]} - {"rank"}
    ordered = [*(n for n in names if n not in last and n != "rank")]
    ordered += [*(n for n in names if n in last), "rank"]
    return [name for name in ordered if any(row.get(name, ("", ""))[0] for row in rows)]


def _joined(cell: Cell, form: str = "{} ({})") -> str:
    return form.format(*cell) if cell[1] else cell[0]


def _text(rows: Sequence[dict[str, Cell]], notes: Sequence[str]) -> None:
    names = _names(rows)
    cells = [{name: _joined(row.get(name, ("", ""))) for name in names} for row in rows]
    width = 2 + sum(2 + max(len(name), *(len(row[name]) for row in cells)) for name in names)
    print_table(cells, width=width)
    for note in notes:
        echo(note)


def _markdown(rows: Sequence[dict[str, Cell]], notes: Sequence[str]) -> None:
    names = _names(rows)

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(plain(cell).replace("|", "\\|") for cell in cells) + " |"

    echo(line(names))
    echo("|---|" + "---:|" * (len(names) - 1))
    for row in rows:
        echo(line([_joined(row.get(name, ("", ""))) for name in names]))
    echo("\n" + " ".join(notes))


_TEX = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
    }
)


def _latex(rows: Sequence[dict[str, Cell]], notes: Sequence[str]) -> None:
    names = _names(rows)

    def line(cells: Sequence[str]) -> str:
        return " & ".join(cells) + r" \\"

    echo(rf"\begin{{tabular}}{{l{'r' * (len(names) - 1)}}}")
    echo(r"\hline")
    echo(line([plain(name).translate(_TEX) for name in names]))
    echo(r"\hline")
    for row in rows:
        cells = [row.get(name, ("", "")) for name in names]
        safe = [(plain(a).translate(_TEX), plain(b).translate(_TEX)) for a, b in cells]
        echo(line([_joined(cell, r"{} {{\scriptsize ({})}}") for cell in safe]))
    echo(r"\hline")
    echo(r"\end{tabular}")
    for note in notes:
        echo(f"% {note}")


def _csv(rows: Sequence[dict[str, Cell]], notes: Sequence[str]) -> None:
    from gateway.tables.conversion import to_csv

    names, flat = _names(rows), list[dict[str, str]]()
    for row in rows:
        cells = {name: row.get(name, ("", "")) for name in names}
        flat.append(
            {name: a for name, (a, _) in cells.items()}
            | {f"{name} interval": b for name, (_, b) in cells.items()}
        )
    columns = [
        column
        for name in names
        for column in (name, f"{name} interval")
        if any(row[column] for row in flat)
    ]
    click.echo(to_csv(flat, columns), nl=False)
    for note in notes:
        echo(f"finbench: {note}", err=True)


def _html(rows: Sequence[dict[str, Cell]], notes: Sequence[str]) -> None:
    names = _names(rows)
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    echo(f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>")
    for row in rows:
        cells = [_joined(row.get(name, ("", ""))) for name in names]
        echo(f"<tr>{''.join(f'<td>{escape(plain(cell))}</td>' for cell in cells)}</tr>")
    echo(f"</tbody>\n</table>\n<p>{escape(' '.join(notes))}</p>")


_WRITERS: dict[str, Callable[[Sequence[dict[str, Cell]], Sequence[str]], None]] = {
    "text": _text,
    "markdown": _markdown,
    "latex": _latex,
    "csv": _csv,
    "html": _html,
}

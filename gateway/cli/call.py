"""`finport call`: one call, printed as its envelope or as a table."""

import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import click
import orjson

from gateway.cli.options import (
    OutPath,
    echo_json,
    failures,
    force,
    modes,
    print_table,
    providers,
    read_settings,
    run,
    simulation,
    wrong_usage,
)
from gateway.compress.budget import LIMITS
from gateway.compress.cut import cut
from manifests.common.files import output_file
from manifests.common.terminal import echo, plain

if TYPE_CHECKING:
    from pathlib import Path

    from gateway.context import StandInUse
    from gateway.result import Result

ALL = 2**31
"""More rows than a table has: those who want a table for themselves want all of it."""

CELL_CHARS, WIDEST = 60, 100_000
"""Characters of a cell in a printed table, and of a line: the terminal wraps longer lines."""

Format = Literal["json", "table", "csv", "jsonl", "arrow"]

MOST_CHARS = 2**24
"""Characters of arguments that are read from standard input."""

SPARKS = "▁▂▃▄▅▆▇█"
SPARK_CHARS = 60
"""The most characters of a line that `--plot` draws."""


def _tools(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    """The tools whose names begin so, for the completion of a shell."""
    from manifests import Catalog

    return [tool.name for tool in Catalog.load() if tool.name.startswith(begun)]


def _names(context: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """The arguments of the tool that was named, or the values that one of them may have."""
    from manifests import Catalog

    manifest = Catalog.load().get(str(context.params.get("tool")))
    taken = [p for p in manifest.parameters if p.filled_by == "agent"] if manifest else []
    name, equals, value = begun.partition("=")
    if not equals:
        return [f"{p.name}=" for p in taken if p.name.startswith(begun)]
    values = next((p.enum or (p.example,) for p in taken if p.name == name), ())
    return [f"{name}={one}" for one in values if str(one).startswith(value)]


_FORMS: "dict[str, Format]" = {".csv": "csv", ".jsonl": "jsonl", ".arrow": "arrow"}


@click.command()
@click.argument("tool", shell_complete=_tools)
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]...", shell_complete=_names)
@click.option(
    "--args", "json_arguments", help="Arguments as one JSON object; - reads it from standard input."
)
@click.option("--timeout-s", type=click.FloatRange(min=0, min_open=True), help="Deadline.")
@click.option("--max-rows", type=click.IntRange(min=1), help="Rows of a table to print.")
@click.option(
    "--max-tokens", type=click.IntRange(*LIMITS["tokens"]), help="Shorten the answer to a text."
)
@click.option("--max-chars", type=click.IntRange(*LIMITS["chars"]), help="The same, in characters.")
@click.option("--question", default="", help="The question that a shortened answer serves.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "table", "csv", "jsonl", "arrow"]),
    help="The envelope (json), or only the rows: all of them. Default: by the ending of --out, a "
    "table on a terminal, else json.",
)
@click.option(
    "-o", "--out", type=OutPath(dir_okay=False), help="Write to this file, not to standard output."
)
@force
@click.option("--plot", is_flag=True, help="Draw each column of numbers as a line of blocks.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing beside the answer.")
@click.option("-v", "--verbose", is_flag=True, help="Say where the answer came from, in full.")
@click.option(
    "--stand-in",
    type=click.Choice(["never", "allow"]),
    help="Whether another source may answer while the tool's own fails.",
)
@click.option("--cache-control", help="Cache-Control directives, as in HTTP: max-age=60, ...")
@providers
@modes
@simulation
def call(
    tool: str,
    arguments: tuple[str, ...],
    json_arguments: str | None,
    timeout_s: float | None,
    max_rows: int | None,
    max_tokens: int | None,
    max_chars: int | None,
    question: str,
    form: Format | None,
    out: "Path | None",
    force: bool,
    plot: bool,
    quiet: bool,
    verbose: bool,
    stand_in: "StandInUse | None",
    cache_control: str | None,
    **settings: object,
) -> None:
    """Make one call and print its envelope as JSON, or its rows."""
    from contextlib import ExitStack

    from cache import CacheControl, CacheControlError, SnapshotError
    from gateway import CallContext, Gateway

    given = _arguments(arguments, json_arguments)
    shortens = bool(max_tokens or max_chars)
    if form is None and out is not None and not shortens:
        form = _FORMS.get(out.suffix)
    if form is None:
        shows = sys.stdout.isatty() and out is None and not shortens
        form = "table" if plot or shows else "json"
    if form != "json" and shortens:
        raise click.UsageError(f"--format {form} prints rows; a shortened answer is a text")
    if plot and (out is not None or form != "table"):
        raise click.UsageError("--plot draws on the terminal; it goes with --format table alone")
    if form == "arrow" and out is None and sys.stdout.isatty():
        raise click.UsageError("--format arrow is no text: name a file with -o, or a pipe")
    read = read_settings(**settings)
    if question and not (max_tokens or max_chars or read.max_tokens):
        raise click.UsageError(
            "--question needs --max-tokens or --max-chars: it has no effect alone"
        )
    rows = max_rows or (None if form == "json" else ALL)
    with wrong_usage(CacheControlError, ValueError):
        context = CallContext(
            timeout_s,
            rows,
            None if cache_control is None else CacheControl.parse(cache_control),
            max_tokens=max_tokens,
            max_chars=max_chars,
            question=question,
            as_rows=form != "json",
            stand_in=stand_in,
        )

    async def once() -> int:
        try:
            async with Gateway.open(read, lazy=True) as gateway:
                result = await gateway.call(tool, given, context)
        except (SnapshotError, OSError) as error:
            echo(f"finport: {error}", err=True)
            return 1
        with failures(of=out), ExitStack() as opened:
            file: BinaryIO = sys.stdout.buffer
            if out is not None and result.ok:
                file = opened.enter_context(output_file(out, force=force))
            if form != "json" and result.ok:
                _print_rows(result, form, file, plot=plot, quiet=quiet, verbose=verbose)
                return 0
            if form != "json" and result.error is not None:
                wrong = result.error
                echo(f"finport: {wrong.code} (fault: {wrong.fault}): {wrong.message}", err=True)
                if verbose:
                    said = orjson.dumps(wrong.to_dict(), option=orjson.OPT_INDENT_2)
                    echo(said.decode(), err=True)
                return 1
            said = orjson.loads(result.to_json())
            if file is sys.stdout.buffer:
                echo_json(said)
            else:
                file.write(orjson.dumps(said, option=orjson.OPT_INDENT_2) + b"\n")
        return 0 if result.ok else 1

    run(once)


def _print_rows(
    result: "Result",
    form: Format,
    file: BinaryIO,
    *,
    plot: bool = False,
    quiet: bool = False,
    verbose: bool = False,
) -> None:
    """Print the rows, and on standard error what they are."""
    from gateway.tables import conversion

    try:
        if form == "csv":
            _write(conversion.to_csv(*result.table()), file)
        elif form == "jsonl":
            value = result.value
            rows = value if result.rows is not None else [value]
            _write(conversion.to_json_lines(rows), file)
        elif form == "arrow":
            file.write(conversion.to_arrow_stream(*result.table()))
        elif result.rows is None and not plot:
            echo_json(result.value)
        else:
            (_plot if plot else _print_table)(*result.table())
    except conversion.NoTableError as error:
        raise click.ClickException(f"{error}; --format json prints it") from error
    except ImportError as error:
        raise click.ClickException(str(error)) from error
    if quiet:
        return
    what = "a document" if result.rows is None else (result.shown or f"{result.rows} rows")
    age = f", {result.age_s:.0f} s old" if result.age_s >= 1 else ""
    kind, _, invented = (result.upstream or "").partition("_")
    made = "" if kind == result.source else f", made by a {kind} upstream"
    echo(f"{result.tool}: {what}, {result.source}{made}{invented and ', invented'}{age}", err=True)
    for named in (result.resolved or {}).values():
        echo(named, err=True)
    if verbose:
        said = orjson.loads(result.to_json())
        for name, value in {**said["provenance"], "handle": said["handle"]}.items():
            echo(f"  {name}: {value}", err=True)


def _plot(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    """Draw each column of numbers, in at most `SPARK_CHARS` steps whose means are drawn."""
    found = []
    for name in columns:
        numbers = [row[name] for row in rows if isinstance(row.get(name), int | float)]
        if len(numbers) < 2 or any(isinstance(number, bool) for number in numbers):
            continue
        steps = min(SPARK_CHARS, len(numbers))
        ends = [len(numbers) * n // steps for n in range(steps + 1)]
        means = [sum(numbers[a:b]) / (b - a) for a, b in pairwise(ends)]
        low, width = min(means), (max(means) - min(means)) or 1.0
        line = "".join(SPARKS[min(int((m - low) / width * 8), 7)] for m in means)
        least, most = (f"{number:.10g}" for number in (min(numbers), max(numbers)))
        found.append({"": name, "least": least, "most": most, "first to last": line})
    if not found:
        raise click.ClickException("no column has numbers to draw")
    print_table(found)


def _print_table(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    from rich.box import SIMPLE
    from rich.measure import Measurement
    from rich.table import Table

    from manifests.common.console import PlainConsole

    table = Table(box=SIMPLE)
    for name in columns:
        is_number = all(isinstance(row.get(name), int | float | None) for row in rows)
        table.add_column(name, justify="right" if is_number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(_text(row.get(name)) for name in columns))
    console = PlainConsole()
    wanted = Measurement.get(console, console.options.update(max_width=WIDEST), table).maximum
    PlainConsole(narrowest=wanted).print(table)


def _text(cell: object) -> str:
    text = "" if cell is None else cell if isinstance(cell, str) else orjson.dumps(cell).decode()
    return cut(" ".join(text.split()), CELL_CHARS)


def _write(text: str, file: BinaryIO) -> None:
    """Write data as it is, in UTF-8 whatever the locale; on a terminal without what controls it."""
    if file is sys.stdout.buffer and sys.stdout.isatty():
        text = plain(text.replace("\r\n", "\n"))
    file.write(text.encode("utf-8", "replace"))
    file.flush()


def _arguments(pairs: tuple[str, ...], json_arguments: str | None) -> dict[str, Any]:
    from manifests.common.json_text import read_json

    given: dict[str, Any] = {}
    if json_arguments == "-":
        json_arguments = sys.stdin.read(MOST_CHARS)
    if json_arguments is not None:
        try:
            given = read_json(json_arguments.encode())
        except ValueError as error:
            raise click.UsageError(f"--args is not JSON: {error}") from error
        if not isinstance(given, dict):
            raise click.UsageError("--args must be a JSON object")
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise click.UsageError(f"{pair!r} is not of the form NAME=VALUE")
        if name in given:
            raise click.UsageError(f"{name} is given more than once")
        given[name] = value
    return given

"""`finport call`: one call, printed as its envelope or as a table."""

import sys
from typing import TYPE_CHECKING, Any, Literal

import click
import orjson

from gateway.cli.options import (
    echo_json,
    modes,
    providers,
    read_settings,
    run,
    simulation,
    wrong_usage,
)
from gateway.compress.budget import LIMITS
from gateway.compress.cut import cut
from manifests.common.terminal import echo, plain

if TYPE_CHECKING:
    from gateway.context import StandInUse
    from gateway.result import Result

ALL = 2**31
"""More rows than a table has: those who want a table for themselves want all of it."""

CELL_CHARS, WIDEST = 60, 100_000
"""Characters of a cell in a printed table, and of a line: the terminal wraps longer lines."""

Format = Literal["json", "table", "csv", "jsonl"]


@click.command()
@click.argument("tool")
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--args", "json_arguments", help="Arguments as one JSON object.")
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
    type=click.Choice(["json", "table", "csv", "jsonl"]),
    default="json",
    help="The envelope (json, the default), or only the rows: all of them.",
)
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
    form: Format,
    stand_in: "StandInUse | None",
    cache_control: str | None,
    **settings: object,
) -> None:
    """Make one call and print its envelope as JSON, or its rows."""
    from cache import CacheControl, CacheControlError, SnapshotError
    from gateway import CallContext, Gateway

    given = _arguments(arguments, json_arguments)
    if form != "json" and (max_tokens or max_chars):
        raise click.UsageError(f"--format {form} prints rows; a shortened answer is a text")
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
            async with Gateway.open(read) as gateway:
                result = await gateway.call(tool, given, context)
        except (SnapshotError, OSError) as error:
            echo(f"finport: {error}", err=True)
            return 1
        if form != "json" and result.ok:
            return _print_rows(result, form)
        echo_json(orjson.loads(result.to_json()))
        return 0 if result.ok else 1

    run(once)


def _print_rows(result: "Result", form: Format) -> int:
    """Print the rows, and on standard error what they are. Return the exit code."""
    from gateway.tables import conversion

    try:
        if form == "csv":
            _write(conversion.to_csv(*result.table()))
        elif form == "jsonl":
            value = result.value
            rows = value if result.rows is not None else [value]
            _write(conversion.to_json_lines(rows))
        else:
            _print_table(*result.table())
    except conversion.NoTableError as error:
        echo(f"finport: {error}; --format json prints it", err=True)
        return 1
    what = "a document" if result.rows is None else (result.shown or f"{result.rows} rows")
    age = f", {result.age_s:.0f} s old" if result.age_s >= 1 else ""
    kind, _, invented = (result.upstream or "").partition("_")
    made = "" if kind == result.source else f", made by a {kind} upstream"
    echo(f"{result.tool}: {what}, {result.source}{made}{invented and ', invented'}{age}", err=True)
    if (stood := result.stood) is not None:
        gaps = f", without {', '.join(stood.missing)}" if stood.missing else ""
        why = f"the source of {result.tool} failed ({stood.own_error})"
        echo(f"{stood.answered_by} answered, because {why}{gaps}", err=True)
    for named in (result.resolved or {}).values():
        echo(named, err=True)
    return 0


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


def _write(text: str) -> None:
    """Print data as it is, in UTF-8 whatever the locale; on a terminal without what controls it."""
    if sys.stdout.isatty():
        text = plain(text.replace("\r\n", "\n"))
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()


def _arguments(pairs: tuple[str, ...], json_arguments: str | None) -> dict[str, Any]:
    from manifests.common.json_text import read_json

    given: dict[str, Any] = {}
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

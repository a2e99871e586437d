"""`finport snapshot`: recorded answers as one immutable file."""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from gateway.cli.options import (
    OutPath,
    echo_json,
    failures,
    force,
    read_settings,
    run,
    simulation,
    wrong_usage,
)
from manifests.common.terminal import echo, escaped

if TYPE_CHECKING:
    from cache.snapshot import Summary
    from gateway.pipeline.bind import BoundCall
    from gateway.settings import GatewaySettings
    from manifests import Catalog, Manifest

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
OUT = OutPath(dir_okay=False)

_TOLD = 100
"""The most rows that are named as left out of a merge."""


@click.group()
def snapshot() -> None:
    """Record, show, verify, merge and export snapshots."""


@snapshot.command()
@click.option("--out", type=OUT, required=True, help="The snapshot to make.")
@click.option("--tools", help="Names, separated by commas. Default: all tools that only read.")
@click.option("--calls", type=FILE, help="Calls as JSON Lines: `tool` and `arguments`.")
@click.option("--concurrency", type=click.IntRange(1, 1000), default=16, show_default=True)
@click.option("--json", "as_json", is_flag=True)
@simulation
def record(
    out: Path,
    tools: str | None,
    calls: Path | None,
    concurrency: int,
    as_json: bool,
    **simulated: object,
) -> None:
    """Record the calls in --calls (such as a run's calls.jsonl), else every tool's sample call.

    Transactional tools are left out: their answers belong to one caller. If you start an
    interrupted recording again, it continues where it stopped.
    """
    if calls and tools is not None:
        raise click.UsageError("either --tools or --calls, not both")
    settings = read_settings(mode="record", snapshot=out, **simulated)

    def chosen(catalog: "Catalog") -> "list[BoundCall]":
        wanted = (
            recorded_calls(calls)
            if calls
            else [(tool.name, dict(tool.sample())) for tool in chosen_tools(catalog, tools)]
        )
        return bound_calls(catalog, without_transactional(catalog, wanted))

    if not settings.own_providers():  # what is wrong is told before anything is opened
        from manifests import Catalog

        bound = chosen(Catalog.load())
        run(lambda: _record(settings, lambda _: bound, concurrency, as_json))
    else:
        run(lambda: _record(settings, chosen, concurrency, as_json))


async def _record(
    settings: "GatewaySettings",
    chosen: "Callable[[Catalog], list[BoundCall]]",
    concurrency: int,
    as_json: bool,
) -> int:
    """Record the calls that are chosen of the gateway's tools."""
    import anyio

    from cache import Recorder, SnapshotError
    from gateway import Gateway

    recorder: Recorder | None = None
    missed = Counter[str]()
    try:
        async with Gateway.open(settings) as gateway:
            answers, calls = gateway.answers, chosen(gateway.catalog)
            recorder = answers.recorder
            left = iter([c for c in calls if recorder and not recorder.answered(c.key)])

            async def work() -> None:
                for call in left:
                    if answers.failed:
                        return
                    result = await gateway.call(call.plan.manifest.name, call.arguments)
                    error = result.error
                    if error is not None and (error.fault == "gateway" or not result.attempts):
                        missed[error.code.value] += 1

            async with anyio.create_task_group() as tasks:
                for _ in range(concurrency):
                    tasks.start_soon(work)
    except (SnapshotError, OSError) as error:
        echo(f"finport: {error}", err=True)
        return 1
    except asyncio.CancelledError:
        if recorder is not None:
            text = f"interrupted with {counted(recorder.calls)} recorded; the same command goes on"
            echo(f"finport: {text}", err=True)
        raise
    if recorder is None or recorder.summary is None:
        echo("finport: nothing was recorded", err=True)
        return 1
    echo_summary(recorder.summary, recorder.path, as_json)
    if missed:
        codes = ", ".join(f"{code} {n}" for code, n in missed.most_common())
        echo(f"finport: {counted(missed.total())} could not be made: {codes}", err=True)
        return 1
    return 0


def chosen_tools(catalog: "Catalog", tools: str | None) -> "list[Manifest]":
    """The tools that --tools names, or all that can be recorded. Raises `click.UsageError`."""
    from manifests.selection import check_names

    names = [name for part in (tools or "").split(",") if (name := part.strip())]
    if tools is not None and not names:
        raise click.UsageError("--tools names no tool")
    with wrong_usage():
        check_names(catalog, names)
    if refused := sorted(transactional_tools(catalog).intersection(names)):
        text = f"{', '.join(refused)}: answers of transactional tools may hold secrets of one "
        raise click.UsageError(f"{text}caller and are never recorded; leave them out of --tools")
    return [m for m in catalog if (not names or m.name in names) and not m.unavailable]


def transactional_tools(catalog: "Catalog") -> set[str]:
    """The tools whose answers are never recorded."""
    return {manifest.name for manifest in catalog.select(intent="transactional")}


tell_aside = partial(echo, err=True)
"""Prints a line that is no result."""


def without_transactional(
    catalog: "Catalog",
    calls: list[tuple[str, dict[str, Any]]],
    tell: Callable[[str], None] = tell_aside,
) -> list[tuple[str, dict[str, Any]]]:
    """The calls that may be recorded; tells how many others there are."""
    left_out = transactional_tools(catalog)
    kept = [call for call in calls if call[0] not in left_out]
    if count := len(calls) - len(kept):
        tell(f"{counted(count)} of transactional tools are never recorded: left out")
    return kept


def recorded_calls(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """The calls of a file such as a run's calls.jsonl. Raises `click.UsageError`."""
    from manifests.common.regular_file import read_text

    try:
        lines = read_text(path).splitlines()
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror}") from error
    named = ((f"{path}:{number}", line) for number, line in enumerate(lines, 1))
    return [_recorded_call(place, line) for place, line in named if line.strip()]


def _recorded_call(place: str, line: bytes) -> tuple[str, dict[str, Any]]:
    from manifests.common.json_text import read_json

    try:
        match read_json(line):
            case {"tool": str(tool), "arguments": dict(arguments)}:
                return tool, arguments
            case {"tool": str()}:
                why = "`arguments` is missing or no object"
            case dict():
                why = "`tool` is missing or no text"
            case _:
                why = "it is no object"
    except ValueError as error:
        why = str(error)
    raise click.UsageError(f"{place}: not a call with `tool` and `arguments`: {why}")


def bound_calls(
    catalog: "Catalog",
    calls: list[tuple[str, dict[str, Any]]],
    tell: Callable[[str], None] = tell_aside,
) -> list["BoundCall"]:
    """Bind the calls and drop duplicates. Calls that no gateway would make are told and left
    out.
    """
    from gateway.pipeline.bind import Binder, InvalidCall

    binder, bound = Binder(catalog), {}
    refused: list[str] = []
    for tool, arguments in calls:
        try:
            call = binder.bind(tool, arguments)
            bound[call.key] = call
        except InvalidCall as error:
            refused.append(f"  {tool}: {error}")
    if refused:
        tell(f"{len(refused)} of {counted(len(calls))} can't be made and are left out, as")
        for text in refused[:3]:
            tell(text)
    return list(bound.values())


@snapshot.command()
@click.argument("file", type=FILE)
@click.option("--tool", help="Also list the recorded calls of this tool.")
@click.option("--json", "as_json", is_flag=True)
def show(file: Path, tool: str | None, as_json: bool) -> None:
    """Show what FILE holds."""
    from cache import Snapshot, SnapshotError

    with failures(SnapshotError), Snapshot(file) as opened:
        rows: list[dict[str, Any]] = [
            {
                "arguments": row.arguments,
                "status": row.status,
                "rows": row.entry.rows,
                "bytes": len(row.entry.data),
                "recorded_at": row.entry.recorded_at,
                "revision": row.revision,
            }
            for row in (opened.rows(tool) if tool else ())
        ]
        if tool and not rows:
            raise click.ClickException(f"{file} holds no call of {tool}")
        if as_json:
            echo_json({**asdict(opened.summary), "bytes": opened.bytes, "calls": rows})
            return
        echo_summary(opened.summary, file, as_json=False)
        for row in rows:
            arguments = orjson.dumps(row["arguments"]).decode()
            echo(f"{_time(row['recorded_at'])}  {row['status']:<16} {arguments}")


@snapshot.command()
@click.argument("file", type=FILE)
@click.option("--json", "as_json", is_flag=True)
def verify(file: Path, as_json: bool) -> None:
    """Check every byte of FILE; the exit code is 1 if it is damaged."""
    from cache import Snapshot, SnapshotError

    found, problems = None, []
    try:
        with Snapshot(file) as opened:
            found, problems = opened.summary, opened.verify()
    except SnapshotError as error:
        problems = [str(error)]
    if as_json:
        echo_json({"id": found.id if found else None, "whole": not problems, "problems": problems})
    elif found is not None and not problems:
        echo(f"{file} is whole: {found.rows} rows, id {found.id}")
    else:
        echo("\n".join(f"finport: {problem}" for problem in problems), err=True)
    sys.exit(1 if problems else 0)


@snapshot.command()
@click.argument("files", type=FILE, nargs=-1, required=True)
@click.option("--out", type=OUT, required=True, help="The snapshot to make.")
@click.option("--salvage", is_flag=True, help="Leave out rows that can't be read, and name them.")
@click.option("--json", "as_json", is_flag=True)
def merge(files: tuple[Path, ...], out: Path, salvage: bool, as_json: bool) -> None:
    """Merge FILES into one snapshot. FILES may include journals of interrupted recordings.

    If files differ about a call, an answer is preferred to an error, and otherwise the later row to
    the earlier one.
    """
    from cache import SnapshotError
    from cache.merge import merge as merge_files
    from manifests import Catalog

    without, told = transactional_tools(Catalog.load()), list[str]()
    with failures(SnapshotError):
        try:
            made = merge_files(files, out, salvage=salvage, without=without, told=told)
        finally:
            for text in told[:_TOLD] if salvage else ():
                echo(f"finport: left out: {text}", err=True)
        echo_summary(made, out, as_json)


@snapshot.command()
@click.argument("file", type=FILE)
@click.option("--format", "form", type=click.Choice(["jsonl", "parquet"]), required=True)
@click.option("--out", type=OUT, help="Default for JSON Lines: standard output.")
@force
def export(file: Path, form: str, out: Path | None, force: bool) -> None:
    """Write the rows of FILE for other tools."""
    from cache import Snapshot, SnapshotError
    from cache.export import write_jsonl, write_parquet
    from cache.snapshot import NEVER_CHANGES
    from manifests import Catalog
    from manifests.common.files import output_file

    if form == "parquet" and out is None:
        raise click.UsageError("--format parquet needs --out")
    if out is not None and out.resolve() == file.resolve():
        raise click.UsageError(f"--out is the snapshot itself; {NEVER_CHANGES}")
    without = transactional_tools(Catalog.load())
    with failures(SnapshotError, of=out), Snapshot(file) as opened:
        if withheld := sum(opened.summary.tools.get(tool, 0) for tool in without):
            echo(f"{withheld} rows of transactional tools are left out", err=True)
        if out is None:
            write_jsonl(opened, _Stdout(), without)
            return
        try:
            with output_file(out, 0o644, force=force) as made:
                (write_jsonl if form == "jsonl" else write_parquet)(opened, made, without)
        except ImportError as error:
            text = "Parquet needs pyarrow: install finport[parquet]"
            raise click.ClickException(text) from error


class _Stdout(BytesIO):
    """Standard output, which may be a terminal, as a binary file for JSON."""

    def write(self, json: Any) -> int:
        return sys.stdout.buffer.write(escaped(bytes(json)))


def echo_summary(summary: "Summary", path: Path, as_json: bool) -> None:
    """Print what a snapshot holds."""
    if as_json:
        echo_json(asdict(summary))
        return
    echo(f"snapshot {summary.id}")
    statuses = ", ".join(f"{status} {n}" for status, n in summary.statuses.items())
    upstreams = ", ".join(summary.upstreams)
    tools = f"{len(summary.tools)} tool{'' if len(summary.tools) == 1 else 's'}"
    echo(f"{path}: {counted(summary.rows)} of {tools} ({statuses})")
    times = f"{_time(summary.recorded_from)} to {_time(summary.recorded_to)}"
    echo(f"recorded from {times}, upstream {upstreams}")
    if summary.damaged:
        echo(f"{summary.damaged} rows of the sources could not be read and are left out")
    if summary.withheld:
        echo(f"{summary.withheld} rows of transactional tools are left out")
    if summary.conflicts:
        echo(f"the sources had different answers to {summary.conflicts} calls")


def counted(calls: int) -> str:
    """A number of calls as a text says it."""
    return f"{calls:,} call{'' if calls == 1 else 's'}"


def _time(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))

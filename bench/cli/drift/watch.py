"""`finbench drift watch`: a series of snapshots, recorded at fixed times and compared."""

import fcntl
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.cli.drift.diff import with_rules
from bench.cli.drift.record import pace, recorded, which_calls, which_tools
from gateway.cli.options import OutPath, simulation
from gateway.duration import duration
from gateway.terminal import echo

if TYPE_CHECKING:
    from bench.drift.snapshots.rules import Rules

FINDINGS = "drift.jsonl"

_STAMP = "%Y-%m-%dT%H%M%SZ"
_SUFFIX = ".snapshot"
_UNITS = {"s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_LOOK_S = 30.0


def _seconds(_: click.Context, __: click.Parameter, value: str) -> float:
    """A period such as 24h, 30min or 7d, in seconds."""
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)\s*(s|min|m|h|d)", value)
    seconds = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if not 1 <= seconds <= 366 * _UNITS["d"]:
        raise click.BadParameter(f"{value!r} is no period; write one as 24h, 30min or 7d")
    return seconds


@click.command()
@click.option(
    "--every",
    required=True,
    callback=_seconds,
    metavar="PERIOD",
    help="Time between starts, such as 24h or 30min.",
)
@click.option(
    "--keep", type=OutPath(), required=True, metavar="DIR", help="Folder of the snapshots."
)
@click.option("--count", type=click.IntRange(min=1), help="End after so many. Default: never.")
@with_rules
@which_tools
@which_calls
@pace
@simulation
def watch(
    every: float,
    keep: Path,
    count: int | None,
    rules_file: Path | None,
    tools: str | None,
    calls: Path | None,
    pace_s: float | None,
    **simulated: object,
) -> None:
    """Record the probes again and again, and compare each snapshot with the one before.

    Findings are printed, and written to DIR/drift.jsonl, a line for each comparison. A restarted
    watch goes on: it finishes a recording that was interrupted, and keeps to the times of before.
    """
    from bench.drift.snapshots.rules import Rules, RulesError

    if calls and tools:
        raise click.UsageError("either --tools or --calls, not both")
    try:
        rules = Rules.read(rules_file) if rules_file else Rules()
    except RulesError as error:
        raise click.ClickException(str(error)) from error
    made = 0
    with _locked(keep):
        try:
            while count is None or made < count:
                out = _next(keep, every)
                code = recorded(out, tools, calls, pace_s, simulated, partial=True, as_json=False)
                if code > 128:
                    sys.exit(code)
                made += 1
                if code == 0:
                    _compare(keep, out, rules)
        except KeyboardInterrupt:
            echo("finbench: interrupted; the same command goes on", err=True)
            sys.exit(130)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder for one process."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(
            folder / ".watch.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
    except OSError as error:
        raise click.ClickException(f"{error.filename}: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise click.ClickException(f"{folder}: another watch keeps it") from None
    finally:
        os.close(descriptor)


def _snapshots(folder: Path) -> list[Path]:
    """The snapshots of the series, the oldest first."""
    return sorted(path for path in folder.glob(f"*{_SUFFIX}") if _started(path) is not None)


def _started(path: Path) -> float | None:
    try:
        started = datetime.strptime(f"{path.name.partition('.')[0]} +0000", f"{_STAMP} %z")
    except ValueError:
        return None
    return started.timestamp()


def _next(folder: Path, every: float) -> Path:
    """The file of the next recording, once it is due. An unfinished one is due at once."""
    journals = sorted(folder.glob(f"*{_SUFFIX}.journal"))
    started = [path.with_suffix("") for path in journals if _started(path) is not None]
    if started and not started[-1].exists():
        echo(f"going on with {started[-1].name}", err=True)
        return started[-1]
    there = _snapshots(folder)
    if there and (last := _started(there[-1])) is not None:
        _wait(last + every, every)
    path = folder / f"{datetime.fromtimestamp(time.time(), UTC):{_STAMP}}{_SUFFIX}"
    while path.exists():  # a period of a second, or a clock that was set back
        time.sleep(1.0)
        path = folder / f"{datetime.fromtimestamp(time.time(), UTC):{_STAMP}}{_SUFFIX}"
    return path


def _wait(due: float, every: float) -> None:
    """Wait until a time of day, in short steps: clocks are set, and machines sleep."""
    if (left := due - time.time()) > 1:
        echo(f"next recording in {duration(min(left, every))}", err=True)
    while (left := due - time.time()) > 0:
        if left > every:  # the clock was set back
            due = time.time() + every
        time.sleep(min(left, _LOOK_S))


def _compare(folder: Path, out: Path, rules: "Rules") -> None:
    """Compare a snapshot with the one before, if there is one."""
    import orjson

    from bench.drift.snapshots.compare import compare
    from cache import SnapshotError
    from manifests import Catalog

    before = [path for path in _snapshots(folder) if path.name < out.name]
    if not before:
        return
    try:
        content = compare(before[-1], out, rules, Catalog.load()).to_json()
        with (folder / FINDINGS).open("ab") as file:
            file.write(orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE))
    except SnapshotError as error:
        echo(f"finbench: not compared: {error}", err=True)
    except OSError as error:
        echo(f"finbench: {error.filename}: {error.strerror}", err=True)
    else:
        _tell(content["counts"], before[-1], out)


def _tell(counts: Sequence[dict[str, Any]], before: Path, out: Path) -> None:
    said = ", ".join(f"{row['level']} {row['check']} {row['findings']}" for row in counts)
    echo(f"{before.name} to {out.name}: {said or 'nothing was found'}")

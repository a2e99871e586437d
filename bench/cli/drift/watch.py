"""`finbench drift watch`: a series of snapshots, recorded at fixed times and compared."""

import fcntl
import os
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.cli.drift.diff import rules_in, with_rules
from bench.cli.drift.record import TELL_S, Recording, pace, which_calls, which_tools
from bench.cli.options import Duration
from bench.drift.finding import LEVELS
from bench.environment import NOTIFY
from gateway.cli.options import OutPath, exit_code_of, failures, sigterm_interrupts, simulation
from gateway.cli.snapshot import counted
from manifests.common.duration import duration
from manifests.common.terminal import echo

if TYPE_CHECKING:
    from bench.drift.notify import Notifier
    from bench.drift.schedule import Schedule
    from bench.drift.snapshots.rules import Rules
    from cache.snapshot import Summary

_LOOK_S = 30.0
"""The longest sleep without a look at the clock: clocks are set, and machines sleep."""

_TELL_S = 60.0
"""Seconds between lines about the progress where no terminal shows them."""

_NAMED = 20

_TRIED = 3
"""So many earlier snapshots are tried, if they can't be read, until one can be compared."""


def _notifier(_: click.Context, __: click.Parameter, value: str | None) -> "Notifier | None":
    from bench.drift.notify import Notifier, NotifyError

    if value is None:
        return None
    try:
        return Notifier.parse(value)
    except NotifyError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.option(
    "--every",
    required=True,
    type=Duration(least_s=1.0, most_d=366),
    metavar="PERIOD",
    help="Time from the start of a recording to that of the next, such as 24h, 30min or 7d.",
)
@click.option(
    "--keep", type=OutPath(), required=True, metavar="DIR", help="Folder of the snapshots."
)
@click.option("--count", type=click.IntRange(min=1), help="End after so many. Default: never.")
@click.option(
    "--notify",
    callback=_notifier,
    envvar=NOTIFY,
    show_envvar=True,
    metavar="COMMAND|URL",
    help="Tell of findings: a command that gets JSON on its input, or a URL that it is posted to.",
)
@click.option(
    "--notify-on",
    type=click.Choice(LEVELS),
    help="Tell of findings that are at least as bad. Default: ERR.",
)
@with_rules
@which_tools
@which_calls
@pace
@simulation
def watch(
    every: float,
    keep: Path,
    count: int | None,
    notify: "Notifier | None",
    notify_on: str | None,
    rules_file: Path | None,
    tools: str | None,
    calls: Path | None,
    pace_s: float | None,
    **simulated: Any,
) -> None:
    """Record the probes again and again, and compare each snapshot with the one before.

    Findings are counted in the output and written to DIR/drift.jsonl, a line for each comparison. A
    restarted watch goes on: it finishes a recording that was interrupted, and keeps to the times of
    before. Calls that a host refuses are missing in a snapshot; the next one asks them again.
    """
    from bench.drift.schedule import Schedule
    from bench.drift.snapshots.rules import RulesError

    if notify_on and notify is None:
        raise click.UsageError("--notify-on needs --notify, or FINBENCH_NOTIFY")
    with failures(RulesError):
        rules = rules_in(rules_file, (), _tell)
    tell_s = TELL_S if sys.stderr.isatty() else _TELL_S
    recording = Recording(tools, calls, pace_s, simulated, True, _show, _tell, tell_s, _stamp)
    with _locked(keep):
        try:
            watching = _Watch(
                keep, Schedule(keep, every), recording, rules, notify, notify_on or "ERR"
            )
            sys.exit(watching.run(count))
        except KeyboardInterrupt as told:
            _tell("finbench: interrupted; the same command goes on")
            sys.exit(exit_code_of(told))


@dataclass(frozen=True)
class _Watch:
    folder: Path
    schedule: "Schedule"
    recording: Recording
    rules: "Rules"
    notifier: "Notifier | None"
    notify_on: str
    undelivered: "deque[str]" = field(default_factory=lambda: deque(maxlen=_NAMED))
    """The newest snapshots of which could not be told."""

    def run(self, count: int | None) -> int:
        """Record `count` snapshots, or without end; return the exit code."""
        with sigterm_interrupts():
            code = self._compare_last()
        made = 0
        while count is None or made < count:
            with sigterm_interrupts():
                out = self._next()
            if (ended := self.recording.run(out)) > 128:  # by a signal
                return ended
            made += 1
            if ended:
                self.schedule.failed(out)
                code = 1
                continue
            with sigterm_interrupts():
                code = max(code, self._compare(out))
        return code

    def _next(self) -> Path:
        """The snapshot to record, once it is due. An unfinished one is due at once."""
        if (unfinished := self.schedule.unfinished()) is not None:
            _tell(f"going on with {unfinished.name}")
            return self.schedule.start()
        if (wait_s := self.schedule.wait_s()) > 1:
            at = datetime.fromtimestamp(time.time() + wait_s, UTC)
            _tell(f"next recording at {at:%Y-%m-%dT%H:%M:%SZ}, in {duration(wait_s)}")
        while (wait_s := self.schedule.wait_s()) > 0:
            time.sleep(min(wait_s, _LOOK_S))
        return self.schedule.start()

    def _compare_last(self) -> int:
        """Make the comparison that a killed watch did not write. Returns 1 if that fails."""
        from bench.drift.schedule import last_compared
        from bench.json_lines import JsonLinesError

        there = self.schedule.snapshots()
        try:
            if len(there) > 1 and last_compared(self.folder) != there[-1].name:
                return self._compare(there[-1])
        except JsonLinesError as error:
            _tell(f"finbench: {error}")
        return 0

    def _compare(self, out: Path) -> int:
        """Compare a snapshot with the one before, if there is one, and tell and write what was
        found. Returns 1 if that fails.
        """
        from bench.drift.schedule import COMPARISONS, append
        from bench.drift.snapshots.compare import compare
        from cache import SnapshotError
        from manifests import Catalog

        before = [path for path in self.schedule.snapshots() if path.name < out.name]
        for path in before[: -_TRIED - 1 : -1]:
            try:
                content = compare(path, out, self.rules, Catalog.load()).to_json()
            except SnapshotError as error:
                _tell(f"finbench: {out.name} is not compared with {path.name}: {error}")
                continue
            _show_findings(content)
            code = self._notify(content)  # a comparison that is written is not made again
            try:
                append(self.folder, content)
            except OSError as error:
                _tell(f"finbench: {self.folder / COMPARISONS}: {error.strerror}")
                return 1
            return code
        return 0

    def _notify(self, content: dict[str, Any]) -> int:
        """Tell of a comparison; returns 1 if that fails."""
        if self.notifier is None:
            return 0
        from bench.drift.notify import NotifyError, notification

        told = notification(content, self.notify_on, self.undelivered)
        if told is None:
            return 0
        try:
            self.notifier.send(told)
        except NotifyError as error:
            self.undelivered.append(content["after"]["file"])
            _tell(f"finbench: --notify {error}; drift.jsonl has the findings")
            return 1
        self.undelivered.clear()
        _say(f"told {self.notifier.target}")
        return 0


def _stamp() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} "


def _say(text: str, *, err: bool = False) -> None:
    echo(f"{_stamp()}{text}", err=err)


_tell = partial(_say, err=True)


def _show(summary: "Summary", path: Path) -> None:
    statuses = ", ".join(f"{status} {count:,}" for status, count in summary.statuses.items())
    _say(f"{path.name}: {counted(summary.rows)} ({statuses})")


def _show_findings(content: dict[str, Any]) -> None:
    counts = ", ".join(f"{c['level']} {c['check']} {c['findings']:,}" for c in content["counts"])
    names = f"{content['before']['file']} to {content['after']['file']}"
    _say(f"{names}: {counts or 'nothing was found'}")
    errors = [finding for finding in content["findings"] if finding["level"] == "ERR"]
    for finding in errors[:_NAMED]:
        where = finding["tool"] or f"host {finding['host']}"
        _say(f"ERR {finding['check']} {where}: {finding['text'][:400]}")
    if (others := len(errors) - _NAMED) > 0:
        _say(f"and {others:,} others at level ERR")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder for one process."""
    from manifests.common.files import own_file

    if folder.exists() and not folder.is_dir():
        raise click.UsageError(f"--keep {folder}: it is a file; name a folder")
    with failures(of=folder):
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = own_file(str(folder / ".watch.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise click.ClickException(f"{folder}: another watch keeps it") from None
        yield
    finally:
        os.close(descriptor)

"""`finbench drift diff`: what changed between recorded answers."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.drift.finding import LEVELS
from gateway.cli.options import OutPath, echo_json, exit_code_of, sigterm_interrupts
from gateway.cli.snapshot import counted, tell_aside
from manifests.common.terminal import echo

if TYPE_CHECKING:
    from rich.table import Table

    from bench.drift.finding import Finding
    from bench.drift.snapshots.rules import Rules

SNAPSHOT = click.Path(exists=True, dir_okay=False, path_type=Path)

fail_on = click.option(
    "--fail-on",
    type=click.Choice(LEVELS),
    help="Exit with 1 if a finding is at least as bad.",
)

with_rules = click.option(
    "--rules",
    "rules_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="TOML: tools to leave out, and other levels for checks.",
)

_SHOWN = 40
_NUMBERS = frozenset(
    [
        *("days", "releases", "functions", "gone", "new", "parameters", "missing", "not yet"),
        *("findings", "of the catalogue", "answered", "planted", "recall", "precision", "wrong"),
        *("weak", "medium", "strong", *LEVELS),
    ]
)
"""The columns of numbers, which are aligned on the right."""
_EVERY_S = 2.0


@click.command()
@click.argument("snapshots", nargs=-1, type=SNAPSHOT, metavar="A B [MORE]...")
@with_rules
@fail_on
@click.option("--json", "as_json", is_flag=True)
@click.option(
    "--markdown", type=OutPath(dir_okay=False), metavar="FILE", help="Write Markdown for a review."
)
@click.option("--html", type=OutPath(dir_okay=False), metavar="FILE", help="Write a page.")
@click.option("--force", is_flag=True, help="Replace existing files of --markdown and --html.")
def diff(
    snapshots: tuple[Path, ...],
    rules_file: Path | None,
    fail_on: str | None,
    as_json: bool,
    markdown: Path | None,
    html: Path | None,
    force: bool,
) -> None:
    """Compare the answers in snapshot A with those in B.

    Calls that both hold are compared: new rows for new dates and prices that moved are no finding.
    With more snapshots the findings are between the first and the last that was recorded, and the
    page also shows what changed from each to the next.
    """
    from bench.drift.snapshots.rules import Rules, RulesError
    from bench.drift.snapshots.series import series
    from cache import SnapshotError
    from manifests import Catalog

    if len(snapshots) < 2:
        raise click.UsageError("name two snapshots or more")
    files = [file for file in (markdown, html) if file is not None]
    named = [file.resolve() for file in (*files, *{*snapshots})]
    if len({*named}) < len(named):
        raise click.UsageError("--markdown and --html name the same file, or a snapshot")
    check_free(files, force=force)
    try:
        rules = Rules.read(rules_file) if rules_file else Rules()
        tell_unused(rules, snapshots)
        with sigterm_interrupts():
            progress = _Progress(len(snapshots))
            content, findings = series(snapshots, rules, Catalog.load(), progress)
    except (RulesError, SnapshotError) as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt as told:
        echo("finbench: interrupted; nothing was written", err=True)
        sys.exit(exit_code_of(told))
    if not content["calls"]["in_both"]:
        raise click.ClickException(f"{_why_nothing(content)}, so there is nothing to compare")
    _write(content, findings, markdown, html, force)
    if as_json:
        echo_json(content)
    else:
        show(content)
    fail(content["findings"], fail_on)


def tell_unused(
    rules: "Rules", snapshots: Sequence[Path], tell: Callable[[str], None] = tell_aside
) -> None:
    """Tell of names in the rules that fit no tool, neither of the catalogue nor of the snapshots.
    Raises `SnapshotError`.
    """
    from cache import Snapshot
    from manifests import Catalog

    tools = {manifest.name for manifest in Catalog.load()}
    for path in snapshots:
        with Snapshot(path) as snapshot:
            tools |= snapshot.summary.tools.keys()
    for text in rules.unused(sorted(tools)):
        tell(f"finbench: {text}")


def check_free(files: Sequence[Path], *, force: bool) -> None:
    """Check before the work whether these files may be written. Raises `click.ClickException`."""
    from manifests.common.files import FORCE

    for file in files:
        try:
            there = file.exists()
        except OSError as error:
            raise click.ClickException(f"{file}: {error.strerror}") from error
        if there and not force:
            raise click.ClickException(f"{file}: it exists already; {FORCE}")


def _why_nothing(content: Mapping[str, Any]) -> str:
    calls = content["calls"]
    has_rows = content["before"]["calls"] or content["after"]["calls"]
    if has_rows and not (calls["only_before"] or calls["only_after"]):
        return "the rules leave out every tool"
    return "no call is in both snapshots"


def fail(findings: Sequence[Mapping[str, Any]], limit: str | None) -> None:
    """Exit with 1 if a finding reaches `limit`."""
    from bench.drift.finding import reaches

    if limit and (bad := sum(reaches(finding["level"], limit) for finding in findings)):
        echo(f"finbench: findings at level {limit} or worse: {bad}", err=True)
        sys.exit(1)


class _Progress:
    """Says on a terminal how many tools are compared, and about how long the rest takes."""

    def __init__(self, snapshots: int) -> None:
        self._whole = snapshots - 1 if snapshots == 2 else snapshots
        self._passed = 0
        self._started = self._told = time.monotonic()

    def __call__(self, done: int, count: int) -> None:
        now = time.monotonic()
        if done == count:
            self._passed += 1
        elif now - self._told >= _EVERY_S:
            self._told = now
            part = (self._passed + done / count) / self._whole
            left = (now - self._started) * (1 / part - 1)
            echo(f"compared {done} of {count} tools, about {left:.0f} s left", err=True)


def _write(
    content: Mapping[str, Any],
    findings: "Sequence[Finding]",
    markdown: Path | None,
    html: Path | None,
    force: bool,
) -> None:
    from bench.drift.snapshots.markdown import markdown as as_markdown
    from bench.drift.snapshots.page import page
    from manifests.common.files import output_file

    texts: dict[Path, str] = {}
    if markdown is not None:
        texts[markdown] = as_markdown(content)
    if html is not None:
        texts[html] = page(content, findings)
    for path, text in texts.items():
        try:
            with output_file(path, force=force) as file:
                file.write(text.encode())
        except OSError as error:
            raise click.ClickException(f"{error.filename or path}: {error.strerror}") from error


def show(content: Mapping[str, Any]) -> None:
    """Print a comparison for people."""
    from manifests.common.console import PlainConsole

    console = PlainConsole(narrowest=100)
    before, after, calls = content["before"], content["after"], content["calls"]
    for word, about in (("before", before), ("after", after)):
        at = datetime.fromtimestamp(about["recorded_from"], UTC)
        upstreams = ", ".join(about["upstreams"])
        tools = f"{about['tools']:,} tool{'' if about['tools'] == 1 else 's'}"
        console.print(
            f"{word:<6} {about['file']}: {counted(about['calls'])} of {tools}, "
            f"{at:%Y-%m-%d %H:%M} UTC, upstream {upstreams}"
        )
    console.print(
        f"calls answered in both: {calls['same'] + calls['changed']:,}, the same answer: "
        f"{calls['same']:,}; only before: {calls['only_before']:,}; only after: "
        f"{calls['only_after']:,}"
    )
    if calls["not_measured"]:
        console.print(
            f"not measured: {counted(calls['not_measured'])} that failed for lack of quota or "
            "settings on one side"
        )
    if calls["in_part"]:
        console.print(
            f"compared in part: {calls['in_part']:,} answers of more fields or records than are "
            "read; of these, no field counts as gone or new"
        )
    if before["recorded_from"] > after["recorded_from"]:
        console.print("note: the snapshot before was recorded later than the one after")
    if before["upstreams"] != after["upstreams"]:
        console.print("note: the snapshots were recorded from different upstreams")
    if len(content["series"]) > 2:
        table = table_of("snapshot", "recorded", "answered", *LEVELS)
        for row in content["series"]:
            at = datetime.fromtimestamp(row["recorded_from"], UTC)
            found = row["findings"] or {}
            counts = (str(found[level]) if found else "" for level in LEVELS)
            table.add_row(row["file"], f"{at:%Y-%m-%d %H:%M}", str(row["answered"]), *counts)
        console.print(table)
    if not content["findings"]:
        console.print("nothing was found")
        return
    table = table_of("level", "check", "findings")
    for row in content["counts"]:
        table.add_row(row["level"], row["check"], str(row["findings"]))
    console.print(table)
    _show_findings(console, content["findings"])


def _show_findings(console: Any, findings: Sequence[Mapping[str, Any]]) -> None:

    chosen = [finding for finding in findings if finding["level"] != "INFO"]
    table = table_of("level", "check", "tool", "what")
    for finding in chosen[:_SHOWN]:
        tool = finding["tool"] or f"host {finding['host']}"
        table.add_row(finding["level"], finding["check"], tool, finding["text"][:400])
    if chosen:
        console.print(table)
    left = len(findings) - min(len(chosen), _SHOWN)
    if left:
        console.print(f"and {left:,} other findings; --json has them all")


def table_of(*columns: str) -> "Table":
    """An empty table for a terminal."""
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(box=SIMPLE)
    for name in columns:
        table.add_column(name, justify="right" if name in _NUMBERS else "left", overflow="fold")
    return table

"""`finbench drift diff`: what changed between recorded answers."""

import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.cli.drift.output import (
    SHOWN,
    SNAPSHOT,
    check_free,
    fail,
    fail_on,
    show_counts,
    show_findings,
    table_of,
    write,
)
from bench.drift.finding import LEVELS
from gateway.cli.options import OutPath, echo_json, exit_code_of, failures, sigterm_interrupts
from gateway.cli.snapshot import counted, tell_aside

if TYPE_CHECKING:
    from bench.drift.snapshots.rules import Rules

with_rules = click.option(
    "--rules",
    "rules_file",
    type=SNAPSHOT,
    help="TOML: tools to leave out, and other levels for checks.",
)


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
    from bench.drift.snapshots.compare import series
    from bench.drift.snapshots.page import markdown as as_markdown
    from bench.drift.snapshots.page import page
    from bench.drift.snapshots.rules import RulesError
    from bench.progress import Progress
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
        with failures(RulesError, SnapshotError), sigterm_interrupts():
            rules = rules_in(rules_file, snapshots)
            tell = Progress(tell_aside).at
            content, findings = series(snapshots, rules, Catalog.load(), tell)
    except KeyboardInterrupt as told:
        tell_aside("finbench: interrupted; nothing was written")
        sys.exit(exit_code_of(told))
    if not content["calls"]["in_both"]:
        raise click.ClickException(f"{_why_nothing(content)}, so there is nothing to compare")
    if markdown is not None:
        write(markdown, as_markdown(content).encode(), force=force)
    if html is not None:
        write(html, page(content, findings).encode(), force=force)
    if as_json:
        echo_json(content)
    else:
        _show(content)
    fail(content["findings"], fail_on)


def rules_in(
    file: Path | None, snapshots: Sequence[Path], tell: Callable[[str], None] = tell_aside
) -> "Rules":
    """The rules in a file, if there is one. Tells of names in them that fit no tool, neither of the
    catalogue nor of the snapshots. Raises `RulesError` and `SnapshotError`.
    """
    from bench.drift.snapshots.rules import Rules
    from cache import Snapshot
    from manifests import Catalog

    if file is None:
        return Rules()
    rules = Rules.read(file)
    tools = {manifest.name for manifest in Catalog.load()}
    for path in snapshots:
        with Snapshot(path) as snapshot:
            tools |= snapshot.summary.tools.keys()
    for text in rules.unused(sorted(tools)):
        tell(f"finbench: {text}")
    return rules


def _why_nothing(content: Mapping[str, Any]) -> str:
    calls = content["calls"]
    has_rows = content["before"]["calls"] or content["after"]["calls"]
    if has_rows and not (calls["only_before"] or calls["only_after"]):
        return "the rules leave out every tool"
    return "no call is in both snapshots"


def _show(content: Mapping[str, Any]) -> None:
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
    show_counts(console, content["counts"])
    chosen = [finding for finding in content["findings"] if finding["level"] != "INFO"]
    rows = [
        (f["level"], f["check"], f["tool"] or f"host {f['host']}", f["text"][:400])
        for f in chosen[:SHOWN]
    ]
    show_findings(console, rows, len(content["findings"]) - len(rows))

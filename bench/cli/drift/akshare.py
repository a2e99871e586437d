"""`finbench drift akshare`: what changes between releases of AkShare."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.cli.drift.output import (
    check_free,
    fail,
    fail_on,
    show_counts,
    show_findings,
    table_of,
    write,
)
from gateway.cli.options import OutPath, echo_json, failures, read_settings, wrong_usage
from gateway.cli.snapshot import tell_aside

if TYPE_CHECKING:
    from bench.drift.releases import Release, Releases


def _dir_option(name: str, text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(name, type=OutPath(), metavar="DIR", help=text)


@click.command()
@click.argument("versions", nargs=-1, metavar="[OLD NEW [RELEASE]...]")
@click.option(
    "--releases",
    "count",
    type=click.IntRange(min=2, max=500),
    metavar="N",
    help="N evenly spaced releases between OLD and NEW; without these, of all that there are.",
)
@_dir_option("--cache", "Folder of the fetched wheels. Default: `releases` in the cache folder.")
@click.option("--catalogue", is_flag=True, help="Only findings about tools of the catalogue.")
@fail_on
@click.option("--json", "as_json", is_flag=True)
@click.option("--html", type=OutPath(dir_okay=False), metavar="FILE", help="Write a page.")
@_dir_option("--out", "Write akshare.json, with the findings about the catalogue, and akshare.svg.")
@click.option("--force", is_flag=True, help="Replace existing files of --html and --out.")
def akshare(
    versions: tuple[str, ...],
    count: int | None,
    cache: Path | None,
    catalogue: bool,
    fail_on: str | None,
    as_json: bool,
    html: Path | None,
    out: Path | None,
    force: bool,
) -> None:
    """Compare releases of AkShare by their code alone, which is never run.

    Findings are between the oldest and the newest release. With more than two releases there is
    also the share of functions that survive. pip fetches wheels that are not in the cache.
    """
    files = [html] if html else []
    files += [out / name for name in ("akshare.json", "akshare.svg")] if out else []
    check_free(files, force=force)
    try:
        content = _content(versions, count, cache)
    except KeyboardInterrupt:
        tell_aside("finbench: interrupted; the cache keeps what was fetched")
        sys.exit(130)
    if catalogue:
        content["findings"] = [f for f in content["findings"] if f["catalogued"]]
    _write(content, html, out, force)
    if as_json:
        echo_json(content)
    else:
        _show(content)
    fail(content["findings"], fail_on)


def _content(versions: Sequence[str], count: int | None, cache: Path | None) -> dict[str, Any]:
    from bench.drift.history import history
    from bench.drift.releases import Releases
    from bench.drift.wheel import WheelError
    from manifests import Catalog

    folder = cache or read_settings().cache_dir / "releases"
    releases = Releases(folder, tell_aside)
    got = _releases(releases, versions, count)
    tools = {m.binding.function for m in Catalog.load() if m.binding.source == "akshare"}
    try:
        content = history(got, tools, tell_aside)
    except WheelError as error:
        text = f"{error}; without it in {folder} it is fetched again"
        raise click.ClickException(text) from error
    size = sum(release.wheel.stat().st_size for release in got)
    fetched = releases.fetched_bytes
    tell_aside(f"read {size / 2**20:.1f} MiB of wheels, {fetched / 2**20:.1f} MiB fetched")
    return content


def _releases(releases: "Releases", versions: Sequence[str], count: int | None) -> "list[Release]":
    """The releases to compare, the oldest first."""
    from bench.drift.releases import ReleaseError, evenly, order

    with wrong_usage(ReleaseError):
        named = sorted(versions, key=order)
    if len(set(map(order, named))) < len(named):
        raise click.UsageError("a release is named twice")
    if count is None and len(named) < 2:
        raise click.UsageError("name two releases or more, or give --releases")
    if count is not None and len(named) not in (0, 2):
        raise click.UsageError("--releases: name OLD and NEW, or no release")
    with failures(ReleaseError, of=releases.folder):
        if count is not None:
            there = releases.versions()
            if named:
                first, last = map(order, named)
                there = [v for v in there if first <= order(v) <= last]
            named = evenly(there, count)
            if len(named) < 2:
                raise click.ClickException("the index has no two such releases")
        return releases.get(named)


def _write(content: Mapping[str, Any], html: Path | None, out: Path | None, force: bool) -> None:
    import orjson

    from bench.drift.page import page
    from bench.drift.picture import picture

    if html is not None:
        write(html, page(content).encode(), force=force)
    if out is not None:
        # Documentation changes in every third function, and says nothing about calls.
        findings = [
            finding
            for finding in content["findings"]
            if finding["catalogued"] and finding["check"] != "documentation_changed"
        ]
        said = orjson.dumps({**content, "findings": findings}, option=orjson.OPT_APPEND_NEWLINE)
        write(out / "akshare.json", said, force=force)
        write(out / "akshare.svg", picture(content).encode(), force=force)


def _show(content: Mapping[str, Any]) -> None:
    from bench.drift.history import grouped, release_row
    from manifests.common.console import PlainConsole

    console = PlainConsole(narrowest=120)
    console.print(f"AkShare {content['oldest']} to {content['newest']}")
    columns = ("functions", "gone", "new", "parameters", "missing", "not yet")
    table = table_of("release", "date", content["unit"], *columns)
    for row in content["releases"]:
        table.add_row(*release_row(row))
    console.print(table)
    console.print(
        "gone, new, parameters: functions since the row above; missing: of the "
        f"{content['catalogue']} functions of the catalogue; not yet: of these, in a later release"
    )
    for row in content["releases"]:
        if unread := content["unread"].get(row["version"]):
            console.print(f"not read of {row['version']}: {', '.join(unread)}")
    last = content["releases"][-1]
    if last["missing"]:
        console.print(f"missing in {last['version']}: {', '.join(last['missing'])}")
    show_counts(console, content["counts"], "of the catalogue", "catalogued")
    _show_survival(console, content)
    findings = content["findings"]
    chosen = [f for f in findings if f["catalogued"] and f["level"] != "INFO"]
    show_findings(console, grouped(chosen), len(findings) - len(chosen))


def _show_survival(console: Any, content: Mapping[str, Any]) -> None:
    from bench.metrics.interval import interval_text, percent

    if len(content["releases"]) < 3:
        return
    for name, series in content["survival"].items():
        steps = series["steps"]
        share = percent(steps[-1]["survival"] if steps else 1.0)
        interval = interval_text(steps[-1]["interval"]) if steps else ""
        console.print(
            f"survival, {name}: {share} of {series['functions']:,} functions"
            f"{f' (95 % interval {interval})' if interval else ''} "
            f"after {series['followed']:g} {content['unit']}; {len(series['ended'])} ended"
            f"{f', {back} of them came back' if (back := len(series['returned'])) else ''}"
        )

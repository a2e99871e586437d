"""`finport doctor`: checks whether a gateway would work here, and says what to do if not.

Every check reports what it found. No check changes anything or shows a key. Checks of upstreams
connect but send no request. If the settings can't be read, checks that need them are left out.
"""

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from adapters.provider import Finding
from gateway.cli.options import echo_json, read_settings, run
from manifests.common.terminal import echo

if TYPE_CHECKING:
    from gateway.cli.reachability import Origin
    from gateway.settings import GatewaySettings
    from manifests import Catalog

LEAST_FREE = 2**30

LEAST_REDIS = 7
"""The oldest version of Redis that has all that is used."""

SPARE_FILES = 1_000
"""Open files that a gateway needs in addition to its clients' connections."""

PREFIX = "FINPORT_"

MAX_SHOWN = 600
"""Characters of a finding that the table shows."""

_STYLES = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command()
@click.option(
    "--timeout-s",
    type=click.FloatRange(min=0, min_open=True),
    default=5.0,
    show_default=True,
    help="How long an upstream host may take to answer a connection.",
)
@click.option(
    "--upstream",
    type=click.Choice(["live", "simulated"]),
    help="The real upstreams, or a local simulation of them.",
)
@click.option(
    "--drift", is_flag=True, help="Check nothing: list the changes in the shape of live answers."
)
@click.option("--json", "as_json", is_flag=True)
def doctor(timeout_s: float, upstream: str | None, drift: bool, as_json: bool) -> None:
    """Check settings, keys, cache, quota, AkShare and upstreams; say how to fix problems.

    The exit code is 1 if something would not work.
    """
    if drift:
        _drift(upstream, as_json)
    else:
        run(lambda: _doctor(upstream, timeout_s, as_json))


def _drift(upstream: str | None, as_json: bool) -> None:
    from gateway.shapes.store import read_changes

    settings = read_settings(upstream=upstream)
    try:
        changes = [change.to_dict() for change in read_changes(settings.shapes_path)]
    except OSError as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        echo_json(changes)
    elif changes:
        _print_changes(changes)
    else:
        echo(f"no change is recorded in {settings.shapes_path}")


def _print_changes(changes: list[dict[str, Any]]) -> None:
    from rich.table import Column, Table

    from manifests.common.console import PlainConsole

    columns = ("tool", "kind", "path", "before", "after", "when")
    table = Table(*(Column(name, overflow="fold") for name in columns), box=None)
    for c in changes:
        types = (", ".join(c["before"]), ", ".join(c["after"]))
        table.add_row(c["tool"], c["kind"], c["path"], *types, c["time"])
    PlainConsole(narrowest=120).print(table)


async def _doctor(upstream: str | None, timeout_s: float, as_json: bool) -> int:
    from adapters.providers import PROVIDERS
    from gateway.settings import GatewaySettings, SettingsError
    from manifests import Catalog

    catalog, settings = Catalog.load(), None
    findings = [_python(), _packages()]
    try:
        settings = GatewaySettings.read(upstream=upstream)
        findings.append(_settings(settings, catalog))
    except SettingsError as error:
        settings = None
        findings.append(Finding("settings", "fail", str(error), "correct it and look again"))
    for provider in PROVIDERS.values():
        findings += provider.check(catalog, settings)
    if settings is not None:
        findings += [
            *_clients(settings),
            *await _redis(settings),
            _cache(settings),
            _quota(settings),
            *_snapshot(settings),
            _files(settings),
            *await _upstreams(settings, catalog, timeout_s),
        ]
    if as_json:
        echo_json([asdict(finding) for finding in findings])
    else:
        _print(findings)
    return 1 if any(finding.status == "fail" for finding in findings) else 0


def _python() -> Finding:
    import platform

    found = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    return Finding("python", "ok", found)


def _packages() -> Finding:
    from importlib.metadata import PackageNotFoundError, requires, version

    found, missing = [f"finport {version('finport')}"], []
    for requirement in requires("finport") or ():
        name = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]
        if ";" in requirement:  # only for an extra, or for another version of Python
            continue
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        text = f"not installed: {', '.join(missing)}"
        return Finding("packages", "fail", text, "pip install finport")
    return Finding("packages", "ok", ", ".join(found))


def _settings(settings: "GatewaySettings", catalog: "Catalog") -> Finding:
    """Check the settings. Raises `SettingsError`."""
    from gateway.settings_file import settings_file
    from gateway.upstreams.hosts import plans_of

    plans_of(settings, catalog)
    given = sorted(name for name in os.environ if name.upper().startswith(PREFIX))
    found = f"{settings_file() or 'no finport.toml here'}; environment: "
    found += ", ".join(given) or f"no {PREFIX}*"
    return Finding("settings", "ok", found)


def _clients(settings: "GatewaySettings") -> Iterator[Finding]:
    from gateway.access.keys import read, settings_entries
    from gateway.settings import SettingsError

    path, check = settings.clients_file, "client keys"
    try:
        entries = [*settings_entries(settings), *read(path)]
        mode = path.stat().st_mode & 0o777 if path.exists() else None
    except (SettingsError, OSError) as error:
        yield Finding(check, "fail", str(error), f"repair the file, or see {PREFIX}API_KEYS")
        return
    valid = sum(entry.revoked_at is None for entry in entries)
    if not entries:
        found = f"none, and no {path}: only this machine can be served, and anyone on it may call"
    else:
        found = f"{valid} of {len(entries)} are valid; {path}"
        found += " is not there" if mode is None else f" has mode {mode:04o}"
    if mode is not None and mode & 0o022:
        yield Finding(check, "fail", found, f"others may write it: chmod 600 {path}")
    elif mode is not None and mode & 0o044:
        yield Finding(check, "warn", found, f"others may read it: chmod 600 {path}")
    else:
        yield Finding(check, "ok", found)


async def _redis(settings: "GatewaySettings") -> list[Finding]:
    """Whether the Redis that gateways share can be used; nothing is written to it."""
    from gateway.sharing.store import SharedStore, StoreError

    if settings.redis_url is None:
        return []
    url = settings.redis_url.get_secret_value()
    advice = f"see {PREFIX}REDIS_URL, and Redis's log; without it gateways share nothing"
    async with SharedStore.open(url, settings.redis_prefix, beats=False) as store:
        try:
            facts = {name: str(value) for name, value in (await store.ask("INFO")).items()}
            gateways = await store.ask("ZCARD", store.key("gateways"))
        except StoreError as error:
            found = store.trouble or f"Redis at {store.address}: {error}"
            return [Finding("Redis", "fail", found, advice)]
    version, policy = facts["redis_version"], facts["maxmemory_policy"]
    found = f"{store.address}: version {version}, {gateways} gateways, policy {policy}"
    if facts.get("role") != "master":
        return [Finding("Redis", "fail", f"{found}; it is read-only", "name its primary")]
    if int(version.partition(".")[0]) < LEAST_REDIS:
        return [Finding("Redis", "fail", found, f"version {LEAST_REDIS} or newer is needed")]
    if policy != "noeviction":
        return [Finding("Redis", "warn", found, "set its maxmemory-policy to noeviction")]
    return [Finding("Redis", "ok", found)]


def _cache(settings: "GatewaySettings") -> Finding:
    import shutil
    from tempfile import TemporaryFile

    folder = settings.cache_dir.absolute()
    advice = f"set {PREFIX}CACHE_DIR to a folder that can be written"
    try:
        nearest = next(path for path in (folder, *folder.parents) if path.exists())
        if nearest == folder:
            with TemporaryFile(dir=folder):
                pass
        elif not (nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)):
            raise PermissionError(0, "it can't be made")
        free = shutil.disk_usage(nearest).free
    except OSError as error:
        return Finding("cache folder", "fail", f"{folder}: {error.strerror}", advice)
    found = f"{folder}, {'' if nearest == folder else 'not yet made, '}{free / 2**30:.1f} GiB free"
    if free < LEAST_FREE:
        return Finding("cache folder", "warn", found, f"make room, or {advice}")
    return Finding("cache folder", "ok", found)


def _quota(settings: "GatewaySettings") -> Finding:
    import time

    from gateway.upstreams.quota import standings

    path = settings.ledger_path
    try:
        used = [standing for standing in standings(path, (), {}, time.time()) if standing.used]
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(0, f"the quota ledger {path} can't be written")
    except OSError as error:
        text = error.strerror or str(error)
        advice = "move it aside; what was counted in it is then forgotten"
        return Finding("quota ledger", "fail", text, advice)
    if not path.exists():
        return Finding("quota ledger", "ok", f"{path}: not yet made")
    return Finding("quota ledger", "ok", f"{path}: {len(used)} accounts in use")


def _snapshot(settings: "GatewaySettings") -> Iterator[Finding]:
    from cache import Snapshot, SnapshotError

    path = settings.snapshot
    if path is None:
        return
    if settings.mode == "record":
        folder = path.absolute().parent
        ready = os.access(folder, os.W_OK | os.X_OK)
        found = f"{path} will be recorded" if ready else f"{folder} can't be written"
        yield Finding("snapshot", "ok" if ready else "fail", found)
        return
    try:
        with Snapshot(path) as snapshot:
            rows, tools = snapshot.summary.rows, len(snapshot.summary.tools)
            found = f"{path}: {rows} calls of {tools} tools, id {snapshot.id[:12]}"
            yield Finding("snapshot", "ok", found)
    except SnapshotError as error:
        yield Finding("snapshot", "fail", str(error), f"see {PREFIX}SNAPSHOT")


def _files(settings: "GatewaySettings") -> Finding:
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = settings.max_connections + SPARE_FILES
    if most == resource.RLIM_INFINITY:
        return Finding("open files", "ok", "no limit")
    if most < needed:
        advice = f"raise the limit (ulimit -Hn {needed}) or lower {PREFIX}CONNECTIONS"
        text = f"at most {most}, for {settings.max_connections} connections {needed} may be needed"
        return Finding("open files", "warn", text, advice)
    return Finding("open files", "ok", f"at most {most}")


async def _upstreams(
    settings: "GatewaySettings", catalog: "Catalog", timeout_s: float
) -> list[Finding]:
    if settings.upstream == "simulated":
        return [Finding("upstreams", "ok", "the simulated upstream answers: nothing real is asked")]
    if settings.mode == "offline":
        return [Finding("upstreams", "ok", "the snapshot alone answers: nothing is asked")]
    from adapters.providers import PROVIDERS

    found = []
    for provider in PROVIDERS.values():
        if provider.base_url is not None:
            tools = catalog.select(source=provider.source)
            hosts = {host for tool in tools for host in tool.binding.hosts}
            origins = _origins(provider.base_url(settings), hosts, tls=provider.tls)
            found.append(await _reached(provider.title, origins, timeout_s))
    return found


def _origins(base_url: str | None, hosts: Iterable[str], *, tls: bool | None) -> list["Origin"]:
    from urllib.parse import urlsplit

    from gateway.cli.reachability import Origin

    if base_url is None:
        return [Origin(host, tls=tls) for host in sorted(hosts)]
    parts = urlsplit(base_url)
    is_https = parts.scheme == "https"
    return [Origin(parts.hostname or "", parts.port or (443 if is_https else 80), is_https)]


async def _reached(name: str, origins: list["Origin"], timeout_s: float) -> Finding:
    from gateway.cli.reachability import troubles

    reasons = await troubles(origins, timeout_s)
    silent: defaultdict[str, list[str]] = defaultdict(list)
    for origin, reason in zip(origins, reasons, strict=True):
        if reason is not None:
            silent[reason].append(str(origin))
    answered = sum(reason is None for reason in reasons)
    found = f"{answered} of {len(origins)} {name} hosts answered"
    if not silent:
        return Finding(f"{name} hosts", "ok", found)
    found += "; these did not: "
    found += "; ".join(f"{', '.join(who)} ({reason})" for reason, who in silent.items())
    advice = "tools of these hosts will fail until they answer: see the network, firewall and DNS"
    return Finding(f"{name} hosts", "warn" if answered else "fail", found, advice)


def _print(findings: list[Finding]) -> None:
    from rich.table import Column, Table
    from rich.text import Text

    from manifests.common.console import PlainConsole

    columns = ("check", "status", "found", "what to do")
    table = Table(*(Column(name, overflow="fold") for name in columns), box=None)
    for f in findings:
        found = f.found
        if len(found) > MAX_SHOWN:
            found = f"{found[:MAX_SHOWN]}... (--json shows all)"
        table.add_row(f.check, Text(f.status, _STYLES[f.status]), Text(found), Text(f.advice))
    PlainConsole(narrowest=120).print(table)

"""`finport doctor`: checks whether a gateway would work here, and says what to do if not.

Every check reports what it found. No check changes anything or shows a key. Checks of upstreams
connect but send no request; `--subscriptions` alone makes a call to each RapidAPI host. If the
settings can't be read, checks that need them are left out.
"""

import asyncio
import os
import socket
import ssl
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from adapters.provider import Finding
from gateway.cli.options import echo_json, print_table, providers, run, upstream
from manifests.common.terminal import echo

if TYPE_CHECKING:
    from gateway.settings import GatewaySettings
    from manifests import Catalog

LEAST_FREE = 2**30

LEAST_REDIS = 7
"""The oldest version of Redis that has all that is used."""

SPARE_FILES = 1_000
"""Open files that a gateway needs in addition to its clients' connections."""

PREFIX = "FINPORT_"

AT_ONCE = 128
"""Upstream hosts that are tried concurrently."""

PLAIN_PORT = 80

NO_ADDRESS = "the name has no address"

MAX_SHOWN = 400
"""Characters of a finding that the table shows."""

_SUBSCRIBED = dict.fromkeys(
    (
        "upstream_unreachable",
        "timeout",
        "unauthorized",
        "overloaded",
        "circuit_open",
        "not_configured",
    ),
    "unknown",
)
"""What a call that failed this way says about the subscription; any other answer means yes."""

_NOT_ASKED = "not asked: its tools may move money"
_SUBSCRIBED[_NOT_ASKED] = "unknown"

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
    "--subscriptions",
    is_flag=True,
    help="Only say which RapidAPI hosts each key may call, and where to subscribe to the others. "
    "It makes one call for each host and key, which counts against its quota.",
)
@upstream
@providers
@click.option("--json", "as_json", is_flag=True)
def doctor(
    timeout_s: float,
    subscriptions: bool,
    upstream: str | None,
    as_json: bool,
    **given: object,
) -> None:
    """Check settings, keys, cache, quota, AkShare and upstreams; say how to fix problems.

    The exit code is 1 if something would not work.
    """
    if subscriptions:
        run(lambda: _subscriptions(upstream, as_json))
    named = {name: value for name, value in given.items() if value}
    run(lambda: _doctor(upstream, timeout_s, as_json, named))


async def _subscriptions(upstream: str | None, as_json: bool) -> int:
    """Call one tool of each RapidAPI host with each key. The exit code is 1 if a key is not
    subscribed to a host.
    """
    from pathlib import Path

    import orjson

    import adapters.rapidapi
    from cache import CacheControl
    from gateway.call import Gateway
    from gateway.context import CallContext
    from gateway.settings import GatewaySettings, SettingsError
    from manifests import Catalog

    try:
        settings = GatewaySettings.read(upstream=upstream, retries=0)
    except SettingsError as error:
        raise click.UsageError(str(error)) from error
    if not settings.rapidapi_keys:
        raise click.UsageError(f"set {PREFIX}RAPIDAPI_KEYS to the keys that are to be examined")
    catalog = Catalog.load()
    # of each host the plainest tool, which comes last
    ranked = sorted(catalog.select(source="rapidapi"), key=lambda tool: -len(tool.sample()))
    harmless = [tool for tool in ranked if tool.intent_type != "transactional"]
    tools = {host: tool for tool in harmless for host in tool.binding.hosts}
    pages = orjson.loads((Path(adapters.rapidapi.__file__).parent / "pages.json").read_bytes())
    echo(f"one call to each of {len(tools)} hosts with each key", err=True)
    anew, found = CallContext(cache=CacheControl(no_cache=True, no_store=True)), []
    for number, key in enumerate(settings.rapidapi_keys, 1):
        chosen = settings.model_copy(update={"rapidapi_keys": (key,)})
        async with Gateway.open(chosen, catalog=catalog) as gateway:
            calls = (gateway.call(tool.name, tool.sample(), anew) for tool in tools.values())
            results = await asyncio.gather(*calls)
        answers = {
            host: "ok" if result.error is None else str(result.error.code)
            for host, result in zip(tools, results, strict=True)
        }
        for host in sorted(pages):
            code = answers.get(host, _NOT_ASKED)
            is_lacking = code == "not_subscribed"
            found.append(
                {
                    "key": number,
                    "host": host,
                    "subscribed": "no" if is_lacking else _SUBSCRIBED.get(code, "yes"),
                    "answer": code,
                    "subscribe at": pages[host] if is_lacking else "",
                }
            )
    if as_json:
        echo_json(found)
    else:
        print_table(found)
    return 1 if any(row["subscribed"] == "no" for row in found) else 0


async def _doctor(
    upstream: str | None, timeout_s: float, as_json: bool, providers: Mapping[str, object]
) -> int:
    from adapters.providers import PROVIDERS
    from gateway.settings import GatewaySettings, SettingsError
    from gateway.upstreams.providers import catalog_of, servers_of
    from manifests import Catalog, CatalogError

    catalog, settings, unreached = Catalog.load(), None, dict[str, str]()
    findings = [_versions()]
    try:
        settings = GatewaySettings.read(upstream=upstream, **providers)
        async with servers_of(settings) as servers:
            catalog = await catalog_of(settings, servers=servers)
            of_mcp = [name for name, one in catalog.providers.items() if one.kind == "mcp"]
            troubles = {name: servers.unreached(name) for name in of_mcp}
            unreached = {name: why for name, why in troubles.items() if why is not None}
        findings.append(_settings(settings, catalog))
    except (SettingsError, CatalogError) as error:
        settings = None
        findings.append(Finding("settings", "fail", str(error), "correct it and look again"))
    findings += _providers(catalog, unreached)
    for provider in PROVIDERS.values():
        findings += provider.check(catalog, settings)
    if settings is not None:
        findings += [
            *_clients(settings),
            *await _redis(settings),
            _cache(settings),
            _quota(settings),
            _files(settings),
            *await _upstreams(settings, catalog, timeout_s),
        ]
    if as_json:
        echo_json([asdict(finding) for finding in findings])
    else:
        print_table([row(finding) for finding in findings])
    return 1 if any(finding.status == "fail" for finding in findings) else 0


def _providers(catalog: "Catalog", unreached: Mapping[str, str]) -> Iterator[Finding]:
    """What each of the user's own providers gives, and whether its secrets and its server are
    there; `unreached` says why an MCP server is not.
    """
    for name, provider in catalog.providers.items():
        tools = catalog.select(provider=name)
        found = f"{len(tools)} tools of {provider.origin}"
        needed = {*provider.credentials.values(), *provider.environment}
        lacking = sorted(name for name in needed if not os.environ.get(name, "").strip())
        check = f"provider {name}"
        if lacking:
            advice = f"set {', '.join(lacking)}; calls answer not_configured until then"
            yield Finding(check, "warn", f"{found}; a secret is lacking", advice)
        elif name in unreached:
            kept = ", as it listed before" if tools else ""
            text = f"{found}{kept}; its server is not reached: {unreached[name]}"
            advice = "start it, or see its URL or command; calls fail until it is there"
            yield Finding(check, "warn", text, advice)
        elif not tools:
            yield Finding(check, "warn", found, "see its `only`, and whether it can be reached")
        else:
            yield Finding(check, "ok", found)


def _versions() -> Finding:
    import platform
    from importlib.metadata import version

    python = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    return Finding("versions", "ok", f"finport {version('finport')}, {python}")


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


async def _redis(settings: "GatewaySettings") -> Iterable[Finding]:
    """Whether the Redis that gateways share can be used; nothing is written to it."""
    from gateway.sharing.store import SharedStore, StoreError

    if settings.redis_url is None:
        return ()
    url = settings.redis_url.get_secret_value()
    advice = f"see {PREFIX}REDIS_URL, and Redis's log; without it gateways share nothing"
    async with SharedStore.open(url, settings.redis_prefix, beats=False) as store:
        try:
            facts = {name: str(value) for name, value in (await store.ask("INFO")).items()}
            gateways = await store.ask("ZCARD", store.key("gateways"))
        except StoreError as error:
            found = store.trouble or f"Redis at {store.address}: {error}"
            return (Finding("Redis", "fail", found, advice),)
    version, policy = facts["redis_version"], facts["maxmemory_policy"]
    found = f"{store.address}: version {version}, {gateways} gateways, policy {policy}"
    if facts.get("role") != "master":
        return (Finding("Redis", "fail", f"{found}; it is read-only", "name its primary"),)
    if int(version.partition(".")[0]) < LEAST_REDIS:
        return (Finding("Redis", "fail", found, f"version {LEAST_REDIS} or newer is needed"),)
    if policy != "noeviction":
        return (Finding("Redis", "warn", found, "set its maxmemory-policy to noeviction"),)
    return (Finding("Redis", "ok", found),)


def _cache(settings: "GatewaySettings") -> Finding:
    import shutil
    from tempfile import TemporaryFile

    folder, check = settings.cache_dir.absolute(), "cache folder"
    advice = f"set {PREFIX}CACHE_DIR to a folder that can be written"
    try:
        nearest = next(path for path in (folder, *folder.parents) if path.exists())
        if nearest == folder:
            TemporaryFile(dir=folder).close()
        elif not (nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)):
            raise PermissionError(0, "it can't be made")
        free = shutil.disk_usage(nearest).free
    except OSError as error:
        return Finding(check, "fail", f"{folder}: {error.strerror}", advice)
    found = f"{folder}, {'' if nearest == folder else 'not yet made, '}{free / 2**30:.1f} GiB free"
    if nearest == folder and folder.stat().st_mode & 0o022:
        advice = f"its files decide what is answered: chmod 700 {folder}"
        return Finding(check, "warn", f"{found}; others may write in it", advice)
    if free < LEAST_FREE:
        return Finding(check, "warn", found, f"make room, or {advice}")
    return Finding(check, "ok", found)


def _quota(settings: "GatewaySettings") -> Finding:
    import time

    from gateway.upstreams.quota import standings

    path, check = settings.ledger_path, "quota ledger"
    try:
        used = sum(s.used > 0 for s in standings(path, (), {}, time.time()))
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(0, f"the quota ledger {path} can't be written")
    except OSError as error:
        advice = "move it aside; what was counted in it is then forgotten"
        return Finding(check, "fail", error.strerror or str(error), advice)
    held = f"accounts in use: {used}" if path.exists() else "not yet made"
    return Finding(check, "ok", f"{path}: {held}")


def _files(settings: "GatewaySettings") -> Finding:
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = settings.max_connections + SPARE_FILES
    if most == resource.RLIM_INFINITY or most >= needed:
        found = "no limit" if most == resource.RLIM_INFINITY else f"at most {most}"
        return Finding("open files", "ok", found)
    advice = f"raise the limit (ulimit -Hn {needed}) or lower {PREFIX}MAX_CONNECTIONS"
    text = f"at most {most}, for {settings.max_connections} connections {needed} may be needed"
    return Finding("open files", "warn", text, advice)


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
            count = len(origins)
            text = f"connecting to {count} {provider.title} hosts, {timeout_s:g} s at most each"
            echo(text, err=True)
            found.append(await _reached(provider.title, origins, timeout_s))
    return found


@dataclass(frozen=True, slots=True)
class Origin:
    """The address of an upstream. `tls` None means https, or http if https does not answer."""

    host: str
    port: int = 443
    tls: bool | None = True

    def __str__(self) -> str:
        return self.host if self.port == 443 else f"{self.host}:{self.port}"


def _origins(base_url: str | None, hosts: Iterable[str], *, tls: bool | None) -> list[Origin]:
    from urllib.parse import urlsplit

    if base_url is None:
        return [Origin(host, tls=tls) for host in sorted(hosts)]
    parts = urlsplit(base_url)
    is_https = parts.scheme == "https"
    return [Origin(parts.hostname or "", parts.port or (443 if is_https else 80), is_https)]


async def _reached(name: str, origins: list[Origin], timeout_s: float) -> Finding:
    silent: defaultdict[str, list[str]] = defaultdict(list)
    for origin, reason in zip(origins, await troubles(origins, timeout_s), strict=True):
        if reason is not None:
            silent[reason].append(str(origin))
    answered = len(origins) - sum(map(len, silent.values()))
    found = f"{answered} of {len(origins)} {name} hosts answered"
    if not silent:
        return Finding(f"{name} hosts", "ok", found)
    reasons = (f"{', '.join(who)} ({reason})" for reason, who in silent.items())
    found += f"; these did not: {'; '.join(reasons)}"
    advice = "tools of these hosts will fail until they answer: see the network, firewall and DNS"
    return Finding(f"{name} hosts", "warn" if answered else "fail", found, advice)


async def troubles(origins: Iterable[Origin], timeout_s: float) -> list[str | None]:
    """The `trouble` of each origin, in their order; at most `AT_ONCE` are tried at a time."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def reach(origin: Origin) -> str | None:
        async with slots:
            return await trouble(origin, timeout_s)

    return await asyncio.gather(*map(reach, origins))


async def trouble(origin: Origin, timeout_s: float) -> str | None:
    """A short reason why no connection, with TLS if used, can be made within a time that bounds the
    look-up of the name too; None if one can. No request is sent.
    """
    from manifests.common.threads import in_daemon

    first = None
    plain = [(PLAIN_PORT, False)] if origin.tls is None else []
    for port, tls in ((origin.port, origin.tls is not False), *plain):
        try:
            async with asyncio.timeout(timeout_s):
                reason = await in_daemon(_connect, origin.host, port, tls, timeout_s)
        except TimeoutError:
            reason = f"no answer within {timeout_s:g} s"
        if reason in (None, NO_ADDRESS):
            return reason
        first = first or reason
    return first


def _connect(host: str, port: int, tls: bool, timeout_s: float) -> str | None:
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            if tls:
                ssl.create_default_context().wrap_socket(connection, server_hostname=host).close()
    except TimeoutError:
        return f"no answer within {timeout_s:g} s"
    except ssl.SSLCertVerificationError as error:
        return f"certificate: {error.verify_message}"
    except ssl.SSLError:
        return "no TLS"
    except (socket.gaierror, UnicodeError):
        return NO_ADDRESS
    except ConnectionRefusedError:
        return "refused"
    except OSError as error:
        return error.strerror or "no connection"
    return None


def row(finding: Finding) -> dict[str, object]:
    """The row of the table; a long text is cut."""
    from rich.text import Text

    found = finding.found
    if len(found) > MAX_SHOWN:
        found = f"{found[:MAX_SHOWN]}... (--json shows all)"
    status = Text(finding.status, _STYLES[finding.status])
    return {
        "check": finding.check,
        "status": status,
        "found": found,
        "what to do": finding.advice,
    }

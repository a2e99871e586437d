"""`finport usage`: the calls of clients, their cost, and what is left of the clients' quotas."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.options import echo_json, failures, print_table, read_settings, simulation
from manifests.common.terminal import echo

if TYPE_CHECKING:
    from gateway.settings import GatewaySettings
    from gateway.telemetry.usage_store import Used

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_BY: "dict[str, Callable[[Used], str]]" = {
    "client": lambda used: used.client,
    "tool": lambda used: used.tool,
    "day": lambda used: f"{EPOCH + timedelta(days=used.day):%Y-%m-%d}",
    "host": lambda used: used.host,
}


@click.command()
@click.option(
    "--by", type=click.Choice([*_BY]), default="client", show_default=True, help="A row for each."
)
@click.option(
    "--since",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="DATE",
    help="First day (UTC). Default: the first day of this month.",
)
@click.option("--json", "as_json", is_flag=True)
@simulation
def usage(by: str, since: datetime | None, as_json: bool, **given: object) -> None:
    """Show calls and their cost by client, tool, day or host, and what is left of clients' quotas.

    Calls are counted if FINPORT_USAGE is true, quotas always. What a request costs is
    `price_per_request` of its host in the settings. `finport quota` shows the quotas of upstreams.
    """
    from gateway.settings import SettingsError
    from gateway.telemetry.usage_store import read_usage

    settings = read_settings(**given)
    first = since.replace(tzinfo=UTC) if since else datetime.now(UTC).replace(day=1)
    with failures(OSError, SettingsError):
        used = read_usage(settings.usage_path, (first - EPOCH).days)
        quotas = _quotas(settings)
    rows = _rows(used, by, settings)
    if as_json:
        about = {"since": f"{first:%Y-%m-%d}", "currency": settings.currency}
        echo_json({**about, "usage": rows, "quotas": quotas})
        return
    if rows:
        cost = f"cost ({settings.currency})" if settings.currency else "cost"
        print_table([_shown(row, by, cost) for row in rows])
    elif settings.usage:
        echo(f"no call since {first:%Y-%m-%d}")
    else:
        echo("no calls are counted: start the gateway with FINPORT_USAGE=true to count them")
    if quotas:
        echo("")
        print_table(quotas)


def _rows(used: "Iterable[Used]", by: str, settings: "GatewaySettings") -> list[dict[str, Any]]:
    """The sums of each group. A `cost` is that of the requests whose price is known, None if there
    is no such host; `unpriced` are the other requests.
    """
    rows: dict[str, dict[str, Any]] = {}
    for one in used:
        group = _BY[by](one)
        row = rows.setdefault(group, {by: group, **dict.fromkeys(_SUMS, 0), "cost": None})
        for name in ("calls", "cached", "failed", "requests", "bytes"):
            row[name] += getattr(one, name)
        host = settings.hosts.get(one.host)
        if host is not None and host.price_per_request is not None:
            row["cost"] = (row["cost"] or 0.0) + one.requests * host.price_per_request
        else:
            row["unpriced"] += one.requests
    for row in rows.values():
        row["cost"] = row["cost"] and float(f"{row['cost']:.12g}")  # sums of floats are rounded
    return [rows[group] for group in sorted(rows)]


_SUMS = ("calls", "cached", "failed", "requests", "bytes", "unpriced")

_NONE = {"client": "(no key)", "tool": "(not made)", "host": "(none)"}


def _shown(row: dict[str, Any], by: str, cost: str) -> dict[str, object]:
    cents = "{:,.2f}" if (row["cost"] or 1) >= 1 else "{:.2g}"
    known = [cents.format(row["cost"])] if row["cost"] is not None else []
    unknown = ["unknown"] if row["unpriced"] else []
    shown = {name: row[name] for name in _SUMS if name != "unpriced"}
    return {by: row[by] or _NONE[by], **shown, cost: " + ".join([*known, *unknown])}


def _quotas(settings: "GatewaySettings") -> list[dict[str, Any]]:
    """The quotas of the clients that may call. Raises `OSError` and `SettingsError`."""
    import time

    from gateway.access.keys import read, settings_entries
    from gateway.sharing.keys import merged, remembered
    from gateway.upstreams.accounts import planned, read_accounts
    from manifests import PlanLimits

    now, shared = time.time(), settings.redis_url is not None
    accounts = read_accounts(settings.client_quotas_path, now, shared=shared)
    used = {account.host: account for account in accounts if account.span == "day"}
    others = remembered(settings.clients_file) if shared else ()
    own = (*settings_entries(settings), *read(settings.clients_file))
    rows = []
    for entry in merged(others, own):
        per_day = entry.per_day or settings.calls_per_day
        if per_day is None or entry.revoked_at is not None:
            continue
        account = used.get(entry.name)
        *_, day = planned(PlanLimits(per_day=per_day), "", entry.name, now)
        calls = 0 if account is None else account.used
        resets_at = datetime.fromtimestamp(day.resets_at, UTC).isoformat(timespec="seconds")
        part = {"part": account and account.part} if shared else {}
        left = max(per_day - calls, 0)
        if shared and account is not None:  # of what all gateways have left, at most its part
            left = min(left, max(int(account.left), 0))
        row = {"client": entry.name, "per_day": per_day, "used": calls, **part, "left": left}
        rows.append({**row, "resets_at": resets_at})
    return sorted(rows, key=lambda row: str(row["client"]))

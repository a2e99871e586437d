"""`finport quota`: shows how many requests each key may still send to each host."""

import click

from gateway.cli.options import echo_json, read_settings, simulation
from manifests.common.terminal import echo


@click.command()
@click.option("--host", help="Show only this upstream host.")
@click.option("--json", "as_json", is_flag=True)
@simulation
def quota(host: str | None, as_json: bool, **given: object) -> None:
    """Show the quota ledger: requests sent, plan limits, what is left and when it resets.

    Limits come from settings, from manifests and from reports of upstreams. A key is shown by its
    fingerprint.
    """
    import time

    from adapters.providers import keyed_hosts
    from gateway.upstreams.hosts import plans_of
    from gateway.upstreams.quota import standings
    from manifests import Catalog

    settings = read_settings(**given)
    catalog = Catalog.load()
    asked = keyed_hosts(catalog)
    if host is not None and host not in asked:
        raise click.UsageError(f"no RapidAPI tool asks {host!r}")
    plans = {name: plan for name, plan in plans_of(settings, catalog).items() if name in asked}
    try:
        shared = settings.redis_url is not None
        every = standings(settings.ledger_path, settings.secrets, plans, time.time(), shared=shared)
    except OSError as error:
        raise click.ClickException(str(error)) from error
    rows = [
        {
            "host": s.host,
            "key": s.key,
            "span": s.span,
            "used": s.used,
            "quota": s.quota,
            **({"part": s.part} if shared else {}),
            "left": None if s.quota is None else max(int(s.left), 0),
            "resets_at": _utc(s.resets_at),
            "from": "upstream" if s.learned else "plan",
        }
        for s in every
        if host in (None, s.host)
    ]
    if as_json:
        echo_json(rows)
        return
    if not rows:
        echo("no request has been counted yet, and no limit is set")
        return
    _print(rows)


def _print(rows: list[dict[str, str | int | None]]) -> None:
    from rich.table import Table

    from manifests.common.console import PlainConsole

    table = Table(*rows[0], box=None)
    for row in rows:
        table.add_row(*("" if value is None else str(value) for value in row.values()))
    PlainConsole(narrowest=120).print(table)  # host names must not be cut


def _utc(at: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")

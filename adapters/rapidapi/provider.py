"""RapidAPI as a provider."""

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from adapters.provider import Finding, Parts, Provider, Settings
from adapters.rapidapi.keys import Key
from manifests import Catalog

if TYPE_CHECKING:
    from adapters.adapter import Adapter
    from adapters.simulator.shapes import Simulation


def _open(parts: Parts) -> AbstractAsyncContextManager["Adapter"]:
    from adapters.rapidapi.adapter import RapidApiAdapter

    assert parts.keys is not None  # noqa: S101 - `is_open` says so
    return RapidApiAdapter.open(
        keys=parts.keys,
        hosts={m.upstream for m in parts.catalog.select(source="rapidapi")},
        base_url=parts.simulated_url or parts.settings.rapidapi_base_url,
        credentials=parts.credentials,
        secrets=parts.settings.secrets,
    )


def _check(catalog: Catalog, settings: Settings | None) -> Iterator[Finding]:
    if settings is None:
        return
    check, keys = "RapidAPI keys", [Key.of(secret).id for secret in settings.secrets]
    if settings.upstream == "simulated" or settings.mode == "offline":
        yield Finding(check, "ok", "none is needed: nothing real is asked")
    elif keys:
        yield Finding(check, "ok", f"{len(keys)}, by fingerprint: {', '.join(keys)}")
    else:
        tools = len(catalog.select(source="rapidapi"))
        text = f"no key: the {tools} RapidAPI tools will answer not_configured"
        yield Finding(check, "warn", text, "set FINPORT_RAPIDAPI_KEYS")


def _simulate(catalog: Catalog) -> "Simulation":
    from adapters.simulator.rapidapi import simulate

    return simulate(catalog)


RAPIDAPI = Provider(
    "rapidapi",
    "RapidAPI",
    _open,
    check=_check,
    simulate=_simulate,
    has_keys=True,
    base_url=lambda settings: settings.rapidapi_base_url,
)

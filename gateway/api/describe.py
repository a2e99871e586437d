"""Manifests as the API shows them."""

from typing import Any

from cache import rule_of
from gateway.settings import GatewaySettings
from gateway.upstreams.hosts import host_of
from manifests import Manifest
from manifests.common.duration import duration


def describe(manifest: Manifest, settings: GatewaySettings) -> dict[str, Any]:
    """The whole manifest, with a sample call and what a request costs, if the settings say it."""
    return {
        **manifest.model_dump(mode="json", exclude_none=True),
        "source": manifest.source,
        "revision": manifest.revision,
        "sample": manifest.sample(),
        "freshness": rule_of(manifest.timeliness, manifest.freshness).to_dict(),
        "price": price_of(manifest, settings),
    }


def freshness_of(manifest: Manifest) -> str:
    """How long an answer of the tool counts as fresh, in words."""
    rule = rule_of(manifest.timeliness, manifest.freshness)
    fresh = f"for {duration(rule.fresh_s)}"
    if rule.updates_utc:
        fresh = f"until the next {' or '.join(rule.to_dict()['updates_utc'])} UTC"
    renewing, failing = duration(rule.stale_while_revalidate_s), duration(rule.stale_if_error_s)
    return (
        f"{fresh}; after that given for {renewing} while a newer one is fetched, and for {failing} "
        "in place of an error"
    )


def price_of(manifest: Manifest, settings: GatewaySettings) -> dict[str, Any] | None:
    """What a request to the tool's host costs; None if that is not known."""
    host = settings.hosts.get(host_of(manifest))
    if host is None or host.price_per_request is None or manifest.is_local:
        return None
    return {"per_request": host.price_per_request, "currency": settings.currency}


def summarise(manifest: Manifest) -> dict[str, Any]:
    """One entry in a list of tools."""
    return {
        "name": manifest.name,
        "source": manifest.source,
        "provider": manifest.home,
        "description": manifest.description,
        "timeliness": manifest.timeliness,
        "intent_type": manifest.intent_type,
        "regulatory_domains": manifest.regulatory_domains,
        "unavailable": manifest.unavailable,
    }

"""Manifests as the API shows them."""

from typing import Any

from cache import rule_of
from manifests import Manifest


def describe(manifest: Manifest) -> dict[str, Any]:
    """The whole manifest, with a sample call."""
    return {
        **manifest.model_dump(mode="json", exclude_none=True),
        "source": manifest.source,
        "revision": manifest.revision,
        "sample": manifest.sample(),
        "freshness": rule_of(manifest.timeliness, manifest.freshness).to_dict(),
    }


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

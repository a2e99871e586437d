"""Tools of the catalogue, and tools made for a test."""

import json
from typing import Any

from manifests import Catalog, Manifest


def tool(catalog: Catalog, name: str) -> Manifest:
    manifest = catalog.get(name)
    assert manifest is not None
    return manifest


def manifest(*parameters: dict[str, Any], path: str | None = None) -> Manifest:
    described = [{"description": "x", **p} for p in parameters]
    binding: dict[str, Any] = {"source": "akshare", "function": "t"}
    if path is not None:
        binding = {"source": "rapidapi", "host": "h", "path": path}
    return Manifest.model_validate_json(
        json.dumps(
            {
                "name": "t",
                "description": "x",
                "timeliness": "daily",
                "intent_type": "informational",
                "regulatory_domains": ["equity"],
                "parameters": described,
                "binding": binding,
            }
        )
    )

"""The tools: the manifest model, 760 manifests as data files, the catalogue over them.

Public names are imported on first use, so that the command line starts quickly.
"""

from typing import TYPE_CHECKING

from manifests.common.lazy import importing

if TYPE_CHECKING:
    from manifests.catalog import Catalog, CatalogError
    from manifests.manifest import (
        AkShareBinding,
        Column,
        Domain,
        FreshnessOverride,
        Intent,
        Manifest,
        MarketBinding,
        Parameter,
        PlanLimits,
        RapidApiBinding,
        Scalar,
        Source,
        Timeliness,
    )
    from manifests.selection import Selection, SelectionError
    from manifests.signature import ArgumentError, Problem, Signature

_HOMES = {
    "AkShareBinding": "manifest",
    "ArgumentError": "signature",
    "Catalog": "catalog",
    "CatalogError": "catalog",
    "Column": "manifest",
    "Domain": "manifest",
    "FreshnessOverride": "manifest",
    "Intent": "manifest",
    "Manifest": "manifest",
    "MarketBinding": "manifest",
    "Parameter": "manifest",
    "PlanLimits": "manifest",
    "Problem": "signature",
    "RapidApiBinding": "manifest",
    "Scalar": "manifest",
    "Selection": "selection",
    "SelectionError": "selection",
    "Signature": "signature",
    "Source": "manifest",
    "Timeliness": "manifest",
}

__all__ = [
    "AkShareBinding",
    "ArgumentError",
    "Catalog",
    "CatalogError",
    "Column",
    "Domain",
    "FreshnessOverride",
    "Intent",
    "Manifest",
    "MarketBinding",
    "Parameter",
    "PlanLimits",
    "Problem",
    "RapidApiBinding",
    "Scalar",
    "Selection",
    "SelectionError",
    "Signature",
    "Source",
    "Timeliness",
]


__getattr__ = importing(__name__, _HOMES)

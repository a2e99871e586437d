"""The tools: the manifest model, 760 manifests as data files, the catalogue over them."""

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

"""Cached and recorded answers: keys, freshness, tiers, single flight, snapshots."""

from manifests.common.lazy import importing

__getattr__, __all__ = importing(__name__, __file__)

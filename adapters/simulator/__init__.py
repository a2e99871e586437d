"""The simulated upstream: one local HTTP server that replaces all upstreams with made-up data."""

from manifests.common.lazy import importing

__getattr__, __all__ = importing(__name__, __file__)

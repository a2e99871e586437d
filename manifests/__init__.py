"""The tools: the manifest model, manifests as data files, the catalogue over them."""

from manifests.common.lazy import importing

__getattr__, __all__ = importing(__name__, __file__)

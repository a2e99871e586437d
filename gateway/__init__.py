"""The call pipeline and the API over it. `__init__.pyi` lists the public names."""

from manifests.common.lazy import importing

__getattr__, __all__ = importing(__name__, __file__)

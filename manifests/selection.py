"""Selections of tools, written as one short text.

The same text is used in a URL (`?tools=domain:bond,fund;source:akshare`), for a client's key and on
the command line.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import get_args

from manifests.catalog import Catalog
from manifests.common.nearest import hint
from manifests.manifest import Domain, Intent, Manifest, Source, Timeliness

_FACETS: dict[str, tuple[tuple[str, ...] | None, Callable[[Manifest], Iterable[str]]]] = {
    "source": (get_args(Source), lambda manifest: (manifest.source,)),
    "domain": (get_args(Domain), lambda manifest: manifest.regulatory_domains),
    "timeliness": (get_args(Timeliness), lambda manifest: (manifest.timeliness,)),
    "intent": (get_args(Intent), lambda manifest: (manifest.intent_type,)),
    "provider": (None, lambda manifest: (manifest.home,)),
    "names": (None, lambda manifest: (manifest.name,)),
}
"""The values of each facet, None for any, and those that a tool has."""

MAX_TEXT = 4_000

MAX_SHOWN = 80
"""The most characters of an invalid text that a message repeats."""


class SelectionError(ValueError):
    """A text is no valid selection; the message says what it should look like."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The tools that have, for each given facet, one of its values; without facets, all tools.

    Facets are `source`, `domain`, `timeliness`, `intent`, `provider` and `names`.
    """

    facets: tuple[tuple[str, frozenset[str]], ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Selection":
        """Read `all` or `FACET:VALUE,VALUE;FACET:VALUE`. Raises `SelectionError`."""
        if len(text) > MAX_TEXT:
            raise SelectionError(f"a selection of tools has at most {MAX_TEXT} characters")
        if text == "all":
            return cls()
        facets: dict[str, frozenset[str]] = {}
        for part in text.split(";"):
            facet, _, listed = part.partition(":")
            facet, values = facet.strip(), {v.strip() for v in listed.split(",") if v.strip()}
            if facet not in _FACETS or not values:
                form = "; ".join(f"{name}:VALUE,..." for name in _FACETS)
                raise SelectionError(
                    f"tools are selected by 'all' or {form}; not by {part[:MAX_SHOWN]!r}"
                )
            allowed, _ = _FACETS[facet]
            if allowed is not None and not values <= {*allowed}:
                odd = min(values - {*allowed})[:MAX_SHOWN]
                raise SelectionError(f"no {facet} is named {odd!r}; there are {', '.join(allowed)}")
            facets[facet] = facets.get(facet, frozenset()) | values
        return cls(tuple(sorted(facets.items())))

    @classmethod
    def of(cls, catalog: Catalog, text: str) -> "Selection":
        """Read a selection of a catalogue's tools. Raises `SelectionError`, also for a name that no
        tool has.
        """
        selection = cls.parse(text)
        check_names(catalog, dict(selection.facets).get("names", ()))
        return selection

    def __contains__(self, manifest: Manifest) -> bool:
        return not any(w.isdisjoint(_FACETS[facet][1](manifest)) for facet, w in self.facets)

    def __str__(self) -> str:
        """The text that `parse` reads as this selection."""
        parts = (f"{facet}:{','.join(sorted(values))}" for facet, values in self.facets)
        return ";".join(parts) or "all"


EVERY_TOOL = Selection()


def check_names(catalog: Catalog, names: Iterable[str]) -> None:
    """Raises `SelectionError` for a name that no tool of the catalogue has."""
    for name in sorted(names):
        if catalog.get(name) is None:
            near = hint(catalog.nearest(name[:MAX_SHOWN]))
            raise SelectionError(f"no tool is named {name[:MAX_SHOWN]!r}{near}")

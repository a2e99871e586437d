"""The catalogue: all manifests by name.

A file holds a JSON array of manifests. There is one file per RapidAPI host and one per AkShare
family (the first word of the function name). If a file does not validate, loading stops with its
name and the reason. No two tools have the same name.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
from pydantic import TypeAdapter, ValidationError

from manifests.common.nearest import MOST, nearest
from manifests.common.problem import first_problem
from manifests.common.regular_file import read_text
from manifests.manifest import Manifest
from manifests.stand_ins import pairs, problems

if TYPE_CHECKING:
    from manifests.fintoolbench import Card
    from manifests.functions import FunctionTool
    from manifests.providers import ProviderSettings
    from manifests.search import Search

DATA = Path(__file__).parent / "data"
_MARKET = Path(__file__).parent / "market.json"
_OWN = Path(__file__).parent / "own.json"

RESERVED = frozenset(
    ["search_tools", "describe_tool", "call_tool", "execute_tool", "read_result", "resolve_symbol"]
)
"""Names of the tools by which a gateway lets its clients find and call others."""

MAX_QUERY = 2_000
"""Only this many characters of a query are read."""

_FILE: TypeAdapter[list[Manifest]] = TypeAdapter(list[Manifest])


class CatalogError(Exception):
    """A manifest file can't be read; the text names the file and what is wrong in it."""


class Catalog:
    """A set of manifests, which changes only as a whole (`adopt`)."""

    def __init__(self, manifests: Iterable[Manifest]) -> None:
        self._by_name: dict[str, Manifest] = {}
        for manifest in manifests:
            if manifest.name in self._by_name:
                raise CatalogError(f"two tools are named {manifest.name}")
            self._by_name[manifest.name] = manifest
        self.cards: Mapping[str, Card] = {}
        """By tool, what a model reads in place of our description and schema, if anything."""
        self.functions: Mapping[str, FunctionTool] = {}
        """By the revision of a tool, the Python function that answers it, if one does."""
        self.providers: Mapping[str, ProviderSettings] = {}
        """The user's providers, by name."""
        self._twin: Catalog | None = None
        """A catalogue of the same tools, whose search is used."""
        self.vectors: Path | None = None
        """A file in which the search keeps the vectors of the user's own tools."""
        self.version = 0
        self._search: tuple[int, Search | None] = 0, None
        """The search, and the version that it is of."""
        self.listeners: set[Callable[[], None]] = set()
        """Are called when the tools have changed."""

    def with_cards(self, cards: "Mapping[str, Card]") -> "Catalog":
        """These tools, of which models and judges read other cards."""
        catalog = self._copy(self)
        catalog.cards = dict(cards)
        return catalog

    def with_own(
        self,
        manifests: Iterable[Manifest] = (),
        tools: "Iterable[FunctionTool]" = (),
        providers: "Mapping[str, ProviderSettings] | None" = None,
    ) -> "Catalog":
        """A copy with the tools of the user's providers. Raises `CatalogError` for a name twice,
        with both places that it comes from.
        """
        functions = [*tools]
        own = [*manifests, *(tool.manifest for tool in functions)]
        taken = dict[str, Manifest]()
        for manifest in own:
            name = manifest.name
            if name in RESERVED:
                text = (
                    f"{_home(manifest)} has a tool named {name}, which is one of the gateway's own"
                )
                raise CatalogError(f"{text}; give its tools a prefix")
            other = taken.setdefault(name, manifest)
            other = self.get(name) or other
            if other is not manifest:
                who = " and ".join(_home(one) for one in (other, manifest))
                raise CatalogError(f"two tools are named {name}: {who}; a prefix tells them apart")
        catalog = self._copy([*self, *own])
        given = {tool.manifest.revision: tool for tool in functions}
        catalog.functions = {**self.functions, **given}
        catalog.providers = {**self.providers, **(providers or {})}
        if not own:
            catalog._twin = self
        return catalog

    def _copy(self, manifests: Iterable[Manifest]) -> "Catalog":
        catalog = Catalog(manifests)
        catalog.cards, catalog.functions = self.cards, self.functions
        catalog.providers = self.providers
        return catalog

    def adopt(self, other: "Catalog") -> None:
        """Have the tools of another catalogue from now on; who remembers anything of the tools
        sees by `version` that they changed, or is a listener. Functions stay for calls under way.
        """
        self._by_name, self.cards, self._twin = other._by_name, other.cards, other._twin
        self.functions = {**self.functions, **other.functions}
        self.providers, self.vectors = other.providers, other.vectors
        vars(self).pop("revision", None)
        self.version += 1
        for listener in [*self.listeners]:
            listener()

    @classmethod
    def load(cls, path: Path | None = None) -> "Catalog":
        """Read one manifest file, or every `*.json` below a folder. Without a path it is the
        project's catalogue, which a process reads once.

        Raises `CatalogError`.
        """
        if path is None:
            return _shipped()
        files = [path] if path.is_file() else sorted(path.rglob("*.json"))
        if not files:
            raise CatalogError(f"{path}: no manifest files (*.json) here")
        catalog = cls(manifest for file in files for manifest in read(file))
        for manifest in catalog:
            for pair in pairs(manifest, catalog._by_name):
                if (wrong := next(problems(pair), None)) is not None:
                    text = f"{manifest.name}: stand-in {pair.other.name}: {wrong}"
                    raise CatalogError(text)
        return catalog

    @classmethod
    def market(cls) -> "Catalog":
        """The tools of a recorded market, which a gateway has if its settings name the data."""
        return cls(read(_MARKET))

    def with_market(self) -> "Catalog":
        """These tools and those of a recorded market. Raises `CatalogError` for a name twice."""
        if any(manifest.source == "market" for manifest in self):
            return self
        return self._copy([*self, *Catalog.market()])

    def __getstate__(self) -> dict[str, object]:
        """What another process gets: the tools, but not the index, which it makes itself."""
        return {**vars(self), "_search": (0, None), "listeners": set(), "_twin": None}

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[Manifest]:
        return iter(self._by_name.values())

    def get(self, name: str) -> Manifest | None:
        """The tool of that name, also one of Finport's own, which are not counted or listed."""
        return self._by_name.get(name) or own_tools().get(name)

    def nearest(self, name: str, limit: int = MOST) -> list[str]:
        """Tool names that are near `name`, the most similar first; empty if there are none."""
        return nearest(name, self._by_name, limit)

    def select(
        self,
        *,
        source: str | None = None,
        domain: str | None = None,
        timeliness: str | None = None,
        intent: str | None = None,
        provider: str | None = None,
    ) -> list[Manifest]:
        """The manifests that have all the given tags, in the order of the files."""
        return [
            m
            for m in self
            if (source is None or m.source == source)
            and (domain is None or domain in m.regulatory_domains)
            and (timeliness is None or m.timeliness == timeliness)
            and (intent is None or m.intent_type == intent)
            and (provider is None or m.home == provider)
        ]

    @property
    def search(self) -> "Search":
        """The embedded search. Building its index on first use takes a second."""
        if self._twin is not None:
            return self._twin.search
        version, made = self._search
        while made is None or version != self.version:  # or the tools changed meanwhile
            from manifests.dense import embedded_encoder
            from manifests.search import Search, akshare_documents

            version = self.version
            made = Search(self, akshare_documents(), encoder=embedded_encoder(), kept=self.vectors)
            self._search = version, made
        return made

    @cached_property
    def revision(self) -> str:
        """A hash over the revisions of all tools, independent of their order."""
        lines = sorted(f"{m.name} {m.revision}" for m in self)
        return blake2b("\n".join(lines).encode(), digest_size=8).hexdigest()


def _home(manifest: Manifest) -> str:
    if manifest.provider is not None:
        return f"provider {manifest.provider}"
    return f"{manifest.source} ({manifest.upstream})"


@cache
def own_tools() -> Mapping[str, Manifest]:
    """Finport's own tools by name, which every gateway has beside its catalogue."""
    return {manifest.name: manifest for manifest in read(_OWN)}


@cache
def _shipped() -> Catalog:
    return Catalog(_as_installed(Catalog.load(DATA)))


def _as_installed(catalog: Catalog) -> Iterator[Manifest]:
    """The manifests, where `unavailable` says which functions the installed AkShare lacks. Without
    AkShare it is about the release for which the manifests were written.
    """
    names = _akshare_names()
    for manifest in catalog:
        reason = manifest.unavailable
        is_known = names is None or manifest.source != "akshare"
        if is_known or (manifest.name in (names or ())) == (reason is None):
            yield manifest
            continue
        if reason is None:
            from manifests.akshare_source import akshare_version

            reason = f"AkShare {akshare_version()} does not have this function"
        else:
            reason = None
        yield manifest.model_copy(update={"unavailable": reason})


def _akshare_names() -> frozenset[str] | None:
    """The names that the installed AkShare's `__init__` imports, all its functions among them. It
    is read, not run, in 2 ms. None without AkShare.
    """
    spec = find_spec("akshare")
    if spec is None or spec.origin is None:
        return None
    text = Path(spec.origin).read_text(encoding="utf-8")
    imports = text.rpartition('"""')[2]  # before it stands what changed between releases
    return frozenset(re.findall(r"[a-z_]\w+", imports))


def read(file: Path) -> list[Manifest]:
    """The manifests in one file. Raises `CatalogError`."""
    try:
        return _FILE.validate_json(read_text(file))
    except OSError as error:
        raise CatalogError(f"{file.name}: {error.strerror}") from error
    except ValidationError as error:
        raise CatalogError(f"{file.name}: {first_problem(error)}") from error


def text_of(manifests: Iterable[Manifest]) -> str:
    """The text of a manifest file in its standard form: tools by name, one parameter a line."""
    tools = ",\n".join(_text(m) for m in sorted(manifests, key=lambda m: m.name))
    return f"[\n{tools}\n]\n"


def _text(manifest: Manifest) -> str:
    fields = manifest.model_dump(mode="json", exclude_defaults=True)
    fields["binding"] = {"source": manifest.source, **fields["binding"]}
    lines = []
    for name, value in fields.items():
        if name == "parameters":
            rows = ",\n".join(f"   {orjson.dumps(p).decode()}" for p in value)
            lines.append(f'  "parameters": [\n{rows}\n  ]')
        else:
            lines.append(f'  "{name}": {orjson.dumps(value).decode()}')
    return " {\n" + ",\n".join(lines) + "\n }"

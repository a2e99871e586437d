"""The page at `/`: find a tool, read about it, call it, see the answer; and the API reference.

No text of a caller, a manifest or an upstream becomes markup: the templates escape it, and the
script makes text nodes of it. Only files read at construction are served. No script or style is
inline: the policy on every answer forbids it. The script calls the REST API as any other client
does; finding and reading tools work without the script.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, cached_property
from hashlib import blake2b
from importlib.resources import files
from typing import Any, Final
from urllib.parse import urlencode

from aiohttp import hdrs, web
from anyio import to_thread
from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup
from pydantic import Field, ValidationError

from gateway.access.guard import ANYONE
from gateway.api.describe import freshness_of
from gateway.api.models import TAGS, ToolFilter
from gateway.api.reference import operations
from gateway.api.responses import YEAR_S
from gateway.api.route import CALLER
from gateway.call import Gateway
from gateway.pipeline.bind import printable
from gateway.search.finder import ToolFinder
from manifests import Catalog, Manifest
from manifests.catalog import MAX_QUERY
from manifests.common.terminal import plain
from manifests.export import arguments_schema
from manifests.manifest import canonical_json

PAGE = 50
"""Tools on one page of results."""

HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}

_CONTENT_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}

_CONTROLS = {
    "boolean": "checkbox",
    "integer": "number",
    "number": "number",
    "string": "text",
    "array": "text",
    "object": "text",
}


Filters = list[tuple[str, list[tuple[str, int]]]]


class SearchQuery(ToolFilter):
    """Query of `GET /`. An empty field counts as absent, because browsers send empty fields too."""

    page: int = Field(1, ge=1, le=10_000)

    def link(self, page: int) -> str:
        return "/?" + urlencode({**({"q": self.q} if self.q else {}), **self.tags, "page": page})


class WebPage:
    """Request handlers for the page of one gateway. `document` returns the OpenAPI document of the
    API; it is called once, at the first request for the reference.
    """

    def __init__(
        self, gateway: Gateway, finder: ToolFinder, document: Callable[[], dict[str, Any]]
    ) -> None:
        self._gateway = gateway
        self._finder = finder
        self._document = document
        self._files, self._templates = _package_data()
        self._version = gateway.catalog.version
        self._filters_of: dict[bool, Filters] = {}

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/", self.search),
            web.get("/tools/{name}", self.tool),
            web.get("/docs", self.docs),
            web.get("/static/{file:.+}", self.static),
        ]

    async def search(self, request: web.Request) -> web.Response:
        """Show the catalogue by tags; with words, the best matches first."""
        said = {name: value for name, value in request.query.items() if value.strip()}
        try:
            query = SearchQuery.model_validate(said)
        except ValidationError as error:
            wrong = ", ".join(str(problem["loc"][0]) for problem in error.errors())
            text = f"This link asks for something that there is not: {wrong}."
            return self._problem(400, "No such page", text)
        catalog, caller = self._gateway.catalog, request.get(CALLER)
        if query.q:
            async with (caller or ANYONE).slot:
                searched = await self._finder.search(query.q, query.tags, embeds=caller is not None)
            found = searched.tools
        else:
            searched, found = None, catalog.select(**query.tags)
        found = [tool for tool in found if _is_public(tool) or caller is not None]
        start = (query.page - 1) * PAGE
        pages = max(1, -(-len(found) // PAGE))
        return self._html(
            "search.html",
            query=query,
            asked=query.q[:MAX_QUERY],
            filters=self._filters(own=caller is not None),
            chosen=query.tags,
            searched=searched,
            total=len(found),
            start=start,
            tools=found[start : start + PAGE],
            pages=pages,
            before=query.link(min(query.page - 1, pages)) if query.page > 1 else None,
            after=query.link(query.page + 1) if query.page < pages else None,
        )

    async def tool(self, request: web.Request) -> web.Response:
        """Show one tool and a form to call it."""
        name = request.match_info["name"]
        catalog, manifest = self._gateway.catalog, self._gateway.catalog.get(name)
        is_shown = manifest is not None and (_is_public(manifest) or request.get(CALLER))
        if manifest is None or not is_shown:
            name = printable(name)
            tools = (catalog.get(near) for near in catalog.nearest(name))
            nearest = [tool.name for tool in tools if tool is not None and _is_public(tool)]
            return self._problem(404, "Unknown tool", f"No tool is named {name!r}.", nearest)
        shapes = self._gateway.answers.shapes
        return self._html(
            "tool.html",
            tool=manifest,
            changes=await shapes.last_changes(name) if shapes else [],
            fields=_fields(manifest),
            freshness=f"Fresh {freshness_of(manifest)}.",
            refused=not self._gateway.may_use(manifest, None),
            max_rows=self._gateway.settings.max_rows,
        )

    async def docs(self, _: web.Request) -> web.Response:
        """Show the API reference. It may be long, so a thread builds and renders it, once."""
        return _response(await to_thread.run_sync(lambda: self._reference))

    async def static(self, request: web.Request) -> web.Response:
        """A file, under one hash of all files, because modules import by relative paths."""
        file = self._files.get(request.match_info["file"])
        if file is None:
            raise web.HTTPNotFound
        body, content_type = file
        headers = {**HEADERS, hdrs.CACHE_CONTROL: f"public, max-age={YEAR_S}, immutable"}
        return web.Response(body=body, content_type=content_type, charset="utf-8", headers=headers)

    def _filters(self, *, own: bool) -> Filters:
        """The filters of the tools that there are now, with the user's own or without."""
        catalog = self._gateway.catalog
        if self._version != catalog.version:
            self._version, self._filters_of = catalog.version, {}
        if own not in self._filters_of:
            shown = catalog if own else Catalog(tool for tool in catalog if _is_public(tool))
            self._filters_of[own] = _filters(shown)
        return self._filters_of[own]

    @cached_property
    def _reference(self) -> str:
        document = self._document()
        return self._render("docs.html", info=document["info"], operations=operations(document))

    def _render(self, template: str, **context: object) -> str:
        upstream = self._gateway.answers.upstream
        return self._templates.get_template(template).render(
            upstream=upstream,
            simulated="simulated" in upstream,
            only_simulated=upstream == "simulated",
            mode=self._gateway.settings.mode,
            **context,
        )

    def _html(self, template: str, status: int = 200, **context: object) -> web.Response:
        return _response(self._render(template, **context), status)

    def _problem(
        self, status: int, title: str, text: str, nearest: Sequence[str] = ()
    ) -> web.Response:
        return self._html("problem.html", status, title=title, text=text, nearest=nearest)


def _response(page: str, status: int = 200) -> web.Response:
    headers = {**HEADERS, hdrs.CACHE_CONTROL: "no-cache"}
    return web.Response(text=page, status=status, content_type="text/html", headers=headers)


@cache
def _package_data() -> tuple[Mapping[str, tuple[bytes, str]], Environment]:
    """Return the static files by their path under `/static/`, and the compiled templates."""
    folder = files("gateway.api").joinpath("static")
    read = {file.name: file.read_bytes() for file in folder.iterdir()}
    version = blake2b(b"".join(read[name] for name in sorted(read)), digest_size=8).hexdigest()
    kinds = {name: name.rpartition(".")[2] for name in read}
    static = {
        f"{version}/{name}": (read[name], _CONTENT_TYPES[kind])
        for name, kind in kinds.items()
        if kind in _CONTENT_TYPES
    }
    templates = {name: read[name].decode() for name, kind in kinds.items() if kind == "html"}
    environment = Environment(
        loader=DictLoader(templates),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.globals["asset"] = lambda name: f"/static/{version}/{name}"
    environment.filters["words"] = lambda text: text.replace("_", " ")
    environment.filters["value"] = _text
    environment.filters["coded"] = _coded
    environment.filters["plain"] = plain
    environment.filters["utc"] = _utc
    for name in templates:
        environment.get_template(name)
    return static, environment


def _is_public(tool: Manifest) -> bool:
    """Whether callers that need a key, and have none, may see a tool: it is a packaged one."""
    return tool.provider is None


def _filters(catalog: Catalog) -> Filters:
    """Return each kind of tag with its values and the number of tools that carry each."""
    counts: dict[str, Counter[str]] = {
        "source": Counter(tool.source for tool in catalog),
        "domain": Counter(domain for tool in catalog for domain in tool.regulatory_domains),
        "timeliness": Counter(tool.timeliness for tool in catalog),
        "intent": Counter(tool.intent_type for tool in catalog),
        "provider": Counter(tool.home for tool in catalog),
    }
    kinds = {**TAGS, "provider": tuple(catalog.providers and ("finport", *catalog.providers))}
    found = ((kind, [(v, counts[kind][v]) for v in values]) for kind, values in kinds.items())
    return [(kind, [pair for pair in values if pair[1]]) for kind, values in found if values]


def _fields(manifest: Manifest) -> list[dict[str, Any]]:
    """Return the fields of a tool's form: the arguments that an agent may give. `value` is what
    the form starts with.
    """
    schema, sample, fields = arguments_schema(manifest), manifest.sample(), []
    types = {p.name: p.type for p in manifest.parameters}
    for name, said in schema["properties"].items():
        type_, default, required = types[name], said.get("default"), name in schema["required"]
        options = said.get("enum", ())
        if type_ == "boolean" and default is None and not required:
            options = (True, False)  # an empty checkbox can't tell "no" from "not given"
        field = {
            "name": name,
            "control": "select" if options else _CONTROLS[type_],
            "type": type_,
            "required": required,
            "hint": said["description"],
            "options": options,
            # A field without the choice "not given" starts with the default.
            "value": sample.get(name, default if options or type_ == "boolean" else None),
            "default": default,
            "example": next(iter(said.get("examples", ())), None),
        }
        fields.append(field)
    return fields


def _text(value: object) -> str:
    """Return a value as the text that a form holds."""
    if isinstance(value, list | dict):
        return canonical_json(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _utc(time: float) -> str:
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M} UTC"


def _coded(text: str) -> Markup:
    """Return one line of plain text as HTML."""
    parts = text.split("`")
    return Markup().join(
        Markup("<code>{}</code>").format(part) if n % 2 and n < len(parts) - 1 else part
        for n, part in enumerate(parts)
    )

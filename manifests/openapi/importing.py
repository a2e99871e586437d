"""Turns an OpenAPI document into manifests, and says what it leaves out and why.

The document may come from anyone: nothing of it is run, its texts become words, and the work is
bounded. Operations without side effects are GET and HEAD.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, get_args
from urllib.parse import urljoin, urlsplit

from pydantic import ValidationError

from manifests.common.addresses import is_public_host
from manifests.common.problem import first_problem
from manifests.common.text import words_of
from manifests.formats import short
from manifests.manifest import (
    Column,
    HttpBinding,
    Manifest,
    Method,
    check_base_url,
)
from manifests.openapi.document import OpenApiError
from manifests.openapi.parameters import Arguments
from manifests.openapi.samples import Samples
from manifests.openapi.schemas import LeftOutError, Schemas
from manifests.openapi.security import SecuritySchemes

MAX_TOOLS: Final = 5_000
MAX_REASONS: Final = 5_000
IMPORT_S: Final = 60.0

MAX_SIZE: Final = 32 * 2**20
"""The most characters of the schemas of all tools of a document."""

MAX_PATH: Final = 2_000
MAX_NAME: Final = 64
MAX_DESCRIPTION: Final = 1_000
MAX_COLUMNS: Final = 100

_ODD = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What reading an operation raises that is not as OpenAPI says."""

_METHODS: Final = ("get", "head", "post", "put", "patch", "delete", "options", "trace")
_JSON = re.compile(r"application/([\w.+-]+\+)?json|text/json", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An operation, or a part of one, that is not imported, and the reason."""

    operation: str
    reason: str


@dataclass(slots=True)
class Imported:
    """What a document became. `present` counts its operations, `chosen` those that were asked for;
    `notes` tell what single tools lack.
    """

    title: str
    version: str
    present: int = 0
    chosen: int = 0
    manifests: list[Manifest] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    notes: list[LeftOut] = field(default_factory=list)


def imported(
    document: Mapping[str, Any],
    *,
    prefix: str = "",
    base_url: str | None = None,
    url: str | None = None,
    takes: Callable[..., bool] = lambda *_names: True,
    tags: Iterable[str] = (),
    import_s: float = IMPORT_S,
) -> Imported:
    """The operations of a document as manifests, whose names leave room for `prefix`.

    `base_url` takes the place of its servers. `url` is where it was fetched: then its servers are
    of the same origin, or public. `takes` gets the names of a tool and says whether it is asked
    for, as do `tags` if there are any. Raises `OpenApiError`.
    """
    return _Import(document, prefix, base_url, url, takes, frozenset(tags), import_s).run()


@dataclass
class _Import:
    document: Mapping[str, Any]
    prefix: str
    base_url: str | None
    url: str | None
    takes: Callable[..., bool]
    tags: frozenset[str]
    import_s: float

    def __post_init__(self) -> None:
        self._until = time.monotonic() + self.import_s
        self._schemas = Schemas(self.document)
        self._samples = Samples()
        self._security = SecuritySchemes(self.document, self._schemas)
        self._taken = set[str]()
        self._size = 0
        info = self.document.get("info")
        info = info if isinstance(info, dict) else {}
        self._out = Imported(
            words_of(str(info.get("title", "")), 80), words_of(str(info.get("version", "")), 40)
        )

    def run(self) -> Imported:
        paths = self.document.get("paths", {})
        if not isinstance(paths, dict):
            raise OpenApiError("its field paths is no object")
        beyond = 0
        for path, method, item, operation in self._operations(paths):
            self._out.present += 1
            if time.monotonic() > self._until:
                raise OpenApiError(f"importing it takes more than {self.import_s:g} s")
            name = f"{method.upper()} {path}"
            if not self._is_chosen(name, method, path, operation):
                continue
            self._out.chosen += 1
            if len(self._out.manifests) >= MAX_TOOLS:
                beyond += 1
                continue
            try:
                self._out.manifests.append(self._tool(name, method, path, item, operation))
            except LeftOutError as error:
                self._leave_out(name, str(error))
            except ValidationError as error:
                self._leave_out(name, first_problem(error))
            except _ODD as error:
                self._leave_out(name, f"it is not as OpenAPI says ({type(error).__name__})")
        if beyond:
            self._out.left_out.append(
                LeftOut(f"{beyond} more", f"at most {MAX_TOOLS} operations become tools")
            )
        return self._out

    def _leave_out(self, operation: str, reason: str) -> None:
        if len(self._out.left_out) < MAX_REASONS:
            self._out.left_out.append(LeftOut(words_of(operation, 200), words_of(reason, 300)))

    def _operations(
        self, paths: Mapping[str, Any]
    ) -> Iterator[tuple[str, str, dict[str, Any], dict[str, Any]]]:
        for path, item in paths.items():
            if path.startswith("x-"):
                continue
            try:
                found = self._schemas.follow(item)
                if found is not item:  # what stands beside the reference counts as well
                    found = {**found, **{n: v for n, v in item.items() if n != "$ref"}}
            except LeftOutError as error:
                self._out.present += 1
                self._out.chosen += 1
                self._leave_out(path, str(error))
                continue
            for method in _METHODS:
                if method in found:
                    operation = found[method]
                    yield path, method, found, operation if isinstance(operation, dict) else {}

    def _is_chosen(self, name: str, method: str, path: str, operation: dict[str, Any]) -> bool:
        tags = operation.get("tags")
        if self.tags and not self.tags & {t for t in tags or () if isinstance(t, str)}:
            return False
        given = operation.get("operationId")
        plain = _name_of(operation, method, path, MAX_NAME)
        names = {plain, f"{self.prefix}{plain}", name}
        return self.takes(*names, *([given] if isinstance(given, str) else ()))

    def _tool(
        self, said: str, method: str, path: str, item: dict[str, Any], operation: dict[str, Any]
    ) -> Manifest:
        if method.upper() not in get_args(Method):
            raise LeftOutError(f"{method.upper()} is no method of a tool")
        if len(path) > MAX_PATH:
            raise LeftOutError(f"its path has over {MAX_PATH} characters")
        security = self._security.of(operation)
        self._samples.begin()
        arguments = Arguments(self._schemas, self._samples, self._security.sent(security))
        reads = method in ("get", "head")
        arguments.take_parameters(path, item.get("parameters"), operation.get("parameters"))
        if not reads:
            arguments.take_body(operation.get("requestBody"))
        elif "requestBody" in operation:
            arguments.notes.append(f"its body is left out: {method.upper()} has none")
        self._size += arguments.size
        if self._size > MAX_SIZE:
            raise LeftOutError("the schemas of all tools before it are too long")
        base_url = self._server(operation, item)
        accept, columns = self._answer(operation)
        binding = HttpBinding(
            base_url=base_url,
            method=method.upper(),  # type: ignore[arg-type]  # it was looked up above
            path=path,
            parts=tuple(arguments.parts),
            media_type=arguments.media_type,
            has_body=arguments.has_body,
            security=self._security.absolute(security, lambda u: self._token_url(base_url, u)),
            accept=accept,
        )
        manifest = Manifest(
            name=self._unique(_name_of(operation, method, path, MAX_NAME - len(self.prefix))),
            description=_description(operation, said),
            timeliness="realtime",
            intent_type="informational" if reads else "transactional",
            regulatory_domains=(),
            parameters=tuple(arguments.parameters),
            columns=columns,
            binding=binding,
            generated=f"openapi {self._out.title} {self._out.version}".strip(),
        )
        for note in arguments.notes[: MAX_REASONS - len(self._out.notes)]:
            self._out.notes.append(LeftOut(words_of(said, 200), words_of(note, 300)))
        return manifest

    def _unique(self, name: str) -> str:
        unique, number = name, 2
        while unique in self._taken:
            end = f"_{number}"
            unique, number = f"{name[: MAX_NAME - len(self.prefix) - len(end)]}{end}", number + 1
        self._taken.add(unique)
        return unique

    def _server(self, operation: dict[str, Any], item: dict[str, Any]) -> str:
        """The URL below which requests are sent. Raises `LeftOutError`."""
        if self.base_url is not None:
            return _checked(self.base_url.rstrip("/"))
        lists = (level.get("servers") for level in (operation, item, self.document))
        servers = next((one for one in lists if isinstance(one, list) and one), [{"url": "/"}])
        reason: LeftOutError | None = None
        for server in servers[:20]:
            try:
                return self._allowed(_server_url(self._schemas.follow(server)))
            except LeftOutError as error:
                reason = reason or error
        raise reason or LeftOutError("it names no server")

    def _allowed(self, server: str) -> str:
        if self.url is not None:
            server = urljoin(self.url, server)
        elif "://" not in server:
            raise LeftOutError(
                f"its server is {short(server)}, which names no host: give a base URL"
            )
        server = _checked(server.rstrip("/"))
        self._check_remote(server)
        return server

    def _check_remote(self, url: str) -> None:
        """Raises `LeftOutError` for a host that only the operator may name."""
        host = urlsplit(url).hostname or ""
        is_own = self.url is not None and _origin(url) == _origin(self.url)
        if self.url is not None and not is_own and not is_public_host(host):
            raise LeftOutError(
                f"its server {short(host)} is not public, and the document was fetched from "
                "elsewhere: name it as the base URL if that is meant"
            )

    def _token_url(self, base_url: str, url: str) -> str:
        joined = _checked(urljoin(f"{base_url}/", url), query=True)
        if self.base_url is None or _origin(joined) != _origin(self.base_url):
            self._check_remote(joined)
        return joined

    def _answer(self, operation: dict[str, Any]) -> tuple[str, tuple[Column, ...]]:
        """The media types to ask for, and the columns of a plain table."""
        responses = operation.get("responses")
        if not isinstance(responses, dict):
            return _ANY, ()
        for status in ("200", "201", "2XX", "default"):
            if status not in responses:
                continue
            try:
                content = self._schemas.follow(responses[status]).get("content")
                types = content if isinstance(content, dict) else {}
                for type_, media in types.items():
                    if _JSON.fullmatch(type_.partition(";")[0].strip()):
                        return _accepting(type_), self._columns(media)
                for type_ in types:
                    if type_.startswith("text/csv"):
                        return _accepting(type_), ()
            except LeftOutError:
                pass
            break
        return _ANY, ()

    def _columns(self, media: Any) -> tuple[Column, ...]:
        follow = self._schemas.follow
        try:
            rows = follow(media.get("schema") if isinstance(media, dict) else {})
            if rows.get("type") != "array":
                return ()
            properties = follow(rows.get("items")).get("properties")
            columns = []
            for name, schema in properties.items() if isinstance(properties, dict) else ():
                one = follow(schema)
                type_ = one.get("type")
                if type_ not in ("string", "number", "integer", "boolean"):
                    return ()
                words = words_of(one.get("description"), 200) or None
                columns.append(Column(name=words_of(name, 200), type=type_, description=words))
            return tuple(columns) if len(columns) <= MAX_COLUMNS else ()
        except (LeftOutError, ValidationError):
            return ()


_ANY: Final = "application/json, text/csv;q=0.8, text/plain;q=0.7, */*;q=0.1"


def _accepting(type_: str) -> str:
    plain = type_.strip()
    is_plain = re.fullmatch(r"[\w.+/-]+", plain)
    return f"{plain}, */*;q=0.1" if is_plain else _ANY


def _name_of(operation: Mapping[str, Any], method: str, path: str, most: int) -> str:
    given = operation.get("operationId")
    text = given[:200] if isinstance(given, str) else ""
    if not re.search(r"[A-Za-z0-9]", text):
        text = f"{method} {path[:200]}"
    words = re.sub(r"[^A-Za-z0-9_-]+", "_", text).strip("_")
    return words[: max(most, 1)].rstrip("_") or method


def _description(operation: Mapping[str, Any], said: str) -> str:
    summary = words_of(operation.get("summary"), 200)
    more = words_of(operation.get("description"), MAX_DESCRIPTION)
    if summary and not summary.endswith((".", "!", "?")):
        summary += "."
    text = f"{summary} {more}".strip() if not more.startswith(summary[:-1]) else more
    old = "Deprecated. " if operation.get("deprecated") is True else ""
    return words_of(f"{old}{text or said}", MAX_DESCRIPTION)


def _server_url(server: Mapping[str, Any]) -> str:
    """The URL of a server, with the defaults of its variables. Raises `LeftOutError`."""
    url = server.get("url")
    if not isinstance(url, str):
        raise LeftOutError("its server has no URL")
    variables = server.get("variables")
    for name, variable in variables.items() if isinstance(variables, dict) else ():
        default = variable.get("default") if isinstance(variable, dict) else None
        if default is not None:
            url = url.replace(f"{{{name}}}", str(default))
    return url


def _checked(url: str, *, query: bool = False) -> str:
    try:
        check_base_url(url.partition("?")[0] if query else url)
    except ValueError as error:
        raise LeftOutError(f"its server: {error}") from None
    return url


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, port

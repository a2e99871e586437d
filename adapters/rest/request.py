"""Builds a request exactly as an `HttpBinding` says.

The styles are those of OpenAPI, which follow RFC 6570. An argument can't affect other parts of a
request: in URL and cookies it is percent-encoded, and in headers control characters are refused.
Arrays and objects within others have no style, and become their JSON text.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any, Final
from urllib.parse import quote

import orjson
from yarl import URL

from adapters.fault import UpstreamFault
from manifests import HttpBinding, Manifest, Scalar
from manifests.manifest import Part

MAX_URL: Final = 8_000
"""The longest URL that is sent; RFC 9110, section 4.1, asks everyone to support this length."""

MAX_HEADER: Final = 8_000

_DOT_SEGMENT = re.compile(r"/(\.|%2e){1,2}(/|$)", re.IGNORECASE)
_IN_BRACES = re.compile(r"\{([^{}]+)\}")
_RESERVED: Final = ":/?@!$'()*,;"
"""Characters that `allowReserved` keeps; those that separate the parts of a query, and brackets,
are encoded all the same.
"""

_TEMPLATE_SAFE: Final = "/:@!$&'()*+,;=~%"
_DELIMITERS: Final = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}
FORM: Final = "application/x-www-form-urlencoded"


@dataclass(slots=True)
class Request:
    """A request, in the making; `query` holds encoded pairs."""

    method: str
    base_url: str
    path: str
    query: list[str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    cookies: list[str] = field(default_factory=list)
    body: bytes | None = None

    def add_query(self, name: str, text: str) -> None:
        self.query.append(f"{_encoded(name)}={_encoded(text)}")

    def add_cookie(self, name: str, text: str) -> None:
        self.cookies.append(f"{name}={_encoded(text)}")

    def sent(self) -> tuple[URL, dict[str, str]]:
        """The URL and the headers. Raises `UpstreamFault` (`invalid`) if they can't be sent."""
        query = f"?{'&'.join(self.query)}" if self.query else ""
        text = f"{self.base_url.rstrip('/')}{self.path}{query}"
        if _DOT_SEGMENT.search(self.path):
            raise UpstreamFault("misused", "an argument is a dot segment of the path")
        if len(text) > MAX_URL:
            words = f"the arguments make a URL of more than {MAX_URL} characters"
            raise UpstreamFault("misused", words)
        headers = dict(self.headers)
        if self.cookies:
            headers["Cookie"] = "; ".join(self.cookies)
        if not all(text.isprintable() for text in headers.values()):
            raise UpstreamFault("misused", "an argument that is sent as a header is not printable")
        if sum(map(len, headers.values())) > MAX_HEADER:
            words = f"the arguments make headers of more than {MAX_HEADER} characters"
            raise UpstreamFault("misused", words)
        return URL(text, encoded=True), headers


def request_of(
    manifest: Manifest, binding: HttpBinding, arguments: Mapping[str, Scalar]
) -> Request:
    """The request of a call without its credentials. Raises `UpstreamFault` (`invalid`)."""
    parameters = {p.name: p for p in manifest.parameters}
    values = {name: parameters[name].shown(value) for name, value in arguments.items()}
    in_path: dict[str, str] = {}
    fields: list[tuple[Part, Any]] = []
    request = Request(binding.method, binding.base_url, "", headers={"Accept": binding.accept})
    for part in binding.parts:
        if part.argument not in values:
            continue
        value = values[part.argument]
        match part.place:
            case "path":
                in_path[part.name] = _in_path(part, value)
            case "query":
                request.query += _pairs(part, value)
            case "header":
                request.headers[part.name] = _expanded(part, value, str)
            case "cookie":
                request.cookies += (pair.replace("&", "; ") for pair in _pairs(part, value))
            case "field" | "body":
                fields.append((part, value))
    template = quote(binding.path, safe=f"{_TEMPLATE_SAFE}{{}}")
    names = {quote(name, safe=_TEMPLATE_SAFE): text for name, text in in_path.items()}
    request.path = _IN_BRACES.sub(lambda found: names[found[1]], template)
    if binding.media_type and (fields or binding.has_body):
        request.headers["Content-Type"], request.body = _body(binding.media_type, fields)
    return request


def _in_path(part: Part, value: Any) -> str:
    """A path parameter, expanded. Raises `UpstreamFault` (`misused`) if nothing is left of it."""
    if isinstance(value, list | dict) and not value and part.style != "json":
        raise UpstreamFault("misused", f"{part.argument} is empty, and stands in the path")
    return _expanded(part, value, _encoded)


_SIMPLE: Final = ("", ",", False)
_FORMS: Final = {"label": (".", ".", False), "matrix": (";", ";", True)}
"""By style, what an expansion begins with, what joins its parts, and whether they are named. Any
other style is expanded as `simple`.
"""


def _expanded(part: Part, value: Any, encode: Callable[[str], str]) -> str:
    """A parameter of a path or a header."""
    if part.style == "json":
        return encode(_json(value))
    lead, joint, is_named = _FORMS.get(part.style, _SIMPLE)
    if isinstance(value, dict):
        pairs = [(encode(key), encode(_text(inner))) for key, inner in value.items()]
        items = [f"{key}={inner}" for key, inner in pairs]
        flat = ",".join(text for pair in pairs for text in pair)
    else:
        items = [encode(_text(one)) for one in (value if isinstance(value, list) else [value])]
        flat = ",".join(items)
    name = f"{encode(part.name)}=" if is_named else ""
    if not part.explode:
        return f"{lead}{name}{flat}"
    if not isinstance(value, dict):
        items = [f"{name}{one}" for one in items]
    return lead + joint.join(items)


def _pairs(part: Part, value: Any) -> list[str]:
    """A parameter of a query, a form or a cookie, as encoded pairs; none of an empty array."""
    safe = _RESERVED if part.reserved else ""
    name = quote(part.name, safe="")

    def encoded(inner: Any) -> str:
        return quote(_text(inner), safe=safe)

    if part.style == "json":
        return [f"{name}={quote(_json(value), safe=safe)}"]
    if not isinstance(value, list | dict):
        return [f"{name}={encoded(value)}"]
    if not value:
        return []
    if part.style == "deepObject":
        return [f"{path}={quote(text, safe=safe)}" for path, text in _deep(name, value)]
    if isinstance(value, list):
        if part.explode:
            return [f"{name}={encoded(one)}" for one in value]
        return [f"{name}={_DELIMITERS[part.style].join(map(encoded, value))}"]
    if part.explode:
        return [f"{quote(key, safe='')}={encoded(inner)}" for key, inner in value.items()]
    flat = (text for key, inner in value.items() for text in (quote(key, safe=""), encoded(inner)))
    return [f"{name}={_DELIMITERS[part.style].join(flat)}"]


def _deep(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Pairs `name[key]=text`, also of values within values."""
    if not isinstance(value, list | dict):
        yield name, _text(value)
        return
    items: Iterable[tuple[Any, Any]] = (
        value.items() if isinstance(value, dict) else enumerate(value)
    )
    for key, inner in items:
        yield from _deep(f"{name}%5B{quote(str(key), safe='')}%5D", inner)


def _body(media_type: str, fields: list[tuple[Part, Any]]) -> tuple[str, bytes]:
    """The content type and the content of a body."""
    whole = next((value for part, value in fields if part.place == "body"), None)
    named = {part.name: value for part, value in fields if part.place == "field"}
    if media_type == "text/plain":
        return "text/plain; charset=utf-8", _text(whole).encode()
    if media_type not in (FORM, "multipart/form-data"):
        value = whole if whole is not None else named
        return media_type, orjson.dumps(value)
    parts = [(part, value) for part, value in fields if part.place == "field"]
    if isinstance(whole, dict):
        parts = [
            (Part(argument=name, place="field", name=name, style="form", explode=True), value)
            for name, value in whole.items()
        ]
    if media_type == FORM:
        return FORM, "&".join(
            pair for part, value in parts for pair in _pairs(part, value)
        ).encode()
    return _multipart(parts)


def _multipart(parts: list[tuple[Part, Any]]) -> tuple[str, bytes]:
    boundary = token_hex(16)
    out = bytearray()
    for part, value in parts:
        name = part.name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
        for one in value if isinstance(value, list) else [value]:
            out += f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n'.encode()
            if isinstance(one, dict | list):
                out += b"Content-Type: application/json\r\n"
            out += b"\r\n" + _text(one).encode() + b"\r\n"
    out += f"--{boundary}--\r\n".encode()
    return f"multipart/form-data; boundary={boundary}", bytes(out)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return _json(value)


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


def _encoded(text: str) -> str:
    return quote(text, safe="")

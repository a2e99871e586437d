"""A local server that checks each request against an OpenAPI document, by jsonschema.

It shares no code with the import: it reads documents by the usual libraries, decodes parameters
from the raw URL by their styles, and follows references in the document itself.
"""

import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from email.parser import BytesParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import jsonschema
import yaml
from aiohttp import web
from jsonschema import Draft202012Validator, FormatChecker, ValidationError
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from tests.support.upstreams import upstream

METHODS = ("get", "head", "post", "put", "patch", "delete")
_URI = "urn:document"
_FORMATS = FormatChecker(["date", "uuid", "ipv4", "email"])


def load(path: Path) -> dict[str, Any]:
    text = path.read_text()
    found: dict[str, Any] = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    return found


class Checker:
    """Checks requests; `problems` are what was wrong, and `seen` the operations that came."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = json.loads(json.dumps(document, default=str))
        resource = DRAFT202012.create_resource(self._document)
        self._registry = Registry().with_resource(_URI, resource)
        self._routes = sorted(self._operations(), key=_templated)
        self.problems: list[str] = []
        self.seen: list[str] = []
        self.strictly = True
        """Whether patterns and formats count."""

    def _operations(self) -> Iterator[tuple[str, re.Pattern[str], str, str]]:
        for path in self._document["paths"]:
            pointer = self._followed(f"/paths/{_escaped(path)}")
            form = re.sub(r"\\\{([^{}]+)\\\}", "([^/]*)", re.escape(path))
            for method in METHODS:
                if method in self._at(pointer):
                    yield path, re.compile(form), method, pointer

    def _at(self, pointer: str) -> Any:
        value: Any = self._document
        for part in pointer.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            value = value[int(name)] if isinstance(value, list) else value[name]
        return value

    def _followed(self, pointer: str) -> str:
        while isinstance(self._at(pointer), dict) and "$ref" in self._at(pointer):
            pointer = unquote(self._at(pointer)["$ref"]).removeprefix("#")
        return pointer

    def check(self, method: str, raw: str, headers: Mapping[str, str], body: bytes) -> list[str]:
        """What is wrong with a request."""
        path, _, query = raw.partition("?")
        found = [
            (route, match)
            for route in self._routes
            if route[2] == method.lower() and (match := route[1].fullmatch(path))
        ]
        if not found:
            return [f"no operation is {method} {path}"]
        all_wrong = []
        for (template, _, _, item), match in found:
            names = re.findall(r"\{([^{}]+)\}", template)
            in_path = dict(zip(names, match.groups(), strict=True))
            wrong = [*self._wrong(item, method.lower(), in_path, query, headers, body)]
            if not wrong:
                self.seen.append(f"{method} {template}")
                return []
            all_wrong += [f"{method} {template}: {one}" for one in wrong]
        return all_wrong

    def _wrong(
        self,
        item: str,
        method: str,
        in_path: Mapping[str, str],
        query: str,
        headers: Mapping[str, str],
        body: bytes,
    ) -> Iterator[str]:
        operation = f"{item}/{method}"
        pairs = _pairs(query, "&")
        cookies = _pairs(headers.get("Cookie", "").replace(" ", ""), ";")
        parameters: dict[tuple[str, str], str] = {}
        for place in (item, operation):
            for number in range(len(self._at(place).get("parameters", ()))):
                pointer = self._followed(f"{place}/parameters/{number}")
                said = self._at(pointer)
                parameters[said["in"], said["name"]] = pointer
        known = self._credentials()
        for (place, name), pointer in parameters.items():
            said = self._at(pointer)
            if place == "header" and name.lower() in ("accept", "content-type", "authorization"):
                continue
            try:
                schema, value = self._value(pointer, said, in_path, pairs, headers, cookies, known)
            except (ValueError, KeyError, IndexError) as error:
                yield f"{name} can't be decoded: {error!r}"
                continue
            if value is None:
                if said.get("required") or place == "path":
                    yield f"{name} is missing"
                continue
            yield from (f"{name}: {text}" for text in self._invalid(schema, value))
        odd = {name for name, _ in pairs} - known
        if odd:
            yield f"the query has {odd}"
        yield from self._wrong_body(operation, headers.get("Content-Type", ""), body)

    def _credentials(self) -> set[str]:
        schemes = self._document.get("components", {}).get("securitySchemes", {})
        return {s.get("name") for s in schemes.values() if s.get("in") == "query"}

    def _value(
        self,
        pointer: str,
        said: Mapping[str, Any],
        in_path: Mapping[str, str],
        pairs: list[tuple[str, str]],
        headers: Mapping[str, str],
        cookies: list[tuple[str, str]],
        known: set[str],
    ) -> tuple[str, Any]:
        place, name = said["in"], said["name"]
        if "content" in said:
            media = next(iter(said["content"]))
            raw = {"query": dict(pairs), "path": in_path, "header": headers}[place].get(name)
            known.add(name)
            value = None if raw is None else json.loads(unquote(raw) if place != "header" else raw)
            return f"{pointer}/content/{_escaped(media)}/schema", value
        schema = f"{pointer}/schema"
        style = said.get("style") or {"query": "form", "cookie": "form"}.get(place, "simple")
        explode = said.get("explode", style in ("form", "deepObject"))
        kind = self._kind(schema)
        if place == "path":
            return schema, self._of_path(name, in_path[name], style, explode, kind, schema)
        if place == "header":
            raw = headers.get(name)
            if raw is None:
                return schema, None
            return schema, self._flat(raw.split(","), explode, kind, schema, raw, str)
        given = pairs if place == "query" else cookies
        if style == "deepObject":
            found = {n: unquote(v) for n, v in given if n.startswith(f"{name}[")}
            known |= set(found)
            return schema, self._deep(found, len(name), schema) if found else None
        if kind == "object" and explode:
            properties = self._properties(schema)
            found = {n: unquote(v) for n, v in given if n in properties}
            known |= set(found)
            return schema, {n: self._typed(v, f"{properties[n]}") for n, v in found.items()} or None
        known.add(name)
        values = [value for n, value in given if n == name]
        if not values:
            return schema, None
        if kind == "array" and explode:
            return schema, [self._typed(unquote(v), f"{self._items(schema)}") for v in values]
        if len(values) > 1:
            raise ValueError(f"{name} stands twice")
        joint = {"spaceDelimited": "%20", "pipeDelimited": "%7C"}.get(style, ",")
        return schema, self._flat(values[0].split(joint), False, kind, schema, values[0], unquote)

    def _flat(
        self, parts: list[str], explode: bool, kind: str, schema: str, raw: str, decode: Any
    ) -> Any:
        if kind == "array":
            return [self._typed(decode(part), self._items(schema)) for part in parts]
        if kind == "object":
            flat = [
                decode(p) for part in parts for p in (part.split("=", 1) if explode else [part])
            ]
            properties = self._properties(schema)
            return {
                n: self._typed(v, properties.get(n))
                for n, v in zip(flat[::2], flat[1::2], strict=True)
            }
        return self._typed(decode(raw), schema)

    def _of_path(
        self, name: str, raw: str, style: str, explode: bool, kind: str, schema: str
    ) -> Any:
        if style == "simple":
            return self._flat(raw.split(","), explode, kind, schema, raw, unquote)
        lead = "." if style == "label" else ";"
        if not raw.startswith(lead):
            raise ValueError(f"{raw} does not begin with {lead}")
        raw = raw[1:]
        if style == "matrix" and not (kind == "object" and explode):
            parts = [part.removeprefix(f"{name}=") for part in raw.split(";")]
            parts = parts if explode else parts[0].split(",")
        else:
            parts = raw.split(lead if explode else ",")
        return self._flat(parts, explode, kind, schema, parts[0] if kind == "" else raw, unquote)

    def _deep(self, found: Mapping[str, str], at: int, schema: str) -> Any:
        tree: dict[str, Any] = {}
        for name, text in found.items():
            *way, last = re.findall(r"\[([^\]]*)\]", name[at:])
            node = tree
            for step in way:
                node = node.setdefault(step, {})
            node[last] = text
        return self._of_tree(tree, schema)

    def _of_tree(self, tree: Any, schema: str | None) -> Any:
        if isinstance(tree, str):
            return self._typed(tree, schema)
        if schema and self._kind(schema) == "array":
            return [self._of_tree(value, self._items(schema)) for value in tree.values()]
        properties = self._properties(schema) if schema else {}
        return {n: self._of_tree(value, properties.get(n)) for n, value in tree.items()}

    def _schema(self, pointer: str) -> dict[str, Any]:
        found = self._at(self._followed(pointer))
        return found if isinstance(found, dict) else {}

    def _parts(self, pointer: str) -> Iterator[str]:
        pointer = self._followed(pointer)
        yield pointer
        for name in ("allOf", "anyOf", "oneOf"):
            for number in range(len(self._schema(pointer).get(name, ()))):
                yield from self._parts(f"{pointer}/{name}/{number}")

    def _kind(self, pointer: str) -> str:
        types = [t for part in self._parts(pointer) for t in _types(self._schema(part))]
        if "string" in types or "integer" in types or "number" in types:
            return ""
        return next((t for t in types if t in ("array", "object")), "")

    def _items(self, pointer: str) -> str | None:
        return next(
            (f"{part}/items" for part in self._parts(pointer) if "items" in self._schema(part)),
            None,
        )

    def _properties(self, pointer: str) -> dict[str, str]:
        return {
            name: f"{part}/properties/{_escaped(name)}"
            for part in self._parts(pointer)
            for name in self._schema(part).get("properties", ())
        }

    def _typed(self, text: str, pointer: str | None) -> Any:
        """A text as the schema's type; a string wins."""
        types = (
            [t for part in self._parts(pointer) for t in _types(self._schema(part))]
            if pointer
            else []
        )
        if not types or "string" in types:
            return text
        return json.loads(text)

    def _invalid(self, pointer: str, value: Any) -> list[str]:
        checker = _FORMATS if self.strictly else None
        validator = _Validator(
            {"$ref": f"{_URI}#{pointer}"}, registry=self._registry, format_checker=checker
        )
        found = []
        for error in validator.iter_errors(value):
            if not self.strictly and error.validator == "pattern":
                continue
            if error.context and not self.strictly and _is_of_patterns(error):
                continue
            found.append(f"{error.json_path} {error.message}"[:300])
        return found

    def _wrong_body(self, operation: str, content_type: str, body: bytes) -> Iterator[str]:
        said = self._at(operation).get("requestBody")
        if said is None:
            if body:
                yield "a body came"
            return
        pointer = self._followed(f"{operation}/requestBody")
        said = self._at(pointer)
        if not body and not content_type:
            if said.get("required"):
                yield "the body is missing"
            return
        plain = content_type.partition(";")[0]
        media = next((m for m in said["content"] if m.partition(";")[0] == plain), None)
        if media is None:
            yield f"the body is {content_type!r}, not {[*said['content']]}"
            return
        pointer = f"{pointer}/content/{_escaped(media)}"
        if "schema" not in self._at(pointer):
            return
        schema = f"{pointer}/schema"
        try:
            if "json" in plain:
                value = json.loads(body)
            elif plain == "application/x-www-form-urlencoded":
                value = self._of_form(pointer, body.decode())
            elif plain == "multipart/form-data":
                value = self._of_multipart(schema, content_type, body)
            else:
                value = body.decode()
        except (ValueError, KeyError) as error:
            yield f"the body can't be read: {error!r}"
            return
        yield from (f"body: {text}" for text in self._invalid(schema, value))

    def _of_form(self, media: str, text: str) -> dict[str, Any]:
        pairs = _pairs(text, "&")
        value: dict[str, Any] = {}
        encoding = self._at(media).get("encoding", {})
        for name, schema in self._properties(f"{media}/schema").items():
            said = {"in": "query", "name": name, "style": "form", **encoding.get(name, {})}
            kind = self._kind(schema)
            if said["style"] == "deepObject":
                found = {n: unquote(v) for n, v in pairs if n.startswith(f"{name}[")}
                if found:
                    value[name] = self._deep(found, len(name), schema)
                continue
            given = [v for n, v in pairs if n == name]
            if kind == "array" and given:
                value[name] = [self._typed(unquote(v), self._items(schema)) for v in given]
            elif given:
                value[name] = self._typed(unquote(given[0]), schema)
        return value

    def _of_multipart(self, schema: str, content_type: str, body: bytes) -> dict[str, Any]:
        head = f"Content-Type: {content_type}\r\n\r\n".encode()
        value: dict[str, Any] = {}
        properties = self._properties(schema)
        for part in BytesParser().parsebytes(head + body).get_payload():
            name = str(part.get_param("name", header="content-disposition"))  # type: ignore[union-attr]
            text = part.get_payload(decode=True).decode()  # type: ignore[union-attr]
            inner = properties[name]
            if self._kind(inner) == "array":
                value.setdefault(name, []).append(self._typed(text, self._items(inner)))
            else:
                value[name] = self._typed(text, inner)
        return value


def _is_of_patterns(error: ValidationError) -> bool:
    """Whether all that a union refuses may be because of patterns."""
    return any(
        inner.validator == "pattern" or (inner.context and _is_of_patterns(inner))
        for inner in error.context or ()
    )


def _pairs(text: str, joint: str) -> list[tuple[str, str]]:
    parts = (part.partition("=") for part in text.split(joint) if part)
    return [(unquote(name), value) for name, _, value in parts]


def _types(schema: Mapping[str, Any]) -> list[str]:
    said = schema.get("type")
    if said is None:
        return ["object"] if "properties" in schema else []
    return [said] if isinstance(said, str) else [*said]


def _templated(route: tuple[str, re.Pattern[str], str, str]) -> int:
    """Sorts the routes that match a path: what has more text of its own comes first."""
    return -len(re.sub(r"\{[^{}]*\}", "", route[0]))


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1").replace("%", "%25")


def _type(validator: Any, types: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if instance is None and schema.get("nullable"):
        return
    yield from Draft202012Validator.VALIDATORS["type"](validator, types, instance, schema) or ()


def _enum(validator: Any, values: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if instance is None and schema.get("nullable"):
        return
    yield from Draft202012Validator.VALIDATORS["enum"](validator, values, instance, schema) or ()


def _required(validator: Any, names: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    properties = schema.get("properties", {})
    needed = [n for n in names if not _is_read_only(validator, properties.get(n, {}))]
    yield from (
        Draft202012Validator.VALIDATORS["required"](validator, needed, instance, schema) or ()
    )


def _is_read_only(validator: Any, schema: Any) -> bool:
    if "$ref" in schema and not schema.get("readOnly"):
        schema = validator._resolver.lookup(schema["$ref"]).contents
    return bool(schema.get("readOnly"))


def _exclusive(name: str, limit: str) -> Any:
    def check(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        bound = schema.get(limit) if value is True else value
        if bound is not None and bound is not False:
            rule = Draft202012Validator.VALIDATORS[name]
            yield from rule(validator, bound, instance, schema) or ()

    return check


_Validator: Any = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    {
        "type": _type,
        "enum": _enum,
        "required": _required,
        "exclusiveMinimum": _exclusive("exclusiveMinimum", "minimum"),
        "exclusiveMaximum": _exclusive("exclusiveMaximum", "maximum"),
    },
)


@asynccontextmanager
async def checking_server(
    document: dict[str, Any], base: str = ""
) -> AsyncIterator[tuple[str, Checker]]:
    """A server at `URL + base`, and its checker. It answers 200 to what is right, else 422."""
    checker = Checker(document)

    async def handler(request: web.Request) -> web.StreamResponse:
        raw = request.raw_path.removeprefix(base)
        wrong = checker.check(request.method, raw, request.headers, await request.read())
        if wrong:
            checker.problems += wrong
            return web.json_response({"message": "; ".join(wrong)[:500]}, status=422)
        return web.json_response({"checked": True, "path": raw})

    async with upstream(handler, most=2**24) as url:
        yield f"{url}{base}", checker

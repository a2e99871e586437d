"""The tools that an MCP server lists, as manifests.

All texts are the server's own words: they are data, bounded and without control characters. A JSON
Schema becomes one that allows no less and costs little to check: references are resolved, recursion
ends, and `pattern`, which can take for ever, is only told in a description.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, cast
from unicodedata import category
from urllib.parse import unquote

import orjson

from manifests.common.problem import first_problem
from manifests.manifest import (
    Column,
    Manifest,
    McpBinding,
    Parameter,
    ParameterType,
    Scalar,
    canonical_json,
    is_of,
)
from manifests.providers import ProviderSettings

MAX_DESCRIPTION: Final = 1_000
MAX_WORDS: Final = 300
"""The most characters of the description of a parameter."""

MAX_NAME: Final = 64
MAX_PARAMETERS: Final = 256
MAX_SCHEMA: Final = 2**14
"""The most bytes of a parameter's schema; a longer one keeps its type only."""

_NODES, _DEPTH = 2_000, 12
"""Schemas within the schema of one tool, and how deep they are nested."""

JSON_TEXT: Final = "json"
"""The format of a string that is the JSON text of a value of one of several types."""

_SCALARS: Final = ("string", "number", "integer", "boolean")
_BOUNDS: Final = (
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
    *("required", "const", "enum", "default", "type"),
)
_LISTS: Final = ("anyOf", "allOf", "prefixItems")
_BY_FORMAT: Final = {
    "date": "2024-01-31",
    "date-time": "2024-01-31T00:00:00Z",
    "time": "00:00:00Z",
    "uri": "https://example.com/",
    "email": "name@example.com",
    "uuid": "123e4567-e89b-42d3-a456-426614174000",
    "ipv4": "192.0.2.1",
}

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Listing:
    """What a server lists: its host, its own name and version, and the entries of `tools/list`."""

    server: str
    said: str
    tools: tuple[Mapping[str, Any], ...]


@dataclass(slots=True)
class Listed:
    """The manifests of a listing, and by tool why another could be none."""

    manifests: list[Manifest] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)


class _Unfit(Exception):
    """A tool can't be served; the text says why."""


def manifests_of(listing: Listing, provider: ProviderSettings) -> Listed:
    """The tools that a provider takes of a listing, without what the provider itself says."""
    found, taken = Listed(), set[str]()
    names = _names((entry.get("name") for entry in listing.tools), MAX_NAME - len(provider.prefix))
    for entry in listing.tools:
        tool = entry.get("name")
        if not isinstance(tool, str) or not tool:
            found.left_out[words(str(tool), MAX_NAME)] = "it has no name"
            continue
        name = names[tool]
        if not provider.takes(tool, name):
            continue
        if name in taken:
            found.left_out[words(tool, MAX_NAME)] = f"another tool before it becomes {name}"
            continue
        try:
            manifest = _manifest(tool, name, entry, listing)
        except _Unfit as unfit:
            found.left_out[words(tool, MAX_NAME)] = str(unfit)
        except ValueError as error:
            found.left_out[words(tool, MAX_NAME)] = words(first_problem(error), MAX_WORDS)
        else:
            taken.add(name)
            found.manifests.append(manifest)
    return found


def words(text: str, most: int) -> str:
    """A text of the server's on one line, without controlling characters, and bounded."""
    start = "".join(" " if category(c)[0] in "CZ" else c for c in text[: 4 * most])
    line = " ".join(start.split())
    return line if len(line) <= most and len(text) <= 4 * most else f"{line[: most - 1]}…"


def _names(tools: Iterable[object], most: int) -> dict[str, str]:
    """A valid name for each tool, whatever their order. A name ends in a hash if it is shortened,
    or is changed and would be the name of several tools.
    """
    plain = {t: re.sub(r"[^A-Za-z0-9_-]", "_", t) for t in tools if isinstance(t, str)}
    counts = Counter(plain.values())
    names = {}
    for tool, name in plain.items():
        names[tool] = name
        if len(name) > most or (name != tool and counts[name] > 1):
            digest = blake2b(tool.encode(errors="replace"), digest_size=4).hexdigest()
            names[tool] = f"{name[: most - 9]}_{digest}"
    return names


def _manifest(tool: str, name: str, entry: Mapping[str, Any], listing: Listing) -> Manifest:
    try:
        orjson.dumps(entry)
    except TypeError:
        raise _Unfit("it holds what JSON of 64-bit numbers and UTF-8 can't") from None
    hints = entry.get("annotations")
    hints = hints if isinstance(hints, dict) else {}
    execution = entry.get("execution")
    if isinstance(execution, dict) and execution.get("taskSupport") == "required":
        raise _Unfit("it only runs as a task of protocol 2025-11-25")
    title = entry.get("title") or hints.get("title")
    about = next((t for t in (entry.get("description"), title) if isinstance(t, str) and t), "")
    reads = hints.get("readOnlyHint") is True
    return Manifest(
        name=name,
        description=words(about, MAX_DESCRIPTION) or f"{name} of {listing.server}",
        timeliness="realtime",
        intent_type="informational" if reads else "transactional",
        regulatory_domains=(),
        parameters=tuple(_parameters(entry.get("inputSchema"))),
        columns=_columns(entry.get("outputSchema")),
        binding=McpBinding(server=listing.server, tool=tool, reads=reads),
        generated=listing.said,
    )


def _parameters(schema: object) -> Iterator[Parameter]:
    """Raises `_Unfit`."""
    if not isinstance(schema, dict):
        raise _Unfit("its inputSchema is no object")
    resolver = _Resolver(schema)
    top = resolver.resolved({k: v for k, v in schema.items() if k != "$defs"})
    properties = top.get("properties", {})
    needed = top.get("required", [])
    if len(properties) > MAX_PARAMETERS:
        raise _Unfit(f"it has over {MAX_PARAMETERS} parameters")
    for name in needed:
        if name not in properties:
            raise _Unfit(f"it requires {words(str(name), MAX_NAME)}, which it does not describe")
    for name, about in properties.items():
        if not name or len(name) > MAX_NAME or not name.isprintable():
            raise _Unfit(f"a parameter has the name {words(name, MAX_NAME)!r}")
        yield _parameter(name, about, name in needed)


def _parameter(name: str, about: Schema, required: bool) -> Parameter:
    about = _single(about)
    types = _types(about) - {"null"}
    if types == {"integer", "number"}:
        types = {"number"}
    about.pop("title", None)
    said = [about.pop("description", "") or name.replace("_", " ")]
    default = about.pop("default", None)
    examples = about.pop("examples", [])
    type_ = cast(ParameterType, next(iter(types))) if len(types) == 1 else None
    if type_ is not None and type_ in _SCALARS:
        enum = about.get("enum") or ([about["const"]] if "const" in about else None)
        allowed = None if enum is None else tuple(v for v in enum if is_of(v, type_))
        if enum is not None and not allowed:
            raise _Unfit(f"no value of {name} is a {type_}")
        if form := about.pop("format", None):
            said.append(f"(format {form})")
        form = about | {"format": form} if form else about
        example = _example(form | {"type": type_}, [*examples, default], required)
        rest = {k: v for k, v in about.items() if k not in ("enum", "const", "type")}
        return _checked(
            Parameter(
                name=name,
                type=type_,
                description=" ".join(said),
                required=required,
                default=None if required else _fitting(default, type_, allowed),
                example=_fitting(example, type_, allowed),
                enum=allowed,
                json_schema={"type": type_, **rest} if rest else None,
            ),
            name,
        )
    is_json = type_ is not None
    type_ = type_ or "string"
    example = _example(about, [*examples, default], required)
    if is_json:
        about["type"] = type_
        if len(orjson.dumps(about)) > MAX_SCHEMA:
            about = {"type": type_}
    else:
        shape = canonical_json(about) if about else "any value"
        said.append(f"As the JSON text of a value: {words(shape, MAX_WORDS)}")
    return _checked(
        Parameter(
            name=name,
            type=type_,
            description=" ".join(said),
            required=required,
            default=None if required else _text_of(default, type_, is_json),
            example=_text_of(example, type_, is_json),
            format=None if is_json else JSON_TEXT,
            json_schema=about if is_json else None,
        ),
        name,
    )


def _checked(parameter: Parameter, name: str) -> Parameter:
    """Raises `_Unfit` if its schema is none, or if it is required and no example was found."""
    schema, example = parameter.json_schema, parameter.example
    if schema is not None:
        from jsonschema import Draft202012Validator

        if (wrong := _wrong(canonical_json(schema))) is not None:
            raise _Unfit(f"the schema of {name} is no JSON Schema: {wrong}")
        if example is not None:
            shown = parameter.shown(example)
            if not Draft202012Validator(schema).is_valid(shown):
                example = None
    if example is None and parameter.required:
        raise _Unfit(f"no example for {name} was found that its schema allows")
    return parameter.model_copy(update={"example": example})


@lru_cache(1_024)  # tools share schemas, and a reload has them again
def _wrong(schema: str) -> str | None:
    """What is wrong with a JSON Schema, if anything."""
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(orjson.loads(schema))
    except SchemaError as error:
        return words(error.message, MAX_WORDS)
    return None


def _fitting(
    value: object, type_: ParameterType, allowed: tuple[Scalar, ...] | None
) -> Scalar | None:
    """A scalar of the type, if it is one and allowed."""
    fits = isinstance(value, str | int | float) and is_of(value, type_)
    if not fits or (allowed is not None and value not in allowed):
        return None
    return value  # type: ignore[return-value]


def _text_of(value: object, type_: str, is_json: bool) -> str | None:
    """The JSON text of a value, which is of this type if the parameter is of one."""
    if value is None or (is_json and not isinstance(value, list if type_ == "array" else dict)):
        return None
    try:
        return canonical_json(value)
    except TypeError:
        return None


def _single(about: Schema) -> Schema:
    """The schema without an alternative of null, where that leaves one."""
    options = [one for one in about.get("anyOf", ()) if one.get("type") != "null"]
    if len(options) == 1 and "type" not in about:
        rest = {k: v for k, v in about.items() if k != "anyOf"}
        return {**options[0], **rest}
    if len(about.get("allOf", ())) == 1:
        rest = {k: v for k, v in about.items() if k != "allOf"}
        return {**about["allOf"][0], **rest}
    if isinstance(about.get("type"), list):
        types = [one for one in about["type"] if one != "null"]
        about = {**about, "type": types[0] if len(types) == 1 else types}
    if isinstance(about.get("enum"), list):
        about = {**about, "enum": [value for value in about["enum"] if value is not None]}
    return {**about}


def _types(about: Schema) -> set[str]:
    """The types that a value may have; none if it may have any."""
    if "type" in about:
        return {about["type"]} if isinstance(about["type"], str) else set(about["type"])
    if "const" in about:
        return {_type_of(about["const"])}
    if about.get("enum"):
        return {_type_of(value) for value in about["enum"]}
    for option in about.get("allOf", ()):
        if found := _types(option):
            return found
    each = [_types(option) for option in about.get("anyOf", ())]
    if each and all(each):
        return set[str]().union(*each)
    return {"object"} if "properties" in about else set()


def _type_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


class _Resolver:
    """Makes the plain form of the schemas within one schema."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._left = _NODES
        self._open: list[str] = []

    def resolved(self, schema: object) -> Schema:
        """The plain form; `{}`, which allows anything, where there is none."""
        self._left -= 1
        if not isinstance(schema, dict) or self._left < 0 or len(self._open) > _DEPTH:
            return {}
        given: Schema = schema
        reference = given.get("$ref")
        if isinstance(reference, str):
            if reference in self._open:
                return {}
            target = self._target(reference)
            rest = {k: v for k, v in given.items() if k != "$ref"}
            return self._within(reference, {**target, **rest})
        return self._within("", given)

    def _within(self, reference: str, given: Schema) -> Schema:
        self._open.append(reference)
        try:
            if isinstance(given.get("$ref"), str):  # of the target
                return self.resolved(given)
            return self._plain(given)
        finally:
            self._open.pop()

    def _plain(self, given: Schema) -> Schema:
        found: Schema = {k: given[k] for k in _BOUNDS if k in given}
        about = [words(given[k], MAX_WORDS) for k in ("description",) if _is_text(given.get(k))]
        if _is_text(given.get("pattern")):
            about.append(f"(pattern {words(given['pattern'], 100)})")
        if not about and _is_text(given.get("title")) and " " in given["title"]:
            about.append(words(given["title"], MAX_WORDS))
        if about:
            found["description"] = " ".join(about)
        if _is_text(given.get("format")):
            found["format"] = words(given["format"], MAX_NAME)
        if isinstance(given.get("examples"), list):
            found["examples"] = given["examples"][:3]
        for key in _LISTS:
            if isinstance(given.get(key), list) and given[key]:
                found[key] = [self.resolved(one) for one in given[key]]
        if isinstance(given.get("oneOf"), list) and given["oneOf"] and "anyOf" not in found:
            found["anyOf"] = [self.resolved(one) for one in given["oneOf"]]
        if isinstance(given.get("properties"), dict):
            found["properties"] = {
                str(name): self.resolved(one) for name, one in given["properties"].items()
            }
        if isinstance(given.get("items"), dict):
            found["items"] = self.resolved(given["items"])
        extra = given.get("additionalProperties")
        if "patternProperties" not in given and extra is not None:
            found["additionalProperties"] = self.resolved(extra) if extra is not False else False
        if not isinstance(found.get("required", []), list):
            del found["required"]
        if "type" in found and not _is_type(found["type"]):
            raise _Unfit(f"{words(str(found['type']), 40)} is no type of JSON Schema")
        if "enum" in found and not isinstance(found["enum"], list):
            raise _Unfit("an enum is no list")
        return found

    def _target(self, reference: str) -> Schema:
        at: Any = self._root
        if not reference.startswith("#/"):
            return {}  # of another document, or of the whole schema
        for part in reference[2:].split("/"):
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            at = at.get(key) if isinstance(at, dict) else None
        return at if isinstance(at, dict) else {}


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_type(value: object) -> bool:
    known = {*_SCALARS, "array", "object", "null"}
    if isinstance(value, list):
        return bool(value) and all(isinstance(one, str) and one in known for one in value)
    return isinstance(value, str) and value in known


def _example(about: Schema, given: list[Any], required: bool) -> Any:
    """An example that the server gives, or for a required parameter one that probably fits."""
    for value in given:
        if value is not None:
            return value
    return _made(about, 0) if required else None


def _made(about: Schema, depth: int) -> Any:
    """A value made of what a schema says."""
    for value in (*about.get("examples", ()), about.get("default"), about.get("const")):
        if value is not None:
            return value
    if about.get("enum"):
        return next((value for value in about["enum"] if value is not None), None)
    for option in (*about.get("anyOf", ()), *about.get("allOf", ())):
        if depth < _DEPTH and (value := _made(option, depth + 1)) is not None:
            return value
    types = sorted(_types(about) - {"null"})
    match types[0] if types else "string":
        case "boolean":
            return True
        case "integer" | "number" as kind:
            return _number(about, whole=kind == "integer")
        case "array":
            one = _made(about.get("items", {}), depth + 1) if depth < _DEPTH else None
            return [one] * min(max(_count(about, "minItems"), 1), 100)
        case "object":
            properties = about.get("properties", {})
            if depth >= _DEPTH:
                return {}
            return {
                name: _made(properties.get(name, {}), depth + 1)
                for name in about.get("required", ())
                if isinstance(name, str)
            }
    text = _BY_FORMAT.get(about.get("format", ""), "text")
    if len(text) < (least := min(_count(about, "minLength"), 1_000)):
        text = text.ljust(least, "x")
    return text[: _count(about, "maxLength") or len(text)]


def _number(about: Schema, *, whole: bool) -> int | float:
    step = _real(about.get("multipleOf"))
    low, over = _real(about.get("minimum")), _real(about.get("exclusiveMinimum"))
    high, under = _real(about.get("maximum")), _real(about.get("exclusiveMaximum"))
    value: int | float = 1
    if step:
        value = step
    if over is not None and value <= over:
        value = over + (step or 1)
    if low is not None and value < low:
        value = low if not step else -(-low // step) * step
    if high is not None and value > high:
        value = high if not step else high // step * step
    if under is not None and value >= under:
        value = under - (step or 1)
    return int(value) if whole or value == int(value) else value


def _real(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return value if abs(value) < 2**53 else None


def _count(about: Schema, key: str) -> int:
    value = about.get(key)
    return value if isinstance(value, int) and value >= 0 else 0


def _columns(schema: object) -> tuple[Column, ...]:
    """The columns of an answer that is an object with one table, a list of flat records."""
    try:
        top = _Resolver(schema).resolved(schema) if isinstance(schema, dict) else {}
    except _Unfit:
        return ()
    properties = top.get("properties", {})
    if len(properties) != 1:
        return ()
    rows = next(iter(properties.values()))
    cells = rows.get("items", {}).get("properties", {}) if rows.get("type") == "array" else {}
    columns = []
    for name, cell in cells.items():
        types = _types(_single(cell)) - {"null"}
        if len(types) != 1 or (type_ := next(iter(types))) not in _SCALARS:
            return ()
        columns.append(Column(name=name, type=type_, description=cell.get("description")))  # type: ignore[arg-type]
    return tuple(columns)

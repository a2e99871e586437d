"""The tools that an MCP server lists, as manifests.

All texts are the server's own words: they are data, bounded and without control characters. A JSON
Schema becomes one that allows no less and costs little to check: references are resolved, recursion
ends, and `pattern`, which can take for ever, is only told in a description.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, cast

import orjson

from manifests.common.problem import first_problem
from manifests.common.text import words_of
from manifests.manifest import (
    Column,
    Manifest,
    McpBinding,
    Parameter,
    ParameterType,
    Scalar,
    canonical,
    canonical_json,
    is_of,
    json_type,
)
from manifests.openapi.schemas import LeftOutError, Schema, Schemas, without_patterns
from manifests.providers import ProviderSettings

if TYPE_CHECKING:
    from manifests.openapi.samples import Samples

MAX_DESCRIPTION: Final = 1_000
MAX_WORDS: Final = 300
"""The most characters of the description of a parameter."""

MAX_NAME: Final = 64
MAX_PARAMETERS: Final = 256
MAX_SCHEMA: Final = 2**14
"""The most bytes of a parameter's schema; a longer one keeps its type only."""

JSON_TEXT: Final = "json"
"""The format of a string that is the JSON text of a value of one of several types."""

_SCALARS: Final = ("string", "number", "integer", "boolean")
_NONE: Final = object()


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


def manifests_of(listing: Listing, provider: ProviderSettings) -> Listed:
    """The tools that a provider takes of a listing, without what the provider itself says."""
    from manifests.openapi.samples import Samples

    found, taken, samples = Listed(), set[str](), Samples()
    names = _names((entry.get("name") for entry in listing.tools), MAX_NAME - len(provider.prefix))
    for entry in listing.tools:
        tool = entry.get("name")
        if not isinstance(tool, str) or not tool:
            found.left_out[words_of(str(tool), MAX_NAME)] = "it has no name"
            continue
        name = names[tool]
        if not provider.takes(tool, name):
            continue
        if name in taken:
            found.left_out[words_of(tool, MAX_NAME)] = f"another tool before it becomes {name}"
            continue
        try:
            samples.begin()
            manifest = _manifest(tool, name, entry, listing, samples)
        except LeftOutError as unfit:
            found.left_out[words_of(tool, MAX_NAME)] = words_of(str(unfit), MAX_WORDS)
        except ValueError as error:
            found.left_out[words_of(tool, MAX_NAME)] = words_of(first_problem(error), MAX_WORDS)
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError) as error:
            text = f"it is not as the protocol says ({type(error).__name__})"
            found.left_out[words_of(tool, MAX_NAME)] = text
        else:
            taken.add(name)
            found.manifests.append(manifest)
    return found


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


def _manifest(
    tool: str, name: str, entry: Mapping[str, Any], listing: Listing, samples: "Samples"
) -> Manifest:
    try:
        orjson.dumps(entry)
    except TypeError:
        raise LeftOutError("it holds what JSON of 64-bit numbers and UTF-8 can't") from None
    hints = entry.get("annotations")
    hints = hints if isinstance(hints, dict) else {}
    execution = entry.get("execution")
    if isinstance(execution, dict) and execution.get("taskSupport") == "required":
        raise LeftOutError("it only runs as a task of protocol 2025-11-25")
    title = entry.get("title") or hints.get("title")
    about = next((t for t in (entry.get("description"), title) if isinstance(t, str) and t), "")
    reads = hints.get("readOnlyHint") is True
    return Manifest(
        name=name,
        description=words_of(about, MAX_DESCRIPTION) or f"{name} of {listing.server}",
        timeliness="realtime",
        intent_type="informational" if reads else "transactional",
        regulatory_domains=(),
        parameters=tuple(_parameters(entry.get("inputSchema"), samples)),
        columns=_columns(entry.get("outputSchema")),
        binding=McpBinding(server=listing.server, tool=tool, reads=reads),
        generated=listing.said,
    )


def _parameters(schema: object, samples: "Samples") -> Iterator[Parameter]:
    """Raises `LeftOutError`."""
    if not isinstance(schema, dict):
        raise LeftOutError("its inputSchema is no object")
    top = Schemas(schema, cut=True).inlined(schema)
    properties = top.get("properties", {})
    needed = top.get("required", [])
    if len(properties) > MAX_PARAMETERS:
        raise LeftOutError(f"it has over {MAX_PARAMETERS} parameters")
    for name in needed:
        if name not in properties:
            raise LeftOutError(
                f"it requires {words_of(name, MAX_NAME)}, which it does not describe"
            )
    for name, about in properties.items():
        if not name or len(name) > MAX_NAME or not name.isprintable():
            raise LeftOutError(f"a parameter has the name {words_of(name, MAX_NAME)!r}")
        yield _parameter(name, about, name in needed, samples)


def _parameter(name: str, about: Schema, required: bool, samples: "Samples") -> Parameter:
    rich = _single(about)
    about = without_patterns(rich)
    types = _types(about) - {"null"}
    if types == {"integer", "number"}:
        types = {"number"}
    type_ = cast(ParameterType, next(iter(types))) if len(types) == 1 else None
    said = [about.pop("description", "") or name.replace("_", " ")]
    default = about.pop("default", None)
    about.pop("examples", None)
    typed = {} if type_ is None else {"type": type_}
    example = _example(name, {**rich, **typed}, required, samples)
    enum = rules = None
    if type_ is None:
        shape = canonical_json(about) if about else "any value"
        said.append(f"As the JSON text of a value: {words_of(shape, MAX_WORDS)}")
    elif type_ in _SCALARS:
        listed = about.get("enum") or ([about["const"]] if "const" in about else None)
        enum = None if listed is None else tuple(v for v in listed if is_of(v, type_))
        if listed is not None and not enum:
            raise LeftOutError(f"no value of {name} is a {type_}")
        if form := about.pop("format", None):
            said.append(f"(format {form})")
        rest = {k: v for k, v in about.items() if k not in ("enum", "const", "type")}
        rules = {**typed, **rest} if rest else None
    else:
        whole = {**about, **typed}
        rules = whole if len(orjson.dumps(whole)) <= MAX_SCHEMA else typed
    default = None if required or default is None else _held(default, type_)
    return Parameter(
        name=name,
        type=type_ or "string",
        description=" ".join(said),
        required=required,
        default=default if enum is None or default in enum else None,
        example=None if example is _NONE else _held(example, type_),
        enum=enum,
        format=JSON_TEXT if type_ is None else None,
        json_schema=rules,
    )


def _example(name: str, schema: Schema, required: bool, samples: "Samples") -> Any:
    """An example that the server gives, or for a required parameter one made up. Raises
    `LeftOutError` if that has none.
    """
    try:
        if required:
            return samples.of(schema)
        given = (*schema.get("examples", ()), schema.get("default"))
        return next(
            (value for value in given if value is not None and samples.allows(schema, value)), _NONE
        )
    except LeftOutError:
        if required:
            text = f"no example for {name} was found that its schema allows"
            raise LeftOutError(text) from None
        return _NONE


def _held(value: Any, type_: ParameterType | None) -> Scalar | None:
    """A value as manifests hold it: one of no single type is JSON text."""
    return canonical_json(value) if type_ is None else canonical(value, type_)


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
        values = [value for value in about["enum"] if value is not None]
        about = {**about, "enum": values or [None]}
    return {**about}


def _types(about: Schema) -> set[str]:
    """The types that a value may have; none if it may have any."""
    if "type" in about:
        return {about["type"]} if isinstance(about["type"], str) else set(about["type"])
    if "const" in about:
        return {json_type(about["const"])}
    if about.get("enum"):
        return {json_type(value) for value in about["enum"]}
    for option in about.get("allOf", ()):
        if found := _types(option):
            return found
    each = [_types(option) for option in about.get("anyOf", ())]
    if each and all(each):
        return set[str]().union(*each)
    return {"object"} if "properties" in about else set()


def _columns(schema: object) -> tuple[Column, ...]:
    """The columns of an answer that is an object with one table, a list of flat records."""
    try:
        top = Schemas(schema, cut=True).inlined(schema) if isinstance(schema, dict) else {}
    except LeftOutError:
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

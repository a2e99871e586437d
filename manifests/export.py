"""Exports manifests to the formats of other systems, each valid by that vendor's rules.

- `jsonschema`: JSON Schema 2020-12 of the arguments. Here and in `mcp`, the schema says that an
  optional argument without a default may be null, as pydantic writes it. Many frameworks make a
  model of the schema: they treat a property without `default` as required, and send null for an
  argument that is left out.
- `openai`: a function tool (Chat Completions). With `strict`, every property is required, optional
  ones may be null, and the description says what strict mode has no keyword for.
- `anthropic`: a Messages API tool. `mcp`: a tool of the Model Context Protocol.
- `fintoolbench`: a line of FinToolBench's manifest file, without its code.

Parameters that only the gateway fills in are left out, except in `fintoolbench`, which mirrors the
published list.
"""

import re
from collections.abc import Callable
from typing import Any, Literal, get_args

from manifests.formats import FORMATS
from manifests.manifest import Manifest, Parameter

ExportFormat = Literal["openai", "anthropic", "mcp", "jsonschema", "fintoolbench"]
EXPORT_FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)

_ASIDE = re.compile(r" *\([^)]*\)")
_TITLE = re.compile(r".{24,120}?(?=[,;:]|\.?$|\. )|.{1,24}(?=\.?$)")
"""The beginning of a description, up to where it makes sense by itself."""

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def export(
    manifest: Manifest, format_: ExportFormat, *, strict: bool = False, tags: bool = True
) -> dict[str, Any]:
    """One tool in `format_`. `tags` puts the finance tags into the description (FinToolBench's
    attribute injection); `strict` is OpenAI's strict mode.
    """
    return _EXPORTERS[format_](manifest, strict, tags)


def describe(manifest: Manifest, *, tags: bool) -> str:
    """The description that a model reads."""
    if not tags:
        return manifest.description
    return (
        f"{manifest.description} [timeliness: {manifest.timeliness}; "
        f"intent: {manifest.intent_type}; domains: {', '.join(manifest.regulatory_domains)}]"
    )


def title(manifest: Manifest) -> str:
    """A title for people: the beginning of the description, or else the words of the name."""
    match = _TITLE.match(_ASIDE.sub("", manifest.description))
    return match[0].rstrip(".") if match else re.sub(r"[_-]+", " ", manifest.name).capitalize()


def arguments_schema(manifest: Manifest, *, nullable: bool = False) -> dict[str, Any]:
    """JSON Schema 2020-12 of the arguments that an agent may give. With `nullable`, an argument
    that may be left out may also be null.
    """
    return _schema(manifest, _or_null if nullable else _property)


def _schema(
    manifest: Manifest, write: Callable[[Parameter], dict[str, Any]], *, strict: bool = False
) -> dict[str, Any]:
    given = [p for p in manifest.parameters if p.filled_by == "agent" and p.withdrawn is None]
    return {
        "type": "object",
        "properties": {p.name: write(p) for p in given},
        "required": [p.name for p in given if p.required or strict],
        "additionalProperties": False,
    }


def _property(p: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": p.type, **(p.json_schema or {})}
    schema["description"] = _in_words(p)
    if p.enum is not None:
        schema["enum"] = list(p.enum)
    if p.filling is not None:
        schema["default"] = p.shown(p.filling)
    if p.example is not None:
        schema["examples"] = [p.shown(p.example)]
    return schema


def _or_null(p: Parameter) -> dict[str, Any]:
    schema = _property(p)
    if p.required or p.default is not None:
        return schema
    own = {"description", "default", "examples", "$defs"}
    given = {key: schema.pop(key) for key in [*schema] if key not in own}
    return {"anyOf": [given, {"type": "null"}], "default": None, **schema}


def _in_words(p: Parameter) -> str:
    form = FORMATS.get(p.format or "")
    return f"{p.description} ({form.words})" if form else p.description


def _strict_property(p: Parameter) -> dict[str, Any]:
    text = _in_words(p)
    if p.filling is not None:
        text += f"; default {p.filling!r}"
    if p.example is not None:
        text += f"; e.g. {p.example!r}"
    if p.is_json:  # strict mode allows few schemas, so the value is given as its JSON text
        text += f"; as the JSON text of an {p.type}"
    type_ = "string" if p.is_json else p.type
    schema: dict[str, Any] = {
        "type": type_ if p.required else [type_, "null"],
        "description": text,
    }
    if p.enum is not None:
        schema["enum"] = [*p.enum] if p.required else [*p.enum, None]
    return schema


def _openai(manifest: Manifest, strict: bool, tags: bool) -> dict[str, Any]:
    write = _strict_property if strict else _property
    function = {
        "name": manifest.name,
        "description": describe(manifest, tags=tags),
        "parameters": _schema(manifest, write, strict=strict),
        **({"strict": True} if strict else {}),
    }
    return {"type": "function", "function": function}


def _anthropic(manifest: Manifest, _strict: bool, tags: bool) -> dict[str, Any]:
    return {
        "name": manifest.name,
        "description": describe(manifest, tags=tags),
        "input_schema": arguments_schema(manifest),
    }


def _mcp(manifest: Manifest, _strict: bool, tags: bool) -> dict[str, Any]:
    return {
        "name": manifest.name,
        "title": title(manifest),
        "description": describe(manifest, tags=tags),
        "inputSchema": arguments_schema(manifest, nullable=True),
        "annotations": annotations(
            title(manifest), changes_something=manifest.intent_type == "transactional"
        ),
    }


def annotations(title_: str, *, changes_something: bool, open_world: bool = True) -> dict[str, Any]:
    """The annotations of an MCP tool, which say whether it changes something. The title is
    repeated here for revision 2025-03-26.
    """
    return {
        "title": title_,
        "readOnlyHint": not changes_something,
        "destructiveHint": changes_something,
        "idempotentHint": not changes_something,
        "openWorldHint": open_world,
    }


def _jsonschema(manifest: Manifest, _strict: bool, tags: bool) -> dict[str, Any]:
    return {
        "$schema": DIALECT,
        "title": manifest.name,
        "description": describe(manifest, tags=tags),
        **arguments_schema(manifest, nullable=True),
    }


def _fintoolbench(manifest: Manifest, _strict: bool, _tags: bool) -> dict[str, Any]:
    properties = {
        p.name: {"type": p.type, "description": p.description} for p in manifest.parameters
    }
    return {
        "name": manifest.name,
        "tool_from": manifest.source,
        "description": manifest.description,
        "parameters": {
            "type": "object",
            "properties": properties,
            "required": [p.name for p in manifest.parameters if p.required and p.default is None],
        },
        "financial_tags": {
            "timeliness": manifest.timeliness,
            "intent_type": manifest.intent_type,
            "regulatory_domains": list(manifest.regulatory_domains),
        },
    }


_EXPORTERS: dict[ExportFormat, Callable[[Manifest, bool, bool], dict[str, Any]]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "mcp": _mcp,
    "jsonschema": _jsonschema,
    "fintoolbench": _fintoolbench,
}

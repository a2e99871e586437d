"""The OpenAPI document of the API in a form for people: operations, and schemas as nested lines.

It reads only what `gateway.api.openapi` writes: models that refer to others by name, and no
recursive model.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

_NOTED = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "over {}",
    "exclusiveMaximum": "under {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
}


Schema = dict[str, Any]
"""A schema as one line of a nested list: its `name`, `kind`, `text` and `notes`, whether it is
`required`, and its `parts`, which are schemas too.
"""

Bodies = list[tuple[str, Schema]]
"""The schemas of a body, by media type."""


def operations(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the operations of a document, in its order: each parameter with its location, each
    answer with its status and text.
    """
    reader = _Reader(document["components"]["schemas"])
    return [
        {
            "id": said["operationId"],
            "method": method.upper(),
            "path": path,
            "summary": said["summary"],
            "parameters": [
                (p["in"], reader.schema(p["schema"], p["name"], p["required"]))
                for p in said["parameters"]
            ],
            "body": reader.bodies(said.get("requestBody", {})),
            "answers": [
                (status, answer["description"], reader.bodies(answer))
                for status, answer in sorted(said["responses"].items())
            ],
        }
        for path, methods in document["paths"].items()
        for method, said in methods.items()
    ]


class _Reader:
    """Reads the parts of one document; `models` are the schemas that have a name."""

    def __init__(self, models: Mapping[str, Any]) -> None:
        self._models = models

    def bodies(self, said: Mapping[str, Any]) -> Bodies:
        content = said.get("content", {}).items()
        return [(media, self.schema(body["schema"])) for media, body in content]

    def schema(self, said: Mapping[str, Any], name: str = "", required: bool = False) -> Schema:
        whole = self._whole(said)
        return {
            "name": name,
            "kind": _kind(said),
            "text": whole.get("description", ""),
            "notes": [*_notes(whole)],
            "required": required,
            "parts": [*self._parts(whole)],
        }

    def _whole(self, said: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a schema with its reference resolved, also if it is a reference or null."""
        choices = [one for one in said.get("anyOf", ()) if one != {"type": "null"}]
        if len(choices) == 1:
            said = {**choices[0], **{key: said[key] for key in said if key != "anyOf"}}
        return {**self._models[_model(said)], **said} if "$ref" in said else said

    def _parts(self, whole: Mapping[str, Any]) -> Iterator[Schema]:
        for name, one in whole.get("properties", {}).items():
            yield self.schema(one, name, name in whole.get("required", ()))
        if isinstance(more := whole.get("additionalProperties"), dict):
            yield self.schema(more, "any name")
        for choice in whole.get("anyOf", ()):
            if (schema := self.schema(choice))["parts"]:
                yield schema
        if "items" in whole:
            yield from self._parts(self._whole(whole["items"]))


def _kind(said: Mapping[str, Any]) -> str:
    if "$ref" in said:
        return _model(said)
    if "const" in said:
        return _json(said["const"])
    if "anyOf" in said:
        return " or ".join(map(_kind, said["anyOf"]))
    if said.get("type") == "array" and said.get("items"):
        return f"array of {_kind(said['items'])}"
    return str(said.get("type", "any value"))


def _model(said: Mapping[str, Any]) -> str:
    return str(said["$ref"]).rpartition("/")[2]


def _notes(said: Mapping[str, Any]) -> Iterator[str]:
    if "enum" in said:
        yield "one of " + ", ".join(map(_json, said["enum"]))
    for name, words in _NOTED.items():
        if name in said:
            yield words.format(said[name])
    if "default" in said:
        yield "default " + _json(said["default"])
    if said.get("additionalProperties") is False:
        yield "no other names"


def _json(value: object) -> str:
    return orjson.dumps(value).decode()

"""The OpenAPI document of the API in a form for people: operations, and schemas as nested lines.

It reads only what `gateway.api.openapi` writes: models that refer to others by name, and no
recursive model.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as one line of a nested list."""

    name: str
    kind: str
    text: str
    notes: tuple[str, ...]
    required: bool
    parts: tuple["Schema", ...]


Bodies = tuple[tuple[str, Schema], ...]
"""The schemas of a body, by media type."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path. Each parameter has a location, each answer a status and a text."""

    id: str
    method: str
    path: str
    summary: str
    parameters: tuple[tuple[str, Schema], ...]
    body: Bodies
    answers: tuple[tuple[str, str, Bodies], ...]


def operations(document: Mapping[str, Any]) -> list[Operation]:
    """Return the operations of a document, in its order."""
    reader = _Reader(document["components"]["schemas"])
    return [
        reader.operation(path, method, said)
        for path, methods in document["paths"].items()
        for method, said in methods.items()
    ]


class _Reader:
    """Reads the parts of one document; `models` are the schemas that have a name."""

    def __init__(self, models: Mapping[str, Any]) -> None:
        self._models = models

    def operation(self, path: str, method: str, said: Mapping[str, Any]) -> Operation:
        return Operation(
            id=said["operationId"],
            method=method.upper(),
            path=path,
            summary=said["summary"],
            parameters=tuple(
                (p["in"], self._schema(p["schema"], p["name"], p["required"]))
                for p in said["parameters"]
            ),
            body=self._bodies(said.get("requestBody", {})),
            answers=tuple(
                (status, answer["description"], self._bodies(answer))
                for status, answer in sorted(said["responses"].items())
            ),
        )

    def _bodies(self, said: Mapping[str, Any]) -> Bodies:
        content = said.get("content", {}).items()
        return tuple((media, self._schema(body["schema"])) for media, body in content)

    def _schema(self, said: Mapping[str, Any], name: str = "", required: bool = False) -> Schema:
        whole = self._whole(said)
        return Schema(
            name=name,
            kind=_kind(said),
            text=whole.get("description", ""),
            notes=tuple(_notes(whole)),
            required=required,
            parts=tuple(self._parts(whole)),
        )

    def _whole(self, said: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a schema with its reference resolved, also if it is a reference or null."""
        choices = [one for one in said.get("anyOf", ()) if one != {"type": "null"}]
        if len(choices) == 1:
            said = {**choices[0], **{key: said[key] for key in said if key != "anyOf"}}
        return {**self._models[_model(said)], **said} if "$ref" in said else said

    def _parts(self, whole: Mapping[str, Any]) -> Iterator[Schema]:
        for name, one in whole.get("properties", {}).items():
            yield self._schema(one, name, name in whole.get("required", ()))
        if isinstance(more := whole.get("additionalProperties"), dict):
            yield self._schema(more, "any name")
        for choice in whole.get("anyOf", ()):
            if (schema := self._schema(choice)).parts:
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

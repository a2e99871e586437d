"""Reads FinToolBench's public manifest file (JSON Lines: `name`, `tool_from`, `description`,
`parameters`, `financial_tags`, `python_code`).

The `python_code` of a line is never executed, imported or kept; only the other fields are read.
Only that code says how a RapidAPI tool is called, so such a tool is imported only if our catalogue
has its binding. AkShare tools are bound by their name.

A `Card` is what the authors' agent shows a model of a tool: the file's own description and
parameters. The gateway binds the calls that a model makes from it, as any others.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict

from manifests.catalog import Catalog
from manifests.common.problem import first_problem
from manifests.manifest import (
    AkShareBinding,
    Domain,
    Intent,
    Manifest,
    Parameter,
    ScalarType,
    Timeliness,
)


class _Tags(BaseModel):
    timeliness: Timeliness
    intent_type: Intent
    regulatory_domains: tuple[Domain, ...]


class _Property(BaseModel):
    type: ScalarType
    description: str = ""
    default: Any = None


class _Parameters(BaseModel):
    properties: dict[str, _Property] = {}
    required: tuple[str, ...] = ()


class _Line(BaseModel):
    model_config = ConfigDict(extra="ignore")

    name: str
    tool_from: str
    description: str
    parameters: _Parameters
    financial_tags: _Tags


@dataclass(frozen=True, slots=True)
class Card:
    """A tool as the manifest file describes it. `tags` are its finance tags."""

    name: str
    description: str
    parameters: dict[str, Any]
    tags: dict[str, Any]

    @property
    def text(self) -> str:
        """The text by which a retriever finds the tool, in the form of the authors' program
        (`code_bench/utils/embedding_retriever.py`).
        """
        properties = self.parameters.get("properties") or {}
        named = ", ".join(f"{name}({of.get('description', '')})" for name, of in properties.items())
        return f"{self.name}: {self.description}{f' 参数: {named}' if named else ''}"

    def described(self, *, tags: bool) -> str:
        """The description that a model reads, where the tags follow it on a line as JSON."""
        if not tags:
            return self.description
        return f"{self.description}\nfinancial_tags: {json.dumps(self.tags, ensure_ascii=False)}"

    def function(self, *, tags: bool) -> dict[str, Any]:
        """The function tool (OpenAI Chat Completions)."""
        about = {"name": self.name, "description": self.described(tags=tags)}
        return {"type": "function", "function": {**about, "parameters": self.parameters}}


@dataclass
class Imported:
    """The manifests that were read with their cards, and why each other tool could not be
    imported.
    """

    manifests: list[Manifest] = field(default_factory=list)
    cards: dict[str, Card] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def read_lines(lines: Iterable[bytes], known: Catalog) -> Imported:
    """The manifests of the tools in `lines`, completed from the manifests in `known`."""
    imported = Imported()
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        name = f"line {number}"
        try:
            fields = orjson.loads(text)
            if isinstance(fields, dict):
                fields.pop("python_code", None)
                name = str(fields.get("name", name))
            line = _Line.model_validate(fields)
            imported.manifests.append(_manifest(line, known))
            imported.cards[line.name] = Card(
                line.name, line.description, fields["parameters"], fields["financial_tags"]
            )
        except ValueError as error:
            imported.refused[name] = first_problem(error)
    return imported


def _manifest(line: _Line, known: Catalog) -> Manifest:
    ours = known.get(line.name)
    binding = ours.binding if ours else None
    if binding is None:
        if line.tool_from != "akshare":
            raise ValueError("how it is called stands in its code only, which is never read")
        binding = AkShareBinding(function=line.name)
    described = {p.name: p for p in ours.parameters} if ours else {}
    parameters = tuple(
        _parameter(name, given, name in line.parameters.required, described.get(name))
        for name, given in line.parameters.properties.items()
    )
    return Manifest(
        name=line.name,
        description=ours.description if ours else line.description.split("\n")[0],
        timeliness=line.financial_tags.timeliness,
        intent_type=line.financial_tags.intent_type,
        regulatory_domains=line.financial_tags.regulatory_domains,
        parameters=parameters,
        columns=ours.columns if ours else (),
        binding=binding,
        measured=ours.measured if ours else None,
        stand_ins=ours.stand_ins if ours else (),
        unavailable=ours.unavailable if ours else None,
    )


def _parameter(name: str, given: _Property, required: bool, ours: Parameter | None) -> Parameter:
    if ours is not None:
        return ours
    return Parameter(
        name=name,
        type=given.type,
        description=given.description or name,
        required=required,
        default=given.default,
        example=given.default if given.default is not None else _EXAMPLES[given.type],
    )


_EXAMPLES: dict[ScalarType, str | int | bool] = {
    "string": "x",
    "number": 1,
    "integer": 1,
    "boolean": True,
}

"""An answer, and a question about it with what the question needs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal

from bench.compression.kept import Needed
from cache.entry import Entry

Form = Literal["table", "document", "text"]
Language = Literal["en", "zh"]
Part = Literal["development", "held-apart"]

LANGUAGES: tuple[Language, ...] = ("en", "zh")

KINDS = {
    "date_cell": "a cell by date and column",
    "code_cell": "a cell by code or name and column",
    "range": "a range of dates",
    "relative": "a relative date",
    "superlative": "the highest or lowest value",
    "top_n": "the highest or lowest few",
    "comparison": "rows above or below a bound",
    "first_last": "the first or newest value",
    "field": "a field of a document",
    "item_field": "a field of one item of an array",
    "sentence": "a sentence in a text",
}

NAMING = frozenset({"date_cell", "code_cell", "field", "item_field"})
"""Kinds whose question names the row and the column, or the field."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to shorten. `group` is the tool or asset that it is about, `subject` what speakers
    of a language call its subject. `meanings` describe columns.
    """

    id: str
    group: str
    form: Form
    entry: Entry
    subject: Mapping[Language, tuple[str, ...]]
    meanings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Case:
    """A question about an answer. `needed` is computed from the answer by plain code."""

    id: str
    answer: Answer
    kind: str
    language: Language
    question: str
    needed: Needed

    @property
    def names_cell(self) -> bool:
        return self.kind in NAMING


def part_of(group: str, seed: int) -> Part:
    """In which part all cases of a tool or asset are; a third of these is held apart."""
    digest = blake2b(f"part {seed} {group}".encode(), digest_size=8).digest()
    return "held-apart" if int.from_bytes(digest, "big") % 3 == 0 else "development"

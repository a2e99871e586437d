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

KINDS = (
    *("date_cell", "code_cell", "range", "relative", "superlative", "top_n", "comparison"),
    *("first_last", "field", "item_field", "sentence"),
)
"""What a question asks for: a cell by its date, or by the code or name of its row, and its column;
dates from one to another, or counted from the newest; the highest or lowest cell, or a few of them;
rows above or below a bound; the first or newest row; a field of a document, or of one item of an
array in it; a sentence of a text.
"""

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

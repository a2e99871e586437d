"""Shortens an answer to what a question needs, within a budget, without a model.

`compress` is pure and deterministic: the same answer, budget and question give the same text in
every process. Numbers are shown digit for digit or left out. The whole answer stays in the cache.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import orjson

from cache import Entry
from gateway.compress.budget import Budget
from gateway.compress.cut import Compressed
from gateway.compress.document import shorten_document
from gateway.compress.question import Question
from gateway.compress.table import shorten_table
from gateway.compress.text import shorten_text

TEXT_CHARS = 400
"""A longer text that is a whole document is shortened by sentences."""

COUNTED, PIECES = 2**13, 4
"""The longest answer, in bytes, whose tokens are all counted; of a longer one those of as many
bytes in evenly spaced pieces.
"""


def compress(
    entry: Entry,
    budget: Budget,
    question: str = "",
    meanings: Mapping[str, str] = MappingProxyType({}),
) -> Compressed:
    """The answer within the budget, with what the question asks for. `meanings` describe the
    columns of a table. It takes milliseconds for a thousand rows, so a long answer is for a thread.
    """
    asked = Question.of(question) if question.strip() else None
    if entry.columns:  # as CSV, a table without any would be no text at all
        made = shorten_table(entry, meanings, budget, asked)
    elif entry.data[:1] == b'"' and len(entry.data) > TEXT_CHARS:
        given = orjson.loads(entry.data)
        text = shorten_text(given, budget, question)
        made = Compressed(text, "text", whole=text == given)
    else:
        made = shorten_document(entry.data, budget, asked)
    tokens = budget.tokens(made.text)
    return replace(made, tokens=tokens, of_tokens=_tokens_of(entry.data, budget))


def _tokens_of(data: bytes, budget: Budget) -> int:
    if len(data) <= COUNTED:
        return budget.tokens(data.decode())
    piece = COUNTED // PIECES
    step = (len(data) - piece) // (PIECES - 1)
    starts = range(0, PIECES * step, step)
    counted = sum(
        budget.tokens(data[start : start + piece].decode(errors="ignore")) for start in starts
    )
    return round(counted * len(data) / COUNTED)

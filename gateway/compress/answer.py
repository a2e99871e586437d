"""Shortens an answer to what a question needs, within a budget, without a model.

`compress` is pure and deterministic: the same answer, budget and question give the same text in
every process. Numbers are shown digit for digit or left out. The whole answer stays in the cache.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import orjson

from cache import Entry
from gateway.compress.budget import Budget
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


@dataclass(frozen=True, slots=True)
class Compressed:
    """A shortened answer. `form` is `csv`, `toon` or `jsonl` for a table, `json` or `toon` for a
    document, `text` for a text. `tokens` are those of `text`, `of_tokens` those of the whole answer
    as JSON: of an answer over 8 KiB an estimate by four pieces of it. `rows_shown` and
    `columns_shown` are None for what is no table or has no columns. `by` says who chose: `rules`.
    `understood` says what the rows of a table were chosen by, as `highest 收盘`: what the question
    asks for. If `whole`, nothing is left out.
    """

    text: str
    form: str
    tokens: int
    of_tokens: int
    rows_shown: int | None = None
    columns_shown: int | None = None
    whole: bool = False
    by: str = "rules"
    understood: tuple[str, ...] = ()


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
    rows, columns = None, None
    understood: tuple[str, ...] = ()
    if entry.columns:  # as CSV, a table without any would be no text at all
        shortened = shorten_table(entry, meanings, budget, asked)
        text, form, whole = shortened.text, shortened.form, shortened.whole
        rows, columns = shortened.rows, shortened.columns
        understood = shortened.understood
    elif entry.data[:1] == b'"' and len(entry.data) > TEXT_CHARS:
        given = orjson.loads(entry.data)
        text, form = shorten_text(given, budget, question), "text"
        whole = text == given
    else:
        pruned = shorten_document(entry.data, budget, asked)
        text, form, whole = pruned.text, pruned.form, pruned.whole
    of_tokens = _tokens_of(entry.data, budget)
    tokens = budget.tokens(text)
    return Compressed(text, form, tokens, of_tokens, rows, columns, whole, understood=understood)


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

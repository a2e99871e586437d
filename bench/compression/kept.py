"""What a question needs of an answer, and whether a shortened text still has it.

All methods are judged by the same rules. Key, name and value have to stand in the text as whole
tokens, not as a part of a longer number or word, and digit for digit as in the answer.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

SENTENCE_CHARS = 200
"""So much of a sentence has to be left."""

_ROWS = re.compile(r"[\n}]")
_SPACE = re.compile(r"\s+")


@lru_cache(2**12)
def _token(token: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.+-])(?<!\d:){re.escape(token)}(?!\w)(?!\.\d)(?![-+:/]\w)")


def has_token(text: str, token: str) -> bool:
    """Whether `token` is in `text` as a whole: 12 is not in 3.12, 12.5, -12, a12 or 12-31."""
    return token in text and _token(token).search(text) is not None


@dataclass(frozen=True, slots=True)
class Row:
    """The cells that are needed of one row. One of `keys` has to stand beside them."""

    keys: tuple[str, ...]
    cells: tuple[str, ...]

    def is_in(self, piece: str) -> bool:
        return any(has_token(piece, key) for key in self.keys) and all(
            has_token(piece, cell) for cell in self.cells
        )


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a table, or flat items of an array: each in one piece of the text, where pieces end
    at line breaks (of tables) and at `}`.
    """

    rows: tuple[Row, ...]
    is_table: bool = True

    def kept_in(self, text: str) -> bool:
        pieces = _ROWS.split(text) if self.is_table else text.split("}")
        return all(any(row.is_in(piece) for piece in pieces) for row in self.rows)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A field of a document: `value` follows `name` with nothing but punctuation between them, and
    each of `path`, the names above, stands before.
    """

    path: tuple[str, ...]
    name: str
    value: str

    def kept_in(self, text: str) -> bool:
        if self.name not in text or self.value not in text:
            return False
        for found in _token(self.value).finditer(text):
            before = text[: found.start()]
            end = re.search(r"[^\w]*\Z", before)
            until = before[: end.start()] if end else before
            if until.endswith(self.name) and all(has_token(until, name) for name in self.path):
                return True
        return False


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a text, of which the first 200 characters have to be left."""

    text: str

    def kept_in(self, text: str) -> bool:
        return _flat(self.text)[:SENTENCE_CHARS].rstrip() in _flat(text)


Needed = Rows | Leaf | Sentence


def _flat(text: str) -> str:
    return _SPACE.sub(" ", text)

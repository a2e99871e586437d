"""What is left of an answer, and the mark where something is left out."""

from dataclasses import dataclass

MORE = "…"
"""Stands where something is left out."""


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
    tokens: int = 0
    of_tokens: int = 0
    rows_shown: int | None = None
    columns_shown: int | None = None
    whole: bool = False
    by: str = "rules"
    understood: tuple[str, ...] = ()


def cut(text: str, most: int) -> str:
    """A text of at most `most` characters as it is, else its start and `MORE`."""
    if len(text) <= most:
        return text
    head = text[:most]
    border = head.rfind(" ", most // 2)
    return (head[:border] if border > 0 else head) + MORE

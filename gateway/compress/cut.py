"""What is left of an answer, and the mark where something is left out."""

from dataclasses import dataclass

MORE = "…"
"""Stands where something is left out."""

OF_NUMBERS = "+-0123456789.,"
"""The characters of numbers."""


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
    return text if len(text) <= most else text[: border(text, most)] + MORE


def border(text: str, most: int) -> int:
    """Where a text that is cut after at most `most` characters ends: at a space in their second
    half, else not within a number. It is 0 if they are the start of one.
    """
    if len(text) <= most:
        return len(text)
    space = text.rfind(" ", most // 2, most)
    if space > 0:
        return space
    start = len(text[:most].rstrip(OF_NUMBERS))
    is_within = text[most] in OF_NUMBERS and any(map(str.isdigit, text[start : most + 1]))
    return start if is_within else most

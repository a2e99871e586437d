"""Leaves out: the end of a text, rows of a table."""

MORE = "…"
"""Stands where something is left out."""


def cut(text: str, most: int) -> str:
    """A text of at most `most` characters as it is, else its start and `MORE`."""
    if len(text) <= most:
        return text
    head = text[:most]
    border = head.rfind(" ", most // 2)
    return (head[:border] if border > 0 else head) + MORE


def spaced(count: int, most: int) -> list[int]:
    """The first and the last place, and evenly spaced ones between them."""
    if most >= count:
        return [*range(count)]
    if most <= 0:
        return []
    if most == 1:
        return [count - 1]
    return sorted({round(n * (count - 1) / (most - 1)) for n in range(most)})

"""Cuts texts, and marks where something is left out."""

MORE = "…"
"""Stands where something is left out."""


def cut(text: str, most: int) -> str:
    """A text of at most `most` characters as it is, else its start and `MORE`."""
    if len(text) <= most:
        return text
    head = text[:most]
    border = head.rfind(" ", most // 2)
    return (head[:border] if border > 0 else head) + MORE

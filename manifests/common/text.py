"""Texts that others wrote, as data."""


def words_of(text: object, most: int) -> str:
    """A text of somebody else's for people and models: on one line, printable, at most `most` long.
    What is no text becomes an empty one.
    """
    if not isinstance(text, str):
        return ""
    start = "".join(c if c.isprintable() else " " for c in text[: 4 * most])
    line = " ".join(start.split())
    if len(line) <= most and len(text) <= 4 * most:
        return line
    return f"{line[: most - 1].rstrip()}…"

"""Lines that say what a whole column holds."""

from gateway.compress.cells import number
from gateway.compress.decoded import Table
from gateway.compress.forms import cell

NAME_CHARS = 24
"""How much of a column's name is shown in a note."""


def statistics_of(table: Table, name: str) -> str:
    """Of numbers the least, greatest, first and last as they are written, and the mean to six
    digits; of other columns how many values are distinct. Cells that do not count are counted.
    """
    cells = table.column(name)
    if not table.is_number(name):
        there = [one for one in cells if one is not None]
        text = f"# {one_line(name)}: {len({*map(repr, there)})} distinct"
        return f"{text}, {len(cells) - len(there)} null" if len(there) < len(cells) else text
    try:
        mean, missing = sum(cells) / len(cells), 0
        places = [cells.index(min(cells)), cells.index(max(cells)), 0, len(cells) - 1]
    except TypeError:  # texts or nulls are among them
        numbers = [(value, at) for at, c in enumerate(cells) if (value := number(c)) is not None]
        places = [min(numbers)[1], max(numbers)[1], numbers[0][1], numbers[-1][1]]
        mean = sum(value for value, _ in numbers) / len(numbers)
        missing = len(cells) - len(numbers)
    least, greatest, first, last = (cell(table.shown(place).get(name)) for place in places)
    text = f"# {one_line(name)}: min {least}, max {greatest}, mean {mean:.6g}"
    text = f"{text}, first {first}, last {last}"
    return f"{text}, no number in {missing}" if missing else text


def one_line(name: str) -> str:
    """A column's name for a note."""
    return " ".join(name[:NAME_CHARS].split())

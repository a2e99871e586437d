"""Durations as text, the same everywhere; `gateway/api/static/duration.js` does it for the page.

A duration of a minute or more has its two largest units; the second is left out if it is zero. A
shorter one has three digits, in the unit that suits it.
"""

from math import floor

_LONG = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_SHORT = ((1, "s"), (1e3, "ms"), (1e6, "µs"))


def duration(seconds: float) -> str:
    """For instance `3 min 20 s`, `1 h`, `2 d 3 h`, `12.3 s`, `250 ms`."""
    if seconds < 59.95:
        return _short(seconds)
    whole = floor(seconds + 0.5)
    at = next(at for at, (size, _) in enumerate(_LONG) if whole >= size)
    (size, unit), (smaller, smaller_unit) = _LONG[at : at + 2]
    rest = whole % size // smaller
    return f"{whole // size} {unit}" + (f" {rest} {smaller_unit}" if rest else "")


def _short(seconds: float) -> str:
    suitable = (part for part in _SHORT if seconds * part[0] >= 0.9995 or seconds == 0)
    times, unit = next(suitable, _SHORT[-1])
    number = seconds * times
    scale = 100 if number < 9.995 else 10 if number < 99.95 else 1
    return f"{floor(number * scale + 0.5) / scale:g} {unit}"

"""Content negotiation by the quality values of RFC 9110, section 12.4.2: 0 is not accepted."""

import re
from functools import lru_cache

_QUALITY = re.compile(r"q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)")


def quality(header: str, *names: str) -> float | None:
    """Return the quality of the first of `names` that a header lists; None if it lists none."""
    listed = qualities(header)
    return next((listed[name] for name in names if name in listed), None)


@lru_cache(256)
def takes_json(accept: str) -> bool:
    """Whether an Accept header accepts `application/json`."""
    return quality(accept, "application/json", "application/*", "*/*") not in (None, 0)


def takes_events(accept: str) -> bool:
    """Whether an Accept header accepts `text/event-stream` by its full name."""
    return quality(accept, "text/event-stream") not in (None, 0)


def takes_openmetrics(accept: str) -> bool:
    """Whether OpenMetrics is listed by name and preferred at least as much as plain text."""
    wanted = quality(accept, "application/openmetrics-text") or 0.0
    return wanted > 0 and wanted >= (quality(accept, "text/plain", "text/*", "*/*") or 0.0)


@lru_cache(256)
def qualities(header: str) -> dict[str, float]:
    """Return the names of a list with their qualities, without items of invalid quality."""
    listed: dict[str, float] = {}
    for item in header.lower().split(","):
        name, *parameters = (part.strip() for part in item.split(";"))
        weights = [_QUALITY.fullmatch(part) for part in parameters if part.startswith("q=")]
        if None not in weights:
            listed[name] = next((float(weight[1]) for weight in weights if weight), 1.0)
    return listed

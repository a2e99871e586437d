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
    """Whether OpenMetrics 1.0.0 is listed by name and preferred at least as much as plain text."""
    ranges = [_range(item) for item in accept.lower().split(",")]
    wanted = [
        weight
        for name, said, weight in ranges
        if name == "application/openmetrics-text" and said.get("version", "1.0.0") == "1.0.0"
    ]
    plain = [weight for name, _, weight in ranges if name == "text/plain"]
    others = [weight for name, _, weight in ranges if name in ("text/*", "*/*")]
    return max(wanted, default=0) > 0 and max(wanted) >= max(plain or others, default=0)


def _range(item: str) -> tuple[str, dict[str, str], float]:
    """Return the name of a media range, its parameters and its quality: 0 if that is invalid."""
    name, *parameters = (part.strip() for part in item.split(";"))
    said = {key: value.strip('"') for key, _, value in (p.partition("=") for p in parameters)}
    weight = _QUALITY.fullmatch(f"q={said.pop('q', '1')}")
    return name, said, float(weight[1]) if weight else 0.0


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

"""Freshness: whether a cached answer may be returned.

`decide` is a pure function of the time at which the answer was recorded, the rule of its tool, the
time now, and what the caller asks for. The pipeline acts on what it returns. The terms are those of
RFC 9111 (fresh, stale, the request directives of section 5.2.1) and RFC 5861
(stale-while-revalidate, stale-if-error).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any

from manifests import FreshnessOverride, Timeliness
from manifests.common.nearest import did_you_mean
from manifests.formats import short

MINUTE, HOUR, DAY = 60.0, 3_600.0, 86_400.0

CLOCK_SKEW_S = 60.0
"""An answer that was recorded further in the future than this is not used."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How long an answer is fresh, and how long after that it may still be returned: while a newer
    one is fetched in the background, and in place of an error. Seconds.

    With `updates_utc` (times of day in seconds after midnight UTC) an answer is fresh until the
    next of these times, and `fresh_s` is ignored.
    """

    fresh_s: float
    stale_while_revalidate_s: float
    stale_if_error_s: float
    updates_utc: tuple[float, ...] = ()

    def fresh_until(self, recorded_at: float) -> float:
        """The Unix time from which an answer of `recorded_at` is no longer fresh."""
        if not self.updates_utc:
            return recorded_at + self.fresh_s
        midnight = recorded_at // DAY * DAY
        today = (midnight + at for at in sorted(self.updates_utc))
        return next(
            (at for at in today if at > recorded_at), midnight + DAY + min(self.updates_utc)
        )

    def to_dict(self) -> dict[str, Any]:
        """The rule in the terms of a manifest's `freshness`."""
        fresh: dict[str, Any] = {"fresh_s": self.fresh_s}
        if self.updates_utc:
            fresh = {"updates_utc": [_time_of_day(at) for at in self.updates_utc]}
        return fresh | {
            "stale_while_revalidate_s": self.stale_while_revalidate_s,
            "stale_if_error_s": self.stale_if_error_s,
        }

    @property
    def keep_s(self) -> float:
        """How long after its recording an answer may be used, unless a caller allows more."""
        fresh_s = DAY if self.updates_utc else self.fresh_s
        return fresh_s + max(self.stale_while_revalidate_s, self.stale_if_error_s)


AFTER_THE_CLOSES = (10 * HOUR, 22 * HOUR)
"""Daily data appears after a market's close: in Asia by 18:00 in Shanghai, in Europe and America by
22:00 UTC, which is 17:00 or 18:00 in New York.
"""

FRESHNESS: Mapping[Timeliness, Rule] = {
    #                fresh     while revalidating  if error
    "realtime": Rule(15.0, 15.0, 5 * MINUTE),
    "daily": Rule(DAY, 1 * HOUR, 3 * DAY, updates_utc=AFTER_THE_CLOSES),
    "weekly": Rule(6 * HOUR, 6 * HOUR, 7 * DAY),
    "monthly": Rule(1 * DAY, 1 * DAY, 14 * DAY),
    "as_filed": Rule(6 * HOUR, 6 * HOUR, 3 * DAY),
    "periodic": Rule(3 * DAY, 3 * DAY, 14 * DAY),
    "static": Rule(14 * DAY, 14 * DAY, 60 * DAY),
}


def rule_of(timeliness: Timeliness, override: FreshnessOverride | None = None) -> Rule:
    """The rule of a timeliness class, with the fields that a manifest overrides."""
    rule = FRESHNESS[timeliness]
    if override is None:
        return rule
    said = override.model_dump(exclude_none=True)
    updates = said.pop("updates_utc", None)
    if updates is not None:
        said["updates_utc"] = tuple(_seconds(time) for time in updates)
    elif "fresh_s" in said:
        said["updates_utc"] = ()
    return Rule(**{field.name: getattr(rule, field.name) for field in fields(rule)} | said)


def _time_of_day(seconds: float) -> str:
    return f"{int(seconds // HOUR):02d}:{int(seconds % HOUR // MINUTE):02d}"


def _seconds(time: str) -> float:
    hours, minutes = time.split(":")
    return int(hours) * HOUR + int(minutes) * MINUTE


_DIRECTIVE = re.compile(
    r'[\s,]*+(?:([^\s,="]++)\s*+(?:=\s*+("(?:[^"\\]|\\.)*+"|[^\s,"]*+))?\s*+(?:,|$))?'
)

_FLAGS = ("no-cache", "no-store", "only-if-cached")
_SECONDS = ("max-age", "min-fresh", "max-stale", "stale-if-error")
_WITHOUT_MEANING = (
    *("no-transform", "stale-while-revalidate", "must-revalidate", "proxy-revalidate"),
    *("must-understand", "private", "public", "s-maxage", "immutable", "pre-check", "post-check"),
)
"""Other directives that clients send. They have no effect: most are meant for answers."""


class CacheControlError(ValueError):
    """A request directive can't be read; the text says what would be right."""


@dataclass(frozen=True, slots=True)
class CacheControl:
    """What a caller asks of cached answers (RFC 9111, section 5.2.1; RFC 5861, section 4).

    `max_age_s`: no older than this. `min_fresh_s`: fresh for at least this long. `max_stale_s`: may
    be stale by at most this (infinity: by any amount). `stale_if_error_s`: in place of an error,
    may be stale by at most this; 0 for never. `no_cache`: no cached answer. `no_store`: do not
    cache the answer. `only_if_cached`: a cached answer or an error. Seconds.
    """

    max_age_s: float | None = None
    min_fresh_s: float | None = None
    max_stale_s: float | None = None
    stale_if_error_s: float | None = None
    no_cache: bool = False
    no_store: bool = False
    only_if_cached: bool = False

    def __post_init__(self) -> None:
        for name in ("max_age_s", "min_fresh_s", "max_stale_s", "stale_if_error_s"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise CacheControlError(f"{name} must be 0 or more, not {value}")

    @classmethod
    def parse(cls, header: str) -> "CacheControl":
        """From the text of a `Cache-Control` request header.

        Raises `CacheControlError` for a directive that is unknown, can't be read, or occurs with
        two values.
        """
        said: dict[str, Any] = {}
        for name, value in _directives(header):
            field, asked = _asked(name, value)
            if said.setdefault(field, asked) != asked:
                raise CacheControlError(f"Cache-Control: {name} stands there with two values")
        return cls(**{field: asked for field, asked in said.items() if asked is not None})

    @property
    def demands(self) -> bool:
        """Whether the caller itself says how fresh an answer must be."""
        bounds = (self.max_age_s, self.min_fresh_s, self.max_stale_s)
        return self.no_cache or any(bound is not None for bound in bounds)


def _directives(header: str) -> Iterator[tuple[str, str | None]]:
    """Names and values in lower case; the value is None for a directive that has none."""
    text, at = header.lower(), 0
    while at < len(text):
        found = _DIRECTIVE.match(text, at)
        if found is not None and found[1] is not None:
            yield found[1], found[2]
        elif found is None or found.end() < len(text):
            raise CacheControlError(f"Cache-Control: {short(text[at:].strip())} can't be read")
        at = found.end()


def _asked(name: str, value: str | None) -> tuple[str, bool | float | None]:
    """The field of `CacheControl` that a directive sets, and its value; None for no effect."""
    if name in _FLAGS:
        if value is not None:
            raise CacheControlError(f"Cache-Control: {name} takes no value")
        return name.replace("-", "_"), True
    if name in _SECONDS:
        if name == "max-stale" and value is None:
            return "max_stale_s", float("inf")
        seconds = (value or "").strip('"')
        if not re.fullmatch("[0-9]+", seconds):
            raise CacheControlError(f"Cache-Control: {name} needs whole seconds, as in {name}=60")
        return f"{name.replace('-', '_')}_s", float(seconds)
    if name in _WITHOUT_MEANING:
        return name, None
    near = did_you_mean(name, (*_FLAGS, *_SECONDS, *_WITHOUT_MEANING))
    raise CacheControlError(f"Cache-Control: {short(name)} is no directive of requests{near}")


ANYTHING = CacheControl()


class Use(Enum):
    """What to do with a cached answer, now and for this caller."""

    FRESH = "return it"
    REVALIDATE = "return it as stale, and fetch a newer one in the background"
    STALE = "return it as stale"
    IF_ERROR = "fetch a newer one, and return it as stale if upstream fails"
    FETCH = "fetch another: there is none, or it is of no use"
    REFUSE = "return an error: it is of no use, and the caller accepts no other"


def decide(
    recorded_at: float | None,
    rule: Rule,
    now: float,
    asked: CacheControl = ANYTHING,
    *,
    rests: bool = False,
) -> Use:
    """What to do with an answer of `recorded_at` at `now` (Unix times); None if there is no answer.

    `rests` says that upstream failed a moment ago and is left alone unless the caller demands more.
    """
    use = Use.FETCH if recorded_at is None else _use(recorded_at, rule, now, asked)
    if asked.only_if_cached and use in (Use.FETCH, Use.IF_ERROR):
        return Use.REFUSE
    if (use is Use.IF_ERROR and rests and not asked.demands) or (
        use is Use.REVALIDATE and (rests or asked.no_store)
    ):
        return Use.STALE
    return use


def _use(recorded_at: float, rule: Rule, now: float, asked: CacheControl) -> Use:
    age_s, fresh_until = now - recorded_at, rule.fresh_until(recorded_at)
    if age_s < -CLOCK_SKEW_S:
        return Use.FETCH
    # Seconds by which the answer misses what the caller asks for; at most 0 if it does not.
    short_s = now + (asked.min_fresh_s or 0.0) - fresh_until
    if asked.max_age_s is not None:
        short_s = max(short_s, age_s - asked.max_age_s)
    stale_s = now - fresh_until
    if not asked.no_cache:
        if stale_s < 0 and short_s <= 0:
            return Use.FRESH
        if short_s <= asked.max_stale_s if asked.max_stale_s is not None else not asked.demands:
            if 0 <= stale_s < rule.stale_while_revalidate_s and not asked.only_if_cached:
                return Use.REVALIDATE
            if asked.max_stale_s is not None or stale_s < rule.stale_while_revalidate_s:
                return Use.STALE
    if asked.stale_if_error_s is not None:
        return Use.IF_ERROR if 0 < asked.stale_if_error_s >= stale_s else Use.FETCH
    if not asked.demands and stale_s < rule.stale_if_error_s:
        return Use.IF_ERROR
    return Use.FETCH

"""What can go wrong upstream: one small exception that adapters raise and the gateway maps.

A fault's message is for people and traces: it never holds a credential, a stack trace or a local
path. What an upstream's own words and headers say of a fault is read here and nowhere else.
"""

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, Literal

from adapters.mask import mask_of

Kind = Literal[
    "timeout",  # nothing came in time
    "unreachable",  # no connection, or it broke
    "unread",  # an answer came that could not be read in time
    "dropped",  # a kept connection had ended when the request was sent on it; the next is fresh
    "status",  # an HTTP status that says failure
    "rejected",  # the upstream refuses these arguments, whatever the status
    "invalid",  # an answer that can't be read, or a request that may not be sent
    "empty",  # nothing where something must be
    "too_large",  # over the bound on size
    "rate_limited",  # the upstream asks to slow down
    "quota_exhausted",  # the key's quota at the upstream is used up
    "not_subscribed",  # the upstream does not accept the operator's key for this tool
    "not_configured",  # the operator has not set what this call needs
    "crashed",  # the worker process that ran the call ended
]

LONGEST_PAUSE_S = 300.0
"""An upstream that asks to be left alone for longer is left alone for so long."""

LONGEST_RESET_S = 32 * 86_400.0
"""No quota lasts longer: a month, and a day for clocks that differ."""

UNLIMITED = -1

_READ_OF_TEXT = 2**12
_UNIX_TIME, _UNIX_TIME_MS = 1e9, 1e11  # over these a reset is no time from now
_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,9})?")
_LIMIT = re.compile(r"x-ratelimit-(?:(.+)-)?(limit|remaining|reset)")


class UpstreamFault(Exception):
    """One failed attempt. `retryable`: another attempt may well succeed.

    `other_key` says of a fault that is the key's whether another key may serve at once.
    """

    def __init__(
        self,
        kind: Kind,
        message: str,
        *,
        retryable: bool = False,
        retry_after_s: float | None = None,
        other_key: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.kind: Kind = kind
        self.message = message
        self.retryable = retryable
        self.retry_after_s = retry_after_s
        self.other_key = other_key

    @property
    def told(self) -> dict[str, Any]:
        """What `UpstreamFault` was made of, to be told to another process."""
        return {
            "kind": self.kind,
            "message": self.message,
            "retryable": self.retryable,
            "retry_after_s": self.retry_after_s,
        }


@dataclass(frozen=True, slots=True)
class Limit:
    """One quota as headers tell it; `reset_s` is how many seconds it lasts. None: not told."""

    name: str
    limit: int | None = None
    remaining: int | None = None
    reset_s: float | None = None


def fault_of_status(status: int, retry_after: str | None, words: str = "") -> UpstreamFault:
    """The fault that an HTTP status of 300 or more stands for (RFC 9110, section 15)."""
    text = f"the upstream answered {status}{words and f': {words}'}"
    wait_s = seconds_until(retry_after) if status in (429, 503) else None
    if wait_s is not None:
        wait_s = min(wait_s, LONGEST_PAUSE_S)
    if status == 429:
        return UpstreamFault("rate_limited", text, retryable=True, retry_after_s=wait_s)
    return UpstreamFault("status", text, retryable=status >= 500, retry_after_s=wait_s)


def seconds_until(retry_after: str | None) -> float | None:
    """Seconds that a Retry-After asks for: a number, or an HTTP date (RFC 9110, 10.2.3)."""
    text = (retry_after or "").strip()
    if (seconds := _number(text)) is not None:
        return max(seconds, 0.0)
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max(when.timestamp() - time.time(), 0.0)


def limits_of(headers: Mapping[str, str]) -> list[Limit]:
    """Quotas in headers `x-ratelimit-NAME-limit`, `-remaining`, `-reset`; NAME is else "requests".

    RapidAPI sends the named form, several providers the plain one. A reset counts from now or, over
    1e9, is a Unix time; what would be over a month away is read as milliseconds, and where it is
    then no better as not told. What is no number is as good as not sent, and a limit of -1 is none.
    """
    told: dict[str, dict[str, float]] = {}
    for header, text in headers.items():
        found = _limit_in(header)
        if found is not None and (number := _number(text.strip())) is not None:
            told.setdefault(found[0], {}).setdefault(found[1], number)
    return [
        Limit(
            name,
            int(said["limit"]) if "limit" in said else None,
            int(said["remaining"]) if "remaining" in said else None,
            _reset_s(said["reset"]) if "reset" in said else None,
        )
        for name, said in told.items()
        if said.get("limit") != UNLIMITED
    ]


@lru_cache(512)
def _limit_in(header: str) -> tuple[str, str] | None:
    """Which quota a header tells of, and what of it."""
    found = _LIMIT.fullmatch(header.lower())
    return found and (found[1] or "requests", found[2])


def told(text: str, secrets: Iterable[str] = (), most: int = 200) -> str:
    """An upstream's own words, fit for a message: printable, at most `most` long, no secret."""
    mask = mask_of(frozenset(secrets))
    start = mask.text(text[:_READ_OF_TEXT])
    if mask and len(text) > _READ_OF_TEXT:
        start = start[: -mask.longest]  # where half of one may stand
    words = "".join(c if c.isprintable() else " " for c in start).split()
    line = " ".join(words)
    return line if len(line) <= most else line[: most - 1] + "…"


def _number(text: str) -> float | None:
    is_whole = text.isascii() and text.isdigit() and len(text) <= 15  # as it mostly is
    return float(text) if is_whole or _NUMBER.fullmatch(text) else None


def _reset_s(reset: float) -> float | None:
    """How many seconds from now, if that is plausible."""
    if reset >= _UNIX_TIME:
        at = reset / 1e3 if reset >= _UNIX_TIME_MS else reset
        seconds = max(at - time.time(), 0.0)
    else:
        seconds = reset / 1e3 if reset > LONGEST_RESET_S else reset
    return seconds if 0 <= seconds <= LONGEST_RESET_S else None

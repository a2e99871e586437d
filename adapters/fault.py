"""Faults of upstreams: one small exception that adapters raise and the gateway maps.

A fault's message is for people and traces. It never holds a credential, a stack trace or a local
path. Only this module reads what an upstream's text and headers say about a fault.
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
    "dropped",  # a persistent connection had ended when the request was sent; the next is fresh
    "status",  # an HTTP status that says failure
    "rejected",  # the upstream refuses these arguments, whatever the status
    "invalid",  # an answer that can't be read, or a request that may not be sent
    "empty",  # there is no content where some is required
    "too_large",  # over the limit on size
    "rate_limited",  # the upstream asks to slow down
    "quota_exhausted",  # the key's quota at the upstream is used up
    "not_subscribed",  # the upstream does not accept the operator's key for this tool
    "banned",  # the upstream refuses whoever asks from here
    "not_configured",  # the operator has not set what this call needs
    "crashed",  # the worker process that ran the call ended
    "misused",  # the arguments do not fit the state of the session that they name
    "gone",  # there is no such session, or it is another caller's
    "full",  # there is no room for another session
]

BANS = frozenset({403, 418, 451, 456})
"""Statuses with which sources refuse an address, whatever it asks; 456 is Sina's."""

LONGEST_PAUSE_S = 300.0
"""The longest pause for an upstream, even if it asks for a longer one."""

LONGEST_RESET_S = 32 * 86_400.0
"""The longest period of a quota: a month, and a day for clocks that differ."""

LONGEST_MS_RESET_S = 86_400.0
"""The longest reset that is read as milliseconds from now: who counts so finely has short periods.
"""

UNLIMITED = -1

_READ_OF_TEXT = 2**12
_UNIX_TIME, _UNIX_TIME_MS = 1e9, 1e11  # from these on, a reset is a Unix time in s or in ms
_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,9})?")
_LIMIT = re.compile(r"x-ratelimit-(?:(.+)-)?(limit|remaining|reset)")


class UpstreamFault(Exception):
    """One failed attempt. `retryable` says whether another attempt is likely to succeed.

    If the fault concerns the key, `other_key` says whether another key may be used at once.
    """

    def __init__(
        self,
        kind: Kind,
        message: str,
        *,
        retryable: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.kind: Kind = kind
        self.message = message
        self.retryable = retryable
        self.retry_after_s = retry_after_s
        self.other_key: bool | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `UpstreamFault`, for sending it to another process."""
        return {
            "kind": self.kind,
            "message": self.message,
            "retryable": self.retryable,
            "retry_after_s": self.retry_after_s,
        }


@dataclass(frozen=True, slots=True)
class Limit:
    """One quota as given in headers; it lasts for `reset_s` seconds. None means not given."""

    name: str
    limit: int | None = None
    remaining: int | None = None
    reset_s: float | None = None


def fault_of_status(status: int, retry_after: str | None, words: str = "") -> UpstreamFault:
    """Return the fault for an HTTP status of 300 or more (RFC 9110, section 15)."""
    text = f"the upstream answered {status}{words and f': {words}'}"
    wait_s = seconds_until(retry_after) if status in (429, 503) else None
    if wait_s is not None:
        wait_s = min(wait_s, LONGEST_PAUSE_S)
    if status == 429:
        return UpstreamFault("rate_limited", text, retryable=True, retry_after_s=wait_s)
    kind: Kind = "banned" if status in BANS else "status"
    return UpstreamFault(kind, text, retryable=status >= 500, retry_after_s=wait_s)


def seconds_until(retry_after: str | None) -> float | None:
    """Read a Retry-After as seconds from now: a number, or an HTTP date (RFC 9110, 10.2.3). Some
    send the Unix time instead.
    """
    text = (retry_after or "").strip()
    if (number := _number(text)) is not None:
        return max(number if number < _UNIX_TIME else _until(number), 0.0)
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max(when.timestamp() - time.time(), 0.0)


def limits_of(headers: Mapping[str, str]) -> list[Limit]:
    """Read quotas from headers `x-ratelimit-NAME-limit`, `-remaining` and `-reset`.

    Without NAME the quota is "requests". RapidAPI sends the named form, several providers the plain
    one. A reset counts from now or, from 1e9 on, is a Unix time. If it would be over a month away
    it is read as milliseconds, and ignored if these make more than a day. A value that is not a
    number is ignored. A limit of -1 means that there is no quota.
    """
    reported: dict[str, dict[str, float]] = {}
    for header, text in headers.items():
        found = _limit_in(header)
        if found is not None and (number := _number(text.strip())) is not None:
            reported.setdefault(found[0], {}).setdefault(found[1], number)
    return [
        Limit(
            name,
            int(said["limit"]) if "limit" in said else None,
            int(said["remaining"]) if "remaining" in said else None,
            _reset_s(said["reset"]) if "reset" in said else None,
        )
        for name, said in reported.items()
        if said.get("limit") != UNLIMITED
    ]


@lru_cache(512)
def _limit_in(header: str) -> tuple[str, str] | None:
    """Return the quota and the figure of it that a header gives."""
    found = _LIMIT.fullmatch(header.lower())
    return found and (found[1] or "requests", found[2])


def fit_for_message(text: str, secrets: Iterable[str] = (), most: int = 200) -> str:
    """Make an upstream's text fit for a message: printable, at most `most` long, no secret."""
    mask = mask_of(frozenset(secrets))
    start = mask.text(text[:_READ_OF_TEXT])
    if mask and len(text) > _READ_OF_TEXT:
        start = start[: -mask.longest]  # may end in a part of a secret
    words = "".join(c if c.isprintable() else " " for c in start).split()
    line = " ".join(words)
    return line if len(line) <= most else line[: most - 1] + "…"


def _number(text: str) -> float | None:
    is_whole = text.isascii() and text.isdigit() and len(text) <= 15  # the usual case
    return float(text) if is_whole or _NUMBER.fullmatch(text) else None


def _reset_s(reset: float) -> float | None:
    """Return a reset as seconds from now, if that is plausible."""
    if reset >= _UNIX_TIME:
        seconds, longest_s = max(_until(reset), 0.0), LONGEST_RESET_S
    elif reset > LONGEST_RESET_S:
        seconds, longest_s = reset / 1e3, LONGEST_MS_RESET_S
    else:
        seconds, longest_s = reset, LONGEST_RESET_S
    return seconds if 0 <= seconds <= longest_s else None


def _until(unix_time: float) -> float:
    """Return the seconds from now to a time in seconds or milliseconds."""
    return (unix_time / 1e3 if unix_time >= _UNIX_TIME_MS else unix_time) - time.time()

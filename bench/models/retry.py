"""When a request to a model is sent again, and after which pause: the rules of the official SDK
(openai 3.52), applied to status codes and headers.
"""

import email.utils
import math
import random
import time
from collections.abc import Mapping
from contextlib import suppress

RETRIES = 2
FIRST_PAUSE_S, LONGEST_PAUSE_S, JITTER = 0.5, 8.0, 0.25
LONGEST_RETRY_AFTER_S = 120.0
"""An endpoint that asks for a longer pause is not asked again."""


def asked_pause_s(headers: Mapping[str, str]) -> float | None:
    """Seconds that headers ask to wait, whatever the number; None where they don't.

    `retry-after-ms` takes precedence over `retry-after`, which holds seconds or an HTTP date.
    """
    for name, in_a_second in (("retry-after-ms", 1000), ("retry-after", 1)):
        with suppress(ValueError):
            asked = headers.get(name, "")
            seconds = float(asked) / in_a_second
            # A number too large for a float asks for a long pause, a literal infinity for none.
            is_literal = asked.strip().lstrip("+").lower().startswith("inf")
            return None if seconds == math.inf and is_literal else seconds
    moment = email.utils.parsedate_tz(headers.get("retry-after", ""))
    if moment is None:
        return None
    try:
        return email.utils.mktime_tz(moment) - time.time()
    except (ValueError, OverflowError):
        return None


def is_worth_another(status: int, headers: Mapping[str, str], asked_s: float | None) -> bool:
    """Whether a request that was answered with a failure is sent again."""
    if asked_s is not None and asked_s > LONGEST_RETRY_AFTER_S:
        return False
    said = headers.get("x-should-retry")  # not a standard header
    if said in ("true", "false"):
        return said == "true"
    return status in (408, 409, 429) or status >= 500


def pause_s(retry: int) -> float:
    """Seconds before the retry with this number, counted from 0."""
    longest = min(FIRST_PAUSE_S * 2.0**retry, LONGEST_PAUSE_S)
    return longest * (1 - JITTER * random.random())  # noqa: S311 - no secret


def is_usable(asked_s: float | None) -> bool:
    """Whether a pause that was asked for is used; otherwise `pause_s` gives the pause."""
    return asked_s is not None and 0 < asked_s <= LONGEST_RETRY_AFTER_S

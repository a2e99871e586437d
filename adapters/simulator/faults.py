"""The faults of upstreams that the simulated upstream can produce, at random or by a script.

Faults that happen before a server is reached (a name without address, nobody listening) are not
included. `adapters/simulator/playing.py` plays them.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from adapters.simulator.lies import Lies


class Fault(StrEnum):
    """One kind of fault."""

    SERVER_ERROR = "server_error"  # 500
    BAD_GATEWAY = "bad_gateway"  # 502
    UNAVAILABLE = "unavailable"  # 503
    BUSY = "busy"  # 503 with Retry-After
    RATE_LIMITED = "rate_limited"  # 429 with Retry-After
    QUOTA_EXHAUSTED = "quota_exhausted"  # 429 with x-ratelimit headers
    KEY_REFUSED = "key_refused"  # 401
    NOT_SUBSCRIBED = "not_subscribed"  # 403
    NOT_FOUND = "not_found"  # 404
    RESET = "reset"  # before the headers
    RESET_IN_BODY = "reset_in_body"
    HANG = "hang"  # before the headers
    HANG_IN_BODY = "hang_in_body"
    DRIP = "drip"  # a byte a second
    TRUNCATED = "truncated"  # half a JSON text, in whole HTTP
    HTML = "html"  # with 200
    EMPTY = "empty"  # with 200
    ERROR_OBJECT = "error_object"  # with 200
    HUGE = "huge"
    GZIP_BOMB = "gzip_bomb"
    REDIRECT = "redirect"  # to another host
    REDIRECT_LOOP = "redirect_loop"
    WRONG_CHARSET = "wrong_charset"  # declared as UTF-8 but is not


@dataclass(frozen=True, slots=True)
class Faults:
    """The behaviour of the simulated upstream: seconds until it answers, and rates of faults.

    `failure_rate` and `hang_rate` are drawn separately; at most one fault of `rates` is drawn per
    request. `lies` are told in answers without a fault. Raises `ValueError` if one of `rates` is
    negative or their sum is over 1.
    """

    latency_s: float = 0.0
    failure_rate: float = 0.0
    hang_rate: float = 0.0
    rates: Mapping[Fault, float] = field(default_factory=dict)
    lies: Lies = field(default_factory=Lies)

    def __post_init__(self) -> None:
        if min(self.rates.values(), default=0) < 0 or sum(self.rates.values()) > 1 + 1e-9:
            raise ValueError("the rates of faults must be 0 or more, and 1 in all at most")

    def draw(self, luck: random.Random) -> Fault | None:
        if luck.random() < self.hang_rate:
            return Fault.HANG
        if luck.random() < self.failure_rate:
            return Fault.UNAVAILABLE
        if self.rates:
            left = luck.random()
            for fault, rate in self.rates.items():
                if left < rate:
                    return fault
                left -= rate
        return None

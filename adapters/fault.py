"""What can go wrong upstream: one small exception that adapters raise and the gateway maps.

A fault's message is for people and traces: it never holds a credential, a stack trace or a local
path.
"""

from typing import Literal

Kind = Literal[
    "timeout",  # nothing came in time
    "unreachable",  # no connection, or it broke
    "status",  # an HTTP status that says failure
    "invalid",  # an answer that can't be read
    "empty",  # nothing where something must be
    "too_large",  # over the bound on size
    "rate_limited",  # the upstream asks to slow down
    "not_subscribed",  # the upstream does not accept the operator's key for this tool
    "not_configured",  # the operator has not set what this call needs
    "crashed",  # the worker process that ran the call ended
]


class UpstreamFault(Exception):
    """One failed attempt. `retryable`: another attempt may well succeed."""

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


def fault_of_status(status: int, retry_after: str | None) -> UpstreamFault:
    """The fault that an HTTP status of 300 or more stands for (RFC 9110, section 15)."""
    text = f"the upstream answered {status}"
    if status == 429:
        wait = float(retry_after) if retry_after and retry_after.isdecimal() else None
        return UpstreamFault("rate_limited", text, retryable=True, retry_after_s=wait)
    return UpstreamFault("status", text, retryable=status >= 500)

"""Errors as values: codes with their HTTP status, whose fault each is, and whether to retry.

Faults that adapters raise are mapped here and nowhere else.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, get_args

from adapters.fault import Kind, UpstreamFault

Fault = Literal["agent", "tool", "quota", "gateway"]


class ErrorCode(StrEnum):
    """Every way in which a call can fail."""

    UNKNOWN_TOOL = "unknown_tool"
    UNAVAILABLE = "unavailable"
    INVALID_ARGUMENTS = "invalid_arguments"
    INVALID_REQUEST = "invalid_request"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    NOT_ACCEPTABLE = "not_acceptable"
    NOT_FOUND = "not_found"
    TOO_LARGE = "too_large"
    RATE_LIMITED = "rate_limited"
    QUOTA_EXHAUSTED = "quota_exhausted"
    TIMEOUT = "timeout"
    UPSTREAM_ERROR = "upstream_error"
    UPSTREAM_UNREACHABLE = "upstream_unreachable"
    UPSTREAM_INVALID = "upstream_invalid"
    UPSTREAM_EMPTY = "upstream_empty"
    NOT_SUBSCRIBED = "not_subscribed"
    NOT_CONFIGURED = "not_configured"
    NOT_CACHED = "not_cached"
    NOT_IN_SNAPSHOT = "not_in_snapshot"
    OVERLOADED = "overloaded"
    CIRCUIT_OPEN = "circuit_open"
    CANCELLED = "cancelled"
    INTERNAL = "internal"

    @property
    def http_status(self) -> int:
        return _RULES[self][0]

    @property
    def fault(self) -> Fault:
        return _RULES[self][1]

    @property
    def retryable(self) -> bool:
        return _RULES[self][2]


_RULES: dict[ErrorCode, tuple[int, Fault, bool]] = {
    ErrorCode.UNKNOWN_TOOL: (404, "agent", False),
    ErrorCode.UNAVAILABLE: (410, "tool", False),
    ErrorCode.INVALID_ARGUMENTS: (422, "agent", False),
    ErrorCode.INVALID_REQUEST: (400, "agent", False),
    ErrorCode.UNAUTHORIZED: (401, "agent", False),
    ErrorCode.FORBIDDEN: (403, "agent", False),
    ErrorCode.METHOD_NOT_ALLOWED: (405, "agent", False),
    ErrorCode.NOT_ACCEPTABLE: (406, "agent", False),
    ErrorCode.NOT_FOUND: (404, "agent", False),
    ErrorCode.TOO_LARGE: (413, "agent", False),
    ErrorCode.RATE_LIMITED: (429, "quota", True),
    ErrorCode.QUOTA_EXHAUSTED: (429, "quota", True),
    ErrorCode.TIMEOUT: (504, "tool", True),
    ErrorCode.UPSTREAM_ERROR: (502, "tool", True),
    ErrorCode.UPSTREAM_UNREACHABLE: (502, "tool", True),
    ErrorCode.UPSTREAM_INVALID: (502, "tool", False),
    ErrorCode.UPSTREAM_EMPTY: (502, "tool", False),
    ErrorCode.NOT_SUBSCRIBED: (502, "tool", False),
    ErrorCode.NOT_CONFIGURED: (503, "gateway", False),
    ErrorCode.NOT_CACHED: (504, "gateway", False),  # RFC 9111, section 5.2.1.7
    ErrorCode.NOT_IN_SNAPSHOT: (404, "gateway", False),
    ErrorCode.OVERLOADED: (503, "gateway", True),
    ErrorCode.CIRCUIT_OPEN: (503, "tool", True),
    ErrorCode.CANCELLED: (499, "agent", True),
    ErrorCode.INTERNAL: (500, "gateway", False),
}

_FROM_KIND: dict[Kind, ErrorCode] = {
    "timeout": ErrorCode.TIMEOUT,
    "unreachable": ErrorCode.UPSTREAM_UNREACHABLE,
    "unread": ErrorCode.TIMEOUT,
    "dropped": ErrorCode.UPSTREAM_ERROR,
    "status": ErrorCode.UPSTREAM_ERROR,
    "invalid": ErrorCode.UPSTREAM_INVALID,
    "empty": ErrorCode.UPSTREAM_EMPTY,
    "too_large": ErrorCode.TOO_LARGE,
    "rejected": ErrorCode.UPSTREAM_ERROR,
    "rate_limited": ErrorCode.RATE_LIMITED,
    "quota_exhausted": ErrorCode.QUOTA_EXHAUSTED,
    "not_subscribed": ErrorCode.NOT_SUBSCRIBED,
    "not_configured": ErrorCode.NOT_CONFIGURED,
    "crashed": ErrorCode.UPSTREAM_ERROR,
    "misused": ErrorCode.INVALID_ARGUMENTS,
    "gone": ErrorCode.NOT_FOUND,
    "full": ErrorCode.OVERLOADED,
}

_BY: dict[Kind, Fault] = {"too_large": "tool", "unread": "gateway"}
"""Whose fault it is, for kinds where that differs from their code."""


@dataclass(frozen=True, slots=True)
class CallError:
    """Why a call failed. `message` says what was wrong and, where it can, what would be right."""

    code: ErrorCode
    message: str
    retry_after_s: float | None = None
    details: dict[str, Any] = field(default_factory=dict)
    by: Fault | None = None
    again: bool | None = None

    @property
    def retryable(self) -> bool:
        """Whether another attempt may succeed: `again` if it is set, else what the code says."""
        return self.code.retryable if self.again is None else self.again

    @property
    def fault(self) -> Fault:
        return self.by or self.code.fault

    def to_dict(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "message": self.message,
            "fault": self.fault,
            "retryable": self.retryable,
            "retry_after_s": self.retry_after_s,
            "details": self.details,
        }

    @classmethod
    def from_dict(cls, said: dict[str, Any]) -> "CallError":
        """Inverse of `to_dict`. Raises `ValueError` or `KeyError` if `said` is not an error."""
        if not isinstance(said["message"], str) or not isinstance(said["details"], dict):
            raise ValueError("its message or details are of another type")
        if not isinstance(said["retry_after_s"], int | float | None):
            raise ValueError("its retry_after_s is no number")
        if said["fault"] not in get_args(Fault) or not isinstance(said["retryable"], bool):
            raise ValueError("its fault or retryable is none")
        return cls(
            ErrorCode(said["code"]),
            said["message"],
            said["retry_after_s"],
            said["details"],
            by=said["fault"],
            again=said["retryable"],
        )

    @classmethod
    def from_fault(cls, fault: UpstreamFault) -> "CallError":
        """Map an adapter's fault to an error of the call pipeline. Only this method does so.

        The fault loses its traceback, whose frames hold the fault and the call's arguments: only
        the garbage collector would end that cycle, and it runs seldom.
        """
        fault.__traceback__ = None
        by: Fault | None = _BY.get(fault.kind)
        code = _FROM_KIND[fault.kind]
        return cls(code, fault.message, fault.retry_after_s, by=by, again=fault.retryable)

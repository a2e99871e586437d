"""Errors as values: codes with their HTTP status, whose fault each is, and whether to retry.

Faults that adapters raise are mapped here and nowhere else.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, get_args

from adapters.fault import Kind, UpstreamFault

Fault = Literal["agent", "tool", "quota", "gateway"]


class ErrorCode(StrEnum):
    """Every way in which a call can fail: its HTTP status, whose fault it is, and whether another
    attempt may succeed.
    """

    http_status: int
    fault: Fault
    retryable: bool

    UNKNOWN_TOOL = "unknown_tool", 404, "agent", False
    UNAVAILABLE = "unavailable", 410, "tool", False
    INVALID_ARGUMENTS = "invalid_arguments", 422, "agent", False
    INVALID_REQUEST = "invalid_request", 400, "agent", False
    UNAUTHORIZED = "unauthorized", 401, "agent", False
    FORBIDDEN = "forbidden", 403, "agent", False
    METHOD_NOT_ALLOWED = "method_not_allowed", 405, "agent", False
    NOT_ACCEPTABLE = "not_acceptable", 406, "agent", False
    NOT_FOUND = "not_found", 404, "agent", False
    TOO_LARGE = "too_large", 413, "agent", False
    RATE_LIMITED = "rate_limited", 429, "quota", True
    QUOTA_EXHAUSTED = "quota_exhausted", 429, "quota", True
    TIMEOUT = "timeout", 504, "tool", True
    UPSTREAM_ERROR = "upstream_error", 502, "tool", True
    UPSTREAM_UNREACHABLE = "upstream_unreachable", 502, "tool", True
    UPSTREAM_INVALID = "upstream_invalid", 502, "tool", False
    UPSTREAM_EMPTY = "upstream_empty", 502, "tool", False
    NOT_SUBSCRIBED = "not_subscribed", 502, "tool", False
    NOT_CONFIGURED = "not_configured", 503, "gateway", False
    NOT_CACHED = "not_cached", 504, "gateway", False  # RFC 9111, section 5.2.1.7
    NOT_IN_SNAPSHOT = "not_in_snapshot", 404, "gateway", False
    OVERLOADED = "overloaded", 503, "gateway", True
    CIRCUIT_OPEN = "circuit_open", 503, "tool", True
    CANCELLED = "cancelled", 499, "agent", True
    INTERNAL = "internal", 500, "gateway", False

    def __new__(cls, code: str, http_status: int, fault: Fault, retryable: bool) -> "ErrorCode":
        member = str.__new__(cls, code)
        member._value_ = code
        member.http_status, member.fault, member.retryable = http_status, fault, retryable
        return member


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
    "banned": ErrorCode.UPSTREAM_ERROR,
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
            ErrorCode(said["code"]),  # type: ignore[call-arg]
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
        details = {"banned": True} if fault.kind == "banned" else {}
        return cls(code, fault.message, fault.retry_after_s, details, by, again=fault.retryable)

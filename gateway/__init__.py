"""The road every call takes, and the doors that lead onto it."""

from gateway.call import CallContext, Gateway
from gateway.errors import CallError, ErrorCode
from gateway.result import Result
from gateway.settings import GatewaySettings
from gateway.trace import CallRecord

__all__ = [
    "CallContext",
    "CallError",
    "CallRecord",
    "ErrorCode",
    "Gateway",
    "GatewaySettings",
    "Result",
]

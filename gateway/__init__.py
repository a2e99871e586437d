"""The call pipeline and the API over it.

Public names are imported on first use, so that the command line starts quickly.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.call import Gateway
    from gateway.context import CallContext
    from gateway.errors import CallError, ErrorCode
    from gateway.result import Result
    from gateway.tables.rows import Page
    from gateway.settings import GatewaySettings
    from gateway.trace import CallRecord

_HOMES = {
    "CallContext": "context",
    "CallError": "errors",
    "CallRecord": "trace",
    "ErrorCode": "errors",
    "Gateway": "call",
    "GatewaySettings": "settings",
    "Page": "rows",
    "Result": "result",
}

__all__ = [
    "CallContext",
    "CallError",
    "CallRecord",
    "ErrorCode",
    "Gateway",
    "GatewaySettings",
    "Page",
    "Result",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"gateway.{_HOMES[name]}"), name)

"""The call pipeline and the API over it.

Public names are imported on first use, so that the command line starts quickly.
"""

from typing import TYPE_CHECKING

from manifests.common.lazy import importing

if TYPE_CHECKING:
    from gateway.call import Gateway
    from gateway.context import CallContext
    from gateway.errors import CallError, ErrorCode
    from gateway.result import Result
    from gateway.settings import GatewaySettings
    from gateway.tables.rows import Page
    from gateway.trace import CallRecord

_HOMES = {
    "CallContext": "context",
    "CallError": "errors",
    "CallRecord": "trace",
    "ErrorCode": "errors",
    "Gateway": "call",
    "GatewaySettings": "settings",
    "Page": "tables.rows",
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


__getattr__ = importing(__name__, _HOMES)

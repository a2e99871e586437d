"""Codes of JSON-RPC errors that the gateway's side of a connection makes, and faults of errors.

A server may make errors with these codes too, so that nothing but a fault follows from them.
"""

from collections.abc import Iterable
from typing import Final

from adapters.fault import Kind, UpstreamFault, fault_of_status, fit_for_message

TOO_LARGE: Final = -32091
UNREACHABLE: Final = -32092
LATE: Final = -32093
STATUS: Final = -32094
INVALID: Final = -32095

_CLOSED, _REQUEST_TIMEOUT = -32000, -32001
_PARSE, _INVALID_REQUEST, _NO_METHOD, _INVALID_PARAMS = -32700, -32600, -32601, -32602
_HEADERS = -32020

_KINDS: Final[dict[int, tuple[Kind, bool]]] = {
    TOO_LARGE: ("too_large", False),
    UNREACHABLE: ("unreachable", True),
    _CLOSED: ("unreachable", True),
    LATE: ("timeout", True),
    _REQUEST_TIMEOUT: ("timeout", True),
    INVALID: ("invalid", False),
    _PARSE: ("invalid", False),
    _HEADERS: ("unreachable", True),
}

_BREAKS: Final = frozenset(
    {UNREACHABLE, LATE, STATUS, _CLOSED, _REQUEST_TIMEOUT, _INVALID_REQUEST, _HEADERS}
)
"""Errors after which a connection may no longer work."""


def breaks(code: int, message: str) -> bool:
    """Whether a connection may no longer work after an error."""
    return code in _BREAKS and not _is_of_server(code, message)


def _is_of_server(code: int, message: str) -> bool:
    """Whether the server said an error of the code that the SDK takes for a closed connection: it
    is JSON-RPC's code for any error of a server.
    """
    return code == _CLOSED and not message.startswith(("Connection closed", "SSE stream "))


def ends_session(code: int, message: str) -> bool:
    """Whether the server no longer knows the session: the SDK's words for a status of 404."""
    return code == _INVALID_REQUEST and message == "Session terminated"


def fault_of(code: int, message: str, data: object, secrets: Iterable[str]) -> UpstreamFault:
    """The fault that an error of a request is."""
    text = fit_for_message(message, secrets)
    if code == STATUS and isinstance(data, dict) and isinstance(data.get("status"), int):
        after = data.get("retry_after")
        return fault_of_status(data["status"], after if isinstance(after, str) else None)
    if code == _CLOSED and "byte limit" in message:
        return UpstreamFault("too_large", "an event of the answer is too large")
    if ends_session(code, message):
        return UpstreamFault("unreachable", "the server has ended the session", retryable=True)
    kind, retryable = _KINDS.get(code, ("rejected", False))
    if _is_of_server(code, message):
        kind, retryable = "rejected", False
    if kind == "rejected":
        text = f"the server refuses the call ({code}): {text}"
    return UpstreamFault(kind, text, retryable=retryable)

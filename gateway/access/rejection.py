"""Exceptions by which the API rejects a request before it becomes a call."""

from gateway.errors import CallError, ErrorCode


class RequestRejected(Exception):
    """Nothing was done; `error` says why."""

    def __init__(self, error: CallError) -> None:
        super().__init__(error.message)
        self.error = error


class BadRequest(RequestRejected):
    """The request can't be understood."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.INVALID_REQUEST) -> None:
        super().__init__(CallError(code, message))

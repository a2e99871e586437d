"""Errors of the Model Context Protocol: their codes, and the messages that tell them."""

import orjson

from gateway.errors import CallError

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
REFUSED = -32010
"""Code of requests that the gateway refuses before the protocol applies; `data` has the details.

A server may choose codes up to -32019. Clients use -32000 and -32001 for a lost connection and a
missing answer. Earlier texts of the protocol gave a meaning to -32002 to -32004.
"""

HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_REVISION = -32022


class McpError(Exception):
    """A JSON-RPC error: `code`, a message, and `data` where the code requires it."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data

    def to_dict(self) -> dict[str, object]:
        said: dict[str, object] = {"code": self.code, "message": str(self)}
        if self.data is not None:
            said["data"] = self.data
        return said

    def response(self, id_: bytes) -> bytes:
        """The error as the response to the request with this id, which is JSON."""
        return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (id_, orjson.dumps(self.to_dict()))


def refused(id_: bytes, why: CallError) -> bytes:
    """Return the response to a message that was refused before it was read as a request."""
    return McpError(REFUSED, why.message, why.to_dict()).response(id_)

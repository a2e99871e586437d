"""The identity of a call: a hash of tool, manifest revision and canonical arguments.

Equal calls have equal keys, and different calls have different keys. A key depends on nothing
else: not on a secret, a clock or the order of arguments (binding has already put them into the
order of the signature).
"""

from collections.abc import Mapping
from hashlib import blake2b

import orjson


def key_prefix(tool: str, revision: str) -> bytes:
    """The part of the hashed text that is the same for every call of one tool."""
    return f"{tool}\0{revision}\0".encode()


def call_key(prefix: bytes, arguments: Mapping[str, object]) -> str:
    """The key of one call (32 hex digits of BLAKE2b, RFC 7693)."""
    return blake2b(prefix + orjson.dumps(arguments), digest_size=16).hexdigest()

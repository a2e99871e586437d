"""Whether upstream hosts can be reached: connected to, with TLS where it is used, never asked.

No host takes longer than its time, whatever its name's look-up does, and only so many are tried at
once. A host that can't be reached is told by a short reason, not by an exception.
"""

import asyncio
import socket
import ssl
from collections.abc import Iterable
from dataclasses import dataclass

from gateway.threads import in_daemon

AT_ONCE = 32
"""Upstream hosts that are connected to at once."""

PLAIN_PORT = 80

NO_ADDRESS = "the name has no address"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an upstream is reached; `tls` None is https, or http where that does not answer."""

    host: str
    port: int = 443
    tls: bool | None = True

    def __str__(self) -> str:
        return self.host if self.port == 443 else f"{self.host}:{self.port}"


async def troubles(origins: Iterable[Origin], timeout_s: float) -> list[str | None]:
    """The `trouble` of each, in their order."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def reach(origin: Origin) -> str | None:
        async with turns:
            return await trouble(origin, timeout_s)

    return await asyncio.gather(*map(reach, origins))


async def trouble(origin: Origin, timeout_s: float) -> str | None:
    """Why no connection can be made, with TLS where it is used; None where it can."""
    reason = await _in_time(origin.host, origin.port, origin.tls is not False, timeout_s)
    if origin.tls is not None or reason in (None, NO_ADDRESS):
        return reason
    plain = await _in_time(origin.host, PLAIN_PORT, False, timeout_s)
    return None if plain is None else reason


async def _in_time(host: str, port: int, tls: bool, timeout_s: float) -> str | None:
    try:
        async with asyncio.timeout(timeout_s):
            return await in_daemon(_connect, host, port, tls, timeout_s)
    except TimeoutError:
        return f"no answer within {timeout_s:g} s"


def _connect(host: str, port: int, tls: bool, timeout_s: float) -> str | None:
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            if tls:
                ssl.create_default_context().wrap_socket(connection, server_hostname=host).close()
    except TimeoutError:
        return f"no answer within {timeout_s:g} s"
    except ssl.SSLCertVerificationError as error:
        return f"certificate: {error.verify_message}"
    except ssl.SSLError:
        return "no TLS"
    except (socket.gaierror, UnicodeError):
        return NO_ADDRESS
    except ConnectionRefusedError:
        return "refused"
    except OSError as error:
        return error.strerror or "no connection"
    return None

"""Checks whether upstream hosts can be reached: connects, with TLS if used, but sends no request.

Each host has a time limit that also bounds its name look-up, and at most `AT_ONCE` hosts are tried
concurrently. A host that can't be reached gives a short reason, not an exception.
"""

import asyncio
import socket
import ssl
from collections.abc import Iterable
from dataclasses import dataclass

from manifests.common.threads import in_daemon

AT_ONCE = 128
"""Upstream hosts that are tried concurrently."""

PLAIN_PORT = 80

NO_ADDRESS = "the name has no address"


@dataclass(frozen=True, slots=True)
class Origin:
    """The address of an upstream. `tls` None means https, or http if https does not answer."""

    host: str
    port: int = 443
    tls: bool | None = True

    def __str__(self) -> str:
        return self.host if self.port == 443 else f"{self.host}:{self.port}"


async def troubles(origins: Iterable[Origin], timeout_s: float) -> list[str | None]:
    """Return the `trouble` of each origin, in their order."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def reach(origin: Origin) -> str | None:
        async with slots:
            return await trouble(origin, timeout_s)

    return await asyncio.gather(*map(reach, origins))


async def trouble(origin: Origin, timeout_s: float) -> str | None:
    """Return why no connection, with TLS if used, can be made; None if one can."""
    first = None
    plain = [(PLAIN_PORT, False)] if origin.tls is None else []
    for port, tls in ((origin.port, origin.tls is not False), *plain):
        try:
            async with asyncio.timeout(timeout_s):
                reason = await in_daemon(_connect, origin.host, port, tls, timeout_s)
        except TimeoutError:
            reason = f"no answer within {timeout_s:g} s"
        if reason in (None, NO_ADDRESS):
            return reason
        first = first or reason
    return first


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

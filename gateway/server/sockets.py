"""The listening socket, and how it is closed without losing a connection."""

import ctypes
import socket
import struct
import sys
from contextlib import suppress

BACKLOG = 1_024

_SO_ATTACH_FILTER = 26
# A classic BPF program over the TCP header: packets with the flag SYN are dropped, others pass.
_NO_SYN = ((0x30, 0, 0, 13), (0x45, 0, 1, 0x02), (0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFFFFFF))
_UNACKED = 24  # offset in struct tcp_info of the queue length of a listening socket


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises `OSError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        reason = str(error.strerror).partition(" (while")[0]
        raise OSError(f"can't listen on {host} port {port}: {reason.lower()}") from None


def url_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(listening: socket.socket) -> bool:
    """Whether only clients on this machine can connect."""
    address = str(listening.getsockname()[0])
    return address == "::1" or address.startswith("127.")


def turn_away(listening: socket.socket) -> None:
    """Drop new connections in every process that has this socket; queued connections stay queued.

    Without this, a connection could be established just before the socket closes and be reset with
    a request in it. A client that connects now retries after a second, and is refused once the
    socket has closed. Works on Linux only; elsewhere it does nothing.
    """
    if sys.platform == "linux":
        code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in _NO_SYN))
        program = struct.pack("HP", len(_NO_SYN), ctypes.addressof(code))
        with suppress(OSError):
            listening.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)


def queued(listening: socket.socket) -> int:
    """Return how many connections wait to be accepted; 0 if the system does not say."""
    if sys.platform == "linux":
        with suppress(OSError, struct.error):
            info = listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _UNACKED + 4)
            return int(struct.unpack_from("I", info, _UNACKED)[0])
    return 0

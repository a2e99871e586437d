"""Which hosts are public: by name, and by address."""

import ipaddress
from typing import Final

_LOCAL: Final = frozenset(
    ("localhost", "local", "internal", "lan", "corp", "home", "arpa", "test", "intranet", "private")
)
"""Last labels of names that mean something only within a network (RFC 6761, 6762, 8375)."""


def literal(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that a host is, if it is no name."""
    try:
        return ipaddress.ip_address(host.strip("[]").rstrip(".").partition("%")[0])
    except ValueError:
        return None


def is_public_name(host: str) -> bool:
    """Whether a host is a name of the public DNS, to which whoever owns it gives any address."""
    labels = host.rstrip(".").lower().split(".")
    return literal(host) is None and len(labels) > 1 and labels[-1] not in _LOCAL


def is_public_address(text: str) -> bool:
    """Whether an address, also one within another (IPv4 in IPv6), is on the public internet."""
    address = literal(text)
    if address is None or not address.is_global or address.is_multicast:
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return True
    within = (address.ipv4_mapped, address.sixtofour, *(address.teredo or ()))
    packed = address.packed
    if packed[:12] == b"\0\x64\xff\x9b" + bytes(8):  # NAT64 (RFC 6052)
        within = (*within, ipaddress.IPv4Address(packed[12:]))
    return all(is_public_address(str(inner)) for inner in within if inner is not None)


def is_public_host(host: str) -> bool:
    """Whether a host is a public name or a public address."""
    return is_public_name(host) or is_public_address(host)

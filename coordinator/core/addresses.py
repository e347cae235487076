"""Addresses of clients, in the one form in which Kafka shows and compares them."""

from functools import lru_cache
from ipaddress import ip_address


@lru_cache(maxsize=1024)
def literal_address(host: str) -> str:
    """Return the address of a peer as Java writes it, with all eight groups of an IPv6 address.

    A client of IPv4 that comes by a listener of both has its own address. The zone of a link-local one is left out.

    >>> literal_address("/::1")
    '0:0:0:0:0:0:0:1'
    """
    host = host.removeprefix("/").partition("%")[0]
    if ":" not in host:
        return host
    address = ip_address(host)
    if address.version == 6 and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))


def address_of(name: str) -> str:
    """Return the address that a setting or a quota names, in the same form."""
    return "127.0.0.1" if name == "localhost" else literal_address(name)

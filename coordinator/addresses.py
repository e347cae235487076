"""Addresses of brokers as a user writes them: `a`, `a:9093`, `[::1]:9092`, several with commas."""

from ipaddress import IPv6Address
from typing import Final

DEFAULT_PORT: Final = 9092
EXPECTED: Final = "HOST[:PORT], with commas between several"


def parse_addresses(text: str, default_port: int = DEFAULT_PORT) -> tuple[str, ...]:
    """Return the addresses as `HOST:PORT`, an IPv6 host in brackets. Raises ValueError."""
    return tuple(_parse_address(one.strip(), default_port) for one in text.split(","))


def _parse_address(text: str, default_port: int) -> str:
    host, port = _split(text)
    if not host or set(host) & set(" /@[]") or not port.isascii() or (port and not port.isdecimal()):
        raise ValueError(text)
    if port and not 1 <= int(port) <= 65_535:
        raise ValueError(text)
    if ":" not in host:
        try:
            host.encode("idna")  # the look-up of its address will do so
        except UnicodeError:
            raise ValueError(text) from None
    return f"{f'[{host}]' if ':' in host else host}:{int(port) if port else default_port}"


def _split(text: str) -> tuple[str, str]:
    """Host and port; the port is empty where the text has none."""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")) or rest == ":":
            raise ValueError(text)
        return host, rest[1:]
    if text.count(":") > 1:
        return str(IPv6Address(text)), ""  # a bare IPv6 address has no port
    host, colon, port = text.partition(":")
    if colon and not port:
        raise ValueError(text)
    return host, port

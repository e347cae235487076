"""Recognize clients of other protocols by the first bytes that they send."""

from typing import Final

_TLS_HANDSHAKE: Final = b"\x16\x03"  # content type and major version of a TLS record
_HTTP_METHODS: Final = (
    b"GET ",
    b"HEAD ",
    b"POST ",
    b"PUT ",
    b"DELETE ",
    b"OPTIONS ",
    b"PATCH ",
    b"CONNECT ",
    b"PRI * ",
)


def foreign_protocol(start: bytes) -> str | None:
    """Return the name of the protocol that a connection seems to speak instead of Kafka's, None if there is none.

    Read as the size of a frame, the first four bytes of both are larger than any frame may be.
    """
    if start.startswith(_TLS_HANDSHAKE):
        return "TLS"
    if start.startswith(_HTTP_METHODS):
        return "HTTP"
    return None

"""The distinguished name of a certificate's subject, as Java prints it (RFC 2253), and so as Kafka names a principal.

    Certificate ::= SEQUENCE { tbsCertificate SEQUENCE { [0] version OPTIONAL, serial, signature, issuer Name,
                               validity, subject Name, ... }, ... }
    Name        ::= SEQUENCE OF SET OF SEQUENCE { type OBJECT IDENTIFIER, value ANY }

`ssl` gives the subject only as a dictionary without the kinds of its strings, so the few bytes are read here. OpenSSL
has checked the certificate before. But it takes more than DER, such as elements without a length, which are not read.
"""

from collections.abc import Iterator
from typing import Final

_SEQUENCE, _SET, _OBJECT_IDENTIFIER, _VERSION = 0x30, 0x31, 0x06, 0xA0
_KEYWORDS: Final = {  # RFC 2253, 2.3; Java prints all other types as numbers
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_STRINGS: Final = frozenset({  # tags of UTF8String, PrintableString, T61String, IA5String, General, Universal, BMP
    0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1C, 0x1E,
})  # fmt: skip
_ESCAPED: Final = frozenset(',=+<>#;"\\')


class UnreadableSubjectError(Exception):
    """The subject of a certificate cannot be read."""


def subject_of(certificate: bytes) -> str:
    """Return the subject of a certificate in DER, the most precise part first. Raises UnreadableSubjectError."""
    try:
        return _read_subject(certificate)
    except (ValueError, IndexError, StopIteration) as error:
        raise UnreadableSubjectError("the subject of the client's certificate cannot be read") from error


def _read_subject(certificate: bytes) -> str:
    ((_, _, outer),) = _elements(certificate)
    tbs = next(_elements(outer))[2]
    fields = [element for element in _elements(tbs) if element[0] != _VERSION]
    tag, _, subject = fields[4]  # behind serial, signature, issuer and validity
    if tag != _SEQUENCE:
        raise ValueError(f"a subject of the type {tag:#x}")
    names = [_relative_name(value) for tag, _, value in _elements(subject) if tag == _SET]
    return ",".join(reversed(names))


def _relative_name(data: bytes) -> str:
    return "+".join(_attribute(value) for _, _, value in _elements(data))


def _attribute(data: bytes) -> str:
    (kind_tag, _, kind), (tag, raw, value) = _elements(data)
    if kind_tag != _OBJECT_IDENTIFIER:
        raise ValueError(f"an attribute of the type {kind_tag:#x}")
    identifier = _format_oid(kind)
    keyword = _KEYWORDS.get(identifier)
    # Java reads all of them as UTF-8, though a BMPString is UTF-16 (`sun.security.x509.AVA.toRFC2253String`).
    if keyword is None or tag not in _STRINGS:
        return f"{keyword or identifier}=#{raw.hex()}"
    return f"{keyword}={_escape(value.decode(errors='replace'))}"


def _escape(text: str) -> str:
    """Escape what has a meaning of its own in a name, and spaces at its ends."""
    first, last = len(text) - len(text.lstrip(" \r")), len(text.rstrip(" \r"))
    pieces = []
    for at, character in enumerate(text):
        if character in _ESCAPED or at < first or at >= last:
            pieces.append("\\" + character)
        else:
            pieces.append("\\00" if character == "\0" else character)
    return "".join(pieces)


def _elements(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield the elements of DER that follow one another: the tag, all bytes, and the value of each."""
    at = 0
    while at < len(data):
        start, tag, size, at = at, data[at], data[at + 1], at + 2
        if size & 0x80:
            count = size & 0x7F
            size, at = int.from_bytes(data[at : at + count], "big"), at + count
        if at + size > len(data):
            raise ValueError("an element is longer than what holds it")
        yield tag, data[start : at + size], data[at : at + size]
        at += size


def _format_oid(data: bytes) -> str:
    """Return an object identifier as numbers with dots."""
    numbers, value = [], 0
    for byte in data:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))

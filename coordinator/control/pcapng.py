"""A journal as a pcapng file, which Wireshark's Kafka dissector opens.

The server has only the frames, so the packets around them are made up: IPv4, and TCP with a handshake and running
sequence numbers. The frames are the ones before encryption, so TLS hides nothing here.

    section header · interface description (raw IPv4, nanoseconds) · one enhanced packet a TCP segment
"""

import socket
from collections.abc import Iterable
from struct import pack
from typing import Final

from coordinator.control.journal import Entry

LINKTYPE_IPV4: Final = 228
SEGMENT_BYTES_MAX: Final = 65_000  # an IPv4 packet has 16 bits for its length
_SYN, _ACK, _PUSH = 0x02, 0x10, 0x08


def write_pcapng(entries: Iterable[Entry], server_port: int) -> bytes:
    """Return the file's bytes. Requests and responses stand in the order of their times."""
    packets = [(entry.at_ms, entry.number, 0, entry) for entry in entries]
    packets += [(entry.answered_ms, entry.number, 1, entry) for *_, entry in packets if entry.response is not None]
    streams: dict[int, _Stream] = {}
    blocks = [_section_header(), _interface()]
    for at_ms, _, direction, entry in sorted(packets, key=lambda packet: packet[:3]):
        stream = streams.get(entry.client.connection)
        if stream is None:
            stream = streams[entry.client.connection] = _Stream(
                entry.client.host.lstrip("/"), entry.client.port, server_port
            )
            blocks += [_packet(at_ms, segment) for segment in stream.handshake()]
        payload = entry.response if direction else pack(">i", len(entry.frame)) + entry.frame
        assert payload is not None, "only entries with a response are listed twice"
        blocks += [_packet(at_ms, segment) for segment in stream.segments(payload, from_server=bool(direction))]
    return b"".join(blocks)


class _Stream:
    """One TCP connection."""

    def __init__(self, host: str, port: int, server_port: int) -> None:
        address = _ipv4(host)
        self._ends = ((address, port), (_ipv4("127.0.0.1") if host.startswith("127.") else b"\x0a\0\0\1", server_port))
        self._next = [1000, 5000]  # sequence numbers: the client's, the server's

    def handshake(self) -> list[bytes]:
        segments = [self._segment(0, _SYN, b"")]
        self._next[0] += 1
        segments.append(self._segment(1, _SYN | _ACK, b""))
        self._next[1] += 1
        segments.append(self._segment(0, _ACK, b""))
        return segments

    def segments(self, payload: bytes, *, from_server: bool) -> list[bytes]:
        segments = []
        for start in range(0, len(payload), SEGMENT_BYTES_MAX):
            part = payload[start : start + SEGMENT_BYTES_MAX]
            segments.append(self._segment(int(from_server), _PUSH | _ACK, part))
            self._next[from_server] = (self._next[from_server] + len(part)) % 2**32
        return segments

    def _segment(self, sender: int, flags: int, payload: bytes) -> bytes:
        (source, source_port), (target, target_port) = self._ends[sender], self._ends[1 - sender]
        acknowledged = self._next[1 - sender] if flags & _ACK else 0
        tcp = pack(">HHIIBBHHH", source_port, target_port, self._next[sender], acknowledged, 5 << 4, flags, 65535, 0, 0)
        length = 20 + len(tcp) + len(payload)
        ip = pack(">BBHHHBBH4s4s", 0x45, 0, length, 0, 0, 64, socket.IPPROTO_TCP, 0, source, target)
        ip = ip[:10] + pack(">H", _checksum(ip)) + ip[12:]
        pseudo = source + target + pack(">HH", socket.IPPROTO_TCP, len(tcp) + len(payload))
        tcp = tcp[:16] + pack(">H", _checksum(pseudo + tcp + payload)) + tcp[18:]
        return ip + tcp + payload


def _ipv4(host: str) -> bytes:
    """Return an IPv4 address for the client: its own, or one made up for IPv6, as the file has one kind of link."""
    try:
        return socket.inet_aton(host)
    except OSError:
        return b"\x0a\x06" + (sum(host.encode()) % 65536).to_bytes(2, "big")


def _checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071)."""
    total = sum(int.from_bytes(data[at : at + 2].ljust(2, b"\0"), "big") for at in range(0, len(data), 2))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _block(kind: int, body: bytes) -> bytes:
    body += b"\0" * (-len(body) % 4)
    length = len(body) + 12
    return pack("<II", kind, length) + body + pack("<I", length)


def _section_header() -> bytes:
    return _block(0x0A0D0D0A, pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))


def _interface() -> bytes:
    options = pack("<HHB3x", 9, 1, 9) + pack("<HH", 0, 0)  # if_tsresol: nanoseconds; the end of the options
    return _block(1, pack("<HHI", LINKTYPE_IPV4, 0, 0) + options)


def _packet(at_ms: int, data: bytes) -> bytes:
    nanoseconds = at_ms * 1_000_000
    head = pack("<IIIII", 0, nanoseconds >> 32, nanoseconds & 0xFFFFFFFF, len(data), len(data))
    return _block(6, head + data)

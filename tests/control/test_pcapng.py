"""The journal as a capture: read back by hand, and by Wireshark's own Kafka dissector."""

import json
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path
from struct import unpack_from

import pytest

from coordinator.control.journal import Entry, Filter, Journal, JournalClient
from coordinator.control.pcapng import SEGMENT_BYTES_MAX, write_pcapng
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.control.frames import note, request_frame

CLIENT, SERVER = 50_000, 9092


def record() -> list[Entry]:
    """A short session, with one request of several TCP segments."""
    journal = Journal()
    note(journal, "JoinGroup", 5, JoinGroupRequest(group_id="payments"), JoinGroupResponse(generation_id=1), at_ms=10)
    long = SyncGroupRequestAssignment(member_id="m", assignment=b"x" * (SEGMENT_BYTES_MAX + 10))
    note(journal, "SyncGroup", 3, SyncGroupRequest(group_id="payments", assignments=(long,)), at_ms=20)
    note(journal, "Heartbeat", 4, HeartbeatRequest(group_id="payments"), HeartbeatResponse(error_code=27), at_ms=30)
    return [entry for entry, _ in journal.entries(Filter())]


def blocks(data: bytes) -> list[tuple[int, bytes]]:
    found, at = [], 0
    while at < len(data):
        kind, length = unpack_from("<II", data, at)
        assert unpack_from("<I", data, at + length - 4) == (length,)
        found.append((kind, data[at + 8 : at + length - 4]))
        at += length
    return found


def add_up(data: bytes) -> int:
    """The sum of a checksummed packet is all ones."""
    data += b"\0" * (len(data) % 2)
    total = sum(unpack_from(f">{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def test_the_streams_of_a_capture_are_the_frames_of_the_journal() -> None:
    entries = record()
    (section, _), (interface, _), *packets = blocks(write_pcapng(entries, SERVER))
    assert (section, interface) == (0x0A0D0D0A, 1)
    streams: defaultdict[int, bytes] = defaultdict(bytes)
    next_sequence: dict[int, int] = {}
    for kind, body in packets:
        assert kind == 6
        (length,) = unpack_from("<I", body, 12)
        packet = body[20 : 20 + length]
        assert add_up(packet[:20]) == 0xFFFF
        assert unpack_from(">H", packet, 2) == (length,)
        tcp = packet[20:]
        assert add_up(packet[12:20] + b"\0\x06" + len(tcp).to_bytes(2, "big") + tcp) == 0xFFFF
        port, _, sequence = unpack_from(">HHI", tcp)
        assert sequence == next_sequence.get(port, sequence), "no byte is missing or there twice"
        next_sequence[port] = sequence + len(tcp[20:]) + (1 if tcp[13] & 2 else 0)
        streams[port] += tcp[20:]
    assert streams[CLIENT] == b"".join(len(entry.frame).to_bytes(4, "big") + entry.frame for entry in entries)
    assert streams[SERVER] == b"".join(entry.response or b"" for entry in entries)


@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark, Debian's package of that name")
def test_wireshark_sees_kafka_in_it(tmp_path: Path) -> None:
    path = tmp_path / "journal.pcapng"
    path.write_bytes(write_pcapng(record(), SERVER))
    command = ["tshark", "-r", str(path), "-Y", "kafka", "-T", "json", "-d", f"tcp.port=={SERVER},kafka"]
    packets = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=120).stdout)
    layers = [packet["_source"]["layers"]["kafka"] for packet in packets]
    requests = [layer["kafka.api_key"] for layer in layers if "kafka.request_key" in layer]
    assert requests == ["11", "14", "12"]
    assert len(layers) == 5
    assert json.dumps(layers).count("payments") >= 3


def test_connections_are_streams_of_their_own_in_the_order_of_time() -> None:
    """Requests of some clients at a time, which are answered in another order."""
    journal, beat, answer = Journal(), request_frame("Heartbeat", 4, HeartbeatRequest("g")), b"\0\0\0\4abcd"
    clients = [JournalClient(host, port, number) for number, (host, port) in enumerate([("/127.0.0.1", 1), ("/127.0.0.1", 2), ("/192.0.2.7", 1), ("/2001:db8::1", 1)], 1)]  # fmt: skip
    entries = [journal.note_request(at_ms, client, beat) for at_ms in (10, 20) for client in clients]
    for entry in reversed(entries):
        journal.note_response(entry, answer, entry.at_ms + 5)
    found: defaultdict[tuple[str, int], list[tuple[int, str, int, int]]] = defaultdict(list)
    times = []
    for _, body in blocks(write_pcapng(entries, SERVER))[2:]:
        _, high, low, length, _ = unpack_from("<IIIII", body)
        packet = body[20 : 20 + length]
        source, target = [".".join(map(str, packet[at : at + 4])) for at in (12, 16)]
        source_port, target_port = unpack_from(">HH", packet, 20)
        sent = (source, source_port) if target_port == SERVER else (target, target_port)
        times.append((high << 32 | low) // 1_000_000)
        found[sent].append((times[-1], target if target_port == SERVER else source, target_port, length - 40))
    assert times == sorted(times)
    sizes = (len(beat) + 4, len(answer))
    for host, server, port in (
        ("127.0.0.1", "127.0.0.1", 1),
        ("127.0.0.1", "127.0.0.1", 2),
        ("192.0.2.7", "10.0.0.1", 1),
    ):
        packets = found.pop((host, port))
        assert {one[1] for one in packets} == {server}
        assert [(at_ms, target == SERVER, size) for at_ms, _, target, size in packets if size] == [
            (10, True, sizes[0]), (15, False, sizes[1]), (20, True, sizes[0]), (25, False, sizes[1]),
        ]  # fmt: skip
        assert [size for *_, size in packets[:3]] == [0, 0, 0], "each has a handshake of its own"
    ((made_up, _),) = found
    assert made_up.startswith("10.6."), "the file has addresses of one kind"

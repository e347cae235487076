"""`muster decode`: a frame as JSON, and what is said of bytes that are none."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from coordinator.cli.decode import to_json
from coordinator.cli.hexdump import read_hex
from protocol.apis import BY_NAME
from protocol.codec import encode_request, encode_response
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsResponse, DeleteGroupsResponseDeletableGroupResult
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.commands import Shell, shell_fixture
from tests.protocol.hostile import filled
from tests.protocol.targets import TARGETS, Target

HEARTBEAT = encode_request(12, 4, 7, "me", HeartbeatRequest("g", 5, "m"))


muster_decode = shell_fixture("decode")


@pytest.fixture
def decode(muster_decode: Shell) -> Any:
    """Run the command on these words; its JSON."""
    return lambda *words: json.loads(muster_decode(0, *words))


def test_hex_may_be_written_in_many_ways_and_the_size_may_be_missing(decode: Any, tmp_path: Path) -> None:
    expected = decode(HEARTBEAT.hex())
    written = (HEARTBEAT[4:].hex(), HEARTBEAT.hex(":"), HEARTBEAT.hex(" ", 4), "0x" + HEARTBEAT.hex().upper())
    assert all(decode(word) == expected for word in written)
    for name, content in (("bytes", HEARTBEAT), ("hex", HEARTBEAT.hex("\n").encode())):
        (tmp_path / name).write_bytes(content)
        assert decode(str(tmp_path / name)) == expected


def test_each_error_is_told_by_its_name_wherever_it_is() -> None:
    names = {int(code): code.name for code in ErrorCode if code} | {9_999: "?", -32_768: "?"}
    results = tuple(DeleteGroupsResponseDeletableGroupResult("g", code) for code in (0, *names))
    frame = encode_response(BY_NAME["DeleteGroups"].key, 2, 7, DeleteGroupsResponse(results=results))[4:]
    told = to_json(frame, True, "DeleteGroups", 2)
    assert list(told["errors"].values()) == list(names.values())
    assert [told["fields"][path] for path in told["errors"]] == list(names)
    assert "errors" not in to_json(encode_response(12, 4, 7, HeartbeatResponse())[4:], True, "Heartbeat", 4)


WIRESHARK = """\
0000   00 00 00 0f 00 0c 00 04  00 00 00 07 00 02 6d 65   ..............me
0010   00 02 67 00 00 00 05 02  6d 00 00                  ..g.....m..
"""
TCPDUMP = """\
\t0x0000:  0000 000f 000c 0004 0000 0007 0002 6d65  ..............me
\t0x0010:  0002 6700 0000 0502 6d00 00              ..g.....m..
"""
XXD = TCPDUMP.replace("\t0x", "0000").replace(":  ", ": ")
ESCAPED = r'"\x00\x00\x00\x0f" \ "\x00\x0c"'
LIKE_HEX = WIRESHARK.replace("..............me", "ab cd ef 12 34 5")


@pytest.mark.parametrize("dump", [WIRESHARK, TCPDUMP, XXD, LIKE_HEX], ids=["wireshark", "tcpdump", "xxd", "like hex"])
def test_a_hex_dump_is_read_whatever_its_characters_look_like(dump: str) -> None:
    assert read_hex(dump) == bytes.fromhex("0000000f000c00040000000700026d6500026700000005026d0000")


def test_an_escaped_string_is_read() -> None:
    assert read_hex(ESCAPED) == bytes.fromhex("0000000f000c")


@pytest.mark.parametrize("text", ["orders.bin", "0000   zz", WIRESHARK.replace("0010", "0020"), "0", "-"])
def test_other_text_is_no_hex(text: str) -> None:
    assert read_hex(text) is None


def test_a_frame_may_come_from_standard_input(decode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(HEARTBEAT)))
    assert decode("--request", "-")["fields"]["member_id"] == "m"


def test_fields_are_named_by_their_paths_uuids_are_kafkas_and_surplus_is_counted(decode: Any) -> None:
    topic = MetadataRequestTopic(topic_id=bytes(range(16)), name=None)
    frame = encode_request(3, 12, 1, None, MetadataRequest(topics=(topic,)))
    answer = decode((frame[4:] + b"more").hex())
    assert answer["fields"]["topics[0].topic_id"] == "AAECAwQFBgcICQoLDA0ODw"
    assert answer["fields"]["topics[0].name"] is None
    assert answer["surplus_bytes"] == 4


@pytest.mark.parametrize("api", ["12", "heartbeat"])
def test_an_api_may_be_named_by_its_key(decode: Any, api: str) -> None:
    frame = encode_response(12, 4, 7, HeartbeatResponse(error_code=27)).hex()
    assert decode("--response", "--api", api, "--version", "4", frame)["fields"]["error_code"] == 27


@pytest.mark.parametrize(
    "target", [target for target in TARGETS if target.version == max(target.api.versions)], ids=str
)
def test_each_field_of_each_message_is_there(decode: Any, target: Target) -> None:
    frame = target.encode(filled(target.body)).hex()
    words = (f"--{target.direction}", "--api", target.api.name, "--version", str(target.version))
    answer = decode(*words, frame)
    assert answer["api"] == target.api.name
    assert len(answer["fields"]) > len(target.root.members) - 2


def test_a_long_word_is_cut_in_its_complaint(muster_decode: Shell) -> None:
    assert muster_decode(2, "z" * 5000).endswith("z…': expected hex digits or a file\n")


def test_a_long_frame_is_explained_as_well(muster_decode: Shell) -> None:
    """The server does not look for the place in frames of more than 64 KiB; a tool may take its time."""
    frame = HEARTBEAT[4:12] + b"\0\0" + b"\0" + b"\xff" * 100_000
    assert "in group_id at byte" in muster_decode(2, frame.hex())

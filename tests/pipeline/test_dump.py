"""What the printed lines say of records and batches of which Kafka's own recordings have none."""

import json
import re
from typing import Any

import msgspec
import pytest

from coordinator.core import record_types as types
from pipeline.dump import dump, is_problem
from pipeline.synth import commit, fact
from protocol import record_batch
from protocol.messages import consumer_protocol as embedded
from protocol.records import Record

UNKNOWN = (990).to_bytes(2, "big") + b"\x00\x01g"


def printed(*records: Record, **fields: Any) -> list[str]:
    """The lines of one batch, of which the header has these fields."""
    batch = record_batch.encode(records, base_offset=7)
    header = msgspec.structs.replace(record_batch.header_at(batch), **fields)
    return list(dump("x/00000000000000000007.log", record_batch.seal(header, batch[record_batch.HEADER_BYTES :])))


@pytest.mark.parametrize(
    ("record", "end"),
    [
        (Record(UNKNOWN, b"\x00\x05v"), 'key: {"type":"990","data":"000167"} payload: "000576"'),
        (Record(UNKNOWN, None), 'key: {"type":"990","data":"000167"} payload: <DELETE>'),
        (Record(UNKNOWN[:2], b"\x00\x05v"), 'key: {"type":"990","data":""} payload: "000576"'),
        (Record(b"\xff\xff\x01", b""), 'key: {"type":"-1","data":"01"} payload: ""'),
        (Record(None, b"v"), "key: <none>"),
        (Record(b"", b"v"), "key: <none>"),
        (Record(b"\x00", b"v"), "key: <none>"),
        (commit(("g", "t", 3), None, 5), 'key: {"type":"1","data":{"group":"g","topic":"t","partition":3}} payload: <DELETE>'),
    ],
)  # fmt: skip
def test_keys_and_values(record: Record, end: str) -> None:
    assert printed(record)[3].endswith(f"headerKeys: [] {end}")


@pytest.mark.parametrize("kind", [0, 1, 9])
@pytest.mark.parametrize("epoch", [0, 258, -1])
@pytest.mark.parametrize("more", [b"", b"\x05\x06"])
def test_a_marker_is_read_also_with_the_fields_of_a_later_release(kind: int, epoch: int, more: bytes) -> None:
    value = b"\0\0" + epoch.to_bytes(4, "big", signed=True) + more
    line = printed(Record(b"\0\0" + kind.to_bytes(2, "big") + more, value), attributes=0x30, producer_id=4)[3]
    told = {0: f"endTxnMarker: ABORT coordinatorEpoch: {epoch}", 1: f"endTxnMarker: COMMIT coordinatorEpoch: {epoch}"}
    assert line.partition(" headerKeys: [] ")[2] == told.get(kind, "controlType: UNKNOWN(9)")


@pytest.mark.parametrize(("name", "start"), [
    ("00000000000000000007.log", 7), ("x/1/00000000000000000007.log", 7), ("7/copy.log", 0), ("12.log.bak", 0),
    ("a-12.log", 0), (".log", 0), ("²", 0),
])  # fmt: skip
def test_a_log_begins_where_the_name_of_its_file_says(name: str, start: int) -> None:
    assert list(dump(name, b"")) == [f"Dumping {name}", f"Log starting offset: {start}"]


def test_members_of_consumers_are_spelled_out_and_those_of_others_are_bytes() -> None:
    subscription = embedded.write(embedded.ConsumerProtocolSubscription(("t",)), 0)
    assignment = embedded.write(
        embedded.ConsumerProtocolAssignment((embedded.ConsumerProtocolAssignmentTopicPartition("t", (0, 2)),)), 0
    )
    members = tuple(
        types.GroupMetadataValueMember(name, None, "c", "/h", 1, 2, said, share)
        for name, said, share in (
            ("owner", subscription, assignment),
            ("idle", subscription, b""),
            ("other", b"?", assignment),
        )
    )
    line = printed(fact(types.GroupMetadataKey("g"), types.GroupMetadataValue("consumer", 1, members=members), 5))[3]
    said = json.loads(line.partition(" payload: ")[2])["data"]["members"]
    topics = {"topics": ["t"], "userData": None}
    owned = {"assignedPartitions": [{"topic": "t", "partitions": [0, 2]}], "userData": None}
    assert [(one["subscription"], one["assignment"]) for one in said[:2]] == [(topics, owned), (topics, "")]
    assert said[2]["subscription"] == "Pw=="


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        ({"attributes": 8, "max_timestamp": 99}, ["LogAppendTime: 99", "deleteHorizonMs: OptionalLong.empty", "LogAppendTime: 99"]),
        ({"attributes": 64}, ["CreateTime: 6", "deleteHorizonMs: OptionalLong[5]"]),
        ({"producer_id": 4, "producer_epoch": 2, "base_sequence": 2**31 - 1}, ["baseSequence: 2147483647", "lastSequence: 0", "producerId: 4", "producerEpoch: 2"]),
        ({"leader_epoch": 3}, ["baseOffset: 7", "lastOffset: 8", "count: 2", "baseSequence: -1", "lastSequence: -1"]),
    ],
)  # fmt: skip
def test_headers(fields: dict[str, Any], parts: list[str]) -> None:
    _, _, head, first, second = printed(commit(("g", "t", 0), 1, 5), commit(("g", "t", 0), 2, 6), **fields)
    for part in parts:
        assert f" {part} " in f" {head} "
    time = "LogAppendTime: 99" if fields.get("attributes") == 8 else None
    assert first.startswith(f"| offset: 7 {time or 'CreateTime: 5'} keySize: ")
    sequences = ("2147483647", "0") if "base_sequence" in fields else ("-1", "-1")
    assert tuple(re.findall(r" sequence: (\S+)", f"{first} {second}")) == sequences
    assert second.startswith(f"| offset: 8 {time or 'CreateTime: 6'} keySize: ")


MISLEADING = 'x"} payload: <cannot be read: y>'


@pytest.mark.parametrize("is_readable", [True, False])
@pytest.mark.parametrize("name", ["g", MISLEADING])
def test_a_record_that_cannot_be_read_is_a_problem_and_what_it_says_is_none(name: str, is_readable: bool) -> None:
    whole = commit((name, name, 3), 4, 5, 3, name)
    records = [
        *(msgspec.structs.replace(whole, value=value) for value in (b"\x00\x63", b"\x00\x03\x01", b"")),
        Record(b"\x00\x02\x00\x63" + name.encode(), b"\x00\x03"),
    ]
    if is_readable:
        records = [
            whole,
            commit((name, name, 3), None, 5),
            fact(types.GroupMetadataKey(name), None, 5),
            Record(UNKNOWN, name.encode()),
        ]
    lines = printed(*records)[-len(records) :]
    assert [is_problem(line) for line in lines] == [not is_readable] * 4, lines

"""Commits as the records of a batch, in one pass: most of what a coordinator writes.

`records.encode` and `protocol.records.write` write any record. The records of a commit differ in little, so what they
share is written once; a test holds the bytes against those of the general way.

```
#   ┌────────┬───┬───────┬───────┬─────────┬───────────┬─────┬────┬────────┬───────┬───┬──────┬─────┬─────────┬───┐
#   │ length │ 0 │ time  │ delta │ key     │ partition │ 84  │ 4  │ offset │ epoch │ 1 │ time │ tag │ topic   │ 0 │
#   │        │   │ delta │       │ size,   │ i32       │ u8  │i16 │ i64    │ i32   │u8 │ i64  │     │ id      │   │
#   │        │   │       │       │ head    │           │     │    │        │       │   │      │     │         │   │
#   └────────┴───┴───────┴───────┴─────────┴───────────┴─────┴────┴────────┴───────┴───┴──────┴─────┴─────────┴───┘
#                                    the key ──────────┘ size  the value: version 4, no metadata ───────────┘ headers
```
"""

from collections.abc import Sequence
from struct import Struct as Layout
from typing import Final

from coordinator.core import records
from coordinator.core.record_types import OffsetCommitKey, OffsetCommitValue, Record
from coordinator.core.topics import NO_ID
from protocol.records import VARINTS, varint
from protocol.records import Record as LogRecord
from protocol.records import write as write_record

_TAIL: Final = Layout(">iBhqiBq3s16sB")
_VALUE_SIZE: Final = 84  # 42 bytes, as a varint
_SHORT_DELTAS: Final = 64  # fewer take one byte
_LONG_DELTAS: Final = 8192  # fewer take two bytes


def write_records(facts: Sequence[Record], offset_delta: int, timestamp_delta: int) -> list[bytes]:
    """Write facts as records that follow each other in a batch. Raises for what cannot be encoded."""
    written = _write_commits(facts, offset_delta, timestamp_delta)
    if written is not None:
        return written
    return [
        write_record(LogRecord(*records.encode(fact)), delta, timestamp_delta)
        for delta, fact in enumerate(facts, offset_delta)
    ]


def _write_commits(facts: Sequence[Record], offset_delta: int, timestamp_delta: int) -> list[bytes] | None:
    """Write commits without metadata of topics with ids; None if some fact is anything else."""
    if offset_delta + len(facts) > _LONG_DELTAS:
        return None
    written: list[bytes] = []
    time, write_tail, tag = varint(timestamp_delta), _TAIL.pack, records.TOPIC_ID_TAG
    group = topic = None
    key_start = start_short = start_long = b""
    for delta, fact in enumerate(facts, offset_delta):
        key, value = fact.key, fact.value
        if type(key) is not OffsetCommitKey or type(value) is not OffsetCommitValue:
            return None
        if value.metadata or value.expire_timestamp != -1 or value.topic_id == NO_ID:
            return None
        if key.topic is not topic or key.group is not group:
            group, topic = key.group, key.topic
            head = records.offset_key_head(group, topic)
            key_start = varint(len(head) + 4) + head
            size = 2 + len(time) + len(key_start) + _TAIL.size  # with a delta of one byte
            start_short, start_long = varint(size) + b"\0" + time, varint(size + 1) + b"\0" + time
        written.append(
            b"%b%b%b%b"
            % (
                start_short if delta < _SHORT_DELTAS else start_long,
                VARINTS[delta] if delta < len(VARINTS) else varint(delta),
                key_start,
                write_tail(
                    key.partition, _VALUE_SIZE, 4, value.offset, value.leader_epoch, 1, value.commit_timestamp,
                    tag, value.topic_id, 0,
                ),
            )
        )  # fmt: skip
    return written

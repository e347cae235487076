"""Commits as the records of a batch, in one pass: most of what a coordinator writes, and reads at a start.

`records.encode` and `protocol.records.write` write any record; `protocol.records.read` and `records.decode` read it.
The records of a commit differ in three numbers, so what they share is written, read and kept once. Tests hold the
bytes, and what is read, against those of the general way.

```
#   ┌────────┬───┬───────┬───────┬─────────┬───────────┬─────┬────┬────────┬───────┬───┬──────┬─────┬─────────┬───┐
#   │ length │ 0 │ time  │ delta │ key     │ partition │ 84  │ 4  │ offset │ epoch │ 1 │ time │ tag │ topic   │ 0 │
#   │        │   │ delta │       │ size,   │ i32       │ u8  │i16 │ i64    │ i32   │u8 │ i64  │     │ id      │   │
#   │        │   │       │       │ head    │           │     │    │        │       │   │      │     │         │   │
#   └────────┴───┴───────┴───────┴─────────┴───────────┴─────┴────┴────────┴───────┴───┴──────┴─────┴─────────┴───┘
#    start ──────────────┘        the key ─────────────┘ size  the value: version 4, no metadata ───────────┘ headers
#    the same in all       own   kept for a group's partitions ───┘ own ────────┘ end: the same in all of them
```
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from struct import Struct as Layout
from struct import error as StructError  # noqa: N812 - the module does not say whose it is
from typing import Any, Final, NamedTuple

from coordinator.core import records
from coordinator.core.record_types import OffsetCommits, OffsetCommitValue, Record
from coordinator.core.topics import NO_ID
from protocol.errors import ProtocolError
from protocol.records import VARINTS, read_varint, varint
from protocol.records import Record as LogRecord
from protocol.records import write as write_record

_VALUE_HEAD: Final = b"\x54\x00\x04"  # 42 bytes, as a varint, and version 4
_PARTITION: Final = Layout(">i3s")
_MIDDLE: Final = Layout(">i3sqi")
_VALUE_TAIL: Final = Layout(">Bq3s16sB")
FEW_PARTITIONS: Final = 128  # that are written at once: what they share, which is kept, takes some 16 KiB
_DELTAS: Final = (64, 8192, 1 << 20, 1 << 27)  # those of so many bytes, plus one, are below


class _Tail(NamedTuple):
    """The fields behind the epoch, in a record whose value has no metadata.

    They are the empty metadata, the time, perhaps a topic id in a tagged field, and the number of headers.
    """

    metadata: bytes
    tags: bytes
    id_bytes: int

    @property
    def layout(self) -> Layout:
        """Return the layout: metadata, time, tags, topic id, headers."""
        return Layout(f">{len(self.metadata)}sq{len(self.tags)}s{self.id_bytes}sB")


_TAILS: Final = {  # by the size of the value, as a varint, and its version
    b"\x54\0\4": _Tail(b"\1", records.TOPIC_ID_TAG, 16),
    b"\x30\0\4": _Tail(b"\1", b"\0", 0),
    b"\x30\0\3": _Tail(b"\0\0", b"", 0),  # of Kafka before 4.0
}
_TAIL_LAYOUTS: Final = {head: tail.layout for head, tail in _TAILS.items()}
_KEY_VERSIONS: Final = (b"\0\0", b"\0\1")
_DELTA_FORMATS: Final = {1: "B", 2: "H"}
_DELTA_BITS: Final = {1: (0x80, 0), 2: (0x8080, 0x8000)}  # of a varint of so many bytes: a mask, and what it leaves


def write_records(
    facts: Iterable[Record | OffsetCommits], offset_delta: int, timestamp_delta: int
) -> tuple[bytes, int]:
    """Write facts as records that follow each other in a batch. Raises for what cannot be encoded.

    Returns the records, and how many they are.
    """
    written: list[bytes] = []
    delta = offset_delta
    for fact in facts:
        if type(fact) is OffsetCommits:
            written.append(_write_commits(fact, delta, timestamp_delta))
            delta += len(fact.partitions)
        else:
            written.append(write_record(LogRecord(*records.encode(fact)), delta, timestamp_delta))
            delta += 1
    return b"".join(written), delta - offset_delta


def _write_commits(commits: OffsetCommits, delta: int, timestamp_delta: int) -> bytes:
    """Write committed offsets as records, of which the first one has the delta."""
    count, delta_bytes = len(commits.partitions), 1
    while delta >= _DELTAS[delta_bytes - 1]:
        delta_bytes += 1
    room = _DELTAS[delta_bytes - 1] - delta
    if room < count or count > FEW_PARTITIONS:  # the deltas of the others take a byte more, or they are many
        room = min(room, FEW_PARTITIONS)
        first, others = commits.cut(room)
        return _write_commits(first, delta, timestamp_delta) + _write_commits(others, delta + room, timestamp_delta)
    shared = commits.group, commits.topic, commits.partitions, delta_bytes, timestamp_delta
    start, pack, values = _shared_parts(*shared)
    end = _VALUE_TAIL.pack(1, commits.commit_timestamp, records.TOPIC_ID_TAG, commits.topic_id, 0)
    after = delta + count
    values[1::6] = VARINTS[delta:after] if after <= len(VARINTS) else list(map(varint, range(delta, after)))
    values[4::6], values[5::6] = commits.offsets, commits.leader_epochs
    values[6::6] = [end + start] * count  # the last of them is cut to the end
    return pack(*values)


@lru_cache(maxsize=256)
def _shared_parts(
    group: str, topic: str, partitions: tuple[int, ...], delta_bytes: int, timestamp_delta: int
) -> tuple[bytes, Callable[..., bytes], list[Any]]:
    """Return what all commits of these partitions have in common.

    What each record starts with; the function that packs all records at once; and its arguments, to be filled in: the
    first start, and for each record the delta, the head of the key, its partition up to the value's head, offset,
    epoch, and the end with the next start.
    """
    time = varint(timestamp_delta)
    head = records.offset_key_head(group, topic)
    key_start = varint(len(head) + 4) + head
    length = 1 + len(time) + delta_bytes + len(key_start) + _MIDDLE.size + _VALUE_TAIL.size
    start = varint(length) + b"\0" + time
    values: list[Any] = [start, *[None] * (6 * len(partitions))]
    values[2::6] = [key_start] * len(partitions)
    values[3::6] = [_PARTITION.pack(partition, _VALUE_HEAD) for partition in partitions]
    end = _VALUE_TAIL.size
    return start, _layout_of_all(len(partitions), len(start), delta_bytes, len(key_start), end).pack, values


@lru_cache(maxsize=64)
def _layout_of_all(count: int, start: int, delta_bytes: int, key_start: int, end: int) -> Layout:
    """Return the layout of so many records, by the sizes of their parts."""
    own = f"{delta_bytes}s{key_start}s{_PARTITION.size}sqi"
    return Layout(f">{start}s{f'{own}{end + start}s' * (count - 1)}{own}{end}s")


class Commits(NamedTuple):
    """Offsets that were committed together: of one group and topic, at one time."""

    group: str
    topic: str
    offsets: dict[int, OffsetCommitValue]  # by partition


def read_commits(data: bytes, position: int, end: int, count: int) -> list[Commits] | None:
    """Read the `count` records of `data[position:end]`; None unless all can be read, and are commits without metadata.

    They have the form that is drawn above, with or without a topic id.
    """
    found: list[Commits] = []
    try:
        while count > 0:
            commits, taken, position = _read_alike(data, position, end, count)
            if not taken:
                return None
            found.append(commits)
            count -= taken
    except (IndexError, KeyError, StructError, UnicodeDecodeError, ProtocolError):
        return None
    return found if position == end and count == 0 else None


def _read_alike(data: bytes, start: int, end: int, count: int) -> tuple[Commits, int, int]:
    """Read the record at `start`, and those after it that have the same group, topic, time and topic id, and lengths.

    Returns also how many they are, none if the first is not such, and where the next one begins.
    """
    length, body = read_varint(data, start)
    _, delta_at = read_varint(data, body + 1)
    _, key_size_at = read_varint(data, delta_at)
    key_size, key = read_varint(data, key_size_at)
    partition_at = key + key_size - 4
    value_head = data[partition_at + 4 : partition_at + 7]
    expected, tail_layout = _TAILS[value_head], _TAIL_LAYOUTS[value_head]
    layout = _layout(delta_at - start, key_size_at - delta_at, partition_at - key_size_at, tail_layout.size)
    front, _, key_head, _, _, _, _, value_tail = layout.unpack_from(data, start)
    metadata, time, tags, topic_id, headers = tail_layout.unpack(value_tail)
    commits = Commits(*records.offset_key_names(data[key:partition_at]), {})
    if (
        body + length != start + layout.size
        or data[key : key + 2] not in _KEY_VERSIONS
        or (metadata, tags, headers) != (expected.metadata, expected.tags, 0)
    ):
        return commits, 0, start
    topic_id = topic_id or NO_ID
    mask, bits = _DELTA_BITS[key_size_at - delta_at]
    offsets, taken = commits.offsets, 0
    stop = start + min(count, (end - start) // layout.size) * layout.size
    for a_front, delta, a_key_head, partition, a_head, offset, epoch, a_tail in layout.iter_unpack(
        memoryview(data)[start:stop]
    ):
        if (
            a_key_head != key_head or a_tail != value_tail or a_front != front or a_head != value_head
            or delta & mask != bits
        ):  # fmt: skip
            break
        offsets[partition] = OffsetCommitValue(offset, epoch, "", time, -1, topic_id)
        taken += 1
    return commits, taken, start + taken * layout.size


@lru_cache(maxsize=256)
def _layout(front: int, delta: int, key_head: int, tail: int) -> Layout:
    """Return the layout of a record, by the sizes of its parts. `tail` is all that is behind the epoch."""
    return Layout(f">{front}s{_DELTA_FORMATS[delta]}{key_head}si3sqi{tail}s")

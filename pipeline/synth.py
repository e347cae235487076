"""Made-up logs with a seed: offset commits of every version, tombstones, transactions, all codecs, group histories.

For tests, for the benchmark, and for whoever wants to see the report without a cluster at hand.
"""

import random
import struct
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa

from coordinator.core import records as facts
from coordinator.core.record_schemas import BY_TYPE
from coordinator.core.records import encode_value
from pipeline.decode.codecs import NAMES
from pipeline.decode.layout import TOPIC
from protocol import record_batch
from protocol.java_hash import partition_of
from protocol.records import EndMarker, Record, end_marker


class Plan(msgspec.Struct, frozen=True):
    """The shape of a synthetic log. Shares are probabilities; `batch` is the range of records in a batch."""

    seed: int = 1
    partitions: int = 4
    groups: int = 20
    prefix: str = "group-"  # of their names
    topics: int = 5
    topic_partitions: int = 6
    records: int = 10_000
    batch: tuple[int, int] = (1, 40)
    segment_bytes: int = 1 << 20
    txn_share: float = 0.15
    abort_share: float = 0.3
    tombstone_share: float = 0.03
    codecs: tuple[int, ...] = (0, 0, 0, 0, 1, 2, 3, 4)
    versions: tuple[int, ...] = (0, 1, 2, 3, 3, 3, 4, 4)
    metadata: tuple[str, ...] = ("", "", "", "host-1", "größer 😀", "m" * 200)
    start_ms: int = 1_760_000_000_000
    step_ms: int = 250


class Writer:
    """Appends batches to a log directory and rolls its segments."""

    def __init__(self, directory: Path, segment_bytes: int = 1 << 20, first_offset: int = 0) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.segment_bytes = segment_bytes
        self.next_offset = first_offset
        self._roll()

    def append(
        self,
        records: list[Record],
        *,
        codec: int = 0,
        producer_id: int = -1,
        transactional: bool = False,
        control: bool = False,
    ) -> int:
        """Write one batch; returns its base offset."""
        base = self.next_offset
        batch = record_batch.encode(
            records, base_offset=base, producer_id=producer_id, producer_epoch=0 if producer_id >= 0 else -1,
            transactional=transactional, control=control,
        )  # fmt: skip
        if codec:
            header = record_batch.header_at(batch)
            body = compress(codec, batch[record_batch.HEADER_BYTES :])
            batch = record_batch.seal(msgspec.structs.replace(header, attributes=header.attributes | codec), body)
        if self._size and self._size + len(batch) > self.segment_bytes:
            self._roll()
        with self._path.open("ab") as file:
            file.write(batch)
        self._index(base, len(batch))
        self.next_offset = base + len(records)
        return base

    def end(self, producer_id: int, *, commits: bool, at_ms: int) -> int:
        """Write the marker that ends a producer's transaction."""
        marker = end_marker(EndMarker(commits, 0), at_ms)
        return self.append([marker], producer_id=producer_id, transactional=True, control=True)

    def _roll(self) -> None:
        self._path = self.directory / f"{self.next_offset:020d}.log"
        self._base, self._size, self._indexed = self.next_offset, 0, 0
        self._path.touch()

    def _index(self, base: int, size: int) -> None:
        """Write a sparse index as Kafka does: an entry every 4 KiB, none for the first batch."""
        if self._size - self._indexed >= 4096:
            with self._path.with_suffix(".index").open("ab") as file:
                file.write(struct.pack(">ii", base - self._base, self._size))
            self._indexed = self._size
        self._size += size


def compress(codec: int, data: bytes) -> bytes:
    """Compress the batch as a producer with that codec does."""
    if codec == 2:
        return bytes(pa.Codec("snappy").compress(data, asbytes=True))
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, NAMES[codec]) as stream:
        stream.write(data)
    return bytes(sink.getvalue())


def commit(
    key: tuple[str, str, int],
    offset: int | None,
    at_ms: int,
    version: int = 3,
    metadata: str = "",
    topic_id: bytes = b"",
) -> Record:
    """Return an offset commit in one version of its value, or the tombstone of one."""
    head = facts.OffsetCommitKey(*key)
    raw, _ = facts.encode(facts.Record(head, None))
    if offset is None:
        return Record(raw, None, timestamp=at_ms)
    value = facts.OffsetCommitValue(offset=offset, leader_epoch=5, metadata=metadata, commit_timestamp=at_ms)
    if version == 1:
        value = msgspec.structs.replace(value, expire_timestamp=at_ms + 86_400_000)
    if version == 4 and topic_id:
        value = msgspec.structs.replace(value, topic_id=topic_id)
    return Record(raw, encode_value(BY_TYPE[1], value, version), timestamp=at_ms)


def fact(key: facts.Key, value: facts.Value | None, at_ms: int) -> Record:
    """Return any other record, as the server writes it."""
    raw_key, raw_value = facts.encode(facts.Record(key, value))
    return Record(raw_key, raw_value, timestamp=at_ms)


def write_logs(directory: Path, plan: Plan) -> None:
    """Write logs `__consumer_offsets-0` and so on, each group in the log where Kafka would keep it."""
    dice = random.Random(plan.seed)
    names = [f"{plan.prefix}{i}" for i in range(plan.groups)]
    homes: dict[int, list[str]] = {}
    for name in names:
        homes.setdefault(partition_of(name, plan.partitions), []).append(name)
    for partition in range(plan.partitions):
        writer = Writer(directory / f"{TOPIC}-{partition}", plan.segment_bytes)
        share = plan.records * len(homes.get(partition, ())) // plan.groups
        for step in _history(dice, plan, homes.get(partition, []), share):
            step_records, options = step
            writer.append(step_records, **options)  # type: ignore[arg-type]  # the options are append's own


def _history(
    dice: random.Random, plan: Plan, groups: list[str], total: int
) -> Iterator[tuple[list[Record], dict[str, object]]]:
    """Yield batches of one log: commits, now and then in a transaction that ends some time later, or never."""
    now, written, positions = plan.start_ms, 0, dict[tuple[str, str, int], int]()
    running: dict[int, int] = {}  # producer id -> batches until its marker
    while written < total:
        for producer in [p for p, left in running.items() if left == 0]:
            del running[producer]
            marker = end_marker(EndMarker(dice.random() >= plan.abort_share, 1), now)
            yield [marker], {"producer_id": producer, "transactional": True, "control": True}
        running = {p: left - 1 for p, left in running.items()}
        in_txn = dice.random() < plan.txn_share
        producer = dice.randrange(1000, 1005) if in_txn else -1
        if in_txn:
            running.setdefault(producer, dice.randrange(1, 12))
        count = min(dice.randint(*plan.batch), total - written)
        records = [_record(dice, plan, groups, positions, now + i) for i in range(count)]
        now += plan.step_ms
        written += count
        yield records, {"producer_id": producer, "transactional": in_txn, "codec": dice.choice(plan.codecs)}


def _record(
    dice: random.Random, plan: Plan, groups: list[str], positions: dict[tuple[str, str, int], int], now: int
) -> Record:
    topic = dice.randrange(plan.topics)
    key = (dice.choice(groups), f"topic-{topic}", dice.randrange(plan.topic_partitions))
    if dice.random() < plan.tombstone_share:
        return commit(key, None, now)
    positions[key] = positions.get(key, 0) + dice.randrange(0, 50)
    version = dice.choice(plan.versions)
    topic_id = struct.pack(">QQ", 7, topic + 1) if dice.random() < 0.7 else b""
    return commit(key, positions[key], now, version, dice.choice(plan.metadata), topic_id)


def enlarge_log(source: Path, directory: Path, copies: int) -> int:
    """Write a log of many copies of one segment's batches, each at the next offsets. Returns its bytes.

    Base offsets lie outside the checksum, so that a copy costs no more than writing its bytes.
    """
    directory.mkdir(parents=True, exist_ok=True)
    data = bytearray(source.read_bytes())
    headers = list(record_batch.batches(bytes(data)))
    span = headers[-1][1].last_offset + 1 - headers[0][1].base_offset
    for copy in range(copies):
        shift = copy * span
        for pos, header in headers:
            struct.pack_into(">q", data, pos, header.base_offset + shift)
        (directory / f"{headers[0][1].base_offset + shift:020d}.log").write_bytes(data)
    return copies * len(data)

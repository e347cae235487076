"""The compiled decoder gives the rows that a reader with nothing but `struct`, and aiokafka, give."""

import struct
from pathlib import Path
from typing import Any

import crc32c
import msgspec
import numpy as np
import pyarrow as pa
import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.core import records as facts
from coordinator.core.record_schemas import KINDS
from coordinator.core.share_state import records as states
from coordinator.core.share_state.values import StateBatch, StateKey
from pipeline.decode import kernels, plain, replay
from pipeline.decode.codecs import NAMES, InflateError, inflate
from pipeline.decode.headers import chain
from pipeline.decode.latest import KEY, Reduction
from pipeline.decode.layout import log_dirs, spans
from pipeline.decode.logs import Position
from pipeline.decode.positions import between
from pipeline.decode.rows import Options, read_table
from pipeline.decode.schema import OFFSET_COMMITS
from pipeline.history.shares import _record as record_of
from pipeline.synth import Plan, Writer, commit, compress, fact, write_logs
from protocol import record_batch
from protocol.errors import ProtocolError
from protocol.java_hash import partition_of
from protocol.records import Record
from tests.pipeline.commit_rows import commit_row
from tests.pipeline.group_logs import fill, read_rows

SEEN = ("log_dir", "log_offset", "record_ts", "group", "topic", "partition", "committed_offset", "leader_epoch", "metadata", "commit_ts", "expire_ts", "is_txn")  # fmt: skip


def rows(directory: Path, split_bytes: int = 32 << 20, **options: Any) -> list[tuple[Any, ...]]:
    cut = [span for log in log_dirs([str(directory)]) for span in spans(log, split_bytes)]
    table = read_table(cut, "offset_commits", Options(**options))
    return [tuple(row[name] for name in SEEN) for row in table.to_pylist()]


def expected(directory: Path) -> list[tuple[Any, ...]]:
    found = []
    for log in log_dirs([str(directory)]):
        for batch, record in replay.read(log):
            value = None if batch.is_control else plain.commit(record)
            if value is not None:
                found.append(
                    (log.name, record.offset, record.ts, value.group, value.topic, value.partition, value.offset,
                     value.leader_epoch, value.metadata, value.commit_ts, value.expire_ts, batch.is_txn)
                )  # fmt: skip
    return found


@pytest.mark.parametrize("batch", [(1, 1), (1, 60), (3000, 4000)])
def test_it_agrees_with_a_plain_reader(tmp_path: Path, batch: tuple[int, int]) -> None:
    write_logs(tmp_path, Plan(seed=batch[0], records=6000, batch=batch, segment_bytes=150_000))
    want = expected(tmp_path)
    assert len(want) == 6000
    assert rows(tmp_path) == want
    assert rows(tmp_path, split_bytes=20_000) == want, "splits lose or double nothing"
    assert rows(tmp_path, chunk_bytes=3000) == want, "chunks smaller than some batches change nothing"


@settings(max_examples=200)
@given(st.lists(st.binary(max_size=600), max_size=8))
def test_checksums_of_short_pieces_are_those_of_the_library(pieces: list[bytes]) -> None:
    ends = np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
    starts = ends - np.array([len(piece) for piece in pieces], np.int64)
    out = np.zeros(len(pieces), np.uint32)
    kernels.checksums(np.frombuffer(b"".join(pieces), np.uint8), starts, ends, kernels.CRC_TABLES, out)
    assert out.tolist() == [crc32c.crc32c(piece) for piece in pieces]


@settings(max_examples=300)
@given(st.lists(st.integers(49, 300), max_size=6), st.binary(max_size=80), st.integers(0, 70))
def test_the_walk_ends_at_what_is_no_batch(lengths: list[int], rest: bytes, cut: int) -> None:
    """Against the same walk in plain Python, over whole batches, some bytes of any kind, and a cut end."""
    whole = b"".join(b"\0" * 8 + struct.pack(">i", n) + b"\0" * 4 + b"\2" + b"\0" * (n - 5) for n in lengths)
    data = (whole + rest)[: len(whole + rest) - cut]
    want, pos = [], 0
    while pos + 61 <= len(data):
        (length,) = struct.unpack_from(">i", data, pos + 8)
        if length < 49 or pos + 12 + length > len(data) or data[pos + 16] > 2:
            break
        want.append(pos)
        pos += 12 + length
    found, stop = chain(data, 0, len(data))
    assert (found.tolist(), stop) == (want, pos)


commits = st.builds(
    commit,
    st.tuples(st.text(max_size=20), st.text(max_size=20), st.integers(-(2**31), 2**31 - 1)),
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**41),
    st.integers(0, 4),
    st.text(max_size=200),
    st.just(b"") | st.binary(min_size=16, max_size=16),
)
others = st.builds(Record, st.none() | st.binary(max_size=30), st.none() | st.binary(max_size=30), st.just(((("h", b"v")),)), st.just(0), st.integers(0, 2**41))  # fmt: skip
SNAPPY, FRAMED_SNAPPY, LOG_APPEND_TIME = 2, 5, 8
batch_of = st.tuples(
    st.lists(commits | others, min_size=1, max_size=12),
    st.integers(0, FRAMED_SNAPPY),
    st.sampled_from([None, 7, 2**41]),
)


def frame(data: bytes, block: int) -> bytes:
    """Compress data as Java's snappy does, in blocks of so many bytes."""
    blocks = [compress(SNAPPY, data[at : at + block]) for at in range(0, len(data), block)]
    return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + b"".join(struct.pack(">i", len(b)) + b for b in blocks)


def write_batches(log: Path, batches: list[tuple[list[Record], int, int | None]]) -> bytes:
    """Write a segment of batches of these codecs, some with the time at which the broker has appended them."""
    data, offset = b"", 0
    for records, codec, append_ms in batches:
        batch = record_batch.encode(records, base_offset=offset)
        header, body = record_batch.header_at(batch), batch[record_batch.HEADER_BYTES :]
        attributes = min(codec, SNAPPY) if codec == FRAMED_SNAPPY else codec
        if codec:
            body = frame(body, 50) if codec == FRAMED_SNAPPY else compress(codec, body)
        if append_ms is not None:
            attributes |= LOG_APPEND_TIME
            header = msgspec.structs.replace(header, max_timestamp=append_ms)
        data += record_batch.seal(msgspec.structs.replace(header, attributes=attributes), body)
        offset += len(records)
    log.mkdir()
    (log / f"{0:020}.log").write_bytes(data)
    return data


@given(st.binary(max_size=300), st.integers(1, 100), st.integers(0, 400))
def test_framed_snappy_within_a_bound(data: bytes, block: int, limit: int) -> None:
    if len(data) <= limit:
        assert inflate(SNAPPY, frame(data, block), limit) == data
    else:
        with pytest.raises(InflateError, match="more than"):
            inflate(SNAPPY, frame(data, block), limit)


@pytest.mark.parametrize("length", [-1, 6, 2**31 - 1])
def test_a_block_of_snappy_that_is_cut_or_has_a_wrong_length(length: int) -> None:
    framed = frame(b"abc", 9)
    assert len(framed) == 16 + 4 + 5
    wrong = framed[:16] + struct.pack(">i", length) + framed[20:]
    for data in (wrong, framed[:-1], framed + b"\0\0"):
        with pytest.raises(InflateError):
            inflate(SNAPPY, data)


@given(st.sampled_from(sorted(NAMES)), st.binary(max_size=200), st.integers(-1, 1))
def test_what_inflates_to_the_bound_is_read(codec: int, data: bytes, more: int) -> None:
    packed = compress(codec, data)
    if more < 0 and data:
        with pytest.raises(InflateError):
            inflate(codec, packed, len(data) - 1)
    else:
        assert inflate(codec, packed, len(data) + max(more, 0)) == data


@pytest.mark.parametrize("codec", [*NAMES, 5, 7])
def test_what_is_not_compressed_or_by_an_unknown_codec_cannot_be_inflated(codec: int) -> None:
    with pytest.raises(InflateError):
        inflate(codec, b"\xffno such thing")


@settings(max_examples=60)
@given(st.lists(batch_of, min_size=1, max_size=4))
def test_random_batches(
    tmp_path_factory: pytest.TempPathFactory, batches: list[tuple[list[Record], int, int | None]]
) -> None:
    directory = tmp_path_factory.mktemp("log")
    data = write_batches(directory / "__consumer_offsets-3", batches)
    mine, theirs = [], []
    for batch in plain.batches(data):
        mine += [(r.offset, r.ts, r.key, r.value) for r in plain.records(data, batch)]
        raw = data[batch.pos : batch.pos + 12 + batch.length]
        theirs += [(r.offset, r.timestamp, r.key, r.value) for r in DefaultRecordBatch(raw)]
    assert mine == theirs, "the plain reader reads what aiokafka reads"
    decoded = rows(directory)
    kept = [(r, append_ms) for records, _, append_ms in batches for r in records if _is_commit(r)]
    assert [(row[2], row[6]) for row in decoded] == [
        (r.timestamp if append_ms is None else append_ms, _offset(r)) for r, append_ms in kept
    ]


_LENGTHS = st.sampled_from([b"\0\0", b"\0\2hi", b"\0\x09hi", b"\xff\xff", b"\x80\0", b"\0", b"\1", b"\3hi", b"\x83\0hi", b"\x80\x80\x80\x80\x10", b"\xff\xff", b"\xff" * 6, b""])  # fmt: skip
_TAGS = st.sampled_from([b"", b"\0", b"\1", b"\1\0\x10" + bytes(16), b"\1\0\x10" + bytes(15), b"\1\0\x0f" + bytes(16), b"\2\5\1x\0\x10" + bytes(16), b"\2\5\x7fx\0\x10", b"\x80", bytes(8)])  # fmt: skip
_VALUES = st.builds(
    lambda version, epoch, length, tail, tags: struct.pack(">hq", version, 7) + (epoch if version > 2 else b"") + length + tail + tags,
    st.integers(-1, 6), st.sampled_from([bytes(4), b"\xff" * 4]), _LENGTHS, st.sampled_from([bytes(8), bytes(7), b"\xff" * 8]), _TAGS,
) | st.binary(max_size=40)  # fmt: skip
_WHOLE_TAGS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from([b"", b"x", b"y" * 15, b"z" * 16, b"z" * 17])), max_size=3)  # fmt: skip
_TAGGED = st.builds(
    lambda version, tags: struct.pack(">hqi", version, 7, 1) + b"\3hi" + bytes(8) + bytes([len(tags)])
    + b"".join(bytes([tag, len(value)]) + value for tag, value in tags),
    st.integers(4, 6), _WHOLE_TAGS,
)  # fmt: skip


@settings(max_examples=100)
@given(st.lists(st.tuples(commits, st.none() | _TAGGED | _VALUES | st.integers(0, 80)), min_size=1, max_size=30))
def test_values_of_any_bytes(
    tmp_path_factory: pytest.TempPathFactory, made: list[tuple[Record, bytes | int | None]]
) -> None:
    """Whole values, values that are cut, and values of parts that could stand in one: all that the plain reader says."""
    directory = tmp_path_factory.mktemp("log")
    records = [
        msgspec.structs.replace(record, value=value if isinstance(value, bytes) else record.value and record.value[:value])
        for record, value in made
    ]  # fmt: skip
    Writer(directory / "__consumer_offsets-3").append(records)
    names = ("group", "topic", "partition", "committed_offset", "leader_epoch", "metadata", "commit_ts", "expire_ts", "topic_id", "undecodable", "is_tombstone")  # fmt: skip
    found = [tuple(row[name] for name in names) for row in read_rows(directory, "offset_commits")]
    want = [plain.commit(plain.PlainRecord(0, 0, record.key, record.value)) for record in records]
    assert found == [
        (one.group, one.topic, one.partition, one.offset, one.leader_epoch, one.metadata, one.commit_ts, one.expire_ts, one.topic_id, one.undecodable, one.is_tombstone)
        for one in want if one is not None
    ]  # fmt: skip


def _is_commit(record: Record) -> bool:
    try:
        return plain.commit(plain.PlainRecord(0, 0, record.key, record.value)) is not None
    except (ValueError, IndexError, struct.error):  # random bytes after a commit's type
        return False


def _offset(record: Record) -> int | None:
    found = plain.commit(plain.PlainRecord(0, 0, record.key, record.value))
    assert found is not None
    return found.offset


@pytest.mark.parametrize(("offset", "pos"), [(1, 10), (3, 10), (2, 0)], ids=["inside", "far inside", "before"])
def test_a_position_that_leads_nowhere_any_more_is_looked_up_by_its_offset(
    tmp_path: Path, offset: int, pos: int
) -> None:
    """A cleaner has rewritten the segment since: the byte lies inside a batch, or a batch before begins there."""
    fill(Writer(tmp_path / "__consumer_offsets-0"), range(4))
    (log,) = log_dirs([str(tmp_path)])
    cut = between(log, Position(offset, 0, pos))
    assert read_table(cut, "offset_commits")["log_offset"].to_pylist() == list(range(offset, 4))
    assert read_table(cut, "log_problems").to_pylist() == []


def test_of_two_copies_of_a_record_the_higher_epoch_counts() -> None:
    for order in ((0, 1), (1, 0)):
        reduction = Reduction(KEY, OFFSET_COMMITS)
        for epoch in order:
            row = commit_row(5, 1000, 100 + epoch) | {"leader_epoch_of_log": epoch}
            reduction.add(pa.Table.from_pylist([row], OFFSET_COMMITS))
        assert reduction.result()["committed_offset"].to_pylist() == [101]


def test_metadata_of_127_bytes_and_more_in_version_4(tmp_path: Path) -> None:
    """Burrow reads its length as one byte and takes the wrong bytes for the time."""
    writer = Writer(tmp_path / "__consumer_offsets-0")
    writer.append([commit(("g", "t", 0), 7, 1_000 + n, 4, "m" * n, b"\x07" * 16) for n in (0, 126, 127, 128, 20_000)])
    found = [(row["commit_ts"], row["topic_id"]) for row in read_rows(tmp_path, "offset_commits")]
    assert found == [(at, "07" * 16) for at in (1000, 1126, 1127, 1128, 21_000)]


def test_values_that_are_newer_or_broken_keep_their_rows(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "__consumer_offsets-0")
    good = commit(("g", "t", 0), 7, 1000, 4, "x")
    assert good.value is not None
    newer = Record(good.key, b"\x00\x09" + good.value[2:], timestamp=1001)
    short = Record(good.key, good.value[:9], timestamp=1002)
    strange = Record(b"\x00\x63abc", b"v", timestamp=1003)
    writer.append([good, newer, short, strange])
    found = read_rows(tmp_path, "offset_commits")
    assert [(row["committed_offset"], row["undecodable"], row["value_version"]) for row in found] == [
        (7, False, 4), (7, False, 9), (None, True, 4),
    ]  # fmt: skip
    unknown = read_rows(tmp_path, "unknown_records")
    assert [row["log_offset"] for row in unknown] == [1, 2, 3]
    assert unknown[2]["key"] == strange.key
    assert [problem["kind"] for problem in read_rows(tmp_path, "log_problems")] == ["undecodable_value"]


def test_group_records_go_through_the_servers_schemas(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "__consumer_offsets-0")
    member = facts.ConsumerGroupCurrentMemberAssignmentKey("g", "m")
    writer.append(
        [fact(member, facts.ConsumerGroupCurrentMemberAssignmentValue(member_epoch=4), 5), fact(member, None, 6)]
    )
    pattern = facts.ConsumerGroupRegularExpressionKey("g", "orders.*")
    writer.append(
        [fact(pattern, facts.ConsumerGroupRegularExpressionValue(topics=("orders",)), 7), fact(pattern, None, 8)]
    )
    (one, gone, *patterns) = read_rows(tmp_path, "group_records")
    said = [msgspec.json.decode(row["payload"]) for row in patterns]
    assert [row["regular_expression"] for row in said] == ["orders.*"] * 2
    assert [row.get("topics") for row in said] == [["orders"], None]
    assert (one["type"], one["group"]) == ("ConsumerGroupCurrentMemberAssignment", "g")
    assert (one["member_id"], one["epoch"]) == ("m", 4)
    assert (gone["is_tombstone"], gone["epoch"]) == (True, None)


def test_of_each_kind_of_record_whatever_bytes_are_there_are_what_the_schemas_say(tmp_path: Path) -> None:
    """Keys and values that are cut anywhere, empty, or not there: read as by the server, or kept with the reason."""
    records = []
    for kind in KINDS:
        if kind.key.cls is not facts.OffsetCommitKey:
            key, value = facts.encode(facts.Record(kind.key.cls(), kind.value.cls()))
            records += [Record(key, value and value[:size]) for size in range(len(value or b"") + 1)]
            records += [Record(key[:size], value) for size in range(len(key))]
            records += [Record(key, None), Record(None, value)]
    Writer(tmp_path / "__consumer_offsets-0").append(records)
    read, kept = read_rows(tmp_path, "group_records"), read_rows(tmp_path, "unknown_records")
    found = {row["log_offset"]: row["is_tombstone"] for row in read} | {row["log_offset"]: row["value"] for row in kept}
    assert found == {offset: _expect(record) for offset, record in enumerate(records)}
    assert {row["log_offset"]: row["key"] for row in kept} == {
        row["log_offset"]: records[row["log_offset"]].key for row in kept
    }


def _expect(record: Record) -> bytes | bool | None:
    """Whether a record that can be read is a tombstone, else its value."""
    if record.key is None:
        return record.value
    try:
        known = facts.decode(record.key, record.value)
    except ProtocolError:
        return record.value
    return record.value if isinstance(known.key, facts.UnknownKey | facts.OffsetCommitKey) else record.value is None


@pytest.mark.parametrize("is_least", [False, True])
def test_the_states_of_share_partitions_may_have_any_numbers(tmp_path: Path, is_least: bool) -> None:
    """Each column holds what the field of the record holds, and no other one: a history makes the record of the row."""
    given = 0

    def limit(bits: int) -> int:
        """A number near the limit, another one each time."""
        nonlocal given
        given += 1
        return given - 2 ** (bits - 1) if is_least else 2 ** (bits - 1) - given

    def numbers(*bits: int) -> list[int]:
        return [limit(one) for one in bits]

    place = ("g", b"t" * 16, 2**31 - 1)
    batches = [StateBatch(*numbers(64, 64, 8, 16)) for _ in range(3)]
    snapshot = states.ShareSnapshotValue(*numbers(32, 32, 32, 64, 32, 64, 64), tuple(batches[:2]))
    update = states.ShareUpdateValue(*numbers(32, 32, 64, 32), (batches[2],))
    wanted = [
        states.StateRecord(kind(*place), value)
        for kind, value in (
            (states.ShareSnapshotKey, snapshot), (states.ShareUpdateKey, update), (states.ShareSnapshotKey, None)
        )
    ]  # fmt: skip
    writer = Writer(tmp_path / "__share_group_state-0")
    for record in wanted:
        writer.append([Record(*states.encode(record), timestamp=1_000)])
    found = read_rows(tmp_path, "share_records")
    assert [record_of(StateKey(*place), row) for row in found] == wanted
    assert {(row["group"], bytes.fromhex(row["topic_id"]), row["partition"]) for row in found} == {place}
    assert (found[0]["create_ts"], found[0]["write_ts"]) == (snapshot.create_timestamp, snapshot.write_timestamp)


def test_keeping_some_groups_and_times_only_leaves_rows_out(tmp_path: Path) -> None:
    write_logs(tmp_path, Plan(records=2000))
    everything = rows(tmp_path)
    times = sorted(row[2] for row in everything)
    first, last = times[len(times) // 3], times[len(times) // 2]
    for group, since_ms, until_ms in (("group-3", first, None), ("group-4", first, last), (None, None, last), (None, last, last + 1)):  # fmt: skip
        kept = rows(tmp_path, groups=group and frozenset({group}), since_ms=since_ms, until_ms=until_ms)
        assert kept == [
            row
            for row in everything
            if (group is None or row[3] == group)
            and (since_ms is None or row[2] >= since_ms)
            and (until_ms is None or row[2] < until_ms)
        ]
        assert kept


@pytest.mark.parametrize("damaged", [{"group"}, {"topic"}, {"metadata"}, {"group", "topic", "metadata"}, set()])
def test_text_that_is_no_utf8_is_read_and_reported(tmp_path: Path, damaged: set[str]) -> None:
    """Wherever it stands; what is beside it is as it was."""
    texts = {name: f"{name} ü" for name in ("group", "topic", "metadata")}
    whole = commit((texts["group"], texts["topic"], 0), 1, 1_000, metadata=texts["metadata"])
    key, value = whole.key or b"", whole.value or b""
    for name in damaged:
        key, value = (part.replace(f"{name} ü".encode(), f"{name} ".encode() + b"\xc3x") for part in (key, value))
    Writer(tmp_path / "__consumer_offsets-0").append([whole, Record(key, value, timestamp=1_000), whole])
    before, row, after = read_rows(tmp_path, "offset_commits")
    assert [before[name] for name in texts] == [after[name] for name in texts] == list(texts.values())
    assert {name: row[name] for name in texts} == {
        name: f"{name} \ufffdx" if name in damaged else text for name, text in texts.items()
    }
    problems = [(one["kind"], one["from_offset"], one["to_offset"]) for one in read_rows(tmp_path, "log_problems")]
    assert problems == ([("bad_utf8", 1, 1)] if damaged else [])


def test_batches_of_a_chunk_inflate_to_a_bound_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them may be far below the bound of one."""
    monkeypatch.setattr("pipeline.decode.records.CHUNK_INFLATED_MAX", 4_000)
    writer = Writer(tmp_path / "__consumer_offsets-0")
    for number in range(8):
        writer.append([commit(("g", "t", 0), number, number, metadata="m" * 900)], codec=4)
    assert [row["committed_offset"] for row in read_rows(tmp_path, "offset_commits")] == [0, 1, 2]
    problems = [(one["kind"], one["from_offset"]) for one in read_rows(tmp_path, "log_problems")]
    assert problems == [("decompress_failed", number) for number in range(3, 8)]


def test_groups_live_where_java_would_put_them() -> None:
    assert partition_of("", 50) == 0
    assert partition_of("hello", 50) == 99162322 % 50
    assert partition_of("polygenelubricants", 50) == 0, "the hash of the lowest int counts as 0"
    assert partition_of("😀", 7) == abs(31 * 0xD83D + 0xDE00) % 7, "surrogate pairs count as two"


def test_a_bomb_is_refused_before_it_grows(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "__consumer_offsets-0")
    writer.append([commit(("g", "t", 0), 1, 1)])
    batch = record_batch.encode([commit(("g", "t", 0), 2, 2)], base_offset=1)
    header = record_batch.header_at(batch)
    bomb = record_batch.seal(msgspec.structs.replace(header, attributes=4), compress(4, bytes(80 << 20)))
    path = next((tmp_path / "__consumer_offsets-0").glob("*.log"))
    path.write_bytes(path.read_bytes() + bomb)
    assert [row["committed_offset"] for row in read_rows(tmp_path, "offset_commits")] == [1]
    (problem,) = read_rows(tmp_path, "log_problems")
    assert (problem["kind"], problem["from_offset"], problem["to_offset"]) == ("decompress_failed", 1, 1)

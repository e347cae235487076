"""Commits in columns, against the way of any record: decided partition by partition, written, applied, read."""

import struct
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coordinator.core import records
from coordinator.core.limits import Limits
from coordinator.core.offset_records import read_commits, write_records
from coordinator.core.offsets import offset_commit
from coordinator.core.offsets.store import NOT_TRANSACTIONAL, OffsetStore
from coordinator.core.offsets.tally import Tally
from coordinator.core.record_types import (
    GroupMetadataKey,
    OffsetCommitKey,
    OffsetCommits,
    OffsetCommitValue,
    Record,
    count_records,
    single_records,
)
from coordinator.core.result import Call
from coordinator.core.shard import Shard
from coordinator.core.topics import NO_ID, Topic, Topics
from protocol import record_batch
from protocol.codec import decode_request, encode_request
from protocol.errors import ProtocolError
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.record_batch import PlainBatch
from protocol.records import Record as LogRecord
from protocol.records import read as read_records
from protocol.steps import finish_steps

NOW_MS = 1_700_000_000_000
ID = b"i" * 16
NAMES = st.sampled_from(["g", "a-group", "ü" * 40, "x" * 5_000])
INT32S, INT64S = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
VALUES = st.builds(
    OffsetCommitValue,
    INT64S,
    st.just(-1),
    st.sampled_from(["", "m", "ü" * 200]),
    INT64S,
    st.sampled_from([-1, NOW_MS]),
    st.sampled_from([NO_ID, ID]),
)


def in_columns(
    names: st.SearchStrategy[str] = NAMES, partitions: st.SearchStrategy[int] = INT32S
) -> st.SearchStrategy[OffsetCommits]:
    """Commits of up to five partitions."""
    rows = st.lists(st.tuples(partitions, INT64S, INT32S), min_size=1, max_size=5)
    columns = rows.map(lambda some: tuple(zip(*some, strict=True)))
    return st.builds(
        lambda group, topic, at_ms, three: OffsetCommits(group, topic, ID, at_ms, *three), names, names, INT64S, columns
    )


def many(count: int) -> OffsetCommits:
    return OffsetCommits("g", "t", ID, NOW_MS, *[tuple(range(count))] * 3)


KEYS = st.builds(OffsetCommitKey, NAMES, NAMES, INT32S)
ANY = st.builds(Record, KEYS, st.none() | VALUES) | st.builds(Record, st.builds(GroupMetadataKey, NAMES), st.none())
COMMIT = Record(OffsetCommitKey("g", "t", 1), OffsetCommitValue(5, -1, "", NOW_MS, -1, ID))


@given(
    turns=st.lists(
        st.tuples(st.lists(in_columns() | ANY, min_size=1, max_size=3), st.integers(-70_000, 70_000)),
        min_size=1,
        max_size=4,
    )
)
@example(turns=[([many(64)], 0), ([many(1)], 0)])
@example(turns=[([many(60)], 0), ([many(10)], 3), ([many(8_200)], 100), ([many(1)], 4)])
def test_commits_in_columns_are_written_as_single_records_are(
    turns: Sequence[tuple[Sequence[Record | OffsetCommits], int]],
) -> None:
    batch, logged = PlainBatch(NOW_MS), []
    for facts, later_ms in turns:
        at_ms = NOW_MS + later_ms if logged else NOW_MS
        batch.extend(write_records, facts, at_ms)
        logged += [LogRecord(*records.encode(fact), timestamp=at_ms) for fact in single_records(facts)]
    assert batch.seal() == record_batch.encode(logged)


@given(
    facts=st.lists(
        in_columns(st.sampled_from("gh"), st.integers(0, 2))
        | st.builds(
            Record,
            st.builds(OffsetCommitKey, st.sampled_from("gh"), st.just("g"), st.integers(0, 2)),
            st.none() | VALUES,
        )
    ),
    pending=st.booleans(),
    producer_id=st.sampled_from([NOT_TRANSACTIONAL, 7]),
)
@example(facts=[COMMIT, Record(COMMIT.key, None), COMMIT], pending=False, producer_id=NOT_TRANSACTIONAL)
@example(facts=[many(3), Record(COMMIT.key, None), many(2)], pending=True, producer_id=NOT_TRANSACTIONAL)
def test_offsets_applied_together_are_those_applied_one_by_one(
    facts: Sequence[Record | OffsetCommits], pending: bool, producer_id: int
) -> None:
    if producer_id != NOT_TRANSACTIONAL:
        facts = list(single_records(facts))
    together, one_by_one = OffsetStore(), OffsetStore()
    if pending:
        for store in (together, one_by_one):
            store.apply(COMMIT, 8)
    together.apply_all([Record(GroupMetadataKey("g"), None), *facts], producer_id)
    for fact in single_records(facts):
        one_by_one.apply(fact, producer_id)
    assert together.count == one_by_one.count
    for group in "gh":
        assert list(together.entries(group)) == list(one_by_one.entries(group))
    for store in (together, one_by_one):
        finish_steps(store.end_transaction(8, committed=True))
    assert all(list(together.entries(group)) == list(one_by_one.entries(group)) for group in "gh")


TOPICS = Topics([Topic("t", ID, 3), Topic("u", b"u" * 16, 2)])
ROWS = st.builds(
    OffsetCommitRequestPartition,
    st.integers(-1, 3),
    INT64S,
    INT32S,
    st.sampled_from([-1, NOW_MS - 5]),
    st.sampled_from(["", "", None, "m"]),
)


def as_sent(request: OffsetCommitRequest, version: int) -> OffsetCommitRequest:
    """Return a request as it is read from its frame: plain partitions come in columns."""
    sent: OffsetCommitRequest = decode_request(encode_request(8, version, 1, "c", request)[4:]).body
    return sent


PLAIN_ROWS = st.builds(OffsetCommitRequestPartition, st.integers(0, 1), INT64S, INT32S)


@given(
    topics=st.lists(
        st.builds(
            OffsetCommitRequestTopic,
            st.sampled_from("tuv"),
            st.sampled_from([ID, b"u" * 16, b"v" * 16]),
            (st.lists(ROWS, max_size=4) | st.lists(PLAIN_ROWS, min_size=1, max_size=4)).map(tuple),
        ),
        max_size=3,
    ),
    retention_ms=st.sampled_from([-1, -1, 1_000]),
    version=st.sampled_from([1, 2, 5, 6, 8, 10]),
)
def test_a_commit_in_columns_is_decided_as_one_partition_by_partition(
    topics: Sequence[OffsetCommitRequestTopic], retention_ms: int, version: int
) -> None:
    request = as_sent(OffsetCommitRequest("g", retention_time_ms=retention_ms, topics=tuple(topics)), version)
    call = Call(1, NOW_MS, version, "c", "/127.0.0.1", str)
    together, one_by_one = Shard(0, Limits(), TOPICS), Shard(0, Limits(), TOPICS)
    result = together.handle(request, call)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(offset_commit, "_take_together", lambda *_: None)
        expected = one_by_one.handle(request, call)
    assert not any(type(fact) is OffsetCommits for fact in expected.records)
    assert tuple(single_records(result.records)) == expected.records
    assert (result.response, result.effects, result.events) == (expected.response, expected.effects, expected.events)
    assert list(together.offsets.entries("g")) == list(one_by_one.offsets.entries("g"))
    assert (together.tally, list(together.groups)) == (one_by_one.tally, list(one_by_one.groups))


@pytest.mark.parametrize(("version", "epoch"), [(2, -1), (5, -1), (6, 7), (8, 7)])
def test_a_plain_commit_is_taken_in_columns(version: int, epoch: int) -> None:
    """What the property above compares are two ways."""
    rows = tuple(OffsetCommitRequestPartition(number, 5, epoch) for number in (1, 0))
    request = OffsetCommitRequest("g", topics=(OffsetCommitRequestTopic("t", partitions=rows),))
    call = Call(1, NOW_MS, version, "c", "/127.0.0.1", str)
    (fact,) = Shard(0, Limits(), TOPICS).handle(as_sent(request, version), call).records
    assert fact == OffsetCommits("g", "t", ID, NOW_MS, (1, 0), (5, 5), (epoch, epoch))
    assert count_records((fact, COMMIT)) == 3
    tally = Tally()
    tally.count((fact, COMMIT))
    assert (tally.commits, tally.deletions) == (3, 0)


SIMILAR = st.builds(
    Record,
    st.builds(OffsetCommitKey, st.sampled_from("gh"), st.sampled_from(["t", "topic"]), st.integers(0, 200)),
    st.builds(
        OffsetCommitValue,
        st.integers(0, 9),
        st.integers(-1, 1),
        st.just(""),
        st.sampled_from([NOW_MS, NOW_MS + 1]),
        st.just(-1),
        st.sampled_from([ID, b"j" * 16, NO_ID]),
    ),
)


def as_records(commits: list[OffsetCommits]) -> list[Record]:
    return list(single_records(commits))


def _read_generally(data: bytes, end: int, count: int) -> list[Record] | None:
    try:
        found = read_records(data, 0, end, count, 0, NOW_MS)
        return [records.decode(record.key or b"", record.value) for record in found]
    except ProtocolError:
        return None


@given(
    facts=st.lists(SIMILAR, min_size=1, max_size=12) | st.lists(in_columns(), min_size=1, max_size=3).map(as_records),
    deltas=st.tuples(st.sampled_from([0, 60, 500, 8_180]), st.integers(-70_000, 70_000)),
    other=st.none() | ANY,
    more=st.integers(-2, 2),
    pending=st.booleans(),
)
@example(facts=[COMMIT] * 100, deltas=(0, 0), other=None, more=0, pending=False)
def test_commits_read_in_one_pass_are_those_of_the_general_way(
    facts: list[Record],
    deltas: tuple[int, int],
    other: Record | None,
    more: int,
    pending: bool,
) -> None:
    data = write_records(facts if other is None else [*facts, other], *deltas)[0] + b"\0" * 9
    count, end = len(facts) + (other is not None) + more, len(data) - 9
    commits, general = read_commits(data, 0, end, count), _read_generally(data, end, count)
    if commits is None:
        assert more or other or deltas[0] + count > 8_192, "these are as commits are written"
        return
    assert general is not None, "what cannot be read was read"
    together, one_by_one = OffsetStore(), OffsetStore()
    for store in (together, one_by_one) if pending else ():
        store.apply(COMMIT, 8)
    for one in commits:
        together.commit(*one)
    for fact in general:
        one_by_one.apply(fact)
    assert together.count == one_by_one.count
    for group in {fact.key.group for fact in general if isinstance(fact.key, OffsetCommitKey)} | {"g"}:
        assert list(together.entries(group)) == list(one_by_one.entries(group))
    for store in (together, one_by_one):
        finish_steps(store.end_transaction(8, committed=True))
    assert all(list(together.entries(group)) == list(one_by_one.entries(group)) for group in "gh")


@pytest.mark.parametrize("delta", [0, 62, 500])
@pytest.mark.parametrize("form", ["version 4", "without a topic id", "version 3"])
def test_no_damage_to_commits_is_read_in_one_pass_and_not_in_the_general_way(delta: int, form: str) -> None:
    value = OffsetCommitValue(5, -1, "", NOW_MS, -1, ID if form == "version 4" else NO_ID)
    facts = [Record(OffsetCommitKey("g", "t", index), value) for index in range(3)]
    whole, _ = write_records(facts, delta, 300)
    if form == "version 3":  # version, offset, epoch, metadata, time
        old = struct.pack(">hqihq", 3, 5, -1, 0, NOW_MS)
        whole = whole.replace(records.encode(facts[0])[1] or b"", old)
    assert read_commits(whole, 0, len(whole), 3) is not None
    for position in range(len(whole)):
        for bit in range(8):
            data = bytearray(whole)
            data[position] ^= 1 << bit
            commits = read_commits(bytes(data), 0, len(data), 3)
            if commits is not None:
                general = _read_generally(bytes(data), len(data), 3)
                assert general is not None, f"bit {bit} of byte {position}"
                found = {
                    OffsetCommitKey(one.group, one.topic, index): value
                    for one in commits
                    for index, value in one.offsets.items()
                }
                assert found == {fact.key: fact.value for fact in general}, f"bit {bit} of byte {position}"

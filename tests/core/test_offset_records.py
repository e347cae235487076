"""Commits written and read in one pass, against the way of any record; and applied together, against one by one."""

import struct
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coordinator.core import records
from coordinator.core.offset_records import read_commits, write_records
from coordinator.core.offsets.store import NOT_TRANSACTIONAL, OffsetStore
from coordinator.core.record_types import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue, Record
from coordinator.core.topics import NO_ID
from protocol import record_batch
from protocol.errors import ProtocolError
from protocol.record_batch import PlainBatch
from protocol.records import Record as LogRecord
from protocol.records import read as read_records

NOW_MS = 1_700_000_000_000
NAMES = st.sampled_from(["g", "a-group", "ü" * 40, "x" * 5_000])
KEYS = st.builds(OffsetCommitKey, NAMES, NAMES, st.integers(0, 2**31 - 1))
OFFSETS = st.integers(-(2**63), 2**63 - 1)
COMMITS = st.builds(
    OffsetCommitValue, OFFSETS, st.integers(-1, 2**31 - 1), st.just(""), OFFSETS, st.just(-1), st.just(b"i" * 16)
)
OTHERS = st.builds(
    OffsetCommitValue,
    OFFSETS,
    st.just(-1),
    st.sampled_from(["", "m", "ü" * 200]),
    OFFSETS,
    st.sampled_from([-1, NOW_MS]),
    st.sampled_from([NO_ID, b"i" * 16]),
)
COMMON = st.builds(Record, KEYS, COMMITS)
ANY = st.builds(Record, KEYS, st.none() | COMMITS | OTHERS) | st.builds(
    Record, st.builds(GroupMetadataKey, NAMES), st.none()
)
COMMIT = Record(OffsetCommitKey("g", "t", 1), OffsetCommitValue(5, -1, "", NOW_MS, -1, b"i" * 16))


@given(
    turns=st.lists(
        st.tuples(st.lists(COMMON, max_size=3) | st.lists(ANY, max_size=3), st.integers(-70_000, 70_000)),
        min_size=1,
        max_size=4,
    )
)
@example(turns=[([COMMIT] * 1_100, 0), ([COMMIT] * 7_100, 3), ([COMMIT], 4)])
def test_records_written_in_one_pass_are_those_of_the_general_way(
    turns: Sequence[tuple[Sequence[Record], int]],
) -> None:
    batch, logged = PlainBatch(NOW_MS), []
    for facts, later_ms in turns:
        at_ms = NOW_MS + later_ms if logged else NOW_MS
        if facts:
            batch.extend(write_records(facts, *batch.next_deltas(at_ms)), at_ms)
            logged += [LogRecord(*records.encode(fact), timestamp=at_ms) for fact in facts]
    if logged:
        assert batch.seal() == record_batch.encode(logged)


@given(
    facts=st.lists(
        st.builds(
            Record,
            st.builds(OffsetCommitKey, st.sampled_from("gh"), st.sampled_from("tu"), st.integers(0, 2)),
            st.none() | COMMITS,
        )
    ),
    pending=st.booleans(),
    producer_id=st.sampled_from([NOT_TRANSACTIONAL, 7]),
)
@example(facts=[COMMIT, Record(COMMIT.key, None), COMMIT], pending=False, producer_id=NOT_TRANSACTIONAL)
def test_offsets_applied_together_are_those_applied_one_by_one(
    facts: Sequence[Record], pending: bool, producer_id: int
) -> None:
    together, one_by_one = OffsetStore(), OffsetStore()
    if pending:
        for store in (together, one_by_one):
            store.apply(COMMIT, 8)
    together.apply_all([Record(GroupMetadataKey("g"), None), *facts], producer_id)
    for fact in facts:
        one_by_one.apply(fact, producer_id)
    assert together.count == one_by_one.count
    for group in "gh":
        assert list(together.entries(group)) == list(one_by_one.entries(group))
    assert together.end_transaction(8, committed=True) == one_by_one.end_transaction(8, committed=True)


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
        st.sampled_from([b"i" * 16, b"j" * 16, NO_ID]),
    ),
)


def _read_generally(data: bytes, end: int, count: int) -> list[Record] | None:
    try:
        found = read_records(data, 0, end, count, 0, NOW_MS)
        return [records.decode(record.key or b"", record.value) for record in found]
    except ProtocolError:
        return None


@given(
    facts=st.lists(SIMILAR, min_size=1, max_size=12) | st.lists(COMMON, min_size=1, max_size=3),
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
    data = b"".join(write_records(facts if other is None else [*facts, other], *deltas)) + b"\0" * 9
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
    assert together.end_transaction(8, committed=True) == one_by_one.end_transaction(8, committed=True)


@pytest.mark.parametrize("delta", [0, 62, 500])
@pytest.mark.parametrize("form", ["version 4", "without a topic id", "version 3"])
def test_no_damage_to_commits_is_read_in_one_pass_and_not_in_the_general_way(delta: int, form: str) -> None:
    value = OffsetCommitValue(5, -1, "", NOW_MS, -1, b"i" * 16 if form == "version 4" else NO_ID)
    facts = [Record(OffsetCommitKey("g", "t", index), value) for index in range(3)]
    whole = b"".join(write_records(facts, delta, 300))
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

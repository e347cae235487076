"""Commits written in one pass, against the way of any record; and applied together, against one by one."""

from collections.abc import Sequence

from hypothesis import example, given
from hypothesis import strategies as st

from coordinator.core import records
from coordinator.core.offset_records import write_records
from coordinator.core.offsets.store import NOT_TRANSACTIONAL, OffsetStore
from coordinator.core.record_types import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue, Record
from coordinator.core.topics import NO_ID
from protocol import record_batch
from protocol.record_batch import PlainBatch
from protocol.records import Record as LogRecord

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

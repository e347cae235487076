"""The states of share partitions: what is answered, what is written, and that the log alone tells them again."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.refusal import Refusal
from coordinator.core.share_state.machine import NEGATIVE_PARTITION, StateDecision, StateMachine
from coordinator.core.share_state.records import ShareSnapshotValue, ShareUpdateValue, StateRecord, decode, encode
from coordinator.core.share_state.values import ShareState, StateBatch, StateKey, StateSummary, StateUpdate
from coordinator.core.topics import Topic, Topics
from protocol.errors import ErrorCode

ORDERS = bytes([7] * 16)
TOPICS = Topics((Topic("orders", ORDERS, 2),))
KEY = StateKey("g", ORDERS, 1)


class Driver:
    """A machine with its log: each request is decided, written and applied."""

    def __init__(self, updates_per_snapshot: int = 3) -> None:
        self.machine = StateMachine(updates_per_snapshot)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.updates_per_snapshot = updates_per_snapshot

    def do(self, decision: StateDecision) -> Any:
        if decision.record is not None:
            written = encode(decision.record)
            self.note(decode(*written))
            self.log.append(written)
        return decision.answer

    def note(self, record: StateRecord) -> None:
        self.machine.apply(record)
        self.machine.note_offset(record, len(self.log))

    def initialize(self, state_epoch: int = 0, start_offset: int = -1, key: StateKey = KEY, now_ms: int = 1) -> Any:
        return self.do(self.machine.initialize(key, state_epoch, start_offset, TOPICS, now_ms))

    def write(self, *batches: StateBatch, start: int = -1, leader: int = -1, state: int = -1, count: int = 0) -> Any:
        update = StateUpdate(state, leader, start, count, batches)
        return self.do(self.machine.write(KEY, update, TOPICS, 2))

    def read(self, leader_epoch: int = -1) -> Any:
        return self.do(self.machine.read(KEY, leader_epoch, TOPICS, 3))

    def replayed(self, since: int = 0) -> StateMachine:
        """A machine that has read the log from a record on."""
        again = StateMachine(self.updates_per_snapshot)
        for offset, written in enumerate(self.log[since:], since):
            record = decode(*written)
            again.apply(record)
            again.note_offset(record, offset)
        return again


def states(machine: StateMachine) -> dict[StateKey, tuple[Any, ...]]:
    return {
        key: (entry.state, entry.leader_epoch, entry.state_epoch, entry.updates, entry.snapshot_offset)
        for key, entry in machine.entries.items()
    }


def code(answer: Any) -> ErrorCode:
    assert isinstance(answer, Refusal)
    return answer.error


def test_what_is_written_is_read() -> None:
    here = Driver()
    assert here.initialize(state_epoch=4) is None
    assert here.write(StateBatch(0, 9, 2, 1), start=0, count=3) is None
    assert here.write(StateBatch(5, 5, 0, 2)) is None
    assert here.read() == ShareState(
        state_epoch=4,
        start_offset=0,
        batches=(StateBatch(0, 4, 2, 1), StateBatch(5, 5, 0, 2), StateBatch(6, 9, 2, 1)),
        delivery_complete_count=0,
        create_timestamp=1,
        write_timestamp=1,
    )


def test_a_start_offset_that_moves_drops_what_is_below_it() -> None:
    here = Driver()
    here.initialize()
    here.write(StateBatch(0, 9, 2, 1))
    here.write(start=5)
    assert here.read().batches == (StateBatch(5, 9, 2, 1),)


def test_an_initialization_begins_anew_at_an_offset() -> None:
    here = Driver()
    here.initialize()
    here.write(StateBatch(0, 9, 2, 1), start=0)
    here.initialize(state_epoch=1, start_offset=50)
    found = here.read()
    assert (found.start_offset, found.batches, found.state_epoch) == (50, (), 1)
    assert (found.delivery_complete_count, found.snapshot_epoch) == (0, 1)


def test_older_epochs_are_fenced_and_minus_one_is_not_compared() -> None:
    here = Driver()
    here.initialize(state_epoch=3)
    here.read(leader_epoch=5)
    assert code(here.write(leader=4, state=3)) == ErrorCode.FENCED_LEADER_EPOCH
    assert code(here.write(leader=5, state=2)) == ErrorCode.FENCED_STATE_EPOCH
    assert code(here.read(leader_epoch=4)) == ErrorCode.FENCED_LEADER_EPOCH
    assert code(here.initialize(state_epoch=2)) == ErrorCode.FENCED_STATE_EPOCH
    assert here.write(leader=5, state=3) is here.write(leader=-1, state=-1) is here.initialize(state_epoch=-1) is None


def test_a_read_writes_only_a_leader_epoch_that_is_new() -> None:
    here = Driver()
    here.initialize()
    here.read(leader_epoch=0)
    here.read(leader_epoch=-1)
    assert len(here.log) == 1
    here.read(leader_epoch=2)
    here.read(leader_epoch=2)
    assert len(here.log) == 2 and here.read().leader_epoch == 2


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (StateKey("g", ORDERS, -1), Refusal(ErrorCode.INVALID_REQUEST, NEGATIVE_PARTITION)),
        (StateKey("g", ORDERS, 2), "This server does not host this topic-partition."),
        (StateKey("g", bytes([1] * 16), 0), "This server does not host this topic-partition."),
    ],
)
def test_a_partition_must_exist(key: StateKey, expected: Any) -> None:
    machine = StateMachine(500)
    answers = [
        machine.initialize(key, 0, -1, TOPICS, 1).answer,
        machine.summarize(key, TOPICS).answer,
        machine.delete(key, TOPICS).answer,
    ]
    for answer in answers:
        assert answer == expected or answer.message == expected


def test_a_state_that_was_never_initialized() -> None:
    here = Driver()
    assert here.write(StateBatch(0, 0, 2, 1)).message == (
        "Write operation on uninitialized share partition not allowed."
    )
    assert here.read().message == "Read operation on uninitialized share partition not allowed."
    assert here.machine.summarize(KEY, TOPICS).answer == StateSummary()
    assert here.machine.delete(KEY, TOPICS) == StateDecision(None)


def test_a_snapshot_follows_so_many_updates() -> None:
    here = Driver(updates_per_snapshot=2)
    here.initialize()
    for offset in range(5):
        here.write(StateBatch(offset, offset, 2, 1))
    values = [decode(*written).value for written in here.log]
    kinds = "".join("s" if isinstance(value, ShareSnapshotValue) else "u" for value in values)
    assert kinds == "suusuu"
    assert isinstance(values[3], ShareSnapshotValue) and values[3].state_batches == (StateBatch(0, 2, 2, 1),)
    assert isinstance(values[4], ShareUpdateValue) and values[4].snapshot_epoch == 1


def test_no_update_where_each_change_is_a_snapshot() -> None:
    here = Driver(updates_per_snapshot=0)
    here.initialize()
    here.write(StateBatch(0, 0, 2, 1))
    assert all(isinstance(decode(*written).value, ShareSnapshotValue) for written in here.log)


def test_topics_that_are_gone_take_their_states_along() -> None:
    here = Driver()
    here.initialize()
    here.initialize(key=StateKey("h", ORDERS, 0))
    for record in here.machine.remove_topics({ORDERS}):
        here.do(StateDecision(None, record))
    assert not here.machine.entries and not here.replayed().entries
    assert here.machine.needed_offset == len(here.log) - 1


def test_what_has_not_changed_for_long_gets_a_snapshot() -> None:
    here = Driver()
    here.initialize(now_ms=1_000)
    here.write(StateBatch(0, 4, 2, 1))
    assert list(here.machine.snapshot_cold(5_999, 5_000)) == []
    for record in here.machine.snapshot_cold(6_000, 5_000):
        here.do(StateDecision(None, record))
    assert here.machine.needed_offset == 2
    assert states(here.replayed(since=2))[KEY][0] == here.read()
    assert list(here.machine.snapshot_cold(99_000, 5_000)) == [], "nothing has changed since"


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("initialize"), st.integers(0, 3), st.integers(-1, 20)),
        st.tuples(
            st.just("write"), st.integers(0, 20), st.integers(0, 5), st.sampled_from((0, 2, 4)), st.integers(1, 3)
        ),
        st.tuples(st.just("start"), st.integers(0, 20)),
        st.tuples(st.just("read"), st.integers(-1, 3)),
        st.tuples(st.just("delete")),
    ),
    max_size=40,
)


@given(ACTIONS)
def test_the_log_tells_the_same_from_its_beginning_and_from_what_is_needed_on(actions: list[tuple[Any, ...]]) -> None:
    here = Driver(updates_per_snapshot=3)
    for action in actions:
        match action:
            case "initialize", epoch, start:
                here.initialize(epoch, start)
            case "write", first, size, state, count:
                here.write(StateBatch(first, first + size, state, count))
            case "start", start:
                here.write(start=start)
            case "read", epoch:
                here.read(epoch)
            case _:
                here.do(here.machine.delete(KEY, TOPICS))
    assert states(here.replayed()) == states(here.machine)
    pruned = here.replayed(since=here.machine.needed_offset)
    assert {key: entry.state for key, entry in pruned.entries.items()} == {
        key: entry.state for key, entry in here.machine.entries.items()
    }


def test_the_log_is_needed_from_the_oldest_of_the_latest_snapshots_on() -> None:
    here = Driver()
    other = StateKey("g", ORDERS, 0)
    here.initialize(key=other)
    here.initialize(start_offset=7)
    here.write(StateBatch(7, 9, 2, 1), start=7)
    assert here.machine.needed_offset == 0
    assert states(here.replayed(since=here.machine.needed_offset)) == states(here.machine)
    here.initialize(state_epoch=1, key=other)
    assert here.machine.needed_offset == 1, "of the partition whose snapshot is the older one now"
    assert states(here.replayed(since=1))[KEY] == states(here.machine)[KEY]


def test_a_former_leader_stays_fenced_when_a_state_begins_anew() -> None:
    here = Driver()
    here.initialize()
    here.read(leader_epoch=5)
    here.initialize(state_epoch=1, start_offset=50)
    assert code(here.write(leader=4, state=1)) == ErrorCode.FENCED_LEADER_EPOCH
    assert here.write(leader=5, state=1) is None


def test_what_lies_below_the_start_offset_is_not_written() -> None:
    here = Driver()
    here.initialize()
    here.write(StateBatch(0, 9, 2, 1), start=5)
    value = decode(*here.log[-1]).value
    assert isinstance(value, ShareUpdateValue)
    assert [(one.first_offset, one.last_offset) for one in value.state_batches] == [(5, 9)]

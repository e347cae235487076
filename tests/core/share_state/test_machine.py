"""The states of share partitions: what is answered, what is written, and that the log alone tells them again."""

from itertools import pairwise, product
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coordinator.core.refusal import Refusal
from coordinator.core.share_state import entry as entries
from coordinator.core.share_state.machine import NEGATIVE_PARTITION, StateDecision, StateMachine
from coordinator.core.share_state.records import (
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
    StateRecord,
    decode,
    encode,
)
from coordinator.core.share_state.values import ShareState, StateBatch, StateKey, StateSummary, StateUpdate
from coordinator.core.topics import Topic, Topics
from coordinator.core.weights import weigh_text
from protocol.errors import ErrorCode

ORDERS = bytes([7] * 16)
TOPICS = Topics((Topic("orders", ORDERS, 2),))
KEY = StateKey("g", ORDERS, 1)


class Driver:
    """A machine with its log: each request is decided, written and applied."""

    def __init__(self, updates_per_snapshot: int = 3) -> None:
        self.held_bytes = 0
        self.machine = StateMachine(updates_per_snapshot, self.hold)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.updates_per_snapshot = updates_per_snapshot

    def hold(self, more_bytes: int) -> None:
        self.held_bytes += more_bytes

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


def weigh_states(machine: StateMachine) -> int:
    """What the states take, counted anew, once the batches of each are combined."""
    batches = [len(entry.state.batches) for entry in machine.entries.values()]
    return sum([entries.STATE_BYTES + entries.BATCH_BYTES * count for count in batches]) + sum(
        weigh_text(key.group_id) for key in machine.entries
    )


def code(answer: Any) -> ErrorCode:
    assert isinstance(answer, Refusal)
    return answer.error


def code_of(answer: Any) -> ErrorCode:
    return ErrorCode.NONE if answer is None else code(answer)


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


EPOCHS = st.integers(-1, 3)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("initialize"), EPOCHS, st.integers(-1, 20)),
        st.tuples(
            st.just("write"), st.integers(0, 20), st.integers(0, 5), st.sampled_from((0, 2, 4)), st.integers(1, 3)
        ),
        st.tuples(st.just("start"), st.integers(-1, 20), EPOCHS, EPOCHS),
        st.tuples(st.just("read"), EPOCHS),
        st.tuples(st.just("wait")),
        st.tuples(st.just("other"), st.integers(0, 20)),
        st.tuples(st.just("delete")),
    ),
    max_size=40,
)


class Plain:
    """One state, thought of record by record; `seen_leader` and `seen_epoch` are the greatest of all time."""

    def __init__(self, epoch: int, start: int) -> None:
        self.seen_epoch, self.seen_leader = epoch, 0
        self.begin(epoch, start)

    def begin(self, epoch: int, start: int) -> None:
        self.epoch, self.leader, self.start = epoch, 0, start
        self.complete = -1 if start == -1 else 0
        self.records: dict[int, tuple[int, int]] = {}

    def refusal(self, leader: int, epoch: int = -1) -> ErrorCode:
        if -1 < leader < self.seen_leader:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.FENCED_STATE_EPOCH if -1 < epoch < self.seen_epoch else ErrorCode.NONE

    def begin_anew(self, epoch: int, start: int) -> None:
        self.begin(epoch, start)
        self.seen_epoch = max(self.seen_epoch, epoch)

    def write(self, batch: StateBatch | None, start: int, count: int) -> None:
        self.start, self.complete = self.start if start == -1 else start, count
        for offset in range(batch.first_offset, batch.last_offset + 1) if batch is not None else ():
            assert batch is not None
            said = (batch.delivery_count, batch.delivery_state)
            self.records[offset] = max(said, self.records.get(offset, said))
        self.records = {offset: said for offset, said in self.records.items() if offset >= self.start}

    def compare(self, state: ShareState) -> None:
        told = {
            offset: (batch.delivery_count, batch.delivery_state)
            for batch in state.batches
            for offset in range(batch.first_offset, batch.last_offset + 1)
        }
        assert told == self.records
        assert (state.state_epoch, state.leader_epoch, state.start_offset, state.delivery_complete_count) == (
            self.epoch,
            self.leader,
            self.start,
            self.complete,
        )


@given(ACTIONS, st.integers(0, 4))
@example([("initialize", 0, 10), ("write", 0, 2, 2, 1), ("start", 0, -1, -1)], 4)  # back to before what was left out
def test_a_state_is_what_was_written_record_by_record_and_the_log_tells_it(
    actions: list[tuple[Any, ...]], updates_per_snapshot: int
) -> None:
    """From its beginning, and from what is needed on. What is refused changes nothing."""
    here, plain, now_ms = Driver(updates_per_snapshot), None, 1
    for action in actions:
        before = len(here.log)
        answer, expected = None, ErrorCode.NONE
        match action:
            case "initialize", epoch, start:
                expected = ErrorCode.NONE if plain is None else plain.refusal(-1, epoch)
                answer = here.initialize(epoch, start, now_ms=now_ms)
                if expected == ErrorCode.NONE and plain is None:
                    plain = Plain(epoch, start)
                elif expected == ErrorCode.NONE:
                    plain.begin_anew(epoch, start)
            case "write", first, size, state, count:
                batch = StateBatch(first, first + size, state, count)
                answer = here.write(batch, count=count)
                expected = ErrorCode.INVALID_REQUEST if plain is None else ErrorCode.NONE
                if plain is not None:
                    plain.write(batch, -1, count)
            case "start", start, leader, epoch:
                answer = here.write(StateBatch(3, 6, 2, 1), start=start, leader=leader, state=epoch)
                expected = ErrorCode.INVALID_REQUEST if plain is None else plain.refusal(leader, epoch)
                if plain is not None and expected == ErrorCode.NONE:
                    plain.write(StateBatch(3, 6, 2, 1), start, 0)
            case "read", leader:
                answer = here.read(leader)
                expected = ErrorCode.INVALID_REQUEST if plain is None else plain.refusal(leader)
                if plain is not None and expected == ErrorCode.NONE:
                    plain.compare(answer)
                    answer = None
                    if leader not in (-1, plain.seen_leader):
                        plain.leader = plain.seen_leader = leader
            case "wait":
                now_ms += 3
                for record in here.machine.snapshot_cold(now_ms, 5):
                    here.do(StateDecision(None, record))
            case "other", offset:
                here.initialize(state_epoch=-1, start_offset=offset, key=StateKey("g", ORDERS, 0), now_ms=now_ms)
            case _:
                here.do(here.machine.delete(KEY, TOPICS))
                plain = None
        assert code_of(answer) == expected
        assert expected == ErrorCode.NONE or len(here.log) == before
        assert here.held_bytes == sum(entry.counted_bytes for entry in here.machine.entries.values())
    if plain is not None:
        plain.compare(here.read())
    assert states(here.replayed()) == states(here.machine)
    pruned = here.replayed(since=here.machine.needed_offset)
    assert {key: entry.state for key, entry in pruned.entries.items()} == {
        key: entry.state for key, entry in here.machine.entries.items()
    }
    for key in tuple(here.machine.entries):  # each is written as a whole, and nothing waits to be combined
        here.initialize(9, 0, key)
    assert here.held_bytes == here.machine.bytes == here.replayed().bytes == weigh_states(here.machine)


def test_updates_that_wait_to_be_combined_take_memory() -> None:
    here = Driver(updates_per_snapshot=100)
    here.initialize(start_offset=0)
    taken = [here.machine.bytes]
    for number in range(20):
        here.write(StateBatch(3 * number, 3 * number, 2, 1))
        taken.append(here.machine.bytes)
    assert [more - less for less, more in pairwise(taken)] == [entries.BATCH_BYTES] * 20


def test_whatever_epochs_come_an_older_one_than_the_latest_is_refused() -> None:
    for first, second, third in product(range(-1, 3), repeat=3):
        here, plain = Driver(), Plain(first, 0)
        here.initialize(first, 0)
        for epoch in (second, third):
            expected = plain.refusal(-1, epoch)
            assert code_of(here.initialize(epoch, 0)) == expected
            if expected == ErrorCode.NONE:
                plain.begin_anew(epoch, 0)
        for epoch in range(-1, 3):
            assert code_of(here.write(StateBatch(0, 4, 2, 1), state=epoch)) == plain.refusal(-1, epoch)


def test_a_state_of_a_partition_that_is_no_more_is_neither_read_nor_written() -> None:
    here = Driver()
    here.initialize()
    for topics in (Topics(), Topics([Topic("orders", ORDERS, 1)])):
        answers = [
            here.machine.read(KEY, -1, topics, 3),
            here.machine.write(KEY, StateUpdate(-1, -1, 5), topics, 3),
            here.machine.initialize(KEY, 1, 0, topics, 3),
        ]
        assert [code(one.answer) for one in answers] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 3
        assert not any(one.record for one in answers)


def test_updates_of_a_log_that_lacks_their_snapshot_and_that_say_little_are_read() -> None:
    """As Kafka writes -1 for what has not changed."""
    here = Driver()
    key = ShareUpdateKey("g", ORDERS, 1)
    here.note(StateRecord(key, ShareUpdateValue(0, 3, 7, 0, (StateBatch(7, 9, 2, 1),))))
    here.note(StateRecord(key, ShareUpdateValue(0, -1, -1, 2, (StateBatch(10, 10, 2, 1),))))
    found = here.read()
    assert (found.start_offset, found.leader_epoch, found.delivery_complete_count) == (7, 3, 2)
    assert found.batches == (StateBatch(7, 10, 2, 1),)


def test_a_state_that_begins_anew_goes_on_to_count_its_updates() -> None:
    here = Driver(updates_per_snapshot=2)
    for _ in range(2):
        here.initialize()
        here.write(StateBatch(0, 0, 2, 1))
    here.write(StateBatch(1, 1, 2, 1))
    kinds = ["s" if isinstance(decode(*written).value, ShareSnapshotValue) else "u" for written in here.log]
    assert "".join(kinds) == "susus"


def test_one_state_gets_a_snapshot_beside_one_that_had_it_already() -> None:
    here = Driver()
    here.initialize(now_ms=1_000)
    for record in here.machine.snapshot_cold(6_000, 5_000):
        here.do(StateDecision(None, record))
    here.initialize(key=StateKey("g", ORDERS, 0), now_ms=6_500)
    due = [record.key.partition for record in here.machine.snapshot_cold(11_600, 5_000)]
    assert due == [1, 0]


def test_updates_are_combined_before_they_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than so many wait only if the state has more batches."""
    monkeypatch.setattr(entries, "UNCOMBINED_MAX", 10)
    here = Driver(updates_per_snapshot=1_000)
    here.initialize(start_offset=0)
    entry = here.machine.entries[KEY]
    for offset in range(0, 100, 2):
        here.write(StateBatch(offset, offset, 2, 1), start=0)
        assert len(entry._uncombined) <= max(10, len(entry.head.batches))
    assert len(entry.head.batches) >= 40


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

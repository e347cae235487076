"""The pass over all offsets of a shard."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from coordinator.core.limits import Limits
from coordinator.core.offsets.expiry import cut_forgotten_offsets
from coordinator.core.offsets.store import NOT_TRANSACTIONAL, OffsetStore
from coordinator.core.records import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue, Record
from coordinator.core.timers import EXPIRY, IMMEDIATELY
from coordinator.core.topics import Topic, Topics
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.core.driver import ShardDriver
from tests.requests import commit

DAY_MS = 86_400_000


def commit_in_five_groups(monkeypatch: pytest.MonkeyPatch) -> ShardDriver:
    """Let a shard have an offset of each of five groups, of which a turn cleans two."""
    monkeypatch.setattr("coordinator.core.shard.CLEANED_AT_ONCE", 2)
    driver = ShardDriver(Limits(), Topics([Topic("t", b"t" * 16, 1)]))
    driver.load()
    for number in range(5):
        driver.handle(commit(f"g{number}", {"t": {0: 5}}), driver.call(8))
    return driver


def test_offsets_expire_in_parts_that_follow_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass over more groups than one turn has time for goes on in the next turn, not ten minutes later."""
    driver = commit_in_five_groups(monkeypatch)
    driver.now_ms += 8 * DAY_MS
    seen = []
    for _ in range(6):
        driver.fire()
        seen.append((len(driver.shard.groups), driver.shard.timers.earliest_wakeup_ms()))
    rest = [(left, IMMEDIATELY) for left in (4, 3, 2, 1, 0)]
    assert seen == [*rest, (0, driver.now_ms + driver.limits.offsets_retention_check_interval_ms)]


def test_a_move_of_the_clock_in_the_middle_of_a_pass_begins_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The groups that the pass has seen before are looked at again, at the new time."""
    driver = commit_in_five_groups(monkeypatch)
    driver.now_ms += 6 * DAY_MS
    for _ in range(3):
        driver.fire()
    driver.now_ms += 2 * DAY_MS
    driver.shard.timers.set(EXPIRY, driver.now_ms)
    may_work = iter([False, *[True] * 9])  # another shard works first
    for _ in range(7):
        driver.take_all(driver.shard.fire(driver.now_ms, lambda: next(may_work)))
    assert not driver.shard.groups


def test_offsets_of_a_group_that_is_empty_since_nobody_knows_when_expire_by_their_own_time() -> None:
    """As its record of an old version tells: it would be since 1970."""
    driver = ShardDriver(Limits(), Topics([Topic("t", b"t" * 16, 2)]))
    value = GroupMetadataValue("consumer", 4)
    assert value.current_state_timestamp == -1
    driver.shard.replay(Record(GroupMetadataKey("g"), value))
    for partition in range(2):
        committed = OffsetCommitValue(5, commit_timestamp=driver.now_ms + partition * DAY_MS)
        driver.shard.replay(Record(OffsetCommitKey("g", "t", partition), committed))
    driver.load()
    left = []
    for _ in range(9):
        driver.wait(DAY_MS)
        left.append(list(driver.shard.offsets.of_topic("g", "t")))
    assert left == [[0, 1]] * 6 + [[1]] + [[]] * 2
    assert not driver.shard.groups
    assert driver.shard.tally.expirations == 2


def test_a_retention_that_is_too_long_for_a_record_is_for_ever_and_deletions_are_counted() -> None:
    driver = ShardDriver(Limits(), Topics([Topic("t", b"t" * 16, 3)]))
    driver.load()
    for retention_ms in (2**63 - 1, 5 * DAY_MS):
        request = replace(commit("g", {"t": {0: 5, 1: 6, 2: 7}}), retention_time_ms=retention_ms)
        answered = driver.handle(request, driver.call(4)).response
        assert {one.error_code for one in answered.topics[0].partitions} == {0}
        driver.rebuild()
        times = {one.expire_timestamp for one in driver.shard.offsets.of_topic("g", "t").values()}
        assert times == {min(driver.now_ms + retention_ms, 2**63 - 1)}
    deleted = tuple(map(OffsetDeleteRequestPartition, (0, 2, 2)))
    driver.handle(OffsetDeleteRequest("g", (OffsetDeleteRequestTopic("t", deleted),)), driver.call(0))
    assert driver.shard.tally.deletions == 2 and list(driver.shard.offsets.of_topic("g", "t")) == [1]


TODAYS = {name: name.encode() * 16 for name in "tuv"}
OLD = b"-" * 16
KEYS = st.dictionaries(  # an id that no topic has any more, today's, or none, as in records of old
    st.tuples(st.sampled_from("gh"), st.sampled_from("tuv"), st.integers(0, 3)), st.sampled_from([OLD, None, bytes(16)])
)


@given(
    committed=KEYS,
    pending=KEYS,
    gone=st.sets(st.sampled_from("tuv")),
    again=st.sets(st.sampled_from("tuv")),
    most=st.integers(1, 3),
)
def test_what_is_forgotten_with_topics_is_all_that_was_committed_to_them(
    committed: dict[tuple[str, str, int], bytes | None],
    pending: dict[tuple[str, str, int], bytes | None],
    gone: set[str],
    again: set[str],
    most: int,
) -> None:
    """Whether a transaction has ended that committed it or not, in parts of any size, and nothing that was committed to
    a topic of that name since."""
    store = OffsetStore()
    for ids, producer_id in ((committed, NOT_TRANSACTIONAL), (pending, 7)):
        values = {key: OffsetCommitValue(1, topic_id=TODAYS[key[1]] if it is None else it) for key, it in ids.items()}
        store.apply_all([Record(OffsetCommitKey(*key), values[key]) for key in sorted(values)], producer_id)
    topics = Topics([Topic(name, TODAYS[name], 4) for name in "tuv" if name not in gone or name in again])
    for group in "gh":
        parts = list(cut_forgotten_offsets(group, store, lambda: topics, {name: {OLD} for name in gone}, most))
        assert all(len(part) <= most for part in parts)
        assert sorted((key.topic, key.partition) for part in parts for key in part) == sorted(
            key[1:]
            for key in committed.keys() | pending.keys()
            if key[0] == group
            and key[1] in gone
            and (key[1] not in again or {ids[key] for ids in (committed, pending) if key in ids} == {OLD})
        )

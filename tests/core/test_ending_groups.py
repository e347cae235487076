"""The end of a group with more offsets than one batch has tombstones for: at once for all, and written in steps."""

import random

import pytest

from coordinator.core import cleanup
from coordinator.core.kinds.classic.group import ClassicGroup
from coordinator.core.limits import Limits
from coordinator.core.moves import LoseMembers
from coordinator.core.record_types import GroupMetadataKey, OffsetCommitKey
from coordinator.core.records import decode
from coordinator.core.result import RemoveOffsets
from coordinator.core.topics import Topic, Topics
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.steps import finish_steps
from tests.core.driver import Entry, ShardDriver
from tests.requests import commit, commit_in_transaction

TOPICS = Topics([Topic("t", b"t" * 16, 40), Topic("u", b"u" * 16, 40)])
DAY_MS = 86_400_000


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanup, "TOMBSTONES_A_STEP", 4)


def group_with_offsets() -> ShardDriver:
    """A group without members, with committed offsets of both topics, and pending ones of two producers."""
    driver = ShardDriver(Limits(), TOPICS)
    driver.load()
    driver.handle(commit("g", {"t": dict.fromkeys(range(9), 5)}), driver.call(8))
    entry = OffsetCommitRequestPartition(0, 5, committed_metadata="m")
    driver.handle(
        OffsetCommitRequest("g", topics=(OffsetCommitRequestTopic("u", partitions=(entry,)),)), driver.call(8)
    )
    driver.handle(commit("other", {"t": {0: 5}}), driver.call(8))
    for producer_id, partitions in ((7, (1, 20)), (8, (1, 21))):
        request = commit_in_transaction("x", "g", (producer_id, 0), {"u": dict.fromkeys(partitions, 6)})
        driver.handle(request, driver.call(3))
    return driver


def is_of_g(entry: Entry) -> bool:
    """Whether a record of the log is an offset of the group."""
    key = decode(entry[0], None).key if isinstance(entry[0], bytes) else None
    return isinstance(key, OffsetCommitKey) and key.group == "g"


def test_nothing_of_it_is_seen_while_its_offsets_are_removed() -> None:
    driver = group_with_offsets()
    shard = driver.shard
    result = shard.delete("g", driver.call(2))
    assert [type(record.key) for record in result.records] == [*[OffsetCommitKey] * 4, GroupMetadataKey]
    (ended,) = [effect for effect in result.effects if isinstance(effect, RemoveOffsets)]
    shard.offsets.hide_group(ended.group_id)
    assert set(shard.groups) == {"other"} and list(shard.offsets.groups()) == ["other"]
    assert not shard.offsets.has_any_pending("g") and not list(shard.offsets.keys("g"))
    assert shard.offsets.count == 7, "they take memory until they are removed"
    finish_steps(shard.end_transaction(7, True))  # its offset was pending before the group ended
    assert list(shard.offsets.groups()) == ["other"]
    batches = [one.records for results in shard.remove_offsets("g", driver.now_ms) for one in results]
    assert [len(batch) for batch in batches] == [4, 4, 1]
    keys = [record.key for record in result.records[:4]] + [record.key for batch in batches for record in batch]
    assert len(keys) == len(set(keys)) == 13
    finish_steps(shard.end_transaction(8, True))
    assert list(shard.offsets.groups()) == ["other"]
    driver.handle(commit("g", {"t": {3: 9}}), driver.call(8))
    assert {key.partition for key in shard.offsets.keys("g")} == {3}


def test_a_group_without_members_loses_none() -> None:
    driver = group_with_offsets()
    before, result = driver.shard.groups["g"], driver.handle(LoseMembers("g"), driver.call(0))
    assert not (result.response.refusal or result.records or result.effects or result.events)
    assert driver.shard.groups["g"] is before


def test_memory_that_it_took_is_free() -> None:
    driver = group_with_offsets()
    before = ShardDriver(Limits(), TOPICS)
    before.handle(commit("other", {"t": {0: 5}}), before.call(8))
    driver.take(driver.shard.delete("g", driver.call(2)))
    assert (driver.shard.offsets.bytes, driver.shard.offsets.count) == (before.shard.offsets.bytes, 1)
    assert driver.shard.offsets.metadata_bytes == 0
    assert driver.shard.tally.deletions == 13
    driver.rebuild()


@pytest.mark.parametrize("seed", range(5))
def test_a_server_that_stops_meanwhile_does_the_rest_at_its_start(seed: int) -> None:
    """Wherever the log ends behind the end of the group, and though transactions of before have ended meanwhile."""
    driver = group_with_offsets()
    written = len(driver.log)
    driver.take(driver.shard.delete("g", driver.call(2)))
    dice = random.Random(seed)
    whole = driver.log
    end_of_group = next(at for at, entry in enumerate(whole) if at >= written and not is_of_g(entry)) + 1
    assert written + 5 == end_of_group < len(whole)
    driver.log = whole[: dice.randrange(end_of_group, len(whole) + 1)]
    for producer_id in (7, 8):
        driver.log.append((producer_id, dice.random() < 0.5))
    driver.replay()
    driver.load()
    assert set(driver.shard.groups) == {"other"} and list(driver.shard.offsets.groups()) == ["other"]
    driver.rebuild()
    assert driver.shard.offsets.count == 1


def test_what_expires_of_a_group_goes_in_parts_and_the_group_with_the_last_one() -> None:
    driver = ShardDriver(Limits(), TOPICS)
    driver.load()
    driver.handle(commit("g", {"t": dict.fromkeys(range(9), 5), "u": {0: 5}}), driver.call(8))
    driver.now_ms += 8 * DAY_MS
    before = len(driver.log)
    results = driver.shard.fire(driver.now_ms)
    driver.take_all(results)
    assert [len(one.records) for one in results] == [4, 4, 2 + 1], "one batch has the last offsets and the group"
    assert not driver.shard.groups and driver.shard.offsets.count == 0
    assert len(driver.log) == before + 11 and driver.shard.tally.expirations == 10
    driver.rebuild()


def test_a_group_that_gets_an_offset_while_it_expires_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.core.shard.CLEANED_AT_ONCE", 1)
    driver = ShardDriver(Limits(), TOPICS)
    driver.load()
    driver.handle(commit("g", {"t": dict.fromkeys(range(9), 5)}), driver.call(8))
    driver.now_ms += 8 * DAY_MS
    driver.fire()
    driver.handle(commit("g", {"t": {0: 6, 8: 6}}), driver.call(8))
    driver.fire()
    driver.fire()
    assert isinstance(driver.shard.groups["g"], ClassicGroup)
    assert {key.partition for key in driver.shard.offsets.keys("g")} == {0, 8}


def test_a_store_of_no_use_is_freed_a_topic_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """To free 150,000 offsets at once took 90 ms."""
    monkeypatch.setattr("coordinator.core.offsets.store.FREED_AT_ONCE", 1)
    offsets = group_with_offsets().shard.offsets
    assert len(list(offsets.forget())) == 4 + 3 + 3, (
        "pending offsets by producer, and by partition; topics of two groups"
    )
    assert not list(offsets.groups())

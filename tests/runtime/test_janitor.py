"""Upkeep of a node's logs: when it begins, and what it may not end."""

import errno
import logging

import msgspec
import pytest

from coordinator.runtime.janitor import AWAY_MS, FINISH_MS, REST_ROUNDS, RETRY_MS, Janitor
from protocol import record_batch
from protocol.records import Record
from storage.files import StorageError
from storage.log import Log, scan
from tests.log_lines import log_lines
from tests.requests import commit, create_topics, produce
from tests.server.in_memory import WALL_MS, InMemory
from tests.server.slow_disk import committing, end_sync, serving
from tests.storage.crashing_disk import CrashingDisk

INTERVAL_MS = 300_000


def compactable(log: Log) -> None:
    """Fill a log with what a compaction would take, whatever its size."""
    log.config = msgspec.structs.replace(log.config, compaction_bytes_min=1)
    for number in range(10):
        fact = Record(b"\0\x63future", b"%d" % number, timestamp=WALL_MS)
        log.append(record_batch.encode([fact]))


def values(log: Log) -> list[bytes | None]:
    return [record.value for _, records in scan(log) for record in records if record.key == b"\0\x63future"]


def test_records_are_not_deleted_by_their_age_right_after_a_start() -> None:
    """A clock that is far ahead when a container boots may be put right before anything is lost by it."""
    server = InMemory()
    peer = server.connect()
    peer.ask(create_topics({"t": 1}, {"retention.ms": "1000"}), 7)
    batch = record_batch.encode([Record(None, b"old", timestamp=WALL_MS - 60_000)])
    peer.ask(produce("t", {0: batch}), 12)
    janitor = Janitor(server.node, WALL_MS)
    log = server.node.world.dataplane._state.logs.log("t", 0)
    list(janitor.round(WALL_MS))
    list(janitor.round(WALL_MS + INTERVAL_MS - 1))
    assert log.start_offset == 0
    list(janitor.round(WALL_MS + INTERVAL_MS))
    assert log.start_offset == 1


def test_with_fsync_nobody_waits_for_a_look_at_transactions_of_which_none_is_to_be_finished() -> None:
    disk, server = serving()
    server.connect().send(committing("g", 2))
    server.turn()
    commits = server.node.engine.group_commit
    janitor, before = Janitor(server.node, WALL_MS), (commits.last_begun, commits.last_ended)
    list(janitor.round(WALL_MS + FINISH_MS))
    assert (commits.last_begun, commits.last_ended) == before == (before[1] + 1, before[1])
    end_sync(disk, server)


@pytest.mark.parametrize(("away_ms", "is_told"), [(AWAY_MS, False), (AWAY_MS + 1, True)])
def test_a_start_long_after_the_newest_record_says_so(
    away_ms: int, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    server = InMemory()
    with caplog.at_level(logging.WARNING, "muster.janitor"):
        Janitor(server.node, WALL_MS + away_ms)
    told = "the newest record is 24 hours old by this clock; if the clock is wrong, stop before records expire"
    assert ((told, {}) in log_lines(caplog)) == is_told


def test_a_compaction_that_fails_is_logged_and_tried_again_later(caplog: pytest.LogCaptureFixture) -> None:
    disk = CrashingDisk()
    server = InMemory(disk, offsets_topic_num_partitions=1)
    log = server.node.world.partitions[0].log
    compactable(log)
    janitor = Janitor(server.node, WALL_MS)
    disk.refuse = lambda operation, path: (operation == "append to" and path.endswith(".cleaned")) * errno.ENOSPC
    list(janitor.round(WALL_MS))
    (path,) = [segment.path for segment in log.segments[:1]]
    told = f"a compaction has failed: append to {path}.cleaned: No space left on device (ENOSPC)"
    assert (told, {"log": log.directory}) in log_lines(caplog)
    assert (log.failure, len(values(log))) == (None, 10)
    disk.refuse = lambda operation, path: 0
    list(janitor.round(WALL_MS + RETRY_MS - 1))
    assert len(values(log)) == 10
    before = log.size
    with caplog.at_level(logging.INFO, "muster"):
        list(janitor.round(WALL_MS + RETRY_MS))
    assert values(log) == [b"9"]
    assert log_lines(caplog)[-1] == ("compacted", {"log": log.directory, "before": before, "after": log.size})


def test_a_log_of_the_coordinator_that_takes_nothing_more_ends_the_upkeep() -> None:
    disk = CrashingDisk()
    server = InMemory(disk, offsets_topic_num_partitions=1)
    log = server.node.world.partitions[0].log
    compactable(log)
    disk.refuse = lambda operation, path: (operation == "sync" and path.endswith(".log")) * errno.EIO
    with pytest.raises(StorageError, match="EIO"):
        list(Janitor(server.node, WALL_MS).round(WALL_MS))


@pytest.mark.parametrize(("settings", "is_compacted"), [({}, False), ({"offsets_topic_min_dirty_bytes": 300}, True)])
def test_a_short_log_is_left_alone_unless_a_setting_says_otherwise(
    settings: dict[str, int], is_compacted: bool
) -> None:
    server = InMemory(**settings)
    peer = server.connect()
    for offset in range(5):
        peer.ask(commit("g", {"orders": {0: offset}}), 8)
    (log,) = [one.log for one in server.node.world.partitions if one.has_log]
    list(Janitor(server.node, WALL_MS).round(WALL_MS))
    assert sum(len(records) for _, records in scan(log)) == (1 if is_compacted else 5)


def test_a_log_that_was_compacted_rests_for_some_rounds() -> None:
    """However fast it grows, and whatever the coordinator's clock shows."""
    server = InMemory(offsets_topic_min_dirty_bytes=1)
    peer = server.connect()
    janitor = Janitor(server.node, WALL_MS)
    left = []
    for offset in range(REST_ROUNDS + 2):
        peer.ask(commit("g", {"orders": {0: offset}}), 8)
        (log,) = [one.log for one in server.node.world.partitions if one.has_log]
        list(janitor.round(WALL_MS))
        left.append(sum(len(records) for _, records in scan(log)))
    assert left == [1, *range(2, REST_ROUNDS + 1), 1, 2]
    for _ in range(2 * REST_ROUNDS):  # it is compacted once more
        list(janitor.round(WALL_MS))
    assert not janitor._rests_until, "the log may be deleted by now, and is forgotten"

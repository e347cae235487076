"""Which rebalances of a log are shown, where partitions have their beginnings of `--since` at different offsets."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, cast

import pytest

from coordinator.cli import group_changes as module
from coordinator.cli.group_changes import Changes
from coordinator.cli.since import Since
from coordinator.client.log_reader import FetchResult, LogReader
from coordinator.client.offsets import EARLIEST, LATEST
from coordinator.core import record_types as types
from pipeline.synth import commit, fact
from protocol import record_batch
from protocol.java_hash import partition_of

GROUPS = ("old", "new")
NOW, LONG_AGO = 7_000_000, 1_000


class Reader:
    """A topic of two partitions, each with a group that is made and deleted: long ago the one, just now the other."""

    def __init__(self) -> None:
        self.polls = 0
        self.batches = dict[int, bytes]()
        self.ends, self.since = dict[int, int](), dict[int, int]()
        for group, at_ms, base in (("old", LONG_AGO, 5_000), ("new", NOW, 10)):
            key = types.GroupMetadataKey(group)
            empty = types.GroupMetadataValue("consumer", 1, None, None, at_ms, ())
            home = partition_of(group, 2)
            self.batches[home] = record_batch.encode(
                [fact(key, empty, at_ms), fact(key, None, at_ms)], base_offset=base
            )
            self.ends[home], self.since[home] = base + 2, base + 2 if at_ms == LONG_AGO else base

    def offsets(self, time_ms: int, partitions: Iterable[int]) -> dict[int, int]:
        found = {EARLIEST: dict.fromkeys(self.ends, 0), LATEST: self.ends}.get(time_ms, self.since)
        return {one: found[one] for one in partitions}

    def read(self, starts: Mapping[int, int], ends: Mapping[int, int]) -> Iterator[FetchResult]:
        for partition in starts:
            yield FetchResult(partition, self.batches[partition], ends[partition], ends[partition])

    def seek(self, positions: Mapping[int, int]) -> None:
        pass

    def poll(self, wait_ms: int) -> Iterator[FetchResult]:
        """Commits come all the time. In the second poll a group is deleted; in the fourth one is migrated, of which the
        fifth has the rest."""
        self.polls += 1
        assert self.polls < 1_000, "there is always more, so nobody may wait for an end of it"
        at_ms = NOW + self.polls
        key, group = types.GroupMetadataKey("new"), types.ConsumerGroupMetadataKey("new")
        found = {
            2: [fact(types.GroupMetadataKey("old"), None, at_ms)],
            4: [fact(key, None, at_ms)],
            5: [fact(group, types.ConsumerGroupMetadataValue(3, 7), at_ms - 1)],
        }.get(self.polls, [])
        for partition in sorted(self.batches):
            own = [one for one in found if one.key and partition_of(one.key[4:7].decode(), 2) == partition]
            own.append(commit(("other", "t", 0), self.polls, at_ms))
            batch = record_batch.encode(own, base_offset=self.ends[partition])
            self.ends[partition] += len(own)
            yield FetchResult(partition, batch, self.ends[partition], self.ends[partition])


def find_deleted(partitions: Iterable[int], since: Since) -> list[str]:
    changes = Changes(cast("LogReader", cast("Any", Reader())), list(partitions), since)
    return sorted(one.group for one in changes.known() if "deleted" in one.causes)


def test_a_group_that_was_deleted_before_the_time_is_not_shown_whatever_other_partitions_hold() -> None:
    assert {partition_of(group, 2) for group in GROUPS} == {0, 1}
    assert find_deleted((0, 1), Since()) == sorted(GROUPS)
    assert find_deleted((0, 1), Since(ago_ms=1_000)) == ["new"]
    assert find_deleted((0, 1), Since(offset=1_000)) == ["old"]
    assert find_deleted((0, 1), Since(offset=9_000)) == []
    assert [find_deleted([partition_of(group, 2)], Since(ago_ms=1_000)) for group in GROUPS] == [[], ["new"]]


def test_an_offset_beyond_the_end_is_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a consumer; otherwise nothing would be told for as long as the log has not reached it."""
    monkeypatch.setattr(module, "WAIT_MS", 0)
    changes = Changes(cast("LogReader", cast("Any", Reader())), [0, 1], Since(offset=9_000))
    coming = (one for one in changes.read_changes() if one is not None)
    assert [(one.group, one.causes) for one in islice(coming, 2)] == [("old", ["deleted"]), ("new", ["migrated"])]


def test_where_groups_commit_all_the_time_what_comes_is_told_and_so_is_a_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "WAIT_MS", 0)
    reader = Reader()
    changes = Changes(cast("LogReader", cast("Any", reader)), [0, 1], Since(ago_ms=1_000))
    coming = changes.read_changes()
    told = [(reader.polls, None if one is None else (one.group, one.causes)) for one in islice(coming, 9)]
    assert told == [
        (1, None), (2, None), (3, ("old", ["deleted"])), (3, None), (4, None), (5, ("new", ["migrated"])), (5, None),
        (6, None), (7, None),
    ]  # fmt: skip


class GrowingReader:
    """A partition with a batch for each generation of a group. It ended at `end` when it was asked, and has grown."""

    read = LogReader.read

    def __init__(self, end: int, fetched: int) -> None:
        self.end, self.fetched, self.positions = end, fetched, dict[int, int]()
        key = types.GroupMetadataKey("g")
        empty = [types.GroupMetadataValue("consumer", n, None, None, NOW + n, ()) for n in range(8)]
        records = [fact(key, None if n % 3 == 2 else one, NOW + n) for n, one in enumerate(empty)]
        self.batches = [record_batch.encode([one], base_offset=n) for n, one in enumerate(records)]

    def offsets(self, time_ms: int, _: Iterable[int]) -> dict[int, int]:
        return {0: self.end if time_ms == LATEST else 0}

    def seek(self, positions: Mapping[int, int]) -> None:
        self.positions = dict(positions)

    def poll(self, _: int) -> Iterator[FetchResult]:
        at, last = self.positions[0], len(self.batches)
        if at < last:
            self.positions[0] = min(last, at + self.fetched)
            yield FetchResult(0, b"".join(self.batches[at : self.positions[0]]), self.positions[0], last)


@pytest.mark.parametrize("fetched", [1, 3, 8])
def test_what_comes_while_the_log_is_read_is_told_once(fetched: int) -> None:
    told = []
    for end in range(9):
        changes = Changes(cast("LogReader", cast("Any", GrowingReader(end, fetched))), [0], Since())
        known = list(changes.known())
        known += filter(None, islice(changes.read_changes(), 40))  # more than there are batches and pauses
        told.append([(one.log_offset, one.generation, one.causes) for one in known])
    assert told[8], "all of it was in the log before"
    assert told == [told[8]] * 9

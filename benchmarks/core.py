"""What deciding costs, without sockets and disks: requests through `Shard.handle`, and groups that double.

    python -m benchmarks.core

Microseconds of CPU a request in a group of 100, of which a heartbeat is the one that counts; then, for groups of 1,250
to 5,000 members, the CPU of a whole rebalance (all join, all sync), of one more member (all rejoin, all sync), and of
all leaving one by one, with the ratio to half as many members: 2.0 is linear, and 2.3 is the most it may be.
"""

import gc
import time
from collections.abc import Callable
from itertools import count

from coordinator.core import records
from coordinator.core.limits import Limits
from coordinator.core.records import OffsetCommitKey, OffsetCommitValue
from coordinator.core.result import Call
from coordinator.core.shard import Shard
from coordinator.core.topics import Topic, Topics
from protocol.messages import consumer_protocol
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMemberIdentity
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

SIZES = (1_250, 2_500, 5_000)
ROUNDS = 5
TOPICS = Topics([Topic("t", b"t" * 16, 100)])
SUBSCRIPTION = consumer_protocol.write(consumer_protocol.ConsumerProtocolSubscription(topics=("t",)), 1)
PROTOCOLS = (JoinGroupRequestProtocol("range", SUBSCRIPTION), JoinGroupRequestProtocol("roundrobin", SUBSCRIPTION))


class Group:
    """A shard with one group, and the clock that it needs."""

    def __init__(self) -> None:
        self.shard = Shard(0, Limits(group_initial_rebalance_delay_ms=3_000), TOPICS)
        self.members: list[str] = []
        self.now_ms = 1_700_000_000_000
        self._tickets, self._ids = count(1), count(1)

    def call(self, version: int) -> Call:
        return Call(next(self._tickets), self.now_ms, version, "c", "/127.0.0.1", lambda: f"{next(self._ids):036}")

    def join(self, member_id: str) -> object:
        request = JoinGroupRequest("g", 60_000, 300_000, member_id, None, "consumer", PROTOCOLS)
        return self.shard.handle(request, self.call(9)).response

    def grow(self, by: int) -> None:
        """So many new members are named, join, and wait."""
        named = [self.join("").member_id for _ in range(by)]
        for member_id in named:
            self.join(member_id)
        self.members += named

    def settle(self) -> None:
        """The join phase ends, and everybody syncs, the leader last."""
        while self.shard.groups["g"].state != "CompletingRebalance":
            self.now_ms = self.shard.next_deadline_ms() or 0
            self.shard.fire(self.now_ms)
        group = self.shard.groups["g"]
        leader, generation = group.leader, group.generation
        for member_id in self.members:
            if member_id != leader:
                self.shard.handle(SyncGroupRequest("g", generation, member_id), self.call(4))
        assignments = tuple(SyncGroupRequestAssignment(member_id, SUBSCRIPTION) for member_id in self.members)
        request = SyncGroupRequest("g", generation, leader or "", assignments=assignments)
        self.shard.handle(request, self.call(4))
        assert self.shard.groups["g"].state == "Stable"

    def one_more(self) -> None:
        self.grow(1)
        for member_id in self.members[:-1]:
            self.join(member_id)
        self.settle()

    def leave(self) -> None:
        for member_id in self.members:
            who = LeaveGroupRequestMemberIdentity(member_id)
            self.shard.handle(LeaveGroupRequest("g", members=(who,)), self.call(5))
        assert self.shard.groups["g"].is_empty


def cpu_ms(act: Callable[[], None]) -> float:
    gc.collect()
    before = time.process_time()
    act()
    return (time.process_time() - before) * 1_000


def phases(size: int) -> dict[str, float]:
    """CPU milliseconds of each phase of a group's life, the best of a few lives."""
    best: dict[str, float] = {}
    for _ in range(ROUNDS):
        group = Group()
        told = {
            "all join and sync": cpu_ms(lambda group=group: (group.grow(size), group.settle())),
            "one more, all rejoin and sync": cpu_ms(group.one_more),
            "all leave, one by one": cpu_ms(group.leave),
        }
        best = {name: min(ms, best.get(name, ms)) for name, ms in told.items()}
    return best


def microseconds(act: Callable[[], object], times: int) -> float:
    for _ in range(times // 10):
        act()
    before = time.process_time()
    for _ in range(times):
        act()
    return (time.process_time() - before) / times * 1_000_000


def requests() -> dict[str, float]:
    """CPU microseconds of single requests in a stable group of 100."""
    group = Group()
    group.grow(100)
    group.settle()
    shard, member_id = group.shard, group.members[50]
    beat = HeartbeatRequest("g", 1, member_id)
    partition = OffsetCommitRequestPartition(3, 1_000, 5, -1, "")
    commit = OffsetCommitRequest("g", 1, member_id, topics=(OffsetCommitRequestTopic("t", partitions=(partition,)),))
    fetch = OffsetFetchRequestGroup("g", topics=(OffsetFetchRequestTopics("t", partition_indexes=(3,)),))
    call, joining = group.call(9), JoinGroupRequest("g", 60_000, 300_000, member_id, None, "consumer", PROTOCOLS)
    key = OffsetCommitKey("group-of-some-length", "topic-of-some-length", 12)
    record = records.Record(key, OffsetCommitValue(123_456, 7, "", 1_700_000_000_000, -1, b"i" * 16))
    encoded = records.encode(record)
    store = Shard(0, Limits(), TOPICS)
    return {
        "Heartbeat": microseconds(lambda: shard.handle(beat, call), 200_000),
        "OffsetCommit, one partition": microseconds(lambda: shard.handle(commit, call), 50_000),
        "OffsetFetch, one partition": microseconds(lambda: shard.fetch_offsets(fetch, 9, require_stable=False), 50_000),
        "JoinGroup of a follower, nothing new": microseconds(lambda: shard.handle(joining, call), 50_000),
        "a record of an offset: encode": microseconds(lambda: records.encode(record), 100_000),
        "a record of an offset: decode and replay": microseconds(
            lambda: store.replay(records.decode(*encoded)), 100_000
        ),
    }


def main() -> None:
    for name, us in requests().items():
        print(f"{name:45} {us:8.2f} us")
    print()
    smaller: dict[str, float] = {}
    for size in SIZES:
        for name, ms in phases(size).items():
            ratio = f"{ms / smaller[name]:5.2f}x" if name in smaller else ""
            print(f"{size:5} members: {name:30} {ms:8.1f} ms  {ratio}")
            smaller[name] = ms


if __name__ == "__main__":
    main()

"""What deciding costs in a consumer group (KIP-848) whose members double, without sockets and disks.

    python -m benchmarks.consumer_groups

CPU milliseconds for groups of 1,250 to 5,000 members, each with one partition to get: all join, within as many
milliseconds; all beat until everybody has its share; one more comes and all beat until it has; all leave, one by one.
Beside it the ratio to half as many members: 2.0 is linear, and 2.5 is the most it may be.
"""

from collections.abc import Iterator
from itertools import count

from benchmarks.core import ROUNDS, SIZES, cpu_ms
from coordinator.core.limits import Limits
from coordinator.core.result import Call, ComputeTarget, TakeTarget
from coordinator.core.shard import Shard
from coordinator.core.topics import Topic, Topics
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from protocol.steps import finish_steps

TOPIC_ID = b"t" * 16
Owned = tuple[ConsumerGroupHeartbeatRequestTopicPartitions, ...]


class Group:
    """A shard with one group, what its members know, and the clock."""

    def __init__(self, partitions: int) -> None:
        self.shard = Shard(0, Limits(), Topics([Topic("t", TOPIC_ID, partitions)]))
        self.members: dict[str, tuple[int, Owned]] = {}  # epoch, and what each was told to own
        self.now_ms = 1_700_000_000_000
        self._tickets = count(1)

    def beat(self, member_id: str, epoch: int, **changes: object) -> None:
        """A heartbeat that says what the member owns, and that it has taken what it was told."""
        request = ConsumerGroupHeartbeatRequest("g", member_id, epoch, **changes)
        call = Call(next(self._tickets), self.now_ms, 1, "c", "/127.0.0.1", str)
        result = self.shard.handle(request, call)
        for wanted in [effect for effect in result.effects if isinstance(effect, ComputeTarget)]:  # of a large group
            taken = TakeTarget(wanted.group_id, wanted.target, finish_steps(wanted.steps))
            self.shard.handle(taken, wanted.call)
        answer = result.response
        assert not answer.error_code, answer
        told = answer.assignment
        owned = self.members[member_id][1] if told is None else told.topic_partitions
        self.members[member_id] = answer.member_epoch, owned

    def join(self, names: Iterator[str]) -> None:
        """They come a millisecond after each other: they are assigned once a second, not once a member."""
        for member_id in names:
            self.now_ms += 1
            self.members[member_id] = 0, ()
            changes = {"rebalance_timeout_ms": 300_000, "subscribed_topic_names": ("t",), "topic_partitions": ()}
            self.beat(member_id, 0, **changes)

    def settle(self) -> None:
        while self.shard.groups["g"].state != "Stable":
            self.now_ms += 1_000
            for member_id, (epoch, owned) in self.members.items():
                self.beat(member_id, epoch, topic_partitions=owned)

    def one_more(self) -> None:
        self.now_ms += 1_000
        self.join(iter(("z",)))
        self.settle()

    def leave(self) -> None:
        for member_id in self.members:
            self.beat(member_id, -1)
        assert self.shard.groups["g"].is_empty


def phases(size: int) -> dict[str, float]:
    """CPU milliseconds of each phase, the best of a few lives."""
    best: dict[str, float] = {}
    for _ in range(ROUNDS):
        group = Group(size)
        names = (f"m{number:06}" for number in range(size))
        told = {
            "all join": cpu_ms(lambda group=group, names=names: group.join(names)),
            "all settle": cpu_ms(group.settle),
            "one more, all settle": cpu_ms(group.one_more),
            "all leave, one by one": cpu_ms(group.leave),
        }
        best = {name: min(ms, best.get(name, ms)) for name, ms in told.items()}
    return best


def main() -> None:
    smaller: dict[str, float] = {}
    for size in SIZES:
        for name, ms in phases(size).items():
            ratio = f"{ms / smaller[name]:5.2f}x" if name in smaller else ""
            print(f"{size:5} members: {name:30} {ms:8.1f} ms  {ratio}")
            smaller[name] = ms


if __name__ == "__main__":
    main()

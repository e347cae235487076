"""Made-up lives of classic groups, written as the log would have them, with what really happened beside it.

A group's members come, leave with a last commit, fall silent until their session times out, come back under their
instance id, subscribe to another topic, and see their topic grow.
"""

import random
from pathlib import Path

import msgspec

from coordinator.core import records as facts
from pipeline.decode.layout import TOPIC
from pipeline.synth import Writer, commit, fact
from protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    write,
)

SESSION_MS = 45_000
BEAT_MS = 5_000  # members commit this often
KINDS = ("join", "join", "leave", "timeout", "static_rejoin", "subscription_change", "partition_count_change")


class Truth(msgspec.Struct, frozen=True):
    """The cause of a generation."""

    group: str
    generation: int
    cause: str


class _Member(msgspec.Struct):
    member_id: str
    instance: str | None
    topics: tuple[str, ...]


class Life:
    """One group in one log. Time moves as the story is told."""

    def __init__(self, writer: Writer, dice: random.Random, group: str, now_ms: int) -> None:
        self.writer, self.dice, self.group, self.now_ms = writer, dice, group, now_ms
        self.members: list[_Member] = []
        self.partitions = {"orders": 4, "payments": 2}
        self.offsets: dict[tuple[str, int], int] = {}
        self.generation = 0
        self.named = 0
        self.truth: list[Truth] = []

    def live(self, rebalances: int) -> list[Truth]:
        """Rebalance so many times, work in between; what happened."""
        self._happen("join")
        while len(self.truth) < rebalances:
            self._work(self.dice.randrange(2, 8))
            self._happen(self.dice.choice(KINDS))
        self._work(3)
        return self.truth

    def _happen(self, kind: str) -> None:
        if kind in ("leave", "timeout") and len(self.members) < 2:
            kind = "join"
        if kind == "static_rejoin" and not any(member.instance for member in self.members):
            kind = "join"
        getattr(self, f"_{kind}")()
        self.generation += kind != "static_rejoin"  # a static member takes its place without a new generation
        self.truth.append(Truth(self.group, self.generation, kind))
        self._write_group()

    def _join(self) -> None:
        self.named += 1
        static = self.dice.random() < 0.4
        instance = f"instance-{self.named}" if static else None
        self.members.append(_Member(f"consumer-{self.named}-{self.dice.getrandbits(32):08x}", instance, ("orders",)))

    def _leave(self) -> None:
        gone = self.dice.choice(self.members)
        self._commit(gone)
        self.members.remove(gone)
        self.now_ms += 300

    def _timeout(self) -> None:
        gone = self.dice.choice(self.members)
        until = self.now_ms + SESSION_MS
        while self.now_ms < until:
            self._commit(*[member for member in self.members if member is not gone])
            self.now_ms += BEAT_MS
        self.members.remove(gone)
        self.now_ms += 3_000

    def _static_rejoin(self) -> None:
        member = self.dice.choice([member for member in self.members if member.instance])
        member.member_id = f"{member.instance}-{self.dice.getrandbits(32):08x}"
        self.now_ms += 900

    def _subscription_change(self) -> None:
        member = self.dice.choice(self.members)
        member.topics = ("orders", "payments") if member.topics == ("orders",) else ("orders",)
        self.now_ms += 500

    def _partition_count_change(self) -> None:
        self.partitions["orders"] += self.dice.randrange(1, 3)
        self.now_ms += 500

    def _work(self, beats: int) -> None:
        for _ in range(beats):
            self._commit(*self.members)
            self.now_ms += BEAT_MS

    def _commit(self, *members: _Member) -> None:
        records = []
        for member in members:
            for topic, numbers in self._assign(member).items():
                for number in numbers:
                    at = self.offsets.get((topic, number), 0) + self.dice.randrange(0, 40)
                    self.offsets[topic, number] = at
                    records.append(commit((self.group, topic, number), at, self.now_ms))
        if records:
            self.writer.append(records)

    def _assign(self, member: _Member) -> dict[str, list[int]]:
        """Assign each topic's partitions in turns to its subscribers."""
        owned = {}
        for topic in member.topics:
            takers = [one for one in self.members if topic in one.topics]
            owned[topic] = list(range(takers.index(member), self.partitions[topic], len(takers)))
        return {topic: numbers for topic, numbers in owned.items() if numbers}

    def _write_group(self) -> None:
        state_ms = self.now_ms
        self.now_ms += self.dice.randrange(5, 400)
        value = facts.GroupMetadataValue(
            protocol_type="consumer",
            generation=self.generation,
            protocol="roundrobin",
            leader=self.members[0].member_id,
            current_state_timestamp=state_ms,
            members=tuple(self._record(member) for member in self.members),
        )
        self.writer.append([fact(facts.GroupMetadataKey(self.group), value, self.now_ms)])

    def _record(self, member: _Member) -> facts.GroupMetadataValueMember:
        owned = tuple(ConsumerProtocolAssignmentTopicPartition(t, tuple(p)) for t, p in self._assign(member).items())
        return facts.GroupMetadataValueMember(
            member_id=member.member_id,
            group_instance_id=member.instance,
            client_id="consumer",
            client_host="/127.0.0.1",
            rebalance_timeout=300_000,
            session_timeout=SESSION_MS,
            subscription=write(ConsumerProtocolSubscription(topics=member.topics)),
            assignment=write(ConsumerProtocolAssignment(assigned_partitions=owned)),
        )


def write_lives(
    directory: Path, seed: int = 1, groups: int = 20, rebalances: int = 15, partition: int = 0
) -> list[Truth]:
    """Write the lives of some groups into one log, one after the other. Returns what happened to each."""
    dice = random.Random(seed)
    writer = Writer(directory / f"{TOPIC}-{partition}")
    truth: list[Truth] = []
    for number in range(groups):
        truth += Life(writer, dice, f"life-{number}", 1_760_000_000_000).live(rebalances)
    return truth

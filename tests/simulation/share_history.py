"""A history of share groups: members that fetch and acknowledge as they like, a producer, and a server that is killed.

It has dice, promises and members of its own beside those of `history.py`, whose server and network it shares.
"""

import errno
from collections.abc import Callable
from random import Random
from typing import Final
from zlib import crc32

from msgspec import Struct

from coordinator.core.moves import StartBroker, StopBroker
from coordinator.core.share_state.values import StateKey
from tests.simulation.broken import Broken, promise
from tests.simulation.clock import START_MS, EventQueue
from tests.simulation.deliveries import Deliveries
from tests.simulation.long_targets import targets_in_steps
from tests.simulation.network import Network
from tests.simulation.server import Server, Slowness
from tests.simulation.share_members import TOPIC, ShareMember, Writer

ROUGH_MS: Final = 10 * 60_000
CALM_MS: Final = 5 * 60_000
GROUPS: Final = ("s0", "s1")
PARTITIONS: Final = 2
BROKER: Final = 0
OLD_RECORDS: Final[tuple[dict[str, str], ...]] = (
    {},
    {},
    {"retention.ms": "60000"},
    {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"},
)
"""Settings of the topic: its records stay, or retention removes the oldest, or compaction those of the same keys."""


class ShareReport(Struct, frozen=True):
    """What a history was made of."""

    seed: int
    requests: int
    starts: int
    delivered: int
    redelivered: int
    archived: int
    overtaken: int  # start offsets, by the start of the log
    missing: int  # records that compaction had removed before a member accepted or rejected them
    checksum: int


class ShareHistory:
    """One seed. `play` raises `Broken` where a promise is."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._dice = dice = Random(f"share groups of {seed}")
        self.clock = EventQueue()
        limit = dice.choice((2, 3, 5, 5))
        self.promises = Deliveries(10_080 * 60_000, "bidirectional", limit)
        slow = dice.choice(((), (0, 1), (0, 1, 5, 40), (5, 40, 500)))
        old_records = Random(f"old records of {seed}").choice(OLD_RECORDS)
        self.server = Server(
            self.clock,
            dice,
            self.promises,
            is_synced=dice.random() < 0.6,
            slowness=Slowness(dice, slow) if slow else None,
            topics={TOPIC: PARTITIONS},
            settings={
                "offsets_topic_num_partitions": 2,
                "share_coordinator_state_topic_num_partitions": 3,
                "share_coordinator_snapshot_update_records_per_snapshot": dice.choice((5, 500)),
                "log_segment_bytes": 8_192,
                "log_retention_ms": -1,
                "group_share_assignment_interval_ms": 0,
                "group_share_min_record_lock_duration_ms": 1_000,
                "group_share_record_lock_duration_ms": dice.choice((1_000, 4_000, 15_000)),
                "group_share_delivery_count_limit": limit,
                "group_share_min_partition_max_record_locks": 10,
                "group_share_partition_max_record_locks": dice.choice((100, 2_000)),
                **({"log_retention_check_interval_ms": 30_000, "log_segment_bytes": 1_024} if old_records else {}),
            },
        )
        self.network = Network(self.clock, self.server, dice)
        count = dice.choice((2, 3, 5))
        self.members = [ShareMember(f"m{n}", GROUPS[n % len(GROUPS)], self.network) for n in range(count)]
        self.writer = Writer("writer", PARTITIONS, self.network, old_records)
        self.writer.deletes = dice.random() < 0.5
        self._has_moves = dice.random() < 0.5
        self._trouble_ms = dice.choice((4_000, 15_000, 60_000))

    def play(self) -> ShareReport:
        """Live through it."""
        try:
            with self.promises.errors, targets_in_steps(self.seed):
                self._play()
        except Broken as broken:
            at = (self.clock.now_ms - START_MS) / 1000
            trace = "\n  ".join(self.promises.trace)
            raise Broken(f"share groups, seed {self.seed} at {at:.3f} s: {broken}\n  {trace}") from broken
        return self._report()

    def _play(self) -> None:
        self.server.start()
        self.writer.start()
        for member in self.members:
            self.clock.after(self._dice.uniform(0, 20_000), member.start)
        self._rough(START_MS + ROUGH_MS)
        self._calm(START_MS + ROUGH_MS + CALM_MS)

    def _rough(self, until_ms: int) -> None:
        self.network.trouble = self._dice.choice((0.0, 0.005, 0.03))
        troubles = self._troubles()
        while self.clock.now_ms < until_ms:
            wait_ms = 1 + int(self._dice.expovariate(1 / self._trouble_ms))
            self.clock.run(min(until_ms, self.clock.now_ms + wait_ms))
            act, _ = self._dice.choices(troubles, [weight for _, weight in troubles])[0]
            act()

    def _troubles(self) -> list[tuple[Callable[[], object], int]]:
        dice, server = self._dice, self.server
        return [
            (lambda: self._somebody().crash(), 8),
            (lambda: self._somebody().stop(), 8),
            (self._revive, 24),
            (server.stop, 2),
            (server.kill, 3),
            (lambda: server.kill_within(dice.randint(1, 60)), 4),
            (server.cut_power, 4),
            (lambda: server.fail_within(dice.randint(1, 60), dice.choice((errno.EIO, errno.ENOSPC))), 2),
            (lambda: server.stall(dice.choice((500, 5_000, 30_000))), 3),
            (lambda: server.is_up and server.freeze_clock(dice.choice((2_000, 20_000))), 3),
            (lambda: setattr(server, "wall_shift_ms", dice.choice((-3_600_000, 0, 0, 5_000, 3_600_000))), 2),
            (self._move, 4 if self._has_moves else 0),
        ]

    def _somebody(self) -> ShareMember:
        return self._dice.choice(self.members)

    def _revive(self) -> None:
        dead = [one for one in (*self.members, self.writer) if not one.is_alive]
        if dead:
            self._dice.choice(dead).start()

    def _move(self) -> None:
        """The coordinator of the states and of the groups is loaded again, which takes a while."""
        if self.server.is_ready:
            self.server.command(StopBroker(BROKER), StartBroker(BROKER, self._dice.choice((0, 50, 3_000))))

    def _calm(self, until_ms: int) -> None:
        """Nothing goes wrong any more, and members accept what they get: in the end nothing is left."""
        self.network.trouble = 0.0
        self.server.disk.fail.clear()
        self.server.disk.killed_at = self.server.disk.bytes_max = None
        self.server.wall_shift_ms = 0
        self.writer.crash()
        for member in self.members:
            member.is_diligent = True
            if not member.is_alive:
                member.start()
        self.clock.run(until_ms)
        promise(self.server.is_ready, "a server that nothing disturbs is ready")
        if self.server.node.world.dataplane.closed_partitions or self.promises.has_forgotten:
            return  # a disk that has failed has closed a log, or a power cut has taken what another log rests on
        topic_id = self.network.topic_id(TOPIC)
        groups = dict.fromkeys(member.group for member in self.members)
        ends = dict.fromkeys(range(PARTITIONS), 0)
        self.promises.check_all_done(
            self.server, ends, lambda index: [StateKey(group, topic_id, index) for group in groups]
        )

    def _report(self) -> ShareReport:
        checksum = 0
        for path, data in sorted(self.server.disk.contents().items()):
            checksum = crc32(data, crc32(path.encode(), checksum))
        told = self.promises
        return ShareReport(
            self.seed, self.server.requests, self.server.starts,
            told.delivered_count, told.redelivered_count, told.archived_count,
            told.overtaken_count, told.missing_count, checksum,
        )  # fmt: skip


def play(seed: int) -> ShareReport:
    """Play the history of a seed."""
    return ShareHistory(seed).play()

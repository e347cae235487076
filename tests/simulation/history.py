"""A history of one node: clients of all kinds, an operator, a janitor and a bad disk, all decided by one seed."""

import errno
from collections.abc import Callable
from random import Random
from typing import Any, Final
from zlib import crc32

from msgspec import Struct

from coordinator.core.moves import BrokerVerb, MoveGroup, MoveTransaction, StartBroker, StopBroker
from tests.simulation.admin import GROWING, Admin, Auditor
from tests.simulation.broken import Broken, promise
from tests.simulation.clock import START_MS, EventQueue
from tests.simulation.long_targets import targets_in_steps
from tests.simulation.members import ClassicMember, ConsumerMember, Member
from tests.simulation.network import Network
from tests.simulation.producer import JOURNAL, JOURNAL_PARTITIONS, Producer
from tests.simulation.promises import Promises
from tests.simulation.server import Server, Slowness

ROUND_MS: Final = 20 * 60_000
CALM_MS: Final = 6 * 60_000  # at the end of each round nothing goes wrong, so that the groups can settle
AUDIT_MS: Final = 15_000
MOVE_MS: Final = 20_000  # between two loads of a coordinator, where a history has them
BROKER: Final = 0
GROUPS: Final = ("g0", "g1", "g2")
POLICIES: Final = ("bidirectional", "bidirectional", "upgrade", "downgrade", "disabled")
MIXING: Final = ("bidirectional", "upgrade")  # members of both protocols may be in one group
RETENTION_MINUTES: Final = (30, 10_080)


class Report(Struct, frozen=True):
    """What a history was made of."""

    seed: int
    minutes: int
    clients: int
    requests: int
    faults: int
    starts: int
    generations: int
    compactions: int
    replays: int
    moves: int
    checksum: int  # of all that the disk holds: the same seed writes the same


def _slowness(seed: int) -> Slowness | None:
    """Return how slow the disk is: by dice of its own, so that the rest of a history is the same."""
    dice = Random(f"disk of {seed}")
    some = dice.choice(((), (0, 1), (0, 1, 5, 40), (5, 40, 500)))
    return Slowness(dice, some) if some else None


class History:
    """One seed, so many rounds of twenty minutes."""

    groups: tuple[str, ...] = GROUPS
    sizes: tuple[int, ...] = (2, 4, 7)  # how many members there may be

    def __init__(self, seed: int, rounds: int = 1, *, has_moves: bool = False) -> None:
        """With `has_moves`, coordinators are loaded again now and then, as if they moved to another broker."""
        self.seed, self.rounds = seed, rounds
        self._moves = Random(seed) if has_moves else None  # so that the rest of the history is the same
        self.moves = 0
        self._dice = dice = Random(seed)
        self.clock = EventQueue()
        retention = dice.choice(RETENTION_MINUTES)
        self.policy = dice.choice(POLICIES)
        self.promises = Promises(retention * 60_000, self.policy)
        self.server = Server(
            self.clock,
            dice,
            self.promises,
            is_synced=dice.random() < 0.6,
            slowness=_slowness(seed),
            topics={**dict.fromkeys(GROWING, 3), JOURNAL: JOURNAL_PARTITIONS},
            settings={
                "offsets_topic_num_partitions": 3,
                "offsets_topic_segment_bytes": 16_384,
                "log_segment_bytes": 8_192,
                "offsets_retention_minutes": retention,
                "offsets_retention_check_interval_ms": 60_000,
                "log_retention_check_interval_ms": 30_000,
                "log_cleaner_delete_retention_ms": dice.choice((0, 60_000, 86_400_000)),
                "group_initial_rebalance_delay_ms": dice.choice((0, 3_000)),
                "group_consumer_assignment_interval_ms": dice.choice((0, 1_000)),
                "group_consumer_migration_policy": self.policy,
                **self.more_settings(),
            },
        )
        self.network = Network(self.clock, self.server, dice)
        count = dice.choice(self.sizes)
        self.members = self.network.members = [self._member(number) for number in range(count)]
        self.producers = [Producer(f"p{number}", self.network) for number in range(dice.choice((1, 2)))]
        groups = (*self.groups, *(producer.group for producer in self.producers))
        self.admin = Admin("admin", self.groups, self.network)
        self.auditor = Auditor(groups, self.network)
        self.faults = 0
        self._trouble_ms = dice.choice((4_000, 15_000, 60_000))  # between two things that go wrong
        self._is_calm = False

    def more_settings(self) -> dict[str, Any]:
        """Return what else the server is started with."""
        return {}

    def _member(self, number: int, kind: type[Member] | None = None) -> Member:
        dice = self._dice
        kind = kind or dice.choice((ClassicMember, ConsumerMember))
        instance = f"i{number}" if dice.random() < 0.4 else None
        topics = dice.choice((GROWING, GROWING, GROWING[:1]))
        return kind(f"m{number}", self.groups[number % len(self.groups)], topics, instance, self.network)

    def play(self) -> Report:
        """Live through it. Raises `Broken` with the seed, the time and the latest events where a promise is."""
        try:
            with self.promises.errors, targets_in_steps(self.seed):
                self._play()
        except Broken as broken:
            at = (self.clock.now_ms - START_MS) / 1000
            trace = "\n  ".join(self.promises.trace)
            raise Broken(f"seed {self.seed} at {at:.3f} s: {broken}\n  {trace}") from broken
        return self._report()

    def _play(self) -> None:
        self.server.start()
        for _ in range(len(self.members) + len(self.producers)):
            self.clock.after(self._dice.uniform(0, 20_000), self._revive)
        self.admin.start()
        self.auditor.start()
        self._audit()
        self._move()
        for number in range(self.rounds):
            begin_ms = START_MS + number * ROUND_MS
            self._rough(begin_ms + ROUND_MS - CALM_MS)
            self._calm(begin_ms + ROUND_MS)

    def _audit(self) -> None:
        if self.server.is_ready:
            self.auditor.read()
            self.promises.audit(self.server)
        self.clock.after(AUDIT_MS, self._audit)

    def _move(self) -> None:
        dice = self._moves
        if dice is None:
            return
        is_rough = (self.clock.now_ms - START_MS) % ROUND_MS < ROUND_MS - CALM_MS
        if self.server.is_ready and is_rough:
            self.moves += 1
            group, producer = dice.choice(self.groups), dice.choice(self.producers)
            load_ms = dice.choice((0, 0, 50, 3_000))
            verbs: tuple[tuple[BrokerVerb, ...], ...] = (
                (MoveGroup(group, BROKER, load_ms),),
                (MoveGroup(producer.group, BROKER, load_ms),),
                (MoveTransaction(producer.name, BROKER, load_ms),),
                (StopBroker(BROKER), StartBroker(BROKER, load_ms), MoveGroup(group, BROKER, load_ms)),
            )
            self.server.command(*dice.choice(verbs))
        self.clock.after(dice.expovariate(1 / MOVE_MS), self._move)

    # -- what goes wrong -----------------------------------------------------------------------------------------------

    def _rough(self, until_ms: int) -> None:
        self.network.trouble = self._dice.choice((0.0, 0.005, 0.03))
        troubles = self._troubles()
        while self.clock.now_ms < until_ms:
            wait_ms = 1 + int(self._dice.expovariate(1 / self._trouble_ms))
            self.clock.run(min(until_ms, self.clock.now_ms + wait_ms))
            self.faults += 1
            act, _ = self._dice.choices(troubles, [weight for _, weight in troubles])[0]
            act()

    def _troubles(self) -> list[tuple[Callable[[], object], int]]:
        dice, server = self._dice, self.server
        return [
            (lambda: self._somebody().crash(), 8),
            (lambda: self._somebody().stop(), 8),
            (self._revive, 24),
            (self._replace, 6),
            (self._migrate, 6),
            (lambda: setattr(self._somebody(), "is_stuck", dice.random() < 0.5), 5),
            (lambda: dice.choice(self.producers).crash(), 4),
            (self.admin.act, 30),
            (server.stop, 2),
            (server.kill, 2),
            (lambda: server.kill_within(dice.randint(1, 60)), 4),
            (server.cut_power, 3),
            (lambda: server.fail_within(dice.randint(1, 60), dice.choice((errno.EIO, errno.ENOSPC, errno.EMFILE))), 3),
            (self._fill_disk, 1),
            (lambda: server.stall(dice.choice((500, 5_000, 30_000))), 2),
            (lambda: server.is_up and server.freeze_clock(dice.choice((2_000, 20_000))), 2),
            (lambda: setattr(server, "wall_shift_ms", dice.choice((-3_600_000, 0, 0, 5_000, 3_600_000))), 1),
        ]

    def _somebody(self) -> Member:
        return self._dice.choice(self.members)

    def _revive(self) -> None:
        dead = [one for one in (*self.members, *self.producers) if not one.is_alive]
        if dead:
            self._dice.choice(dead).start()

    def _replace(self) -> None:
        """A process is upgraded: a static member is back before anybody misses it."""
        member = self._somebody()
        member.crash()
        member.start()

    def _migrate(self) -> None:
        self._migrate_member(self._dice.randrange(len(self.members)))

    def _migrate_member(self, number: int) -> None:
        """A process comes back with the other protocol."""
        old = self.members[number]
        old.stop()
        new = self.members[number] = self._member(
            number, ConsumerMember if isinstance(old, ClassicMember) else ClassicMember
        )
        new.instance, new.topics = old.instance, old.topics
        new.start()

    def _fill_disk(self) -> None:
        """No room for a while; the operator makes some later."""
        server = self.server
        server.disk.bytes_max = server.disk.used_bytes() + self._dice.choice((0, 300, 5_000))
        self.clock.after(20_000, lambda: setattr(server.disk, "bytes_max", None))

    # -- what then holds -----------------------------------------------------------------------------------------------

    def _calm(self, until_ms: int) -> None:
        self.network.trouble = 0.0
        self.server.disk.fail.clear()
        self.server.disk.killed_at = self.server.disk.bytes_max = None
        self.server.wall_shift_ms = 0
        for member in self.members:
            member.is_stuck = False
            if member.is_fenced:
                member.start()
        if self.policy not in MIXING:
            for group in self.groups:
                self._part(group)
        self.clock.run(until_ms)
        promise(self.server.is_ready, "a server that nothing disturbs is ready")
        self.promises.check_transactions(self.server)
        for group in self.groups:
            self._check_settled(group, [one for one in self.members if one.group == group and one.is_alive])
        self.auditor.read()
        self.clock.run(until_ms + 1_000)
        self.promises.audit(self.server)

    def _check_settled(self, group: str, alive: list[Member]) -> None:
        owned = {member.name: member.owned for member in alive}
        topics = {topic for member in alive for topic in member.topics}
        blind = {member.member_id for member in alive if isinstance(member, ClassicMember) and member.is_blind}
        self.promises.calm(self.server, group, owned, topics, blind)

    def _part(self, group: str) -> None:
        """Stop the members of one protocol: those of the other would not be let in beside them."""
        kind = self._dice.choice((ClassicMember, ConsumerMember))
        for member in self.members:
            if member.group == group and type(member) is kind:
                member.stop()

    def _report(self) -> Report:
        checksum = 0
        for path, data in sorted(self.server.disk.contents().items()):
            checksum = crc32(data, crc32(path.encode(), checksum))
        return Report(
            seed=self.seed,
            minutes=self.rounds * ROUND_MS // 60_000,
            clients=len(self.members) + len(self.producers) + 2,
            requests=self.server.requests,
            faults=self.faults + self.network.faults,
            starts=self.server.starts,
            generations=self.promises.generations,
            compactions=self.server.compactions,
            replays=self.promises.replays,
            moves=self.moves,
            checksum=checksum,
        )


def play(seed: int, rounds: int = 1, *, has_moves: bool = False) -> Report:
    """Play the history of a seed."""
    return History(seed, rounds, has_moves=has_moves).play()

"""A day: members and a server, and all that goes wrong between them, decided by dice."""

from collections.abc import Callable
from random import Random

from msgspec import Struct

from coordinator.core.shard import Shard
from tests.simulation.clock import START_MS, Clock
from tests.simulation.member import Member
from tests.simulation.network import Network
from tests.simulation.promises import Promises
from tests.simulation.server import Server

HOUR_MS = 3_600_000
CALM_MS = 8 * 60_000  # at the end of each hour nothing goes wrong, so that the group can settle
PARTITIONS = 24


class Report(Struct, frozen=True):
    """What a day was made of."""

    seed: int
    hours: int
    members: int
    requests: int
    faults: int
    restarts: int
    generations: int
    records: int
    log: int  # a hash of all that was written: the same seed writes the same


class Day:
    """One seed, so many members, so many hours."""

    def __init__(self, seed: int, hours: int, shard: Callable[..., Shard] = Shard) -> None:
        self.seed, self.hours = seed, hours
        self._dice = Random(seed)
        self._clock = Clock()
        self._promises = Promises()
        self._server = Server(self._clock, self._promises, PARTITIONS, shard)
        self._network = Network(self._clock, self._server, self._dice)
        count = self._dice.choice([1, 2, 3, 5, 8, 13, 20])
        self._members = [self._member(number) for number in range(count)]
        self._faults = self._restarts = 0
        self._trouble_ms = self._dice.choice([20_000, 60_000, 300_000])  # between two things that go wrong

    def _member(self, number: int) -> Member:
        instance = f"i{number}" if self._dice.random() < 0.4 else None
        version = self._dice.choice([5, 6, 8, 9])
        is_transactional = self._dice.random() < 0.3
        return Member(number, instance, version, is_transactional, self._clock, self._network, PARTITIONS, self._dice)

    def play(self) -> Report:
        """Live through it. Raises `Broken` where a promise is."""
        for member in self._members:
            self._clock.after(self._dice.uniform(0, 20_000), member.start)
        for hour in range(self.hours):
            begin_ms = START_MS + hour * HOUR_MS
            self._rough(begin_ms + HOUR_MS - CALM_MS)
            self._calm(begin_ms + HOUR_MS)
        return self._report()

    def _rough(self, until_ms: int) -> None:
        self._network.loss = self._dice.choice([0.0, 0.002, 0.02])
        while self._clock.now_ms < until_ms:
            wait_ms = self._dice.expovariate(1 / self._trouble_ms)
            self._clock.run(min(until_ms, self._clock.now_ms + int(wait_ms)))
            self._trouble()
            self._promises.looked(self._server.shard, self._clock.now_ms)

    def _trouble(self) -> None:
        """One thing goes wrong."""
        self._faults += 1
        member = self._dice.choice(self._members)
        what = self._dice.random()
        if what < 0.25:
            member.crash()
        elif what < 0.40:
            member.stop()
        elif what < 0.70:
            if not member.is_alive:
                member.start()
        elif what < 0.76:
            member.is_stuck = not member.is_stuck
        elif what < 0.82:
            member.is_busy = not member.is_busy
        elif what < 0.88:
            member.change()
        elif what < 0.94:
            member.crash()
            member.start()  # an upgrade of the process: a static member returns before anybody misses it
        else:
            self._restarts += 1
            self._server.restart()

    def _calm(self, until_ms: int) -> None:
        self._network.loss = 0.0
        for member in self._members:
            member.is_stuck = member.is_busy = False
        self._clock.run(until_ms)
        alive = {member.name for member in self._members if member.is_alive}
        owned = {member.name: member.owned for member in self._members if member.is_alive}
        self._promises.calm(self._server.shard, alive, owned, PARTITIONS)
        self._promises.looked(self._server.shard, self._clock.now_ms)

    def _report(self) -> Report:
        group = self._server.shard.groups.get("g")
        return Report(
            seed=self.seed,
            hours=self.hours,
            members=len(self._members),
            requests=self._server.requests,
            faults=self._faults + self._network.lost,
            restarts=self._restarts,
            generations=getattr(group, "generation", 0),
            records=self._server.log.written,
            log=self._server.log.hash,
        )

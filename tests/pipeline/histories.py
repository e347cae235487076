"""Random histories on our server's engine: all kinds of groups, transactions, deletions and restarts in one log."""

from pathlib import Path
from random import Random

from coordinator.core.kinds.consumer.group import ConsumerGroup
from pipeline.decode.layout import log_dirs
from tests.pipeline.engine import Engine, replayed
from tests.pipeline.simulated_groups import SimulatedConsumerGroup, SimulatedGroup
from tests.requests import commit, commit_in_transaction, delete_offsets

Offsets = dict[tuple[str, str, int], int]
States = dict[str, tuple[str, int, int]]  # group -> (type, generation or epoch, members)


class History:
    """What one seed makes happen in one partition."""

    def __init__(self, directory: Path, number: int, seed: int) -> None:
        self.dice = Random(seed)
        self.engine = Engine(directory, number)
        self.groups = [SimulatedGroup(self.engine, f"classic-{number}-{i}", self.dice) for i in range(2)]
        self.modern = [SimulatedConsumerGroup(self.engine, f"modern-{number}-{i}", self.dice) for i in range(2)]
        self.open: set[int] = set()  # producers whose transaction is open

    def live(self, steps: int) -> None:
        """So many things happen, one after the other."""
        steps_there_are = (
            self._classic, self._classic, self._modern, self._modern, self._plain,
            self._transaction, self._transaction, self._ends, self._ends, self._offset_delete, self._group_delete,
            self.engine.restart,
        )  # fmt: skip
        for _ in range(steps):
            self.dice.choice(steps_there_are)()
            self.engine.wait(self.dice.randrange(0, 4_000))

    def _classic(self) -> None:
        group = self.dice.choice(self.groups)
        group.settle()
        group.live(1)

    def _modern(self) -> None:
        self.dice.choice(self.modern).live(1)

    def _plain(self) -> None:
        """A commit without any member, as tools make it."""
        offsets = {"orders": {self.dice.randrange(3): self.dice.randrange(10_000)}}
        self.engine.ask(commit(f"simple-{self.engine.index}-{self.dice.randrange(3)}", offsets), 9)

    def _transaction(self) -> None:
        producer = self.dice.choice((7, 8, 9))
        offsets = {"orders": {self.dice.randrange(3): self.dice.randrange(10_000)}}
        group = f"simple-{self.engine.index}-{self.dice.randrange(3)}"
        self.engine.ask(commit_in_transaction("t", group, (producer, 0), offsets), 3)
        self.open.add(producer)

    def _ends(self) -> None:
        if self.open:
            producer = self.dice.choice(sorted(self.open))
            self.open.remove(producer)
            self.engine.end_transaction(producer, commits=self.dice.random() < 0.6)

    def _offset_delete(self) -> None:
        partitions = {"orders": [self.dice.randrange(3)]}
        group = f"simple-{self.engine.index}-{self.dice.randrange(3)}"
        self.engine.ask(delete_offsets(group, partitions), 0)

    def _group_delete(self) -> None:
        group = self.dice.choice(
            (self.dice.choice(self.modern).group, f"simple-{self.engine.index}-{self.dice.randrange(3)}")
        )
        self.engine.take(self.engine.shard.delete(group, self.engine.call(2)))


def of_server(logs: Path) -> tuple[Offsets, States]:
    """What the server knows of offsets and groups when it has read all logs."""
    offsets, states = Offsets(), States()
    for log in log_dirs([str(logs)]):
        shard = replayed(logs / log.name, log.partition)
        offsets |= {
            (group, topic, partition): value.offset
            for group in shard.offsets.groups()
            for topic, partitions in shard.offsets.of_group(group).items()
            for partition, value in partitions.items()
        }
        for group_id, group in shard.groups.items():
            if isinstance(group, ConsumerGroup):
                states[group_id] = ("consumer", group.epoch, len(group.members))
            elif group.generation or shard.offsets.of_group(group_id):
                states[group_id] = ("classic", group.generation, len(group.members))
            # A group of which only a transaction ever spoke, open or aborted, holds nothing: the tables have no row.
    return offsets, states

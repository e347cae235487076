"""Copies of a log as brokers come to have them, with what their leaders agreed on."""

from random import Random

from pipeline.decode.copies import Batch

Log = list[int]  # the leader epoch of the record at each offset


class Replicas:
    """Copies of one log. A leader may lack what the one before had written; brokers that are cut off keep their tails."""

    def __init__(self, dice: Random, count: int) -> None:
        self.dice = dice
        self.logs: dict[str, Log] = {f"broker-{number}": [] for number in range(count)}
        self.agreed: Log = []
        self.epoch = 0

    def elect(self) -> None:
        """A broker leads whose log, however short, is one that was agreed on; it appends, and some follow."""
        leader = self.dice.choice([name for name, log in self.logs.items() if log == self.agreed[: len(log)]])
        self.epoch += self.dice.randrange(1, 3)
        self.logs[leader] += [self.epoch] * self.dice.randrange(1, 5)
        self.agreed = list(self.logs[leader])
        for name in self.logs:
            if name != leader and self.dice.random() < 0.6:
                self.logs[name] = self.agreed[: self.dice.randrange(len(self.agreed) + 1)]

    def batches(self) -> list[Batch]:
        """The batches of all copies; some copies have lost their beginning, which another one still has."""
        found = {name: self._split(name) for name in self.logs}
        for name in found:
            cut = found | {name: found[name][self.dice.randrange(len(found[name]) + 1) :]}
            if _begins(cut) == _begins(found):
                found = cut
        return [batch for name in self.dice.sample(sorted(found), len(found)) for batch in found[name]]

    def _split(self, name: str) -> list[Batch]:
        batches: list[Batch] = []
        for at, epoch in enumerate(self.logs[name]):
            if batches and batches[-1][1] == epoch and self.dice.random() < 0.5:
                batches[-1] = (name, epoch, batches[-1][2], at)
            else:
                batches.append((name, epoch, at, at))
        return batches


def _begins(found: dict[str, list[Batch]]) -> dict[int, int]:
    batches = [batch for own in found.values() for batch in own]
    return {epoch: min(base for _, of, base, _ in batches if of == epoch) for _, epoch, _, _ in batches}

"""Which records of a copy count: those of the log that its leaders agreed on, told by epochs alone."""

from random import Random

import pytest

from pipeline.decode.copies import NEVER, Batch, find_divergence, find_epoch_ends

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


@pytest.mark.parametrize("seed", range(5))
def test_a_record_counts_if_the_leaders_agreed_on_it(seed: int) -> None:
    dice = Random(seed)
    for _ in range(30):
        replicas = Replicas(dice, dice.randrange(1, 5))
        for _ in range(dice.randrange(1, 7)):
            replicas.elect()
        batches = replicas.batches()
        ends = find_epoch_ends(batches)
        lost: dict[str, list[int]] = {}
        for name, epoch, base, last in batches:
            for at in range(base, last + 1):
                counts = at < len(replicas.agreed) and replicas.agreed[at] == epoch
                assert (at < ends.get(epoch, NEVER)) == counts, (replicas.agreed, name, epoch, at)
                if not counts:
                    lost.setdefault(name, []).append(at)
        told = {row["log_dir"]: (row["from_offset"], row["to_offset"]) for row in find_divergence(7, batches)}
        assert told == {name: (min(offsets), max(offsets)) for name, offsets in lost.items()}
        at = dice.randrange(len(batches))
        name, _, base, last = batches[at]
        if at + 1 < len(batches) and batches[at + 1][0] == name:
            # The epoch of a batch that a lower one follows is damaged: it ends nothing, and begins nothing.
            rest = [*batches[:at], *batches[at + 1 :]]
            damaged = [*batches[:at], (name, replicas.epoch + 1, base, last), *batches[at + 1 :]]
            assert find_epoch_ends(damaged) == find_epoch_ends(rest)

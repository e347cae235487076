"""Which records of a copy count: those of the log that its leaders agreed on, told by epochs alone."""

from random import Random

import pytest

from pipeline.decode.copies import NEVER, find_divergence, find_epoch_ends
from tests.pipeline.replicas import Replicas


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

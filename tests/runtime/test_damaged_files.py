"""A node over files that were not closed, and were damaged since: it is told, or nothing is lost."""

from collections import Counter
from random import Random

import pytest

from protocol import record_batch
from protocol.compression import Compression
from tests.runtime.damaged_disk import SETTINGS, Damage, check, damages, facts, killed_disk
from tests.server.in_memory import InMemory
from tests.storage.crashing_disk import CrashingDisk


@pytest.mark.parametrize("codec", list(Compression))
def test_damage_is_told_or_costs_nothing(codec: Compression) -> None:
    """L-014: a sample of flipped bits, lengths, missing files and files of others."""
    play(codec, seed=codec.value, share=0.5, each=1)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("seed", range(100, 110))
def test_much_damage_is_told_or_costs_nothing(codec: Compression, seed: int) -> None:
    play(codec, seed=seed, share=1.0, each=20)


def play(codec: Compression, seed: int, share: float, each: int) -> None:
    dice, whole = Random(seed), killed_disk(codec)
    before = facts(InMemory(whole.copy(), **SETTINGS))
    found = Counter(
        (damage.kind, check(whole, before, damage)) for damage in damages(whole, dice, each) if dice.random() < share
    )
    assert found["flip", "refused"] and found["flip", "closed"] and found["remove", "refused"]
    assert {how for kind, how in found if kind == "lose"} <= {"refused", "closed"}
    assert found["foreign", "whole"] == sum(n for (kind, _), n in found.items() if kind == "foreign")


class Forgery(Damage):
    """A record that says something else under a checksum that is right: what nobody can notice."""

    def on(self, whole: CrashingDisk) -> CrashingDisk:
        disk, content = whole.copy(), whole.contents()[self.path]
        (at, header), *_ = record_batch.batches(content)
        batch = content[at : at + header.size]
        forged = record_batch.seal(header, batch[record_batch.HEADER_BYTES :].replace(b"0-1", b"0-X"))
        assert forged != batch
        disk.put(self.path, forged + content[at + header.size :])
        return disk


def test_a_loss_that_nobody_is_told_of_is_noticed() -> None:
    """The check can fail."""
    whole = killed_disk()
    before = facts(InMemory(whole.copy(), **SETTINGS))
    with pytest.raises(AssertionError, match="nobody is told"):
        check(whole, before, Forgery("forgery", f"data/t-0/{0:020d}.log"))

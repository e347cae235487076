"""Track for each partition the epoch at which a member of the group holds it, or that it is free.

A member holds what it is assigned and what it has yet to give up. Whether a partition is free is asked for each one
that a member wants, so a topic's epochs lie in one array: looking is an index, and a changed array is copied whole,
which for ten thousand partitions takes two microseconds.
"""

from array import array
from collections.abc import Iterable, Mapping
from typing import Final

from coordinator.core.kinds.kind import Inconsistent

Owned = Mapping[bytes, Mapping[int, int]]
"""Topic id -> partition -> the epoch in which the member came to own it (KIP-1251). No topic without partitions."""

Owners = Mapping[bytes, "array[int]"]
"""Topic id -> the holder's member epoch by partition. Never changed in place once it is in a group. No topic of which
nobody holds a partition."""

FREE: Final = -(2**31)  # no member epoch is: -2 is a static member that is away, and still holds


def is_free(owners: Owners, topic_id: bytes, partition: int) -> bool:
    """Return whether nobody holds the partition."""
    epochs = owners.get(topic_id)
    return epochs is None or partition >= len(epochs) or epochs[partition] == FREE


def move_ownership(
    owners: Owners, before: Iterable[Owned], old_epoch: int, after: Iterable[Owned], epoch: int
) -> Owners:
    """Return the index once a member that held `before` at `old_epoch` holds `after` at `epoch`.

    Entries of another epoch than the member's old one are left alone: compaction may have taken the records in between.
    Raises Inconsistent for a partition that somebody else holds at the same or a later epoch.
    """
    changed: dict[bytes, array[int]] = {}
    for held in before:
        for topic_id, partitions in held.items():
            epochs = _own_copy(owners, changed, topic_id, 0)
            for partition in partitions:
                if partition < len(epochs) and epochs[partition] == old_epoch:
                    epochs[partition] = FREE
    given_up = set(changed)
    for held in after:
        for topic_id, partitions in held.items():
            epochs = _own_copy(owners, changed, topic_id, max(partitions) + 1)
            given_up.discard(topic_id)
            for partition in partitions:
                if epochs[partition] != FREE and epochs[partition] >= epoch:
                    raise Inconsistent(
                        f"{topic_id.hex()}-{partition} is held at epoch {epochs[partition]}, not {epoch}"
                    )
                epochs[partition] = epoch
    if not changed:
        return owners
    moved = {**owners, **changed}
    for topic_id in given_up:
        if (epochs := changed[topic_id]) == array(epochs.typecode, (FREE,)) * len(epochs):  # compared without a loop
            del moved[topic_id]
    return moved


def holders(owners: Owners) -> dict[tuple[bytes, int], int]:
    """Return the epochs of all partitions that are held, for tests and for people."""
    return {
        (topic_id, partition): epoch
        for topic_id, epochs in owners.items()
        for partition, epoch in enumerate(epochs)
        if epoch != FREE
    }


def _own_copy(owners: Owners, changed: "dict[bytes, array[int]]", topic_id: bytes, size: int) -> "array[int]":
    epochs = changed.get(topic_id)
    if epochs is None:
        epochs = changed[topic_id] = array("i", owners.get(topic_id, ()))
    if len(epochs) < size:
        epochs.extend([FREE] * (size - len(epochs)))
    return epochs

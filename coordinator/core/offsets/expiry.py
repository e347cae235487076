"""Find the offsets that have been retained for long enough (KIP-211), and those of topics that are gone.

From when on their time runs, the kind of the group says. An offset that was committed with a retention of its own
(OffsetCommit v2-v4) runs out at that time instead.

Shown by tests/core/scripts/offsets/expiry_*.txt, tests/core/scripts/consumer/expiry.txt and
tests/core/test_offset_expiry.py.
"""

from collections.abc import Callable, Collection, Iterator, Mapping

from coordinator.core.offsets.store import OffsetStore
from coordinator.core.records import OffsetCommitKey, OffsetCommitValue
from coordinator.core.topics import Topics

Base = Callable[[OffsetCommitValue], int]  # from when on an offset's time runs


def commit_time(value: OffsetCommitValue) -> int:
    """Return when it was committed."""
    return value.commit_timestamp


def find_expired_offsets(
    group_id: str,
    offsets: OffsetStore,
    since: Base,
    in_use: Callable[[str], bool],
    now_ms: int,
    retention_ms: int,
) -> Iterator[OffsetCommitKey]:
    """Yield the committed offsets whose time is over: of no topic `in_use`, and with no transaction open on them."""
    for topic, partitions in offsets.of_group(group_id).items():
        if in_use(topic):
            continue
        for partition, value in partitions.items():
            end_ms = since(value) + retention_ms if value.expire_timestamp == -1 else value.expire_timestamp
            if now_ms >= end_ms and not offsets.has_pending(group_id, topic, partition):
                yield OffsetCommitKey(group_id, topic, partition)


def find_orphaned_offsets(group_id: str, offsets: OffsetStore, gone: Collection[str]) -> list[OffsetCommitKey]:
    """Find all offsets of the group, pending ones too, that belong to topics in `gone`."""
    committed = offsets.of_group(group_id)
    found = {(topic, partition) for topic in committed if topic in gone for partition in committed[topic]}
    found |= {(topic, partition) for topic, partition in offsets.pending_of(group_id) if topic in gone}
    return [OffsetCommitKey(group_id, topic, partition) for topic, partition in sorted(found)]


def find_forgotten_offsets(
    group_id: str, offsets: OffsetStore, topics: Topics, gone: Mapping[str, Collection[bytes]]
) -> list[OffsetCommitKey]:
    """Return the group's offsets of topics that are `gone`: those of a topic that is there again by its old ids.

    Offsets of other topics stay, whether there are such topics or not: a log that was copied from a cluster has them.
    """
    named = {*offsets.of_group(group_id), *(topic for topic, _ in offsets.pending_of(group_id))}
    touched = [name for name in named if name in gone]  # nearly always none: groups are many, and may be asked at once
    keys = find_orphaned_offsets(group_id, offsets, [name for name in touched if name not in topics])
    again = {name: gone[name] for name in touched if name in topics}
    if again:
        of_old = (key for key, value in offsets.entries(group_id) if value.topic_id in again.get(key.topic, ()))
        keys += dict.fromkeys(of_old)
    return keys


def is_forgotten(
    key: OffsetCommitKey, offsets: OffsetStore, topics: Topics, gone: Mapping[str, Collection[bytes]]
) -> bool:
    """Return whether an offset that was found is still one of those."""
    if key.topic not in topics:
        return True
    value = offsets.get(key.group, key.topic, key.partition)
    return value is not None and value.topic_id in gone[key.topic]

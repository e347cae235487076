"""Find the offsets that have been retained for long enough (KIP-211), and those of topics that are gone.

From when on their time runs, the kind of the group says. An offset that was committed with a retention of its own
(OffsetCommit v2-v4) runs out at that time instead.

Shown by tests/core/scripts/offsets/expiry_*.txt, tests/core/scripts/consumer/expiry.txt and
tests/core/test_offset_expiry.py.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from coordinator.core.offsets.store import OffsetStore
from coordinator.core.records import OffsetCommitKey, OffsetCommitValue
from coordinator.core.topics import Topics

Base = Callable[[OffsetCommitValue], int]  # from when on an offset's time runs


def commit_time(value: OffsetCommitValue) -> int:
    """Return when it was committed."""
    return value.commit_timestamp


Part = Sequence[tuple[str, Sequence[int]]]  # topics with partitions


def cut_offsets(group_id: str, offsets: OffsetStore, most: int) -> Iterator[tuple[Part, bool]]:
    """Yield the partitions of a group's committed offsets, `most` at a time, and whether these are the last ones.

    Offsets may come and go between two of them. A group without any has one part.
    """
    part, size = list[tuple[str, Sequence[int]]](), 0
    for topic in tuple(offsets.of_group(group_id)):
        partitions = tuple(offsets.of_group(group_id).get(topic, ()))
        for at in range(0, len(partitions), most):
            some = partitions[at : at + most]
            if size + len(some) > most:
                yield part, False
                part, size = [], 0
            part.append((topic, some))
            size += len(some)
    yield part, True


def find_expired_offsets(
    group_id: str,
    part: Part,
    offsets: OffsetStore,
    since: Base,
    in_use: Callable[[str], bool],
    now_ms: int,
    retention_ms: int,
) -> Iterator[OffsetCommitKey]:
    """Yield those offsets whose time is over: of no topic `in_use`, and with no transaction open on them."""
    for topic, partitions in part:
        if in_use(topic):
            continue
        values = offsets.of_topic(group_id, topic)
        for partition in partitions:
            if (value := values.get(partition)) is None:
                continue
            end_ms = since(value) + retention_ms if value.expire_timestamp == -1 else value.expire_timestamp
            if now_ms >= end_ms and not offsets.has_pending(group_id, topic, partition):
                yield OffsetCommitKey(group_id, topic, partition)


def find_orphaned_offsets(group_id: str, offsets: OffsetStore, gone: Collection[str]) -> list[OffsetCommitKey]:
    """Find all offsets of the group, pending ones too, that belong to topics in `gone`."""
    committed = offsets.of_group(group_id)
    found = {(topic, partition) for topic in committed if topic in gone for partition in committed[topic]}
    found |= {(topic, partition) for topic, partition in offsets.pending_offsets_of(group_id) if topic in gone}
    return [OffsetCommitKey(group_id, topic, partition) for topic, partition in sorted(found)]


def find_forgotten_offsets(
    group_id: str, offsets: OffsetStore, topics: Topics, gone: Mapping[str, Collection[bytes]]
) -> list[OffsetCommitKey]:
    """Return the group's offsets of topics that are `gone`: those of a topic that is there again by its old ids.

    Offsets of other topics stay, whether there are such topics or not: a log that was copied from a cluster has them.
    """
    named = {*offsets.of_group(group_id), *(topic for topic, _ in offsets.pending_offsets_of(group_id))}
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

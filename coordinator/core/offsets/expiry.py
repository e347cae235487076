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


Gone = Mapping[str, Collection[bytes]]  # topics that are no more: their ids by name


def cut_forgotten_offsets(
    group_id: str, offsets: OffsetStore, topics: Callable[[], Topics], gone: Gone, most: int
) -> Iterator[list[OffsetCommitKey]]:
    """Yield the group's offsets of topics that are `gone`, pending ones too, of `most` partitions at a time.

    Of a topic that is there again they are those with one of its old ids. What was committed anew between two steps is
    left out: `topics` returns those of the moment. So is a partition with offsets of both: a tombstone would remove the
    new one as well, committed or pending. Offsets of other topics stay, whether there are such topics or not: those of
    a log that was copied from a cluster.
    """
    pending: dict[str, list[int]] = {}
    for topic, partition in offsets.pending_offsets_of(group_id):
        if topic in gone:
            pending.setdefault(topic, []).append(partition)
    committed = offsets.of_group(group_id)
    for topic in sorted({*gone.keys() & committed.keys(), *pending}):
        partitions = sorted({*offsets.of_group(group_id).get(topic, ()), *pending.get(topic, ())})
        for at in range(0, len(partitions), most):
            keys = (OffsetCommitKey(group_id, topic, partition) for partition in partitions[at : at + most])
            yield [key for key in keys if _is_forgotten(key, offsets, topics(), gone)]


def _is_forgotten(key: OffsetCommitKey, offsets: OffsetStore, topics: Topics, gone: Gone) -> bool:
    """Return whether all that there is of a partition, and something, are offsets of a topic that is gone."""
    values = offsets.values_at(key)
    return bool(values) and (key.topic not in topics or all(value.topic_id in gone[key.topic] for value in values))

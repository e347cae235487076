"""The simple assignor of share groups: partitions are spread evenly over the members, which may share them.

    members <= partitions      each partition has one member
    members >  partitions      each partition has as many members as it takes for each member to have one

Kafka: `SimpleAssignor`. Ties are decided by the order of its hash maps (`hash_order.py`), and so they are here. A topic
of which a member has lost all partitions stays in its assignment without any, as in Kafka.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, Generic, TypeVar

from coordinator.core.assignors.hash_order import (
    buckets_after_inserts,
    order_members,
    partitions_in_order,
    topics_in_order,
)
from coordinator.core.assignors.spec import Assignment, GroupSpec
from coordinator.core.decision import Steps
from coordinator.core.pace import Pace

Assignable = Mapping[bytes, Iterable[int]]
"""By topic id the partitions that may be assigned: those whose state is initialized."""

T = TypeVar("T")
TopicPartition = tuple[bytes, int]

_MASK: Final = 0xFFFFFFFF
_PARTITIONS_A_UNIT: Final = 20


def assign(spec: GroupSpec, assignable: Assignable) -> Steps[Mapping[str, Assignment]]:
    """Return what each member shall read, in steps."""
    builder = _Builder(spec, (yield from order_members(spec.members)))
    if spec.is_homogeneous:
        topics = next(iter(spec.members.values())).topics if spec.members else ()
        yield from _spread(builder, topics, range(len(builder.members)), assignable, _homogeneous_hash)
        return (yield from builder.result(topics))
    readers: dict[bytes, list[int]] = {}
    for index, name in enumerate(builder.members):
        for topic_id in spec.members[name].topics:
            if builder.pace.is_due():
                yield
            readers.setdefault(topic_id, []).append(index)
    subscribed = dict.fromkeys(topic_id for one in spec.members.values() for topic_id in one.topics)
    for topic_id in subscribed:
        yield from _spread(builder, (topic_id,), readers[topic_id], assignable, _heterogeneous_hash)
    return (yield from builder.result(tuple(subscribed)))


class _HashSet(Generic[T]):
    """A set in the order of Java's HashSet, which never shrinks its table."""

    def __init__(self, hash_of: Callable[[T], int]) -> None:
        self._items: dict[T, None] = {}
        self._peak = 0
        self._hash_of = hash_of

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, item: T) -> bool:
        return item in self._items

    def add(self, item: T) -> None:
        self._items[item] = None
        self._peak = max(self._peak, len(self._items))

    def remove(self, item: T) -> None:
        self._items.pop(item, None)

    def entries_in_order(self) -> list[T]:
        mask = buckets_after_inserts(self._peak) - 1
        return sorted(self._items, key=lambda item: self._hash_of(item) & mask)


class _Owners:
    """The members of each partition, in a Java HashMap that was made for so many and is filled by `computeIfAbsent`.

    A new key comes before the others of its bucket. The table grows at the call after the one that has filled it, so
    that the key which was put last makes it no larger.
    """

    def __init__(self, targets: int, hash_of: Callable[[TopicPartition], int]) -> None:
        self._members: dict[TopicPartition, _HashSet[int]] = {}
        self._hash_of = hash_of
        self._buckets = 1
        while self._buckets < int((targets + 1) / 0.75 + 1):
            self._buckets *= 2

    def __getitem__(self, one: TopicPartition) -> _HashSet[int]:
        return self._members[one]

    def compute_if_absent(self, one: TopicPartition) -> _HashSet[int]:
        """Return the members of a partition, none at first."""
        if len(self._members) * 4 > self._buckets * 3:
            self._buckets *= 2
        found = self._members.get(one)
        if found is None:
            found = self._members[one] = _HashSet(_int_hash)
        return found

    def keys_in_order(self, pace: Pace) -> Steps[list[TopicPartition]]:
        """Return the partitions as the HashMap yields them, in steps."""
        places: dict[TopicPartition, int] = {}
        for one in reversed(self._members):
            if pace.is_due():
                yield
            places[one] = self._hash_of(one) & (self._buckets - 1)
        return sorted(places, key=places.__getitem__)


class _Builder:
    """The members by their indexes, and what each shall read as far as that is known."""

    def __init__(self, spec: GroupSpec, in_order: list[str]) -> None:
        self.spec = spec
        self.pace = Pace()
        self.members = in_order
        self.new: dict[int, dict[bytes, set[int]]] = {}  # of the members whose assignment changes

    def previous(self, index: int) -> Assignment:
        return self.spec.members[self.members[index]].previous

    def change(self, index: int) -> dict[bytes, set[int]]:
        """Return the assignment of a member, to be changed."""
        found = self.new.get(index)
        if found is None:
            found = self.new[index] = {topic_id: set(held) for topic_id, held in self.previous(index).items()}
        return found

    def result(self, subscribed: tuple[bytes, ...]) -> Steps[Mapping[str, Assignment]]:
        """Return all assignments. Members that subscribe to nothing that exists have none."""
        assigned: dict[str, Assignment] = {}
        for index, name in enumerate(self.members if subscribed else ()):
            new = self.new.get(index)
            if self.pace.is_due(1 if new is None else 1 + len(new)):
                yield
            if new is None:
                assigned[name] = self.previous(index)
                continue
            mine: dict[bytes, tuple[int, ...]] = {}
            for topic_id, held in new.items():
                if self.pace.is_due(len(held) // _PARTITIONS_A_UNIT):
                    yield
                mine[topic_id] = tuple(sorted(held))
            assigned[name] = mine
        return assigned


def _spread(
    builder: _Builder,
    topics: Iterable[bytes],
    readers: Iterable[int],
    assignable: Assignable,
    hash_of: Callable[[TopicPartition], int],
) -> Steps[None]:
    """Spread the partitions of topics over the members that read all of them."""
    members, pace = list(readers), builder.pace
    topics = dict.fromkeys(topics)
    targets: list[TopicPartition] = []
    for topic_id in topics:
        known = set(assignable.get(topic_id, ()))
        for index in range(builder.spec.partition_count(topic_id)):
            if index % _PARTITIONS_A_UNIT == 0 and pace.is_due():
                yield
            if index in known:
                targets.append((topic_id, index))
    sharing = -(-len(members) // len(targets)) if targets else 0
    each = sharing * len(targets) / len(members)
    wanted = dict.fromkeys(range(len(builder.members)), 0)
    for number, index in enumerate(members):
        wanted[index] = _ceil(each * (number + 1)) - _ceil(each * number)
    owners = _Owners(len(targets), hash_of)
    held = yield from _keep(builder, topics, owners, hash_of)
    yield from _revoke_from_overfilled(builder, wanted, owners, held)
    unfilled = {index for index in members if len(held.get(index, ())) < wanted[index]}
    yield from _revoke_overshared(builder, sharing, owners, held, unfilled)
    for one in targets:
        if pace.is_due():
            yield
        owners.compute_if_absent(one)
    yield from _give(builder, sharing, wanted, owners, held, sorted(unfilled), hash_of)


def _ceil(number: float) -> int:
    return -int(-number // 1)


Held = dict[int, _HashSet[TopicPartition]]


def _keep(
    builder: _Builder, topics: Collection[bytes], owners: _Owners, hash_of: Callable[[TopicPartition], int]
) -> Steps[Held]:
    """Return who has what of these topics, and add it to the owners.

    Where all members subscribe alike, other topics are taken from them.
    """
    held: Held = {}
    for index in range(len(builder.members)):
        previous = builder.previous(index)
        for topic_id in topics_in_order(previous, copied=False):
            if builder.pace.is_due():
                yield
            if topic_id not in topics:
                if builder.spec.is_homogeneous:
                    builder.change(index).pop(topic_id, None)
                continue
            for partition in partitions_in_order(tuple(previous[topic_id])):
                if builder.pace.is_due():
                    yield
                owners.compute_if_absent((topic_id, partition)).add(index)
                held.setdefault(index, _HashSet(hash_of)).add((topic_id, partition))
    return held


def _revoke_from_overfilled(builder: _Builder, wanted: Mapping[int, int], owners: _Owners, held: Held) -> Steps[None]:
    for index in sorted(held):
        mine = held[index]
        surplus = len(mine) - wanted[index]
        if builder.pace.is_due(1 + len(mine) // _PARTITIONS_A_UNIT):
            yield
        for topic_id, partition in mine.entries_in_order()[:surplus] if surplus > 0 else ():
            if builder.pace.is_due():
                yield
            builder.change(index)[topic_id].discard(partition)
            owners[topic_id, partition].remove(index)
            mine.remove((topic_id, partition))


def _revoke_overshared(builder: _Builder, sharing: int, owners: _Owners, held: Held, unfilled: set[int]) -> Steps[None]:
    for one in (yield from owners.keys_in_order(builder.pace)):
        topic_id, partition = one
        surplus = len(owners[one]) - sharing
        if builder.pace.is_due():
            yield
        for index in owners[one].entries_in_order()[:surplus] if surplus > 0 else ():
            if builder.pace.is_due():
                yield
            builder.change(index)[topic_id].discard(partition)
            owners[one].remove(index)
            held[index].remove(one)
            unfilled.add(index)


def _give(
    builder: _Builder,
    sharing: int,
    wanted: Mapping[int, int],
    owners: _Owners,
    held: Held,
    unfilled: list[int],
    hash_of: Callable[[TopicPartition], int],
) -> Steps[None]:
    """Give partitions that are shared by too few to members that have too few, one after the other.

    A partition that no such member can take, because all have it, stays as it is.
    """
    at, has_given = 0, False
    for one in (yield from owners.keys_in_order(builder.pace)):
        topic_id, partition = one
        if builder.pace.is_due():
            yield
        missing = sharing - len(owners[one])
        while missing > 0 and unfilled:
            if at >= len(unfilled):
                if not has_given:
                    break
                at, has_given = 0, False
            index = unfilled[at]
            at += 1
            if builder.pace.is_due():
                yield
            if index in owners[one]:
                continue
            builder.change(index).setdefault(topic_id, set()).add(partition)
            mine = held.setdefault(index, _HashSet(hash_of))
            mine.add(one)
            missing -= 1
            has_given = True
            if len(mine) >= wanted[index]:
                at -= 1
                del unfilled[at]
        if not unfilled:
            return


def _int_hash(number: int) -> int:
    return number ^ number >> 16


def _homogeneous_hash(one: TopicPartition) -> int:
    """Return the spread hash of Kafka's record of a topic id and a partition."""
    whole = int.from_bytes(one[0], "big")
    half = whole >> 64 ^ whole & 0xFFFFFFFFFFFFFFFF
    number = ((half >> 32 ^ half & _MASK) * 31 + one[1]) & _MASK
    return number ^ number >> 16


def _heterogeneous_hash(one: TopicPartition) -> int:
    """Return the spread hash of the partition alone: the topics are assigned one by one."""
    return _int_hash(one[1])

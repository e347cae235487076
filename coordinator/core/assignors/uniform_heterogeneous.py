"""`uniform` where subscriptions differ.

1. Everybody keeps what it had of the topics it still subscribes to.
2. Unowned partitions go, topic by topic, each to the subscriber that owns the fewest partitions of all.
3. Up to 16 times over the topics: a partition moves from the subscriber that owns most (and has one of this topic to
   give) to the one that owns fewest, until they differ by one at most. It ends early once a whole round moved nothing.

Topics with the most partitions a subscriber come first, since they bend loads the most.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from coordinator.core.assignors.hash_order import order_members
from coordinator.core.assignors.loads import Loads
from coordinator.core.assignors.spec import Assignment, GroupSpec
from coordinator.core.decision import Steps
from coordinator.core.pace import Pace

ROUNDS_MAX = 16
_ENTRIES_A_UNIT = 10
_NOBODY = -1


def assign(spec: GroupSpec) -> Steps[Mapping[str, Assignment]]:
    """Assign partitions to members with different subscriptions, in steps."""
    plan = _Plan(spec, (yield from order_members(spec.members)))
    yield from plan.keep_previous(spec)
    if not plan.owners:
        return {}
    yield from plan.assign_unowned_partitions()
    yield from plan.balance()
    return (yield from plan.assignments())


class _Plan:
    """The assignment while it is made: members and owners are indices into `member_ids`."""

    def __init__(self, spec: GroupSpec, in_order: list[str]) -> None:
        self.member_ids = in_order
        self.members = [spec.members[member_id] for member_id in self.member_ids]
        self.subscribers: dict[bytes, list[int]] = {}
        self.owners: dict[bytes, list[int]] = {}
        self.sizes = [0] * len(self.members)
        self.changed: set[int] = set()
        self._pace = Pace()

    def keep_previous(self, spec: GroupSpec) -> Steps[None]:
        """Note who subscribes to what, and leave everybody what it had of that."""
        # Members that subscribe alike share one tuple, so a kind of member is told by its identity.
        kinds: dict[int, list[int]] = {}
        for index, member in enumerate(self.members):
            if self._pace.is_due():
                yield
            kinds.setdefault(id(member.topics), []).append(index)
        yield from self._note_subscribers(kinds.values())
        for topic in self.subscribers:
            if self._is_due_for(spec.partition_count(topic)):
                yield
            self.owners[topic] = [_NOBODY] * spec.partition_count(topic)
        for kind in kinds.values():
            topics = frozenset(self.members[kind[0]].topics)
            for index in kind:
                previous = self.members[index].previous
                if self._pace.is_due(1 + len(previous)):
                    yield
                self._keep(index, previous, topics)

    def _note_subscribers(self, kinds: Iterable[list[int]]) -> Steps[None]:
        """Note the indices of the subscribers of each topic, ascending."""
        by_topic: dict[bytes, list[list[int]]] = {}
        for kind in kinds:
            for topic in self.members[kind[0]].topics:
                if self._pace.is_due():
                    yield
                by_topic.setdefault(topic, []).append(kind)
        for topic, parts in by_topic.items():
            if self._is_due_for(sum(map(len, parts))):
                yield
            self.subscribers[topic] = sorted(chain.from_iterable(parts))

    def _is_due_for(self, entries: int) -> bool:
        """Return whether to give way before so many entries are looked at in one piece, each for a moment."""
        return self._pace.is_due(1 + entries // _ENTRIES_A_UNIT)

    def _keep(self, index: int, previous: Assignment, topics: frozenset[bytes]) -> None:
        for topic, partitions in previous.items():
            if topic not in topics:
                self.changed.add(index)
                continue
            self.sizes[index] += len(partitions)
            owners = self.owners[topic]
            for partition in partitions:
                owners[partition] = index

    def in_order(self) -> list[bytes]:
        """Topics: most partitions a subscriber first, then fewest subscribers, then Kafka's order of ids (signed)."""
        return sorted(
            self.owners,
            key=lambda topic: (
                -len(self.owners[topic]) / len(self.subscribers[topic]),
                len(self.subscribers[topic]),
                int.from_bytes(topic[:8], "big", signed=True),
                int.from_bytes(topic[8:], "big", signed=True),
            ),
        )

    def assign_unowned_partitions(self) -> Steps[None]:
        for topic in self.in_order():
            owners = self.owners[topic]
            if self._is_due_for(len(owners)):
                yield
            if _NOBODY not in owners:
                continue
            if self._is_due_for(len(self.subscribers[topic])):
                yield
            loads = Loads(self.sizes, self.subscribers[topic])
            for partition, owner in enumerate(owners):
                if owner == _NOBODY:
                    if self._pace.is_due():
                        yield
                    self._move(owners, partition, loads.next_least())

    def balance(self) -> Steps[None]:
        topics = [topic for topic in self.in_order() if len(self.subscribers[topic]) >= 2]
        last_moved = _NOBODY
        for _ in range(ROUNDS_MAX):
            for position, topic in enumerate(topics):
                if position == last_moved:
                    return  # a whole round since the last move
                if (yield from self._even_out(topic)) or last_moved == _NOBODY:
                    last_moved = position

    def _even_out(self, topic: bytes) -> Steps[bool]:
        """Move partitions of one topic from its most to its least loaded subscribers; whether any moved."""
        subscribers, sizes = self.subscribers[topic], self.sizes
        if self._is_due_for(len(subscribers)):
            yield
        loaded = [sizes[index] for index in subscribers]
        if max(loaded) - min(loaded) <= 1:
            return False
        owners = self.owners[topic]
        if self._is_due_for(len(subscribers) + len(owners)):
            yield
        loads = Loads(sizes, subscribers)
        held: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            held.setdefault(owner, []).append(partition)
        moved = False
        for partition in _donations(loads, held):
            if self._pace.is_due():
                yield
            receiver = loads.next_least()
            if loads.is_even:
                break
            self._move(owners, partition, receiver)
            moved = True
        return moved

    def _move(self, owners: list[int], partition: int, receiver: int) -> None:
        donor = owners[partition]
        if donor != _NOBODY:
            self.sizes[donor] -= 1
            self.changed.add(donor)
        owners[partition] = receiver
        self.sizes[receiver] += 1
        self.changed.add(receiver)

    def assignments(self) -> Steps[dict[str, Assignment]]:
        """Unchanged members keep the very object they had."""
        made: dict[int, dict[bytes, list[int]]] = {index: {} for index in self.changed}
        for topic, owners in self.owners.items():
            for partition, owner in enumerate(owners):
                if partition % _ENTRIES_A_UNIT == 0 and self._pace.is_due():
                    yield
                if owner in made:
                    made[owner].setdefault(topic, []).append(partition)
        assigned: dict[str, Assignment] = {}
        for index, member_id in enumerate(self.member_ids):
            mine = made.get(index)
            if self._pace.is_due(1 + len(mine or ())):
                yield
            previous = self.members[index].previous
            assigned[member_id] = previous if mine is None else {topic: tuple(ps) for topic, ps in mine.items()}
        return assigned


def _donations(loads: Loads, held: dict[int, list[int]]) -> Iterator[int]:
    """Yield the partitions to give away, each the last one of the most loaded subscriber that has one."""
    while not loads.is_even:
        donor = loads.next_most()
        while donor is not None and not held.get(donor):
            loads.exclude_most()
            donor = loads.next_most()
        if donor is None:
            return
        yield held[donor].pop()

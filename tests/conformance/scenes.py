"""Groups and transactions in the state in which many stories begin."""

from collections.abc import Sequence
from typing import Any

from tests.conformance.actors import Member, Modern, Producer, Streams, members
from tests.conformance.stage import Pending, Stage
from tests.conformance.topologies import Topology, counts, reads


def stable(*members: Member, shares: list[bytes] | None = None) -> tuple[Member, ...]:
    """Bring the members, the first as leader, into one stable generation. Each gets one byte string as its share."""
    waiting: list[tuple[Member, Pending]] = []
    leader, *others = members
    leader.join_and_sync(b"all")
    for one in others:
        if not one.instance and one.version >= 4:
            one.introduce()
        waiting.append((one, one.ask_join()))
    if others:
        leader.k.pump.run(150)  # the new ones are there before the leader comes back and completes the phase
        first = leader.ask_join()
        for one, pending in [(leader, first), *waiting]:
            one.joined(pending)
        sync_all(members, shares or [f"share {n}".encode() for n in range(len(members))])
    return members


def join_alone(k: Stage, name: str = "a", **values: Any) -> Member:
    """A member that is alone in a stable group."""
    (one,) = stable(Member(k, name, **values))
    return one


def pending_pair(k: Stage) -> tuple[Member, Member]:
    """A stable group of `a`, and `b`, which has its member id and has not joined."""
    a, b = members(k, "ab")
    stable(a)
    b.introduce()
    return a, b


def joining_pair(k: Stage) -> tuple[Member, Member, Pending]:
    """A stable group of `a`, and `b`, whose JoinGroup waits for `a` to rejoin."""
    a, b = pending_pair(k)
    waiting = b.ask_join()
    k.pause(150)
    return a, b, waiting


def complete_join(*members: Member) -> tuple[Member, ...]:
    """Let all members join generation 2, the first as leader. Nobody has synced."""
    leader, *others = members
    stable(leader)
    waiting = []
    for one in others:
        if not one.instance:
            one.introduce()
        waiting.append(one.ask_join())
    leader.k.pause(150)
    leader.rejoin(*zip(others, waiting, strict=True))
    return members


def sync_all(members: Sequence[Member], shares: Sequence[bytes]) -> None:
    """Let the first member, which leads, and then the others sync. Each gets its share."""
    leader, *others = members
    given = {one.member_id: share for one, share in zip(members, shares, strict=True)}
    for pending in [leader.ask_sync(given), *(one.ask_sync() for one in others)]:
        pending.answer()


def join_consumer(
    k: Stage, name: str, *topics: str, group: str | None = None, instance: str | None = None, **join: Any
) -> Modern:
    """A member of a consumer group that has joined it, subscribed to these topics."""
    one = Modern(k, name, group, instance=instance)
    one.join(*topics, **join)
    return one


def sole_consumer(k: Stage, partitions: int = 1, **join: Any) -> tuple[str, Modern]:
    """A topic, and the one member `a` of a consumer group, which reads it."""
    topic = k.topic(partitions=partitions)
    return topic, join_consumer(k, "a", topic, **join)


def consumer_pair(k: Stage, partitions: int, **join: Any) -> tuple[str, Modern, Modern]:
    """A topic, and two members of a consumer group that read it: `a`, which joined with these values, and then `b`."""
    topic, a = sole_consumer(k, partitions, **join)
    return topic, a, join_consumer(k, "b", topic)


def hand_over(giver: Modern, taker: Modern | Member) -> None:
    """Let one member hear what it must give up and acknowledge it, and the other one take that."""
    giver.beat()
    giver.owns()
    taker.beat()


def begin_producer(
    k: Stage, name: str = "p", transactional_id: str | None = None, timeout_ms: int = 60_000, **values: Any
) -> Producer:
    """A transactional producer that knows its producer id and epoch."""
    one = Producer(k, name, transactional_id, timeout_ms)
    one.begin(**values)
    return one


def sole_streams(k: Stage, partitions: int = 1, **join: Any) -> tuple[Topology, Streams]:
    """A topic, and the one member `a` of a streams group without state, which reads it; returns the topology too."""
    known = reads(k.topic(partitions=partitions))
    a = Streams(k, "a")
    a.join(known, **join)
    return known, a


def streams_pair(k: Stage, partitions: int, **join: Any) -> tuple[Topology, Streams, Streams]:
    """A topic, and two members of a streams group, each a process: `a`, which joined with these values, then `b`."""
    known, a = sole_streams(k, partitions, **join)
    b = Streams(k, "b")
    b.join(known)
    return known, a, b


def stateful_streams(k: Stage, names: str, partitions: int = 2, standbys: int = 0) -> tuple[Topology, list[Streams]]:
    """A topic with a changelog that is there already, and a member for each letter, which have their tasks."""
    known = counts(k, k.topic(partitions=partitions))
    k.topic("log", partitions)
    if standbys:
        k.group_config(k.name("g"), streams_num_standby_replicas=standbys)
    members = [Streams(k, name) for name in names]
    for one in members:
        one.join(known)
    settle(members)
    return known, members


def settle(members: Sequence[Streams], rounds: int = 3) -> None:
    """Let each member acknowledge what it was told, some times in turn."""
    for _ in range(rounds):
        for one in members:
            one.owns()

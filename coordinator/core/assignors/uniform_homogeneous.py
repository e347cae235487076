"""`uniform` where everybody subscribes to the same topics.

With P partitions and N members everybody may own P // N, and P % N of them one more. Members keep what they had up to
that quota; what is over, and what nobody had, goes in order to those below theirs. An extra partition is left to
members that already hold one while enough members remain to take the extras, so a partition moves only if it must.

The work is proportional to what changes: a member within its quota keeps the very object it had, and partitions that
nobody owned are handed out as slices of whole topics.
"""

from collections.abc import Mapping
from itertools import chain
from typing import Final

from coordinator.core.assignors.hash_order import order_members, partitions_in_order, topics_in_order
from coordinator.core.assignors.spec import Assignment, AssignorError, GroupSpec
from coordinator.core.decision import Steps
from coordinator.core.pace import Pace

Run = tuple[bytes, "range | tuple[int, ...]"]
"""Partitions of one topic that are handed out one after the other."""
_PARTITIONS_A_UNIT: Final = 50


def assign(spec: GroupSpec) -> Steps[Mapping[str, Assignment]]:
    """Assign partitions to members that all subscribe to what the first member subscribes to, in steps."""
    in_order = yield from order_members(spec.members)
    topics = topics_in_order(spec.members[in_order[0]].topics, copied=True)
    if not topics:
        return {}
    counts = {topic: spec.partition_count(topic) for topic in topics}
    kept, below, surplus = yield from _keep(spec, in_order, counts)
    # What members below their quota lack is what was taken away from others, unless something was nobody's.
    lacking = sum(quota for _, quota in below)
    unowned: list[Run] = []
    if lacking > sum(len(run) for _, run in surplus):
        unowned = yield from _find_unowned_partitions(spec, counts)
    yield from _hand_out([*unowned, *surplus], below, kept)
    return kept


def _keep(
    spec: GroupSpec, in_order: list[str], counts: Mapping[bytes, int]
) -> Steps[tuple[dict[str, Assignment], list[tuple[str, int]], list[Run]]]:
    """Return what each member keeps, how many more each may get, and what was taken away, all in order."""
    base, extras = divmod(sum(counts.values()), len(in_order))
    kept: dict[str, Assignment] = {}
    below: list[tuple[str, int]] = []
    surplus: list[Run] = []
    members, pace = spec.members, Pace()
    for index, member_id in enumerate(in_order):
        previous = members[member_id].previous
        if pace.is_due(1 + len(previous)):
            yield
        takes_extra = extras > 0
        quota = base + takes_extra
        for topic, partitions in previous.items():
            quota -= len(partitions)
            if quota < 0 or topic not in counts:
                kept[member_id], quota = _cut_to_quota(previous, counts, base + takes_extra, surplus)
                break
        else:
            kept[member_id] = previous
        if quota:
            if takes_extra and len(in_order) - index > extras:
                quota -= 1  # leave the extra one to a member that already holds it
                takes_extra = False
            if quota:
                below.append((member_id, quota))
        if takes_extra:
            extras -= 1
    return kept, below, surplus


def _cut_to_quota(
    previous: Assignment, counts: Mapping[bytes, int], quota: int, surplus: list[Run]
) -> tuple[dict[bytes, tuple[int, ...]], int]:
    """Return a previous assignment cut down to subscribed topics and a quota, and what is left of that quota."""
    kept: dict[bytes, tuple[int, ...]] = {}
    for topic in topics_in_order(previous, copied=False):
        if topic not in counts:
            continue
        partitions = previous[topic]
        if len(partitions) > quota:
            ordered = partitions_in_order(partitions)
            surplus.append((topic, ordered[quota:]))
            partitions = tuple(sorted(ordered[:quota]))
        if partitions:
            kept[topic] = partitions
        quota -= len(partitions)
    return kept, quota


def _find_unowned_partitions(spec: GroupSpec, counts: Mapping[bytes, int]) -> Steps[list[Run]]:
    """Return partitions in nobody's previous assignment, topic by topic."""
    pace = Pace()
    unowned: list[Run] = []
    owned: dict[bytes, list[tuple[int, ...]]] = {topic: [] for topic in counts}
    for member in spec.members.values():
        if pace.is_due(1 + len(member.previous) // 10):
            yield
        for topic, partitions in member.previous.items():
            if topic in owned:
                owned[topic].append(partitions)
    for topic, count in counts.items():
        if pace.is_due(1 + (count + len(owned[topic])) // _PARTITIONS_A_UNIT):
            yield
        if not owned[topic] and count:
            unowned.append((topic, range(count)))
        elif sum(map(len, owned[topic])) < count:
            taken = frozenset(chain.from_iterable(owned[topic]))
            unowned.append((topic, tuple([partition for partition in range(count) if partition not in taken])))
    return unowned


def _hand_out(runs: list[Run], below: list[tuple[str, int]], kept: dict[str, Assignment]) -> Steps[None]:
    """Give the free partitions, in order, to the members below their quota, in order."""
    waiting, pace = iter(runs), Pace()
    topic, run = next(waiting, (b"", ()))
    at = 0
    for member_id, quota in below:
        mine = dict(kept[member_id])
        while quota:
            if pace.is_due():
                yield
            if part := run[at : at + quota]:
                at += quota
                quota -= len(part)
                if topic not in mine and type(part) is range:  # a slice of a topic that nobody owned: in order already
                    mine[topic] = tuple(part)
                else:
                    mine[topic] = tuple(sorted((*mine.get(topic, ()), *part)))
                continue
            following = next(waiting, None)
            if following is None:
                break
            (topic, run), at = following, 0
        kept[member_id] = mine
    if at < len(run) or next(waiting, None) is not None:
        raise AssignorError("partitions were left unassigned")

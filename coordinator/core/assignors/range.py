"""The `range` assignor: divide each topic into contiguous blocks, one for each member in a fixed order.

Topics with the same number of partitions and the same subscribers are divided alike: member i owns the same partition
numbers of each, so that streams with the same keys can be joined. In return the load is less balanced: the first
members get the extra partition of every topic. Static members come first, by instance id, so that they own the same
blocks after a restart.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from coordinator.core.assignors.spec import Assignment, GroupSpec
from coordinator.core.decision import Steps
from coordinator.core.pace import Pace

_BLOCKS_A_UNIT: Final = 20


def assign(spec: GroupSpec) -> Steps[Mapping[str, Assignment]]:
    """Assign each subscriber a range of each topic's partitions, in steps."""
    pace, keys = Pace(), {}
    for member_id in spec.members:
        if pace.is_due():
            yield
        keys[member_id] = _sort_key(spec, member_id)
    member_ids = sorted(spec.members, key=keys.__getitem__)
    yield
    counts = yield from _count_subscribers(spec)
    blocks = {}
    for topic, subscribers in counts.items():
        if pace.is_due(1 + subscribers // _BLOCKS_A_UNIT):
            yield
        blocks[topic] = iter(_divide(spec.partition_count(topic), subscribers))
    owned: dict[str, Assignment] = {}
    for member_id in member_ids:
        if pace.is_due(1 + len(spec.members[member_id].topics)):
            yield
        mine = {topic: next(blocks[topic]) for topic in spec.members[member_id].topics}
        owned[member_id] = {topic: tuple(block) for topic, block in mine.items() if block}
    return owned


def _sort_key(spec: GroupSpec, member_id: str) -> tuple[bool, bytes]:
    """Return the key to sort by: static members by instance id, then dynamic ones by member id.

    Java compares strings by UTF-16 code units.
    """
    instance_id = spec.members[member_id].instance_id
    name = member_id if instance_id is None else instance_id
    return instance_id is None, name.encode("utf-16-be", "surrogatepass")


def _count_subscribers(spec: GroupSpec) -> Steps[dict[bytes, int]]:
    if spec.is_homogeneous and spec.members:
        return dict.fromkeys(next(iter(spec.members.values())).topics, len(spec.members))
    pace = Pace()
    counts: dict[bytes, int] = {}
    for member in spec.members.values():
        if pace.is_due(1 + len(member.topics) // 10):
            yield
        for topic in member.topics:
            counts[topic] = counts.get(topic, 0) + 1
    return counts


def _divide(partitions: int, members: int) -> list[range]:
    """Return one block for each member; the first `partitions % members` of them are longer by one."""
    quota, extras = divmod(partitions, members)
    ends = [quota * i + min(i, extras) for i in range(members + 1)]
    return [range(start, end) for start, end in pairwise(ends)]

"""The `range` assignor: each topic is cut into contiguous blocks, laid out along the members in one fixed order.

Topics with equally many partitions, subscribed by everybody, are cut alike: member i owns the same numbers of each, so
that streams keyed alike can be joined. The price is balance: the first members get the odd partition of every topic.
Nothing is sticky but the order itself: static members come first, by instance id, and keep their blocks over restarts.
"""

from collections.abc import Mapping
from itertools import pairwise

from coordinator.core.assignors.spec import Assignment, GroupSpec


def assign(spec: GroupSpec) -> Mapping[str, Assignment]:
    """Assign each subscriber a range of each topic's partitions."""
    in_order = sorted(spec.members, key=lambda member_id: _rank(spec, member_id))
    blocks = {topic: iter(_blocks(spec.partition_count(topic), n)) for topic, n in _subscriber_counts(spec).items()}
    owned: dict[str, Assignment] = {}
    for member_id in in_order:
        mine = {topic: next(blocks[topic]) for topic in spec.members[member_id].topics}
        owned[member_id] = {topic: tuple(block) for topic, block in mine.items() if block}
    return owned


def _rank(spec: GroupSpec, member_id: str) -> tuple[bool, bytes]:
    """Static members by instance id, then dynamic ones by member id. Java compares strings by UTF-16 code units."""
    instance_id = spec.members[member_id].instance_id
    name = member_id if instance_id is None else instance_id
    return instance_id is None, name.encode("utf-16-be", "surrogatepass")


def _subscriber_counts(spec: GroupSpec) -> dict[bytes, int]:
    if spec.is_homogeneous and spec.members:
        return dict.fromkeys(next(iter(spec.members.values())).topics, len(spec.members))
    counts: dict[bytes, int] = {}
    for member in spec.members.values():
        for topic in member.topics:
            counts[topic] = counts.get(topic, 0) + 1
    return counts


def _blocks(partitions: int, members: int) -> list[range]:
    """One block a member, the first `partitions % members` of them one longer."""
    quota, extras = divmod(partitions, members)
    ends = [quota * i + min(i, extras) for i in range(members + 1)]
    return [range(start, end) for start, end in pairwise(ends)]

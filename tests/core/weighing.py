"""What the members of a shard's groups take, counted anew: with ids that are to become members, the topics that classic
members subscribe to and patterns have matched, and the topologies of streams groups."""

from typing import Any

from coordinator.core.kinds.classic.group import PENDING_BYTES, Member, weigh_member
from coordinator.core.shard import GROUP_BYTES, Shard
from coordinator.core.weights import ENTRY_BYTES, weigh

OTHERS = ("resolved", "topics", "topology")


def weigh_groups(shard: Shard) -> int:
    """What the groups take without their members."""
    return sum(weigh(group_id) + GROUP_BYTES for group_id in shard.groups)


def weigh_members(shard: Shard) -> int:
    return sum(map(_weigh_group, shard.groups.values()))


def _weigh_group(group: Any) -> int:
    size = sum(PENDING_BYTES + weigh(member_id) for member_id in getattr(group, "pending", ()))
    for name in ("members", "targets"):
        for one in getattr(group, name, {}).values():
            size += weigh_member(one) if isinstance(one, Member) else ENTRY_BYTES + weigh(one)
    return size + sum(weigh(getattr(group, name)) for name in OTHERS if name in group.__struct_fields__)

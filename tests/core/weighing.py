"""What the members of a shard's groups take, with ids that are to become members and the topics that classic members
subscribe to and patterns have matched, counted anew."""

from typing import Any

from coordinator.core.kinds.classic.group import Member, weigh_member
from coordinator.core.shard import Shard
from coordinator.core.weights import ENTRY_BYTES, weigh


def weigh_members(shard: Shard) -> int:
    return sum(map(_weigh_group, shard.groups.values()))


def _weigh_group(group: Any) -> int:
    size = sum(ENTRY_BYTES + weigh(member_id) for member_id in getattr(group, "pending", ()))
    for name in ("members", "targets"):
        for one in getattr(group, name, {}).values():
            size += weigh_member(one) if isinstance(one, Member) else ENTRY_BYTES + weigh(one)
    return size + weigh(getattr(group, "resolved", None)) + weigh(getattr(group, "topics", None))

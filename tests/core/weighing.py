"""What the members of a shard's groups take, and ids that are to become members, counted anew."""

from typing import Any

from coordinator.core.kinds.classic.group import Member, weigh_member
from coordinator.core.shard import Shard
from coordinator.core.weights import ENTRY_BYTES, weigh


def weigh_members(shard: Shard) -> int:
    tables: list[Any] = [getattr(group, name, {}) for group in shard.groups.values() for name in ("members", "targets")]
    values = [one for table in tables for one in table.values()]
    pending = [
        ENTRY_BYTES + weigh(member_id) for group in shard.groups.values() for member_id in getattr(group, "pending", ())
    ]
    return sum(pending) + sum(
        weigh_member(one) if isinstance(one, Member) else ENTRY_BYTES + weigh(one) for one in values
    )

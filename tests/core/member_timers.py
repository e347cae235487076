"""The timers that members of groups with epochs must have, and must not have."""

from coordinator.core.kinds.consumer.group import ConsumerGroup
from coordinator.core.kinds.share.group import ShareGroup
from coordinator.core.kinds.streams.group import StreamsGroup
from coordinator.core.shard import Shard
from coordinator.core.timers import rebalance, session


def check_member_timers(shard: Shard) -> None:
    """Every member has a session, and is fenced after a while if it has something to give up, and only then."""
    for group_id, group in shard.groups.items():
        if not isinstance(group, ConsumerGroup | ShareGroup | StreamsGroup):
            continue
        for member_id, member in group.members.items():
            assert session(group_id, member_id) in shard.timers, f"{member_id} has no session"
            if not isinstance(group, ShareGroup) and getattr(member, "classic", None) is None:  # those have to join
                is_revoking = member.state.name.startswith("UNREVOKED")
                assert (rebalance(group_id, member_id) in shard.timers) == is_revoking, f"{member_id}: {member.state}"

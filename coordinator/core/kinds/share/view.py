"""A share group as an operator sees it."""

from coordinator.core.group_view import MemberView, name_topics
from coordinator.core.kinds.share.group import ShareGroup
from coordinator.core.topics import Topics


def view(group: ShareGroup, topics: Topics) -> list[MemberView]:
    """Return the members with what they read."""
    return [
        MemberView(
            member_id=member.member_id,
            client_id=member.client_id,
            instance_id=None,
            host=member.metadata.client_host,
            assignment=name_topics(member.assigned, topics),
            epoch=member.epoch,
        )
        for member in group.members.values()
    ]

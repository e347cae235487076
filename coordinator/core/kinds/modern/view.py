"""What an operator sees of the members of a group with epochs whose members are assigned partitions."""

from typing import Any

from coordinator.core.group_view import MemberView, name_topics
from coordinator.core.topics import Topics


def view(group: Any, topics: Topics) -> list[MemberView]:
    """Return its members."""
    return [
        MemberView(
            member.member_id,
            member.client_id,
            member.instance_id,
            member.metadata.client_host,
            name_topics(member.assigned, topics),
            epoch=member.epoch,
        )
        for member in group.members.values()
    ]

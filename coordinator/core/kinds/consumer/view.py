"""What an operator sees of the members of a consumer group."""

from coordinator.core.group_view import MemberView, name_topics
from coordinator.core.kinds.consumer.group import ConsumerGroup
from coordinator.core.topics import Topics


def view(group: ConsumerGroup, topics: Topics) -> list[MemberView]:
    """Return its members."""
    return [
        MemberView(
            member.member_id,
            member.metadata.client_id,
            member.instance_id,
            member.metadata.client_host,
            name_topics(member.assigned, topics),
            epoch=member.epoch,
        )
        for member in group.members.values()
    ]

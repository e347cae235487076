"""What an operator sees of the members of a streams group."""

from coordinator.core.group_view import Assignment, MemberView
from coordinator.core.kinds.streams.group import Member, StreamsGroup
from coordinator.core.kinds.streams.tasks import ROLES, task_names
from coordinator.core.topics import Topics


def view(group: StreamsGroup, topics: Topics) -> list[MemberView]:
    """Return its members, with their tasks by role and with the partitions that their active tasks read."""
    return [
        MemberView(
            member.member_id,
            member.client_id,
            member.instance_id,
            member.metadata.client_host,
            _partitions(group, member, topics),
            epoch=member.epoch,
            process_id=member.process_id,
            tasks={role: task_names(getattr(member.assigned, role)) for role in ROLES},
        )
        for member in group.members.values()
    ]


def find_problem(group: StreamsGroup) -> str:
    """Return why the topology is not ready, as the members are told; "" if it is ready, or was not looked at yet."""
    configured = group.configured
    return "" if configured is None or configured.problem is None else configured.problem.detail


def _partitions(group: StreamsGroup, member: Member, topics: Topics) -> Assignment:
    """Return the partitions of sources and repartition topics that the member's active tasks read."""
    named: dict[str, set[int]] = {}
    subtopologies = {} if group.configured is None else group.configured.subtopologies
    for number, partitions in member.assigned.active.items():
        if number in subtopologies:
            for name in subtopologies[number].source_names:
                topic = topics.get(name)
                count = 0 if topic is None else topic.partitions
                named.setdefault(name, set()).update(partition for partition in partitions if partition < count)
    return {name: sorted(named[name]) for name in sorted(named) if named[name]}

"""What holds of the tasks of applications whatever happens, in plain sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from coordinator.core.kinds.streams.configuration import configure_topology
from coordinator.core.kinds.streams.group import StreamsGroup
from coordinator.core.kinds.streams.states import GroupState
from protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from tests.core.kinds.streams.invariants import check, tasks_of, tasks_told
from tests.simulation.broken import Broken, promise

if TYPE_CHECKING:
    from tests.simulation.server import Server
    from tests.simulation.streams_members import StreamsMember


class TaskPromises:
    """Watches by what members are told, by what they run, and by what the groups are between two turns."""

    def __init__(self) -> None:
        self._owners: dict[str, dict[tuple[int, str, int], str]] = {}  # by group: (epoch, active task) -> member
        self._checked: dict[str, StreamsGroup] = {}
        self.moves = 0  # active tasks that members were told of

    def forget(self, group_id: str) -> None:
        """Another group of that name counts its epochs anew."""
        self._owners.pop(group_id, None)

    def forget_all(self) -> None:
        """A power cut may have taken what was told last."""
        self._owners.clear()

    def told(
        self, server: Server, request: StreamsGroupHeartbeatRequest, response: StreamsGroupHeartbeatResponse
    ) -> None:
        """A member is told its tasks."""
        group = server.node.world.partitions.owner(request.group_id).shard.groups.get(request.group_id)
        if not isinstance(group, StreamsGroup) or request.member_id not in group.members:
            return
        owners = self._owners.setdefault(request.group_id, {})
        for role, number, partition in tasks_told(response):
            if role != "active":
                continue
            key = (response.member_epoch, number, partition)
            self.moves += key not in owners
            owner = owners.setdefault(key, request.member_id)
            promise(
                owner == request.member_id,
                "no active task has two owners in an epoch",
                lambda o=owner, k=key: f"{o} and {request.member_id} have {k[1]}_{k[2]} in {k[0]}",
            )

    def check_running(self, member: StreamsMember, known: Iterable[StreamsMember]) -> None:
        """Look at what the known members of a group run, after one of them was given something."""
        for other in known:
            is_beside = other.process_id == member.process_id
            for role, number, partition in () if other is member else other.tasks:
                here = {mine for mine, n, p in member.tasks if (n, p) == (number, partition)}
                promise(
                    not (role == "active" and "active" in here),
                    "no two members run an active task",
                    lambda o=other, n=number, p=partition: f"{member.member_id}, {o.member_id}: {n}_{p}",
                )
                promise(
                    not (is_beside and here),
                    "no process has a task twice, and no standby beside its active task",
                    lambda o=other, n=number, p=partition: f"{member.member_id}, {o.member_id}: {n}_{p}",
                )
        twice = [each for each, count in Counter((n, p) for _, n, p in member.tasks).items() if count > 1]
        promise(not twice, "no member has a task in two roles", lambda: f"{member.member_id}: {twice}")

    def look(self, server: Server) -> None:
        """Check what the groups are that the turn has changed."""
        for partition in server.node.world.partitions:
            for group_id, group in partition.shard.groups.items():
                if isinstance(group, StreamsGroup) and self._checked.get(group_id) is not group:
                    self._checked[group_id] = group
                    try:
                        check(group)
                    except AssertionError as error:
                        raise Broken(f"a streams group is in order: {group_id}: {error}") from error

    def check_settled(self, server: Server, group_id: str, alive: list[StreamsMember]) -> None:
        """A group that is left alone has the members who are alive, and each of its tasks has one owner and its copies.

        While a topic is missing or of a wrong size nobody has any task.
        """
        shard = server.node.world.partitions.owner(group_id).shard
        group: Any = shard.groups.get(group_id)
        if not alive:
            promise(group is None or not group.members, "nobody is a member who is gone", lambda: repr(group))
            return
        promise(isinstance(group, StreamsGroup), "members have a group", lambda: repr(group))
        known, living = sorted(group.members), sorted(one.member_id for one in alive)
        promise(known == living, "the members are those who are alive", lambda: f"{known}, not {living}")
        configured = configure_topology(group.topology, shard.topics)
        state = GroupState.STABLE if configured.is_ready else GroupState.NOT_READY
        promise(group.state is state, f"a group that is left alone is {state}", lambda: repr(group))
        for one in alive:
            given = set(tasks_of(group.members[one.member_id].assigned))
            promise(
                one.tasks == given, "members run what they were given", lambda o=one, g=given: f"{o.tasks}, not {g}"
            )
        tasks = {
            (number, partition): bool(each.changelogs)
            for number, each in configured.subtopologies.items()
            for partition in range(each.task_count)
        }
        running = Counter(each for one in alive for each in one.tasks)
        expected = Counter(("active", *task) for task in tasks) if configured.is_ready else Counter()
        active = Counter({each: count for each, count in running.items() if each[0] == "active"})
        promise(active == expected, "every task has one owner", lambda: f"{active}, not {expected}")
        copies = min(
            shard.limits_of(group_id).group_streams_num_standby_replicas, len({one.process_id for one in alive}) - 1
        )
        wanted = {task: copies for task, is_stateful in tasks.items() if is_stateful and copies and configured.is_ready}
        standby = {(number, p): count for (role, number, p), count in running.items() if role == "standby"}
        promise(standby == wanted, "every store has its copies", lambda: f"{standby}, not {wanted}")

"""What is said and seen of groups of all kinds."""

from typing import Any, Final

from msgspec import UNSET

from coordinator.core.env import Env
from coordinator.core.events import Cause, Event
from coordinator.core.group_view import GroupView
from coordinator.core.kinds.kind import Group
from coordinator.core.kinds.registry import kind_of
from coordinator.core.offsets.store import OffsetStore
from coordinator.core.result import Result
from coordinator.core.topics import Topics
from coordinator.core.verbs import BY

NO_GROUP: Final = "Dead"  # the state that Kafka describes groups by which do not exist


def group_event(group: Group, env: Env, cause: Cause, by: str, *, after: str = "", reason: str = "") -> Event:
    """Return an event of the whole group, which stays in its state, or is no more, if that is `after`."""
    kind = kind_of(group)
    return Event(
        at_ms=env.call.now_ms,
        group=group.group_id,
        cause=cause,
        before=group.state.value,
        after=after or group.state.value,
        generation=kind.count(group),
        type=kind.name,
        members=0 if after else len(group.members),
        by=by,
        reason=reason,
    )


def records_event(
    group_id: str, group: Group | None, cause: Cause, member_id: str, by: str, records: str, now_ms: int
) -> Event:
    """Return an event of records of a share group, which need not exist: a fetch is not asked for its member."""
    member = None if group is None else group.members.get(member_id)
    state = NO_GROUP if group is None else group.state.value
    return Event(
        at_ms=now_ms,
        group=group_id,
        cause=cause,
        before=state,
        after=state,
        generation=0 if group is None else kind_of(group).count(group),
        member=member_id,
        client_id="" if member is None else member.client_id,
        type="share",
        members=0 if group is None else len(group.members),
        by=by,
        records=records,
    )


def report_move(group: Group, env: Env, reason: str) -> Result[Any]:
    """Tell that another broker takes a group over, if it has members."""
    if not group.members:
        return Result()
    return Result(events=(group_event(group, env, Cause.COORDINATOR_MOVED, BY, reason=reason),))


def view_group(group: Group, offsets: OffsetStore, topics: Topics) -> GroupView:
    """Return what there is to see of a group."""
    kind = kind_of(group)
    committed = {
        topic: {str(partition): one.offset for partition, one in sorted(partitions.items())}
        for topic, partitions in sorted(offsets.of_group(group.group_id).items())
    }
    return GroupView(
        group.group_id, kind.name, group.state.value, kind.counts_by, kind.count(group), kind.assignor(group),
        kind.view(group, topics), committed, kind.problem(group) or UNSET,
    )  # fmt: skip

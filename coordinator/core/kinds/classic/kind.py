"""The kind of the classic groups."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from coordinator.core.growth import brings_more
from coordinator.core.kinds.classic import durable, offsets, timers
from coordinator.core.kinds.classic.group import ClassicGroup, weigh_change
from coordinator.core.kinds.classic.heartbeat import heartbeat
from coordinator.core.kinds.classic.join_group import join_group
from coordinator.core.kinds.classic.leave_group import leave_group
from coordinator.core.kinds.classic.states import TIMERS, State
from coordinator.core.kinds.classic.sync_group import give_up_assignment, sync_group
from coordinator.core.kinds.classic.voting import is_subscribed
from coordinator.core.kinds.kind import Description, Handler, Kind, late
from coordinator.core.limits import Limits
from coordinator.core.moves import LoseMembers
from coordinator.core.records import GroupMetadataKey
from coordinator.core.timers import JOIN, SESSION, SYNC, TimerKey
from coordinator.core.verbs import Forget, Rebalance, RemoveMember, SetTarget
from protocol.errors import ErrorCode
from protocol.messages.describe_groups import DescribeGroupsResponse, DescribeGroupsResponseDescribedGroup
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.sync_group import SyncGroupRequest


def _ended_timers(old: ClassicGroup, group: ClassicGroup) -> Iterable[TimerKey]:
    if old.state is group.state and (group.unsynced or not old.unsynced):
        return ()  # nearly always
    names = TIMERS[old.state] - TIMERS[group.state] | ({SYNC} if old.unsynced and not group.unsynced else set())
    return [(name, group.group_id, "") for name in names]


def _session_timeout_ms(group: ClassicGroup, member_id: str, limits: Limits) -> int:
    return group.members[member_id].session_timeout_ms


def _find_fence(group: ClassicGroup, member_id: str) -> tuple[str, ErrorCode]:
    is_static = group.members[member_id].is_static
    return "Heartbeat", ErrorCode.FENCED_INSTANCE_ID if is_static else ErrorCode.UNKNOWN_MEMBER_ID


def _grows_by_join(request: JoinGroupRequest, group: Any) -> bool:
    return brings_more(group, request.member_id, request.protocols)


def _grows_by_sync(request: SyncGroupRequest, group: Any) -> bool:
    size = sum([len(one.assignment) for one in request.assignments])
    return group is not None and size > ASSIGNMENT_BYTES * len(group.members)


ASSIGNMENT_BYTES: Final = 4_096
"""What a member of an average assignment has: as much is taken in any case, for each member of the group."""

_REQUESTS: Final[Mapping[type, Handler]] = {
    HeartbeatRequest: heartbeat,
    JoinGroupRequest: join_group,
    SyncGroupRequest: sync_group,
    LeaveGroupRequest: leave_group,
}

CLASSIC: Final = Kind(
    name="classic",
    cls=ClassicGroup,
    counts_by="generation",
    states=State,
    settled=frozenset({State.EMPTY, State.STABLE}),
    protocol_type=lambda group: group.protocol_type or "",
    handlers={
        **_REQUESTS,
        RemoveMember: late(f"{__package__}.verbs", "remove_member"),
        Rebalance: late(f"{__package__}.verbs", "rebalance"),
        SetTarget: late(f"{__package__}.verbs", "set_target"),
        Forget: late(f"{__package__}.verbs", "forget"),
        LoseMembers: late(f"{__package__}.verbs", "lose_members"),
    },
    creates=_REQUESTS,
    refuses={
        HeartbeatRequest: late(f"{__package__}.refusals", "refuse_to_beat"),
        JoinGroupRequest: late(f"{__package__}.refusals", "refuse_to_join"),
        SyncGroupRequest: late(f"{__package__}.refusals", "refuse_to_sync"),
        LeaveGroupRequest: late(f"{__package__}.refusals", "refuse_to_leave"),
    },
    weigh_change=weigh_change,
    grows={JoinGroupRequest: _grows_by_join, SyncGroupRequest: _grows_by_sync},
    too_large={SyncGroupRequest: give_up_assignment},
    timers={SESSION: timers.expire_session, JOIN: timers.expire_join_phase, SYNC: timers.expire_pending_syncs},
    member_timers=frozenset({SESSION}),
    ended_timers=_ended_timers,
    keys={GroupMetadataKey: durable.apply_record},
    group_id=lambda key: str(key.group),
    tombstones=lambda group: (durable.tombstone(group.group_id),),
    of_offsets=ClassicGroup,
    gives_way=lambda group: not group.members and group.protocol_type is None,
    restart=timers.restart_timers,
    unload=late(f"{__package__}.verbs", "unload"),
    session_timeout_ms=_session_timeout_ms,
    repeats_heartbeats=True,
    expires_since=offsets.expires_since,
    is_subscribed=is_subscribed,
    validate_commit=offsets.validate_commit,
    validate_fetch=offsets.validate_fetch,
    validate_delete_offsets=offsets.validate_delete,
    renew_by_commit=offsets.renew_by_commit,
    description=Description(
        api="DescribeGroups",
        ids="groups",
        response=DescribeGroupsResponse,
        entry=DescribeGroupsResponseDescribedGroup,
        describe=late(f"{__package__}.describe_groups", "describe"),
    ),
    assignor=lambda group: group.protocol or "",
    view=late(f"{__package__}.view"),
    find_fence=_find_fence,
)

"""The kind of the streams groups. Only what a start from the log needs is imported with it."""

from functools import partial
from typing import Any, Final

from coordinator.core.cleanup import forget_group
from coordinator.core.groups import report_move
from coordinator.core.growth import brings_more
from coordinator.core.kinds import modern
from coordinator.core.kinds.kind import Description, Kind, late
from coordinator.core.kinds.streams import replay
from coordinator.core.kinds.streams.group import StreamsGroup, is_subscribed
from coordinator.core.kinds.streams.states import GroupState
from coordinator.core.limits import Limits
from coordinator.core.moves import LoseMembers
from coordinator.core.offsets.expiry import commit_time
from coordinator.core.result import NoteCreatedTopics, TakeTarget
from coordinator.core.timers import INITIAL, REBALANCE, SESSION
from coordinator.core.verbs import Forget, Rebalance, RemoveMember, SetTarget
from coordinator.core.weights import weigh_change
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.streams_group_describe import (
    StreamsGroupDescribeResponse,
    StreamsGroupDescribeResponseDescribedGroup,
)
from protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest


def _session_timeout_ms(group: StreamsGroup, member_id: str, limits: Limits) -> int:
    return limits.group_streams_session_timeout_ms


def _find_fence(group: StreamsGroup, member_id: str) -> tuple[str, ErrorCode]:
    return "StreamsGroupHeartbeat", ErrorCode.FENCED_MEMBER_EPOCH


def _grows(request: StreamsGroupHeartbeatRequest, group: Any) -> bool:
    if request.member_epoch < 0:
        return False
    brought = (request.topology if group is None else None, request.process_id, request.rack_id, request.client_tags)
    return brings_more(group, request.member_id, brought if any(brought) else None)


_heartbeat: Final = late(f"{__package__}.streams_group_heartbeat")
_MEMBER_TIMERS: Final = (SESSION, REBALANCE)

STREAMS: Final = Kind(
    name="streams",
    cls=StreamsGroup,
    counts_by="epoch",
    states=GroupState,
    settled=frozenset({GroupState.EMPTY, GroupState.NOT_READY, GroupState.STABLE}),
    protocol_type=lambda group: "streams",
    is_optional=True,
    handlers={
        StreamsGroupHeartbeatRequest: _heartbeat,
        JoinGroupRequest: late(f"{__package__}.join_group"),
        TakeTarget: late(f"{__package__}.target", "take_target"),
        NoteCreatedTopics: late(f"{__package__}.internal_topics", "keep_errors"),
        RemoveMember: late(f"{__package__}.verbs", "remove_member"),
        Rebalance: late(f"{__package__}.verbs", "rebalance"),
        SetTarget: late(f"{__package__}.verbs", "set_target"),
        Forget: forget_group,
        LoseMembers: late(f"{__package__}.verbs", "lose_members"),
    },
    creates={StreamsGroupHeartbeatRequest: _heartbeat},
    refuses={StreamsGroupHeartbeatRequest: _heartbeat},  # which makes empty classic groups streams groups
    grows={StreamsGroupHeartbeatRequest: _grows},
    weigh_change=partial(weigh_change, names=("members", "targets", "topology")),
    malformed={StreamsGroupHeartbeatRequest: late(f"{__package__}.streams_group_heartbeat", "refuse_malformed")},
    too_large={
        TakeTarget: late(f"{modern.__name__}.long_targets", "give_up"),
        StreamsGroupHeartbeatRequest: late(f"{__package__}.streams_group_heartbeat", "refuse_too_large"),
    },
    timers={
        **dict.fromkeys(_MEMBER_TIMERS, late(f"{__package__}.timers", "expire_member")),
        INITIAL: late(f"{__package__}.timers", "end_initial_delay"),
    },
    timer_effects={INITIAL: "the first target of the group may be computed"},
    member_timers=frozenset(_MEMBER_TIMERS),
    keys=dict.fromkeys(replay.KEYS, replay.apply_record),
    tombstones=late(f"{__package__}.record_builders", "tombstones"),
    restart=late(f"{__package__}.timers", "restart_timers"),
    unload=report_move,  # no request of a member is ever parked
    session_timeout_ms=_session_timeout_ms,
    expires_since=lambda group: commit_time,
    is_subscribed=is_subscribed,
    validate_commit=late(f"{__package__}.validation", "validate_commit"),
    validate_fetch=late(f"{__package__}.validation", "validate_fetch"),
    validate_delete_offsets=lambda group: ErrorCode.NONE,
    description=Description(
        api="StreamsGroupDescribe",
        ids="group_ids",
        response=StreamsGroupDescribeResponse,
        entry=StreamsGroupDescribeResponseDescribedGroup,
        describe=late(f"{__package__}.streams_group_describe", "describe"),
    ),
    assignor=lambda group: "sticky",
    view=late(f"{__package__}.view"),
    problem=late(f"{__package__}.view", "find_problem"),
    find_fence=_find_fence,
)

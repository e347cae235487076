"""The kind of the consumer groups. Only what a start from the log needs is imported with it."""

from functools import partial
from typing import Any, Final

from coordinator.core.cleanup import forget_group
from coordinator.core.groups import report_move
from coordinator.core.growth import brings_more
from coordinator.core.kinds import modern
from coordinator.core.kinds.consumer import replay
from coordinator.core.kinds.consumer.group import ConsumerGroup
from coordinator.core.kinds.consumer.states import GroupState
from coordinator.core.kinds.kind import Description, Kind, late
from coordinator.core.kinds.modern.topics import is_subscribed
from coordinator.core.limits import Limits
from coordinator.core.moves import LoseMembers
from coordinator.core.offsets.expiry import commit_time
from coordinator.core.result import TakeTarget
from coordinator.core.timers import JOIN, REBALANCE, REGEX, SESSION, SYNC
from coordinator.core.verbs import Forget, Rebalance, RemoveMember, SetTarget
from coordinator.core.weights import weigh_change
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseDescribedGroup,
)
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.sync_group import SyncGroupRequest


def _session_timeout_ms(group: ConsumerGroup, member_id: str, limits: Limits) -> int:
    classic = group.members[member_id].classic
    return limits.group_consumer_session_timeout_ms if classic is None else classic.session_timeout_ms


def _find_fence(group: ConsumerGroup, member_id: str) -> tuple[str, ErrorCode]:
    member = group.members[member_id]
    if member.classic is None:
        return "ConsumerGroupHeartbeat", ErrorCode.FENCED_MEMBER_EPOCH
    return "Heartbeat", ErrorCode.UNKNOWN_MEMBER_ID if member.instance_id is None else ErrorCode.FENCED_INSTANCE_ID


def _grows(request: ConsumerGroupHeartbeatRequest, group: Any) -> bool:
    return request.member_epoch >= 0 and brings_more(group, request.member_id, request.subscribed_topic_names)


_heartbeat: Final = late(f"{__package__}.consumer_group_heartbeat")
_MEMBER_TIMERS: Final = (SESSION, JOIN, SYNC, REBALANCE)

CONSUMER: Final = Kind(
    name="consumer",
    cls=ConsumerGroup,
    counts_by="epoch",
    states=GroupState,
    settled=frozenset({GroupState.EMPTY, GroupState.STABLE}),
    protocol_type=lambda group: "consumer",
    is_optional=True,
    handlers={
        ConsumerGroupHeartbeatRequest: _heartbeat,
        HeartbeatRequest: late(f"{__package__}.heartbeat"),
        JoinGroupRequest: late(f"{__package__}.join_group"),
        SyncGroupRequest: late(f"{__package__}.sync_group"),
        LeaveGroupRequest: late(f"{__package__}.leave_group"),
        TakeTarget: late(f"{__package__}.target", "take_target"),
        RemoveMember: late(f"{__package__}.verbs", "remove_member"),
        Rebalance: late(f"{__package__}.verbs", "rebalance"),
        SetTarget: late(f"{__package__}.verbs", "set_target"),
        Forget: forget_group,
        LoseMembers: late(f"{__package__}.verbs", "lose_members"),
    },
    creates={ConsumerGroupHeartbeatRequest: _heartbeat},
    refuses={ConsumerGroupHeartbeatRequest: _heartbeat},  # which upgrades classic groups
    grows={ConsumerGroupHeartbeatRequest: _grows},
    weigh_change=partial(weigh_change, names=("members", "targets", "resolved")),
    too_large={
        TakeTarget: late(f"{modern.__name__}.long_targets", "give_up"),
        ConsumerGroupHeartbeatRequest: late(f"{__package__}.consumer_group_heartbeat", "refuse_too_large"),
        REGEX: late(f"{__package__}.timers", "give_up_patterns"),
    },
    malformed={ConsumerGroupHeartbeatRequest: late(f"{__package__}.consumer_group_heartbeat", "refuse_malformed")},
    timers={
        **dict.fromkeys(_MEMBER_TIMERS, late(f"{__package__}.timers", "expire_member")),
        REGEX: late(f"{__package__}.timers", "resolve_patterns"),
    },
    member_timers=frozenset(_MEMBER_TIMERS),
    long_timers=frozenset({REGEX}),
    keys=dict.fromkeys(replay.KEYS, replay.apply_record),
    tombstones=late(f"{__package__}.downgrade", "tombstones"),
    restart=late(f"{__package__}.timers", "restart_timers"),
    unload=report_move,  # no request of a member is ever parked
    session_timeout_ms=_session_timeout_ms,
    expires_since=lambda group: commit_time,
    is_subscribed=is_subscribed,
    validate_commit=late(f"{__package__}.validation", "validate_commit"),
    validate_fetch=late(f"{__package__}.validation", "validate_fetch"),
    validate_delete_offsets=lambda group: ErrorCode.NONE,
    description=Description(
        api="ConsumerGroupDescribe",
        ids="group_ids",
        response=ConsumerGroupDescribeResponse,
        entry=ConsumerGroupDescribeResponseDescribedGroup,
        describe=late(f"{__package__}.consumer_group_describe", "describe"),
    ),
    view=late(f"{modern.__name__}.view"),
    find_fence=_find_fence,
)

"""The kind of the share groups (KIP-932). Only what a start from the log needs is imported with it."""

from typing import Any, Final

from coordinator.core.groups import report_move
from coordinator.core.growth import brings_more
from coordinator.core.kinds import modern
from coordinator.core.kinds.kind import Description, Kind, late
from coordinator.core.kinds.share import replay
from coordinator.core.kinds.share.group import ShareGroup
from coordinator.core.kinds.share.states import GroupState
from coordinator.core.moves import LoseMembers
from coordinator.core.result import EndAllShareStates, NoteBegunStates, NoteEndedStates, NoteFailedStates, TakeTarget
from coordinator.core.timers import SESSION
from coordinator.core.verbs import Forget, Rebalance, RemoveMember, SetTarget
from protocol.errors import ErrorCode
from protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from protocol.messages.share_group_describe import ShareGroupDescribeResponse, ShareGroupDescribeResponseDescribedGroup
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest


def _grows(request: ShareGroupHeartbeatRequest, group: Any) -> bool:
    return request.member_epoch >= 0 and brings_more(group, request.member_id, request.subscribed_topic_names)


_heartbeat: Final = late(f"{__package__}.share_group_heartbeat")
_alter: Final = late(f"{__package__}.alter_share_group_offsets")
_delete: Final = late(f"{__package__}.delete_share_group_offsets")

SHARE: Final = Kind(
    name="share",
    cls=ShareGroup,
    counts_by="epoch",
    states=GroupState,
    settled=frozenset({GroupState.EMPTY, GroupState.STABLE}),
    protocol_type=lambda group: "share",
    handlers={
        ShareGroupHeartbeatRequest: _heartbeat,
        AlterShareGroupOffsetsRequest: _alter,
        DeleteShareGroupOffsetsRequest: _delete,
        NoteBegunStates: late(f"{__package__}.state_partitions", "note_begun"),
        NoteFailedStates: late(f"{__package__}.state_partitions", "note_failed_states"),
        NoteEndedStates: late(f"{__package__}.delete_share_group_offsets", "note_ended_states"),
        EndAllShareStates: late(f"{__package__}.delete_share_group_offsets", "end_all_states"),
        TakeTarget: late(f"{__package__}.target", "take_target"),
        RemoveMember: late(f"{__package__}.verbs", "remove_member"),
        Rebalance: late(f"{__package__}.verbs", "rebalance"),
        SetTarget: late(f"{__package__}.verbs", "set_target"),
        Forget: late(f"{__package__}.delete_share_group_offsets", "forget"),
        LoseMembers: late(f"{__package__}.verbs", "lose_members"),
    },
    creates={
        ShareGroupHeartbeatRequest: _heartbeat,
        AlterShareGroupOffsetsRequest: _alter,
        DeleteShareGroupOffsetsRequest: _delete,
    },
    refuses={
        ShareGroupHeartbeatRequest: late(f"{__package__}.share_group_heartbeat", "refuse_other_kind"),
        AlterShareGroupOffsetsRequest: late(f"{__package__}.alter_share_group_offsets", "refuse_other_kind"),
        DeleteShareGroupOffsetsRequest: late(f"{__package__}.delete_share_group_offsets", "refuse_other_kind"),
    },
    grows={ShareGroupHeartbeatRequest: _grows},
    too_large={
        TakeTarget: late(f"{modern.__name__}.long_targets", "give_up"),
        ShareGroupHeartbeatRequest: late(f"{__package__}.share_group_heartbeat", "refuse_too_large"),
    },
    malformed={ShareGroupHeartbeatRequest: late(f"{__package__}.share_group_heartbeat", "refuse_malformed")},
    timers={SESSION: late(f"{__package__}.timers", "expire_session")},
    member_timers=frozenset({SESSION}),
    keys=dict.fromkeys(replay.KEYS, replay.apply_record),
    tombstones=late(f"{__package__}.record_builders", "tombstones"),
    restart=late(f"{__package__}.timers", "restart_timers"),
    unload=report_move,  # no request of a member is ever parked
    session_timeout_ms=lambda group, member_id, limits: limits.group_share_session_timeout_ms,
    expires_since=None,
    has_share_states=True,
    without_topics=late(f"{__package__}.state_partitions", "without_topics"),
    is_subscribed=lambda group, topic: topic in group.names,
    validate_commit=late(f"{__package__}.refusals", "validate_commit"),
    validate_fetch=late(f"{__package__}.refusals", "validate_fetch"),
    validate_delete_offsets=late(f"{__package__}.refusals", "validate_delete_offsets"),
    description=Description(
        api="ShareGroupDescribe",
        ids="group_ids",
        response=ShareGroupDescribeResponse,
        entry=ShareGroupDescribeResponseDescribedGroup,
        describe=late(f"{__package__}.share_group_describe", "describe"),
    ),
    assignor=lambda group: "simple",
    view=late(f"{modern.__name__}.view"),
    find_fence=lambda group, member_id: ("ShareGroupHeartbeat", ErrorCode.FENCED_MEMBER_EPOCH),
)

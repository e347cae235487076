"""The handlers of consumer groups, for the tables of `core/dispatch.py` with the same names."""

from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, Final

from coordinator.core import timers
from coordinator.core.kinds.classic.group import ClassicGroup
from coordinator.core.kinds.consumer.consumer_group_heartbeat import consumer_group_heartbeat
from coordinator.core.kinds.consumer.group import ConsumerGroup
from coordinator.core.kinds.consumer.heartbeat import heartbeat
from coordinator.core.kinds.consumer.join_group import join_group
from coordinator.core.kinds.consumer.leave_group import leave_group
from coordinator.core.kinds.consumer.sync_group import sync_group
from coordinator.core.kinds.consumer.timers import expire_member, resolve_patterns, restart_timers
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.sync_group import SyncGroupRequest

HANDLERS: Final[Mapping[tuple[type, type], Callable[..., Any]]] = {
    **{(ConsumerGroupHeartbeatRequest, g): consumer_group_heartbeat for g in (NoneType, ClassicGroup, ConsumerGroup)},
    (HeartbeatRequest, ConsumerGroup): heartbeat,
    (JoinGroupRequest, ConsumerGroup): join_group,
    (SyncGroupRequest, ConsumerGroup): sync_group,
    (LeaveGroupRequest, ConsumerGroup): leave_group,
}

TIMERS: Final[Mapping[tuple[str, type], Callable[..., Any]]] = {
    **{(kind, ConsumerGroup): expire_member for kind in timers.MEMBER_KINDS},
    (timers.REGEX, ConsumerGroup): resolve_patterns,
}

RESTARTED: Final[Mapping[type, Callable[..., Any]]] = {ConsumerGroup: restart_timers}

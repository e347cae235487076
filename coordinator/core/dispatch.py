"""The one table of the groups' handlers: by the type of the request, or the kind of the timer, and that of the group.

Every handler of a request is a function `(group, request, env) -> Result`, and of a timer `(group, timer, env) ->
Result`. What is not in the table cannot happen.

The handlers of consumer groups are in `consumer/handlers.py`, which is imported when one of them is needed: a server
without such groups does without their modules.
"""

from collections.abc import Callable, Hashable, Mapping
from types import NoneType
from typing import Any, Final, TypeVar

from coordinator.core import failover, timers, verbs
from coordinator.core.env import Env
from coordinator.core.failover import LoseCommits, LoseMembers
from coordinator.core.kinds.classic import expiry as classic_timers
from coordinator.core.kinds.classic import heartbeat as classic_heartbeat
from coordinator.core.kinds.classic import join_group as classic_join_group
from coordinator.core.kinds.classic import leave_group as classic_leave_group
from coordinator.core.kinds.classic import sync_group as classic_sync_group
from coordinator.core.kinds.classic.group import ClassicGroup
from coordinator.core.kinds.consumer.group import ConsumerGroup
from coordinator.core.offsets.offset_commit import offset_commit
from coordinator.core.offsets.offset_delete import offset_delete
from coordinator.core.offsets.txn_offset_commit import txn_offset_commit
from coordinator.core.result import Result
from coordinator.core.verbs import Forget, Rebalance, RemoveMember, SetTarget
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.sync_group import SyncGroupRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

Handler = Callable[[Any, Any, Env], Result[Any]]
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class HandlerTable(dict[K, V]):
    """Handlers by key; the first key that is not among them adds those of consumer groups."""

    def __init__(self, name: str, handlers: Mapping[K, V]) -> None:
        """`name` is that of the table in `consumer/handlers.py` which is added."""
        super().__init__(handlers)
        self._name = name

    def __missing__(self, key: K) -> V:
        from coordinator.core.kinds.consumer import handlers

        added: Mapping[K, V] = getattr(handlers, self._name)
        self.update(added)
        return added[key]


_NONE, _CLASSIC, _CONSUMER = NoneType, ClassicGroup, ConsumerGroup


def _for_every_group(request: type, handler: Handler) -> Mapping[tuple[type, type], Handler]:
    return {(request, group): handler for group in (_NONE, _CLASSIC, _CONSUMER)}


def _unless_consumer(request: type, handler: Handler) -> Mapping[tuple[type, type], Handler]:
    return {(request, group): handler for group in (_NONE, _CLASSIC)}


HANDLERS: Final[dict[tuple[type, type], Handler]] = HandlerTable("HANDLERS", {
    **_unless_consumer(HeartbeatRequest, classic_heartbeat.heartbeat),
    **_unless_consumer(JoinGroupRequest, classic_join_group.join_group),
    **_unless_consumer(SyncGroupRequest, classic_sync_group.sync_group),
    **_unless_consumer(LeaveGroupRequest, classic_leave_group.leave_group),
    **_for_every_group(OffsetCommitRequest, offset_commit),
    **_for_every_group(TxnOffsetCommitRequest, txn_offset_commit),
    **_for_every_group(OffsetDeleteRequest, offset_delete),
    **{(verb, _NONE): verbs.refuse_without_group for verb in (RemoveMember, Rebalance, SetTarget, Forget)},
    **_for_every_group(LoseCommits, failover.lose_commits),
    (LoseMembers, _NONE): failover.lose_no_members,
    (LoseMembers, _CLASSIC): failover.lose_classic_members,
    (LoseMembers, _CONSUMER): failover.lose_consumer_members,
    (RemoveMember, _CLASSIC): verbs.remove_classic_member,
    (RemoveMember, _CONSUMER): verbs.remove_consumer_member,
    (Rebalance, _CLASSIC): verbs.rebalance_classic,
    (Rebalance, _CONSUMER): verbs.rebalance_consumer,
    (SetTarget, _CLASSIC): verbs.refuse_target,
    (SetTarget, _CONSUMER): verbs.set_target,
    (Forget, _CLASSIC): verbs.forget,
    (Forget, _CONSUMER): verbs.forget,
})  # fmt: skip

TIMERS: Final[dict[tuple[str, type], Handler]] = HandlerTable("TIMERS", {
    (timers.SESSION, _CLASSIC): classic_timers.expire_session,
    (timers.JOIN, _CLASSIC): classic_timers.expire_join_phase,
    (timers.SYNC, _CLASSIC): classic_timers.expire_pending_syncs,
})  # fmt: skip

TOO_LARGE: Final[dict[tuple[type, type], Handler]] = {
    (SyncGroupRequest, _CLASSIC): classic_sync_group.give_up_assignment,
}
"""What is done instead where the records of a request are larger than the log takes; else the request is refused."""

UNLOADED: Final[dict[type, Callable[[Any, Env, str], Result[Any]]]] = {
    _CLASSIC: failover.unload_classic,
    _CONSUMER: failover.unload_consumer,
}

RESTARTED: Final[dict[type, Callable[[Any, Env], Result[Any]]]] = HandlerTable(
    "RESTARTED", {_CLASSIC: classic_timers.restart_timers}
)

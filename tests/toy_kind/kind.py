"""The toy kind: states, one request, one timer, one record."""

from typing import Any

from msgspec.structs import replace

from coordinator.core.cleanup import forget_group
from coordinator.core.env import Env
from coordinator.core.events import Cause
from coordinator.core.group_view import MemberView
from coordinator.core.groups import group_event, report_move
from coordinator.core.kinds.kind import Description, Kind
from coordinator.core.limits import Limits
from coordinator.core.moves import LoseMembers
from coordinator.core.offsets.expiry import commit_time
from coordinator.core.result import Result, SetTimer
from coordinator.core.timers import Due
from coordinator.core.topics import Topics
from coordinator.core.verbs import BY, Forget, Rebalance, RemoveMember, SetTarget, VerbResponse
from protocol.errors import ErrorCode
from tests.toy_kind.group import STAY_MS, State, ToyGroup, ToyKey, apply_record, record, tombstones
from tests.toy_kind.toy_describe import ToyDescribeResponse, ToyDescribeResponseGroup
from tests.toy_kind.toy_visit import ToyVisitRequest, ToyVisitResponse

STAY = "stay"


def visit(group: ToyGroup | None, request: ToyVisitRequest, env: Env) -> Result[ToyGroup]:
    before = group or ToyGroup(request.group_id)
    after = before.with_guest(request.member_id)
    timer = SetTimer((STAY, request.group_id, request.member_id), env.call.now_ms + STAY_MS)
    told = replace(group_event(after, env, Cause.MEMBER_JOINED, "ToyVisit"), before=before.state.value)
    return Result(after, ToyVisitResponse(0, after.visits), (record(after),), (timer,), (told,))


def refuse(group: Any, request: ToyVisitRequest, env: Env) -> Result[Any]:
    return Result(response=ToyVisitResponse(ErrorCode.GROUP_ID_NOT_FOUND))


def leave(group: ToyGroup, env: Env, cause: Cause, by: str, *member_ids: str) -> Result[ToyGroup]:
    after = group.without_guests(*member_ids)
    told = replace(group_event(after, env, cause, by), before=group.state.value, member=member_ids[0])
    return Result(after, VerbResponse(), (record(after),), events=(told,))


def end_stay(group: ToyGroup, due: Due, env: Env) -> Result[ToyGroup]:
    return leave(group, env, Cause.SESSION_EXPIRED, "timer stay", due.key[2])


def remove(group: ToyGroup, verb: RemoveMember, env: Env) -> Result[ToyGroup]:
    return leave(group, env, verb.cause, BY, verb.member_id)


def lose_members(group: ToyGroup, verb: LoseMembers, env: Env) -> Result[ToyGroup]:
    return leave(group, env, Cause.MEMBERS_LOST, BY, *group.members)


def refuse_verb(group: ToyGroup, verb: Any, env: Env) -> Result[Any]:
    return Result(response=VerbResponse("a toy group assigns nothing"))


def restart(group: ToyGroup, env: Env) -> Result[ToyGroup]:
    at_ms = env.call.now_ms + STAY_MS
    return Result(group, effects=tuple(SetTimer((STAY, group.group_id, one), at_ms) for one in group.members))


def describe(group: Any, group_id: str, env: Env) -> ToyDescribeResponseGroup:
    if not isinstance(group, ToyGroup):
        return ToyDescribeResponseGroup(ErrorCode.GROUP_ID_NOT_FOUND, group_id)
    return ToyDescribeResponseGroup(0, group_id, group.visits, tuple(group.members))


def view(group: ToyGroup, topics: Topics) -> list[MemberView]:
    return [MemberView(guest, guest, None, "/toys", {}) for guest in group.members]


def stay_ms(group: ToyGroup, member_id: str, limits: Limits) -> int:
    return STAY_MS


def validate_commit(group: ToyGroup, request: Any, env: Env) -> ErrorCode:
    return (
        ErrorCode.NONE if not request.member_id or group.has_member(request.member_id) else ErrorCode.UNKNOWN_MEMBER_ID
    )


TOY = Kind(
    name="toy",
    cls=ToyGroup,
    counts_by="visits",
    states=State,
    settled=frozenset({State.EMPTY}),
    protocol_type=lambda group: "toys",
    handlers={
        ToyVisitRequest: visit,
        RemoveMember: remove,
        Rebalance: refuse_verb,
        SetTarget: refuse_verb,
        Forget: forget_group,
        LoseMembers: lose_members,
    },
    creates={ToyVisitRequest: visit},
    refuses={ToyVisitRequest: refuse},
    timers={STAY: end_stay},
    timer_effects={STAY: "the guest has to go home"},
    member_timers=frozenset({STAY}),
    keys={ToyKey: apply_record},
    tombstones=tombstones,
    restart=restart,
    unload=report_move,
    session_timeout_ms=stay_ms,
    expires_since=lambda group: commit_time if group.is_empty else None,
    is_subscribed=lambda group, topic: False,
    validate_commit=validate_commit,
    validate_fetch=lambda group, member_id, epoch: ErrorCode.NONE,
    validate_delete_offsets=lambda group: ErrorCode.NONE if group.is_empty else ErrorCode.NON_EMPTY_GROUP,
    description=Description("ToyDescribe", "names", ToyDescribeResponse, ToyDescribeResponseGroup, describe),
    view=view,
    find_fence=lambda group, member_id: ("ToyVisit", ErrorCode.FENCED_MEMBER_EPOCH),
)

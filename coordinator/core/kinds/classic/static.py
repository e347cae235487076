"""A static member comes back under a new member id (KIP-345): its partitions wait for it.

The client with the old id is fenced. If the group is stable and would choose the protocol that it has, nothing moves:
the new id is written into the group's record and answered with the running generation. A returning leader is told to
skip the assignment (KIP-814); before version 9, which has no words for that, it is told that its old self leads, and so
believes itself a follower.

Shown by tests/core/scripts/classic/static_*.txt and tests/conformance/stories/static_members.py.
"""

from msgspec.structs import replace

from coordinator.core.events import Cause
from coordinator.core.kinds.classic import durable
from coordinator.core.kinds.classic.events import Why, event
from coordinator.core.kinds.classic.group import ClassicGroup, Member
from coordinator.core.kinds.classic.rebalance import maybe_complete_join, prepare_rebalance, session_timer
from coordinator.core.kinds.classic.replies import join_response, refuse_parked_requests
from coordinator.core.kinds.classic.states import State
from coordinator.core.kinds.classic.voting import choose_protocol, subscribed_topics
from coordinator.core.limits import Limits
from coordinator.core.result import Call, Effect, Result
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupRequest

SKIPS_ASSIGNMENT_SINCE = 9  # KIP-814


def replace_static_member(
    group: ClassicGroup, old: Member, asking: Member, request: JoinGroupRequest, call: Call, limits: Limits
) -> Result[ClassicGroup]:
    """Put `asking`, the returning incarnation with its JoinGroup parked, in the place of `old`."""
    assert group.members, f"group {group.group_id} is {group.state} and has a static member"
    new = replace(asking, client_id=old.client_id, client_host=old.client_host, assignment=old.assignment)
    after = _rename_member(group, old, new)
    effects = (
        *refuse_parked_requests(old, ErrorCode.FENCED_INSTANCE_ID, old.member_id),
        _session(group.group_id, old, new, call.now_ms),
    )
    why = Why(Cause.STATIC_MEMBER_REPLACED, "JoinGroup", new, reason=request.reason)
    if group.state is State.PREPARING_REBALANCE:
        result = maybe_complete_join(after, call.now_ms, why)
    elif group.state is State.STABLE and choose_protocol(after) == group.protocol:
        result = _continue_generation(group, after, new, call, why)
    else:
        # While the leader is assigning it knows the old id, and nothing would be assigned to the new one.
        result = prepare_rebalance(after, call.now_ms, limits, why)
    return result.prepend(*effects)


def _continue_generation(
    group: ClassicGroup, after: ClassicGroup, new: Member, call: Call, why: Why
) -> Result[ClassicGroup]:
    """Answer with the running generation, of which nobody else needs to hear."""
    stable = after.with_member(replace(new, join_ticket=None))
    stable = stable.with_topics(subscribed_topics(stable))  # as a start reads it; Kafka keeps the join phase's
    leads = stable.leader == new.member_id
    if call.version >= SKIPS_ASSIGNMENT_SINCE:
        response = join_response(stable, new.member_id, skip=leads)
    else:
        response = join_response(stable, new.member_id, leader=group.leader)
    return Result(
        stable,
        response=response,
        records=(durable.record(stable),),
        events=(event(group, stable, call.now_ms, why),),
    )


def _rename_member(group: ClassicGroup, old: Member, new: Member) -> ClassicGroup:
    """Return the same group, in which the static member goes by its new id. If it led, it leads."""
    after = group.without_member(old).with_member(new)
    return replace(after, leader=new.member_id if group.leader == old.member_id else group.leader)


def _session(group_id: str, old: Member, new: Member, now_ms: int) -> Effect:
    """The new id's session runs, for as long as the old one's did: the new timeout counts from its next renewal."""
    return session_timer(group_id, replace(new, session_timeout_ms=old.session_timeout_ms), now_ms)

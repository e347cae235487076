"""The operator's verbs on a group: inputs of the same step as a client's requests.

A verb is a request by another road. `core/dispatch.py` gives it to the function for the type of its group, which
returns a `Result` with a `VerbResponse`; one that cannot be done says why in a sentence, and has changed nothing.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from coordinator.core.assignors.spec import NOTHING, Assignment, AssignorError
from coordinator.core.cleanup import remove_group
from coordinator.core.env import Env
from coordinator.core.events import Cause
from coordinator.core.kinds.classic.events import Why
from coordinator.core.kinds.classic.expiry import remove_and_rebalance
from coordinator.core.kinds.classic.group import ClassicGroup, Member
from coordinator.core.kinds.classic.rebalance import prepare_rebalance
from coordinator.core.kinds.classic.replies import refuse_parked_requests
from coordinator.core.kinds.classic.states import State
from coordinator.core.kinds.consumer import record_builders
from coordinator.core.kinds.consumer.group import ConsumerGroup
from coordinator.core.kinds.consumer.removal import remove_members
from coordinator.core.kinds.consumer.subscription import metadata_hash
from coordinator.core.kinds.consumer.target import check_assignment, spec_of
from coordinator.core.kinds.consumer.transition import GroupTransition
from coordinator.core.refusal import Refusal
from coordinator.core.result import Effect, Result
from protocol.errors import ErrorCode

BY = "operator"


class VerbResponse(Struct, frozen=True):
    """The response to a verb: empty, or why it was not done."""

    refusal: str = ""


class RemoveMember(Struct, frozen=True):
    """Remove a member as if its session had expired, or for another `cause`."""

    group_id: str
    member_id: str
    cause: Cause = Cause.SESSION_EXPIRED
    reason: str = ""


class Rebalance(Struct, frozen=True):
    """Rebalance the group, though nothing has changed."""

    group_id: str
    reason: str = ""


class SetTarget(Struct, frozen=True):
    """Give a consumer group this target assignment. It holds until the group's epoch is raised again."""

    group_id: str
    targets: Mapping[str, Assignment]  # by member id; a member that is not named gets nothing


class Forget(Struct, frozen=True):
    """Remove a group with its members and offsets, as if it had never been there."""

    group_id: str


Verb = RemoveMember | Rebalance | SetTarget | Forget


def refuse_without_group(group: None, verb: Verb, env: Env) -> Result[Any]:
    """There is nothing to do anything to."""
    return Result(response=VerbResponse(f"there is no group {verb.group_id!r}"))


def remove_classic_member(group: ClassicGroup, verb: RemoveMember, env: Env) -> Result[ClassicGroup]:
    """Remove a member, or a pending member id. What it waits for is answered UNKNOWN_MEMBER_ID."""
    member_id = verb.member_id
    if member_id not in group.members and member_id not in group.pending:
        return Result(response=VerbResponse(f"there is no member {member_id!r} in group {verb.group_id!r}"))
    why = Why(verb.cause, BY, group.members.get(member_id), member_id, verb.reason)
    return remove_and_rebalance(group, why, env.call.now_ms, env.limits).answering(VerbResponse())


def remove_consumer_member(group: ConsumerGroup, verb: RemoveMember, env: Env) -> Result[Any]:
    """Remove a member, whichever protocol it speaks."""
    member = group.members.get(verb.member_id)
    if member is None:
        return Result(response=VerbResponse(f"there is no member {verb.member_id!r} in group {verb.group_id!r}"))
    transition = GroupTransition(group, env, BY)
    result = remove_members(transition, {verb.member_id: member}, VerbResponse(), verb.cause, verb.reason)
    if isinstance(result, Refusal):  # the group cannot become a classic one
        assert result.message, "a refusal to downgrade says why"
        return Result(response=VerbResponse(result.message))
    return result


def rebalance_classic(group: ClassicGroup, verb: Rebalance, env: Env) -> Result[ClassicGroup]:
    """Start a rebalance: every member is told to rejoin at its next heartbeat."""
    if not group.members:
        return Result(response=VerbResponse(f"group {verb.group_id!r} has no members"))
    if group.state is State.PREPARING_REBALANCE:
        return Result(group, VerbResponse())  # that is under way already
    why = Why(Cause.REBALANCE_REQUESTED, BY, reason=verb.reason)
    return prepare_rebalance(group, env.call.now_ms, env.limits, why).answering(VerbResponse())


def rebalance_consumer(group: ConsumerGroup, verb: Rebalance, env: Env) -> Result[ConsumerGroup]:
    """Raise the group's epoch: a new target is computed at the next heartbeat of a member."""
    if not group.members:
        return Result(response=VerbResponse(f"group {verb.group_id!r} has no members"))
    transition = GroupTransition(group, env, BY)
    _raise_epoch(transition)
    transition.tell(Cause.REBALANCE_REQUESTED, reason=verb.reason)
    return transition.result(VerbResponse())


def set_target(group: ConsumerGroup, verb: SetTarget, env: Env) -> Result[ConsumerGroup]:
    """Write the target assignment as if an assignor had computed it."""
    try:
        targets = check_assignment(spec_of(group, env.topics), verb.targets)
    except AssignorError as error:
        return Result(response=VerbResponse(f"invalid target: {error}"))
    transition = GroupTransition(group, env, BY)
    _raise_epoch(transition)
    for member_id in group.members:
        transition.write(record_builders.target(group.group_id, member_id, targets.get(member_id, NOTHING)))
    transition.write(record_builders.target_epoch(group.group_id, transition.group.epoch, env.call.now_ms))
    transition.tell(Cause.ASSIGNMENT_FORCED)
    return transition.result(VerbResponse())


def refuse_target(group: ClassicGroup, verb: SetTarget, env: Env) -> Result[ClassicGroup]:
    """Refuse to force the target of a classic group: there the leader assigns, not the coordinator."""
    return Result(
        response=VerbResponse(f"group {verb.group_id!r} is a classic group: its leader computes the assignment")
    )


def forget(group: ClassicGroup | ConsumerGroup, verb: Forget, env: Env) -> Result[Any]:
    """Remove the group. Requests of its members that wait are answered UNKNOWN_MEMBER_ID."""
    result = remove_group(group, list(env.offsets.keys(group.group_id)), env, Cause.GROUP_FORGOTTEN, BY)
    waiting: list[Effect] = []
    for member in group.members.values():
        if isinstance(member, Member):
            waiting += refuse_parked_requests(member, ErrorCode.UNKNOWN_MEMBER_ID, "")
    return result.preceded_by(*waiting).answering(VerbResponse())


def _raise_epoch(transition: GroupTransition) -> None:
    group = transition.group
    transition.write(record_builders.epoch(group.group_id, group.epoch + 1, metadata_hash(group, transition.topics)))

"""What a classic group says about its committed offsets: who may commit, when they run out, what is deleted."""

from coordinator.core import timers
from coordinator.core.env import Env
from coordinator.core.kinds.classic.group import ClassicGroup
from coordinator.core.kinds.classic.states import COMMIT, RENEWED_BY_COMMIT, State
from coordinator.core.kinds.classic.validation import validate_member
from coordinator.core.kinds.classic.voting import CONSUMER
from coordinator.core.kinds.kind import Since
from coordinator.core.offsets.expiry import commit_time
from coordinator.core.result import Effect, SetTimer
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest


def validate_commit(group: ClassicGroup, request: OffsetCommitRequest | TxnOffsetCommitRequest, env: Env) -> ErrorCode:
    """Return why the group refuses a commit, NONE if it does not.

    A commit without a generation is one of a consumer that manages its partitions itself, or an operator's: it is
    taken as long as the group has no members. Old versions of TxnOffsetCommit know no members, and no state stops it.
    """
    is_transactional = type(request) is TxnOffsetCommitRequest
    generation = request.generation_id if is_transactional else request.generation_id_or_member_epoch  # type: ignore[union-attr]  # the type says which
    member_id, instance_id = request.member_id, request.group_instance_id
    if generation < 0:
        if group.is_empty:
            return ErrorCode.NONE
        if not member_id and instance_id is None:
            return ErrorCode.NONE if is_transactional else ErrorCode.UNKNOWN_MEMBER_ID
    if error := validate_member(group, member_id, instance_id):
        return error
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.NONE if is_transactional else COMMIT[group.state]


def validate_fetch(group: ClassicGroup, member_id: str | None, epoch: int) -> ErrorCode:
    """Return NONE: every client may read the group's offsets."""
    return ErrorCode.NONE


def validate_delete(group: ClassicGroup) -> ErrorCode:
    """Return why no offset may be deleted, NONE if some may.

    If the members use another protocol than that of consumers, it is not known which topics they use.
    """
    is_known = group.is_empty or group.protocol_type == CONSUMER
    return ErrorCode.NONE if is_known else ErrorCode.NON_EMPTY_GROUP


def renew_by_commit(group: ClassicGroup, member_id: str, now_ms: int) -> tuple[Effect, ...]:
    """Renew the session of the member: a commit counts as a heartbeat."""
    if group.state not in RENEWED_BY_COMMIT:
        return ()
    at_ms = now_ms + group.members[member_id].session_timeout_ms
    return (SetTimer(timers.session(group.group_id, member_id), at_ms),)


def expires_since(group: ClassicGroup) -> Since | None:
    """Return from when on the offsets' time runs; None if it does not.

    the group                               its offsets run out, `offsets.retention.minutes` after
    never had members                       each was committed
    has lost its members                    it lost them, all together, however lately they were committed
    has consumers as members, and is stable each was committed, of topics that nobody subscribes to; others never
    has other members, or is rebalancing    never
    """
    if group.protocol_type is None:
        return commit_time
    if group.is_empty:
        since_ms = group.state_since_ms
        return commit_time if since_ms == -1 else lambda value: since_ms
    if group.protocol_type == CONSUMER and group.state is State.STABLE and group.topics is not None:
        return commit_time
    return None

"""ShareAcknowledge: what a member of a share group made of the records that it has acquired (KIP-932).

Shown by tests/dataplane/test_share_{fetch, model}.py and tests/conformance/stories/share_acknowledge.py.
"""

from typing import Final

from msgspec.structs import replace

from coordinator.core.decision import Decision, Done, InSteps, Outcome, Steps
from coordinator.core.share_partitions.sessions import FINAL_EPOCH, ShareSession
from coordinator.dataplane.brokers import LEADER_EPOCH
from coordinator.dataplane.share.acknowledging import Acknowledgement, acknowledge_all, acknowledgements_of
from coordinator.dataplane.share.changes import close_session, limits_of
from coordinator.dataplane.share.members import find_leader, find_member
from coordinator.dataplane.state import Env, State
from protocol.errors import ErrorCode
from protocol.messages.share_acknowledge import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeResponseLeader,
    ShareAcknowledgeResponseNodeEndpoint,
    ShareAcknowledgeResponsePartition,
    ShareAcknowledgeResponseTopic,
)

LOCK_TIMEOUT_SINCE: Final = 2


def share_acknowledge(state: State, request: ShareAcknowledgeRequest, env: Env) -> Decision:
    """Acknowledge, in steps. Epoch -1 closes the session, and releases what its member has not acknowledged."""
    member = find_member(request.group_id, request.member_id, env.where.node_id)
    if isinstance(member, ErrorCode):
        return Done(ShareAcknowledgeResponse(error_code=member))
    session = state.share.sessions.continue_acknowledging(member, request.share_session_epoch)
    if isinstance(session, ErrorCode):
        return Done(ShareAcknowledgeResponse(error_code=session))
    return InSteps(_acknowledge_in_steps(state, session, request, env))


def _acknowledge_in_steps(
    state: State, session: ShareSession, request: ShareAcknowledgeRequest, env: Env
) -> Steps[Outcome]:
    asked = acknowledgements_of(session, request, "ShareAcknowledge")
    done = yield from acknowledge_all(state, asked, env)
    if request.share_session_epoch == FINAL_EPOCH:
        yield from close_session(state, session, env.call.now_ms)
    lock_ms = limits_of(state, session.key.group_id).lock_duration_ms if env.call.version >= LOCK_TIMEOUT_SINCE else 0
    return Done(_respond(state, done, lock_ms, env))


def _respond(state: State, done: list[Acknowledgement], lock_ms: int, env: Env) -> ShareAcknowledgeResponse:
    topics: dict[bytes, list[ShareAcknowledgeResponsePartition]] = {}
    endpoints: dict[int, ShareAcknowledgeResponseNodeEndpoint] = {}
    for one in done:
        partition = ShareAcknowledgeResponsePartition(one.key.partition, one.error, one.message)
        leader = find_leader(state, one.key, env) if one.error == ErrorCode.NOT_LEADER_OR_FOLLOWER else None
        if leader is not None:
            partition = replace(partition, current_leader=ShareAcknowledgeResponseLeader(leader.node_id, LEADER_EPOCH))
            endpoint = ShareAcknowledgeResponseNodeEndpoint(leader.node_id, leader.host, leader.port, leader.rack)
            endpoints[leader.node_id] = endpoint
        topics.setdefault(one.key.topic_id, []).append(partition)
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=lock_ms,
        responses=tuple([ShareAcknowledgeResponseTopic(topic_id, tuple(some)) for topic_id, some in topics.items()]),
        node_endpoints=tuple(endpoints.values()),
    )

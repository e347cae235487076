"""ShareFetch: acknowledge records, and acquire others, at once if there are enough, else when there are (KIP-932).

    session ──► acknowledgements, in steps ──► share partitions, opened in steps ──► look ──► enough? take : wait

It waits as a Fetch does (`long_polls.py`), for records that are appended and for those that become available again.

Shown by tests/dataplane/test_share_{fetch, model}.py and tests/conformance/stories/share_fetch.py.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from coordinator.core.acls.names import Operation, Resource
from coordinator.core.decision import PARKED, Decision, Done, InSteps, Outcome, Steps
from coordinator.core.result import Call
from coordinator.core.share_partitions.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    SessionKey,
    ShareSession,
)
from coordinator.core.share_state.values import StateKey
from coordinator.dataplane.brokers import LEADER_EPOCH, Broker
from coordinator.dataplane.fetch import FEW
from coordinator.dataplane.long_polls import Waiting, deadline_ms
from coordinator.dataplane.share.acknowledging import Acknowledgement, acknowledge_all, acknowledgements_of
from coordinator.dataplane.share.changes import close_session, limits_of
from coordinator.dataplane.share.fetching import Look, ShareFetch, Taken, is_enough, look, take
from coordinator.dataplane.share.members import find_leader, find_member
from coordinator.dataplane.share.opening import open_partitions
from coordinator.dataplane.state import Env, State
from protocol.errors import ErrorCode
from protocol.messages.share_fetch import (
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchResponseAcquiredRecords,
    ShareFetchResponseLeader,
    ShareFetchResponseNodeEndpoint,
    ShareFetchResponsePartition,
    ShareFetchResponseTopic,
)

WHOLE_BATCHES, EXACTLY = 0, 1  # the acquire modes (KIP-1206)
FAILED: Final = ShareFetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
_OUTDATED: Final = ShareFetchResponse(error_code=ErrorCode.INVALID_SHARE_SESSION_EPOCH)


class SharePoll(Struct, frozen=True, gc=False):
    """A ShareFetch that waits, with all that its response needs."""

    asked: ShareFetch
    env: Env
    session: ShareSession | None = None  # as the request has left it; None: there was no room for one
    tells_all: bool = False  # whether the response names partitions without news
    acknowledged: Sequence[Acknowledgement] = ()
    error: ErrorCode = ErrorCode.NONE  # with which the wait ends in any case


def share_fetch(state: State, request: ShareFetchRequest, env: Env) -> Decision:
    """Respond, or wait under `call.ticket` for as long as the request says."""
    member = find_member(request.group_id, request.member_id, env.where.node_id)
    error = member if isinstance(member, ErrorCode) else _refuse(request)
    if isinstance(member, ErrorCode) or error:
        return Done(ShareFetchResponse(error_code=error))
    epoch = request.share_session_epoch
    session = _find_session(state, member, request, env)
    if session == ErrorCode.SHARE_SESSION_LIMIT_REACHED:
        return _wait_for_a_session(state, member, request, env)
    if isinstance(session, ErrorCode):
        return Done(ShareFetchResponse(error_code=session))
    partitions = () if epoch == FINAL_EPOCH or request.is_renew_ack else tuple(session.partitions)
    if partitions and request.share_acquire_mode not in (WHOLE_BATCHES, EXACTLY):
        return Done(ShareFetchResponse(error_code=ErrorCode.INVALID_REQUEST))  # Kafka: a failure of its own
    keys = tuple([StateKey(member.group_id, topic_id, index) for topic_id, index in partitions])
    asked = _resolve_request(state, member, keys, request, env.call, session.number)
    poll = SharePoll(asked, env, session, tells_all=epoch == INITIAL_EPOCH)
    is_simple = 0 < len(keys) <= FEW and not _has_acknowledgements(request) and env.call.rights is None
    if is_simple and all(key in state.share.served for key in keys):
        return _look_or_wait(state, poll, request)
    return InSteps(_fetch_in_steps(state, session, poll, request))


def _refuse(request: ShareFetchRequest) -> ErrorCode:
    """Return why a request is refused whatever the session says."""
    fetches = request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms
    return ErrorCode.INVALID_REQUEST if request.is_renew_ack and fetches else ErrorCode.NONE


def _find_session(state: State, member: SessionKey, request: ShareFetchRequest, env: Env) -> ShareSession | ErrorCode:
    """Open the session of the request, or take it as the next one of its session. It is closed in the end."""
    epoch, sessions = request.share_session_epoch, state.share.sessions
    if epoch == FINAL_EPOCH:
        return sessions.find(member) or ErrorCode.SHARE_SESSION_NOT_FOUND
    named = [(topic.topic_id, one.partition_index) for topic in request.topics for one in topic.partitions]
    if epoch == INITIAL_EPOCH:
        return state.share.open_session(member, env.call.connection, named, _has_acknowledgements(request))
    forgotten = [(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions]
    return sessions.continue_fetching(member, epoch, named, forgotten)


def _has_acknowledgements(request: ShareFetchRequest) -> bool:
    return any(one.acknowledgement_batches for topic in request.topics for one in topic.partitions)


def _resolve_request(
    state: State,
    member: SessionKey,
    keys: tuple[StateKey, ...],
    request: ShareFetchRequest,
    call: Call,
    session: int = 0,
) -> ShareFetch:
    bytes_max = state.find_bytes_max(call)
    return ShareFetch(
        member.group_id,
        member.member_id,
        keys,
        # A response has whole batches: it may be full with less than the bound.
        min_bytes=min(request.min_bytes, request.max_bytes, bytes_max // 2),
        max_bytes=min(request.max_bytes, bytes_max),
        max_records=request.max_records,
        batch_size=request.batch_size,
        is_exact=request.share_acquire_mode == EXACTLY,
        session=session,
    )


def _wait_for_a_session(state: State, member: SessionKey, request: ShareFetchRequest, env: Env) -> Outcome:
    """Refuse a session for which there is no room, after a delay: the client would ask again at once."""
    poll = SharePoll(
        _resolve_request(state, member, (), request, env.call), env, error=ErrorCode.SHARE_SESSION_LIMIT_REACHED
    )
    if request.max_wait_ms <= 0:
        return Done(ShareFetchResponse(error_code=poll.error))
    return _park(state, poll, request, 1)


def _fetch_in_steps(state: State, session: ShareSession, poll: SharePoll, request: ShareFetchRequest) -> Steps[Outcome]:
    env, is_last = poll.env, request.share_session_epoch == FINAL_EPOCH
    acknowledged: Sequence[Acknowledgement] = ()
    if _has_acknowledgements(request):
        asked = acknowledgements_of(session, request, "ShareFetch")
        acknowledged = yield from acknowledge_all(state, asked, env)
    if is_last:
        yield from close_session(state, session, env.call.now_ms)
    refused = dict(_find_refusals(state, poll.asked.keys, env))
    existing = [key for key in poll.asked.keys if key not in refused]
    refused |= yield from open_partitions(state, existing, env.call.now_ms)
    keys = tuple([key for key in existing if key not in refused])
    poll = replace(poll, asked=replace(poll.asked, keys=keys, refused=refused), acknowledged=acknowledged)
    if not keys:
        return Done(_respond(state, poll, ()))
    return Done(_OUTDATED) if _is_outdated(state, poll) else _look_or_wait(state, poll, request)


def _find_refusals(state: State, keys: Iterable[StateKey], env: Env) -> Iterable[tuple[StateKey, ErrorCode]]:
    """Yield the partitions that do not exist, or that the client may not read."""
    for key in keys:
        name = state.name_of(key.topic_id)
        if name is None:
            yield key, ErrorCode.UNKNOWN_TOPIC_ID
        elif not env.call.may(Operation.READ, Resource.TOPIC, name):
            yield key, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif not state.has(name, key.partition):
            yield key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _look_or_wait(state: State, poll: SharePoll, request: ShareFetchRequest) -> Outcome:
    asked = poll.asked
    if asked.max_records <= 0 or asked.max_bytes <= 0:
        return Done(_respond(state, poll, ()))
    found = look(state, asked)
    if request.max_wait_ms <= 0 or is_enough(asked, found):
        return Done(_respond(state, poll, take(state, asked, found, poll.env.call.now_ms)))
    return _park(state, poll, request, asked.min_bytes - _size(found))


def _size(found: Iterable[Look]) -> int:
    return sum(len(one.records) for one in found)


def _park(state: State, poll: SharePoll, request: ShareFetchRequest, missing: int) -> Outcome:
    names = [(state.name_of(key.topic_id), key.partition) for key in poll.asked.keys]
    partitions = tuple([(name, index) for name, index in names if name is not None])
    due_ms = deadline_ms(state.real_ms(), request.max_wait_ms)
    waiting = Waiting(poll.env.call.ticket, due_ms, missing, request, poll, partitions)
    waiting.share_partitions = poll.asked.keys
    state.polls.park(waiting)
    return PARKED


def resume(state: State, waiting: Waiting, now_ms: int) -> ShareFetchResponse | None:
    """Return the answer to a fetch whose partitions have changed, or None when there is still not enough."""
    poll: SharePoll = waiting.fetch
    if _is_outdated(state, poll):
        return _OUTDATED
    found = look(state, poll.asked)
    if not is_enough(poll.asked, found):
        waiting.missing = poll.asked.min_bytes - _size(found)
        return None
    return _respond(state, poll, take(state, poll.asked, found, now_ms))


def overdue(state: State, waiting: Waiting, now_ms: int) -> ShareFetchResponse:
    """Return the answer to a fetch that has waited long enough: whatever there is."""
    poll: SharePoll = waiting.fetch
    if poll.error:
        return ShareFetchResponse(error_code=poll.error)
    if _is_outdated(state, poll):
        return _OUTDATED
    return _respond(state, poll, take(state, poll.asked, look(state, poll.asked), now_ms))


def _is_outdated(state: State, poll: SharePoll) -> bool:
    """Return whether the session has been closed, or another connection has gone on with it, since the fetch came."""
    if poll.session is None:
        return False
    current = state.share.sessions.find(poll.session.key)
    return current is None or (current.number, current.epoch) != (poll.session.number, poll.session.epoch)


def _respond(state: State, poll: SharePoll, taken: Iterable[Taken]) -> ShareFetchResponse:
    asked, session = poll.asked, None if poll.tells_all else poll.session
    results: dict[StateKey, ShareFetchResponsePartition] = {}
    for one in (*[Taken(key, error) for key, error in asked.refused.items()], *taken):
        is_told = session is None or session.note_answer(
            (one.key.topic_id, one.key.partition), has_records=bool(one.records), has_error=bool(one.error)
        )
        if is_told:
            results[one.key] = _partition(one)
        if one.records and (name := state.name_of(one.key.topic_id)) is not None:
            state.given_bytes += len(one.records)
            state.traffic.count_out(name, one.records)
    for told in poll.acknowledged:
        partition = results.get(told.key) or ShareFetchResponsePartition(told.key.partition, records=b"")
        results[told.key] = replace(
            partition, acknowledge_error_code=told.error, acknowledge_error_message=told.message
        )
    leaders = _find_leaders(state, poll, results)
    topics: dict[bytes, list[ShareFetchResponsePartition]] = {}
    for key, partition in results.items():
        leader = leaders.get(key)
        if leader is not None:
            partition = replace(partition, current_leader=ShareFetchResponseLeader(leader.node_id, LEADER_EPOCH))
        topics.setdefault(key.topic_id, []).append(partition)
    endpoints = {one.node_id: one for one in leaders.values()}
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=limits_of(state, asked.group_id).lock_duration_ms,
        responses=tuple([ShareFetchResponseTopic(topic_id, tuple(some)) for topic_id, some in topics.items()]),
        node_endpoints=tuple(
            [ShareFetchResponseNodeEndpoint(one.node_id, one.host, one.port, one.rack) for one in endpoints.values()]
        ),
    )


def _partition(taken: Taken) -> ShareFetchResponsePartition:
    return ShareFetchResponsePartition(
        taken.key.partition,
        taken.error,
        records=taken.records,
        acquired_records=tuple(
            [
                ShareFetchResponseAcquiredRecords(run.first_offset, run.last_offset, run.delivery_count)
                for run in taken.acquired
            ]
        ),
    )


def _find_leaders(
    state: State, poll: SharePoll, results: Mapping[StateKey, ShareFetchResponsePartition]
) -> dict[StateKey, Broker]:
    """Return whom the client is to ask instead, of the partitions that could not be read here."""
    found: dict[StateKey, Broker] = {}
    for key, one in results.items():
        leader = find_leader(state, key, poll.env) if one.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER else None
        if leader is not None:
            found[key] = leader
    return found

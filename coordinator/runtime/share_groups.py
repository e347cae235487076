"""What share groups ask of the share coordinator, and what becomes of the answers.

    group decides ──► effect ──► share coordinator, for each partition ──► append ──► input of the group

The states are in their log before the group's records say that they are there, and the group's records say that they
are going before they go: whatever a crash leaves, nobody waits for a state that will never be.
"""

from typing import Any, Final

from msgspec.structs import replace

from coordinator.core.decision import InSteps, Steps, respond_in_steps
from coordinator.core.pace import Pace
from coordinator.core.result import (
    BeginShareStates,
    Call,
    EndShareStates,
    NoteBegunStates,
    NoteEndedStates,
    NoteFailedStates,
)
from coordinator.core.share_state.machine import NO_ROOM
from coordinator.core.share_state.values import FIRST_EPOCH, StateKey, StateSummary
from coordinator.core.verbs import Forget
from coordinator.runtime.engine import Engine
from coordinator.runtime.partition import Partition
from coordinator.runtime.share_states import NOT_SERVED
from protocol.errors import ErrorCode
from protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsResponse
from protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)

Codes = dict[StateKey, ErrorCode]
_STATE_UNITS: Final = 5  # that it takes to begin a state
_MESSAGES: Final = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is loading and hence can't process requests.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.FENCED_STATE_EPOCH: "The share coordinator rejected the request because the share-group state epoch did"
    " not match.",
    ErrorCode.INVALID_REQUEST: "The share coordinator found the request invalid.",
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty.",
    NO_ROOM.error: NO_ROOM.message,
    ErrorCode.GROUP_ID_NOT_FOUND: "The group, or its offsets of the topic, have been deleted meanwhile.",
}


def perform(engine: Engine, partition: Partition, effect: BeginShareStates | EndShareStates, response: Any) -> Any:
    """Do what a group asks of the share coordinator. Returns the response of the request, with what came of it; that of
    an administrator, who may name very many partitions, is decided in steps (`group_requests.share_group_offsets`)."""
    if isinstance(effect, EndShareStates):
        if effect.forgets:
            engine.share_states.note_forgetting(effect.group_id)
            engine.do_in_steps(_forget_in_steps(engine, partition, effect))
            return response
        return InSteps(respond_in_steps(_end_in_steps(engine, partition, effect)))
    if effect.response is not None:
        return InSteps(respond_in_steps(_answer_in_steps(engine, partition, effect)))
    engine.do_in_steps(_begin_in_steps(engine, partition, effect))  # nobody waits for it
    return response


def _answer_in_steps(engine: Engine, partition: Partition, effect: BeginShareStates) -> Steps[Any]:
    failed = yield from _begin_all(engine, partition, effect)
    if partition.is_loaded:
        _conclude(engine, partition, effect, failed)
    else:
        failed = yield from _fail_all(effect)
    return (yield from _with_errors(effect, failed))


def _begin_in_steps(engine: Engine, partition: Partition, effect: BeginShareStates) -> Steps[None]:
    failed = yield from _begin_all(engine, partition, effect)
    if partition.is_loaded:  # else the next heartbeat asks again
        _conclude(engine, partition, effect, failed)


def _begin_all(engine: Engine, partition: Partition, effect: BeginShareStates) -> Steps[Codes]:
    """Begin the states. Returns the errors: GROUP_ID_NOT_FOUND if the group, or its offsets of the topic, have been
    deleted between two steps."""
    pace, failed = Pace(), Codes()
    for topic_id, offsets in effect.offsets.items():
        for index, offset in offsets.items():
            if pace.is_due(_STATE_UNITS):
                yield
            key, code = StateKey(effect.group_id, topic_id, index), ErrorCode.GROUP_ID_NOT_FOUND
            if _has_states(partition.shard.groups.get(effect.group_id), topic_id):
                code = _begin_one(engine, effect, key, offset)
            if code:
                failed[key] = code
    return failed


def _has_states(group: Any, topic_id: bytes) -> bool:
    """Return whether a group has states of a topic, or is about to have some: they are not being deleted."""
    return topic_id in getattr(group, "initializing", ()) or topic_id in getattr(group, "initialized", ())


def _fail_all(effect: BeginShareStates) -> Steps[Codes]:
    """Return the errors of states whose group has moved to another coordinator meanwhile."""
    pace, failed = Pace(), Codes()
    for topic_id, offsets in effect.offsets.items():
        for index in offsets:
            if pace.is_due():
                yield
            failed[StateKey(effect.group_id, topic_id, index)] = ErrorCode.NOT_COORDINATOR
    return failed


def _conclude(engine: Engine, partition: Partition, effect: BeginShareStates, failed: Codes) -> None:
    """Tell the group what has come of its question."""
    if failed and effect.response is not None:
        return  # the administrator hears of it
    later = [key for key, code in failed.items() if code in NOT_SERVED]
    if failed and len(later) == len(failed):
        name = (effect.group_id, frozenset(effect.offsets))  # heartbeats ask again while the states are being loaded
        engine.share_states.call_when_served(later[0], lambda now_ms: _retry(engine, partition, effect, now_ms), name)
        return
    codes: dict[bytes, dict[int, ErrorCode]] = {}
    for key, code in failed.items():
        codes.setdefault(key.topic_id, {})[key.partition] = code
    begun = {
        topic_id: found
        for topic_id, offsets in effect.offsets.items()
        if (found := tuple([index for index in offsets if index not in codes.get(topic_id, ())]))
    }
    not_begun = {  # what there is no room for is asked for again after a while, and not by each heartbeat
        topic_id: found
        for topic_id, of_topic in codes.items()
        if (found := tuple([index for index, code in of_topic.items() if code != NO_ROOM.error]))
    }
    if begun:
        engine.append()
        _tell(engine, partition, NoteBegunStates(effect.group_id, begun), effect.at_ms)
    if not_begun:
        _tell(engine, partition, NoteFailedStates(effect.group_id, not_begun), effect.at_ms)


def _begin_one(engine: Engine, effect: BeginShareStates, key: StateKey, offset: int) -> ErrorCode:
    """Begin a state. One that a group's join asks for and that is there stays as it is: the record that says so was
    lost in a power cut, and members may have gone on meanwhile."""
    if effect.response is None:
        summary = engine.share_states.summary(key)
        if isinstance(summary, StateSummary) and summary.state_epoch > FIRST_EPOCH:
            return ErrorCode.NONE
    return engine.share_states.initialize(key, effect.state_epoch, offset, effect.at_ms)


def _retry(engine: Engine, partition: Partition, effect: BeginShareStates, now_ms: int) -> None:
    if partition.is_loaded:  # else the next heartbeat asks again
        engine.do_in_steps(_begin_in_steps(engine, partition, replace(effect, at_ms=now_ms)))


def _end_in_steps(engine: Engine, partition: Partition, effect: EndShareStates) -> Steps[Any]:
    engine.append()
    failed: dict[bytes, ErrorCode] = {}
    for topic_id, partitions in effect.topics.items():
        if code := (yield from _end_topic(engine, partition, effect, topic_id, partitions)):
            failed[topic_id] = code
    ended = frozenset(effect.topics) - failed.keys()
    if ended and partition.is_loaded:
        _tell(engine, partition, NoteEndedStates(effect.group_id, ended), effect.at_ms)
    if effect.response is None:
        return next(iter(failed.values()), ErrorCode.NONE)
    topics = engine.world.ledger.catalog.topics
    entries = []
    for topic_id in effect.topics:
        topic, code = topics.by_id(topic_id), failed.get(topic_id, ErrorCode.NONE)
        name = "" if topic is None else topic.name
        message = _MESSAGES.get(code) if code else None
        entries.append(DeleteShareGroupOffsetsResponseTopic(name, topic_id, code, message))
    response: DeleteShareGroupOffsetsResponse = effect.response
    return replace(response, responses=(*response.responses, *entries))


def _forget_in_steps(engine: Engine, partition: Partition, effect: EndShareStates) -> Steps[None]:
    """End the states of a group, and then forget the group; again, if a member has had some begun meanwhile."""
    code = yield from _end_in_steps(engine, partition, effect)
    if code not in (ErrorCode.NONE, ErrorCode.NON_EMPTY_GROUP):
        engine.share_states.note_forgetting(effect.group_id, code)
        return
    engine.share_states.end_forgetting(effect.group_id)
    _tell(engine, partition, Forget(effect.group_id), effect.at_ms)


def _end_topic(
    engine: Engine, partition: Partition, effect: EndShareStates, topic_id: bytes, indexes: tuple[int, ...]
) -> Steps[ErrorCode]:
    """End the states of a topic, but those that the group has begun anew meanwhile: for a member that has joined, or
    for an administrator who has altered their offsets. Returns the last error."""
    pace, last = Pace(), ErrorCode.NONE
    seen: Any = None
    begun: frozenset[int] = frozenset()
    for index in indexes:
        if pace.is_due(_STATE_UNITS):
            yield
        if not partition.is_loaded:
            return ErrorCode.NOT_COORDINATOR
        if engine.world.ledger.catalog.topics.by_id(topic_id) is None:
            return ErrorCode.NONE  # its states have gone with it
        group = partition.shard.groups.get(effect.group_id)
        if group is not seen:
            seen, begun = group, _find_begun(group, topic_id)
        if index in begun:
            last = ErrorCode.NON_EMPTY_GROUP if getattr(group, "members", ()) else last
        elif code := engine.share_states.delete(StateKey(effect.group_id, topic_id, index), effect.at_ms):
            last = code
    return last


def _find_begun(group: Any, topic_id: bytes) -> frozenset[int]:
    """Return the partitions of a topic of which a group has states, or is about to have some."""
    kept = (getattr(group, "initializing", {}), getattr(group, "initialized", {}))
    return frozenset([index for topics in kept if topic_id in topics for index in topics[topic_id].partitions])


def _tell(engine: Engine, partition: Partition, told: Any, now_ms: int) -> None:
    call = Call(0, now_ms, 0, None, "", _no_id)
    engine.take(partition, partition.shard.handle(told, call), told.group_id)


def _no_id() -> str:
    raise AssertionError("what the share coordinator tells needs no id")


def _with_errors(effect: BeginShareStates, failed: Codes) -> Steps[AlterShareGroupOffsetsResponse]:
    """Return the administrator's response with the errors of the share coordinator."""
    response: AlterShareGroupOffsetsResponse = effect.response
    if not failed:
        return response
    topics, pace = [], Pace()
    for topic in response.responses:
        partitions = []
        for one in topic.partitions:
            if pace.is_due():
                yield
            code = failed.get(StateKey(effect.group_id, topic.topic_id, one.partition_index))
            if code:
                one = replace(one, error_code=code, error_message=_MESSAGES.get(code))
            partitions.append(one)
        topics.append(replace(topic, partitions=tuple(partitions)))
    return replace(response, responses=tuple(topics))

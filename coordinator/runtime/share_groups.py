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
from coordinator.core.share_state.values import FIRST_EPOCH, NO_OFFSET, StateKey, StateSummary
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
}


def perform(engine: Engine, partition: Partition, effect: BeginShareStates | EndShareStates, response: Any) -> Any:
    """Do what a group asks of the share coordinator. Returns the response of the request, with what came of it; that of
    an administrator, who may name very many partitions, is decided in steps (`group_requests.share_group_offsets`)."""
    if isinstance(effect, EndShareStates):
        return _end(engine, partition, effect)
    if effect.response is not None:
        return InSteps(respond_in_steps(_answer_in_steps(engine, partition, effect)))
    engine.do_in_steps(_begin_in_steps(engine, partition, effect))  # nobody waits for it
    return response


def _answer_in_steps(engine: Engine, partition: Partition, effect: BeginShareStates) -> Steps[Any]:
    codes = yield from _begin_all(engine, effect)
    if partition.is_loaded:
        failed = _conclude(engine, partition, effect, codes)
    else:
        failed = dict.fromkeys(codes, ErrorCode.NOT_COORDINATOR)
    return _with_errors(effect.response, failed)


def _begin_in_steps(engine: Engine, partition: Partition, effect: BeginShareStates) -> Steps[None]:
    codes = yield from _begin_all(engine, effect)
    if partition.is_loaded:  # else the next heartbeat asks again
        _conclude(engine, partition, effect, codes)


def _begin_all(engine: Engine, effect: BeginShareStates) -> Steps[Codes]:
    pace, codes = Pace(), Codes()
    for key, offset in effect.offsets.items():
        if pace.is_due(_STATE_UNITS):
            yield
        codes[key] = _begin_one(engine, effect, key, offset)
    return codes


def _conclude(engine: Engine, partition: Partition, effect: BeginShareStates, codes: Codes) -> Codes:
    """Tell the group what has come of its question. Returns the errors."""
    states = engine.share_states
    failed = {key: code for key, code in codes.items() if code}
    if not failed:
        engine.append()
        _tell(engine, partition, NoteBegunStates(effect.group_id, _by_topic(codes)), effect.at_ms)
    elif effect.response is None:
        later = [key for key, code in failed.items() if code in NOT_SERVED]
        if len(later) == len(failed):
            states.call_when_served(later[0], lambda now_ms: _retry(engine, partition, effect, now_ms))
        else:
            _tell(engine, partition, NoteFailedStates(effect.group_id, _by_topic(codes)), effect.at_ms)
    return failed


def _begin_one(engine: Engine, effect: BeginShareStates, key: StateKey, offset: int) -> ErrorCode:
    """Begin a state. One that a group's join asks for and that is there stays as it is: the record that says so was
    lost in a power cut, and members may have gone on meanwhile."""
    if offset == NO_OFFSET:
        summary = engine.share_states.summary(key)
        if isinstance(summary, StateSummary) and summary.state_epoch > FIRST_EPOCH:
            return ErrorCode.NONE
    return engine.share_states.initialize(key, effect.state_epoch, offset, effect.at_ms)


def _retry(engine: Engine, partition: Partition, effect: BeginShareStates, now_ms: int) -> None:
    if partition.is_loaded:  # else the next heartbeat asks again
        engine.do_in_steps(_begin_in_steps(engine, partition, replace(effect, at_ms=now_ms)))


def _end(engine: Engine, partition: Partition, effect: EndShareStates) -> Any:
    engine.append()
    codes = {key: engine.share_states.delete(key, effect.at_ms) for key in effect.keys}
    failed = {key.topic_id: code for key, code in codes.items() if code}
    ended = frozenset(key.topic_id for key in codes) - failed.keys()
    if ended:
        _tell(engine, partition, NoteEndedStates(effect.group_id, ended), effect.at_ms)
    if effect.response is None:
        return next(iter(failed.values()), ErrorCode.NONE)
    topics = engine.world.ledger.catalog.topics
    entries = []
    for topic_id in dict.fromkeys(key.topic_id for key in effect.keys):
        topic, code = topics.by_id(topic_id), failed.get(topic_id, ErrorCode.NONE)
        name = "" if topic is None else topic.name
        message = _MESSAGES.get(code) if code else None
        entries.append(DeleteShareGroupOffsetsResponseTopic(name, topic_id, code, message))
    response: DeleteShareGroupOffsetsResponse = effect.response
    return replace(response, responses=(*response.responses, *entries))


def _tell(engine: Engine, partition: Partition, told: Any, now_ms: int) -> None:
    call = Call(0, now_ms, 0, None, "", _no_id)
    engine.take(partition, partition.shard.handle(told, call), told.group_id)


def _no_id() -> str:
    raise AssertionError("what the share coordinator tells needs no id")


def _by_topic(codes: Codes) -> dict[bytes, tuple[int, ...]]:
    topics: dict[bytes, list[int]] = {}
    for key in codes:
        topics.setdefault(key.topic_id, []).append(key.partition)
    return {topic_id: tuple(partitions) for topic_id, partitions in topics.items()}


def _with_errors(response: AlterShareGroupOffsetsResponse, failed: Codes) -> AlterShareGroupOffsetsResponse:
    """Return the response with the errors of the share coordinator."""
    if not failed:
        return response
    codes = {(key.topic_id, key.partition): code for key, code in failed.items()}
    topics = []
    for topic in response.responses:
        partitions = [
            one
            if one.error_code or not (code := codes.get((topic.topic_id, one.partition_index)))
            else replace(one, error_code=code, error_message=_MESSAGES.get(code))
            for one in topic.partitions
        ]
        topics.append(replace(topic, partitions=tuple(partitions)))
    return replace(response, responses=tuple(topics))

"""Fetch: records from an offset on, at once if there are enough, else when there are, or when the wait is over.

A fetch is worked out in three steps: which partitions are wanted (those of the request, or of its session), what can be
read of them now, and what of that the client must be told.

Shown by tests/dataplane/test_fetch.py and tests/conformance/stories/fetch.py.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from coordinator.core.acls.names import Operation, Resource
from coordinator.core.decision import PARKED, Decision, Done, Outcome, Steps, begin
from coordinator.core.pace import Pace
from coordinator.core.result import Call
from coordinator.dataplane.brokers import LEADER_EPOCH
from coordinator.dataplane.isolation import READ_COMMITTED
from coordinator.dataplane.long_polls import Waiting, deadline_ms
from coordinator.dataplane.pace import READ_WORK, PartitionPace
from coordinator.dataplane.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchPartition,
    FetchSession,
    Key,
)
from coordinator.dataplane.state import Env, State
from protocol.errors import ErrorCode
from protocol.messages.fetch import (
    FetchRequest,
    FetchResponse,
    FetchResponseableTopic,
    FetchResponseAbortedTransaction,
    FetchResponseEpochEndOffset,
    FetchResponsePartitionData,
)
from protocol.steps import finish_steps
from storage.file_range import FileRange
from storage.files import StorageError
from storage.log import Log
from storage.segment import end_of

BY_ID_SINCE: Final = 13
ERROR_SINCE: Final = 7  # a response has an error of its own
DENIAL_UNITS: Final = 5  # to ask whether a client may read a topic
FEW: Final = 20  # partitions, which are looked at in one step though their logs must be opened
READS_MAX: Final = 500  # partitions that are read in one step, and of which one response has records: ten milliseconds

_Read = tuple[FetchPartition, FetchResponsePartitionData]


class Fetch(Struct, frozen=True, gc=False):
    """A Fetch request after its session was found."""

    asked: tuple[FetchPartition, ...]
    by_ids: bool
    committed: bool
    min_bytes: int
    max_bytes: int
    session: FetchSession | None = None  # whose news are told; None: everything is
    opens: bool = False  # whether a session is to begin with the answer
    denied: frozenset[str] = frozenset()  # topics that the client may not read

    def is_like(self, other: "Fetch") -> bool:
        """Return whether it asks in the same way for what its partitions have."""
        return (self.by_ids, self.committed, self.min_bytes, self.max_bytes) == (
            other.by_ids, other.committed, other.min_bytes, other.max_bytes,
        )  # fmt: skip


def fetch(state: State, request: FetchRequest, env: Env) -> Decision:
    """Respond, or wait under `call.ticket` for as long as the request says.

    Whatever is asked for, a response has records of `READS_MAX` partitions and `fetch.max.bytes` at most.
    """
    before = _recall(state, request, env.call)
    if before is not None and before.fetch.max_bytes == _find_bytes_max(state, request, env.call):
        _wait_again(state, before, request, env.call)
        return PARKED
    return begin(_fetch(state, request, env))


def _fetch(state: State, request: FetchRequest, env: Env) -> Steps[Outcome]:
    own = dict[Key, FetchPartition]()
    finding = _find_own(state, request, env.call.version >= BY_ID_SINCE, own)
    if sum([len(topic.partitions) for topic in request.topics]) > READS_MAX:
        yield from finding
    else:
        finish_steps(finding)
    wanted = yield from _resolve_fetch(state, request, env.call, own)
    if isinstance(wanted, ErrorCode):
        return Done(FetchResponse(error_code=wanted))
    if wanted.session is not None and (before := _recall(state, wanted.session, env.call)) is not None:
        is_same = not (request.topics or request.forgotten_topics_data) and wanted.is_like(before.fetch)
        if is_same and request.max_wait_ms > 0:
            _wait_again(state, before, request, env.call)
            return PARKED
    if len(wanted.asked) > FEW or not state.logs.are_open([(one.name or "", one.partition) for one in wanted.asked]):
        yield from state.open_in_steps((one.name, one.partition) for one in wanted.asked if one.name is not None)
    if len(wanted.asked) > READS_MAX:
        waiting = _wait_for(state, request, wanted, env.call)
        state.polls.begin_reading(waiting)
        return (yield from _look(state, waiting))
    found = _read(state, wanted)
    size = _size(found)
    if request.max_wait_ms <= 0 or _is_enough(wanted, found, size):
        return Done(_answer(state, wanted, found))
    waiting = _wait_for(state, request, wanted, env.call)
    waiting.missing -= size
    waiting.keep(found, size)
    return PARKED


def _wait_for(state: State, request: FetchRequest, wanted: Fetch, call: Call) -> Waiting:
    """Park a fetch of which nothing was read yet."""
    partitions = tuple([(one.name, one.partition) for one in wanted.asked if one.name is not None])
    due_ms = deadline_ms(state.real_ms(), request.max_wait_ms)
    key = request if wanted.session is None else wanted.session
    waiting = Waiting(call.ticket, due_ms, wanted.min_bytes, key, wanted, partitions)
    state.polls.park(waiting)
    return waiting


def _look(state: State, waiting: Waiting, known: list[_Read] | None = None) -> Steps[Outcome]:
    """Read the partitions of a parked fetch in steps, and answer it if that is enough or if its time is up.

    What is appended meanwhile to partitions that were read already is noted, as it is for any parked fetch. One of
    which all is `known` is answered.
    """
    wanted: Fetch = waiting.fetch
    found: list[_Read] = []
    try:
        if known is None:
            yield from _read_in_steps(state, wanted, found)
            size = _size(found)
            if not _is_enough(wanted, found, size) and state.real_ms() < waiting.deadline_ms:
                waiting.keep(found, size)
                state.polls.end_reading(waiting, size)
                return PARKED
        response = yield from _answer_in_steps(state, wanted, found if known is None else known)
    finally:
        state.read_bytes -= _size(found)
        if waiting.is_reading:  # it is answered, it has failed, or its client has left
            state.polls.let_go(waiting.ticket)
    return Done(response)


def _wait_again(state: State, waiting: Waiting, request: FetchRequest, call: Call) -> None:
    """Park a fetch once more that was answered with nothing new, because the client has sent it again."""
    waiting.ticket = call.ticket
    waiting.deadline_ms = deadline_ms(state.real_ms(), request.max_wait_ms)
    waiting.missing = waiting.fetch.min_bytes
    state.polls.park(waiting)


def _recall(state: State, key: FetchRequest | FetchSession, call: Call) -> Waiting | None:
    """Return the fetch that was answered with nothing new, if it would find the same once more."""
    waiting = state.polls.recall(key)
    if waiting is None or call.rights is not None or waiting.fetch.by_ids != (call.version >= BY_ID_SINCE):
        return None
    for partition, log, (_, data) in zip(waiting.partitions, waiting.logs, waiting.found, strict=True):
        if (
            state.logs.find_open(partition) is not log
            or log.end_offset != data.high_watermark
            or log.start_offset != data.log_start_offset
        ):
            return None
    return waiting


def is_long(waiting: Waiting) -> bool:
    """Return whether a parked fetch has so many partitions that these are read in steps (`answer_in_steps`)."""
    return type(waiting.fetch) is Fetch and len(waiting.fetch.asked) > READS_MAX


def answer_in_steps(state: State, waiting: Waiting) -> Steps[Outcome]:
    """Return the steps that answer a parked fetch whose partitions have changed, or whose time is up; or park it
    again."""
    known = None if waiting.is_stale else waiting.found
    state.polls.begin_reading(waiting)
    return _look(state, waiting, known)


def resume(state: State, waiting: Waiting) -> FetchResponse | None:
    """Return the answer to a fetch whose partitions have changed, or None when that is still not enough."""
    wanted: Fetch = waiting.fetch
    found = _read(state, wanted)
    size = _size(found)
    if not _is_enough(wanted, found, size):
        waiting.missing = wanted.min_bytes - size
        return None
    return _answer(state, wanted, found)


def overdue(state: State, waiting: Waiting) -> FetchResponse:
    """Return the answer to a fetch that has waited long enough: whatever there is."""
    wanted: Fetch = waiting.fetch
    if waiting.is_stale:
        return _answer(state, wanted, _read(state, wanted))
    response: FetchResponse | None = waiting.response
    if response is None:
        response = waiting.response = _answer(state, wanted, waiting.found)
    return response


def remember(state: State, waiting: Waiting) -> None:
    """Remember a fetch that was answered with nothing new, if it may come again and be answered the same."""
    if not waiting.logs:
        waiting.logs = _find_logs(state, waiting)
    if waiting.logs:
        state.polls.remember(waiting)


def _find_logs(state: State, waiting: Waiting) -> tuple[Log, ...]:
    """Return the logs to watch if the response to this fetch may be given again, else ().

    It may not if the fetch begins a session, if its response is what a session hears once, if it has many partitions,
    or one that cannot be read.
    """
    wanted: Fetch = waiting.fetch
    if wanted.opens or (wanted.session is not None and waiting.response.responses):
        return ()
    if len(waiting.found) > FEW or any(data.error_code for _, data in waiting.found):
        return ()
    logs = [state.logs.find_open(partition) for partition in waiting.partitions]
    return () if None in logs else tuple([log for log in logs if log is not None])


def _resolve_fetch(
    state: State, request: FetchRequest, call: Call, own: dict[Key, FetchPartition]
) -> Steps[Fetch | ErrorCode]:
    """Return the partitions of the request: its own, or those of the session that it continues."""
    by_ids = call.version >= BY_ID_SINCE
    session: FetchSession | None = None
    opens = False
    if request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):  # a full request; the session that it names is over
        if request.session_id != NO_SESSION:
            state.sessions.close(request.session_id)
        opens = request.session_epoch == INITIAL_EPOCH
    else:
        forgotten = [
            (topic.topic_id if by_ids else topic.topic, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        ]
        resumed = state.sessions.resume(request, by_ids, own, forgotten, state.real_ms())
        if isinstance(resumed, ErrorCode):
            return resumed
        session = resumed if resumed.partitions else None
        own = resumed.partitions or own  # a session that is empty is over, and the request stands for itself
        if by_ids:
            for one in own.values():
                one.name = state.name_of(one.topic_id)  # a topic may have come, or gone, since it was named
    asked = tuple(own.values())
    denied = frozenset[str]() if call.rights is None else (yield from _find_denied_topics(asked, call))
    return Fetch(
        asked=(yield from _in_order(state, asked, denied)),
        denied=denied,
        by_ids=by_ids,
        committed=request.isolation_level == READ_COMMITTED,
        # A response has whole batches: it may be full with less than the bound.
        min_bytes=min(request.min_bytes, state.find_bytes_max(call) // 2),
        max_bytes=_find_bytes_max(state, request, call),
        session=session,
        opens=opens,
    )


def _find_bytes_max(state: State, request: FetchRequest, call: Call) -> int:
    return min(request.max_bytes, state.find_bytes_max(call))


def _in_order(
    state: State, asked: tuple[FetchPartition, ...], denied: frozenset[str]
) -> Steps[tuple[FetchPartition, ...]]:
    """Return what is asked for, at the end ids of no topic, then what is denied or does not exist, as in Kafka."""
    pace, first, unnamed, last = Pace(), list[FetchPartition](), list[FetchPartition](), list[FetchPartition]()
    has_partition = state.catalog.topics.has_partition
    for one in asked:
        if pace.is_due():
            yield
        if one.name is None:
            unnamed.append(one)
        elif one.name in denied or not has_partition(one.name, one.partition):
            last.append(one)
        else:
            first.append(one)
    return (*first, *unnamed, *last) if unnamed or last else asked


def _find_denied_topics(asked: Iterable[FetchPartition], call: Call) -> Steps[frozenset[str]]:
    """Return the topics that the client may not read, by name."""
    pace, denied = Pace(), dict[str, bool]()
    for one in asked:
        if pace.is_due(1 if one.name in denied else DENIAL_UNITS):
            yield
        if one.name is not None and one.name not in denied:
            denied[one.name] = not call.may(Operation.READ, Resource.TOPIC, one.name)
    return frozenset(name for name, is_denied in denied.items() if is_denied)


def _find_own(state: State, request: FetchRequest, by_ids: bool, found: dict[Key, FetchPartition]) -> Steps[None]:
    """Find the partitions that the request names itself, in steps."""
    pace = Pace()
    for topic in request.topics:
        name = state.name_of(topic.topic_id) if by_ids else topic.topic
        for one in topic.partitions:
            if pace.is_due():
                yield
            found[topic.topic_id if by_ids else topic.topic, one.partition] = FetchPartition(
                name,
                topic.topic_id,
                one.partition,
                one.fetch_offset,
                one.partition_max_bytes,
                one.current_leader_epoch,
                one.last_fetched_epoch,
            )


def _read(state: State, wanted: Fetch) -> list[_Read]:
    """Read what each partition has now, of few of them."""
    found: list[_Read] = []
    finish_steps(_read_in_steps(state, wanted, found))
    state.read_bytes -= _size(found)
    return found


def _read_in_steps(state: State, wanted: Fetch, found: list[_Read]) -> Steps[None]:
    """Read what each partition has now. The first that has anything gives at least one batch, however large.

    What was read counts in `read_bytes`, until the caller takes it off.
    """
    room = min(wanted.max_bytes, state.fetch_room)
    is_first = True
    left = READS_MAX
    pace = PartitionPace(state.logs)
    for asked in wanted.asked:
        if pace.count_partition():
            yield
        if asked.name in wanted.denied:
            data = _error(asked.partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        else:
            data = _read_one(state, asked, room, is_first, wanted)
        if data.records:
            state.read_bytes += len(data.records)
            left -= 1
            room = max(room - len(data.records), 0) if left else 0
            is_first = False
            pace.add(READ_WORK)
        found.append((asked, data))


def _read_one(
    state: State, asked: FetchPartition, room: int, is_first: bool, wanted: Fetch
) -> FetchResponsePartitionData:
    name, index, committed = asked.name, asked.partition, wanted.committed
    if name is None:
        return _error(index, ErrorCode.UNKNOWN_TOPIC_ID)
    if (error := state.try_open(name, index)) != ErrorCode.NONE:
        return _error(index, error)
    if wanted.by_ids and state.name_of(asked.topic_id) != name:  # created anew while the fetch has waited
        return _refuse(index, ErrorCode.INCONSISTENT_TOPIC_ID)
    if asked.leader_epoch > LEADER_EPOCH:
        return _refuse(index, ErrorCode.UNKNOWN_LEADER_EPOCH)
    if asked.fetched_epoch > LEADER_EPOCH:  # it never was: the two logs have nothing in common
        return _refuse(index, ErrorCode.OFFSET_OUT_OF_RANGE)
    log = state.log(name, index)
    if asked.fetched_epoch == LEADER_EPOCH and asked.offset > (0 if log is None else log.end_offset):
        return _describe_divergence(index, log)
    if log is None:
        return _refuse(index, ErrorCode.OFFSET_OUT_OF_RANGE) if asked.offset else _nothing(index, committed)
    end, start = log.end_offset, log.start_offset
    if not start <= asked.offset <= end:
        return _refuse(index, ErrorCode.OFFSET_OUT_OF_RANGE)
    stable = log.last_stable_offset
    records: bytes | FileRange = b""
    if asked.offset < (stable if committed else end) and (room > 0 or is_first):
        limit = min(asked.max_bytes, room)
        try:
            before = stable if committed else None
            records = log.fetch(asked.offset, limit, min_one=is_first, before=before, may_share=True)
        except StorageError as failure:
            return _error(index, state.close_failed_partition(name, index, failure))
    return FetchResponsePartitionData(
        partition_index=index,
        high_watermark=end,
        last_stable_offset=stable,
        log_start_offset=start,
        aborted_transactions=_collect_aborted_transactions(log, asked.offset, records) if committed else None,
        records=records,  # type: ignore[arg-type]  # a range of a file takes the place of its bytes, see `Log.fetch`
    )


def _refuse(index: int, error: ErrorCode) -> FetchResponsePartitionData:
    """Refuse to read a partition that exists, but not as the client believes."""
    return replace(_error(index, error), aborted_transactions=None)


def _describe_divergence(index: int, log: Log | None) -> FetchResponsePartitionData:
    """Return the end of the epoch that was fetched last: the client has records that the log has not (KIP-595)."""
    end, stable, start = (0, 0, 0) if log is None else (log.end_offset, log.last_stable_offset, log.start_offset)
    epoch = FetchResponseEpochEndOffset(LEADER_EPOCH, end)
    return FetchResponsePartitionData(index, 0, end, stable, start, epoch, aborted_transactions=None, records=b"")


def _error(index: int, error: ErrorCode) -> FetchResponsePartitionData:
    return FetchResponsePartitionData(partition_index=index, error_code=error, high_watermark=-1, records=b"")


def _nothing(index: int, committed: bool) -> FetchResponsePartitionData:
    """Return the response for a partition that nothing was ever written to."""
    aborted = () if committed else None
    return FetchResponsePartitionData(index, 0, 0, 0, 0, aborted_transactions=aborted, records=b"")


def _collect_aborted_transactions(
    log: Log, offset: int, records: bytes | FileRange
) -> tuple[FetchResponseAbortedTransaction, ...]:
    """Return the aborted transactions among the records that are returned."""
    if not log.producers.aborted or not records:
        return ()
    found = log.collect_aborted_transactions(offset, end_of(records))
    return tuple([FetchResponseAbortedTransaction(one.producer_id, one.first_offset) for one in found])


def _size(found: Iterable[_Read]) -> int:
    return sum([len(data.records or b"") for _, data in found])


def _is_enough(wanted: Fetch, found: list[_Read], size: int) -> bool:
    """Return whether to answer now: enough bytes, records of as many partitions as a response has, nothing to wait
    for, or an error of a partition that exists.

    A partition that is not there is no reason to hurry, in Kafka neither: the client would only ask again at once.
    """
    if size >= wanted.min_bytes:
        return True
    is_waiting, left = False, READS_MAX
    for _, data in found:
        if data.records:
            left -= 1
        if data.error_code not in _PATIENT or data.diverging_epoch.epoch >= 0:
            return True
        is_waiting = is_waiting or data.error_code == ErrorCode.NONE
    return left <= 0 or not is_waiting


_PATIENT: Final = frozenset({
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
})  # fmt: skip


def _answer(state: State, wanted: Fetch, found: list[_Read]) -> FetchResponse:
    """Respond with what was found in few partitions."""
    return finish_steps(_answer_in_steps(state, wanted, found))


def _answer_in_steps(state: State, wanted: Fetch, found: list[_Read]) -> Steps[FetchResponse]:
    """Respond with what was found, and note in the session what its client is told."""
    session = wanted.session
    kept: dict[Key, FetchPartition] = {}
    topics: list[tuple[tuple[str | None, bytes], list[FetchResponsePartitionData]]] = []
    pace = Pace()
    for asked, data in found:
        if pace.is_due():
            yield
        if data.records and asked.name is not None:
            state.given_bytes += len(data.records)
            state.traffic.count_out(asked.name, data.records)
        if wanted.opens:
            asked.take_news(data)
            kept[_key(wanted, asked)] = asked
        if session is not None:
            if not asked.take_news(data):
                continue
            key = _key(wanted, asked)
            if data.records and key in session.partitions:  # what has just been served is served last next time
                session.partitions[key] = session.partitions.pop(key)
        topic = (asked.name, asked.topic_id)
        if not topics or topics[-1][0] != topic:  # as in Kafka, the same topic again where another one is between
            topics.append((topic, []))
        topics[-1][1].append(data)
    session_id = NO_SESSION
    if session is not None:
        session_id = session.id
    elif wanted.opens:
        session_id = state.sessions.create(wanted.by_ids, kept, state.real_ms())
    responses = [FetchResponseableTopic(name or "", topic_id, tuple(data)) for (name, topic_id), data in topics]
    return FetchResponse(session_id=session_id, responses=tuple(responses))


def _key(wanted: Fetch, asked: FetchPartition) -> Key:
    return asked.topic_id if wanted.by_ids else asked.name or "", asked.partition

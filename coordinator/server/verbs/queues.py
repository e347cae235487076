"""Queues as a test begins with them: what a share group has done already, and what is to be delivered again."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal

from msgspec import Struct

from coordinator.core.decision import Steps
from coordinator.core.pace import Pace
from coordinator.core.share_state.values import DeliveryState, ShareState, StateKey
from coordinator.core.topics import Topics
from coordinator.server.verbs.refusal import Refusal
from protocol.errors import ErrorCode
from protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from protocol.messages.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteShareGroupStateRequestPartitionData,
    WriteShareGroupStateRequestStateBatch,
    WriteShareGroupStateRequestWriteStateData,
)

OFFSET_MAX: Final = 2**63 - 1
STATES: Final = frozenset(DeliveryState)
DELIVERIES_MAX: Final = 32_767

Ask = Callable[[Any, int], Any]  # a request of the operator, and its version


class QueueRecords(Struct, frozen=True, forbid_unknown_fields=True):
    """Records behind the start of a queue that were delivered already."""

    first: int
    last: int
    state: Literal["available", "acknowledged", "archived"] = "available"
    deliveries: int = 1


class Queue(Struct, frozen=True, forbid_unknown_fields=True):
    """A partition as a share group reads it: what is before `start` is done."""

    start: int
    records: list[QueueRecords] = []


Queues = Mapping[str, Mapping[str, Mapping[str, Queue]]]
"""By share group, topic and partition."""


def view_queues(states: Iterable[tuple[StateKey, ShareState]], topics: Topics, prefix: str) -> Steps[dict[str, Any]]:
    """Return the queues of the groups whose ids begin with `prefix`, of which something is decided."""
    found: dict[str, dict[str, dict[str, Queue]]] = {}
    pace = Pace()
    for key, state in states:
        if pace.is_due(1 + len(state.batches)):
            yield
        topic = topics.by_id(key.topic_id)
        if topic is not None and key.group_id.startswith(prefix) and state.start_offset >= 0:
            of_topic = found.setdefault(key.group_id, {}).setdefault(topic.name, {})
            of_topic[str(key.partition)] = Queue(state.start_offset, list(_view_records(state)))
    return found


def _view_records(state: ShareState) -> Iterator[QueueRecords]:
    for batch in state.batches:
        if batch.delivery_state not in STATES:  # others have written it
            continue
        name = DeliveryState(batch.delivery_state).name.lower()
        yield QueueRecords(batch.first_offset, batch.last_offset, name, batch.delivery_count)  # type: ignore[arg-type]  # the names of the enumeration


def seed_queues(
    queues: Queues,
    ask: Ask,
    topics: Topics,
    read_epoch: Callable[[StateKey], int],
    explain: Callable[[str, ErrorCode], str],
) -> None:
    """Give share groups, which have no members, these queues. Raises Refusal."""
    for group_id, of_group in queues.items():
        _check(of_group, topics)
        _alter_offsets(group_id, of_group, ask, explain)
        for topic, partitions in of_group.items():
            topic_id: bytes = topics[topic].id
            written = [
                _write(int(index), queue, read_epoch(StateKey(group_id, topic_id, int(index))))
                for index, queue in partitions.items()
                if queue.records
            ]
            data = WriteShareGroupStateRequestWriteStateData(topic_id, tuple(written))
            if written:
                for result in ask(WriteShareGroupStateRequest(group_id, (data,)), 1).results:
                    for one in result.partitions:
                        _check_code(group_id, topic, one.partition, one.error_code)


def _check(of_group: Mapping[str, Mapping[str, Queue]], topics: Topics) -> None:
    for topic, partitions in of_group.items():
        if topic not in topics:
            raise Refusal(f"there is no topic {topic!r}", is_conflict=True)
        for index, queue in partitions.items():
            where = f"{topic}-{index}"
            is_number = index.isascii() and index.isdigit() and len(index) < 10
            if not (is_number and int(index) < topics[topic].partitions):
                raise Refusal(f"invalid partition {index!r} of {topic!r}: expected 0 to {topics[topic].partitions - 1}")
            if not 0 <= queue.start <= OFFSET_MAX:
                raise Refusal(f"invalid start {queue.start} of {where}: expected 0 to {OFFSET_MAX}")
            least = queue.start
            for run in queue.records:
                if not least <= run.first <= run.last <= OFFSET_MAX:
                    raise Refusal(f"invalid records {run.first} to {run.last} of {where}: expected {least} or later")
                if not 1 <= run.deliveries <= DELIVERIES_MAX:
                    raise Refusal(f"invalid deliveries {run.deliveries} of {where}: expected 1 to {DELIVERIES_MAX}")
                least = run.last + 1


def _alter_offsets(
    group_id: str, of_group: Mapping[str, Mapping[str, Queue]], ask: Ask, explain: Callable[[str, ErrorCode], str]
) -> None:
    """Begin the states, which also creates the group."""
    topics = tuple(
        AlterShareGroupOffsetsRequestTopic(
            topic,
            tuple(AlterShareGroupOffsetsRequestPartition(int(index), queue.start) for index, queue in of.items()),
        )
        for topic, of in of_group.items()
    )
    answer = ask(AlterShareGroupOffsetsRequest(group_id, topics), 0)
    if answer.error_code:
        raise Refusal(f"share group {group_id!r}: {explain(group_id, ErrorCode(answer.error_code))}", is_conflict=True)
    for topic in answer.responses:
        for one in topic.partitions:
            _check_code(group_id, topic.topic_name, one.partition_index, one.error_code)


def _check_code(group_id: str, topic: str, partition: int, code: int) -> None:
    if code:
        raise Refusal(f"share group {group_id!r}, {topic}-{partition}: {ErrorCode(code).name}", is_conflict=True)


def _write(index: int, queue: Queue, state_epoch: int) -> WriteShareGroupStateRequestPartitionData:
    batches = tuple(
        WriteShareGroupStateRequestStateBatch(run.first, run.last, DeliveryState[run.state.upper()], run.deliveries)
        for run in queue.records
    )
    complete = sum(run.last - run.first + 1 for run in queue.records if run.state != "available")
    return WriteShareGroupStateRequestPartitionData(index, state_epoch, -1, queue.start, complete, batches)

"""WriteTxnMarkers: end a transaction in single partitions, as an administrator does who aborts one that hangs.

What the coordinator knows of the transaction stays as it is, as in Kafka: its own end writes the markers once more, and
a marker that is there twice changes nothing.

Shown by tests/conformance/stories/admin_features.py.
"""

from typing import Final

from coordinator.core.catalog.names import OFFSETS_TOPIC
from coordinator.core.decision import Steps, in_steps
from coordinator.core.pace import do_to_the_end
from coordinator.core.result import Call
from coordinator.dataplane.brokers import Where
from coordinator.dataplane.pace import APPEND_WORK, PartitionPace
from coordinator.runtime.engine import Engine
from protocol.errors import ErrorCode
from protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestWritableTxnMarker,
    WriteTxnMarkersResponse,
    WriteTxnMarkersResponseWritableTxnMarkerPartitionResult,
    WriteTxnMarkersResponseWritableTxnMarkerResult,
    WriteTxnMarkersResponseWritableTxnMarkerTopicResult,
)
from protocol.record_batch import encode_marker
from protocol.records import EndMarker
from storage.producers import Producers

_NO_VERSION: Final = -1


@in_steps
def write_txn_markers(
    engine: Engine, request: WriteTxnMarkersRequest, call: Call, where: Where
) -> Steps[WriteTxnMarkersResponse]:
    """Write each marker into each of its partitions, in steps; a producer without partitions has no result."""
    pace = engine.world.dataplane.begin_pace()
    results: list[WriteTxnMarkersResponseWritableTxnMarkerResult] = []
    for one in request.markers:
        topics: list[WriteTxnMarkersResponseWritableTxnMarkerTopicResult] = []
        for topic in one.topics:
            partitions: list[WriteTxnMarkersResponseWritableTxnMarkerPartitionResult] = []
            for index in topic.partition_indexes:
                if pace.count_partition():
                    yield
                error = yield from _write(engine, one, topic.name, index, call.now_ms, pace)
                partitions.append(WriteTxnMarkersResponseWritableTxnMarkerPartitionResult(index, error))
            if partitions:
                topics.append(WriteTxnMarkersResponseWritableTxnMarkerTopicResult(topic.name, tuple(partitions)))
        if topics:
            results.append(WriteTxnMarkersResponseWritableTxnMarkerResult(one.producer_id, tuple(topics)))
    return WriteTxnMarkersResponse(markers=tuple(results))


def _write(
    engine: Engine,
    one: WriteTxnMarkersRequestWritableTxnMarker,
    topic: str,
    index: int,
    now_ms: int,
    pace: PartitionPace,
) -> Steps[ErrorCode]:
    """Write a marker into one partition. Returns why it is not written, else NONE."""
    fact = engine.world.ledger.catalog.topics_by_name.get(topic)
    if fact is None or not 0 <= index < fact.partitions:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if one.producer_id < 0 or one.producer_epoch < 0 or one.transaction_version == _NO_VERSION:
        return ErrorCode.UNKNOWN_SERVER_ERROR  # as Kafka, which does not expect them
    producer = (one.producer_id, one.producer_epoch)
    end = EndMarker(commits=one.transaction_result, coordinator_epoch=one.coordinator_epoch)
    if topic != OFFSETS_TOPIC:
        yield from engine.world.dataplane.open_in_steps(topic, index)
        return engine.world.dataplane.write_marker(
            (topic, index), *producer, end, one.transaction_version, now_ms, pace
        )
    partition = engine.world.partitions[index]
    if not partition.is_loaded:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    known = partition.log.producers if partition.has_log else Producers()
    if error := known.check_marker(*producer, end, one.transaction_version):
        return error
    pace.add(APPEND_WORK)
    batch = encode_marker(end, now_ms, producer_id=one.producer_id, producer_epoch=one.producer_epoch)
    applying = engine.recorder.write_marker(partition, one.producer_id, one.transaction_result, batch)
    yield from do_to_the_end(engine.do_in_steps, applying)  # what the marker says is in the log
    return ErrorCode.NONE

"""Responses that rest on records that the disk could not keep: the error takes the place of what they said.

With --fsync the responses of a turn leave after its logs are synced. A log that cannot be synced is closed, and of what
the turn appended to it nobody knows what will be there after a power cut.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from msgspec.structs import replace

from coordinator.dataplane.topic_logs import TopicPartition
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchResponse, FetchResponsePartitionData
from protocol.messages.produce import ProduceResponse, ProduceResponsePartition
from protocol.messages.share_fetch import ShareFetchResponse

NameOf = Callable[[bytes], str | None]


def withdraw(response: Any, failed: Collection[TopicPartition], name_of: NameOf) -> Any:
    """Return the response with KAFKA_STORAGE_ERROR for these partitions; itself if it is not about them."""
    of_response = WITHDRAW.get(type(response))
    return response if of_response is None else of_response(response, failed, name_of)


def _of_produce(response: ProduceResponse, failed: Collection[TopicPartition], name_of: NameOf) -> ProduceResponse:
    topics = []
    for topic in response.responses:
        name = topic.name or name_of(topic.topic_id)
        results = tuple([
            ProduceResponsePartition(one.index, ErrorCode.KAFKA_STORAGE_ERROR, -1)
            if not one.error_code and (name, one.index) in failed
            else one
            for one in topic.partition_responses
        ])  # fmt: skip
        topics.append(replace(topic, partition_responses=results))
    changed = tuple(topics)
    return response if changed == response.responses else replace(response, responses=changed)


def _of_fetch(response: FetchResponse, failed: Collection[TopicPartition], name_of: NameOf) -> FetchResponse:
    topics = []
    for topic in response.responses:
        name = topic.topic or name_of(topic.topic_id)
        partitions = tuple([
            FetchResponsePartitionData(one.partition_index, ErrorCode.KAFKA_STORAGE_ERROR, -1, records=b"")
            if not one.error_code and (name, one.partition_index) in failed
            else one
            for one in topic.partitions
        ])  # fmt: skip
        topics.append(replace(topic, partitions=partitions))
    changed = tuple(topics)
    return response if changed == response.responses else replace(response, responses=changed)


def _of_share_fetch(response: ShareFetchResponse, failed: Collection[TopicPartition], name_of: NameOf) -> Any:
    topics = []
    for topic in response.responses:
        name = name_of(topic.topic_id)
        partitions = tuple([
            replace(one, error_code=ErrorCode.KAFKA_STORAGE_ERROR, records=b"", acquired_records=())
            if not one.error_code and (name, one.partition_index) in failed
            else one
            for one in topic.partitions
        ])  # fmt: skip
        topics.append(replace(topic, partitions=partitions))
    changed = tuple(topics)
    return response if changed == response.responses else replace(response, responses=changed)


WITHDRAW: Final[Mapping[type, Callable[[Any, Collection[TopicPartition], NameOf], Any]]] = {
    FetchResponse: _of_fetch,
    ProduceResponse: _of_produce,
    ShareFetchResponse: _of_share_fetch,
}
"""The responses of APIs with the trait OF_TOPICS."""

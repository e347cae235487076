"""Responses to unauthorized requests whose errors Kafka puts in other places than `error_response` does."""

from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from coordinator.runtime.error_response import error_everywhere, error_response
from protocol.errors import ErrorCode
from protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntityData,
    AlterClientQuotasResponseEntryData,
)
from protocol.messages.describe_client_quotas import DescribeClientQuotasResponse
from protocol.messages.describe_log_dirs import DescribeLogDirsResponse
from protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResponseDescribeUserScramCredentialsResult,
)
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsResponseOngoingPartitionReassignment,
    ListPartitionReassignmentsResponseOngoingTopicReassignment,
)

AUTHORIZATION_FAILED: Final = "Authorization failed."
TOPIC_AUTHORIZATION_FAILED: Final = "Topic authorization failed."
CLUSTER_AUTHORIZATION_FAILED: Final = "Cluster authorization failed."


def refuse_log_dirs(request: Any, version: int, error: ErrorCode) -> DescribeLogDirsResponse:
    """Return an empty response. Before version 3 it has no field for the error."""
    return DescribeLogDirsResponse(error_code=error)


def refuse_to_list_reassignments(
    request: ListPartitionReassignmentsRequest, version: int, error: ErrorCode
) -> ListPartitionReassignmentsResponse:
    topics = [
        ListPartitionReassignmentsResponseOngoingTopicReassignment(
            topic.name,
            tuple([
                ListPartitionReassignmentsResponseOngoingPartitionReassignment(index)
                for index in topic.partition_indexes
            ]),
        )
        for topic in request.topics or ()
    ]  # fmt: skip
    return ListPartitionReassignmentsResponse(
        error_code=error, error_message=CLUSTER_AUTHORIZATION_FAILED, topics=tuple(topics)
    )


def refuse_quotas(request: Any, version: int, error: ErrorCode) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=error, entries=None)


def refuse_with_text(request: Any, version: int, error: ErrorCode) -> Any:
    """Return the response with the error, and with a sentence beside it wherever there is a place for one."""
    return _tell(error_response(request, version, error))


def refuse_everywhere(request: Any, version: int, error: ErrorCode) -> Any:
    """Return the same with the error in each entry, too."""
    return _tell(error_everywhere(request, version, error))


def _tell(value: Any) -> Any:
    """Return a response, or an entry of it, with a sentence beside each error."""
    told: dict[str, Any] = {}
    for name in value.__struct_fields__:
        field = getattr(value, name)
        if name == "error_message" and value.error_code:
            told[name] = CLUSTER_AUTHORIZATION_FAILED
        elif isinstance(field, tuple):
            told[name] = tuple([_tell(one) if isinstance(one, Struct) else one for one in field])
    return replace(value, **told)


def refuse_credentials(
    request: DescribeUserScramCredentialsRequest, version: int, error: ErrorCode
) -> DescribeUserScramCredentialsResponse:
    """Return an entry with the error for each user, without the user's name."""
    entry = DescribeUserScramCredentialsResponseDescribeUserScramCredentialsResult(error_code=error)
    return DescribeUserScramCredentialsResponse(error_code=error, results=(entry,) * len(request.users or ()))


def refuse_to_alter_quotas(
    request: AlterClientQuotasRequest, version: int, error: ErrorCode
) -> AlterClientQuotasResponse:
    """Return the error for each entity."""
    entries = [
        AlterClientQuotasResponseEntryData(
            error,
            AUTHORIZATION_FAILED,
            tuple([AlterClientQuotasResponseEntityData(part.entity_type, part.entity_name) for part in entry.entity]),
        )
        for entry in request.entries
    ]
    return AlterClientQuotasResponse(entries=tuple(entries))


def refuse_states(request: Any, version: int, error: ErrorCode) -> Any:
    """Return the response to a request of brokers about share partitions, with a sentence in each entry."""
    response = error_response(request, version, error)
    results = [
        replace(
            topic,
            partitions=tuple([replace(one, error_message=CLUSTER_AUTHORIZATION_FAILED) for one in topic.partitions]),
        )
        for topic in response.results
    ]
    return replace(response, results=tuple(results))


def refuse_share_topics(request: Any, version: int, error: ErrorCode) -> Any:
    """Return the response to an alteration or a deletion of share offsets, with the error in each topic."""
    response = error_everywhere(request, version, error)
    topics = []
    for topic in response.responses:
        if hasattr(topic, "partitions"):
            told = [replace(one, error_message=TOPIC_AUTHORIZATION_FAILED) for one in topic.partitions]
            topics.append(replace(topic, partitions=tuple(told)))
        else:
            topics.append(replace(topic, error_message=TOPIC_AUTHORIZATION_FAILED))
    return replace(response, responses=tuple(topics))

"""A request of each API that reads: it asks for all there is, or for what has these names."""

from collections.abc import Mapping
from typing import Final

from coordinator.core.catalog.catalog import CLIENT_METRICS, GROUP, TOPIC
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.describe_acls import DescribeAclsRequest
from protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsRequestResource
from protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersRequestTopic
from protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestTopic,
)
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.list_config_resources import ListConfigResourcesRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsRequestPartition, ListOffsetsRequestTopic
from protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
)
from protocol.messages.share_group_describe import ShareGroupDescribeRequest
from protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from protocol.schema import Message

TOPICS: Final = tuple(f"t{number}" for number in range(9))
GROUPS: Final = tuple(f"g{number}" for number in range(9))
IDS: Final = tuple(f"x{number}" for number in range(9))
PARTITIONS: Final = 3
_ANY: Final = 1
_NUMBERS: Final = tuple(range(PARTITIONS))

_REQUESTS: Final[tuple[Message, ...]] = (
    ConsumerGroupDescribeRequest(GROUPS, include_authorized_operations=True),
    DescribeAclsRequest(_ANY, None, _ANY, None, None, _ANY, _ANY),
    DescribeClientQuotasRequest(),
    DescribeClusterRequest(include_cluster_authorized_operations=True),
    DescribeConfigsRequest(
        tuple(
            DescribeConfigsRequestResource(kind, name, None)
            for kind, names in ((TOPIC, TOPICS), (GROUP, GROUPS), (CLIENT_METRICS, IDS))
            for name in names
        )
    ),
    DescribeDelegationTokenRequest(None),
    DescribeGroupsRequest(GROUPS, include_authorized_operations=True),
    DescribeLogDirsRequest(None),
    DescribeProducersRequest(tuple(DescribeProducersRequestTopic(name, _NUMBERS) for name in TOPICS)),
    DescribeQuorumRequest(
        (DescribeQuorumRequestTopicData("__cluster_metadata", (DescribeQuorumRequestPartitionData(0),)),)
    ),
    DescribeShareGroupOffsetsRequest(tuple(map(DescribeShareGroupOffsetsRequestGroup, GROUPS))),
    DescribeTopicPartitionsRequest(tuple(map(DescribeTopicPartitionsRequestTopic, TOPICS)), 2_000),
    DescribeTransactionsRequest(IDS),
    DescribeUserScramCredentialsRequest(None),
    FindCoordinatorRequest(coordinator_keys=GROUPS),
    ListConfigResourcesRequest(),
    ListGroupsRequest(),
    ListOffsetsRequest(
        -1,
        topics=tuple(
            ListOffsetsRequestTopic(
                name, tuple(ListOffsetsRequestPartition(number, timestamp=0) for number in _NUMBERS)
            )
            for name in TOPICS
        ),
    ),
    ListPartitionReassignmentsRequest(),
    ListTransactionsRequest(),
    OffsetFetchRequest(groups=tuple(OffsetFetchRequestGroup(name, topics=None) for name in GROUPS)),
    OffsetForLeaderEpochRequest(
        topics=tuple(
            OffsetForLeaderEpochRequestTopic(name, tuple(map(OffsetForLeaderEpochRequestPartition, _NUMBERS)))
            for name in TOPICS
        )
    ),
    ShareGroupDescribeRequest(GROUPS, include_authorized_operations=True),
    StreamsGroupDescribeRequest(GROUPS, include_authorized_operations=True),
    MetadataRequest(None),
)

READING: Final[Mapping[str, Message]] = {type(one).__name__.removesuffix("Request"): one for one in _REQUESTS}

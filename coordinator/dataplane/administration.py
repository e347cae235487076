"""The requests of administrators, and what decides them.

`dataplane.py` imports this module with the first of them: a server that has none does without fifty modules.
"""

from collections.abc import Mapping
from typing import Final

from coordinator.core.catalog.alter_configs import alter_configs
from coordinator.core.catalog.alter_user_scram_credentials import alter_user_scram_credentials
from coordinator.core.catalog.create_partitions import create_partitions
from coordinator.core.catalog.create_topics import create_topics
from coordinator.core.catalog.delete_topics import delete_topics
from coordinator.core.catalog.describe_configs import describe_configs
from coordinator.core.catalog.describe_user_scram_credentials import describe_user_scram_credentials
from coordinator.core.catalog.incremental_alter_configs import incremental_alter_configs
from coordinator.core.catalog.list_config_resources import list_config_resources
from coordinator.core.decision import answers, in_steps
from coordinator.core.quotas.alter_client_quotas import alter_client_quotas
from coordinator.core.quotas.describe_client_quotas import describe_client_quotas
from coordinator.dataplane.alter_partition_reassignments import alter_partition_reassignments
from coordinator.dataplane.alter_replica_log_dirs import alter_replica_log_dirs
from coordinator.dataplane.delete_records import delete_records
from coordinator.dataplane.describe_cluster import describe_cluster
from coordinator.dataplane.describe_log_dirs import describe_log_dirs
from coordinator.dataplane.describe_producers import describe_producers
from coordinator.dataplane.describe_quorum import describe_quorum
from coordinator.dataplane.describe_topic_partitions import describe_topic_partitions
from coordinator.dataplane.elect_leaders import elect_leaders
from coordinator.dataplane.handlers import Handler, by_catalog_in_steps
from coordinator.dataplane.list_partition_reassignments import list_partition_reassignments
from coordinator.dataplane.raft_voters import add_raft_voter, remove_raft_voter
from coordinator.dataplane.unregister_broker import unregister_broker
from protocol.messages.add_raft_voter import AddRaftVoterRequest
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from protocol.messages.alter_configs import AlterConfigsRequest
from protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from protocol.messages.create_partitions import CreatePartitionsRequest
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.delete_records import DeleteRecordsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_configs import DescribeConfigsRequest
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from protocol.messages.describe_producers import DescribeProducersRequest
from protocol.messages.describe_quorum import DescribeQuorumRequest
from protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from protocol.messages.elect_leaders import ElectLeadersRequest
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from protocol.messages.list_config_resources import ListConfigResourcesRequest
from protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from protocol.messages.unregister_broker import UnregisterBrokerRequest

HANDLERS: Final[Mapping[type, Handler]] = {
    AddRaftVoterRequest: answers(add_raft_voter),
    AlterClientQuotasRequest: by_catalog_in_steps(alter_client_quotas),
    AlterConfigsRequest: by_catalog_in_steps(alter_configs),
    AlterPartitionReassignmentsRequest: in_steps(alter_partition_reassignments),
    AlterReplicaLogDirsRequest: in_steps(alter_replica_log_dirs),
    AlterUserScramCredentialsRequest: by_catalog_in_steps(alter_user_scram_credentials),
    CreatePartitionsRequest: by_catalog_in_steps(create_partitions),
    CreateTopicsRequest: by_catalog_in_steps(create_topics),
    DeleteRecordsRequest: in_steps(delete_records),
    DeleteTopicsRequest: by_catalog_in_steps(delete_topics),
    DescribeClientQuotasRequest: by_catalog_in_steps(describe_client_quotas),
    DescribeClusterRequest: answers(describe_cluster),
    DescribeConfigsRequest: by_catalog_in_steps(describe_configs),
    DescribeLogDirsRequest: in_steps(describe_log_dirs),
    DescribeProducersRequest: in_steps(describe_producers),
    DescribeQuorumRequest: in_steps(describe_quorum),
    DescribeTopicPartitionsRequest: in_steps(describe_topic_partitions),
    DescribeUserScramCredentialsRequest: by_catalog_in_steps(describe_user_scram_credentials),
    ElectLeadersRequest: in_steps(elect_leaders),
    IncrementalAlterConfigsRequest: by_catalog_in_steps(incremental_alter_configs),
    ListConfigResourcesRequest: by_catalog_in_steps(list_config_resources),
    ListPartitionReassignmentsRequest: answers(list_partition_reassignments),
    RemoveRaftVoterRequest: answers(remove_raft_voter),
    UnregisterBrokerRequest: answers(unregister_broker),
}

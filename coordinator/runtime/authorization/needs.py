"""THE table of what each API needs: which operation on which resource, and the answer where it is denied.

An API that is not in it is open to everybody: ApiVersions, the two of SASL, and delegation tokens of the client's own.
docs/security.md prints the table.
"""

from collections.abc import Mapping
from typing import Final

from coordinator.core.acls.names import Operation, Resource
from coordinator.core.catalog.catalog import BROKER_LOGGER
from coordinator.runtime.authorization.group_needs import (
    find_each,
    find_one,
    hide_members,
    hide_readers,
    hide_share_offsets,
    hide_topologies,
    offset_fetch_topics,
    one_group,
    refuse_find,
    refuse_join,
    refuse_offset_delete,
    subscription_topics,
    topology_topics,
)
from coordinator.runtime.authorization.guard import Each, Guard, Whole, need
from coordinator.runtime.authorization.refusals import (
    AUTHORIZATION_FAILED,
    refuse_credentials,
    refuse_everywhere,
    refuse_log_dirs,
    refuse_quotas,
    refuse_share_topics,
    refuse_states,
    refuse_to_alter_quotas,
    refuse_to_list_reassignments,
)
from coordinator.runtime.authorization.shapes import (
    authorized_operations,
    cluster_check,
    cluster_operations,
    each_name,
    each_topic,
    group_check,
    hide_what_is_denied,
    transactional_id_check,
)
from coordinator.runtime.authorization.topic_needs import (
    before_cursor,
    deletable_topics,
    each_config,
    hide_configs,
    name_deleted_topic,
    once,
    refuse_producers,
    see_topics,
    valid_name,
)
from coordinator.runtime.authorization.transaction_needs import (
    any_producer,
    of_brokers,
    of_nobody,
    own_transaction,
    produce_transaction,
    transaction_topics,
)
from coordinator.runtime.find_coordinator import GROUP as GROUP_KEY
from coordinator.runtime.find_coordinator import TRANSACTION
from coordinator.runtime.partial_refusal import FIRST, IN_ORDER, LAST
from protocol.errors import ErrorCode

_O, _R = Operation, Resource
_GROUP_DENIED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED


_CREATES: Final = need(_R.CLUSTER, _O.CREATE)


_ACTS: Final = need(_R.CLUSTER, _O.CLUSTER_ACTION)


_DESCRIBES: Final = need(_R.CLUSTER, _O.DESCRIBE)


_TRANSACTION: Final = transactional_id_check(lambda asking: asking.request.transactional_id)


NEEDS: Final[Mapping[str, Guard]] = {
    # groups
    "FindCoordinator": Guard(
        (find_one(GROUP_KEY), find_one(TRANSACTION)),
        (Each("coordinator_keys", "coordinators", find_each, refuse=refuse_find),),
    ),
    "JoinGroup": Guard((group_check(_O.READ, refuse_join),)),
    "SyncGroup": Guard((group_check(_O.READ),)),
    "Heartbeat": Guard((group_check(_O.READ),)),
    "LeaveGroup": Guard((group_check(_O.READ),)),
    "ConsumerGroupHeartbeat": Guard(
        (
            group_check(_O.READ),
            Whole(need(_R.TOPIC, _O.DESCRIBE), subscription_topics, " of each name that is subscribed to"),
        ),
        asks=True, what=("DESCRIBE on the topic, for each name that a pattern matches: left out",),
    ),
    "OffsetCommit": Guard((group_check(_O.READ),), (each_topic("topics", "topics", _O.READ),), is_of_commits=True),
    "OffsetFetch": Guard(
        (Whole(need(_R.GROUP, _O.DESCRIBE), one_group),),
        (Each("groups", "groups", lambda asking: lambda one: (
            None if asking.rights.may(_O.DESCRIBE, _R.GROUP, one.group_id) else _GROUP_DENIED)),),
        (offset_fetch_topics,),
        what=("DESCRIBE on the topic, for each: TOPIC_AUTHORIZATION_FAILED, or left out where all are asked for",),
    ),
    "OffsetDelete": Guard(
        (group_check(_O.DELETE),),
        (each_topic("topics", "topics", _O.READ, place=IN_ORDER, refuse=refuse_offset_delete, is_asked_empty=True),),
    ),
    "DescribeGroups": Guard(
        each=(each_name("groups", "groups", need(_R.GROUP, _O.DESCRIBE), place=FIRST),),
        seen=(authorized_operations("groups", _R.GROUP, "authorized_operations", "group_id"),),
    ),
    "ConsumerGroupDescribe": Guard(
        each=(each_name("group_ids", "groups", need(_R.GROUP, _O.DESCRIBE), place=FIRST),),
        seen=(authorized_operations("groups", _R.GROUP, "authorized_operations", "group_id"), hide_members),
        what=("DESCRIBE on the topic, for each topic of a member: TOPIC_AUTHORIZATION_FAILED for the group",),
    ),
    "StreamsGroupHeartbeat": Guard(
        (
            group_check(_O.READ),
            Whole(need(_R.TOPIC, _O.DESCRIBE), topology_topics, " of each name in a topology"),
        ),
        asks=True, what=("CREATE on the cluster or the topic, for each internal topic that is missing: in the status",),
    ),
    "StreamsGroupDescribe": Guard(
        each=(each_name("group_ids", "groups", need(_R.GROUP, _O.DESCRIBE), place=FIRST),),
        seen=(authorized_operations("groups", _R.GROUP, "authorized_operations", "group_id"), hide_topologies),
        what=("DESCRIBE on the topic, for each topic of the topology: TOPIC_AUTHORIZATION_FAILED for the group",),
    ),
    "ShareGroupHeartbeat": Guard((
        group_check(_O.READ),
        Whole(need(_R.TOPIC, _O.DESCRIBE), subscription_topics, " of each name that is subscribed to"),
    )),
    "ShareGroupDescribe": Guard(
        each=(each_name("group_ids", "groups", need(_R.GROUP, _O.DESCRIBE), place=FIRST),),
        seen=(authorized_operations("groups", _R.GROUP, "authorized_operations", "group_id"), hide_readers),
        what=("DESCRIBE on the topic, for each topic of a member: TOPIC_AUTHORIZATION_FAILED for the group",),
    ),
    "ShareFetch": Guard(
        (group_check(_O.READ),), asks=True, what=("READ on the topic, for each topic: TOPIC_AUTHORIZATION_FAILED",)
    ),
    "ShareAcknowledge": Guard(
        (group_check(_O.READ),), asks=True, what=("READ on the topic, for each topic: TOPIC_AUTHORIZATION_FAILED",)
    ),
    "DescribeShareGroupOffsets": Guard(
        each=(Each("groups", "groups", lambda asking: lambda one: (
            None if asking.rights.may(_O.DESCRIBE, _R.GROUP, one.group_id) else _GROUP_DENIED)),),
        seen=(hide_share_offsets,),
        what=("DESCRIBE on the topic, for each: TOPIC_AUTHORIZATION_FAILED, or left out where all are asked for",),
    ),
    "AlterShareGroupOffsets": Guard(
        (group_check(_O.READ),),
        (each_topic("topics", "responses", _O.READ, refuse=refuse_share_topics),),
    ),
    "DeleteShareGroupOffsets": Guard(
        (group_check(_O.DELETE),),
        (each_topic("topics", "responses", _O.READ, place=FIRST, refuse=refuse_share_topics),),
    ),
    "ListGroups": Guard(
        seen=(hide_what_is_denied("groups", _R.GROUP, "group_id", _DESCRIBES),),
        what=("DESCRIBE on the cluster, or on the group, for each group: left out",),
    ),
    "DeleteGroups": Guard(each=(each_name("groups_names", "results", need(_R.GROUP, _O.DELETE), place=FIRST),)),
    # transactions
    "InitProducerId": Guard((
        _TRANSACTION,
        Whole(need(_R.CLUSTER, _O.IDEMPOTENT_WRITE), any_producer,
              ", or WRITE on any topic, for a producer without transactions"),
    )),
    "AddPartitionsToTxn": Guard(
        (transactional_id_check(own_transaction), Whole(_ACTS, of_brokers, " from version 4 on, which is for brokers")),
        asks=True, what=("WRITE on the topic, for each topic before version 4: TOPIC_AUTHORIZATION_FAILED, "
                         "and OPERATION_NOT_ATTEMPTED for the others",),
    ),
    "AddOffsetsToTxn": Guard((_TRANSACTION, group_check(_O.READ))),
    "EndTxn": Guard((_TRANSACTION,)),
    "TxnOffsetCommit": Guard(
        (_TRANSACTION, group_check(_O.READ)),
        (each_topic("topics", "topics", _O.READ, place=FIRST),),
        is_of_commits=True,
    ),
    "DescribeTransactions": Guard(
        each=(Each("transactional_ids", "transaction_states", lambda asking: lambda name: (
            None if asking.rights.may(_O.DESCRIBE, _R.TRANSACTIONAL_ID, name)
            else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), finish=of_nobody,
            what="DESCRIBE on the transactional id, for each: TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),),
        seen=(transaction_topics,), what=("DESCRIBE on the topic, for each topic of a transaction: left out",),
    ),
    "ListTransactions": Guard(
        seen=(hide_what_is_denied("transaction_states", _R.TRANSACTIONAL_ID, "transactional_id"),),
        what=("DESCRIBE on the transactional id, for each: left out",),
    ),
    # records
    "Produce": Guard(
        (transactional_id_check(produce_transaction),), (each_topic("topic_data", "responses", _O.WRITE),)
    ),
    "Fetch": Guard(asks=True, what=("READ on the topic, for each topic: TOPIC_AUTHORIZATION_FAILED",)),
    "ListOffsets": Guard(each=(each_topic("topics", "topics", _O.DESCRIBE),)),
    "OffsetForLeaderEpoch": Guard(each=(each_topic("topics", "topics", _O.DESCRIBE, unless=_ACTS),)),
    "DeleteRecords": Guard(each=(each_topic("topics", "topics", _O.DELETE),)),
    "DescribeProducers": Guard(each=(
        each_topic("topics", "topics", _O.READ, place=IN_ORDER, is_checked=valid_name, refuse=refuse_producers),
    )),
    # topics
    "Metadata": Guard(
        seen=(see_topics, authorized_operations("topics", _R.TOPIC, "topic_authorized_operations", "name"),
              cluster_operations),
        asks=True,
        what=("DESCRIBE on the topic, for each topic: TOPIC_AUTHORIZATION_FAILED, or left out where all are asked for",
              "CREATE on the cluster or the topic, for each that would be created: TOPIC_AUTHORIZATION_FAILED"),
    ),
    "DescribeTopicPartitions": Guard(
        each=(each_topic("topics", "topics", _O.DESCRIBE, is_checked=before_cursor),),
        seen=(authorized_operations("topics", _R.TOPIC, "topic_authorized_operations", "name"),), asks=True,
    ),
    "CreateTopics": Guard(
        each=(each_topic("topics", "topics", _O.CREATE, is_checked=once("topics"), unless=_CREATES,
                          message=AUTHORIZATION_FAILED),),
        seen=(hide_configs,),
        what=("DESCRIBE_CONFIGS on the topic, for the settings in the response: "
              "TOPIC_AUTHORIZATION_FAILED in topic_config_error_code",),
    ),
    "DeleteTopics": Guard(each=tuple(
        Each(array, "responses", deletable_topics(), LAST, AUTHORIZATION_FAILED,
             "DELETE on the topic or the cluster, for each topic: TOPIC_AUTHORIZATION_FAILED", name_deleted_topic)
        for array in ("topics", "topic_names")
    )),
    "CreatePartitions": Guard(
        each=(each_topic("topics", "results", _O.ALTER, place=FIRST, is_checked=once("topics")),)
    ),
    # configs
    "DescribeConfigs": Guard(each=(each_config(_O.DESCRIBE_CONFIGS, "results", LAST),)),
    "AlterConfigs": Guard(each=(each_config(_O.ALTER_CONFIGS, "responses", IN_ORDER, BROKER_LOGGER),)),
    "IncrementalAlterConfigs": Guard(each=(each_config(_O.ALTER_CONFIGS, "responses", IN_ORDER),)),
    "ListConfigResources": Guard((cluster_check(_O.DESCRIBE_CONFIGS),)),
    # the cluster
    "DescribeCluster": Guard(
        seen=(cluster_operations,), what=("DESCRIBE on the cluster, for its authorized operations: none",)
    ),
    "DescribeLogDirs": Guard((cluster_check(_O.DESCRIBE, refuse=refuse_log_dirs),)),
    "AlterReplicaLogDirs": Guard((cluster_check(_O.ALTER),)),
    "ElectLeaders": Guard((cluster_check(_O.ALTER, refuse=refuse_everywhere),)),
    "AlterPartitionReassignments": Guard((cluster_check(_O.ALTER, refuse=refuse_everywhere),)),
    "ListPartitionReassignments": Guard((cluster_check(_O.DESCRIBE, refuse=refuse_to_list_reassignments),)),
    "DescribeQuorum": Guard((cluster_check(_O.DESCRIBE),)),
    "DescribeAcls": Guard((cluster_check(_O.DESCRIBE),)),
    "CreateAcls": Guard((cluster_check(_O.ALTER),)),
    "DeleteAcls": Guard((cluster_check(_O.ALTER),)),
    "AlterClientQuotas": Guard((cluster_check(_O.ALTER_CONFIGS, refuse=refuse_to_alter_quotas),)),
    "UpdateFeatures": Guard((cluster_check(_O.ALTER),)),
    "UnregisterBroker": Guard((cluster_check(_O.ALTER),)),
    "AddRaftVoter": Guard((cluster_check(_O.ALTER),)),
    "RemoveRaftVoter": Guard((cluster_check(_O.ALTER),)),
    **{
        api: Guard((cluster_check(_O.CLUSTER_ACTION, refuse=refuse_states),))
        for api in ("DeleteShareGroupState", "InitializeShareGroupState", "ReadShareGroupState",
                    "ReadShareGroupStateSummary", "WriteShareGroupState")
    },
    "WriteTxnMarkers": Guard((cluster_check(_O.ALTER, _O.CLUSTER_ACTION),)),
    "DescribeClientQuotas": Guard((cluster_check(_O.DESCRIBE_CONFIGS, refuse=refuse_quotas),)),
    "AlterUserScramCredentials": Guard((cluster_check(_O.ALTER),)),
    "DescribeUserScramCredentials": Guard((cluster_check(_O.DESCRIBE, refuse=refuse_credentials),)),
}  # fmt: skip

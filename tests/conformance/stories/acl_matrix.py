"""Each API, asked with each right on what it is about: one story an API, made from the table below.

The requests change nothing: what is not denied fails for another reason, validates only, or is the same twice.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tests.conformance.actors import subscription
from tests.conformance.batches import batch
from tests.conformance.rights import CLUSTER, GROUP, SINGLE, TOPIC, TRANSACTIONAL_ID, Check, matrix
from tests.conformance.stage import Stage
from tests.conformance.stories.topics import new
from tests.conformance.story import story

Values = Callable[[Stage], dict[str, Any]]

READ_GROUP: Final = Check(GROUP, "g", "READ")
READ_TOPIC: Final = Check(TOPIC, "t", "READ")
WRITE_TOPIC: Final = Check(TOPIC, "t", "WRITE")
DESCRIBE_TOPIC: Final = Check(TOPIC, "t", "DESCRIBE")
WRITE_ID: Final = Check(TRANSACTIONAL_ID, "x", "WRITE")
MEMBER: Final = {"member_id": "m", "generation_id": 1, "group_instance_id": None}
PRODUCER: Final = {"producer_id": 10**12, "producer_epoch": 0}
PART: Final = {"partition_index": 0, "committed_offset": 1, "committed_metadata": "", "committed_leader_epoch": -1}


def cluster(operation: str) -> tuple[Check, ...]:
    return (Check(CLUSTER, SINGLE, operation),)


class Case(NamedTuple):
    """A request, and the rights that it needs, in the order in which they are looked at."""

    api: str
    version: int
    checks: tuple[Check, ...]
    values: Values
    rules: str = "V-007"
    name: str = ""  # of the story, behind `rights_of_`
    topics: tuple[str, ...] = ("t",)


def offsets(k: Stage) -> list[dict[str, Any]]:
    return [{"name": k.name("t"), "partitions": [PART]}]


def acl(k: Stage) -> dict[str, Any]:
    """An ACL that gives nobody anything."""
    kind = {"resource_type": 2, "resource_name": k.name("none"), "resource_pattern_type": 3}
    return {**kind, "principal": f"User:{k.name('nobody')}", "host": "*", "operation": 3, "permission_type": 3}


def acl_filter(k: Stage) -> dict[str, Any]:
    return {
        "resource_type_filter": 2,
        "resource_name_filter": k.name("never"),
        "pattern_type_filter": 3,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }


CASES: Final = (
    # -- groups
    Case("find_coordinator", 6, (Check(GROUP, "g", "DESCRIBE"),),
         lambda k: {"key_type": 0, "coordinator_keys": [k.name("g")]}, "F-005"),
    Case("find_coordinator", 3, (Check(GROUP, "g", "DESCRIBE"),),
         lambda k: {"key_type": 0, "key": k.name("g")}, "F-005", "find_coordinator_of_one_group"),
    Case("find_coordinator", 6, (Check(TRANSACTIONAL_ID, "x", "DESCRIBE"),),
         lambda k: {"key_type": 1, "coordinator_keys": [k.name("x")]}, "F-006", "find_coordinator_of_transactions"),
    Case("join_group", 9, (READ_GROUP,),
         lambda k: {"group_id": k.name("g"), "session_timeout_ms": 30_000, "rebalance_timeout_ms": 30_000, "member_id": "",
                    "protocol_type": "consumer",
                    "protocols": [{"name": "range", "metadata": subscription(k.name("t"))}]}),
    Case("sync_group", 5, (READ_GROUP,), lambda k: {"group_id": k.name("g"), **MEMBER, "assignments": [],
                                                     "protocol_type": "consumer", "protocol_name": "range"}),
    Case("heartbeat", 4, (READ_GROUP,), lambda k: {"group_id": k.name("g"), **MEMBER}),
    Case("leave_group", 5, (READ_GROUP,),
         lambda k: {"group_id": k.name("g"), "members": [{"member_id": "m", "group_instance_id": None, "reason": None}]}),
    Case("leave_group", 2, (READ_GROUP,), lambda k: {"group_id": k.name("g"), "member_id": "m"}, name="leave_group_of_one"),
    Case("consumer_group_heartbeat", 1, (READ_GROUP, DESCRIBE_TOPIC),
         lambda k: {"group_id": k.name("g"), "member_id": "m", "member_epoch": 7, "instance_id": None, "rack_id": None,
                    "rebalance_timeout_ms": -1, "subscribed_topic_names": [k.name("t")], "server_assignor": None,
                    "subscribed_topic_regex": None, "topic_partitions": None}, "K-003 K-004"),
    Case("offset_commit", 9, (READ_GROUP, READ_TOPIC),
         lambda k: {"group_id": k.name("g"), "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None,
                    "topics": offsets(k)}, "O-002 O-110"),
    Case("offset_commit", 10, (READ_GROUP, READ_TOPIC),
         lambda k: {"group_id": k.name("g"), "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None,
                    "topics": [{"topic_id": k.topic_id(k.name("t")), "partitions": [PART]}]}, "O-002 O-110",
         "offset_commit_by_id"),
    Case("offset_fetch", 9, (Check(GROUP, "g", "DESCRIBE"), DESCRIBE_TOPIC),
         lambda k: {"groups": [{"group_id": k.name("g"), "member_id": None, "member_epoch": -1,
                                "topics": [{"name": k.name("t"), "partition_indexes": [0]}]}]}, "O-202"),
    Case("offset_fetch", 10, (Check(GROUP, "g", "DESCRIBE"), DESCRIBE_TOPIC),
         lambda k: {"groups": [{"group_id": k.name("g"), "member_id": None, "member_epoch": -1,
                                "topics": [{"topic_id": k.topic_id(k.name("t")), "partition_indexes": [0]}]}]}, "O-202",
         "offset_fetch_by_id"),
    Case("offset_fetch", 5, (Check(GROUP, "g", "DESCRIBE"), DESCRIBE_TOPIC),
         lambda k: {"group_id": k.name("g"), "topics": [{"name": k.name("t"), "partition_indexes": [0, 9]}]}, "O-202",
         "offset_fetch_of_one_group"),
    Case("offset_delete", 0, (Check(GROUP, "g", "DELETE"), READ_TOPIC),
         lambda k: {"group_id": k.name("g"), "topics": [{"name": k.name("t"), "partitions": [{"partition_index": 0}]}]},
         "O-300"),
    Case("describe_groups", 6, (Check(GROUP, "g", "DESCRIBE"),),
         lambda k: {"groups": [k.name("g")], "include_authorized_operations": True}, "A-001"),
    Case("consumer_group_describe", 1, (Check(GROUP, "g", "DESCRIBE"),),
         lambda k: {"group_ids": [k.name("g")], "include_authorized_operations": True}, "K-311"),
    Case("delete_groups", 2, (Check(GROUP, "g", "DELETE"),), lambda k: {"groups_names": [k.name("g")]}, "A-101"),
    # -- transactions
    Case("init_producer_id", 5, (WRITE_ID,),
         lambda k: {"transactional_id": k.name("x"), "transaction_timeout_ms": 0, "producer_id": -1, "producer_epoch": -1}),
    Case("add_partitions_to_txn", 3, (WRITE_ID, WRITE_TOPIC),
         lambda k: {"v3_and_below_transactional_id": k.name("x"), "v3_and_below_producer_id": 10**12,
                    "v3_and_below_producer_epoch": 0,
                    "v3_and_below_topics": [{"name": k.name("t"), "partitions": [0]}]}),
    Case("add_partitions_to_txn", 5, cluster("CLUSTER_ACTION"),
         lambda k: {"transactions": [{"transactional_id": k.name("x"), **PRODUCER, "verify_only": True,
                                      "topics": [{"name": k.name("t"), "partitions": [0]}]}]},
         name="add_partitions_to_txn_of_brokers"),
    Case("add_offsets_to_txn", 4, (WRITE_ID, READ_GROUP),
         lambda k: {"transactional_id": k.name("x"), **PRODUCER, "group_id": k.name("g")}),
    Case("end_txn", 4, (WRITE_ID,), lambda k: {"transactional_id": k.name("x"), **PRODUCER, "committed": True}),
    Case("txn_offset_commit", 4, (WRITE_ID, READ_GROUP, READ_TOPIC),
         lambda k: {"transactional_id": k.name("x"), "group_id": k.name("g"), **PRODUCER, "generation_id": -1,
                    "member_id": "", "group_instance_id": None, "topics": offsets(k)}, "O-111"),
    Case("describe_transactions", 0, (Check(TRANSACTIONAL_ID, "x", "DESCRIBE"),),
         lambda k: {"transactional_ids": [k.name("x")]}),
    Case("write_txn_markers", 1, cluster("ALTER"), lambda k: {"markers": [
        {"producer_id": 10**12, "producer_epoch": 0, "transaction_result": False, "coordinator_epoch": 0,
         "topics": [{"name": k.name("t"), "partition_indexes": [9]}]}]}),
    # -- records
    Case("produce", 12, (WRITE_TOPIC,),
         lambda k: {"transactional_id": None, "acks": -1, "timeout_ms": 5000,
                    "topic_data": [{"name": k.name("t"), "partition_data": [{"index": 9, "records": batch(b"a")}]}]}),
    Case("produce", 13, (WRITE_TOPIC,),
         lambda k: {"transactional_id": None, "acks": -1, "timeout_ms": 5000,
                    "topic_data": [{"topic_id": k.topic_id(k.name("t")),
                                    "partition_data": [{"index": 9, "records": batch(b"a")}]}]}, name="produce_by_id"),
    Case("produce", 11, (WRITE_ID, WRITE_TOPIC),
         lambda k: {"transactional_id": k.name("x"), "acks": -1, "timeout_ms": 5000,
                    "topic_data": [{"name": k.name("t"), "partition_data": [
                        {"index": 9, "records": batch(b"a", producer_id=10**12, epoch=0, sequence=0, attributes=0x10)}]}]},
         name="produce_in_a_transaction"),
    Case("fetch", 12, (READ_TOPIC,),
         lambda k: {"max_wait_ms": 0, "min_bytes": 0, "session_id": 0, "session_epoch": -1, "rack_id": "",
                    "topics": [{"topic": k.name("t"), "partitions": [{"partition": 0, "partition_max_bytes": 1000}]}],
                    "forgotten_topics_data": []}),
    Case("fetch", 16, (READ_TOPIC,),
         lambda k: {"max_wait_ms": 0, "min_bytes": 0, "session_id": 0, "session_epoch": -1, "rack_id": "",
                    "topics": [{"topic_id": k.topic_id(k.name("t")),
                                "partitions": [{"partition": 0, "partition_max_bytes": 1000}]}],
                    "forgotten_topics_data": []}, name="fetch_by_id"),
    Case("list_offsets", 9, (DESCRIBE_TOPIC,),
         lambda k: {"replica_id": -1, "topics": [{"name": k.name("t"), "partitions": [
             {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}]}]}),
    Case("offset_for_leader_epoch", 4, (DESCRIBE_TOPIC,),
         lambda k: {"replica_id": -2, "topics": [{"topic": k.name("t"), "partitions": [
             {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}]}),
    Case("offset_for_leader_epoch", 4, cluster("CLUSTER_ACTION"),
         lambda k: {"replica_id": -2, "topics": [{"topic": k.name("t"), "partitions": [
             {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}]}, name="offset_for_leader_epoch_of_brokers"),
    Case("delete_records", 2, (Check(TOPIC, "t", "DELETE"),),
         lambda k: {"timeout_ms": 5000, "topics": [{"name": k.name("t"), "partitions": [
             {"partition_index": 0, "offset": 0}]}]}),
    Case("describe_producers", 0, (READ_TOPIC,),
         lambda k: {"topics": [{"name": k.name("t"), "partition_indexes": [0]}]}),
    # -- topics
    Case("metadata", 12, (DESCRIBE_TOPIC,),
         lambda k: {"topics": [{"topic_id": None, "name": k.name("t")}], "allow_auto_topic_creation": False,
                    "include_topic_authorized_operations": True}),
    Case("metadata", 13, (DESCRIBE_TOPIC,),
         lambda k: {"topics": [{"topic_id": k.topic_id(k.name("t")), "name": None}], "allow_auto_topic_creation": False,
                    "include_topic_authorized_operations": False}, name="metadata_by_id"),
    Case("describe_topic_partitions", 0, (DESCRIBE_TOPIC,),
         lambda k: {"topics": [{"name": k.name("t")}], "response_partition_limit": 10, "cursor": None}),
    Case("create_topics", 7, (Check(TOPIC, "n", "CREATE"),),
         lambda k: {"timeout_ms": 5000, "validate_only": True, "topics": [new(k.name("n"))]}),
    Case("create_topics", 7, (*cluster("CREATE"), Check(TOPIC, "n", "DESCRIBE_CONFIGS")),
         lambda k: {"timeout_ms": 5000, "validate_only": True, "topics": [new(k.name("n"))]},
         name="create_topics_anywhere"),
    Case("delete_topics", 6, (Check(TOPIC, "n", "DELETE"),),
         lambda k: {"timeout_ms": 5000, "topics": [{"name": k.name("n"), "topic_id": None}]}),
    Case("delete_topics", 6, cluster("DELETE"),
         lambda k: {"timeout_ms": 5000, "topics": [{"name": k.name("n"), "topic_id": None}]}, name="delete_topics_anywhere"),
    Case("create_partitions", 3, (Check(TOPIC, "t", "ALTER"),),
         lambda k: {"timeout_ms": 5000, "validate_only": True,
                    "topics": [{"name": k.name("t"), "count": 2, "assignments": None}]}),
    # -- configs
    Case("describe_configs", 4, (Check(TOPIC, "t", "DESCRIBE_CONFIGS"),),
         lambda k: {"resources": [{"resource_type": 2, "resource_name": k.name("t"), "configuration_keys": None}]},
         name="describe_configs_of_a_topic"),
    Case("describe_configs", 4, (Check(GROUP, "g", "DESCRIBE_CONFIGS"),),
         lambda k: {"resources": [{"resource_type": 32, "resource_name": k.name("g"), "configuration_keys": None}]},
         "K-335", "describe_configs_of_a_group"),
    Case("describe_configs", 4, cluster("DESCRIBE_CONFIGS"),
         lambda k: {"resources": [{"resource_type": 4, "resource_name": "0", "configuration_keys": ["node.id"]}]},
         name="describe_configs_of_the_broker"),
    Case("alter_configs", 2, (Check(TOPIC, "t", "ALTER_CONFIGS"),),
         lambda k: {"validate_only": True,
                    "resources": [{"resource_type": 2, "resource_name": k.name("t"), "configs": []}]},
         name="alter_configs_of_a_topic"),
    Case("incremental_alter_configs", 1, (Check(TOPIC, "t", "ALTER_CONFIGS"),),
         lambda k: {"validate_only": True,
                    "resources": [{"resource_type": 2, "resource_name": k.name("t"), "configs": []}]},
         name="incremental_alter_configs_of_a_topic"),
    Case("incremental_alter_configs", 1, (Check(GROUP, "g", "ALTER_CONFIGS"),),
         lambda k: {"validate_only": True,
                    "resources": [{"resource_type": 32, "resource_name": k.name("g"), "configs": []}]},
         "K-335", "incremental_alter_configs_of_a_group"),
    Case("incremental_alter_configs", 1, cluster("ALTER_CONFIGS"),
         lambda k: {"validate_only": True, "resources": [{"resource_type": 4, "resource_name": "0", "configs": []}]},
         name="incremental_alter_configs_of_the_broker"),
    Case("list_config_resources", 1, cluster("DESCRIBE_CONFIGS"), lambda k: {"resource_types": [4]}),
    # -- the cluster
    Case("describe_cluster", 2, cluster("DESCRIBE"),
         lambda k: {"include_cluster_authorized_operations": True, "endpoint_type": 1, "include_fenced_brokers": False}),
    Case("describe_log_dirs", 4, cluster("DESCRIBE"), lambda k: {"topics": []}),
    Case("describe_log_dirs", 2, cluster("DESCRIBE"), lambda k: {"topics": []}, name="describe_log_dirs_without_a_code"),
    Case("alter_replica_log_dirs", 2, cluster("ALTER"),
         lambda k: {"dirs": [{"path": "/not/there", "topics": [{"name": k.name("t"), "partitions": [0]}]}]}),
    Case("elect_leaders", 2, cluster("ALTER"),
         lambda k: {"election_type": 0, "timeout_ms": 5000,
                    "topic_partitions": [{"topic": k.name("t"), "partitions": [0]}]}),
    Case("elect_leaders", 0, cluster("ALTER"),
         lambda k: {"timeout_ms": 5000, "topic_partitions": [{"topic": k.name("t"), "partitions": [0]}]},
         name="elect_leaders_without_a_code"),
    Case("alter_partition_reassignments", 1, cluster("ALTER"),
         lambda k: {"timeout_ms": 5000, "topics": [{"name": k.name("none"), "partitions": [
             {"partition_index": 0, "replicas": None}]}]}),
    Case("list_partition_reassignments", 0, cluster("DESCRIBE"),
         lambda k: {"timeout_ms": 5000, "topics": [{"name": k.name("t"), "partition_indexes": [0]}]}),
    Case("describe_quorum", 2, cluster("DESCRIBE"),
         lambda k: {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}),
    Case("describe_acls", 3, cluster("DESCRIBE"), acl_filter),
    Case("create_acls", 3, cluster("ALTER"), lambda k: {"creations": [acl(k), acl(k)]}),
    Case("delete_acls", 3, cluster("ALTER"), lambda k: {"filters": [acl_filter(k)]}),
    Case("describe_client_quotas", 1, cluster("DESCRIBE_CONFIGS"),
         lambda k: {"components": [{"entity_type": "ip", "match_type": 0, "match": "10.9.9.9"}], "strict": False}),
    Case("alter_client_quotas", 1, cluster("ALTER_CONFIGS"),
         lambda k: {"validate_only": True, "entries": [
             {"entity": [{"entity_type": "client-id", "entity_name": k.name("c")}],
              "ops": [{"key": "producer_byte_rate", "value": 1.0, "remove": False}]}]}),
    Case("describe_user_scram_credentials", 0, cluster("DESCRIBE"), lambda k: {"users": [{"name": k.name("nobody")}]}),
    Case("alter_user_scram_credentials", 0, cluster("ALTER"),
         lambda k: {"deletions": [{"name": k.name("nobody"), "mechanism": 1}], "upsertions": []}),
    Case("update_features", 2, cluster("ALTER"),
         lambda k: {"timeout_ms": 5000, "validate_only": True,
                    "feature_updates": [{"feature": "group.version", "max_version_level": 1, "upgrade_type": 1}]}),
    Case("unregister_broker", 0, cluster("ALTER"), lambda k: {"broker_id": 99}),
    Case("add_raft_voter", 1, cluster("ALTER"),
         lambda k: {"cluster_id": None, "timeout_ms": 5000, "voter_id": 9, "voter_directory_id": None, "listeners": [],
                    "ack_when_committed": True}),
    Case("remove_raft_voter", 0, cluster("ALTER"),
         lambda k: {"cluster_id": None, "voter_id": 9, "voter_directory_id": None}),
    Case("create_delegation_token", 3, cluster("ALTER"),
         lambda k: {"owner_principal_type": None, "owner_principal_name": None, "renewers": [], "max_lifetime_ms": -1}),
    Case("describe_delegation_token", 3, cluster("DESCRIBE"), lambda k: {"owners": None}),
)  # fmt: skip


def tell(case: Case) -> None:
    def script(k: Stage) -> None:
        for name in case.topics:
            k.topic(name)
        matrix(k, case.api, case.version, case.checks, case.values)

    script.__name__ = f"rights_of_{case.name or case.api}"
    script.__doc__ = f"{case.api} with each right on {', then on '.join(one.type for one in case.checks)}."
    script.__module__ = __name__
    story(case.rules, server="acls")(script)


for each in CASES:
    tell(each)

"""The one table of the APIs: which there are, in which versions, and where their messages are drawn.

The ApiVersions answer, the names of metrics and the tables of the docs are read off it. It says what can be read and
written; which of that a server offers is for the server to say, by what it can answer.

The module of an API is imported when its schemas are first asked for, so importing the table costs next to nothing.
"""

from collections.abc import Mapping
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from protocol.schema import Message, Schema


class API(msgspec.Struct, frozen=True, eq=False, dict=True):
    """One row. The ranges are Python's: their ends are one past the highest version."""

    key: int
    name: str  # Kafka's
    module: str  # in protocol.messages
    versions: range  # that the schemas know, from 0 on
    flexible_since: int | None  # None: no version is flexible
    kafka_4_3: range | None  # what Apache Kafka 4.3.1 advertises; None: not without a plugin
    kafka_3_9: range | None  # what Apache Kafka 3.9 does, the last that answers what KIP-896 took out

    @cached_property
    def messages(self) -> ModuleType:
        return import_module(f"{__package__}.messages.{self.module}")

    @cached_property
    def request(self) -> "Schema":
        schema: Schema = self.messages.REQUEST
        return schema

    @cached_property
    def response(self) -> "Schema":
        schema: Schema = self.messages.RESPONSE
        return schema

    @cached_property
    def changes(self) -> Mapping[int, str]:
        """What each version brought, with its KIP."""
        changes: Mapping[int, str] = self.messages.CHANGES
        return changes

    def is_flexible(self, version: int) -> bool:
        """Return whether a version has compact lengths and tagged fields (KIP-482)."""
        return self.flexible_since is not None and version >= self.flexible_since

    def request_header_version(self, version: int) -> int:
        """1 has a client id, and 2 tagged fields behind it. (Header 0 went with an API between old brokers.)"""
        return 2 if self.is_flexible(version) else 1

    def response_header_version(self, version: int) -> int:
        """1 has tagged fields. A client reads the ApiVersions answer before it knows whether the server has them."""
        return 1 if self.is_flexible(version) and self.key != API_VERSIONS else 0


def _upto(highest: int) -> range:
    return range(highest + 1)


def _span(lowest: int, highest: int) -> range:
    return range(lowest, highest + 1)


PRODUCE = 0
FETCH = 1
API_VERSIONS = 18

# fmt: off
TABLE = (
    #   key  name                         module                        versions   flexible  in 4.3.1    in 3.9
    API(PRODUCE, "Produce",              "produce",                    _upto(13),  9,    _span(0, 13), _span(0, 11)),
    API(1,  "Fetch",                     "fetch",                      _upto(18), 12,    _span(4, 18), _span(0, 17)),
    API(2,  "ListOffsets",               "list_offsets",               _upto(11),  6,    _span(1, 11), _span(0, 9)),
    API(3,  "Metadata",                  "metadata",                   _upto(13),  9,    _span(0, 13), _span(0, 12)),
    API(8,  "OffsetCommit",              "offset_commit",              _upto(10),  8,    _span(2, 10), _span(0, 9)),
    API(9,  "OffsetFetch",               "offset_fetch",               _upto(10),  6,    _span(1, 10), _span(0, 9)),
    API(10, "FindCoordinator",           "find_coordinator",           _upto(6),   3,    _span(0, 6),  _span(0, 6)),
    API(11, "JoinGroup",                 "join_group",                 _upto(9),   6,    _span(0, 9),  _span(0, 9)),
    API(12, "Heartbeat",                 "heartbeat",                  _upto(4),   4,    _span(0, 4),  _span(0, 4)),
    API(13, "LeaveGroup",                "leave_group",                _upto(5),   4,    _span(0, 5),  _span(0, 5)),
    API(14, "SyncGroup",                 "sync_group",                 _upto(5),   4,    _span(0, 5),  _span(0, 5)),
    API(15, "DescribeGroups",            "describe_groups",            _upto(6),   5,    _span(0, 6),  _span(0, 5)),
    API(16, "ListGroups",                "list_groups",                _upto(5),   3,    _span(0, 5),  _span(0, 5)),
    API(17, "SaslHandshake",             "sasl_handshake",             _upto(1),   None, _span(0, 1),  _span(0, 1)),
    API(API_VERSIONS, "ApiVersions",     "api_versions",               _upto(4),   3,    _span(0, 4),  _span(0, 4)),
    API(19, "CreateTopics",              "create_topics",              _upto(7),   5,    _span(2, 7),  _span(0, 7)),
    API(20, "DeleteTopics",              "delete_topics",              _upto(6),   4,    _span(1, 6),  _span(0, 6)),
    API(21, "DeleteRecords",             "delete_records",             _upto(2),   2,    _span(0, 2),  _span(0, 2)),
    API(22, "InitProducerId",            "init_producer_id",           _upto(6),   2,    _span(0, 5),  _span(0, 5)),
    API(23, "OffsetForLeaderEpoch",      "offset_for_leader_epoch",    _upto(4),   4,    _span(2, 4),  _span(0, 4)),
    API(24, "AddPartitionsToTxn",        "add_partitions_to_txn",      _upto(5),   3,    _span(0, 5),  _span(0, 5)),
    API(25, "AddOffsetsToTxn",           "add_offsets_to_txn",         _upto(4),   3,    _span(0, 4),  _span(0, 4)),
    API(26, "EndTxn",                    "end_txn",                    _upto(5),   3,    _span(0, 5),  _span(0, 4)),
    API(27, "WriteTxnMarkers",           "write_txn_markers",          _upto(2),   1,    _span(1, 2),  _span(0, 1)),
    API(28, "TxnOffsetCommit",           "txn_offset_commit",          _upto(5),   3,    _span(0, 5),  _span(0, 4)),
    API(29, "DescribeAcls",              "describe_acls",               _upto(3), 2, _span(1, 3), _span(0, 3)),
    API(30, "CreateAcls",                "create_acls",                 _upto(3), 2, _span(1, 3), _span(0, 3)),
    API(31, "DeleteAcls",                "delete_acls",                 _upto(3), 2, _span(1, 3), _span(0, 3)),
    API(32, "DescribeConfigs",           "describe_configs",           _upto(4),   4,    _span(1, 4),  _span(0, 4)),
    API(33, "AlterConfigs",              "alter_configs",              _upto(2),   2,    _span(0, 2),  _span(0, 2)),
    API(34, "AlterReplicaLogDirs",       "alter_replica_log_dirs",      _upto(2), 2, _span(1, 2), _span(0, 2)),
    API(35, "DescribeLogDirs",           "describe_log_dirs",           _upto(5), 2, _span(1, 5), _span(0, 4)),
    API(36, "SaslAuthenticate",          "sasl_authenticate",          _upto(2),   2,    _span(0, 2),  _span(0, 2)),
    API(37, "CreatePartitions",          "create_partitions",          _upto(3),   2,    _span(0, 3),  _span(0, 3)),
    API(38, "CreateDelegationToken",     "create_delegation_token",     _upto(3), 2, _span(1, 3), _span(0, 3)),
    API(39, "RenewDelegationToken",      "renew_delegation_token",      _upto(2), 2, _span(1, 2), _span(0, 2)),
    API(40, "ExpireDelegationToken",     "expire_delegation_token",     _upto(2), 2, _span(1, 2), _span(0, 2)),
    API(41, "DescribeDelegationToken",   "describe_delegation_token",   _upto(3), 2, _span(1, 3), _span(0, 3)),
    API(42, "DeleteGroups",              "delete_groups",              _upto(2),   2,    _span(0, 2),  _span(0, 2)),
    API(43, "ElectLeaders",              "elect_leaders",               _upto(2), 2, _span(0, 2), _span(0, 2)),
    API(44, "IncrementalAlterConfigs",   "incremental_alter_configs",  _upto(1),   1,    _span(0, 1),  _span(0, 1)),
    API(45, "AlterPartitionReassignments", "alter_partition_reassignments", _upto(1), 0, _span(0, 1), _span(0, 0)),
    API(46, "ListPartitionReassignments", "list_partition_reassignments", _upto(0), 0, _span(0, 0), _span(0, 0)),
    API(47, "OffsetDelete",              "offset_delete",              _upto(0),   None, _span(0, 0),  _span(0, 0)),
    API(48, "DescribeClientQuotas",      "describe_client_quotas",      _upto(1), 1, _span(0, 1), _span(0, 1)),
    API(49, "AlterClientQuotas",         "alter_client_quotas",        _upto(1),   1,    _span(0, 1),  _span(0, 1)),
    API(50, "DescribeUserScramCredentials", "describe_user_scram_credentials", _upto(0), 0, _span(0, 0), _span(0, 0)),
    API(51, "AlterUserScramCredentials", "alter_user_scram_credentials", _upto(0), 0, _span(0, 0), _span(0, 0)),
    API(55, "DescribeQuorum",            "describe_quorum",             _upto(2), 0, _span(0, 2), _span(0, 2)),
    API(57, "UpdateFeatures",            "update_features",            _upto(2),   0,    _span(0, 2),  _span(0, 1)),
    API(60, "DescribeCluster",           "describe_cluster",           _upto(2),   0,    _span(0, 2),  _span(0, 1)),
    API(61, "DescribeProducers",         "describe_producers",         _upto(0),   0,    _span(0, 0),  _span(0, 0)),
    API(64, "UnregisterBroker",          "unregister_broker",          _upto(0),   0,    _span(0, 0),  _span(0, 0)),
    API(65, "DescribeTransactions",      "describe_transactions",      _upto(0),   0,    _span(0, 0),  _span(0, 0)),
    API(66, "ListTransactions",          "list_transactions",          _upto(2),   0,    _span(0, 2),  _span(0, 1)),
    API(68, "ConsumerGroupHeartbeat",    "consumer_group_heartbeat",   _upto(1),   0,    _span(0, 1),  _span(0, 0)),
    API(69, "ConsumerGroupDescribe",     "consumer_group_describe",    _upto(1),   0,    _span(0, 1),  _span(0, 0)),
    API(71, "GetTelemetrySubscriptions", "get_telemetry_subscriptions", _upto(0),  0,    None,         None),
    API(74, "ListConfigResources",       "list_config_resources",      _upto(1),   0,    _span(0, 1),  _span(0, 0)),
    API(75, "DescribeTopicPartitions",   "describe_topic_partitions",  _upto(0),   0,    _span(0, 0),  _span(0, 0)),
    API(80, "AddRaftVoter",              "add_raft_voter",             _upto(1),   0,    _span(0, 1),  _span(0, 0)),
    API(81, "RemoveRaftVoter",           "remove_raft_voter",          _upto(0),   0,    _span(0, 0),  _span(0, 0)),
)
# fmt: on

APIS: Mapping[int, API] = {api.key: api for api in TABLE}
BY_NAME: Mapping[str, API] = {api.name: api for api in TABLE}
_BY_MODULE: Mapping[str, API] = {f"{__package__}.messages.{api.module}": api for api in TABLE}

# key -> versions that are advertised.
LATEST_RANGES: Mapping[int, range] = {api.key: api.kafka_4_3 for api in TABLE if api.kafka_4_3}
KAFKA_3_9_RANGES: Mapping[int, range] = {api.key: api.kafka_3_9 for api in TABLE if api.kafka_3_9}

# What is advertised and yet closes the connection, in Apache Kafka 4 and here: its records are message sets, the format
# before batches. Some librdkafka choose their format by the lowest version they see, so it is there (KAFKA-18659).
ADVERTISED_ONLY: frozenset[tuple[int, int]] = frozenset((PRODUCE, version) for version in (0, 1, 2))

assert len(APIS) == len(BY_NAME) == len(_BY_MODULE) == len(TABLE), "a key, name or module is there twice"


def api_of(message: "type[Message] | Message") -> API:
    """Return the API to which a message, or the class of one, belongs."""
    cls = message if isinstance(message, type) else type(message)
    return _BY_MODULE[cls.__module__]

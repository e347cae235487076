"""The one table of the APIs: which there are, in which versions, and where their messages are drawn.

The ApiVersions answer, the names of metrics and the tables of the docs are read off it, and how a server treats an API
(`traits`). It says what can be read and written; which of that a server offers is for the server to say, by what it can
answer.

The module of an API is imported when its schemas are first asked for, so importing the table costs next to nothing.
"""

import re
from collections.abc import Mapping
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

import msgspec

from protocol.traits import (
    ACQUIRE,
    BEAT,
    CHANGE,
    COMMIT,
    GREETING,
    HEARTBEAT,
    LOG_IN,
    LOOK_UP,
    MANY,
    MEMBER,
    OFFSETS,
    POLL,
    READ,
    READ_MACHINE,
    READ_TOKENS,
    RESIZE,
    TOKEN,
    WRITE,
    Trait,
)

if TYPE_CHECKING:
    from protocol.schema import Message, Schema


class API(msgspec.Struct, frozen=True, eq=False, dict=True):
    """One row. The ranges are Python's: their ends are one past the highest version."""

    key: int
    name: str  # Kafka's
    versions: range  # that the schemas know
    flexible_since: int | None  # None: no version is flexible
    kafka_4_3: range | None  # what Apache Kafka 4.3.1 advertises; None: not without a plugin
    kafka_3_9: range | None  # what Apache Kafka 3.9 does, the last that answers what KIP-896 took out
    traits: Trait  # what a server has to know of it; each READS or CHANGES

    @cached_property
    def module(self) -> str:
        """The module of its messages: the name in snake case."""
        return re.sub("(?<!^)(?=[A-Z])", "_", self.name).lower()

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
    #   key name                             versions    flex.  in 4.3.1       in 3.9         traits
    API(PRODUCE, "Produce",                  _upto(13),  9,     _span(0, 13),  _span(0, 11),  WRITE),
    API(1,  "Fetch",                         _upto(18),  12,    _span(4, 18),  _span(0, 17),  POLL),
    API(2,  "ListOffsets",                   _upto(11),  6,     _span(1, 11),  _span(0, 9),   READ),
    API(3,  "Metadata",                      _upto(13),  9,     _span(0, 13),  _span(0, 12),  LOOK_UP),
    API(8,  "OffsetCommit",                  _upto(10),  8,     _span(2, 10),  _span(0, 9),   COMMIT),
    API(9,  "OffsetFetch",                   _upto(10),  6,     _span(1, 10),  _span(0, 9),   OFFSETS),
    API(10, "FindCoordinator",               _upto(6),   3,     _span(0, 6),   _span(0, 6),   READ),
    API(11, "JoinGroup",                     _upto(9),   6,     _span(0, 9),   _span(0, 9),   MEMBER),
    API(12, "Heartbeat",                     _upto(4),   4,     _span(0, 4),   _span(0, 4),   BEAT),
    API(13, "LeaveGroup",                    _upto(5),   4,     _span(0, 5),   _span(0, 5),   MEMBER),
    API(14, "SyncGroup",                     _upto(5),   4,     _span(0, 5),   _span(0, 5),   MEMBER),
    API(15, "DescribeGroups",                _upto(6),   5,     _span(0, 6),   _span(0, 5),   READ),
    API(16, "ListGroups",                    _upto(5),   3,     _span(0, 5),   _span(0, 5),   READ),
    API(17, "SaslHandshake",                 _upto(1),   None,  _span(0, 1),   _span(0, 1),   LOG_IN),
    API(API_VERSIONS, "ApiVersions",         _upto(4),   3,     _span(0, 4),   _span(0, 4),   GREETING),
    API(19, "CreateTopics",                  _upto(7),   5,     _span(2, 7),   _span(0, 7),   RESIZE),
    API(20, "DeleteTopics",                  _upto(6),   4,     _span(1, 6),   _span(0, 6),   RESIZE),
    API(21, "DeleteRecords",                 _upto(2),   2,     _span(0, 2),   _span(0, 2),   CHANGE),
    API(22, "InitProducerId",                _upto(6),   2,     _span(0, 5),   _span(0, 5),   CHANGE),
    API(23, "OffsetForLeaderEpoch",          _upto(4),   4,     _span(2, 4),   _span(0, 4),   READ),
    API(24, "AddPartitionsToTxn",            _upto(5),   3,     _span(0, 5),   _span(0, 5),   CHANGE),
    API(25, "AddOffsetsToTxn",               _upto(4),   3,     _span(0, 4),   _span(0, 4),   CHANGE),
    API(26, "EndTxn",                        _upto(5),   3,     _span(0, 5),   _span(0, 4),   CHANGE),
    API(27, "WriteTxnMarkers",               _upto(2),   1,     _span(1, 2),   _span(0, 1),   CHANGE),
    API(28, "TxnOffsetCommit",               _upto(5),   3,     _span(0, 5),   _span(0, 4),   MANY),
    API(29, "DescribeAcls",                  _upto(3),   2,     _span(1, 3),   _span(0, 3),   READ),
    API(30, "CreateAcls",                    _upto(3),   2,     _span(1, 3),   _span(0, 3),   CHANGE),
    API(31, "DeleteAcls",                    _upto(3),   2,     _span(1, 3),   _span(0, 3),   CHANGE),
    API(32, "DescribeConfigs",               _upto(4),   4,     _span(1, 4),   _span(0, 4),   READ),
    API(33, "AlterConfigs",                  _upto(2),   2,     _span(0, 2),   _span(0, 2),   CHANGE),
    API(34, "AlterReplicaLogDirs",           _upto(2),   2,     _span(1, 2),   _span(0, 2),   CHANGE),
    API(35, "DescribeLogDirs",               _upto(5),   2,     _span(1, 5),   _span(0, 4),   READ_MACHINE),
    API(36, "SaslAuthenticate",              _upto(2),   2,     _span(0, 2),   _span(0, 2),   LOG_IN),
    API(37, "CreatePartitions",              _upto(3),   2,     _span(0, 3),   _span(0, 3),   RESIZE),
    API(38, "CreateDelegationToken",         _upto(3),   2,     _span(1, 3),   _span(0, 3),   TOKEN),
    API(39, "RenewDelegationToken",          _upto(2),   2,     _span(1, 2),   _span(0, 2),   TOKEN),
    API(40, "ExpireDelegationToken",         _upto(2),   2,     _span(1, 2),   _span(0, 2),   TOKEN),
    API(41, "DescribeDelegationToken",       _upto(3),   2,     _span(1, 3),   _span(0, 3),   READ_TOKENS),
    API(42, "DeleteGroups",                  _upto(2),   2,     _span(0, 2),   _span(0, 2),   CHANGE),
    API(43, "ElectLeaders",                  _upto(2),   2,     _span(0, 2),   _span(0, 2),   CHANGE),
    API(44, "IncrementalAlterConfigs",       _upto(1),   1,     _span(0, 1),   _span(0, 1),   CHANGE),
    API(45, "AlterPartitionReassignments",   _upto(1),   0,     _span(0, 1),   _span(0, 0),   CHANGE),
    API(46, "ListPartitionReassignments",    _upto(0),   0,     _span(0, 0),   _span(0, 0),   READ),
    API(47, "OffsetDelete",                  _upto(0),   None,  _span(0, 0),   _span(0, 0),   MANY),
    API(48, "DescribeClientQuotas",          _upto(1),   1,     _span(0, 1),   _span(0, 1),   READ),
    API(49, "AlterClientQuotas",             _upto(1),   1,     _span(0, 1),   _span(0, 1),   CHANGE),
    API(50, "DescribeUserScramCredentials",  _upto(0),   0,     _span(0, 0),   _span(0, 0),   READ),
    API(51, "AlterUserScramCredentials",     _upto(0),   0,     _span(0, 0),   _span(0, 0),   CHANGE),
    API(55, "DescribeQuorum",                _upto(2),   0,     _span(0, 2),   _span(0, 2),   READ),
    API(57, "UpdateFeatures",                _upto(2),   0,     _span(0, 2),   _span(0, 1),   CHANGE),
    API(60, "DescribeCluster",               _upto(2),   0,     _span(0, 2),   _span(0, 1),   READ),
    API(61, "DescribeProducers",             _upto(0),   0,     _span(0, 0),   _span(0, 0),   READ),
    API(64, "UnregisterBroker",              _upto(0),   0,     _span(0, 0),   _span(0, 0),   CHANGE),
    API(65, "DescribeTransactions",          _upto(0),   0,     _span(0, 0),   _span(0, 0),   READ),
    API(66, "ListTransactions",              _upto(2),   0,     _span(0, 2),   _span(0, 1),   READ),
    API(68, "ConsumerGroupHeartbeat",        _upto(1),   0,     _span(0, 1),   _span(0, 0),   HEARTBEAT),
    API(69, "ConsumerGroupDescribe",         _upto(1),   0,     _span(0, 1),   _span(0, 0),   READ),
    API(71, "GetTelemetrySubscriptions",     _upto(0),   0,     None,          None,          READ),
    API(74, "ListConfigResources",           _upto(1),   0,     _span(0, 1),   _span(0, 0),   READ),
    API(75, "DescribeTopicPartitions",       _upto(0),   0,     _span(0, 0),   _span(0, 0),   READ),
    API(76, "ShareGroupHeartbeat",           _span(1, 1), 0,    _span(1, 1),   None,          HEARTBEAT),
    API(77, "ShareGroupDescribe",            _span(1, 1), 0,    _span(1, 1),   None,          READ),
    API(78, "ShareFetch",                    _span(1, 2), 0,    _span(1, 2),   None,          ACQUIRE),
    API(79, "ShareAcknowledge",              _span(1, 2), 0,    _span(1, 2),   None,          MANY),
    API(80, "AddRaftVoter",                  _upto(1),   0,     _span(0, 1),   _span(0, 0),   CHANGE),
    API(81, "RemoveRaftVoter",               _upto(0),   0,     _span(0, 0),   _span(0, 0),   CHANGE),
    API(83, "InitializeShareGroupState",     _upto(0),   0,     _span(0, 0),   None,          CHANGE),
    API(84, "ReadShareGroupState",           _upto(0),   0,     _span(0, 0),   None,          CHANGE),
    API(85, "WriteShareGroupState",          _upto(1),   0,     _span(0, 1),   None,          CHANGE),
    API(86, "DeleteShareGroupState",         _upto(0),   0,     _span(0, 0),   None,          CHANGE),
    API(87, "ReadShareGroupStateSummary",    _upto(1),   0,     _span(0, 1),   None,          READ),
    API(88, "StreamsGroupHeartbeat",         _upto(0),   0,     _span(0, 0),   None,          HEARTBEAT),
    API(89, "StreamsGroupDescribe",          _upto(0),   0,     _span(0, 0),          None,          READ),
    API(90, "DescribeShareGroupOffsets",     _upto(1),   0,     _span(0, 1),         None,          READ),
    API(91, "AlterShareGroupOffsets",        _upto(0),   0,     _span(0, 0),         None,          CHANGE),
    API(92, "DeleteShareGroupOffsets",       _upto(0),   0,     _span(0, 0),         None,          CHANGE),
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


def keys_with(trait: Trait) -> frozenset[int]:
    """Return the keys of the APIs that have a trait."""
    return frozenset(api.key for api in TABLE if trait in api.traits)


def names_with(trait: Trait) -> frozenset[str]:
    """Return Kafka's names of the APIs that have a trait."""
    return frozenset(api.name for api in TABLE if trait in api.traits)


assert len(APIS) == len(BY_NAME) == len(_BY_MODULE) == len(TABLE), "a key, name or module is there twice"
assert all((Trait.READS in api.traits) != (Trait.CHANGES in api.traits) for api in TABLE), "each reads or changes"


def api_of(message: "type[Message] | Message") -> API:
    """Return the API to which a message, or the class of one, belongs."""
    cls = message if isinstance(message, type) else type(message)
    return _BY_MODULE[cls.__module__]

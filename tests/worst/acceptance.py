"""What a request needs so that a server takes it: values of its fields beside names of what there is.

The shapes fill arrays; by themselves most of the requests that change something would be refused before anybody looks at
the arrays, for an epoch or a member that are not right. `tests/worst/test_acceptance.py` asks of each array of each API
whether a request that fills it is taken; `REFUSED` has those that cannot be, with the reason.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from protocol import record_batch
from protocol.messages.alter_client_quotas import AlterClientQuotasRequestEntityData, AlterClientQuotasRequestOpData
from protocol.records import Record
from tests.worst.shapes import Path

Value = Any
"""The value of a field, or `(number, count) -> value`: that of the n-th element, of so many that are filled."""
Given = Mapping[str, Value]
"""By the name of a field, `array.field` for that of an element, and `array[]` for an element that is no structure."""
Ids = Mapping[str, Any]
"""What the server has given: ids of producers and members, epochs, generations."""

TOOL: Final[Given] = {
    "member_id": "", "generation_id": -1, "generation_id_or_member_epoch": -1, "group_instance_id": None,
}  # fmt: skip
BATCH: Final = record_batch.encode([Record(None, b"x", timestamp=1_700_000_000_000)])
NUMERIC_SETTINGS: Final = ("retention.ms", "segment.ms", "retention.bytes", "delete.retention.ms")
RESOURCE_TYPES: Final = (2, 4, 8, 16, 32)
UNSUPPORTED: Final = "what Kafka 4.3 does not support, or Muster does not"
ONE_BROKER: Final = "a partition has one replica, and a broker is named once"
FEW_NAMES: Final = "there are some names only, and another one refuses the whole"

REFUSED: Final[Mapping[str, str]] = {
    "AddRaftVoter": UNSUPPORTED,
    "AlterClientQuotas entries.entity": "at most two kinds of entities are in one",
    "AlterClientQuotas entries.ops": FEW_NAMES,
    "CreateAcls": "there is no authorizer: with --acls there is",
    "CreateDelegationToken": UNSUPPORTED,
    "AlterPartitionReassignments topics.partitions.replicas": ONE_BROKER,
    "CreatePartitions topics.assignments.broker_ids": ONE_BROKER,
    "CreateTopics topics.assignments.broker_ids": ONE_BROKER,
    "DeleteAcls": "there is no authorizer: with --acls there is",
    "DescribeClientQuotas components": "at most two kinds of entities are in one",
    "DescribeDelegationToken": UNSUPPORTED,
    "ShareAcknowledge": "needs a session: `tests/worst/queues.py`",
    "ShareFetch topics.partitions.acknowledgement_batches": "needs a session: `tests/worst/queues.py`",
    "StreamsGroupHeartbeat task_end_offsets": UNSUPPORTED,
    "StreamsGroupHeartbeat task_offsets": UNSUPPORTED,
    "StreamsGroupHeartbeat topology.subtopologies.copartition_groups.repartition_source_topics": "they are indices of topics that it reads again",
    "StreamsGroupHeartbeat topology.subtopologies.source_topic_regex": UNSUPPORTED,
    "StreamsGroupHeartbeat warmup_tasks": UNSUPPORTED,
    "UpdateFeatures": FEW_NAMES,
}  # fmt: skip
"""By API, or API and array: why a request that fills it is refused as a whole."""


def given(api: str, path: Path, version: int, ids: Ids) -> Given:
    """Return what a request of that API needs to be taken, where the array at `path` is filled."""
    make = _GIVEN.get(api)
    return {} if make is None else make(path, version, ids)


def _offset_commit(path: Path, version: int, ids: Ids) -> Given:
    return TOOL


def _txn_offset_commit(path: Path, version: int, ids: Ids) -> Given:
    return {**TOOL, "transactional_id": "x1", "producer_id": ids["x1"], "producer_epoch": 0, "group_id": "g0"}


def _add_partitions(path: Path, version: int, ids: Ids) -> Given:
    def producer(at: int, count: int) -> int:
        return int(ids.get(f"x{at + 1}", 0))

    return {
        "transactions.transactional_id": lambda at, count: f"x{at + 1}", "transactions.producer_id": producer,
        "v3_and_below_producer_id": ids["x1"], "v3_and_below_transactional_id": "x1",
    }  # fmt: skip


def _join(path: Path, version: int, ids: Ids) -> Given:
    joiner = {"member_id": "", "group_instance_id": "joiner"} if version >= 5 else {"member_id": ""}
    return {"group_id": "j2", "protocol_type": "consumer", **joiner}


def _sync(path: Path, version: int, ids: Ids) -> Given:
    return {
        "group_id": "j0", "member_id": ids["leader"], "generation_id": ids["generation"], "group_instance_id": "i0",
        "protocol_type": "consumer", "protocol_name": "range",
    }  # fmt: skip


def _leave(path: Path, version: int, ids: Ids) -> Given:
    return {"group_id": "j0", "members.member_id": "", "members.group_instance_id": lambda at, count: f"i{at}"}


def _create_topics(path: Path, version: int, ids: Ids) -> Given:
    found = {
        "topics.name": lambda at, count: f"new{at}", "broker_ids": (0,), "broker_ids[]": 0,
        "configs.name": "retention.ms", "configs.value": "1000", "assignments.partition_index": lambda at, count: at,
    }  # fmt: skip
    return {**found, "num_partitions": -1, "replication_factor": -1} if path[:2] == ("topics", "assignments") else found


def _alter_configs(path: Path, version: int, ids: Ids) -> Given:
    return {
        "configs.name": lambda at, count: NUMERIC_SETTINGS[at % len(NUMERIC_SETTINGS)], "configs.value": "86400000",
        "config_operation": 0,
    }  # fmt: skip


def _create_partitions(path: Path, version: int, ids: Ids) -> Given:
    if path == ("topics",):
        return {"topics.name": lambda at, count: f"t{at + 1}", "count": ids["partitions"] + 1, "assignments": None}
    new = {"count": lambda at, count: ids["partitions"] + count}
    return {"topics.name": "t1", "broker_ids": (0,), "broker_ids[]": 0, **new}


def _consumer_heartbeat(path: Path, version: int, ids: Ids) -> Given:
    return {
        "group_id": "c0", "member_id": "m0", "member_epoch": ids["c0"], "server_assignor": None, "instance_id": None,
        "rack_id": None, "subscribed_topic_regex": None, "subscribed_topic_names": None, "topic_partitions": None,
    }  # fmt: skip


def _streams_heartbeat(path: Path, version: int, ids: Ids) -> Given:
    fields = {
        "instance_id": None, "rack_id": None, "user_endpoint": None, "task_offsets": None, "task_end_offsets": None,
        "active_tasks": (), "standby_tasks": (), "warmup_tasks": (), "client_tags": (), "process_id": "p0",
    }  # fmt: skip
    if path[0] != "topology":
        owned = {
            "subtopology_id": "0",
            "topology": None,
            "member_id": "m0",
            "member_epoch": ids["k0"],
            "group_id": "k0",
        }
        return {**fields, **owned}
    joins = {"group_id": "k9", "member_id": "n0", "member_epoch": 0, "epoch": 1, "replication_factor": 0}
    names = {
        "subtopologies.subtopology_id": lambda at, count: f"{at}",
        "subtopologies.source_topics": lambda at, count: (f"t{at}",), "source_topics[]": lambda at, count: f"t{at}",
        "state_changelog_topics.partitions": 0,
        "state_changelog_topics.name": lambda at, count: f"log{at}",
        "repartition_source_topics.name": lambda at, count: f"again{at}",
        "repartition_source_topics.partitions": 1,
    }  # fmt: skip
    if "copartition_groups" in path:
        names |= {"copartition_groups.source_topics": (0,), "source_topics[]": 0}
    return {**fields, **joins, **names}


def _client_quotas(path: Path, version: int, ids: Ids) -> Given:
    return {
        "entity": lambda at, count: (AlterClientQuotasRequestEntityData("user", f"o{at}"),),
        "ops": (AlterClientQuotasRequestOpData("producer_byte_rate", 1e6, False),),
        "ops.key": "producer_byte_rate",
    }  # fmt: skip


_GIVEN: Final[Mapping[str, Callable[[Path, int, Ids], Given]]] = {
    "AddPartitionsToTxn": _add_partitions,
    "AlterClientQuotas": _client_quotas,
    "AlterConfigs": _alter_configs,
    "AlterPartitionReassignments": lambda path, version, ids: {"replicas": (0,), "replicas[]": 0},
    "AlterReplicaLogDirs": lambda path, version, ids: {"path": ids["directory"]},
    "AlterShareGroupOffsets": lambda path, version, ids: {"group_id": "s1"},
    "AlterUserScramCredentials": lambda path, version, ids: {"salted_password": b"p"},
    "ConsumerGroupHeartbeat": _consumer_heartbeat,
    "CreatePartitions": _create_partitions,
    "CreateTopics": _create_topics,
    "DeleteRecords": lambda path, version, ids: {"offset": -1},
    "DeleteShareGroupOffsets": lambda path, version, ids: {"group_id": "s1"},
    "DeleteTopics": lambda path, version, ids: {"topics.name": None},
    "IncrementalAlterConfigs": _alter_configs,
    "InitializeShareGroupState": lambda path, version, ids: {"state_epoch": 5},
    "JoinGroup": _join,
    "LeaveGroup": _leave,
    "ListConfigResources": lambda path, version, ids: {"resource_types[]": lambda at, count: RESOURCE_TYPES[at % 5]},
    "OffsetCommit": _offset_commit,
    "Produce": lambda path, version, ids: {"records": BATCH, "transactional_id": None},
    "StreamsGroupHeartbeat": _streams_heartbeat,
    "SyncGroup": _sync,
    "TxnOffsetCommit": _txn_offset_commit,
    "WriteShareGroupState": lambda path, version, ids: {
        "state_epoch": ids["state_epoch"], "leader_epoch": 0, "delivery_state": 2, "delivery_count": 1,
        "first_offset": lambda at, count: at, "last_offset": lambda at, count: at,
    },
}  # fmt: skip

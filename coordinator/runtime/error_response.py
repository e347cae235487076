"""Make the response that has one error and nothing else, for any API and version, from the schemas.

Kafka: `AbstractRequest.getErrorResponse`. If the version of the response has an error code of its own, the error is
there; otherwise it is in each entry for an entry of the request: a topic, a partition, a group, a resource.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from coordinator.core.decision import SILENT, Done, Silent
from coordinator.core.refusal import refuse_join
from protocol.apis import api_of
from protocol.error_codes import ERROR_FIELDS, error_walker
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.produce import ProduceRequest
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from protocol.schema import Field, Schema
from protocol.wire import Array

# By the name of an array in a response: those of the request that it may answer, beside one of the same name.
_ANSWERED: Final[Mapping[str, tuple[str, ...]]] = {
    "coordinators": ("coordinator_keys",),
    "filter_results": ("filters",),
    "groups": ("group_ids",),
    "partition_result": ("partitions",),
    "partition_responses": ("partition_data",),
    "partitions": ("partition_indexes",),
    "responses": ("topic_data", "topics", "topic_names", "resources"),
    "replica_election_results": ("topic_partitions",),
    "results": ("topics", "groups_names", "resources", "creations"),
    "results_by_partition": ("partitions",),
    "results_by_topic_v3_and_below": ("v3_and_below_topics",),
    "transaction_states": ("transactional_ids",),
}
# The fields of an entry that say what it is about, and are copied from the request.
_IDS: Final = (
    "name", "topic", "topic_id", "partition_index", "partition", "index", "resource_type", "resource_name", "group_id",
    "key", "transactional_id", "topic_name", "partition_id", "producer_id",
)  # fmt: skip
# Fields whose default would be a valid value, or is none.
_UNKNOWN: Final[Mapping[str, Any]] = {
    **dict.fromkeys(
        (
            "committed_offset",
            "base_offset",
            "low_watermark",
            "high_watermark",
            "producer_id",
            "producer_epoch",
            "node_id",
        ),
        -1,
    ),
    "records": b"",
}


def error_response(request: Any, version: int, code: int) -> Any:
    """Return the response to a request that has failed with `code` as a whole."""
    make = _WITH_OTHER_ENTRIES.get(type(request).__name__)
    if make is not None:
        return make(request, code)
    return _make_error(_response_schema(request), version, request, code, {})


def error_everywhere(request: Any, version: int, code: int) -> Any:
    """Return the response with the error in itself and in each of its entries."""
    return _make_error(_response_schema(request), version, request, code, {}, is_everywhere=True)


def _response_schema(request: Any) -> Schema:
    return api_of(request).response


def _refuse_users(request: Any, code: int) -> Any:
    """Return the response with one entry for each user, in order. The request may have several entries for one."""
    from protocol.messages import alter_user_scram_credentials as messages

    users = sorted({one.name for array in (request.deletions, request.upsertions) for one in array})
    result = messages.AlterUserScramCredentialsResponseAlterUserScramCredentialsResult
    return messages.AlterUserScramCredentialsResponse(results=tuple([result(user, code) for user in users]))


def _refuse_directories(request: Any, code: int) -> Any:
    """Return the response. Its topics are not within directories, as those of the request are."""
    from protocol.messages import alter_replica_log_dirs as messages

    of_topic = messages.AlterReplicaLogDirsResponseAlterReplicaLogDirTopicResult
    of_partition = messages.AlterReplicaLogDirsResponseAlterReplicaLogDirPartitionResult
    topics = [topic for one in request.dirs for topic in one.topics]
    return messages.AlterReplicaLogDirsResponse(
        results=tuple([
            of_topic(topic.name, tuple([of_partition(index, code) for index in topic.partitions])) for topic in topics
        ])
    )  # fmt: skip


_WITH_OTHER_ENTRIES: Final[Mapping[str, Callable[[Any, int], Any]]] = {
    "AlterReplicaLogDirsRequest": _refuse_directories,
    "AlterUserScramCredentialsRequest": _refuse_users,
}
"""By the class of the request: responses whose entries are not those of the request."""


def unserved_response(request: Any, version: int, code: ErrorCode) -> Any:
    """Return the response to a request for one group that the broker does not coordinate, or is still loading.

    The place of the error is that of Kafka (G-042). As in Kafka, a Heartbeat succeeds while the group is being loaded,
    so that no member leaves its group because of a restart.
    """
    if type(request) is JoinGroupRequest:
        return refuse_join(code, "", version)
    if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return _loading_response(request, version)
    return error_response(request, version, code)


def _loading_response(request: Any, version: int) -> Any:
    if type(request) is HeartbeatRequest:
        return HeartbeatResponse()
    if type(request) is SyncGroupRequest:
        # Kafka 4 answers 14, which is fatal for the Java client. All clients retry the code of earlier versions.
        return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    if type(request) is TxnOffsetCommitRequest and version < 2:
        return error_response(request, version, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return error_response(request, version, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def groups_full_response(request: Any, version: int, setting: str = "groups.max.bytes") -> Any:
    """Return the response to a request that would create a group, or a member, when `setting` leaves no room for it.

    Clients raise GROUP_MAX_SIZE_REACHED as an error. They would retry COORDINATOR_NOT_AVAILABLE for ever.
    """
    if type(request) is JoinGroupRequest:
        return refuse_join(ErrorCode.GROUP_MAX_SIZE_REACHED, request.member_id, version)
    response = error_response(request, version, ErrorCode.GROUP_MAX_SIZE_REACHED)
    if type(request) is ConsumerGroupHeartbeatRequest:
        what = "another group" if setting == "groups.max.bytes" else "more members"
        return replace(response, error_message=f"The broker has no room for {what} ({setting}).")
    return response


class Plan(Struct, frozen=True):
    """How the error is said in an entry of a response, in one version: what is found out once for all entries."""

    cls: type
    values: Mapping[str, Any]  # of `_UNKNOWN`
    codes: tuple[str, ...]
    ids: tuple[str, ...]  # fields that say what the entry is about
    arrays: tuple[tuple[str, tuple[str, ...], Schema], ...]  # of entries: the field, those of the request, the schema


_PLANS: Final[dict[tuple[type, int], Plan]] = {}


def _plan(schema: Schema, version: int) -> Plan:
    plan = _PLANS.get((schema.cls, version))
    if plan is None:
        plan = _PLANS[schema.cls, version] = _make_plan(schema, version)
    return plan


def _make_plan(schema: Schema, version: int) -> Plan:
    present = [field for field in schema.fields if field.is_in(version)]
    arrays = [(field.name, _array_with_codes(field, version)) for field in present]
    return Plan(
        cls=schema.cls,
        values={field.name: _UNKNOWN[field.name] for field in present if field.name in _UNKNOWN},
        codes=tuple([field.name for field in present if field.name in ERROR_FIELDS]),
        ids=tuple([name for name in _IDS if name in schema.cls.__struct_fields__]),
        arrays=tuple([(name, (name, *_ANSWERED.get(name, ())), of) for name, of in arrays if of is not None]),
    )


def _make_error(
    schema: Schema, version: int, request: Any, code: int, ids: Mapping[str, Any], *, is_everywhere: bool = False
) -> Any:
    plan = _plan(schema, version)
    values: dict[str, Any] = {**plan.values, **ids, **dict.fromkeys(plan.codes, code)}
    for name, sources, entries in () if plan.codes and not is_everywhere else plan.arrays:
        inner = _plan(entries, version)
        asked = next((found for source in sources if (found := getattr(request, source, None))), ())
        if inner.arrays and not inner.codes:
            values[name] = tuple([_make_error(entries, version, one, code, _copy_ids(inner, one)) for one in asked])
        else:
            same: dict[str, Any] = {**inner.values, **dict.fromkeys(inner.codes, code)}
            values[name] = tuple([inner.cls(**{**same, **_copy_ids(inner, one)}) for one in asked])
    return plan.cls(**values)


def _array_with_codes(field: Field, version: int) -> Schema | None:
    """Return the schema of the array's entries, if an error has a place in them."""
    of = field.type.of if isinstance(field.type, Array) else None
    return of if isinstance(of, Schema) and _has_codes(of, version) else None


def _has_codes(schema: Schema, version: int) -> bool:
    present = [field for field in schema.fields if field.is_in(version)]
    return any(field.name in ERROR_FIELDS or _array_with_codes(field, version) is not None for field in present)


def _copy_ids(plan: Plan, asked: Any) -> dict[str, Any]:
    """Return the ids of an entry of the request, which may be a bare name or number, as fields of the response."""
    if isinstance(asked, str | int):
        return {plan.ids[0]: asked}
    known: dict[str, Any] = {}
    for name in plan.ids:
        if (value := getattr(asked, name, None)) is not None:
            known[name] = value
    if "partition_index" in plan.ids and hasattr(asked, "partition"):  # in Fetch the two have different names
        known["partition_index"] = asked.partition
    return known


def failure_outcome(request: Any, version: int, code: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR) -> Done | Silent:
    """Respond to a request that the server has failed to decide, unless nobody waits for a response.

    A response without a place for the code would look like an answer: that nothing is there."""
    if request is None:
        return SILENT
    if type(request) is ProduceRequest and not request.acks:
        return Silent(f"acks=0: {code.name}")
    response = error_response(request, version, code)
    if any(error_walker(response.__class__)(response)):
        return Done(response)
    return Silent("response memory" if code == ErrorCode.POLICY_VIOLATION else "internal error")

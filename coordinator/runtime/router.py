"""Which function answers which API, and so what this server offers: the ApiVersions answer is read off this table."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from coordinator.core.result import Call
from coordinator.runtime import groups
from coordinator.runtime.api_versions import api_versions
from coordinator.runtime.find_coordinator import find_coordinator
from coordinator.runtime.sasl import sasl_authenticate, sasl_handshake
from protocol.apis import ADVERTISED_ONLY, BY_NAME, KAFKA_3_9_RANGES, LATEST_RANGES

if TYPE_CHECKING:
    from coordinator.runtime.node import Node, Where

Handler = Callable[["Node", Any, Call, "Where"], Any]
"""Answers a request: with a message, with None while it is parked, with NO_ANSWER where none is wanted."""


def _of_group(handler: Callable[["Node", Any, Call], Any]) -> Handler:
    return lambda node, request, call, where: handler(node, request, call)


def _of_dataplane(node: "Node", request: Any, call: Call, where: "Where") -> Any:
    return node.dataplane.handle(request, call, where.brokers)


COMPAT: Final = ("4.3", "3.9")

HANDLERS: Final[Mapping[str, Handler]] = {
    "ApiVersions": lambda node, request, call, where: api_versions(request, call.version, node.offered),
    "FindCoordinator": lambda node, request, call, where: find_coordinator(request, call.version, where.brokers[0]),
    "SaslHandshake": lambda node, request, call, where: sasl_handshake(request),
    "SaslAuthenticate": lambda node, request, call, where: sasl_authenticate(request),
    **dict.fromkeys(
        ("Heartbeat", "JoinGroup", "LeaveGroup", "OffsetCommit", "OffsetDelete", "SyncGroup"),
        _of_group(groups.one_group),
    ),
    "ConsumerGroupHeartbeat": _of_group(groups.consumer_group_heartbeat),
    "ConsumerGroupDescribe": _of_group(groups.consumer_group_describe),
    "OffsetFetch": _of_group(groups.offset_fetch),
    "DescribeGroups": _of_group(groups.describe_groups),
    "ListGroups": _of_group(groups.list_groups),
    "DeleteGroups": _of_group(groups.delete_groups),
    "TxnOffsetCommit": _of_group(groups.txn_offset_commit),
    "AddOffsetsToTxn": _of_group(groups.add_offsets_to_txn),
    **dict.fromkeys(
        (
            "AddPartitionsToTxn", "AlterConfigs", "CreatePartitions", "CreateTopics", "DeleteRecords", "DeleteTopics",
            "DescribeCluster", "DescribeConfigs", "DescribeProducers", "DescribeTopicPartitions",
            "DescribeTransactions", "EndTxn", "Fetch", "IncrementalAlterConfigs", "InitProducerId",
            "ListConfigResources", "ListOffsets", "ListTransactions", "Metadata", "OffsetForLeaderEpoch", "Produce",
        ),
        _of_dataplane,
    ),
}  # fmt: skip


def spoken(compat: str) -> dict[int, range]:
    """The versions that a server of that compatibility offers: Kafka 4.3's, or with those that only 3.9 still had."""
    if compat == "4.3":
        return offered(LATEST_RANGES)
    older = (KAFKA_3_9_RANGES.get(key, span) for key, span in LATEST_RANGES.items())
    both = zip(LATEST_RANGES.items(), older, strict=True)
    return offered({key: range(min(span.start, old.start), span.stop) for (key, span), old in both})


def offered(ranges: Mapping[int, range]) -> dict[int, range]:
    """The versions, by API key, that are both answered and within `ranges`."""
    return {BY_NAME[name].key: ranges[BY_NAME[name].key] for name in HANDLERS if BY_NAME[name].key in ranges}


def routes(versions: Mapping[int, range]) -> dict[tuple[int, int], Handler]:
    """The handlers by API key and version."""
    by_key = {BY_NAME[name].key: handler for name, handler in HANDLERS.items()}
    asked = {(key, version) for key, span in versions.items() for version in span} - ADVERTISED_ONLY
    return {(key, version): by_key[key] for key, version in asked}

"""Explain Kafka's error codes in sentences for the person who ran a command."""

from collections.abc import Mapping
from typing import Final

from protocol.errors import ErrorCode

SENTENCES: Final[Mapping[int, str]] = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "the broker failed: its log says why",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "no such topic or partition",
    ErrorCode.UNKNOWN_TOPIC_ID: "no such topic: it was deleted a moment ago",
    ErrorCode.INVALID_TOPIC_EXCEPTION: (
        "not a valid topic name (1 to 249 letters, digits, '.', '_' and '-'), or an internal topic"
    ),
    ErrorCode.TOPIC_ALREADY_EXISTS: "the topic exists already",
    ErrorCode.INVALID_REPLICATION_FACTOR: "the cluster has too few brokers for so many replicas",
    ErrorCode.LEADER_NOT_AVAILABLE: "the partition has no leader now: try again",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "the partition has just moved to another broker: try again",
    ErrorCode.OFFSET_OUT_OF_RANGE: "the partition does not reach from there",
    ErrorCode.CORRUPT_MESSAGE: "the records did not arrive whole",
    ErrorCode.MESSAGE_TOO_LARGE: "the records are larger than max.message.bytes of the topic",
    ErrorCode.KAFKA_STORAGE_ERROR: "the broker cannot read or write its log: `muster log verify` shows where",
    ErrorCode.REQUEST_TIMED_OUT: "the broker gave up waiting",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "the coordinator is still reading its log: try again",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "there is no coordinator now: try again",
    ErrorCode.NOT_COORDINATOR: "the coordinator has just moved to another broker: try again",
    ErrorCode.INVALID_GROUP_ID: "not a valid group id",
    ErrorCode.GROUP_ID_NOT_FOUND: "no such group",
    ErrorCode.NON_EMPTY_GROUP: "the group has members: stop them first",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "members of the group subscribe to the topic: stop them first",
    ErrorCode.UNKNOWN_MEMBER_ID: "the group has no such member",
    ErrorCode.FENCED_INSTANCE_ID: "another member has taken this instance id",
    ErrorCode.REBALANCE_IN_PROGRESS: "the group is rebalancing: try again",
    ErrorCode.ILLEGAL_GENERATION: "the group has members: stop them first",
    ErrorCode.STALE_MEMBER_EPOCH: "the member has been given another epoch",
    ErrorCode.FENCED_MEMBER_EPOCH: "the group has removed the member",
    ErrorCode.UNRELEASED_INSTANCE_ID: "another member still uses this instance id",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "the group is full",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "the members of the group use another protocol",
    ErrorCode.UNSUPPORTED_ASSIGNOR: "the broker has no such assignor",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "the metadata is longer than offset.metadata.max.bytes",
    ErrorCode.UNSTABLE_OFFSET_COMMIT: "a transaction has offsets that are not decided yet",
    ErrorCode.UNSUPPORTED_VERSION: "the broker does not support this request",
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: "the quota of this client is used up: try again later",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "this user may not use the topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "this user may not use the group",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "this user may not administer the cluster",
}


def name_of(code: int) -> str:
    """Kafka's name of an error code; its number if it is newer than this program."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def explain(code: int, message: str | None = None, sentences: Mapping[int, str] | None = None) -> str:
    """Explain a code and add its name: `no such group (GROUP_ID_NOT_FOUND)`.

    `sentences` go before the general ones. A code without a sentence is explained by the broker's own `message`.
    """
    sentence = (sentences or {}).get(code) or SENTENCES.get(code) or (message or "").strip().rstrip(".")
    return f"{sentence} ({name_of(code)})" if sentence else name_of(code)

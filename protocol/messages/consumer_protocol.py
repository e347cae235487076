"""ConsumerProtocol: what consumers say to each other in the opaque bytes of JoinGroup and SyncGroup.

    i16 version · Subscription    in JoinGroup: what a member wants, what it owns, and since when
    i16 version · Assignment      in SyncGroup: what it gets

Nothing here is flexible. Later versions may only add fields at the end, so bytes of a version above ours are read as
our highest; that is what Kafka's own clients do.
"""

from struct import Struct, error
from typing import Any

from protocol import codec
from protocol.errors import ProtocolError
from protocol.schema import Field, Message, Schema
from protocol.wire import INT32, NULLABLE_BYTES, NULLABLE_STRING, STRING, Array

CHANGES = {
    0: "topics and what the assignor adds of its own",
    1: "KIP-429: the partitions that a member owns, so that it may keep them",
    2: "KIP-792: the generation in which it came to own them",
    3: "KIP-881: the member's rack",
}
VERSION_MAX = max(CHANGES)
_VERSION = Struct(">h")


class ConsumerProtocolSubscriptionTopicPartition(Message):
    topic: str = ""
    partitions: tuple[int, ...] = ()


SUBSCRIPTION_TOPIC_PARTITION = Schema(
    ConsumerProtocolSubscriptionTopicPartition,
    (
        Field("topic", STRING, since=1),
        Field("partitions", Array(INT32), since=1),
    ),
)


class ConsumerProtocolSubscription(Message):
    topics: tuple[str, ...] = ()
    user_data: bytes | None = None
    owned_partitions: tuple[ConsumerProtocolSubscriptionTopicPartition, ...] = ()
    generation_id: int = -1  # -1: not told
    rack_id: str | None = None


SUBSCRIPTION = Schema(
    ConsumerProtocolSubscription,
    (
        Field("topics", Array(STRING)),
        Field("user_data", NULLABLE_BYTES),
        Field("owned_partitions", Array(SUBSCRIPTION_TOPIC_PARTITION), since=1),
        Field("generation_id", INT32, since=2),
        Field("rack_id", NULLABLE_STRING, since=3),
    ),
)


class ConsumerProtocolAssignmentTopicPartition(Message):
    topic: str = ""
    partitions: tuple[int, ...] = ()


ASSIGNMENT_TOPIC_PARTITION = Schema(
    ConsumerProtocolAssignmentTopicPartition,
    (
        Field("topic", STRING),
        Field("partitions", Array(INT32)),
    ),
)


class ConsumerProtocolAssignment(Message):
    assigned_partitions: tuple[ConsumerProtocolAssignmentTopicPartition, ...] = ()
    user_data: bytes | None = None


ASSIGNMENT = Schema(
    ConsumerProtocolAssignment,
    (
        Field("assigned_partitions", Array(ASSIGNMENT_TOPIC_PARTITION)),
        Field("user_data", NULLABLE_BYTES),
    ),
)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """Return what a member put into its JoinGroup. Raises `ProtocolError` where that is no subscription."""
    subscription: ConsumerProtocolSubscription = _read(SUBSCRIPTION, data)
    return subscription


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """Return what a leader put into its SyncGroup. Raises `ProtocolError` where that is no assignment."""
    assignment: ConsumerProtocolAssignment = _read(ASSIGNMENT, data)
    return assignment


def partitions_by_topic(assignment: ConsumerProtocolAssignment) -> dict[str, list[int]]:
    """Return the partitions of each topic in order. A leader may name a topic more than once: all of it counts."""
    found: dict[str, set[int]] = {}
    for one in assignment.assigned_partitions:
        found.setdefault(one.topic, set()).update(one.partitions)
    return {topic: sorted(partitions) for topic, partitions in found.items()}


def version_of(data: bytes) -> int:
    """Return the version that the bytes begin with. Raises `ProtocolError` where there is none."""
    try:
        (version,) = _VERSION.unpack_from(data)
    except error:
        raise ProtocolError(f"{len(data)} bytes are too few for a version", path="version", offset=len(data)) from None
    if version < 0:
        raise ProtocolError(f"version {version} of the consumer protocol", path="version", offset=0)
    return int(version)


def write(message: ConsumerProtocolSubscription | ConsumerProtocolAssignment, version: int = VERSION_MAX) -> bytes:
    """Return the bytes that a client would send, version and all."""
    schema = SUBSCRIPTION if isinstance(message, ConsumerProtocolSubscription) else ASSIGNMENT
    return _VERSION.pack(version) + codec.write(schema, message, version)


def _read(schema: Schema, data: bytes) -> Any:
    return codec.read(schema, data[_VERSION.size :], min(version_of(data), VERSION_MAX))

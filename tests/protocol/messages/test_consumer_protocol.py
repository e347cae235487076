"""The bytes inside JoinGroup and SyncGroup, which carry their own version."""

import pytest

from protocol.errors import ProtocolError
from protocol.messages.consumer_protocol import (
    VERSION_MAX,
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
    read_assignment,
    read_subscription,
    version_of,
    write,
)

SUBSCRIPTION = ConsumerProtocolSubscription(
    topics=("orders", "returns"),
    user_data=b"\x01",
    owned_partitions=(ConsumerProtocolSubscriptionTopicPartition("orders", (0, 2)),),
    generation_id=7,
    rack_id="eu-1",
)
ASSIGNMENT = ConsumerProtocolAssignment((ConsumerProtocolAssignmentTopicPartition("orders", (0, 1)),), b"")


@pytest.mark.parametrize(
    ("version", "kept"),
    [
        (0, ConsumerProtocolSubscription(SUBSCRIPTION.topics, SUBSCRIPTION.user_data)),
        (1, ConsumerProtocolSubscription(SUBSCRIPTION.topics, SUBSCRIPTION.user_data, SUBSCRIPTION.owned_partitions)),
        (
            2,
            ConsumerProtocolSubscription(*(getattr(SUBSCRIPTION, name) for name in SUBSCRIPTION.__struct_fields__[:4])),
        ),
        (3, SUBSCRIPTION),
    ],
)
def test_a_subscription_keeps_what_its_version_has(version: int, kept: ConsumerProtocolSubscription) -> None:
    data = write(SUBSCRIPTION, version)
    assert version_of(data) == version
    assert read_subscription(data) == kept


@pytest.mark.parametrize("version", range(VERSION_MAX + 1))
def test_an_assignment_is_the_same_in_all_versions(version: int) -> None:
    data = write(ASSIGNMENT, version)
    assert data[2:] == write(ASSIGNMENT, 0)[2:]
    assert read_assignment(data) == ASSIGNMENT


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xff\xff", b"\x00\x00", b"\x00\x01" + write(SUBSCRIPTION, 0)[2:]])
def test_what_is_no_subscription_is_said_to_be_none(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_subscription(data)

"""What topics cost of `controller_mutation_rate`: as much as they have partitions, however a request says which."""

import pytest

from protocol.errors import ErrorCode
from protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasRequestOpData,
)
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsRequestTopic
from protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestCreatableReplicaAssignment,
    CreateTopicsRequestCreatableTopic,
    CreateTopicsRequestCreatableTopicConfig,
)
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestDeleteTopicState
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequestSubtopology,
    StreamsGroupHeartbeatRequestTopicInfo,
    StreamsGroupHeartbeatRequestTopology,
)
from protocol.schema import Message
from protocol.wire import ZERO_UUID
from tests.members import StreamsMember
from tests.server.in_memory import InMemory

DEFAULT = 3  # num.partitions
OLD = 4  # partitions of the topic that is there
RATE, SAVED_S = 0.1, 11  # tokens a second, and of how many seconds they are there to begin with


def request(way: str, server: InMemory) -> tuple[Message, int, int]:
    """A request, its version, and how many partitions it makes or removes."""
    topic, old_id = CreateTopicsRequestCreatableTopic, server.node.world.ledger.catalog.topics_by_name["old"].id
    assigned = tuple(CreateTopicsRequestCreatableReplicaAssignment(at, (0,)) for at in range(6))
    by_id, by_name = (DeleteTopicsRequestDeleteTopicState(*one) for one in ((None, old_id), ("old", ZERO_UUID)))
    return {
        "created": (CreateTopicsRequest((topic("a", 7, 1),)), 7, 7),
        "created by default": (CreateTopicsRequest((topic("a", -1, -1),)), 7, DEFAULT),
        "assigned": (CreateTopicsRequest((topic("a", -1, -1, assigned),)), 7, 6),
        "added": (CreatePartitionsRequest((CreatePartitionsRequestTopic("old", 9, None),)), 3, 9 - OLD),
        "deleted by name": (DeleteTopicsRequest((by_name,)), 6, OLD),
        "deleted by id": (DeleteTopicsRequest((by_id,)), 6, OLD),
        "deleted by an older client": (DeleteTopicsRequest(topic_names=("old",)), 5, OLD),
    }[way]


@pytest.mark.parametrize(
    "way",
    [
        "created",
        "created by default",
        "assigned",
        "added",
        "deleted by name",
        "deleted by id",
        "deleted by an older client",
    ],
)
def test_each_partition_takes_a_token(way: str) -> None:
    server = limited()
    message, version, partitions = request(way, server)
    assert ask(server, message, version) == ({ErrorCode.NONE}, round((partitions / RATE - SAVED_S) * 1_000))


def test_topics_that_metadata_makes_take_tokens() -> None:
    """Of several names the first takes more than there is, so that the others are not made."""
    server = limited()
    names = tuple(MetadataRequestTopic(name=name) for name in ("old", "no name!", "a", "b"))
    told = server.connect().ask(MetadataRequest(names, allow_auto_topic_creation=True), 12).topics
    assert [len(one.partitions) for one in told] == [OLD, 0, DEFAULT, 0]
    assert told[-1].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    one_more = CreateTopicsRequest((CreateTopicsRequestCreatableTopic("c", 1, 1),))
    assert ask(server, one_more, 7)[0] == {ErrorCode.THROTTLING_QUOTA_EXCEEDED}


def test_internal_topics_of_a_streams_group_take_tokens() -> None:
    """Those that it could not have are told to its members, and made when there are tokens again."""
    server = limited()
    member = StreamsMember(server.connect(), "a")
    member.topology = StreamsGroupHeartbeatRequestTopology(
        1,
        tuple(
            StreamsGroupHeartbeatRequestSubtopology(
                name, ("old",), state_changelog_topics=(StreamsGroupHeartbeatRequestTopicInfo(f"app-{name}"),)
            )
            for name in ("x", "y")
        ),
    )
    member.beat()
    topics = server.node.world.ledger.catalog.topics
    assert [topics.get(name) is not None for name in ("app-x", "app-y")] == [True, False]
    told = " ".join(one.status_detail for one in member.beat().status)
    assert "creation failed: app-y (the quota of the client is used up)" in told
    server.advance(30)
    member.beat()
    assert "app-y" in server.node.world.ledger.catalog.topics


def limited() -> InMemory:
    """A server on which everybody has little of the quota."""
    server = InMemory(topics={"old": OLD}, num_partitions=DEFAULT)
    everybody = (AlterClientQuotasRequestEntityData("user", None),)
    rate = AlterClientQuotasRequestOpData("controller_mutation_rate", RATE)
    server.connect().ask(AlterClientQuotasRequest((AlterClientQuotasRequestEntryData(everybody, (rate,)),)), 1)
    return server


def ask(server: InMemory, message: Message, version: int) -> tuple[set[int], int]:
    """The errors in a response, and for how long the client has to wait."""
    peer = server.connect()
    peer.send((message, version))
    server.rest()
    told = peer.answers[-1][1]
    entries = next(found for name in ("topics", "results", "responses") if (found := getattr(told, name, None)))
    return {one.error_code for one in entries}, told.throttle_time_ms


NOT_CREATED = [
    (CreateTopicsRequestCreatableTopic("no name!", 50, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
    (CreateTopicsRequestCreatableTopic("__muster_catalog", 50, 1), ErrorCode.INVALID_REQUEST),
    (CreateTopicsRequestCreatableTopic("z", 50, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
    (CreateTopicsRequestCreatableTopic("z", -7, 1), ErrorCode.INVALID_PARTITIONS),
    (
        CreateTopicsRequestCreatableTopic(
            "z", 50, 1, (), (CreateTopicsRequestCreatableTopicConfig("retention.ms", "x"),)
        ),
        ErrorCode.INVALID_CONFIG,
    ),
]


@pytest.mark.parametrize("is_used_up", [False, True])
@pytest.mark.parametrize(
    ("message", "version", "error"),
    [
        (CreateTopicsRequest((CreateTopicsRequestCreatableTopic("old", 50, 1),)), 7, ErrorCode.TOPIC_ALREADY_EXISTS),
        (
            CreatePartitionsRequest((CreatePartitionsRequestTopic("none", 50, None),)),
            3,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ),
        *((CreateTopicsRequest((topic,)), 7, error) for topic, error in NOT_CREATED),
        (CreateTopicsRequest((CreateTopicsRequestCreatableTopic("twice", 9, 1),) * 2), 7, ErrorCode.INVALID_REQUEST),
        (
            CreateTopicsRequest(tuple(CreateTopicsRequestCreatableTopic(name, 6_000, 1) for name in "cd")),
            7,
            ErrorCode.POLICY_VIOLATION,
        ),
        (CreatePartitionsRequest((CreatePartitionsRequestTopic("old", OLD, None),)), 3, ErrorCode.INVALID_PARTITIONS),
        (
            CreatePartitionsRequest((CreatePartitionsRequestTopic("old", OLD + 20_000, None),)),
            3,
            ErrorCode.POLICY_VIOLATION,
        ),
        (
            CreatePartitionsRequest((CreatePartitionsRequestTopic("__consumer_offsets", 99, None),)),
            3,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
        ),
        (DeleteTopicsRequest(topic_names=("__consumer_offsets",)), 5, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (DeleteTopicsRequest(topic_names=("old", "old")), 5, ErrorCode.INVALID_REQUEST),
        (DeleteTopicsRequest(topic_names=("none",)), 5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_what_changes_nothing_takes_no_token_and_needs_none(
    message: Message, version: int, error: ErrorCode, is_used_up: bool
) -> None:
    """An application that makes its topics at each start, if they are not there, must not wait for them."""
    server = limited()
    if is_used_up:
        ask(server, *request("created", server)[:2])
    for _ in range(3):
        assert ask(server, message, version) == ({error}, 0)
    made = ask(server, CreateTopicsRequest((CreateTopicsRequestCreatableTopic("b", 1, 1),)), 7)[0]
    assert made == {ErrorCode.THROTTLING_QUOTA_EXCEEDED if is_used_up else ErrorCode.NONE}

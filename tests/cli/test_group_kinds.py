"""The commands know the kinds of groups and their states by heart, as to import them takes a while."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.cli.groups import STATES, TYPES
from coordinator.client import Client
from coordinator.core import dispatch as dispatch  # registers the kinds
from coordinator.core.kinds.kind import DEAD
from coordinator.core.kinds.registry import KINDS, seen_states
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.share_acknowledge import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeRequestAcknowledgementBatch,
    ShareAcknowledgeRequestPartition,
    ShareAcknowledgeRequestTopic,
)
from protocol.messages.share_fetch import ShareFetchRequest, ShareFetchRequestPartition, ShareFetchRequestTopic
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestTopicInfo,
)
from protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequestSubtopology as Subtopology
from protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequestTopology as Topology
from tests.cli.command import Command, records
from tests.live import Muster
from tests.members import StreamsMember
from tests.requests import alter_configs, commit

GROUP_CONFIGS = 32  # as a kind of resource


def test_groups_are_filtered_by_each_state_and_each_type_that_there_is() -> None:
    assert {*STATES} == {*seen_states(), DEAD}
    assert {*KINDS} <= {*TYPES}


@pytest.fixture
def muster(tmp_path: Path) -> Iterator[Muster]:
    intervals = ("initial.rebalance.delay.ms=0", "assignment.interval.ms=0")
    settings = [word for one in intervals for word in ("--set", f"group.streams.{one}")]
    with Muster(tmp_path, "--topic", "orders:4", *settings) as server:
        yield server


def test_a_streams_group_is_described_by_the_partitions_that_its_tasks_read(muster: Muster, command: Command) -> None:
    assert command.lines("groups", "describe") == ["there are no groups"]
    topology = Topology(1, (Subtopology("0", source_topics=("orders",)),))
    join = StreamsGroupHeartbeatRequest(
        "app", "m", 0, -1, None, None, 30_000, topology, (), (), (), "one"
    )  # fmt: skip
    with Client.to(muster.kafka, client_id="till") as client:
        assert client.ask(join, 0).error_code == 0
        beat = StreamsGroupHeartbeatRequest("app", "m", 2, -1)
        assert (
            client.ask(commit("app", {"orders": {0: 0}}, 2, member_id="m"), 9).topics[0].partitions[0].error_code == 0
        )
        assert client.ask(beat, 0).error_code == 0
    head, *rows = command.lines("groups", "describe", "app")
    assert head == "app: Stable, streams, 1 member, epoch 2, lag 0"
    assert [row.split()[:3] for row in rows[1:]] == [["orders", str(one), "0" if one == 0 else "-"] for one in range(4)]
    members = command.lines("groups", "describe", "app", "--members")
    assert members[-1] == "m - /127.0.0.1 till streams 2 - orders:0-3"
    assert command.json("groups", "list", "--type", "streams")[0]["group"] == "app"
    assert any("app" in line for line in command.lines("offsets", "export")), "it has offsets, as consumer groups have"


def test_a_streams_group_is_described_with_the_internal_topics_that_its_tasks_read(
    muster: Muster, command: Command
) -> None:
    """Each partition of each topic that a subtopology reads has an owner, and it is told by members and by partitions."""
    words = StreamsGroupHeartbeatRequestTopicInfo("words", 3)
    parts = (
        Subtopology("0", ("orders",), repartition_sink_topics=("words",)),
        Subtopology("1", repartition_source_topics=(words,)),
    )
    with Client.to(muster.kafka, client_id="till") as client:
        members = [StreamsMember(client, name) for name in ("one", "two")]
        for _ in range(6):
            for member in members:
                member.topology = Topology(0, parts)
                assert member.beat().error_code == 0
    read = {"0": "orders", "1": "words"}
    tasks = {
        f"{member.name}-id": {(read[each.subtopology_id], at) for each in member.tasks[0] for at in each.partitions}
        for member in members
    }
    assert sorted(tasks["one-id"] | tasks["two-id"]) == [("orders", at) for at in range(4)] + [
        ("words", at) for at in range(3)
    ]
    (group,) = command.json("groups", "describe", "app")
    for field in ("assignment", "target"):
        assert tasks == {
            one["member_id"]: {(topic, at) for topic, numbers in one[field].items() for at in numbers}
            for one in group["members"]
        }
    owners = {(one["topic"], one["partition"]): one["member_id"] for one in group["offsets"]}
    assert owners == {place: member_id for member_id, places in tasks.items() for place in places}


def test_a_share_group_is_described_by_where_its_partitions_begin(muster: Muster, command: Command) -> None:
    with Client.to(muster.kafka, client_id="till") as client:
        topic = client.ask(MetadataRequest((MetadataRequestTopic(name="orders"),))).topics[0]
        assert client.ask(alter_configs(GROUP_CONFIGS, "queue", {"share.auto.offset.reset": "earliest"})).responses
        epoch = 0
        while epoch < 2:  # the second epoch has the states of all partitions
            found = client.ask(
                ShareGroupHeartbeatRequest("queue", "m", epoch, None, ("orders",) if not epoch else None)
            )
            assert found.error_code == 0
            epoch = found.member_epoch
        records(muster.kafka, "orders", {0: 10})
        take = ShareFetchRequest("queue", "m", 0, 0, 1, 1 << 20, 4, 4, 1, topics=(
            ShareFetchRequestTopic(topic.topic_id, (ShareFetchRequestPartition(0),)),
        ))  # fmt: skip
        assert client.ask(take).error_code == 0
        accepted = ShareAcknowledgeRequestPartition(0, (ShareAcknowledgeRequestAcknowledgementBatch(0, 2, (1,)),))
        done = ShareAcknowledgeRequest(
            "queue", "m", 1, topics=(ShareAcknowledgeRequestTopic(topic.topic_id, (accepted,)),)
        )
        assert client.ask(done).error_code == 0
    head, *rows = command.lines("groups", "describe", "queue")
    assert head == "queue: Stable, share, 1 member, assignor simple, epoch 2, lag 7"
    assert [row.split() for row in rows[:2]] == [
        ["TOPIC", "PARTITION", "START-OFFSET", "LAG"],
        ["orders", "0", "3", "7"],
    ]
    assert command.json("groups", "describe", "queue")[0]["offsets"][0] == {
        "topic": "orders",
        "partition": 0,
        "start_offset": 3,
        "lag": 7,
    }
    assert "till share 2 orders" in command.lines("groups", "describe", "queue", "--members")[-1]

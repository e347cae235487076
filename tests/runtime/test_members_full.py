"""What members of groups may take: `group.members.max.bytes` of all together, `max.message.bytes` of a group at once."""

import gc
from collections.abc import Callable
from typing import Any

import pytest

from coordinator.core.topics import Topics
from protocol.errors import ErrorCode
from protocol.messages import write_share_group_state as share_state
from protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.core.weighing import weigh_members
from tests.members import StreamsMember
from tests.requests import create_topics, join
from tests.server.in_memory import InMemory, Peer

FULL = ErrorCode.GROUP_MAX_SIZE_REACHED
BOUND = 200_000


def protocol(size: int) -> tuple[JoinGroupRequestProtocol, ...]:
    return (JoinGroupRequestProtocol("range", bytes(size)),)


def beat(
    group: str, member: str, epoch: int = 0, names: tuple[str, ...] | None = ("t",)
) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group, member, epoch, rebalance_timeout_ms=60_000, subscribed_topic_names=names, topic_partitions=()
    )


def recount(server: InMemory) -> int:
    return sum(weigh_members(partition.shard) for partition in server.node.world.partitions)


def fill(server: InMemory, peer: Peer) -> int:
    """Make groups of one member each, until there is no room for more."""
    for number in range(100):
        code = peer.ask(join(f"g{number}", protocols=protocol(20_000)), 3).error_code
        assert server.node.engine.memory.members_bytes == recount(server)
        if code:
            assert code == FULL
            return number
    raise AssertionError("nothing is refused")


def test_beyond_the_bound_no_member_comes_and_those_that_are_there_go_on() -> None:
    server = InMemory(group_members_max_bytes=BOUND)
    peer = server.connect()
    member = peer.ask(beat("consumer", "m"), 1)
    first = peer.ask(join("first", protocols=protocol(5_000)), 3)
    assert 5 < fill(server, peer) < 11
    assert peer.ask(beat("consumer", "new"), 1).error_code == FULL
    refused = peer.ask(beat("other", "m"), 1)
    assert (refused.error_code, "group.members.max.bytes" in refused.error_message) == (FULL, True)
    assert peer.ask(beat("consumer", "m", member.member_epoch, None), 1).error_code == 0
    again = peer.ask(join("first", first.member_id, protocols=protocol(5_000)), 3)
    assert again.error_code == 0
    assert peer.ask(join("first", first.member_id, protocols=protocol(50_000)), 3).error_code == FULL
    sync = SyncGroupRequest(
        "first", again.generation_id, first.member_id, assignments=(SyncGroupRequestAssignment(first.member_id, b"a"),)
    )
    assert peer.ask(sync, 2).error_code == 0
    assert server.node.engine.memory.members_bytes == recount(server) > BOUND
    for number in range(3):
        group = server.node.world.partitions.owner(f"g{number}").shard.groups[f"g{number}"]
        peer.ask(LeaveGroupRequest(f"g{number}", next(iter(group.members))), 1)
    assert server.node.engine.memory.members_bytes == recount(server) < BOUND
    assert peer.ask(join("late", protocols=protocol(5_000)), 3).error_code == 0
    assert not server.node.world.edge.failures


def test_ids_that_are_given_out_count_until_they_join_or_run_out() -> None:
    """They were held for as long as a session, and as many as a client asked for."""
    server = InMemory(group_members_max_bytes=BOUND)
    peer = server.connect("c" * 20_000)
    given = [peer.ask(join("g"), 5) for _ in range(12)]
    codes = [one.error_code for one in given]
    assert codes == sorted(codes), "they are refused once there is no room"
    assert set(codes) == {ErrorCode.MEMBER_ID_REQUIRED, FULL} and codes[8] == ErrorCode.MEMBER_ID_REQUIRED
    assert server.node.engine.memory.members_bytes == recount(server) > BOUND
    server.advance(400)
    assert server.node.engine.memory.members_bytes == recount(server) == 0
    named = peer.ask(join("g"), 5).member_id
    assert peer.ask(join("g", named), 5).error_code == 0
    assert server.node.engine.memory.members_bytes == recount(server) > 0
    assert not server.node.world.edge.failures


def test_the_topics_that_patterns_have_matched_count() -> None:
    """Each group has them for itself: a pattern of five characters may match all topics that there are."""
    server = InMemory(topics={f"{number}".rjust(200, "t"): 1 for number in range(100)}, group_members_max_bytes=BOUND)
    peer, codes = server.connect(), list[int]()
    for number in range(20):
        request = ConsumerGroupHeartbeatRequest(f"g{number}", "m", 0, None, None, 60_000, None, "t.*", None, ())
        codes.append(peer.ask(request, 1).error_code)
        server.rest()
        assert server.node.engine.memory.members_bytes == recount(server)
    assert codes == sorted(codes) and set(codes) == {ErrorCode.NONE, FULL}
    for number in range(20):
        peer.ask(ConsumerGroupHeartbeatRequest(f"g{number}", "m", -1), 1)
    assert server.node.engine.memory.members_bytes == recount(server) < BOUND / 10
    assert not server.node.world.edge.failures


def test_the_states_of_share_partitions_count() -> None:
    """A member that names a topic has the states of all of its partitions begun, for its group alone."""
    topics = {"t": 100}
    server = InMemory(topics=topics, group_members_max_bytes=BOUND, share_coordinator_state_topic_num_partitions=2)
    peer, memory, states = server.connect(), server.node.engine.memory, server.node.engine.share_states

    def ask(request: Any, version: int) -> Any:
        peer.send((request, version))
        server.rest()
        return peer.answers[-1][1]

    def beat_share(group: str, epoch: int, names: tuple[str, ...] | None = None) -> Any:
        return ask(ShareGroupHeartbeatRequest(group, "m", epoch, None, names), 1)

    def begun(group: str) -> int:
        return sum(key.group_id == group for key, _ in states.states())

    epoch = beat_share("g", 0, ("t", "more")).member_epoch
    codes = [beat_share(f"g{number}", 0, ("t",)).error_code for number in range(8)]
    assert codes == sorted(codes) and set(codes) == {ErrorCode.NONE, FULL}
    assert 0.9 * BOUND < memory.states_bytes < 1.5 * BOUND

    ask(create_topics({"more": 50}), 7)
    topic_id = server.node.world.ledger.catalog.topics_by_name["more"].id
    for _ in range(3):
        epoch = beat_share("g", epoch).member_epoch
        server.advance(1)
    assert begun("g") == 100, "a member that is there goes on, without states of more partitions"
    size = server.node.log_bytes()["__consumer_offsets"]
    beat_share("g", epoch)
    assert server.node.log_bytes()["__consumer_offsets"] == size, "it is asked for again after a while"
    beat_share("g0", -1)
    some = (AlterShareGroupOffsetsRequestPartition(0, 5), AlterShareGroupOffsetsRequestPartition(1, 5))
    for group, topic, code in (("late", "more", ErrorCode.POLICY_VIOLATION), ("g0", "t", ErrorCode.NONE)):
        altered = ask(AlterShareGroupOffsetsRequest(group, (AlterShareGroupOffsetsRequestTopic(topic, some),)), 0)
        assert {one.error_code for one in altered.responses[0].partitions} == {code}
    update = share_state.WriteShareGroupStateRequestPartitionData(
        0, -1, -1, 0, 0, (share_state.WriteShareGroupStateRequestStateBatch(0, 5, 2, 1),)
    )
    data = (share_state.WriteShareGroupStateRequestWriteStateData(topic_id, (update,)),)
    written = ask(share_state.WriteShareGroupStateRequest("g", data), 0)
    assert written.results[0].partitions[0].error_code == ErrorCode.POLICY_VIOLATION

    again = InMemory(server.files, topics=topics, group_members_max_bytes=BOUND)
    assert again.node.engine.memory.states_bytes == memory.states_bytes
    for number in range(codes.index(FULL)):
        beat_share(f"g{number}", -1)
        assert ask(DeleteGroupsRequest((f"g{number}",)), 2).results[0].error_code == ErrorCode.NONE
    server.advance(31)
    beat_share("g", epoch)
    assert begun("g") == 150 and memory.states_bytes < BOUND
    assert not server.node.world.edge.failures


def _beat_with_pattern(peer: Peer, group: str) -> Any:
    request = ConsumerGroupHeartbeatRequest(group, "m", 0, None, None, 60_000, None, "t.*", None, ())
    return peer.ask(request, 1)


def test_no_group_keeps_the_topics_of_its_last_heartbeat() -> None:
    """All of them are made anew with each change: as many groups as there are topics would keep the square of that."""
    server = InMemory(topics={"text": 1})
    peer, before = server.connect(), _count_topics()
    beats: list[Callable[[str], Any]] = [
        lambda group: peer.ask(beat(group, "m"), 1),
        lambda group: _beat_with_pattern(peer, group),
        lambda group: peer.ask(ShareGroupHeartbeatRequest(group, "m", 0, None, ("text",)), 1),
        lambda group: StreamsMember(peer, "m", group).beat(),
    ]
    for number in range(16):
        peer.ask(create_topics({f"t{number}": 1}), 7)
        assert beats[number % 4](f"g{number}").error_code == ErrorCode.NONE
        server.rest()
    assert _count_topics() - before <= 2


def _count_topics() -> int:
    """Return how many collections of all topics there are in this process."""
    gc.collect()
    return sum(type(one) is Topics for one in gc.get_objects())


def test_what_members_take_is_the_same_after_a_restart() -> None:
    server = InMemory()
    peer = server.connect()
    for number in range(3):
        peer.ask(beat("consumer", f"m{number}", names=("t" * 100,)), 1)
    before = server.node.engine.memory.members_bytes
    again = InMemory(server.files)
    assert again.node.engine.memory.members_bytes == recount(again) == before > 0


@pytest.fixture
def pair() -> tuple[InMemory, Peer, Peer, list[str]]:
    """A group of two members, whose leader has yet to send the assignment that the other one waits for."""
    server = InMemory(frame_bytes_max=1 << 23)
    one, two = server.connect(), server.connect()
    first = one.ask(join("g", rebalance_ms=60_000), 3).member_id
    two.ask(join("g", rebalance_ms=60_000), 3)
    one.ask(join("g", first, rebalance_ms=60_000), 3)
    members = [first, two.answers[-1][1].member_id]
    two.ask(SyncGroupRequest("g", 2, members[1]), 2)
    return server, one, two, members


def test_an_assignment_that_the_log_does_not_take_is_given_up_and_the_group_rebalances(
    pair: tuple[InMemory, Peer, Peer, list[str]],
) -> None:
    """Kafka: UNKNOWN_SERVER_ERROR for all who wait, and another rebalance. They have a session from then on."""
    server, one, two, members = pair
    for _ in range(3):  # for longer than the session of who waits
        server.advance(5)
        assert one.ask(HeartbeatRequest("g", 2, members[0]), 3).error_code == 0
    log_bytes, waiting = server.node.log_bytes(), len(two.answers)
    large = tuple([SyncGroupRequestAssignment(member, bytes(600_000)) for member in members])
    assert one.ask(SyncGroupRequest("g", 2, members[0], assignments=large), 2).error_code == -1
    assert [answer.error_code for _, answer in two.answers[waiting:]] == [-1]
    server.rest()
    group = server.node.world.partitions.owner("g").shard.groups["g"]
    assert group.state == "PreparingRebalance"
    assert server.node.log_bytes() == log_bytes
    assert not server.node.world.edge.failures, "what a client causes is no failure of the server"
    one.ask(join("g", members[0]), 3)
    two.ask(join("g", members[1]), 3)
    small = tuple([SyncGroupRequestAssignment(member, bytes(400_000)) for member in members])
    two.ask(SyncGroupRequest("g", 3, members[1]), 2)
    assert one.ask(SyncGroupRequest("g", 3, members[0], assignments=small), 2).assignment == bytes(400_000)
    assert two.answers[-1][1].assignment == bytes(400_000)


def test_a_member_whose_record_the_log_does_not_take_is_refused() -> None:
    server = InMemory(frame_bytes_max=1 << 23)
    peer = server.connect()
    names = tuple([f"{number}" + "n" * 240 for number in range(4_500)])
    refused = peer.ask(beat("g", "m", names=names), 1)
    assert refused.error_code == -1
    assert "g" not in server.node.world.partitions.owner("g").shard.groups
    assert not server.node.world.edge.failures
    assert peer.ask(beat("g", "m", names=names[:4_000]), 1).error_code == 0

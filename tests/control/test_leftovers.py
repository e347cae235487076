"""A client that a test leaves open connects again after a reset, and joins the group of the next test: it is kept out."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.control.journal import Filter
from coordinator.control.leftovers import CONNECTIONS_MAX, MEMBERS_MAX, Leftovers
from coordinator.control.subject import Subject
from protocol.errors import ErrorCode
from protocol.messages.metadata import MetadataRequest
from protocol.steps import finish_steps
from tests.control.steered import SteeredNode, stable_group
from tests.members import ConsumerMember
from tests.requests import commit

LONG = "0123456789012345678901"


@pytest.fixture
def server() -> SteeredNode:
    return SteeredNode(offsets_topic_num_partitions=1, journal_bytes=1 << 20)


@pytest.mark.parametrize("prefix", ["", "g"])
def test_a_member_of_before_joins_nothing(server: SteeredNode, prefix: str) -> None:
    (zombie,) = stable_group(server, "zombie")
    if prefix:
        server.operator.groups.forget_all(prefix)
    else:
        server.operator.state.reset()
    zombie.peer = server.connect("zombie")
    assert zombie.beat() == ErrorCode.FENCED_INSTANCE_ID
    zombie.member_id = ""
    assert zombie.join().error_code == ErrorCode.FENCED_INSTANCE_ID, "by the connection that has named the old member"
    wanted = commit("g", {"orders": {0: 1}})
    assert zombie.peer.ask(wanted, 8).topics[0].partitions[0].error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    (fresh,) = stable_group(server, "zombie")
    assert fresh.beat() == ErrorCode.NONE, "a client of the same name joins"
    assert [view.group for view in server.operator.groups.views()] == ["g"]
    assert len(server.operator.groups.view("g").members) == 1


def test_a_member_of_the_consumer_protocol_keeps_its_id_and_is_kept_out(server: SteeredNode) -> None:
    zombie = ConsumerMember(server.connect("zombie"), LONG)
    assert zombie.beat().error_code == ErrorCode.NONE
    server.operator.state.reset()
    zombie.peer, zombie.epoch = server.connect("zombie"), 0
    assert zombie.beat().error_code == ErrorCode.FENCED_INSTANCE_ID
    assert ConsumerMember(server.connect("zombie"), LONG[::-1]).beat().error_code == ErrorCode.NONE


def test_what_is_not_about_members_is_answered_and_nothing_of_it_is_noted(server: SteeredNode) -> None:
    (zombie,) = stable_group(server, "zombie")
    server.operator.state.reset()
    zombie.peer = server.connect("zombie")
    zombie.beat()
    assert zombie.peer.ask(MetadataRequest(), 9).brokers
    apis = [entry for entry, _ in server.operator.requests.journal.entries(Filter(api="Heartbeat"))]
    assert apis == [], "a verify of the next test does not count it"


def test_a_snapshot_brings_its_members_back(server: SteeredNode) -> None:
    (member,) = stable_group(server, "a")
    server.operator.state.take_snapshot("before")
    server.operator.state.reset()
    server.operator.state.restore("before")
    member.peer = server.connect("a")
    assert member.beat() == ErrorCode.NONE


def test_ids_that_a_test_has_chosen_may_come_again(server: SteeredNode) -> None:
    assert ConsumerMember(server.connect("a"), "a").beat().error_code == ErrorCode.NONE
    server.operator.state.reset()
    assert ConsumerMember(server.connect("a"), "a").beat().error_code == ErrorCode.NONE


def test_a_cluster_keeps_its_id_over_a_reset(server: SteeredNode) -> None:
    before = server.connect("a").ask(MetadataRequest(), 9).cluster_id
    server.operator.state.reset()
    assert server.connect("a").ask(MetadataRequest(), 9).cluster_id == before


def test_what_is_remembered_is_bounded() -> None:
    leftovers = Leftovers()
    leftovers.note(f"{LONG}-{number}" for number in range(MEMBERS_MAX + 5))
    assert leftovers.find(1, Subject("Heartbeat", "", members=(f"{LONG}-4",))) is None, "the oldest are forgotten"
    for connection in range(CONNECTIONS_MAX + 1):
        assert leftovers.find(connection, Subject("Heartbeat", "", members=(f"{LONG}-5",))) is not None
    assert leftovers.find(0, Subject("JoinGroup", "")) is None
    assert leftovers.find(1, Subject("JoinGroup", "")) is not None


@given(st.sampled_from(["", "a-", "a-x", "b-"]), st.sets(st.sampled_from(["a-", "a-x", "b-y", "c"])), st.booleans())
@settings(max_examples=30)
def test_members_of_groups_that_stay_are_not_kept_out(prefix: str, keep: set[str], is_of_topics: bool) -> None:
    """Of a reset of the groups alone, and of one of everything with a prefix."""
    server = SteeredNode(offsets_topic_num_partitions=1)
    members = {name: stable_group(server, f"m-{name}", group=name)[0] for name in ("a-x", "a-y", "b-x", "b-y", "c")}
    if is_of_topics:
        finish_steps(server.operator.state.reset_prefix_in_steps(prefix, tuple(keep)))
    else:
        server.operator.groups.forget_all(prefix, tuple(keep))
    for name, member in members.items():
        stays = not name.startswith(prefix) or name.startswith(tuple(keep))
        assert member.beat() == (ErrorCode.NONE if stays else ErrorCode.FENCED_INSTANCE_ID), name

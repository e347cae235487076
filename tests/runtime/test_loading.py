"""A partition that is still loading: each API says so in its own place, and a heartbeat throws nobody out."""

from typing import Any

import pytest

from coordinator.dataplane.brokers import NOBODY
from coordinator.runtime.error_response import unserved_response
from protocol.apis import api_of
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from protocol.messages.sync_group import SyncGroupRequest
from protocol.schema import Message
from tests.requests import commit_in_transaction, join
from tests.server.in_memory import InMemory

LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.fixture
def server() -> InMemory:
    """One whose partitions are as before their loading."""
    made = InMemory()
    for partition in made.node.world.partitions:
        partition.served_by = NOBODY
    return made


def ask(server: InMemory, message: Message) -> Any:
    """The answer, in the latest version that is offered."""
    return server.connect().ask(message, server.node.engine.offered[api_of(message).key][-1])


JOIN = join("g", "m", rebalance_ms=60_000)
COMMIT = OffsetCommitRequest(
    "g",
    topics=(OffsetCommitRequestTopic(topic_id=b"o" * 16, partitions=(OffsetCommitRequestPartition(1, 5),)),),
)


@pytest.mark.rule("G-044 K-258 Q-004")
def test_a_heartbeat_is_told_that_all_is_well(server: InMemory) -> None:
    """Whoever was a member before the restart need not join anew."""
    assert ask(server, HeartbeatRequest("g", 3, "m")).error_code == ErrorCode.NONE


@pytest.mark.rule("G-043 Q-004")
def test_a_sync_is_told_what_every_client_survives(server: InMemory) -> None:
    """Java takes 14 for fatal here."""
    assert ask(server, SyncGroupRequest("g", 3, "m")).error_code == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.rule("G-040 G-042 K-007 K-391")
def test_one_group_is_refused_where_the_api_has_a_place_for_it(server: InMemory) -> None:
    """G-040, G-042, K-007, K-391; JoinGroup gives no member id back."""
    joined = ask(server, JOIN)
    assert (joined.error_code, joined.member_id) == (LOADING, "")
    for request in (LeaveGroupRequest("g"), OffsetDeleteRequest("g"), ConsumerGroupHeartbeatRequest("g", "m", 1)):
        assert ask(server, request).error_code == LOADING, request


@pytest.mark.rule("K-006")
def test_what_is_wrong_as_such_is_told_first(server: InMemory) -> None:
    """As before a coordinator that is elsewhere."""
    assert ask(server, ConsumerGroupHeartbeatRequest("g", "m", -3)).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.rule("G-042 O-020 O-209")
def test_offsets_are_refused_a_partition_and_a_group(server: InMemory) -> None:
    committed = server.connect().ask(COMMIT, 10).topics[0].partitions[0]
    assert (committed.partition_index, committed.error_code) == (1, LOADING)
    asked = OffsetFetchRequest(groups=(OffsetFetchRequestGroup("g"), OffsetFetchRequestGroup("h")))
    fetched = ask(server, asked).groups
    assert [(one.group_id, one.error_code) for one in fetched] == [("g", LOADING), ("h", LOADING)]


@pytest.mark.rule("A-002 K-314")
def test_groups_are_described_and_deleted_each_by_itself(server: InMemory) -> None:
    """Those of a partition that is loaded are there already."""
    server.node.world.partitions.owner("there").served_by = 0
    described = ask(server, DescribeGroupsRequest(("g", "there"))).groups
    assert [one.error_code for one in described] == [LOADING, ErrorCode.GROUP_ID_NOT_FOUND]
    described = ask(server, ConsumerGroupDescribeRequest(("g", "there"))).groups
    assert [one.error_code for one in described] == [LOADING, ErrorCode.GROUP_ID_NOT_FOUND]
    deleted = ask(server, DeleteGroupsRequest(("g", "there"))).results
    assert [one.error_code for one in deleted] == [LOADING, ErrorCode.GROUP_ID_NOT_FOUND]


@pytest.mark.rule("A-107 K-325")
def test_one_loading_partition_spoils_the_list(server: InMemory) -> None:
    """A list that leaves groups out would be taken for the truth."""
    for partition in server.node.world.partitions:
        partition.served_by = 0
    assert ask(server, ListGroupsRequest()).error_code == ErrorCode.NONE
    server.node.world.partitions.owner("g").served_by = NOBODY
    listed = ask(server, ListGroupsRequest())
    assert (listed.error_code, listed.groups) == (LOADING, ())


@pytest.mark.rule("F-013 F-010")
def test_the_coordinator_is_found_all_the_same(server: InMemory) -> None:
    found = ask(server, FindCoordinatorRequest(key_type=0, coordinator_keys=("g",))).coordinators[0]
    assert (found.error_code, found.node_id, found.port) == (ErrorCode.NONE, 0, 9092)


@pytest.mark.rule("O-115")
def test_an_old_producer_is_told_to_look_for_the_coordinator_again() -> None:
    """Versions 0 and 1 do not know 14."""
    request = commit_in_transaction("t", "g", (-1, -1), {"orders": {1: 5}})
    told = [unserved_response(request, version, LOADING).topics[0].partitions[0].error_code for version in range(6)]
    assert told == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2 + [LOADING] * 4

"""DescribeShareGroupOffsets: where a share group is, and how far behind, whatever its state says."""

from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.share_state.values import StateKey, StateUpdate
from protocol.errors import ErrorCode
from protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from tests.dataplane.broker import batch
from tests.requests import produce
from tests.server.in_memory import WALL_MS, InMemory

UNKNOWN = -1  # of a start offset, of a count of records that are done, and so of a lag


@given(records=st.integers(0, 4), start=st.integers(-1, 5), done=st.integers(-1, 3), is_named=st.booleans())
def test_the_lag_is_what_is_behind_the_start_and_not_done(records: int, start: int, done: int, is_named: bool) -> None:
    """It is not known where the start is not, or how many records behind it are done."""
    server = InMemory(topics={"orders": 1}, share_coordinator_state_topic_num_partitions=1)
    peer = server.connect()
    if records:
        produced = peer.ask(produce("orders", {0: batch(*"a" * records)}), 9)
        assert produced.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    states = server.node.engine.share_states
    key = StateKey("g", server.node.world.ledger.catalog.topics["orders"].id, 0)
    assert states.initialize(key, 0, start, WALL_MS) == ErrorCode.NONE
    assert states.write(key, StateUpdate(-1, -1, start, done, ()), WALL_MS) == ErrorCode.NONE

    topics = (DescribeShareGroupOffsetsRequestTopic("orders", (0,)),)
    asked = DescribeShareGroupOffsetsRequestGroup("g", topics if is_named else None)
    (group,) = peer.ask(DescribeShareGroupOffsetsRequest((asked,)), 1).groups
    assert group.error_code == ErrorCode.NONE
    if not is_named:  # no member has made the group, so it has no topics
        assert group.topics == ()
        return
    (found,) = group.topics[0].partitions
    assert (found.error_code, found.start_offset) == (ErrorCode.NONE, start)
    assert found.lag == (UNKNOWN if UNKNOWN in (start, done) else records - start - done)

"""Moves of replicas, which are refused: all sets of brokers, beside what the present replicas allow."""

from itertools import permutations

import pytest

from protocol.errors import ErrorCode
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsRequestReassignablePartition,
    AlterPartitionReassignmentsRequestReassignableTopic,
)
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestCreatableTopic
from protocol.messages.metadata import MetadataRequest
from tests.server.in_memory import InMemory

BROKERS = 3


@pytest.mark.parametrize("copies", range(1, BROKERS + 1))
@pytest.mark.parametrize("may_change", [False, True])
def test_only_the_replicas_that_there_are_may_be_asked_for(copies: int, may_change: bool) -> None:
    peer = InMemory(virtual_brokers=BROKERS).connect()
    peer.ask(CreateTopicsRequest((CreateTopicsRequestCreatableTopic("t", 2, copies),)), 7)
    (topic,) = [one for one in peer.ask(MetadataRequest(topics=None), 12).topics if one.name == "t"]
    ids = [0, 1, 2, 7]
    for partition in topic.partitions:
        assert len(partition.replica_nodes) == copies
        for wanted in [chosen for count in range(4) for chosen in permutations(ids, count)] + [(0, 0), (1, 1, 2)]:
            request = AlterPartitionReassignmentsRequest(
                allow_replication_factor_change=may_change,
                topics=(
                    AlterPartitionReassignmentsRequestReassignableTopic(
                        "t",
                        (AlterPartitionReassignmentsRequestReassignablePartition(partition.partition_index, wanted),),
                    ),
                ),
            )
            (result,) = peer.ask(request, 1).responses[0].partitions
            is_valid = bool(wanted) and len(set(wanted)) == len(wanted) and 7 not in wanted
            is_same = set(wanted) == set(partition.replica_nodes)
            is_count = is_valid and len(wanted) != copies and not may_change
            expected = ErrorCode.INVALID_REPLICATION_FACTOR if is_count else ErrorCode.INVALID_REPLICA_ASSIGNMENT
            assert result.error_code == (ErrorCode.NONE if is_valid and is_same else expected), wanted

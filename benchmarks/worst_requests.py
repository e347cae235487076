"""What the largest valid request of each API costs: the longest thing that the loop does for it at a time.

    python -m benchmarks.worst_requests [--only TEXT]

A server in this process gets one request a shape, as long as a frame of 8 MiB and the budget of the decoder allow, of
elements as small as they can be. CPU time is measured for decoding, for each step of deciding, and for each piece of
the response, none of which anything can interrupt. Aim: 50 ms for each of them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

from coordinator.config import Config
from coordinator.core.decision import Done, Parked
from coordinator.core.result import Call
from coordinator.dataplane.brokers import Broker
from coordinator.runtime.clock import Clock
from coordinator.runtime.dice import fresh_ids
from coordinator.runtime.node import Node, Setup, Where
from coordinator.server.encoding import SHORT
from protocol.apis import api_of
from protocol.codec import decode_request, encode_request, encode_response, encode_response_in_pieces
from protocol.errors import ProtocolError
from protocol.messages import (
    add_partitions_to_txn,
    alter_configs,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_configs,
    describe_groups,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    sync_group,
    txn_offset_commit,
)
from storage.memory_files import MemoryFiles

FRAME_BYTES_MAX = 8 << 20
TOPIC, PARTITIONS = "t", 1000
Make = Callable[[int], Any]


def texts(count: int) -> tuple[str, ...]:
    """So many different short texts."""
    return tuple([f"{number:x}" for number in range(count)])


def numbers(count: int) -> tuple[int, ...]:
    return tuple(range(count))


def repeat(value: Any) -> Make:
    return lambda count: (value,) * count


def shapes() -> dict[str, Make]:
    """A request by its name, as a function of how many elements it has."""
    commit, txn, fetched = offset_commit, txn_offset_commit, offset_fetch
    resource = incremental_alter_configs.IncrementalAlterConfigsRequestResource
    return {
        "AddPartitionsToTxn, one topic": lambda n: add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_topics=(add_partitions_to_txn.AddPartitionsToTxnRequestTopic(TOPIC, numbers(n)),),
        ),
        "AlterConfigs": lambda n: alter_configs.AlterConfigsRequest(
            tuple([alter_configs.AlterConfigsRequestResource(2, text) for text in texts(n)])
        ),
        "ConsumerGroupDescribe": lambda n: consumer_group_describe.ConsumerGroupDescribeRequest(texts(n)),
        "ConsumerGroupHeartbeat, names": lambda n: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            "names", "m", 0, rebalance_timeout_ms=1000, subscribed_topic_names=texts(n), topic_partitions=()
        ),
        "ConsumerGroupHeartbeat, owned": lambda n: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            "owned",
            "m",
            0,
            rebalance_timeout_ms=1000,
            subscribed_topic_names=(TOPIC,),
            topic_partitions=(
                consumer_group_heartbeat.ConsumerGroupHeartbeatRequestTopicPartitions(b"t" * 16, numbers(n)),
            ),
        ),
        "CreatePartitions": lambda n: create_partitions.CreatePartitionsRequest(
            tuple([create_partitions.CreatePartitionsRequestTopic(text, 3, None) for text in texts(n)])
        ),
        "CreateTopics, refused": lambda n: create_topics.CreateTopicsRequest(
            tuple([create_topics.CreateTopicsRequestCreatableTopic(text, -9, 1) for text in texts(n)])
        ),
        "CreateTopics": lambda n: create_topics.CreateTopicsRequest(
            tuple([create_topics.CreateTopicsRequestCreatableTopic(text, 1, 1) for text in texts(n)]),
            validate_only=True,
        ),
        "DeleteGroups": lambda n: delete_groups.DeleteGroupsRequest(texts(n)),
        "DeleteRecords": lambda n: delete_records.DeleteRecordsRequest(
            (
                delete_records.DeleteRecordsRequestTopic(
                    TOPIC, tuple([delete_records.DeleteRecordsRequestPartition(index, 0) for index in range(n)])
                ),
            )
        ),
        "DeleteTopics": lambda n: delete_topics.DeleteTopicsRequest(
            tuple([delete_topics.DeleteTopicsRequestDeleteTopicState(text) for text in texts(n)])
        ),
        "DescribeConfigs, one topic many times": lambda n: describe_configs.DescribeConfigsRequest(
            repeat(describe_configs.DescribeConfigsRequestResource(2, TOPIC, None))(n),
            include_synonyms=True,
            include_documentation=True,
        ),
        "DescribeConfigs, keys": lambda n: describe_configs.DescribeConfigsRequest(
            (describe_configs.DescribeConfigsRequestResource(2, TOPIC, texts(n)),)
        ),
        "DescribeGroups": lambda n: describe_groups.DescribeGroupsRequest(texts(n)),
        "DescribeGroups, long ids": lambda n: describe_groups.DescribeGroupsRequest(
            tuple([f"{number:x}".ljust(32_767, "x") for number in range(n)])
        ),
        "DescribeProducers": lambda n: describe_producers.DescribeProducersRequest(
            (describe_producers.DescribeProducersRequestTopic(TOPIC, numbers(n)),)
        ),
        "DescribeTopicPartitions": lambda n: describe_topic_partitions.DescribeTopicPartitionsRequest(
            tuple([describe_topic_partitions.DescribeTopicPartitionsRequestTopic(text) for text in texts(n)])
        ),
        "DescribeTransactions": lambda n: describe_transactions.DescribeTransactionsRequest(texts(n)),
        "Fetch, one topic": lambda n: fetch.FetchRequest(
            max_wait_ms=0,
            session_epoch=-1,
            topics=(
                fetch.FetchRequestTopic(
                    topic_id=b"t" * 16,
                    partitions=tuple([fetch.FetchRequestPartition(index, partition_max_bytes=1) for index in range(n)]),
                ),
            ),
        ),
        "FindCoordinator": lambda n: find_coordinator.FindCoordinatorRequest(coordinator_keys=texts(n)),
        "IncrementalAlterConfigs": lambda n: incremental_alter_configs.IncrementalAlterConfigsRequest(
            tuple([resource(2, text) for text in texts(n)])
        ),
        "IncrementalAlterConfigs, one topic": lambda n: incremental_alter_configs.IncrementalAlterConfigsRequest(
            (
                resource(
                    2,
                    TOPIC,
                    tuple(
                        [
                            incremental_alter_configs.IncrementalAlterConfigsRequestAlterableConfig(text, 0, "1")
                            for text in texts(n)
                        ]
                    ),
                ),
            )
        ),
        "JoinGroup, protocols": lambda n: join_group.JoinGroupRequest(
            "join",
            10_000,
            10_000,
            group_instance_id="i",
            protocol_type="consumer",
            protocols=tuple([join_group.JoinGroupRequestProtocol(text) for text in texts(n)]),
        ),
        "LeaveGroup": lambda n: leave_group.LeaveGroupRequest(
            "leave", members=tuple([leave_group.LeaveGroupRequestMemberIdentity(text) for text in texts(n)])
        ),
        "ListConfigResources": lambda n: list_config_resources.ListConfigResourcesRequest((2,) * n),
        "ListGroups, filters": lambda n: list_groups.ListGroupsRequest(texts(n)),
        "ListOffsets": lambda n: list_offsets.ListOffsetsRequest(
            -1,
            topics=(
                list_offsets.ListOffsetsRequestTopic(
                    TOPIC,
                    tuple([list_offsets.ListOffsetsRequestPartition(index, timestamp=-1) for index in range(n)]),
                ),
            ),
        ),
        "ListTransactions, filters": lambda n: list_transactions.ListTransactionsRequest(texts(n), numbers(n)),
        "Metadata, names": lambda n: metadata.MetadataRequest(
            tuple([metadata.MetadataRequestTopic(name=text) for text in texts(n)]), allow_auto_topic_creation=False
        ),
        "Metadata, one topic many times": lambda n: metadata.MetadataRequest(
            repeat(metadata.MetadataRequestTopic(name=TOPIC))(n), allow_auto_topic_creation=False
        ),
        "OffsetCommit, topics": lambda n: commit.OffsetCommitRequest(
            "commit",
            topics=tuple(
                [
                    commit.OffsetCommitRequestTopic(text, partitions=(commit.OffsetCommitRequestPartition(0),))
                    for text in texts(n)
                ]
            ),
        ),
        "OffsetCommit, one topic": lambda n: commit.OffsetCommitRequest(
            "commit",
            topics=(
                commit.OffsetCommitRequestTopic(
                    TOPIC,
                    partitions=tuple([commit.OffsetCommitRequestPartition(at % PARTITIONS, at) for at in range(n)]),
                ),
            ),
        ),
        "OffsetCommit, long metadata": lambda n: commit.OffsetCommitRequest(
            "commit",
            topics=(
                commit.OffsetCommitRequestTopic(
                    TOPIC,
                    partitions=tuple(
                        [
                            commit.OffsetCommitRequestPartition(at % PARTITIONS, at, committed_metadata="x" * 4096)
                            for at in range(n)
                        ]
                    ),
                ),
            ),
        ),
        "OffsetDelete": lambda n: offset_delete.OffsetDeleteRequest(
            "commit",
            (
                offset_delete.OffsetDeleteRequestTopic(
                    TOPIC, tuple([offset_delete.OffsetDeleteRequestPartition(index) for index in range(n)][:n])
                ),
            ),
        ),
        "OffsetFetch, groups": lambda n: fetched.OffsetFetchRequest(
            groups=tuple([fetched.OffsetFetchRequestGroup(text, topics=None) for text in texts(n)])
        ),
        "OffsetFetch, one group many times": lambda n: fetched.OffsetFetchRequest(
            groups=repeat(fetched.OffsetFetchRequestGroup("commit", topics=None))(n)
        ),
        "OffsetFetch, one topic": lambda n: fetched.OffsetFetchRequest(
            groups=(
                fetched.OffsetFetchRequestGroup(
                    "commit", topics=(fetched.OffsetFetchRequestTopics(TOPIC, partition_indexes=numbers(n)),)
                ),
            )
        ),
        "OffsetForLeaderEpoch": lambda n: offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            -1,
            (
                offset_for_leader_epoch.OffsetForLeaderEpochRequestTopic(
                    TOPIC,
                    tuple([offset_for_leader_epoch.OffsetForLeaderEpochRequestPartition(index) for index in range(n)]),
                ),
            ),
        ),
        "SyncGroup": lambda n: sync_group.SyncGroupRequest(
            "sync",
            1,
            "m",
            assignments=tuple([sync_group.SyncGroupRequestAssignment(text) for text in texts(n)]),
        ),
        "TxnOffsetCommit": lambda n: txn.TxnOffsetCommitRequest(
            "x",
            "commit",
            topics=(
                txn.TxnOffsetCommitRequestTopic(
                    TOPIC, tuple([txn.TxnOffsetCommitRequestPartition(at % PARTITIONS, at) for at in range(n)])
                ),
            ),
        ),
    }


VERSIONS = {"AddPartitionsToTxn": 3, "OffsetCommit": 9, "OffsetFetch": 9}  # where a later one names topics by id


def server() -> Node:
    """A node in memory with one topic."""
    clock = Clock(1_700_000_000_000, lambda: 0.0)
    node = Node(
        Setup(
            config=Config({}),
            files=MemoryFiles(),
            data_dir="data",
            fresh_id=fresh_ids(7),
            real_ms=clock.now_ms,
            tell=lambda event: None,
            topics={TOPIC: PARTITIONS},
        )
    )
    node.open(clock.now_ms())
    for _ in node.load(clock.now_ms):
        pass
    return node


def largest(make: Make, version: int) -> tuple[int, bytes]:
    """The most elements for which the frame is not too long and can be decoded, and that frame."""

    def frame(count: int) -> bytes | None:
        message = make(count)
        data = encode_request(api_of(message).key, version, 1, "c", message)[4:]
        if len(data) > FRAME_BYTES_MAX:
            return None
        try:
            decode_request(data)
        except ProtocolError:
            return None
        return data

    least, found = 1, frame(1)
    assert found is not None, "one element fits"
    while (data := frame(2 * least)) is not None:
        least, found = 2 * least, data
    most = 2 * least
    while most - least > least // 20:
        middle = (least + most) // 2
        if (data := frame(middle)) is None:
            most = middle
        else:
            least, found = middle, data
    return least, found


def cpu_ms(run: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    result = run()
    return 1e3 * (time.process_time() - began), result


def encode(api_key: int, version: int, response: Any) -> tuple[float, int]:
    """Return how long the longest piece of a response took, or all of one that is encoded at once, and its bytes."""
    if api_key in SHORT:
        took, out = cpu_ms(lambda: encode_response(api_key, version, 1, response))
        return took, len(out)
    longest, size, pieces = 0.0, 0, encode_response_in_pieces(api_key, version, 1, response)
    while True:
        took, piece = cpu_ms(lambda: next(pieces, None))
        longest = max(longest, took)
        if piece is None:
            return longest, size
        size += len(piece)


def measure(name: str, make: Make) -> None:
    """Print what the largest request of this shape costs."""
    version = VERSIONS.get(name.partition(",")[0]) or api_of(make(1)).versions[-1]
    count, data = largest(make, version)
    node = server()
    where = Where((Broker(0, "localhost", 9092),))
    decoding, request = cpu_ms(lambda: decode_request(data))
    call = Call(1, 1_700_000_000_000, version, "c", "127.0.0.1", fresh_ids(8))
    first, outcome = cpu_ms(lambda: node.engine.handle(request.api_key, request.body, call, where))
    steps = [first]
    while isinstance(outcome, Parked) and node.engine.unfinished:
        step, _ = cpu_ms(node.engine.long_requests.step)
        steps.append(step)
        outcome = next((one for _, one in node.engine.replies()), outcome)
    flushing, _ = cpu_ms(node.engine.flush)
    encoding, size = 0.0, 0
    if isinstance(outcome, Done):
        encoding, size = encode(request.api_key, version, outcome.response)
    longest = max(decoding, *steps, flushing, encoding)
    print(
        f"{name:40}{count:>10,}{len(data) / 2**20:>7.1f}{decoding:>8.0f}{len(steps):>7,}{max(steps):>8.0f}"
        f"{flushing:>8.0f}{encoding:>8.0f}{size / 2**20:>7.1f}{'  <-- ' if longest > 50 else ''}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="shapes whose name holds this text")
    options = parser.parse_args()
    print(
        f"{'':40}{'elements':>10}{'MiB':>7}{'decode':>8}{'steps':>7}{'longest':>8}{'flush':>8}{'encode':>8}{'MiB':>7}"
    )
    for name, make in shapes().items():
        if options.only in name:
            measure(name, make)


if __name__ == "__main__":
    main()

"""Clients that ask for much, send what nobody should, or do not take what they asked for.

Each offender is a function from a server's host and port to nothing; it returns when it has done its worst. What it
keeps open it puts on the stack, and the caller closes that.
"""

from __future__ import annotations

import contextlib
import gzip
import random
import socket
import struct
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from protocol import record_batch
from protocol.codec import encode_request
from protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestResource,
)
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestCreatableTopic
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsRequestResource
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersRequestTopic
from protocol.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestResource,
)
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMemberIdentity
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsRequestPartition, ListOffsetsRequestTopic
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from protocol.messages.produce import ProduceRequest, ProduceRequestPartitionData, ProduceRequestTopicData
from protocol.records import Record
from protocol.schema import Message

Address = tuple[str, int]
Offender = Callable[[Address, contextlib.ExitStack], None]

TOPIC: Final = "load"
LONG_ID: Final = 32_000
GZIP: Final = 1
ZSTD: Final = 4
TIMEOUT_S: Final = 60.0


def connect(address: Address, stack: contextlib.ExitStack) -> socket.socket:
    return stack.enter_context(socket.create_connection(address, timeout=TIMEOUT_S))


def frame(message: Message, api_key: int, version: int, number: int = 1) -> bytes:
    return encode_request(api_key, version, number, "offender", message)


def send(sock: socket.socket, data: bytes) -> None:
    """Send what the server takes: it may close the connection before the end."""
    with contextlib.suppress(OSError):
        sock.sendall(data)


def await_responses(sock: socket.socket, count: int) -> None:
    """Read so many responses, or until the server closes the connection."""
    with contextlib.suppress(OSError):
        for _ in range(count):
            size = sock.recv(4, socket.MSG_WAITALL)
            if len(size) < 4:
                return
            left = int.from_bytes(size, "big")
            while left:
                chunk = sock.recv(min(left, 1 << 20))
                if not chunk:
                    return
                left -= len(chunk)


def ask(address: Address, stack: contextlib.ExitStack, *frames: bytes) -> None:
    """Send all at once, and read the responses."""
    sock = connect(address, stack)
    send(sock, b"".join(frames))
    await_responses(sock, len(frames))


def repeat(data: bytes, times: int) -> Offender:
    return lambda address, stack: ask(address, stack, *[data] * times)


def produce(*batches: bytes) -> bytes:
    parts = tuple(ProduceRequestPartitionData(0, data) for data in batches)
    return frame(ProduceRequest(None, 1, 1_000, (ProduceRequestTopicData(TOPIC, partition_data=parts),)), 0, 9)


def bomb(count: int) -> bytes:
    """A batch of a few KB that unpacks to so many records, all of them alike."""
    plain = record_batch.encode([Record(None, b"", timestamp=1)])
    header = replace(record_batch.header_at(plain), attributes=GZIP, last_offset_delta=count - 1, count=count)
    return record_batch.seal(header, gzip.compress(plain[record_batch.HEADER_BYTES :] * count, 6))


def large_records(attributes: int, pack: Callable[[bytes], bytes], *sizes: int) -> bytes:
    """A batch of records with values of zeros, of so many bytes each."""
    plain = record_batch.encode([Record(None, bytes(size), timestamp=1 + at) for at, size in enumerate(sizes)])
    header = replace(record_batch.header_at(plain), attributes=attributes)
    return record_batch.seal(header, pack(plain[record_batch.HEADER_BYTES :]))


def pack_by_zstd(data: bytes) -> bytes:
    import cramjam

    return bytes(cramjam.zstd.compress(data))


def bombs(attributes: int, pack: Callable[[bytes], bytes]) -> Offender:
    """One partition named again and again, each time with a batch that unpacks to more than a batch may."""

    def offend(address: Address, stack: contextlib.ExitStack) -> None:
        batch = large_records(attributes, pack, (32 << 20) + 1)
        ask(address, stack, produce(*[batch] * min(1_400, 7_500_000 // len(batch))))

    return offend


def lookups_in_bombs(address: Address, stack: contextlib.ExitStack) -> None:
    """200 batches of a kilobyte that unpack to 24 MB each, and the offset of the last record by its time, in each."""
    name, batch = "packed", large_records(ZSTD, pack_by_zstd, 10, 24_000_000, 10)
    ask(address, stack, frame(CreateTopicsRequest((CreateTopicsRequestCreatableTopic(name, 200, 1),)), 19, 5))
    for first in range(0, 200, 5):
        parts = tuple([ProduceRequestPartitionData(index, batch) for index in range(first, first + 5)])
        request = ProduceRequest(None, 1, 1_000, (ProduceRequestTopicData(name, partition_data=parts),))
        ask(address, stack, frame(request, 0, 9))
    for time in (1, 3, -3):
        by_time = tuple([ListOffsetsRequestPartition(index, timestamp=time) for index in range(200)])
        ask(address, stack, frame(ListOffsetsRequest(-1, topics=(ListOffsetsRequestTopic(name, by_time),)), 2, 7))


def long_lists(address: Address, stack: contextlib.ExitStack) -> None:
    """39 topics with a list of 5,400 words each, to which 8,000 others are appended."""
    names, setting = [f"list-{number}" for number in range(39)], "leader.replication.throttled.replicas"
    create = CreateTopicsRequest(tuple([CreateTopicsRequestCreatableTopic(name, 1, 1) for name in names]))
    ask(address, stack, frame(create, 19, 5))
    for operation, words in ((0, [f"{n}:1" for n in range(5_400)]), (2, ["1:2"] * 8_000)):
        change = (
            IncrementalAlterConfigsRequestAlterableConfig(
                setting, operation, ",".join(words)[:32_000].rpartition(",")[0]
            ),
        )
        resources = tuple([IncrementalAlterConfigsRequestResource(2, name, change) for name in names])
        ask(address, stack, frame(IncrementalAlterConfigsRequest(resources), 44, 1))


def commit(partitions: int, metadata: str = "") -> bytes:
    each = tuple(OffsetCommitRequestPartition(index, 1, -1, committed_metadata=metadata) for index in range(partitions))
    return frame(OffsetCommitRequest("commits", topics=(OffsetCommitRequestTopic(TOPIC, partitions=each),)), 8, 8)


def make_groups(address: Address, stack: contextlib.ExitStack, count: int, length: int = 10) -> None:
    """Make groups of offsets alone."""
    parts = (OffsetCommitRequestTopic(TOPIC, partitions=(OffsetCommitRequestPartition(0, 1),)),)
    frames = [frame(OffsetCommitRequest(f"{number:0>{length}}", topics=parts), 8, 8) for number in range(count)]
    sock = connect(address, stack)
    for start in range(0, count, 100):
        send(sock, b"".join(frames[start : start + 100]))
        await_responses(sock, len(frames[start : start + 100]))


def malformed_frames(address: Address, stack: contextlib.ExitStack) -> None:
    """One malformed frame on each of 60 connections."""
    body = struct.pack(">hhih", 11, 3, 1, -1) + b"\xff" * 65_000
    socks = [connect(address, stack) for _ in range(60)]
    for sock in socks:
        send(sock, struct.pack(">i", len(body)) + body)
    for sock in socks:
        await_responses(sock, 1)


def unfinished_frames(address: Address, stack: contextlib.ExitStack) -> None:
    """All but the last bytes of a frame of 8 MiB on each of 100 connections."""
    size = 8 * 1024 * 1024
    data = struct.pack(">i", size) + bytes(size - 100)
    for _ in range(100):
        send(connect(address, stack), data)


def unread_lists(address: Address, stack: contextlib.ExitStack) -> None:
    """Lists of all groups that twenty clients never read."""
    for _ in range(20):
        sock = connect(address, stack)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        send(sock, frame(ListGroupsRequest(), 16, 4) * 3)


def slow_readers(address: Address, stack: contextlib.ExitStack) -> None:
    """Twenty clients that fetch much and read a little of it now and then."""
    part = FetchRequestPartition(0, partition_max_bytes=1 << 30)
    data = frame(
        FetchRequest(min_bytes=1, max_bytes=1 << 30, topics=(FetchRequestTopic(TOPIC, partitions=(part,)),)), 1, 11
    )
    socks = []
    for _ in range(20):
        sock = connect(address, stack)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        send(sock, data * 3)
        socks.append(sock)
    for _ in range(20):
        for sock in socks:
            with contextlib.suppress(OSError):
                sock.recv(65_536)


def fill_topic(address: Address, stack: contextlib.ExitStack) -> None:
    """Write 16 MB into the topic."""
    data = record_batch.encode([Record(None, bytes(1_000_000), timestamp=1)])
    ask(address, stack, *[produce(data)] * 16)


def open_and_close(address: Address, stack: contextlib.ExitStack) -> None:
    """Open and close 2,000 connections."""
    for _ in range(2_000):
        with contextlib.suppress(OSError):
            socket.create_connection(address, timeout=TIMEOUT_S).close()


def foreign(address: Address, stack: contextlib.ExitStack) -> None:
    """Speak TLS and HTTP on 200 connections."""
    for number in range(200):
        data = (
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" if number % 2 else bytes.fromhex("1603010200010001fc0303") + bytes(500)
        )
        send(connect(address, stack), data)


def joins_with_long_strings(address: Address, stack: contextlib.ExitStack) -> None:
    """300 members with long ids that join and are never heard of again."""
    protocols = (JoinGroupRequestProtocol("range", b""),)
    joins = [
        frame(JoinGroupRequest(f"{number:0>{LONG_ID}}", 6_000, 6_000, "", None, "consumer", protocols), 11, 3)
        for number in range(300)
    ]
    ask(address, stack, *joins)


def unknown_groups(address: Address, stack: contextlib.ExitStack) -> None:
    """Heartbeats for 5,000 groups with ids of 32 KB that nobody has."""
    sock = connect(address, stack)
    for start in range(0, 5_000, 50):
        beats = [frame(HeartbeatRequest(f"{n:0>{LONG_ID}}", 1, "m"), 12, 3) for n in range(start, start + 50)]
        send(sock, b"".join(beats))
        await_responses(sock, len(beats))


def noise(address: Address, stack: contextlib.ExitStack) -> None:
    """Random bytes and headers with random bodies on 300 connections."""
    dice = random.Random(13)
    for _ in range(300):
        head = struct.pack(">hhih", dice.randrange(75), dice.randrange(18), 1, -1)
        body = head + dice.randbytes(dice.randrange(2_000))
        send(connect(address, stack), struct.pack(">i", len(body)) + body)


def topics(address: Address, stack: contextlib.ExitStack) -> None:
    """Create 500 topics, one a request."""
    for start in range(0, 500, 50):
        frames = [
            frame(CreateTopicsRequest((CreateTopicsRequestCreatableTopic(f"many-{n}", 1, 1),)), 19, 5)
            for n in range(start, start + 50)
        ]
        ask(address, stack, *frames)


def regex_of(group: str, pattern: str) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group, "m", 0, rebalance_timeout_ms=60_000, subscribed_topic_regex=pattern, topic_partitions=()
    )


def one_topic_more(address: Address, stack: contextlib.ExitStack) -> None:
    """Twenty topics, one a request, beside 2,000."""
    many = tuple(CreateTopicsRequestCreatableTopic(f"wide-{n}", 1, 1) for n in range(2_000))
    ask(address, stack, *[frame(CreateTopicsRequest(many[at : at + 100]), 19, 5) for at in range(0, len(many), 100)])
    more = [
        frame(CreateTopicsRequest((CreateTopicsRequestCreatableTopic(f"more-{n}", 1, 1),)), 19, 5) for n in range(20)
    ]
    ask(address, stack, *more)


def many_regexes(address: Address, stack: contextlib.ExitStack) -> None:
    """A regular expression that is much work in each of 300 groups, over 500 topics with the longest names."""
    many = tuple(CreateTopicsRequestCreatableTopic(f"{n:a>249}", 1, 1) for n in range(500))
    ask(address, stack, *[frame(CreateTopicsRequest(many[at : at + 100]), 19, 5) for at in range(0, len(many), 100)])
    socks = [connect(address, stack) for _ in range(10)]
    for number in range(300):
        data = frame(regex_of(f"regex-{number}", f"((a{{0,30}}){{0,30}}){{1,{number % 3 + 1}}}b"), 68, 1)
        send(socks[number % 10], data)
    for sock in socks:
        await_responses(sock, 30)


def joins_and_leaves(address: Address, stack: contextlib.ExitStack) -> None:
    """1,000 joins and leaves with long strings, each of which is an event."""
    protocols = (JoinGroupRequestProtocol("range", b""),)
    for number in range(1_000):
        group = f"{number:0>{LONG_ID}}"
        join = JoinGroupRequest(group, 6_000, 6_000, "", group, "consumer", protocols)
        leave = LeaveGroupRequest(group, members=(LeaveGroupRequestMemberIdentity("", group),))
        ask(address, stack, frame(join, 11, 5), frame(leave, 13, 3))


def one_large_group(address: Address, stack: contextlib.ExitStack) -> None:
    """A classic group of 2,000 members with metadata of 2 KB, each on a connection, that is described ten times."""
    protocols = (JoinGroupRequestProtocol("range", bytes(2_000)),)
    data = frame(JoinGroupRequest("large", 6_000, 6_000, "", None, "consumer", protocols), 11, 3)
    for _ in range(2_000):
        send(connect(address, stack), data)
    ask(address, stack, *[frame(DescribeGroupsRequest(("large",)), 15, 4)] * 10)


def one_large_consumer_group(address: Address, stack: contextlib.ExitStack) -> None:
    """A consumer group of 500 members that subscribe to 2,100 partitions."""
    sock = connect(address, stack)
    for number in range(500):
        joining = ConsumerGroupHeartbeatRequest(
            "wide", f"m{number}", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=(TOPIC,), topic_partitions=()
        )
        send(sock, frame(joining, 68, 1))
    await_responses(sock, 500)
    ask(address, stack, *[frame(ConsumerGroupDescribeRequest(("wide",)), 69, 0)] * 10)


def all_offsets_of_a_group(address: Address, stack: contextlib.ExitStack) -> None:
    """OffsetFetch of all 200,000 offsets of a group, ten times."""
    ask(address, stack, frame(CreateTopicsRequest((CreateTopicsRequestCreatableTopic("heap", 200_000, 1),)), 19, 5))
    for start in range(0, 200_000, 50_000):
        each = tuple(OffsetCommitRequestPartition(index, 1, -1) for index in range(start, start + 50_000))
        ask(address, stack, frame(OffsetCommitRequest("heap", topics=(OffsetCommitRequestTopic("heap", each),)), 8, 8))
    everything = OffsetFetchRequest(groups=(OffsetFetchRequestGroup("heap", topics=None),))
    ask(address, stack, *[frame(everything, 9, 8)] * 10)


def many_partitions(address: Address, stack: contextlib.ExitStack) -> None:
    """OffsetFetch of 400,000 partitions that were never committed, three times."""
    topic = OffsetFetchRequestTopics(TOPIC, partition_indexes=tuple(range(400_000)))
    data = frame(OffsetFetchRequest(groups=(OffsetFetchRequestGroup("nobody", topics=(topic,)),)), 9, 8)
    ask(address, stack, *[data] * 3)


def trickle(address: Address, stack: contextlib.ExitStack) -> None:
    """Frames that come byte by byte on 200 connections, and then all of their rest at once."""
    data = frame(MetadataRequest(topics=None), 3, 9)
    socks = [connect(address, stack) for _ in range(200)]
    for at in range(len(data) - 1):
        for sock in socks:
            send(sock, data[at : at + 1])
    for sock in socks:
        send(sock, data[-1:])
    for sock in socks:
        await_responses(sock, 1)


def producers(address: Address, stack: contextlib.ExitStack) -> None:
    """3,000 transactional producers, that are listed and whose partitions are described."""
    sock = connect(address, stack)
    for start in range(0, 3_000, 100):
        frames = [frame(InitProducerIdRequest(f"tx-{n}", 60_000), 22, 4) for n in range(start, start + 100)]
        send(sock, b"".join(frames))
        await_responses(sock, len(frames))
    indexes = tuple(range(40_000))
    described = DescribeProducersRequest((DescribeProducersRequestTopic(TOPIC, indexes),))
    listed = ListTransactionsRequest(transactional_id_pattern="((t{0,30}){0,30})x.*")
    ask(address, stack, *[frame(listed, 66, 2), frame(described, 61, 0)] * 5)


def written_partitions(address: Address, stack: contextlib.ExitStack) -> None:
    """A topic of 1,000 partitions: Produce, ListOffsets by time, Fetch and DeleteRecords of all, then DeleteTopics."""
    indexes, name = range(1_000), "cut"
    data = record_batch.encode([Record(None, b"x", timestamp=1_700_000_000_000)])
    batches = tuple([ProduceRequestPartitionData(index, data) for index in indexes])
    by_time = tuple([ListOffsetsRequestPartition(index, timestamp=1) for index in indexes])
    fetched = tuple([FetchRequestPartition(index, partition_max_bytes=1 << 20) for index in indexes])
    cut = tuple([DeleteRecordsRequestPartition(index, -1) for index in indexes])
    ask(
        address,
        stack,
        frame(CreateTopicsRequest((CreateTopicsRequestCreatableTopic(name, len(indexes), 1),)), 19, 5),
        frame(ProduceRequest(None, 1, 1_000, (ProduceRequestTopicData(name, partition_data=batches),)), 0, 9),
        frame(ListOffsetsRequest(-1, topics=(ListOffsetsRequestTopic(name, by_time),)), 2, 7),
        frame(FetchRequest(max_wait_ms=0, topics=(FetchRequestTopic(name, partitions=fetched),)), 1, 11),
        frame(DeleteRecordsRequest((DeleteRecordsRequestTopic(name, cut),)), 21, 2),
        frame(DeleteTopicsRequest(topic_names=(name,)), 20, 5),
    )


def many_topics(address: Address, stack: contextlib.ExitStack) -> None:
    """9,000 topics, all of them in each of four requests."""
    names = [f"each-{number}" for number in range(9_000)]
    new = tuple([CreateTopicsRequestCreatableTopic(name, 1, 1) for name in names])
    described = tuple([DescribeConfigsRequestResource(2, name, None) for name in names])
    setting = (AlterConfigsRequestAlterableConfig("retention.ms", "1000000"),)
    altered = tuple([AlterConfigsRequestResource(2, name, setting) for name in names[:7_000]])
    ask(
        address,
        stack,
        frame(CreateTopicsRequest(new), 19, 5),
        frame(DescribeConfigsRequest(described, include_synonyms=True), 32, 4),
        frame(AlterConfigsRequest(altered), 33, 2),
        frame(DeleteTopicsRequest(topic_names=tuple(names)), 20, 5),
    )


def commits(address: Address, stack: contextlib.ExitStack) -> None:
    """Commits of 100 partitions on 20 connections, 25 in each, one after the other, which a log compacts."""
    socks = [connect(address, stack) for _ in range(20)]
    for _ in range(25):
        for sock in socks:
            send(sock, commit(100))
        for sock in socks:
            await_responses(sock, 1)


def many_lists(address: Address, stack: contextlib.ExitStack) -> None:
    """Three lists of all groups on each of 50 connections, all of them read."""
    socks = [connect(address, stack) for _ in range(50)]
    for sock in socks:
        send(sock, frame(ListGroupsRequest(), 16, 4) * 3)
    for sock in socks:
        await_responses(sock, 3)


REGEX: Final = "|".join(f"(.*a.{{{100 + n}}}x)" for n in range(28))
GROUPS: Final = tuple(f"{number:0>10}" for number in range(20_000))

OFFENDERS: Final[dict[str, Offender]] = {
    # the tables of what was measured
    "Produce, 60 batches that unpack to 100,000 records": repeat(produce(*[bomb(100_000)] * 60), 1),
    "Produce, one batch of 1,000,000 records": repeat(produce(bomb(1_000_000)), 1),
    "300 ListGroups in one chunk": repeat(frame(ListGroupsRequest(states_filter=("Dead",)), 16, 4), 300),
    "60 malformed frames of 64 KB": malformed_frames,
    "a regular expression of 441 bytes": lambda address, stack: ask(
        address, stack, frame(regex_of("regex", REGEX), 68, 1)
    ),
    "commit of 2,030 partitions with 4 KB metadata": repeat(commit(2_030, "m" * 4_096), 1),
    "commit of 100,000 partitions": repeat(commit(100_000), 1),
    "DescribeGroups of 120 ids of 32 KB": repeat(
        frame(DescribeGroupsRequest(tuple(f"{n:0>{LONG_ID}}" for n in range(120))), 15, 4), 5
    ),
    "ListGroups of 20,000 groups": repeat(frame(ListGroupsRequest(), 16, 4), 10),
    "DescribeGroups of 20,000 groups": repeat(frame(DescribeGroupsRequest(GROUPS), 15, 4), 5),
    "100 unfinished frames of 8 MB": unfinished_frames,
    "20 unread lists": unread_lists,
    "20 slow readers": slow_readers,
    "one topic more, 20 times, beside 2,000": one_topic_more,
    "1,000 joins and leaves with ids of 32 KB": joins_and_leaves,
    "commits of 100 partitions on 20 connections": commits,
    "heartbeats to 5,000 groups with ids of 32 KB": unknown_groups,
    "300 joins with ids of 32 KB": joins_with_long_strings,
    # more
    "10,000 heartbeats in one go": repeat(frame(HeartbeatRequest("nobody", 1, "m"), 12, 3), 10_000),
    "3,000 Metadata of all topics": repeat(frame(MetadataRequest(topics=None), 3, 9), 3_000),
    "OffsetFetch of 20,000 groups": repeat(
        frame(OffsetFetchRequest(groups=tuple(OffsetFetchRequestGroup(one) for one in GROUPS)), 9, 8), 3
    ),
    "commits of 1,000 partitions, 50 at once": repeat(commit(1_000), 50),
    "DeleteGroups of 20,000 unknown groups": repeat(
        frame(DeleteGroupsRequest(tuple(f"x{one}" for one in GROUPS)), 42, 2), 3
    ),
    "500 topics, one after the other": topics,
    "2,000 connections opened and closed": open_and_close,
    "TLS and HTTP on 200 connections": foreign,
    "noise on 300 connections": noise,
    "ListGroups of 20,000 groups on 50 connections": many_lists,
    "300 regular expressions that are much work": many_regexes,
    "a classic group of 2,000 members": one_large_group,
    "a consumer group of 500 members, 2,100 partitions": one_large_consumer_group,
    "OffsetFetch of 200,000 offsets of a group": all_offsets_of_a_group,
    "OffsetFetch of 400,000 partitions": many_partitions,
    "200 frames that come byte by byte": trickle,
    "3,000 transactional producers, listed and described": producers,
    "1,000 new partitions written, looked up, cut and deleted": written_partitions,
    "9,000 topics created, described, altered and deleted": many_topics,
    "one partition named 1,000 times, each with a bomb by gzip": bombs(GZIP, gzip.compress),
    "one partition named 1,000 times, each with a bomb by zstd": bombs(ZSTD, pack_by_zstd),
    "offsets by time in 200 batches that unpack to 24 MB": lookups_in_bombs,
    "8,000 words appended to lists of 5,400 in 39 topics": long_lists,
}

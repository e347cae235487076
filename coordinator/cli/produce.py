"""Writes lines to a topic, each line a record. Speaks Kafka's own protocol."""

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from coordinator.cli import fail
from coordinator.cli.cluster import Cluster, add_bootstrap, check
from coordinator.cli.committed import partitions_of
from coordinator.client import Client, ClientError
from protocol import record_batch
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.produce import ProduceRequest, ProduceRequestPartitionData, ProduceRequestTopicData
from protocol.records import Record

HELP = "write lines to a topic"
BY_NAME: Final = 12  # the last version of Produce that names topics: later ones have ids
BATCH_LINES, BATCH_BYTES = 500, 500_000  # a request holds no more
ALL: Final = -1
TIMEOUT_MS: Final = 30_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC", help="created if the server creates topics that are asked for")
    parser.add_argument("--partition", type=int, metavar="N", help="to this one; else by key, or in turn")
    parser.add_argument(
        "--key-separator", type=_separator, metavar="TEXT", help="what stands before the first of these is the key"
    )
    add_bootstrap(parser)


def _separator(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("nothing separates nothing")
    return text


def run(args: argparse.Namespace) -> int:
    try:
        with Cluster(args.bootstrap) as cluster:
            lines = (line.rstrip(b"\n") for line in sys.stdin.buffer)
            written = _produce(cluster, args, _batches(lines, sys.stdin.isatty()))
    except ClientError as error:
        return fail("produce", error)
    records = "1 record is" if written == 1 else f"{written} records are"
    print(f'{{"written": {written}}}' if args.json else f"{records} written to {args.topic}")
    return 0


def _batches(lines: Iterable[bytes], is_tty: bool) -> Iterator[list[bytes]]:
    """Lines in requests of a bounded size; a person's each by itself."""
    batch: list[bytes] = []
    size = 0
    for line in lines:
        batch.append(line)
        size += len(line)
        if is_tty or len(batch) >= BATCH_LINES or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _produce(cluster: Cluster, args: argparse.Namespace, batches: Iterable[list[bytes]]) -> int:
    """Write all batches; how many records that were. Raises ClientError for the first that is refused."""
    leaders = _leaders(cluster, args.topic)
    if args.partition is not None and args.partition not in leaders:
        raise ClientError(f"{args.topic} has no partition {args.partition}: it has {len(leaders)}, counted from 0")
    written = turn = 0
    for lines in batches:
        for partition, records in _placed(lines, args, len(leaders), turn).items():
            _write(leaders[partition], args.topic, partition, records)
            written += len(records)
        turn += len(lines)
    return written


def _leaders(cluster: Cluster, topic: str) -> dict[int, Client]:
    """A connection to the leader of each partition; asking for the topic may create it."""
    cluster.any.ask(MetadataRequest(topics=(MetadataRequestTopic(name=topic),), allow_auto_topic_creation=True))
    partitions = partitions_of(cluster, [topic])[topic]
    brokers = cluster.brokers()
    (known,) = cluster.metadata([topic]).topics
    leader_of = {one.partition_index: one.leader_id for one in known.partitions}
    return {partition: brokers[leader_of[partition]] for partition in partitions}


def _placed(lines: Sequence[bytes], args: argparse.Namespace, partitions: int, turn: int) -> dict[int, list[Record]]:
    """The records of these lines, by the partition that each goes to."""
    placed: dict[int, list[Record]] = {}
    now_ms = int(time.time() * 1000)
    for number, line in enumerate(lines, turn):
        key, value = _keyed(line, args.key_separator)
        if args.partition is not None:
            partition = args.partition
        else:
            partition = number % partitions if key is None else (murmur2(key) & 0x7FFFFFFF) % partitions
        placed.setdefault(partition, []).append(Record(key, value, timestamp=now_ms))
    return placed


def _keyed(line: bytes, separator: str | None) -> tuple[bytes | None, bytes]:
    key, found, value = line.partition(separator.encode()) if separator else (b"", b"", line)
    return (key, value) if found else (None, line)


def _write(leader: Client, topic: str, partition: int, records: list[Record]) -> None:
    data = ProduceRequestPartitionData(partition, record_batch.encode(records))
    request = ProduceRequest(None, ALL, TIMEOUT_MS, (ProduceRequestTopicData(topic, partition_data=(data,)),))
    (result,) = leader.ask(request, up_to=BY_NAME).responses[0].partition_responses
    check(f"writing to {topic}:{partition}", result.error_code, result.error_message)


def murmur2(data: bytes) -> int:
    """The hash by which Java's producers spread keys: so equal keys stay together, whoever writes them."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = (0x9747B28C ^ len(data)) & mask
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        h = (h * m ^ (k ^ k >> 24) * m) & mask
    if tail := data[whole:]:
        h = (h ^ int.from_bytes(tail, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15

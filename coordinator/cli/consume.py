"""Prints the records of a topic, a line each. Joins no group and commits nothing. Speaks Kafka's own protocol."""

import argparse
import base64
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

from coordinator.cli import fail
from coordinator.cli.cluster import Cluster, add_bootstrap, check
from coordinator.cli.committed import EARLIEST, LATEST, offsets_at, partitions_of
from coordinator.client import Client, ClientError
from protocol import record_batch
from protocol.errors import ProtocolError
from protocol.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic, FetchResponsePartitionData
from protocol.records import Record

HELP = "print the records of a topic"
BY_NAME: Final = 12  # the last version of Fetch that names topics: later ones have ids
WAIT_MS: Final = 500
BYTES_MAX: Final = 8_388_608
_STARTS: Final = {"earliest": EARLIEST, "latest": LATEST}


class Position(Struct):
    """How far a partition was read, and how far it is to be read; None is without an end."""

    partition: int
    offset: int
    end: int | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("topic", metavar="TOPIC")
    add("--partition", type=int, action="append", metavar="N", help="only this one; may be given again")
    add(
        "--from",
        dest="start",
        type=_start,
        default=EARLIEST,
        metavar="OFFSET",
        help="earliest (the default), latest, or a number",
    )
    add("--follow", action="store_true", help="wait for more at the end, until interrupted")
    add("--count", type=_count, metavar="N", help="stop after so many records")
    add("--committed", action="store_true", help="only what its transaction committed")
    add("--key-separator", metavar="TEXT", help="print the key and this before the value")
    add_bootstrap(parser)


def _start(text: str) -> int:
    """An offset, or one of the two times that are none."""
    if text not in _STARTS and not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text} is neither earliest, latest nor an offset")
    return _STARTS.get(text) or int(text)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 on")
    return int(text)


def run(args: argparse.Namespace) -> int:
    try:
        with Cluster(args.bootstrap) as cluster:
            for number, (partition, record) in enumerate(_records(cluster, args), 1):
                print(_line(partition, record, args), flush=args.follow)
                if number == args.count:
                    break
    except KeyboardInterrupt:
        return 0  # the way to end `--follow`
    except (ClientError, ProtocolError) as error:
        return fail("consume", error)
    return 0


def _line(partition: int, record: Record, args: argparse.Namespace) -> str:
    if args.json:
        return json.dumps(
            {
                "partition": partition,
                "offset": record.offset,
                "timestamp": record.timestamp,
                "key": _text(record.key),
                "value": _text(record.value),
                "headers": [[name, _text(value)] for name, value in record.headers],
            }
        )
    value = (record.value or b"").decode("utf-8", "backslashreplace")
    if args.key_separator is None:
        return value
    return f"{(record.key or b'').decode('utf-8', 'backslashreplace')}{args.key_separator}{value}"


def _text(data: bytes | None) -> Any:
    """Text as text; what is none as {"base64": ...}."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _records(cluster: Cluster, args: argparse.Namespace) -> Iterator[tuple[int, Record]]:
    """The records from where each partition is to be read, to where it ends now, or on and on."""
    positions = _positions(cluster, args)
    (known,) = cluster.metadata([args.topic]).topics
    leaders = {one.partition_index: one.leader_id for one in known.partitions}
    brokers = cluster.brokers()
    while open_ := [one for one in positions if one.end is None or one.offset < one.end]:
        for leader in sorted({leaders[one.partition] for one in open_}):
            mine = [one for one in open_ if leaders[one.partition] == leader]
            yield from _fetched(brokers[leader], args, mine)


def _positions(cluster: Cluster, args: argparse.Namespace) -> list[Position]:
    known = partitions_of(cluster, [args.topic])[args.topic]
    wanted = known if args.partition is None else list(dict.fromkeys(args.partition))
    if missing := [number for number in wanted if number not in known]:
        raise ClientError(f"{args.topic} has no partition {missing[0]}: it has {len(known)}, counted from 0")
    places = [(args.topic, number) for number in wanted]
    begins, ends = offsets_at(cluster, places, EARLIEST), offsets_at(cluster, places, LATEST)
    positions = []
    for place in places:
        end = ends[place]
        start = end if args.start == LATEST else max(args.start, begins[place])
        positions.append(Position(place[1], start, None if args.follow else end))
    return positions


def _fetched(leader: Client, args: argparse.Namespace, positions: Sequence[Position]) -> Iterator[tuple[int, Record]]:
    """One fetch, and the records in it; the positions move on."""
    asked = tuple(
        FetchRequestPartition(one.partition, fetch_offset=one.offset, partition_max_bytes=BYTES_MAX)
        for one in positions
    )
    topics = (FetchRequestTopic(args.topic, partitions=asked),)
    request = FetchRequest(
        max_wait_ms=WAIT_MS, min_bytes=1, max_bytes=BYTES_MAX, isolation_level=int(args.committed), topics=topics
    )
    answer = leader.ask(request, up_to=BY_NAME)
    check(f"reading {args.topic}", answer.error_code)
    by_partition = {one.partition: one for one in positions}
    for data in (data for topic in answer.responses for data in topic.partitions):
        check(f"reading {args.topic}:{data.partition_index}", data.error_code)
        position = by_partition[data.partition_index]
        if args.committed and not data.records and position.end is not None:
            position.end = min(position.end, data.last_stable_offset)  # what is open now is not waited for
        for record in _read(data, position):
            yield data.partition_index, record


def _read(data: FetchResponsePartitionData, position: Position) -> Iterator[Record]:
    """The records from the position on, without markers, and without those of aborted transactions."""
    aborted = sorted(((one.first_offset, one.producer_id) for one in data.aborted_transactions or ()), reverse=True)
    dropped: set[int] = set()
    raw = data.records or b""
    for at, header in record_batch.batches(raw):
        while aborted and aborted[-1][0] <= header.last_offset:
            dropped.add(aborted.pop()[1])
        if header.is_control:
            dropped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in dropped):
            for record in record_batch.read(raw, at, header):
                if record.offset >= position.offset and (position.end is None or record.offset < position.end):
                    yield record
        position.offset = max(position.offset, header.next_offset)

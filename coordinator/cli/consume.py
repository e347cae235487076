"""Print the records of a topic, a line each.

Without --group it joins no group and commits nothing. It ends at the end that each partition had when it began, or with
--follow at Ctrl-C. It speaks Kafka's own protocol, so it works with Apache Kafka as well."""

import argparse
import base64
import json
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any, Final

from msgspec import Struct

from coordinator.cli import fail
from coordinator.cli.cluster import Cluster, UsageError, check
from coordinator.cli.group_consumer import GroupConsumer
from coordinator.cli.group_offsets import no_partition, partitions_of
from coordinator.cli.logdump import describe_record
from coordinator.cli.parser import add_json_option, expect, integer, read_escapes
from coordinator.client import Client, ClientError
from coordinator.client.offsets import EARLIEST, LATEST, list_offsets
from protocol import record_batch
from protocol.compression import Meter
from protocol.errors import ErrorCode, ProtocolError
from protocol.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic, FetchResponsePartitionData
from protocol.records import Record

EXAMPLES: Final = """\
muster consume orders
muster consume orders --show partition,offset,key --follow
muster consume orders --partition 0 --from 100 --count 10
muster consume orders --group shop                            as a member, and commit what was printed
muster consume orders --json | jq .value"""
BY_NAME: Final = 12  # the last version of Fetch that names topics: later ones have ids
WAIT_MS: Final = 500
PAUSE_SECONDS: Final = 0.05
BYTES_MAX: Final = 8_388_608
FIELDS: Final = ("partition", "offset", "timestamp", "headers", "key", "value")
_STARTS: Final = {"earliest": EARLIEST, "latest": LATEST}

Records = Generator[tuple[int, Record], None, None]


class Position(Struct):
    """The offset of the next record of a partition, and the offset to stop at; None for no end."""

    partition: int
    offset: int
    end: int | None

    @property
    def is_at_end(self) -> bool:
        return self.end is not None and self.offset >= self.end


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("topic", metavar="TOPIC")
    add("--partition", type=integer(0), action="append", metavar="N", help="only this one; may be given again")
    add(
        "--from",
        dest="start",
        type=expect("earliest, latest or an offset", _parse_start),
        default=EARLIEST,
        metavar="OFFSET",
        help="earliest (the default), latest or an offset; with --group, where nothing is committed",
    )
    add("--group", metavar="GROUP", help="read as a member of this group, and commit what was printed")
    add("--follow", action="store_true", help="wait for further records, until Ctrl-C")
    add("--count", type=integer(1), metavar="N", help="stop after N records")
    add("--committed", action="store_true", help="leave out records of transactions that are open or aborted")
    add(
        "--show",
        type=expect(f"some of {', '.join(FIELDS)}, with commas between", _parse_fields),
        default=(),
        metavar="FIELD,...",
        help=f"print these before the value, or only these if it is among them, with tabs between: {', '.join(FIELDS)}",
    )
    add("--key-separator", metavar="TEXT", help="print the key and this text before the value; \\t is a tab")
    add("--raw", action="store_true", help="print records of __consumer_offsets and its like as bytes, not decoded")
    add_json_option(parser, "print every field, as a JSON object a line")


def _parse_start(text: str) -> int:
    """Return an offset, or one of the two special timestamps. Raises ValueError."""
    if text not in _STARTS and not (text.isascii() and text.isdecimal()):
        raise ValueError(text)
    return _STARTS[text] if text in _STARTS else int(text)


def _parse_fields(text: str) -> tuple[str, ...]:
    fields = tuple(field.strip() for field in text.split(","))
    if not set(fields) <= set(FIELDS):
        raise ValueError(text)
    return fields


def run(args: argparse.Namespace) -> int:
    if args.group is not None and args.partition is not None:
        return fail("consume", "--partition cannot be combined with --group", 2)
    try:
        with Cluster.of(args) as cluster, closing(_consume(cluster, args)) as records:
            for partition, record in records:
                print(_format(partition, record, args), flush=args.follow or args.group is not None)
    except KeyboardInterrupt:
        return 0  # the way to end `--follow`
    except UsageError as error:
        return fail("consume", error, 2)
    except (ClientError, ProtocolError) as error:
        return fail("consume", error)
    return 0


def _format(partition: int, record: Record, args: argparse.Namespace) -> str:
    decoded = None if args.raw else describe_record(args.topic, record)
    if args.json:
        return json.dumps(
            {
                "topic": args.topic,
                "partition": partition,
                "offset": record.offset,
                "timestamp": record.timestamp,
                **(decoded or {"key": _to_json(record.key), "value": _to_json(record.value)}),
                "headers": [[name, _to_json(value)] for name, value in record.headers],
            }
        )
    fields = {
        "partition": str(partition),
        "offset": str(record.offset),
        "timestamp": str(record.timestamp),
        "headers": ",".join(f"{name}={_to_text(value)}" for name, value in record.headers),
        "key": _to_text(record.key) if decoded is None else json.dumps(decoded["key"]),
    }
    value = _to_text(record.value) if decoded is None else json.dumps(decoded)
    key = "" if args.key_separator is None else f"{fields['key']}{read_escapes(args.key_separator)}"
    if "value" in args.show:  # where it stands there, and nothing else
        return "\t".join((fields | {"value": value})[name] for name in args.show)
    return "\t".join((*(fields[name] for name in args.show), key + value))


def _to_text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "backslashreplace")


def _to_json(data: bytes | None) -> Any:
    """UTF-8 as a string; other bytes as {"base64": ...}."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _consume(cluster: Cluster, args: argparse.Namespace) -> Records:
    known = partitions_of(cluster, [args.topic])[args.topic]
    fetcher = Fetcher(cluster, args.topic, args.committed)
    if args.group is not None:
        return _consume_as_member(cluster, args, known, fetcher)
    return _consume_alone(args, _positions(cluster, args, known), fetcher)


def _consume_alone(args: argparse.Namespace, positions: Sequence[Position], fetcher: "Fetcher") -> Records:
    """Yield the records from each position to its end, if it has one, or as many as `--count` says."""
    left = args.count
    while unread := [one for one in positions if not one.is_at_end]:
        for one in fetcher.fetch(unread):
            yield one
            if left is not None and (left := left - 1) == 0:
                return


def _positions(cluster: Cluster, args: argparse.Namespace, known: Sequence[int]) -> list[Position]:
    wanted = known if args.partition is None else list(dict.fromkeys(args.partition))
    if missing := [number for number in wanted if number not in known]:
        raise ClientError(no_partition(args.topic, missing[0], len(known)))
    starts, ends = _ends(cluster, args, wanted)
    return [Position(number, starts[number], None if args.follow else ends[number]) for number in wanted]


def _ends(cluster: Cluster, args: argparse.Namespace, numbers: Iterable[int]) -> tuple[dict[int, int], dict[int, int]]:
    """Return where to begin in each partition, and where it ends now."""
    keys = [(args.topic, number) for number in numbers]
    first = list_offsets(cluster, keys, EARLIEST, is_strict=True)
    last = list_offsets(cluster, keys, LATEST, is_strict=True)
    if leaderless := [key for key in keys if key not in first or key not in last]:
        check(f"read {args.topic}:{leaderless[0][1]}", ErrorCode.LEADER_NOT_AVAILABLE)
    ends = {number: last[topic, number] for topic, number in keys}
    if args.start == LATEST:
        return dict(ends), ends
    return {n: min(max(args.start, first[args.topic, n]), ends[n]) for n in ends}, ends


def _consume_as_member(cluster: Cluster, args: argparse.Namespace, known: Sequence[int], fetcher: "Fetcher") -> Records:
    """Yield the records of the partitions that the group assigns.

    A record is committed only after the caller has come back from printing it. So `--count` is counted here.
    """
    left = args.count
    starts, ends = _ends(cluster, args, known)
    topic_id = cluster.metadata([args.topic]).topics[0].topic_id
    member = GroupConsumer(cluster, args.group, args.topic, topic_id, starts)
    try:
        while True:
            member.poll()
            if added := sorted(member.positions.keys() - ends.keys()):  # the topic has got more partitions
                fetcher.find_leaders()
                ends |= _ends(cluster, args, added)[1]
            positions = [
                Position(number, at, None if args.follow else ends[number]) for number, at in member.positions.items()
            ]
            unread = [one for one in positions if not one.is_at_end]
            if not unread and member.is_assigned and not args.follow:
                return
            if not unread:
                time.sleep(PAUSE_SECONDS)  # the group has not assigned a partition yet
            for partition, record in fetcher.fetch(unread):
                yield partition, record
                member.positions[partition] = record.offset + 1
                if left is not None and (left := left - 1) == 0:
                    return
            member.positions.update((one.partition, one.offset) for one in unread)
            ends.update((one.partition, one.end) for one in unread if one.end is not None)
            member.commit(is_urgent=False)
    finally:
        member.leave()


class Fetcher:
    """Fetches records of one topic from the leaders of its partitions."""

    def __init__(self, cluster: Cluster, topic: str, is_committed_only: bool) -> None:
        self._cluster = cluster
        self._topic = topic
        self._is_committed_only = is_committed_only
        self.find_leaders()

    def find_leaders(self) -> None:
        """Ask who leads the partitions that there are now. Raises ClientError."""
        (found,) = self._cluster.metadata([self._topic]).topics
        self._leaders = {one.partition_index: one.leader_id for one in found.partitions}
        self._brokers = self._cluster.brokers()

    def fetch(self, positions: Sequence[Position]) -> Iterator[tuple[int, Record]]:
        """Ask each leader once. The positions move past what was fetched."""
        for leader in sorted({self._leaders[one.partition] for one in positions}):
            mine = [one for one in positions if self._leaders[one.partition] == leader]
            yield from self._fetch_from(self._brokers[leader], mine)

    def _fetch_from(self, leader: Client, positions: Sequence[Position]) -> Iterator[tuple[int, Record]]:
        parts = tuple(
            FetchRequestPartition(one.partition, fetch_offset=one.offset, partition_max_bytes=BYTES_MAX)
            for one in positions
        )
        request = FetchRequest(
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=BYTES_MAX,
            isolation_level=int(self._is_committed_only),
            topics=(FetchRequestTopic(self._topic, partitions=parts),),
        )
        response = leader.ask(request, up_to=BY_NAME)
        check(f"read {self._topic}", response.error_code)
        by_partition = {one.partition: one for one in positions}
        for data in (data for topic in response.responses for data in topic.partitions):
            check(f"read {self._topic}:{data.partition_index}", data.error_code)
            position = by_partition[data.partition_index]
            if self._is_committed_only and not data.records and position.end is not None:
                position.end = min(position.end, data.last_stable_offset)  # do not wait for open transactions
            for record in _read(data, position):
                yield data.partition_index, record


def _read(data: FetchResponsePartitionData, position: Position) -> Iterator[Record]:
    """Yield the records from the position on, without control records and without those of aborted transactions."""
    aborted = sorted(((one.first_offset, one.producer_id) for one in data.aborted_transactions or ()), reverse=True)
    dropped: set[int] = set()
    raw = data.records or b""
    for at, header in record_batch.batches(raw):
        while aborted and aborted[-1][0] <= header.last_offset:
            dropped.add(aborted.pop()[1])
        if header.is_control:
            dropped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in dropped):
            for record in record_batch.read(raw, at, header, Meter()):
                if record.offset >= position.offset and (position.end is None or record.offset < position.end):
                    yield record
        position.offset = max(position.offset, header.next_offset)

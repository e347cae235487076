"""Write lines of standard input to a topic, each line a record.

It speaks Kafka's own protocol, so it works with Apache Kafka as well."""

import argparse
import base64
import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from coordinator.cli import fail
from coordinator.cli.cluster import PAUSE_SECONDS, Cluster, UsageError, check
from coordinator.cli.group_offsets import no_partition
from coordinator.cli.parser import add_json_option, expect, integer, name_and_value, one_of, read_escapes
from coordinator.cli.tables import count
from coordinator.client import Client, ClientError
from coordinator.setting import LONG_MAX
from protocol import record_batch
from protocol.compression import Compression, Meter, pack_in_steps
from protocol.errors import ErrorCode
from protocol.messages.produce import ProduceRequest, ProduceRequestPartitionData, ProduceRequestTopicData
from protocol.records import Record
from protocol.steps import finish_steps

EXAMPLES: Final = """\
echo hello | muster produce orders
printf 'anna\\ttea\\n' | muster produce orders --key-separator '\\t'
muster consume orders --json | muster produce copy --input json --compression zstd
muster produce orders --header source=shell --header run=7 < lines.txt"""
BY_NAME: Final = 12  # the last version of Produce that names topics: later ones have ids
BATCH_LINES, BATCH_BYTES = 500, 500_000  # a request holds no more
ALL: Final = -1
CREATION_SECONDS: Final = 2.0  # for a topic that the broker creates
NOT_CREATED: Final = frozenset({ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE})
COMPRESSIONS: Final = {one.name.lower(): one for one in Compression if one is not Compression.NONE}


class InvalidLine(Exception):  # noqa: N818  # reads as the fact that it is
    """A line without the key separator, or that is not the JSON that is expected."""


class JsonLine(Struct, frozen=True):
    """A line of `--input json`: what `muster consume --json` prints. Its topic and its offset do not count."""

    value: str | Mapping[str, str] | None
    key: str | Mapping[str, str] | None = None
    headers: tuple[tuple[str, str | Mapping[str, str] | None], ...] = ()
    partition: int | None = None
    timestamp: Annotated[int, Meta(ge=-1, le=LONG_MAX)] | None = None  # in milliseconds; -1: it has none


class Line(Struct, frozen=True):
    """A line of the input, counted from 1."""

    number: int
    text: bytes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC", help="the broker may create it (auto.create.topics.enable)")
    parser.add_argument(
        "--partition", type=integer(0), metavar="N", help="to this one; if not given, by key, or in turn"
    )
    parser.add_argument(
        "--key-separator",
        type=expect("a text such as : or \\t", _parse_separator),
        metavar="TEXT",
        help="the text before the first of these is the key; \\t is a tab; a line without it is an error",
    )
    parser.add_argument(
        "--header",
        type=name_and_value("NAME=VALUE", is_exact=True),
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a header of every record; may be given again",
    )
    parser.add_argument(
        "--input",
        choices=("text", "json"),
        default="text",
        help="json: each line is an object with value, key, headers, partition and timestamp, as muster consume --json "
        "prints them; a value of null is a tombstone (text)",
    )
    parser.add_argument(
        "--compression", **one_of(tuple(COMPRESSIONS)), metavar="TYPE", help=f"{', '.join(COMPRESSIONS)}"
    )
    add_json_option(parser, "print the result as JSON")


def _parse_separator(text: str) -> str:
    """Return the separator, with its escapes read. Raises ValueError if it is empty."""
    if not text:
        raise ValueError(text)
    return read_escapes(text)


def run(args: argparse.Namespace) -> int:
    if args.input == "json" and (args.key_separator or args.header):
        return fail("produce", "--input json cannot be combined with --key-separator or --header", 2)
    lines = (Line(number, text.rstrip(b"\n")) for number, text in enumerate(sys.stdin.buffer, 1))
    writer = None
    try:
        with Cluster.of(args) as cluster:
            writer = Writer(cluster, args)
            for batch in _batches(lines, sys.stdin.isatty()):
                writer.write(batch)
    except UsageError as error:
        return fail("produce", error, 2)
    except (ClientError, InvalidLine) as error:
        return fail("produce", f"{error}; {count(writer.written if writer else 0, 'record')} written before")
    if args.json:
        print(json.dumps({"topic": args.topic, "written": writer.written}))
    else:
        print(f"{count(writer.written, 'record')} written to {args.topic}")
    return 0


def _batches(lines: Iterable[Line], is_tty: bool) -> Iterator[list[Line]]:
    """Lines in requests of a bounded size; those that a person types, one by one."""
    batch: list[Line] = []
    size = 0
    for line in lines:
        batch.append(line)
        size += len(line.text)
        if is_tty or len(batch) >= BATCH_LINES or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class Writer:
    """Writes lines to the partitions of a topic. `written` counts the records that the broker has acknowledged."""

    def __init__(self, cluster: Cluster, args: argparse.Namespace) -> None:
        """Connect to the leader of each partition. Raises ClientError."""
        self._topic: str = args.topic
        self._separator = _read_bytes(args.key_separator) if args.key_separator else None
        self._headers = tuple((name, _read_bytes(value)) for name, value in args.header)
        self._timeout_ms = int(cluster.timeout * 1000)
        self._leaders = find_leaders(cluster, args.topic)
        self._partition: int | None = args.partition
        self._turn = 0
        self._is_json: bool = args.input == "json"
        self._compression = COMPRESSIONS[args.compression] if args.compression else Compression.NONE
        self.written = 0
        if self._partition is not None and self._partition not in self._leaders:
            raise ClientError(no_partition(args.topic, self._partition, len(self._leaders)))

    def write(self, lines: Sequence[Line]) -> None:
        """Write lines, a request for each partition. Raises ClientError, or InvalidLine before it writes any."""
        placed: dict[int, list[Record]] = {}
        now_ms = int(time.time() * 1000)
        for line in lines:
            if self._is_json:
                partition, record = self._read_json(line, now_ms)
            else:
                key, value = self._split(line)
                partition, record = None, Record(key, value, timestamp=now_ms, headers=self._headers)
            at = self._choose_partition(record.key) if partition is None else partition
            placed.setdefault(at, []).append(record)
        for partition, records in placed.items():
            self._send(partition, records)
            self.written += len(records)

    def _read_json(self, line: Line, now_ms: int) -> tuple[int | None, Record]:
        """Read a record, and the partition that the line names, if none is given on the command line."""
        try:
            one = msgspec.json.decode(line.text, type=JsonLine)
            headers = tuple([(name, _to_bytes(value)) for name, value in one.headers])
            time_ms = now_ms if one.timestamp is None else one.timestamp
            record = Record(_to_bytes(one.key), _to_bytes(one.value), headers, timestamp=time_ms)
        except (msgspec.DecodeError, ValueError, KeyError) as error:
            raise InvalidLine(f"invalid line {line.number}: expected an object with a value: {error}") from None
        partition = one.partition if self._partition is None else None
        if partition is not None and partition not in self._leaders:
            raise InvalidLine(f"invalid line {line.number}: {no_partition(self._topic, partition, len(self._leaders))}")
        return partition, record

    def _split(self, line: Line) -> tuple[bytes | None, bytes]:
        if self._separator is None:
            return None, line.text
        key, found, value = line.text.partition(self._separator)
        if not found:
            separator = self._separator.decode("utf-8", "surrogateescape")
            raise InvalidLine(f"invalid line {line.number}: expected the key separator {separator!r}")
        return key, value

    def _choose_partition(self, key: bytes | None) -> int:
        if self._partition is not None:
            return self._partition
        if key is not None:
            return (murmur2(key) & 0x7FFFFFFF) % len(self._leaders)
        self._turn += 1
        return (self._turn - 1) % len(self._leaders)

    def _send(self, partition: int, records: list[Record]) -> None:
        data = ProduceRequestPartitionData(partition, compress(record_batch.encode(records), self._compression))
        topics = (ProduceRequestTopicData(self._topic, partition_data=(data,)),)
        request = ProduceRequest(None, ALL, self._timeout_ms, topics)
        (result,) = self._leaders[partition].ask(request, up_to=BY_NAME).responses[0].partition_responses
        check(f"write to {self._topic}:{partition}", result.error_code, result.error_message)


def _read_bytes(text: str) -> bytes:
    """Return a text of the command line as the bytes that it was given as, which may be no UTF-8."""
    return text.encode("utf-8", "surrogateescape")


def _to_bytes(value: str | Mapping[str, str] | None) -> bytes | None:
    """Return the bytes of a text, or of `{"base64": ...}`. Raises ValueError or KeyError."""
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else base64.b64decode(value["base64"], validate=True)


def compress(batch: bytes, compression: Compression) -> bytes:
    """Return a batch with its records compressed."""
    if compression is Compression.NONE:
        return batch
    ((_, header),) = record_batch.batches(batch)
    packed = finish_steps(pack_in_steps(compression, [batch[record_batch.HEADER_BYTES :]], Meter()))
    return record_batch.seal(replace(header, attributes=header.attributes | compression), packed)


def find_leaders(cluster: Cluster, topic: str) -> dict[int, Client]:
    """Return a connection to the leader of each partition. Raises ClientError.

    The broker may create the topic. Apache Kafka answers that it is unknown, until it exists and has leaders.
    """
    deadline = time.monotonic() + CREATION_SECONDS
    while True:
        (found,) = cluster.metadata([topic], creates=True).topics
        has_leaders = not found.error_code and all(one.leader_id >= 0 for one in found.partitions)
        if has_leaders or found.error_code not in NOT_CREATED or time.monotonic() > deadline:
            break
        time.sleep(PAUSE_SECONDS)
    check(f"use topic {topic}", found.error_code)
    brokers = cluster.brokers()
    for one in found.partitions:
        if one.leader_id not in brokers:
            check(f"write to {topic}:{one.partition_index}", ErrorCode.LEADER_NOT_AVAILABLE)
    return {one.partition_index: brokers[one.leader_id] for one in found.partitions}


def murmur2(data: bytes) -> int:
    """Hash a key as Java's producers do, so that equal keys go to one partition whichever client writes them."""
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

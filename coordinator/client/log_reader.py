"""Read the logs of a topic's partitions from a cluster, as the batches that lie in them.

    with LogReader(["127.0.0.1:9092"], "__consumer_offsets") as reader:
        reader.seek(reader.offsets(EARLIEST))
        for fetched in reader.poll(500):
            fetched.partition, fetched.batches, fetched.next_offset

It only reads: it belongs to no group and commits nothing. Batches are handed on as the broker has them, with their
offsets, leader epochs and producers, also those of aborted transactions, and the markers.

One Fetch asks for many partitions of a leader, and brings at most `bytes_max` (or one larger batch), and no more than
the link carries in a part of the timeout. After an error
that passes (a leader that moved, a connection that broke, a broker that restarts) the reader goes on where it was; what
lasts longer than `patience_s` is raised, and so is any error before the first answer (a wrong listener, say). A broker
that throttles is left alone for as long as it says.
"""

import struct
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Final, Self, TypeVar

from msgspec import Struct

from coordinator.client.cluster import TIMEOUT_SECONDS, BrokerError, Cluster, check, format_address
from coordinator.client.connection import Client, ClientError, Security
from coordinator.client.offsets import EARLIEST, LATEST, list_offsets
from protocol.errors import ErrorCode
from protocol.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    FetchResponsePartitionData,
)

T = TypeVar("T")

BYTES_MAX: Final = 8 << 20  # of one Fetch: several times what two brokers and a link of 1 Gbit/s hold in the air
BYTES_FIRST: Final = 1 << 20  # ... before it is known how fast the link is
BYTES_LEAST: Final = 64 << 10  # ... on a link so slow that no larger response came in time
QUICK: Final = 0.25  # of the timeout: a response that came within it may be followed by one of twice the size
PATIENCE_SECONDS: Final = 60.0  # a rolling restart of brokers takes a leader away for some seconds
PAUSE_LEAST_SECONDS: Final = 0.1
PAUSE_MOST_SECONDS: Final = 2.0
FETCH_VERSIONS: Final = (4, 12)  # the first with batches of format 2, the last that names topics
EMPTY_MOST: Final = 3  # empty responses that show that nothing lies between here and the high watermark

PASSING: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT, ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)  # fmt: skip
FORBIDDEN: Final[Mapping[int, str]] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "this user may not read the topic: grant it READ and DESCRIBE on it"
}
_LENGTH: Final = struct.Struct(">8xi")  # of a batch, behind its base offset
_LAST: Final = struct.Struct(">q15xi")  # base offset and last offset delta
_LAST_BYTES: Final = 27


class LogTruncatedError(ClientError):
    """A partition ends before the position: it was made anew, or a leader without its newest records was elected."""


class FetchResult(Struct, frozen=True, gc=False):
    """What one Fetch brought of a partition: whole batches, one after the other.

    The first batch may begin before the offset that was asked for. `removed` are offsets (from, to) that lay between
    that offset and the beginning of the log, and are gone. `high_watermark` is where the partition ends for readers.
    """

    partition: int
    batches: bytes
    next_offset: int
    high_watermark: int
    removed: tuple[int, int] | None = None


class Topic(Struct, frozen=True):
    """The topic as its cluster knows it. `topic_id` is hex, empty where the brokers are older than Kafka 2.8."""

    cluster_id: str
    topic_id: str
    leaders: Mapping[int, int]  # partition -> id of a broker, -1 for none


class LogReader:
    """Reads partitions of one topic from the positions that `seek` gives."""

    def __init__(
        self,
        bootstrap: Sequence[str],
        topic: str,
        security: Security | None = None,
        *,
        timeout: float = TIMEOUT_SECONDS,
        patience_s: float = PATIENCE_SECONDS,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        """Connect. Raises ClientError."""
        self.topic = topic
        self.positions: dict[int, int] = {}
        self._security = security
        self._timeout = timeout
        self._patience_s = patience_s
        self._bytes_max, self._bytes = bytes_max, min(bytes_max, BYTES_FIRST)
        self._addresses = list(bootstrap)
        self._cluster: Cluster | None = Cluster(bootstrap, timeout, security)
        self._leaders: Mapping[int, int] = {}
        self._brokers: Mapping[int, Client] = {}
        self._pause_s = PAUSE_LEAST_SECONDS
        self._failing_since: float | None = None
        self._is_known = False  # whether the topic has been there
        self._resume_at: dict[int, float] = {}  # broker -> when it may be asked again
        self._empty: dict[int, int] = defaultdict(int)  # partition -> empty responses to requests that named it first
        self._turn = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        if self._cluster is not None:
            self._cluster.close()
        self._cluster, self._brokers, self._leaders = None, {}, {}

    def describe(self) -> Topic:
        """Return the topic's partitions and their leaders. Raises ClientError if there is no such topic."""
        return self._retry(self._describe)

    def offsets(self, time_ms: int, partitions: Iterable[int] | None = None) -> dict[int, int]:
        """Return the offset of the first record at or after a time, or at EARLIEST or LATEST, of each partition.

        Without such a record it is the end. Raises ClientError.
        """
        wanted = sorted(self.describe().leaders if partitions is None else partitions)

        def list_them() -> dict[int, int]:
            found = list_offsets(self._connect(), [(self.topic, one) for one in wanted], time_ms, is_strict=True)
            if missing := [one for one in wanted if (self.topic, one) not in found]:  # deleted, or just made anew
                check(f"read {self.topic}:{missing[0]}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return {partition: offset for (_, partition), offset in found.items()}

        offsets = self._retry(list_them)
        if unknown := [one for one in wanted if offsets[one] < 0]:
            return offsets | self.offsets(LATEST, unknown) if time_ms != LATEST else offsets
        return offsets

    def seek(self, positions: Mapping[int, int]) -> None:
        """Read these partitions, and no others, from these offsets on."""
        self.positions = dict(positions)

    def poll(self, wait_ms: int) -> Iterator[FetchResult]:
        """Ask each leader once, and yield what came. The positions move past what is yielded.

        A leader that has nothing waits up to `wait_ms` for more. After an error that may pass nothing is yielded.
        Raises ClientError.
        """
        try:
            shares = self._share_out()
            for leader, partitions in shares.items():
                yield from self._fetch(leader, partitions, wait_ms // len(shares))
        except ClientError as error:
            self._recover(error)
        else:
            self._pause_s, self._failing_since = PAUSE_LEAST_SECONDS, None

    def read(self, starts: Mapping[int, int], ends: Mapping[int, int], wait_ms: int = 500) -> Iterator[FetchResult]:
        """Yield everything from `starts` up to `ends`, and perhaps something beyond. Raises ClientError."""
        self.seek({one: at for one, at in starts.items() if at < ends[one]})
        while self.positions:
            yield from self.poll(wait_ms)
            self.seek({one: at for one, at in self.positions.items() if at < ends[one]})

    def _describe(self) -> Topic:
        response = self._connect().metadata([self.topic])
        (found,) = response.topics
        check(f"read {self.topic}", found.error_code, sentences=FORBIDDEN)
        self._addresses = list(
            dict.fromkeys([*self._addresses, *(format_address(b.host, b.port) for b in response.brokers)])
        )
        self._leaders = {one.partition_index: one.leader_id for one in found.partitions}
        self._is_known = True
        identity = found.topic_id.hex() if any(found.topic_id) else ""
        return Topic(response.cluster_id or "", identity, dict(sorted(self._leaders.items())))

    def _connect(self) -> Cluster:
        if self._cluster is None:
            self._cluster = Cluster(self._addresses, self._timeout, self._security)
        return self._cluster

    def _retry(self, ask: Callable[[], T]) -> T:
        """Ask until there is an answer. Raises ClientError."""
        while True:
            try:
                answer = ask()
            except ClientError as error:
                self._recover(error)
            else:
                self._pause_s, self._failing_since = PAUSE_LEAST_SECONDS, None
                return answer

    def _recover(self, error: ClientError) -> None:
        """Prepare to ask again after a while, of what may be another leader. Raises the error if it does not pass."""
        is_refusal = isinstance(error, BrokerError)
        if isinstance(error, LogTruncatedError):
            raise error
        if not self._is_known or (isinstance(error, BrokerError) and error.code not in PASSING):
            raise error
        now = time.monotonic()
        self._failing_since = now if self._failing_since is None else self._failing_since
        if now - self._failing_since > self._patience_s:
            raise error
        if is_refusal:
            self._leaders, self._brokers = {}, {}
        else:
            self.close()
            self._bytes = max(BYTES_LEAST, self._bytes // 2)
        time.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, PAUSE_MOST_SECONDS)

    def _share_out(self) -> dict[int, list[int]]:
        """Return the partitions that each leader is to be asked for.

        Another one is first each time: a broker sends something of the first in any case, of others if there is room.
        """
        if not self.positions.keys() <= self._leaders.keys():
            self._describe()
        self._turn += 1
        order = sorted(self.positions)
        start = self._turn % max(1, len(order))
        shares: dict[int, list[int]] = defaultdict(list)
        for partition in order[start:] + order[:start]:
            shares[self._leaders.get(partition, -1)].append(partition)
        if not shares.keys() <= self._brokers.keys():
            self._brokers = self._connect().brokers(shares.keys())
            for leader in shares.keys() - self._brokers.keys():  # there is none, or it has gone and nobody leads yet
                check(f"read {self.topic}:{shares[leader][0]}", ErrorCode.LEADER_NOT_AVAILABLE)
        return dict(shares)

    def _fetch(self, leader: int, partitions: Sequence[int], wait_ms: int) -> Iterator[FetchResult]:
        """Ask one leader, and yield what came of each partition."""
        if (pause_s := self._resume_at.get(leader, 0.0) - time.monotonic()) > 0:
            time.sleep(pause_s)
        client = self._brokers.get(leader)
        if client is None:  # the connections broke as another leader was asked
            return
        oldest, newest = FETCH_VERSIONS
        if oldest not in client.versions(FetchRequest()):
            raise ClientError(f"cannot read {self.topic}: the broker is older than Kafka 0.11")
        asked_at_s = time.monotonic()
        response = client.ask(self._request(partitions, wait_ms), up_to=newest)
        self._adapt(response, time.monotonic() - asked_at_s)
        self._resume_at[leader] = time.monotonic() + response.throttle_time_ms / 1000
        check(f"read {self.topic}", response.error_code)
        failed: list[tuple[int, int]] = []
        for data in (one for topic in response.responses for one in topic.partitions):
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                yield from self._continue_within_log(data.partition_index)
            elif data.error_code:
                failed.append((data.partition_index, data.error_code))
            elif fetched := self._take(
                data, is_sure=data.partition_index == partitions[0] and not response.throttle_time_ms
            ):
                yield fetched
        for partition, code in failed:
            check(f"read {self.topic}:{partition}", code, sentences=FORBIDDEN)

    def _adapt(self, response: FetchResponse, took_s: float) -> None:
        """Ask for twice as much from now on, if a response of the size that was asked for came quickly."""
        size = sum(len(data.records or b"") for topic in response.responses for data in topic.partitions)
        if 2 * size >= self._bytes and took_s <= QUICK * self._timeout:
            self._bytes = min(2 * self._bytes, self._bytes_max)

    def _request(self, partitions: Sequence[int], wait_ms: int) -> FetchRequest:
        parts = tuple(
            FetchRequestPartition(one, fetch_offset=self.positions[one], partition_max_bytes=self._bytes)
            for one in partitions
        )
        return FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=self._bytes,
            topics=(FetchRequestTopic(self.topic, partitions=parts),),
        )

    def _take(self, data: FetchResponsePartitionData, *, is_sure: bool) -> FetchResult | None:
        """Return the whole batches that came, None if there are none, and move the position past them.

        `is_sure`: the broker would have sent something if there were anything. If that is so several times, a cleaner
        has removed all that lay between the position and the high watermark.
        """
        partition, at = data.partition_index, self.positions[data.partition_index]
        whole, next_offset = cut_whole_batches(data.records or b"")
        if whole:
            self._empty[partition] = 0
        elif is_sure and at < data.high_watermark:
            self._empty[partition] += 1
            if self._empty[partition] < EMPTY_MOST:
                return None
            self._empty[partition], next_offset = 0, data.high_watermark
        if next_offset <= at:
            return None
        self.positions[partition] = next_offset
        return FetchResult(partition, whole, next_offset, data.high_watermark)

    def _continue_within_log(self, partition: int) -> Iterator[FetchResult]:
        """Go on at the beginning of a log that has lost the records at the position."""
        at = self.positions[partition]
        first, last = self.offsets(EARLIEST, [partition])[partition], self.offsets(LATEST, [partition])[partition]
        if at > last:
            raise LogTruncatedError(f"{self.topic}:{partition} ends at {last}, before offset {at}: it was made anew")
        if at < first:
            self.positions[partition] = first
            yield FetchResult(partition, b"", first, last, removed=(at, first))


def cut_whole_batches(data: bytes) -> tuple[bytes, int]:
    """Return the batches that are whole, and the offset after the last one (-1 without any)."""
    end, start, size = 0, 0, len(data)
    length_at = _LENGTH.unpack_from
    while end + _LAST_BYTES <= size:
        reach = end + 12 + length_at(data, end)[0]
        if not end + _LAST_BYTES <= reach <= size:
            break
        start, end = end, reach
    if not end:
        return b"", -1
    base, delta = _LAST.unpack_from(data, start)
    return (data if end == size else data[:end]), base + delta + 1

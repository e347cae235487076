"""Logs that are read from a cluster by Fetch, beside those that lie in directories.

    kafka://HOST:PORT[,HOST:PORT]/__consumer_offsets

A Fetch response holds the batches as the broker's log has them, so the same decoder makes the same rows of them. What a
client cannot see is where they lie in files: `segment_base` is -1, and `pos` is an offset.

Connections are secured by a file of Kafka's client settings, whose path travels with the address. The file must be
there on every machine that reads; nothing that it says is kept anywhere else.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from urllib.parse import parse_qs, urlsplit

import msgspec

from coordinator.addresses import EXPECTED, parse_addresses
from coordinator.client import Security
from coordinator.client.command_config import CommandConfig
from coordinator.client.log_reader import LogReader
from coordinator.client.offsets import EARLIEST, LATEST
from coordinator.setting import ConfigError
from pipeline.decode.files import Store
from pipeline.decode.headers import Headers, chain
from pipeline.decode.logs import RECORD_BYTES, Identity, LogDir, Position, Segment, Span
from pipeline.decode.spans import Chunk, Problem, SpanReader
from pipeline.errors import UsageError

TIMEOUT_S = 10.0
NO_SEGMENT = Segment("", -1, 0)


class ClusterLog(LogDir, frozen=True):
    """One partition of a topic on a cluster. `begin` and `end` are its offsets when it was listed."""

    topic: str = ""
    cluster_id: str = ""
    topic_id: str = ""
    begin: int = 0
    end: int = 0

    @property
    def place(self) -> str:
        """Where it lies, whichever broker was asked."""
        root = self.store.display_uri.rstrip("/").removesuffix(f"/{self.topic}")
        return f"kafka://{self.cluster_id}/{self.name}" if self.cluster_id else f"{root}/{self.name}"

    @property
    def is_on_cluster(self) -> bool:
        """Whether it is read by Fetch."""
        return True


def list_logs(store: Store, topic: str) -> Iterator[ClusterLog]:
    """Yield the partitions of the topic that an address names, or of `topic`. Raises UsageError and ClientError."""
    topic = _topic_of(store.uri) or topic
    reader = open_reader(store.uri, topic)
    found = reader.describe()
    begins, ends = reader.offsets(EARLIEST), reader.offsets(LATEST)
    for partition in found.leaders:
        yield ClusterLog(
            store, "", f"{topic}-{partition}", partition,
            topic=topic, cluster_id=found.cluster_id, topic_id=found.topic_id,
            begin=begins[partition], end=ends[partition],
        )  # fmt: skip


def relist(log: ClusterLog) -> ClusterLog:
    """Return the log with its end as it is now."""
    return msgspec.structs.replace(log, end=_reader_of(log).offsets(LATEST, [log.partition])[log.partition])


@lru_cache(maxsize=4)
def open_reader(uri: str, topic: str) -> LogReader:
    """Return the connections of this process to a cluster. Raises UsageError for a wrong address, and ClientError."""
    addresses, security = address_of(uri)
    return LogReader(addresses, topic, security, timeout=TIMEOUT_S)


def address_of(uri: str) -> tuple[Sequence[str], Security | None]:
    """Return the brokers that an address names, and how connections are secured. Raises UsageError."""
    parts = urlsplit(uri)
    try:
        addresses = parse_addresses(parts.netloc)
    except ValueError:
        raise UsageError(f"invalid kafka://{parts.netloc}: expected kafka://{EXPECTED}") from None
    file = parse_qs(parts.query).get("command_config", [""])[0]
    try:
        return addresses, CommandConfig(file, TIMEOUT_S) if file else None
    except ConfigError as error:
        raise UsageError(str(error)) from None


def _topic_of(uri: str) -> str:
    return urlsplit(uri).path.strip("/")


def _reader_of(log: ClusterLog) -> LogReader:
    return open_reader(log.store.uri, log.topic)


def newest(log: LogDir, start: Position, max_bytes: int | None) -> Position:
    """Return the end of the log, or the position after about `max_bytes` from `start` on; never before `start`."""
    assert isinstance(log, ClusterLog), log
    end = log.end
    if max_bytes is not None:
        end = min(end, max(start.next_offset, log.begin) + max(1, max_bytes // RECORD_BYTES))
    return Position(max(start.next_offset, end))


def between(log: LogDir, start: Position, end: Position | None, split_bytes: int) -> list[Span]:
    """Return the spans from `start` to `end`, each of about `split_bytes`."""
    assert isinstance(log, ClusterLog), log
    first, last = start.next_offset, log.end if end is None else end.next_offset
    step = max(1, split_bytes // RECORD_BYTES)
    cuts = [first, *range(max(first, log.begin) + step, last, step), last] if first < last else []
    return [
        Span(
            log, NO_SEGMENT, 0, 0, floor=at, ceiling=None, active=False,
            from_offset=at, until_offset=until, is_followed=until < last,
        )
        for at, until in pairwise(cuts)
    ]  # fmt: skip


def identify(log: LogDir) -> Identity:
    """Return the identity of the topic: its id, if the brokers give topics one."""
    assert isinstance(log, ClusterLog), log
    return Identity(-1, 0, 0, 0, topic_id=log.topic_id)


def find_replacement(log: LogDir, known: Identity, position: Position) -> str | None:
    """Say why the log is not the one that was read up to a position; None if it is, as far as can be told."""
    assert isinstance(log, ClusterLog), log
    if known.topic_id and log.topic_id and known.topic_id != log.topic_id:
        return f"the topic {log.topic} was deleted and made anew"
    if log.end < position.next_offset:
        return f"it ends before offset {position.next_offset}, up to which it was read"
    return None


def read_batches(log: LogDir, start: int, end: int) -> Iterator[bytes]:
    """Yield the batches of a log from an offset on, and perhaps some beyond the end. Raises ClientError."""
    assert isinstance(log, ClusterLog), log
    for fetched in _reader_of(log).read({log.partition: start}, {log.partition: end}):
        yield fetched.batches


def read_all(log: LogDir) -> Iterator[bytes]:
    """Yield the batches of a log up to the end that it had when it was listed. Raises ClientError."""
    assert isinstance(log, ClusterLog), log
    for data in read_batches(log, log.begin, log.end):
        found, stop = chain(data, 0, len(data))
        later = found[Headers.at(data, found).base_offset >= log.end]
        yield data[: int(later[0]) if len(later) else stop]


class ClusterSpanReader(SpanReader):
    """Iterates over what Fetch brings of a span. Compaction's gaps are no problems; what retention took away is one."""

    def __iter__(self) -> Iterator[Chunk]:
        log, span = self.span.log, self.span
        assert isinstance(log, ClusterLog), log
        assert span.until_offset is not None, "a span of a cluster has an end"
        first, is_new = max(span.floor, log.begin), True
        if 0 < span.floor < log.begin:
            detail = f"{log.begin - span.floor} offsets were removed from the beginning of the log"
            self._report(Problem("gap", span.floor, 0, detail, span.floor, log.begin - 1))
        for data in read_batches(log, first, span.until_offset):
            found, _ = chain(data, 0, len(data))
            headers = Headers.at(data, found)
            headers = headers.take(headers.base_offset < span.until_offset)
            if not len(headers):
                continue
            if is_new:  # the first batch may begin before the offset that was asked for
                self._last, is_new = int(headers.base_offset[0]) - 1, False
            yield self._believe(data, 0, headers)
        self._finish()

    def _gap(self, first: int, last: int, pos: int) -> None:
        """Pass over offsets that a cleaner has removed."""

    def _report(self, problem: Problem) -> None:
        super()._report(msgspec.structs.replace(problem, pos=problem.from_offset or 0))

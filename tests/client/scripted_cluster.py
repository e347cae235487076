"""Two brokers on loopback with one topic, which answer Fetch as a script says: refusals, throttling, broken connections,
a link that stalls, offsets that are out of range.

with ScriptedCluster({0: [batch, batch]}) as cluster:
    cluster.script = ["close", "moved", "gone", "throttle", "stall"]   # for the next Fetch requests, one word each
    cluster.addresses
"""

import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import msgspec

from protocol import record_batch
from protocol.apis import APIS
from protocol.codec import decode_request, encode_response
from protocol.errors import ErrorCode
from protocol.framing import FrameBuffer
from protocol.messages.api_versions import ApiVersionsResponse, ApiVersionsResponseApiVersion
from protocol.messages.fetch import FetchResponse, FetchResponseableTopic, FetchResponsePartitionData
from protocol.messages.list_offsets import (
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol.records import Record

TOPIC = "__consumer_offsets"
STALL: Any = object()
OFFERED = {1: 12, 2: 6, 3: 12, 18: 3}  # API key -> its newest version: as a Kafka that is some years old


def batch(base_offset: int, *values: bytes, span: int | None = None) -> bytes:
    """A batch of records without keys; `span` offsets long if a cleaner has removed its last ones."""
    facts = [Record(None, value, timestamp=base_offset * 1000) for value in values]
    raw = record_batch.encode(facts, base_offset=base_offset)
    if span is None:
        return raw
    header = record_batch.header_at(raw)

    return record_batch.seal(msgspec.structs.replace(header, last_offset_delta=span - 1), raw[61:])


class ScriptedCluster:
    """Brokers 1 and 2. Every partition is led by `leader`, and those of `elsewhere` by the other one."""

    def __init__(self, logs: Mapping[int, Sequence[bytes]]) -> None:
        self.logs = {number: list(log) for number, log in logs.items()}
        self.starts = dict.fromkeys(self.logs, 0)
        self.ends = {n: max((record_batch.header_at(b).next_offset for b in log), default=0) for n, log in logs.items()}
        self.script: list[str] = []
        self.throttle_ms = 300
        self.leader = 1
        self.elsewhere: frozenset[int] = frozenset()
        self.leaderless = 0  # descriptions of the topic yet to come in which one partition has no leader
        self.unlisted = 0  # lists of brokers yet to come that leave the leader out
        self.fetches: list[tuple[float, int, Any]] = []  # when, which broker, the request
        self.stopping: set[int] = set()  # brokers that accept connections and close them
        self.topic_error = 0
        self.unanswered = 0  # ListOffsets yet to come whose connections are closed
        self.unknown = 0  # descriptions of the topic yet to come that do not know it
        self.topic_id = b"t" * 16
        self.apis: list[int] = []
        self._sockets: list[socket.socket] = []
        self._listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        self.addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in self._listeners]

    def __enter__(self) -> Self:
        for number, listener in enumerate(self._listeners, 1):
            self._start(self._accept, listener, number)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for one in [*self._listeners, *self._sockets]:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    @staticmethod
    def _start(work: Callable[..., None], *args: Any) -> None:
        threading.Thread(target=work, args=args, daemon=True).start()

    def _accept(self, listener: socket.socket, number: int) -> None:
        with suppress(OSError):
            while True:
                sock, _ = listener.accept()
                if number in self.stopping:
                    sock.close()
                    continue
                self._sockets.append(sock)
                self._start(self._serve, sock, number)

    def _serve(self, sock: socket.socket, number: int) -> None:
        frames = FrameBuffer()
        with suppress(OSError):
            while chunk := sock.recv(65_536):
                frames.feed(chunk)
                for frame in frames:
                    request = decode_request(frame)
                    self.apis.append(request.api_key)
                    response = self._answer(number, request.body)
                    if response is None:
                        sock.close()
                        return
                    if response is STALL:
                        break  # until the client has had enough
                    sock.sendall(encode_response(request.api_key, request.version, request.correlation_id, response))

    def _answer(self, number: int, body: Any) -> Any:
        match type(body).__name__:
            case "ApiVersionsRequest":
                keys = [ApiVersionsResponseApiVersion(key, 0, newest) for key, newest in OFFERED.items() if key in APIS]
                return ApiVersionsResponse(api_keys=tuple(keys))
            case "MetadataRequest":
                return self._metadata(body)
            case "ListOffsetsRequest":
                return self._list_offsets(body)
            case "FetchRequest":
                return self._fetch(number, body)
        raise AssertionError(f"a reader does not send {body}")

    def _metadata(self, body: Any) -> MetadataResponse:
        ports = [int(one.rpartition(":")[2]) for one in self.addresses]
        brokers = tuple(MetadataResponseBroker(n, "127.0.0.1", port) for n, port in enumerate(ports, 1))
        if self.unlisted and not body.topics:
            self.unlisted -= 1
            brokers = tuple(one for one in brokers if one.node_id != self.leader)
        leaders = {n: self._leader_of(n) for n in self.logs}
        if self.leaderless and body.topics:
            self.leaderless -= 1
            leaders[max(leaders)] = -1
        partitions = tuple(MetadataResponsePartition(0, n, leader) for n, leader in leaders.items())
        topics = (
            (MetadataResponseTopic(self.topic_error, TOPIC, self.topic_id, True, partitions),) if body.topics else ()
        )
        if self.unknown and body.topics:
            self.unknown -= 1
            topics = (MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, TOPIC),)
        return MetadataResponse(brokers=brokers, cluster_id="scripted", topics=topics)

    def _leader_of(self, partition: int) -> int:
        return 3 - self.leader if partition in self.elsewhere else self.leader

    def _list_offsets(self, body: Any) -> ListOffsetsResponse | None:
        if self.unanswered:
            self.unanswered -= 1
            return None
        parts = []
        for one in body.topics[0].partitions:
            index, at_ms = one.partition_index, one.timestamp
            headers = [record_batch.header_at(raw) for raw in self.logs[index]]
            later = next((each.base_offset for each in headers if each.max_timestamp >= at_ms), -1)
            offset = {-1: self.ends[index], -2: self.starts[index]}.get(at_ms, later)
            parts.append(ListOffsetsResponsePartition(index, offset=offset))
        return ListOffsetsResponse(topics=(ListOffsetsResponseTopic(TOPIC, tuple(parts)),))

    def _fetch(self, number: int, body: Any) -> FetchResponse | None:
        self.fetches.append((time.monotonic(), number, body))
        word = self.script.pop(0) if self.script else ""
        if word == "close":
            return None
        self.unanswered, self.unknown = int(word == "lost"), 2 * (word == "deleted")
        if word == "stall":
            return STALL
        code = {"forbidden": ErrorCode.TOPIC_AUTHORIZATION_FAILED}.get(word, 0)
        if word in ("moved", "gone"):
            self.leader = 3 - self.leader
            self.unlisted = 2 if word == "gone" else 0
        self.leaderless = 2 if word == "no leader" else self.leaderless
        if word == "no leader":
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        parts, left = [], body.max_bytes
        for one in body.topics[0].partitions:
            code_of_one = ErrorCode.NOT_LEADER_OR_FOLLOWER if number != self._leader_of(one.partition) else code
            data = b"" if word == "throttle" or code_of_one else self._read(one.partition, one.fetch_offset, left)
            at = one.fetch_offset
            out = (
                word in ("out of range", "lost", "deleted")
                or at < self.starts[one.partition]
                or at > self.ends[one.partition]
            )
            code_here = code_of_one or (ErrorCode.OFFSET_OUT_OF_RANGE if out else 0)
            left -= len(data)
            data = b"" if out else data[: len(data) - 7 if word == "cut" else None]
            parts.append(FetchResponsePartitionData(one.partition, code_here, self.ends[one.partition], records=data))
        throttle_ms = self.throttle_ms if word == "throttle" else 0
        topics = (FetchResponseableTopic(TOPIC, partitions=tuple(parts)),)
        return FetchResponse(throttle_time_ms=throttle_ms, responses=topics)

    def _read(self, partition: int, offset: int, left: int) -> bytes:
        """Whole batches from the one that holds the offset on, as far as there is room for them."""
        found = b""
        for raw in self.logs[partition]:
            header = record_batch.header_at(raw)
            if header.next_offset > offset and header.base_offset < self.ends[partition] and len(found) < left:
                found += raw
        return found

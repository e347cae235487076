"""A request that a client sends again as it was is not read again, but for its correlation id; of a commit, nothing but
its offsets is, and of a Produce nothing but its records."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.server import connection
from protocol.apis import APIS
from protocol.codec import decode_request
from protocol.errors import ProtocolError
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from protocol.messages.produce import ProduceRequest, ProduceRequestPartitionData, ProduceRequestTopicData
from tests.dataplane.broker import batch
from tests.server.in_memory import Dialogue, InMemory

BEAT = HeartbeatRequest("g", 1, "m")
FETCH = OffsetFetchRequest(groups=(OffsetFetchRequestGroup("g", topics=None),))


def frame(request: Any, version: int, correlation_id: int, client_id: str = "c") -> bytes:
    return Dialogue(client_id).frame(request, version, correlation_id)[4:]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The frames that were read whole."""
    frames: list[bytes] = []

    def decode(data: bytes) -> Any:
        frames.append(data)
        return decode_request(data)

    monkeypatch.setattr(connection, "decode_request", decode)
    return frames


@pytest.mark.parametrize(
    ("request_", "version"),
    [(BEAT, 4), (FETCH, 8), (ConsumerGroupHeartbeatRequest("g", "m", 1), 1), (FetchRequest(max_wait_ms=500), 12)],
)
def test_what_is_sent_again_is_read_once(request_: Any, version: int, read: list[bytes]) -> None:
    own = InMemory().connect().connection
    frames = [frame(request_, version, number) for number in (1, 7, -1)]
    decoded = [own.decode(data) for data in frames]
    assert decoded == [decode_request(data) for data in frames]
    assert read == frames[:1]


@pytest.mark.parametrize(
    "others",
    [
        [frame(HeartbeatRequest("g", 2, "m"), 4, 1)],
        [frame(BEAT, 4, 1, client_id="d")],
        [frame(BEAT, 4, 1) + b"\0"],
        [frame(FETCH, 8, 1)],
    ],
)
def test_what_differs_is_read(others: list[bytes], read: list[bytes]) -> None:
    own = InMemory().connect().connection
    frames = [frame(BEAT, 4, 1), *others, frame(BEAT, 4, 1)]
    for data in frames:
        assert own.decode(data) == decode_request(data)
        assert own.client_id == decode_request(data).client_id
    assert read == frames


def test_one_version_is_not_taken_for_another(read: list[bytes]) -> None:
    """The bytes of Heartbeat 1 and 2 are the same."""
    own = InMemory().connect().connection
    frames = [frame(BEAT, version, 1) for version in (1, 2)]
    assert frames[0][4:] == frames[1][4:]
    assert [own.decode(data).version for data in frames] == [1, 2]
    assert read == frames


def test_the_client_id_is_that_of_the_latest_request() -> None:
    own = InMemory().connect().connection
    for data in (frame(BEAT, 4, 1), frame(MetadataRequest(), 9, 2, client_id="d"), frame(BEAT, 4, 3)):
        own.decode(data)
    assert own.client_id == "c"


def test_long_requests_and_those_of_other_apis_are_not_kept(read: list[bytes]) -> None:
    own = InMemory().connect().connection
    frames = [frame(HeartbeatRequest("g" * 300, 1, "m"), 4, 1)] * 2 + [frame(MetadataRequest(), 9, 2)] * 2
    for data in frames:
        own.decode(data)
    assert read == frames
    assert own.repeated is None


def topic(*offsets: int, name: str = "t", first: int = 0, metadata: str | None = "") -> OffsetCommitRequestTopic:
    rows = [OffsetCommitRequestPartition(first + at, offset, 3, -1, metadata) for at, offset in enumerate(offsets)]
    return OffsetCommitRequestTopic(name, b"t" * 16, tuple(rows))


def commit(*topics: OffsetCommitRequestTopic, generation: int = 1) -> OffsetCommitRequest:
    return OffsetCommitRequest("g", generation, "m", topics=topics)


@pytest.mark.parametrize("version", range(APIS[8].versions.start, APIS[8].versions.stop))
def test_of_a_commit_that_is_sent_again_only_the_offsets_are_read(version: int, read: list[bytes]) -> None:
    own = InMemory().connect().connection
    commits = [commit(topic(1, 2)), commit(topic(2**62, -1)), commit(topic(5, 5, first=7)), commit(topic(1, 2))]
    frames = [frame(each, version, number) for number, each in enumerate(commits)]
    assert [own.decode(data) for data in frames] == [decode_request(data) for data in frames]
    assert read == frames[:1]


COMMIT = commit(topic(1, 2))
SENT_AGAIN = commit(topic(3, 4))


@pytest.mark.parametrize("version", [7, 8])
@pytest.mark.parametrize(
    "other",
    [
        commit(topic(1, 2), generation=2),
        commit(topic(1, 2, name="s")),
        commit(topic(1)),
        commit(topic(1, 2, 3)),
        commit(topic(1, 2, metadata="x")),
        commit(topic(1, 2, metadata=None)),
        commit(topic(1), topic(2)),
        commit(),
    ],
)
def test_a_commit_that_differs_in_more_is_read(other: OffsetCommitRequest, version: int, read: list[bytes]) -> None:
    own = InMemory().connect().connection
    frames = [frame(each, version, 1) for each in (COMMIT, other, COMMIT, SENT_AGAIN)]
    for data in frames:
        assert own.decode(data) == decode_request(data)
    assert read == frames[:3]


@pytest.mark.parametrize("version", [7, 8])
def test_a_commit_of_another_size_is_read(version: int, read: list[bytes]) -> None:
    """One that is cut off is refused, and what is behind one is ignored."""
    own, whole = InMemory().connect().connection, frame(COMMIT, version, 1)
    own.decode(whole)
    for size in range(4, len(whole)):
        with pytest.raises(ProtocolError):
            own.decode(whole[:size])
    assert own.decode(whole + b"\0") == decode_request(whole)
    assert len(read) == len(whole) - 4 + 2


def test_of_a_commit_little_is_kept(read: list[bytes]) -> None:
    """None of its rows, and nothing if it has much beside them."""
    own = InMemory().connect().connection
    many, long = commit(topic(*range(1_000))), commit(topic(1, name="t" * 256))
    for again, each in enumerate((many, many, long, long)):
        assert own.decode(frame(each, 8, again)) == decode_request(frame(each, 8, again))
    assert read == [frame(many, 8, 0), frame(long, 8, 2), frame(long, 8, 3)]
    own.decode(frame(many, 8, 1))
    assert own.repeated_commit is not None
    assert not own.repeated_commit.request.body.topics[0].partitions


def test_a_commit_that_ends_otherwise_is_read(read: list[bytes]) -> None:
    """There is not one of the tagged fields that are announced."""
    own, whole = InMemory().connect().connection, frame(COMMIT, 8, 1)
    own.decode(whole)
    with pytest.raises(ProtocolError):
        own.decode(whole[:-1] + b"\1")
    assert len(read) == 2


def test_commits_of_other_clients_and_versions_are_read(read: list[bytes]) -> None:
    """The bytes of OffsetCommit 8 and 9 are the same."""
    own = InMemory().connect().connection
    frames = [frame(COMMIT, 8, 1), frame(COMMIT, 9, 1), frame(COMMIT, 9, 1, client_id="d")]
    assert frames[0][4:] == frames[1][4:]
    for data in frames:
        assert own.decode(data) == decode_request(data)
        assert own.client_id == decode_request(data).client_id
    assert read == frames


PARTITIONS = st.lists(st.builds(OffsetCommitRequestPartition, st.integers(0, 2), st.integers(0, 3)), max_size=2)
COMMITS = st.builds(
    lambda topics: OffsetCommitRequest(
        "g", topics=tuple([OffsetCommitRequestTopic(name, partitions=tuple(rows)) for name, rows in topics])
    ),
    st.lists(st.tuples(st.sampled_from("tu"), PARTITIONS), max_size=2),
)


@given(st.lists(COMMITS, min_size=2, max_size=6), st.sampled_from((6, 8, 9)))
def test_commits_that_differ_a_little_are_read_as_they_are(commits: list[OffsetCommitRequest], version: int) -> None:
    """Whichever of their topics and offsets are those of the commit before."""
    own = InMemory().connect().connection
    for number, commit in enumerate(commits):
        data = frame(commit, version, number)
        assert own.decode(data) == decode_request(data)


def producing(
    *partitions: tuple[int, bytes | None], name: str = "t", acks: int = -1, timeout_ms: int = 9, of: str | None = None
) -> ProduceRequest:
    data = tuple([ProduceRequestPartitionData(*partition) for partition in partitions])
    return ProduceRequest(of, acks, timeout_ms, (ProduceRequestTopicData(name, b"t" * 16, data),))


PRODUCE_VERSIONS = range(APIS[0].versions.start, APIS[0].versions.stop)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_of_a_produce_that_is_sent_again_only_the_partition_and_the_records_are_read(
    version: int, read: list[bytes]
) -> None:
    """Whatever their size: a varint of it has one byte to four."""
    sizes = [8, 62, 63, 64, 126, 127, 128, 1_000, 16_382, 16_383, 16_384, 70_000, 2_097_150, 2_097_151]
    for first in (61, 126, 127, 16_382, 16_383):
        own = InMemory().connect().connection
        read.clear()
        frames = [frame(producing((0, b"f" * first)), version, 1)]
        frames += [frame(producing((number, bytes(size))), version, number) for number, size in enumerate(sizes)]
        assert [own.decode(data) for data in frames] == [decode_request(data) for data in frames]
        assert read == frames[:1]


PRODUCED = (producing((0, b"one" * 40)), producing((3, b"other" * 50)))


@pytest.mark.parametrize("version", [8, 10, 13])
@pytest.mark.parametrize(
    "other",
    [
        producing((0, b"one" * 40), name="s"),
        producing((0, b"one" * 40), acks=1),
        producing((0, b"one" * 40), timeout_ms=10),
        producing((0, b"one" * 40), of="producer"),
        producing((0, b"one" * 40), (1, b"one" * 40)),
        producing((0, None)),
        producing(),
        ProduceRequest(None, -1, 9, (*PRODUCED[0].topic_data, *PRODUCED[1].topic_data)),
        ProduceRequest(None, -1, 9),
    ],
)
def test_a_produce_that_differs_in_more_is_read(other: ProduceRequest, version: int, read: list[bytes]) -> None:
    if version == 13 and other.topic_data[:1] and other.topic_data[0].name == "s":
        other = producing((0, b"one" * 40), timeout_ms=8)  # its topics have no names
    own = InMemory().connect().connection
    frames = [frame(each, version, 1) for each in (PRODUCED[0], other, *PRODUCED)]
    for data in frames:
        assert own.decode(data) == decode_request(data)
    assert read[:2] == frames[:2] and frames[3] not in read


@given(st.data(), st.sampled_from((7, 9, 10, 13)), st.sampled_from((70, 200, 17_000)))
def test_what_becomes_of_a_produce_is_read_as_it_is_or_refused(data: st.DataObject, version: int, size: int) -> None:
    """Bytes are changed, cut out and put in, before the records and behind them."""
    own = InMemory().connect().connection
    own.decode(frame(producing((0, bytes(range(1, 64)) * 3)), version, 1))
    changed = bytearray(frame(producing((1, bytes(size)), of=data.draw(st.sampled_from((None, "p")))), version, 2))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, 60) | st.integers(len(changed) - 6, len(changed)))
        changed[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    try:
        expected = decode_request(bytes(changed))
    except ProtocolError as error:
        with pytest.raises(type(error)):
            own.decode(bytes(changed))
    else:
        assert own.decode(bytes(changed)) == expected
        assert own.client_id == expected.client_id


def test_a_produce_that_ends_otherwise_is_read(read: list[bytes]) -> None:
    """There is not one of the tagged fields that are announced. What is behind a request is ignored."""
    own, (first, second) = InMemory().connect().connection, [frame(each, 9, 1) for each in PRODUCED]
    own.decode(first)
    with pytest.raises(ProtocolError):
        own.decode(second[:-1] + b"\1")
    assert own.decode(second + b"\0") == decode_request(second)
    assert len(read) == 3


def test_produces_of_other_clients_and_versions_are_read(read: list[bytes]) -> None:
    """The bytes of Produce 9 and 10 are the same."""
    own = InMemory().connect().connection
    frames = [frame(PRODUCED[0], 9, 1), frame(PRODUCED[1], 10, 1), frame(PRODUCED[1], 10, 1, client_id="d")]
    for data in frames:
        assert own.decode(data) == decode_request(data)
        assert own.client_id == decode_request(data).client_id
    assert read == frames


def test_a_client_id_that_looks_like_records_is_not_taken_for_them() -> None:
    own, records = InMemory().connect().connection, b"x" * 64 + b"y" * 10
    data = frame(producing((0, records)), 9, 1, client_id="AAAA" + chr(len(records) + 1) + "x" * 64)
    for _ in range(2):
        assert own.decode(data).body.topic_data[0].partition_data[0].records == records


def test_of_a_produce_little_is_kept(read: list[bytes]) -> None:
    own = InMemory().connect().connection
    own.decode(frame(PRODUCED[0], 9, 1) + bytes(256))
    assert own.repeated_produce is None
    read.clear()
    long = producing((0, bytes(500)), name="t" * 249)
    for _ in range(2):
        own.decode(frame(long, 9, 1))
    assert len(read) == 2 and own.repeated_produce is None
    own.decode(frame(producing((0, bytes(5_000))), 9, 1))
    kept = own.repeated_produce
    assert kept is not None and not kept.request.body.topic_data and not kept.topic.partition_data
    assert len(kept.before) + len(kept.after) < 256


def test_a_long_produce_that_is_sent_again_is_not_read_in_steps() -> None:
    server = InMemory(frame_bytes_max=1 << 20)
    server.frontend.turn.seconds = 0
    peer, turns = server.connect(), []
    for number in range(3):
        peer.send((producing((number, batch(*["x" * 40] * 700))), 9))
        turns.append(0)
        while len(peer.answers) <= number:
            server.turn()
            turns[-1] += 1
    assert turns[0] > turns[1] == turns[2]
    assert [answer.responses[0].partition_responses[0].index for _, answer in peer.answers] == [0, 1, 2]

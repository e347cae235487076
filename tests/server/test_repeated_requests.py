"""A request that a client sends again as it was is not read again, but for its correlation id."""

from typing import Any

import pytest

from coordinator.server import connection
from protocol.codec import decode_request
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
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

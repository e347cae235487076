"""The proxy that captures golden frames keeps the right ones, under the right names."""

from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from trio.testing import memory_stream_pair

from protocol.codec import encode_request, encode_response
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.protocol.capture import FRAME_BYTES_KEPT, Tape, relay

SHORT = encode_request(12, 4, 1, None, HeartbeatRequest("g"))
LONG = encode_request(12, 4, 2, None, HeartbeatRequest("a longer group"))
SIZE = 4


@pytest.fixture
def tape(tmp_path: Path) -> Tape:
    return Tape(tmp_path, "client-1.0")


def kept(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("frames", [(SHORT, LONG), (LONG, SHORT)])
def test_the_longest_of_a_kind_is_kept(tape: Tape, tmp_path: Path, frames: tuple[bytes, ...]) -> None:
    for frame in frames:
        tape.request(frame[SIZE:])
    assert kept(tmp_path) == {"heartbeat_v4_request_client-1.0.bin": LONG[SIZE:]}


def test_a_response_is_known_by_the_request_it_answers(tape: Tape, tmp_path: Path) -> None:
    answer = encode_response(12, 4, 2, HeartbeatResponse(error_code=27))[SIZE:]
    tape.response(answer)
    assert not kept(tmp_path)
    tape.request(LONG[SIZE:])
    tape.response(answer)
    assert kept(tmp_path)["heartbeat_v4_response_client-1.0.bin"] == answer


def test_too_long_frames_and_unknown_apis_are_left_out(tape: Tape, tmp_path: Path) -> None:
    tape.request(encode_request(12, 4, 1, None, HeartbeatRequest("g" * FRAME_BYTES_KEPT))[SIZE:])
    tape.request(b"\x03\xe8" + LONG[SIZE + 2 :])  # API 1000
    assert not kept(tmp_path)


def test_the_answer_to_an_unknown_api_versions_is_in_version_0(tape: Tape, tmp_path: Path) -> None:
    request = bytearray(encode_request(18, 4, 1, None, ApiVersionsRequest("client", "1.0"))[SIZE:])
    request[3] = 5
    tape.request(bytes(request))
    tape.response(encode_response(18, 0, 1, ApiVersionsResponse(error_code=35))[SIZE:])
    assert set(kept(tmp_path)) == {"api_versions_v5_request_client-1.0.bin", "api_versions_v0_response_client-1.0.bin"}


async def test_bytes_are_handed_on_as_they_are_and_frames_heard(nursery: trio.Nursery) -> None:
    client, source = memory_stream_pair()
    sink, server = memory_stream_pair()
    heard: list[bytes] = []
    hear: Callable[[bytes], None] = heard.append
    with trio.CancelScope() as both:
        nursery.start_soon(relay, source, sink, hear, both)
        await client.send_all(SHORT + LONG[:9])
        await client.send_all(LONG[9:])
        await client.send_eof()
        await trio.testing.wait_all_tasks_blocked()
    assert both.cancel_called, "the end of one way is the end of both"
    assert heard == [SHORT[SIZE:], LONG[SIZE:]]
    assert await server.receive_some() == SHORT + LONG

"""The proxy that captures golden frames keeps the right ones, under the right names."""

from pathlib import Path
from struct import pack

import pytest
import trio
from trio.testing import memory_stream_pair

from protocol.codec import encode_request, encode_response
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.protocol.capture import FRAME_BYTES_KEPT, Tape, relay

SHORT = encode_request(12, 4, 1, None, HeartbeatRequest("g"))[4:]
LONG = encode_request(12, 4, 2, None, HeartbeatRequest("a longer group"))[4:]
ANSWER = encode_response(12, 4, 2, HeartbeatResponse(error_code=27))[4:]
TOO_LONG = encode_request(12, 4, 1, None, HeartbeatRequest("g" * FRAME_BYTES_KEPT))[4:]
API_1000 = b"\x03\xe8" + LONG[2:]
TO_COME = b"\0\x12\0\5" + encode_request(18, 4, 1, None, ApiVersionsRequest("client", "1.0"))[8:]
IN_VERSION_0 = encode_response(18, 0, 1, ApiVersionsResponse(error_code=35))[4:]


@pytest.mark.parametrize(
    ("requests", "response", "kept"),
    [
        ((SHORT, LONG), None, {"heartbeat_v4_request": LONG}),
        ((LONG, SHORT), None, {"heartbeat_v4_request": LONG}),
        ((), ANSWER, {}),
        ((LONG,), ANSWER, {"heartbeat_v4_request": LONG, "heartbeat_v4_response": ANSWER}),
        ((TOO_LONG, API_1000), None, {}),
        ((TO_COME,), IN_VERSION_0, {"api_versions_v5_request": TO_COME, "api_versions_v0_response": IN_VERSION_0}),
    ],
)
def test_the_longest_frame_of_each_kind_is_kept(
    tmp_path: Path, requests: tuple[bytes, ...], response: bytes | None, kept: dict[str, bytes]
) -> None:
    """A response is known by the request that it answers."""
    tape = Tape(tmp_path, "client-1.0")
    for frame in requests:
        tape.request(frame)
    if response is not None:
        tape.response(response)
    found = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert found == {f"{name}_client-1.0.bin": frame for name, frame in kept.items()}


async def test_bytes_are_handed_on_as_they_are_and_frames_heard(nursery: trio.Nursery) -> None:
    client, source = memory_stream_pair()
    sink, server = memory_stream_pair()
    heard: list[bytes] = []
    wire = b"".join(pack(">i", len(frame)) + frame for frame in (SHORT, LONG))
    with trio.CancelScope() as both:
        nursery.start_soon(relay, source, sink, heard.append, both)
        await client.send_all(wire[:40])
        await client.send_all(wire[40:])
        await client.send_eof()
        await trio.testing.wait_all_tasks_blocked()
    assert both.cancel_called, "the end of one way is the end of both"
    assert heard == [SHORT, LONG]
    assert await server.receive_some() == wire

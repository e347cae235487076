"""R14, R16: lengths and counts that lie are refused before anything is made of them."""

from __future__ import annotations

import gc
import tracemalloc
from struct import pack

import pytest

from protocol.codec import decode_request
from protocol.errors import ProtocolError
from tests.protocol.hostile import cases, filled
from tests.protocol.targets import REQUESTS, RESPONSES, Target

MIB = 1 << 20


@pytest.mark.parametrize("target", REQUESTS, ids=str)
def test_r14_a_length_that_lies_is_refused_by_its_name_for_little_memory(target: Target) -> None:
    lying = list(cases(target))
    assert len(lying) >= 4
    with pytest.raises(ProtocolError):
        target.decode(lying[0][1])  # which builds the codec, if no test before has
    tracemalloc.start()
    try:
        for path, frame in lying:
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            with pytest.raises(ProtocolError) as refused:
                target.decode(frame)
            _, peak = tracemalloc.get_traced_memory()
            assert peak - before <= MIB + 2 * len(frame), path
            assert refused.value.api == target.api.name
            assert refused.value.offset is not None
            assert 0 <= refused.value.offset <= len(frame)
            if "varint above" in refused.value.reason or "negative count" in refused.value.reason:
                assert refused.value.path == path.removeprefix("body."), "nothing later can be taken for such a lie"
    finally:
        tracemalloc.stop()


def test_r14_there_are_thousands_of_such_cases() -> None:
    assert sum(1 for target in REQUESTS for _ in cases(target)) >= 2_000


@pytest.mark.parametrize("target", RESPONSES[::5], ids=str)
def test_r14_clients_of_this_codec_are_safe_as_well(target: Target) -> None:
    for path, frame in cases(target):
        with pytest.raises(ProtocolError):
            print(path, target.decode(frame))


HEADER = pack(">hhih", 3, 1, 1, -1)  # Metadata v1, whose message is an array of topic names


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (pack(">i", 1073741823) + b"\0" * 17, "1073741823 elements where 17 bytes are left"),
        (pack(">i", 2147483647) + b"\0" * 20, "2147483647 elements where 20 bytes are left"),
        (pack(">ih", 1, 10) + b"\0" * 9, "a string of 10 bytes where 9 are left"),
        (pack(">i", 1), "1 elements where 0 bytes are left"),
    ],
)
def test_r14_cve_2022_34917_counts_are_compared_with_what_is_left(body: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason) as refused:
        decode_request(HEADER + body)
    assert refused.value.path is not None
    assert refused.value.path.startswith("topics")


def test_r14_kafkas_own_byte_array_of_2147483647_with_20_left() -> None:
    """SaslAuthenticate is read before anybody is authenticated."""
    with pytest.raises(ProtocolError, match="2147483647 bytes where 20 are left in auth_bytes at byte 14"):
        decode_request(pack(">hhihi", 36, 0, 1, -1, 2147483647) + b"\0" * 20)


def test_r15_cve_2026_111108_counts_are_compared_with_the_bytes_of_their_elements() -> None:
    """As many elements as bytes are left would pass a check of bytes alone; a topic has two at least."""
    with pytest.raises(ProtocolError, match="100 elements where 100 bytes are left in topics"):
        decode_request(HEADER + pack(">i", 100) + b"\0" * 100)


def test_r14_nothing_is_kept_of_refused_frames() -> None:
    target = REQUESTS[0]
    frame = next(frame for _, frame in cases(target))
    for _ in range(3):
        with pytest.raises(ProtocolError):
            target.decode(frame)
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(200):
        with pytest.raises(ProtocolError):
            target.decode(frame)
    gc.collect()
    assert len(gc.get_objects()) - before < 100


@pytest.mark.parametrize("target", REQUESTS, ids=str)
def test_a_frame_in_which_everything_is_there_is_read_back(target: Target) -> None:
    body = filled(target.body)
    assert target.decode(target.encode(body)).body == body

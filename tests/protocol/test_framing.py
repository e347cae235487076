"""R16: frames out of chunks, and sizes that cannot be."""

from __future__ import annotations

import itertools
import tracemalloc
from struct import pack

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from protocol import framing
from protocol.errors import ProtocolError
from protocol.framing import FRAME_BYTES_MAX, FrameBuffer


def framed(*frames: bytes) -> bytes:
    return b"".join(pack(">i", len(frame)) + frame for frame in frames)


@settings(max_examples=200, deadline=None, database=None, derandomize=True)
@given(st.lists(st.binary(min_size=1, max_size=30), max_size=8), st.lists(st.integers(1, 40), min_size=1, max_size=40))
@example(frames=[b"one", b"chunk"], cuts=[7, 9])
def test_r16_frames_come_out_whole_and_in_order_however_they_are_cut(frames: list[bytes], cuts: list[int]) -> None:
    buffer, wire, out = FrameBuffer(), framed(*frames), []
    while wire:
        size = cuts[len(wire) % len(cuts)]
        buffer.feed(wire[:size])
        out += buffer
        wire = wire[size:]
        assert buffer.is_held == (len(buffer) > 0)
    assert out == frames
    assert all(type(frame) is bytes for frame in out)
    assert len(buffer) == 0


@settings(max_examples=200, deadline=None, database=None, derandomize=True)
@given(
    st.lists(st.integers(1, 90), min_size=1, max_size=6),
    st.lists(st.integers(0, 70), min_size=1, max_size=40),
    st.lists(st.booleans(), min_size=1, max_size=20),
)
def test_large_frames_are_the_same_as_small_ones(sizes: list[int], cuts: list[int], takes: list[bool]) -> None:
    """Frames of 30 bytes are large here, and get room for 40 at first. Not all is taken after each chunk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(framing, "LARGE_BYTES", 30)
        patch.setattr(framing, "_ROOM_BYTES", 40)
        frames = [bytes((number * 17 + at) % 256 for at in range(size)) for number, size in enumerate(sizes)]
        buffer, wire, out, fed = FrameBuffer(), framed(*frames), [], 0
        for turn in itertools.count():
            cut = cuts[turn % len(cuts)] + (turn > 100)
            buffer.feed(wire[fed : fed + cut])
            fed += len(wire[fed : fed + cut])
            if takes[turn % len(takes)] or fed == len(wire):
                out += buffer
            assert buffer.is_held == (len(buffer) > 0)
            assert sum(len(frame) + 4 for frame in out) + len(buffer) == fed
            if fed == len(wire):
                break
        assert out == frames
        assert all(type(frame) is bytes for frame in out)


def test_r16_the_default_limit_is_eight_mebibytes() -> None:
    assert FrameBuffer().limit == FRAME_BYTES_MAX == 8 * 1024 * 1024


@pytest.mark.parametrize("size", [0, -1, -2, -(2**31), 101, 2**31 - 1])
def test_r16_a_size_that_cannot_be_is_refused_by_its_four_bytes_alone(size: int) -> None:
    buffer = FrameBuffer(limit=100)
    buffer.feed(pack(">i", size))
    with pytest.raises(ProtocolError, match=f"a frame of {size} bytes where 1 to 100 are allowed"):
        list(buffer)


def test_r16_a_frame_as_long_as_the_limit_is_taken() -> None:
    buffer = FrameBuffer(limit=100)
    buffer.feed(framed(b"x" * 100))
    assert list(buffer) == [b"x" * 100]


def test_r16_frames_before_a_bad_size_are_handed_out_first() -> None:
    buffer = FrameBuffer(limit=100)
    buffer.feed(framed(b"one", b"two") + pack(">i", -1))
    frames = iter(buffer)
    assert [next(frames), next(frames)] == [b"one", b"two"]
    with pytest.raises(ProtocolError):
        next(frames)


def test_the_limit_may_be_raised_between_frames() -> None:
    """Before authentication frames are short; the one that authenticates may come with a long one behind it."""
    buffer, out = FrameBuffer(limit=4), []
    buffer.feed(framed(b"auth", b"a longer one"))
    for frame in buffer:
        out.append(frame)
        buffer.limit = 100
    assert out == [b"auth", b"a longer one"]


def test_a_taker_may_stop_and_go_on_later() -> None:
    buffer = FrameBuffer()
    buffer.feed(framed(b"one", b"two"))
    assert next(iter(buffer)) == b"one"
    assert len(buffer) == 7
    buffer.feed(framed(b"three"))
    assert list(buffer) == [b"two", b"three"]


def test_an_empty_chunk_changes_nothing() -> None:
    buffer = FrameBuffer()
    buffer.feed(b"\0\0")
    buffer.feed(b"")
    buffer.feed(b"\0\x01x")
    assert list(buffer) == [b"x"]


@pytest.mark.parametrize("size", [60_000, 200_000])
def test_r16_a_frame_that_trickles_in_costs_no_more_than_its_bytes(size: int) -> None:
    """Two bytes at a time would cost twenty times as much as a list of chunks, and their square to join each time."""
    buffer, wire = FrameBuffer(), framed(b"x" * size)
    tracemalloc.start()
    try:
        for at in range(0, len(wire) - 2, 2):
            buffer.feed(wire[at : at + 2])
            assert list(buffer) == []
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(buffer) == size + 2
    assert held < 1.3 * size
    buffer.feed(wire[-2:])
    assert list(buffer) == [b"x" * size]


def test_a_large_frame_is_its_buffer() -> None:
    size = 900_000
    buffer, chunk = FrameBuffer(), bytes(100_000)
    buffer.feed(pack(">i", size))
    tracemalloc.start()
    try:
        for _ in range(9):
            buffer.feed(chunk)
        (frame,) = buffer
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(frame) == size
    assert most < 1.2 * size, "there is no second copy at any time"


def test_what_was_handed_out_is_not_held() -> None:
    buffer = FrameBuffer()
    chunk = pack(">i", 60_000) + bytes(60_000)
    buffer.feed(chunk[:30_000])
    assert list(buffer) == []
    buffer.feed(chunk[30_000:])
    assert [len(frame) for frame in buffer] == [60_000]
    assert len(buffer._data) == 0
    buffer.feed(chunk * 2)
    assert [len(frame) for frame in buffer] == [60_000] * 2
    assert len(buffer._data) == 0

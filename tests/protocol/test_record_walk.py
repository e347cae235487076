"""A walk that passes runs of records of one shape says the same as one that goes from record to record."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from protocol import record_walk
from protocol.errors import ProtocolError
from protocol.record_batch import HEADER_BYTES, encode
from protocol.record_walk import ANY_TIME, RecordWalk
from protocol.records import Record

SIZES = st.sampled_from([0, 1, 5, 61, 62, 63, 100, 8_180])
SHAPES = st.tuples(
    st.sampled_from([1, 2, 3, 30, 62, 64, 100]),  # records in a row
    st.one_of(st.none(), SIZES),  # bytes of the key
    st.one_of(st.none(), SIZES),  # ... of the value
    st.sampled_from([0, 0, 1, 63, -1, 5_000, 900_000]),  # milliseconds since the record before
    st.booleans(),  # whether there is a header
)


def batch_of(shapes: list[tuple[int, int | None, int | None, int, bool]]) -> tuple[bytes, int]:
    records, time = list[Record](), 1_000
    for count, key, value, pause, has_header in shapes:
        for _ in range(count):
            time += pause
            fields = [None if size is None else bytes(size) for size in (key, value)]
            records.append(Record(*fields, (("h", b"1"),) if has_header else (), timestamp=time))
    return encode(records)[HEADER_BYTES:], len(records)


def walk_over(
    data: bytes, count: int, most: int, times: tuple[int, int, int], *, has_runs: bool, end: int | None = None
) -> Any:
    """Return all that a walk says after each step, or its error."""
    said = list[Any]()
    try:
        walk = RecordWalk(data, 0, len(data) if end is None else end, count, times)
        is_over = False
        while not is_over:
            walk._misses = 0 if has_runs else 99
            is_over = walk.advance(most)
            said.append(
                (walk.index, walk.headers, walk.latest, walk.misplaced, walk.keyless_count, walk.untimely_count)
            )
        said.append((walk.keyless, walk.untimely))
    except ProtocolError as error:
        said.append((str(error), error.offset))
    return said


@settings(max_examples=150)
@example([(60, 3, 80, 10, False)], [], 1_000, (0, 200, -1), 1.0).via("some of a run have a time that is not allowed")
@example([(1_500, None, 10, 0, False)], [], 2_000, ANY_TIME, 1.0).via("more without a key than are named")
@example([(300, 3, 80, 0, False)], [], 1_000, ANY_TIME, 0.5).via("the bytes go on behind the end")
@given(
    st.lists(SHAPES, min_size=1, max_size=5),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=2),
    st.sampled_from([7, 50, 1_000]),
    st.sampled_from([ANY_TIME, (0, 200, -1), (0, 6_000, 40)]),
    st.one_of(st.just(1.0), st.floats(0, 1)),
)
def test_a_run_says_what_its_records_say(
    shapes: list[tuple[int, int | None, int | None, int, bool]],
    damage: list[tuple[float, int]],
    most: int,
    times: tuple[int, int, int],
    part: float,
) -> None:
    data, count = batch_of(shapes)
    spoilt = bytearray(data)
    for at, byte in damage:
        spoilt[int(at * (len(data) - 1))] = byte
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(record_walk, "RUN_MIN", 1)
        end = int(part * len(data))
        expected = walk_over(bytes(spoilt), count, most, times, has_runs=False, end=end)
        assert walk_over(bytes(spoilt), count, most, times, has_runs=True, end=end) == expected


@settings(max_examples=60)
@example([(600, 70), (5, 200), (600, 70)], ANY_TIME).via("times of one second byte do not lie together")
@example([(600, 70), (1, -4_096), (600, 75)], (-100, 8_000, -4_096)).via("the time that stands for none")
@given(
    st.lists(st.tuples(st.sampled_from([1, 40, 600]), st.integers(-4_096, 4_095)), min_size=1, max_size=8),
    st.sampled_from([ANY_TIME, (0, 100, -1), (-100, 4_000, -7)]),
)
def test_a_run_says_which_times_its_records_have(blocks: list[tuple[int, int]], times: tuple[int, int, int]) -> None:
    """Where the times neither go up nor are the same, and where they are a few of many, or many of few."""
    records = [Record(None, b"", timestamp=4_096)]
    for count, time in blocks:
        records += [Record(None, b"", timestamp=4_096 + time + at % 3) for at in range(count)]
    data = encode(records)[HEADER_BYTES:]
    found = walk_over(data, len(records), 10_000, times, has_runs=True)
    assert found == walk_over(data, len(records), 10_000, times, has_runs=False)


@pytest.mark.parametrize("bit", [0x02, 0x80])
@pytest.mark.parametrize("at", [*range(13), 93])
def test_each_byte_of_the_shape_counts(at: int, bit: int) -> None:
    """In the middle of a run of many, where the walk looks at columns."""
    data, count = batch_of([(200, 3, 80, 1, False)])
    spoilt = bytearray(data)
    spoilt[len(data) - 50 * 94 + at] ^= bit
    for times in (ANY_TIME, (0, 300, -1)):
        found = walk_over(bytes(spoilt), count, 1_000, times, has_runs=True)
        assert found == walk_over(bytes(spoilt), count, 1_000, times, has_runs=False)
    if at not in (2, 8, 9, 10) and (bit == 0x80 or at not in (3, 4)):  # the attributes, a time, bytes of the key
        assert found != walk_over(data, count, 1_000, (0, 300, -1), has_runs=True)


@pytest.mark.parametrize("byte", [None, 0, 1, 2])
@pytest.mark.parametrize("record", [8_191, 8_192, 8_200, 8_255, 8_256, 16_383, 16_384, 16_500])
def test_places_of_three_bytes_in_a_run(record: int, byte: int | None) -> None:
    """Around the offsets at which the bytes of a place carry, and with a bit of one of these bytes wrong."""
    data, count = batch_of([(17_000, None, 1, 0, False)])
    spoilt = bytearray(data)
    if byte is not None:
        sizes = [8 if at < 64 else 9 if at < 8_192 else 10 for at in range(record)]
        spoilt[sum(sizes) + 3 + byte] ^= 0x02
    found = walk_over(bytes(spoilt), count, 20_000, ANY_TIME, has_runs=True)
    assert found == walk_over(bytes(spoilt), count, 20_000, ANY_TIME, has_runs=False)


@pytest.mark.parametrize("records", [1_000, 40_000])
def test_most_of_a_run_is_passed_at_once(monkeypatch: pytest.MonkeyPatch, records: int) -> None:
    data, count = batch_of([(records, None, 100, 0, False)])
    looked_at = list[int]()
    step_over = RecordWalk._step_over

    def counted(walk: RecordWalk, stop_index: int) -> bool:
        before = walk.index
        more = step_over(walk, stop_index)
        looked_at.append(walk.index - before)
        return more

    monkeypatch.setattr(RecordWalk, "_step_over", counted)
    assert RecordWalk(data, 0, len(data), count).advance(count)
    assert sum(looked_at) < 30

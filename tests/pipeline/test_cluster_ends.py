"""Where topics of a cluster end and ended before, against what was written when."""

from contextlib import nullcontext
from random import Random
from types import SimpleNamespace
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.client.offsets import EARLIEST, LATEST
from pipeline.decode import cluster_ends
from pipeline.decode.cluster import ClusterLog, between, newest
from pipeline.decode.cluster_ends import STEP_MS, STEPS, list_ends
from pipeline.decode.ends import End
from pipeline.decode.files import Store
from pipeline.decode.logs import RECORD_BYTES, Position
from pipeline.errors import UsageError

READ_MS = 1_760_000_000_000
Place = tuple[str, int]


class WrittenTopics:
    """A cluster of which is known when each record was written, and what retention has left of it."""

    def __init__(self, dice: Random) -> None:
        # Some before the times that are asked for, some while the groups' logs were read, and some after.
        moments = [READ_MS - (STEPS + 1) * STEP_MS, READ_MS + 2 * STEP_MS]
        places = [(topic, number) for topic in ("orders", "payments") for number in range(dice.randrange(1, 4))]
        self.written = {
            place: sorted(dice.randrange(*moments) for _ in range(dice.choice((0, 1, 5, 40)))) for place in places
        }
        self.begins = {place: dice.choice((0, 0, dice.randrange(len(at) + 1))) for place, at in self.written.items()}
        self.unread = {place for place in places if dice.random() < 0.1}  # has no leader now

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def metadata(self, _: None) -> Any:
        named = {"orders": (False, 0), "payments": (False, 0), "__consumer_offsets": (True, 0), "secret": (False, 29)}
        return SimpleNamespace(
            topics=[
                SimpleNamespace(
                    name=topic, is_internal=is_internal, error_code=code,
                    partitions=[SimpleNamespace(partition_index=n) for n in range(3) if (topic, n) in self.written]
                    or [SimpleNamespace(partition_index=0)] * (topic not in ("orders", "payments")),
                )
                for topic, (is_internal, code) in named.items()
            ]
        )  # fmt: skip

    def list_offsets(self, places: list[Place], at_ms: int) -> dict[Place, int]:
        found = {}
        for place in places:
            written, begin = self.written[place], self.begins[place]
            later = next((n for n, ts in enumerate(written) if ts >= at_ms and n >= begin), -1)
            found[place] = {EARLIEST: begin, LATEST: len(written)}.get(at_ms, later)
        return {place: offset for place, offset in found.items() if place not in self.unread}


@pytest.mark.parametrize("seed", range(20))
def test_an_end_is_told_of_each_time_as_far_as_records_show_it(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = WrittenTopics(Random(seed))
    monkeypatch.setattr(cluster_ends, "Cluster", lambda *_: topics)
    monkeypatch.setattr(cluster_ends, "list_offsets", lambda cluster, places, at: cluster.list_offsets(places, at))
    times = [READ_MS - step * STEP_MS for step in range(STEPS, -1, -1)]
    expected = set()
    for place, written in topics.written.items():
        for ts in () if place in topics.unread else times:
            leo = sum(at < ts for at in written)
            # What retention has taken may have been written at any time: only an end behind it is known.
            if leo > topics.begins[place] or leo == topics.begins[place] == 0:
                expected.add(End(*place, ts, leo, "list_offsets"))
    found = list_ends("kafka://broker:9092", READ_MS)
    assert len(found) == len(set(found))
    assert set(found) == expected


@pytest.mark.parametrize("has_topics", [True, False])
def test_a_cluster_of_which_the_user_may_describe_no_topic_is_refused(
    has_topics: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = WrittenTopics(Random(1))
    topics.written = topics.written if has_topics else {}
    monkeypatch.setattr(cluster_ends, "Cluster", lambda *_: topics)
    with nullcontext() if has_topics else pytest.raises(UsageError, match="kafka://broker:9092 tells no log end"):
        cluster_ends.check("kafka://broker:9092?command_config=")


@given(
    st.integers(0, 900), st.integers(0, 900), st.integers(0, 40), st.none() | st.integers(0, 900), st.integers(1, 90)
)
def test_spans_of_a_cluster_are_all_that_is_wanted_and_each_has_its_size(
    begin: int, more: int, start: int, end: int | None, records: int
) -> None:
    """In records: what retention has removed counts for nothing, however much it was."""
    log = ClusterLog(Store.of("kafka://broker"), "", "t-0", 0, begin=begin, end=begin + more)
    last = log.end if end is None else end
    cut = between(log, Position(start), None if end is None else Position(end), records * RECORD_BYTES)
    assert [one for span in cut for one in range(span.from_offset, span.until_offset or 0)] == [*range(start, last)]
    assert [span.floor for span in cut] == [span.from_offset for span in cut]
    there = [len(range(max(begin, span.from_offset), span.until_offset or 0)) for span in cut]
    assert all(one == records for one in there[:-1])
    assert all(one <= records for one in there)
    assert [span.is_followed for span in cut] == [True] * (len(cut) - 1) + [False] * bool(cut)


@given(st.integers(0, 900), st.integers(0, 900), st.integers(0, 2_000), st.none() | st.integers(1, 90_000))
def test_a_step_reads_as_many_records_as_its_limit_holds(
    begin: int, more: int, start: int, max_bytes: int | None
) -> None:
    log = ClusterLog(Store.of("kafka://broker"), "", "t-0", 0, begin=begin, end=begin + more)
    unread = len(range(max(start, begin), log.end))
    limit = unread if max_bytes is None else max(1, max_bytes // RECORD_BYTES)
    after = newest(log, Position(start), max_bytes)
    assert len(range(max(start, begin), after.next_offset)) == min(unread, limit)
    assert after.next_offset >= start

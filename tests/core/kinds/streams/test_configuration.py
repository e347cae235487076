"""A topology held against the topics: what is missing, and what does not fit."""

import pytest
from hypothesis import given

from coordinator.core.kinds.streams.configuration import configure_topology
from coordinator.core.kinds.streams.sizes import InvalidTopologyError
from coordinator.core.kinds.streams.topology import Topology, sources_of, validate_topology
from protocol.messages.streams_group_heartbeat import (
    StatusCode,
    StreamsGroupHeartbeatRequestSubtopology,
    StreamsGroupHeartbeatRequestTopicInfo,
    StreamsGroupHeartbeatRequestTopology,
)
from protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequestCopartitionGroup as Joined
from tests.core.kinds.streams.topologies import part, topics, topologies, topology

WORD_COUNT = topology(part("0", ["words"], sinks=["again"]), part("1", reads={"again": 0}, logs=["store"]))


@pytest.mark.rule("S-011 S-012 S-028")
def test_the_topics_of_a_word_count_come_one_after_the_other() -> None:
    nothing = configure_topology(WORD_COUNT, topics())
    assert nothing.problem is not None and nothing.missing == ()
    assert (nothing.problem.code, nothing.problem.detail) == (
        StatusCode.MISSING_SOURCE_TOPICS,
        "missing source topics: words",
    )
    source = configure_topology(WORD_COUNT, topics(words=3))
    assert source.problem is not None and source.problem.code == StatusCode.MISSING_INTERNAL_TOPICS
    assert [(topic.name, topic.partitions) for topic in source.missing] == [("again", 3), ("store", 3)]
    every = configure_topology(WORD_COUNT, topics(words=3, again=3, store=3))
    assert every.is_ready and {number: each.task_count for number, each in every.subtopologies.items()} == {
        "0": 3,
        "1": 3,
    }


@pytest.mark.rule("S-013 S-028")
def test_an_internal_topic_of_another_size_does_not_fit() -> None:
    wrong = configure_topology(WORD_COUNT, topics(words=3, again=3, store=2))
    assert wrong.problem is not None and not wrong.subtopologies
    assert (wrong.problem.code, wrong.problem.detail) == (
        StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
        "topic store has 2 partitions: expected 3",
    )


@pytest.mark.rule("S-013")
def test_many_missing_topics_are_told_in_few_words() -> None:
    missing = configure_topology(topology(part("0", [f"t{n}" for n in range(9)])), topics())
    assert missing.problem is not None and missing.problem.detail == "missing source topics: t0, t1, t2 and 6 more"


@given(topologies())
def test_a_topology_is_ready_when_what_it_misses_is_created(known: Topology) -> None:
    """With the sizes that were found for it; its tasks are those of the largest topic that a subtopology reads."""
    existing = topics(s0=1, s1=3, s2=4)
    try:
        first = configure_topology(known, existing)
    except InvalidTopologyError:
        return
    for topic in first.missing:
        existing = existing.with_topic(topics(**{topic.name: topic.partitions})[topic.name])
    ready = configure_topology(known, existing)
    assert ready.is_ready and not ready.missing
    for number, each in ready.subtopologies.items():
        assert each.task_count == max(existing[name].partitions for name in sources_of(known.subtopologies[number]))


SENT, TOPIC = StreamsGroupHeartbeatRequestSubtopology, StreamsGroupHeartbeatRequestTopicInfo


@pytest.mark.parametrize(
    ("parts", "epoch", "reason"),
    [
        (
            [SENT("0", state_changelog_topics=(TOPIC("a"), TOPIC("b", 2)))],
            0,
            "changelog b has 2 partitions: expected 0",
        ),
        (
            [SENT("0", repartition_source_topics=(TOPIC("a", 3), TOPIC("b", -1)))],
            0,
            "repartition topic b has -1 partitions: expected 0 or more",
        ),
        ([SENT("0", ("a",))], -1, "topology epoch -1: expected 0 or more"),
        ([SENT("0"), SENT("1"), SENT("1")], 0, "subtopology 1 is there 2 times"),
        (
            [SENT("0"), SENT("1", ("a",), copartition_groups=(Joined((0,)), Joined((1,))))],
            0,
            "subtopology 1 has a copartition group with an index out of range",
        ),
        (
            [SENT("0", ("a",), repartition_source_topics=(TOPIC("r"),), copartition_groups=(Joined((), (), (-1,)),))],
            0,
            "subtopology 0 has a copartition group with an index out of range",
        ),
        ([SENT("0", ("a",), copartition_groups=(Joined((0,)),)), SENT("1")], 0, None),
        ([], 0, None),
    ],
)
def test_what_no_topology_can_have_is_refused(parts: list[SENT], epoch: int, reason: str | None) -> None:
    refusal = validate_topology(StreamsGroupHeartbeatRequestTopology(epoch, tuple(parts)))
    assert (None if refusal is None else refusal.message) == reason

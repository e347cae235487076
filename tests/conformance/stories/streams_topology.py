"""Topologies of streams groups: topics that are missing, created and sized by the broker, and what changes them."""

from typing import Any

from tests.conformance.actors import Streams
from tests.conformance.requests import TOPIC, describe_configs, describe_streams
from tests.conformance.scenes import sole_streams
from tests.conformance.stage import Stage
from tests.conformance.story import story
from tests.conformance.topologies import (
    Topology,
    copartitioned,
    counts,
    internal,
    part,
    reads,
    topology,
    word_count,
)

MISSING, WRONG_SIZE, CREATED_SOON = 1, 2, 3


def sizes(k: Stage, *short: str) -> None:
    """Write down how many partitions these topics have, as soon as all of them are there; 0 for one that is not."""
    k.pump.run(k.settle_ms)
    found = []
    for name in short:
        wanted = {"topics": [{"name": k.name(name)}], "allow_auto_topic_creation": False}
        answer = k.line("stage").quietly("metadata", 12, **wanted)
        found.append([name, len(answer.topics[0].partitions)])
    k.events.append({"sizes": found})


def join(k: Stage, known: Topology, name: str = "a", **values: Any) -> Streams:
    one = Streams(k, name)
    one.join(known, **values)
    return one


def grown(k: Stage, known: Topology, tasks: int, *short: str) -> Streams:
    """Join, wait for the tasks that come when the internal topics are there, and write down their sizes."""
    a = join(k, known)
    a.beat_until_told(tasks)
    sizes(k, *short)
    return a


@story("S-013 S-012 S-035", server="streams")
def a_source_that_is_missing(k: Stage) -> None:
    """The member is in the group and has nothing; the group is not ready. When the topic is there, it gets its tasks."""
    a = join(k, reads(k.name("t")))
    a.beat()
    describe_streams(k, a.group)
    k.topic(partitions=2)
    a.beat_until_told(2)
    describe_streams(k, a.group)


@story("S-013", server="streams")
def several_sources_that_are_missing(k: Stage) -> None:
    """One of them comes: that is not enough."""
    a = join(k, reads(k.name("t1"), k.name("t2"), k.topic("t3")))
    k.topic("t1")
    a.beat()
    a.beat()
    describe_streams(k, a.group)


@story("S-011 S-028", server="streams")
def internal_topics_are_created_after_the_answer(k: Stage) -> None:
    """The join is answered with nothing and status 3; then the topics are there, and the tasks with them."""
    a = grown(k, word_count(k, k.topic(partitions=3)), 6, "again", "log")
    describe_streams(k, a.group)


@story("S-011", server="streams")
def the_configs_of_internal_topics(k: Stage) -> None:
    """The topology's are set on the topics that the broker creates."""
    log = internal(k.name("log"), cleanup_policy="compact", segment_bytes="2000000")
    again = internal(k.name("again"), 2, cleanup_policy="delete", retention_ms="-1")
    grown(
        k,
        topology(part("0", [k.topic()], sinks=[k.name("again")]), part("1", repartitions=[again], changelogs=[log])),
        3,
        "again",
        "log",
    )
    describe_configs(k, TOPIC, k.name("log"), "cleanup.policy", "segment.bytes")
    describe_configs(k, TOPIC, k.name("again"), "cleanup.policy", "retention.ms")


@story("S-011", server="streams")
def the_replication_of_internal_topics(k: Stage) -> None:
    """One is as good as the default."""
    grown(k, topology(part("0", [k.topic()], changelogs=[internal(k.name("log"), 0, 1)])), 1, "log")


@story("S-011", server="streams")
def more_replicas_of_an_internal_topic_than_brokers(k: Stage) -> None:
    """Three brokers are not there, so the creation fails."""
    join(k, topology(part("0", [k.topic()], changelogs=[internal(k.name("log"), 0, 3)])))
    k.pause(500)
    sizes(k, "log")


@story("S-011 S-012", server="streams")
def an_internal_topic_that_cannot_be_created(k: Stage) -> None:
    """Its config is no config: status 3 stays, and the good topic beside it is created."""
    bad, good = internal(k.name("bad"), cleanup_policy="nothing"), internal(k.name("good"))
    a = join(k, topology(part("0", [k.topic()], changelogs=[bad, good])))
    k.pause(500)
    a.beat()
    k.pause(500)
    a.beat()
    sizes(k, "bad", "good")
    describe_streams(k, a.group)


@story("S-028", server="streams")
def sizes_come_from_the_largest_source(k: Stage) -> None:
    """Repartition and changelog topics of a subtopology of two sources of two sizes."""
    one, two, again = k.topic("one", 2), k.topic("two", 4), k.name("again")
    grown(
        k,
        topology(
            part("0", [one, two], sinks=[again], changelogs=[internal(k.name("log0"))]),
            part("1", repartitions=[internal(again)], changelogs=[internal(k.name("log1"))]),
        ),
        8,
        "again",
        "log0",
        "log1",
    )


@story("S-028", server="streams")
def a_repartition_topic_may_name_its_size(k: Stage) -> None:
    """Five partitions, whatever the source has: the subtopology behind it has five tasks."""
    a = grown(
        k,
        topology(
            part("0", [k.topic()], sinks=[k.name("again")]),
            part("1", repartitions=[internal(k.name("again"), 5)], changelogs=[internal(k.name("log"))]),
        ),
        6,
        "again",
        "log",
    )
    describe_streams(k, a.group)


@story("S-028", server="streams")
def sizes_go_through_a_chain_of_repartitions(k: Stage) -> None:
    """Each is sized by what its writer reads, in whatever order the subtopologies come."""
    first, second = k.name("first"), k.name("second")
    grown(
        k,
        topology(
            part("2", repartitions=[internal(second)]),
            part("1", repartitions=[internal(first)], sinks=[second]),
            part("0", [k.topic(partitions=3)], sinks=[first]),
        ),
        9,
        "first",
        "second",
    )


@story("S-028 S-025", server="streams")
def sizes_that_cannot_be_found(k: Stage) -> None:
    """Two that wait for each other, and one that nobody writes."""
    topic = k.topic()
    ring = topology(
        part("0", repartitions=[internal(k.name("x"))], sinks=[k.name("y")]),
        part("1", repartitions=[internal(k.name("y"))], sinks=[k.name("x")]),
    )
    a = join(k, ring)
    a.line.call("streams_group_describe", 0, group_ids=[a.group])
    b = Streams(k, "b", k.name("g2"))
    b.join(topology(part("0", [topic], repartitions=[internal(k.name("z"))])))
    describe_streams(k, b.group)


@story("S-028", server="streams")
def a_sink_that_nobody_reads(k: Stage) -> None:
    """It is not created: only what a subtopology reads or keeps is."""
    a = join(k, topology(part("0", [k.topic(partitions=2)], sinks=[k.name("sink")])))
    k.pause(300)
    sizes(k, "sink")
    describe_streams(k, a.group)


@story("S-029", server="streams")
def sources_that_must_be_of_one_size(k: Stage) -> None:
    """Two of 2 and 3 partitions are not: status 2, and no task. When the smaller one grows they are."""
    one, two = k.topic("one", 2), k.topic("two", 3)
    a = join(k, topology(part("0", [one, two], copartitions=[copartitioned([0, 1])])))
    a.beat()
    describe_streams(k, a.group)
    k.grow_topic(one, 3)
    a.beat_until_told(3)


@story("S-029 S-028", server="streams")
def a_repartition_takes_the_size_of_its_copartition(k: Stage) -> None:
    """It would have two partitions by its writer, and has the four of the topic that it is joined with."""
    again = k.name("again")
    grown(
        k,
        topology(
            part("0", [k.topic("small", 2)], sinks=[again]),
            part("1", [k.topic("large", 4)], repartitions=[internal(again)], copartitions=[copartitioned([0], [0])]),
        ),
        6,
        "again",
    )


@story("S-029 S-028", server="streams")
def a_size_of_its_own_that_does_not_fit(k: Stage) -> None:
    """A repartition topic of three partitions beside a source of four: status 2."""
    again = k.name("again")
    a = join(
        k,
        topology(
            part("0", [k.topic("small", 2)], sinks=[again]),
            part("1", [k.topic("large", 4)], repartitions=[internal(again, 3)], copartitions=[copartitioned([0], [0])]),
        ),
    )
    describe_streams(k, a.group)
    sizes(k, "again")


@story("S-029 S-028", server="streams")
def repartitions_that_are_joined_with_each_other(k: Stage) -> None:
    """All of them have the largest size that any would have."""
    x, y = k.name("x"), k.name("y")
    grown(
        k,
        topology(
            part("0", [k.topic("one", 2)], sinks=[x]),
            part("1", [k.topic("two", 3)], sinks=[y]),
            part("2", repartitions=[internal(x), internal(y)], copartitions=[copartitioned([], [0, 1])]),
        ),
        8,
        "x",
        "y",
    )


@story("S-029 S-028", server="streams")
def a_repartition_of_fixed_size_among_others(k: Stage) -> None:
    """The one that names its size decides for all that it is joined with."""
    x, y = k.name("x"), k.name("y")
    grown(
        k,
        topology(
            part("0", [k.topic("one", 2)], sinks=[x]),
            part("1", [k.topic("two", 3)], sinks=[y]),
            part("2", repartitions=[internal(x, 5), internal(y)], copartitions=[copartitioned([], [0, 1])]),
        ),
        10,
        "x",
        "y",
    )


@story("S-029", server="streams")
def fixed_sizes_that_contradict_each_other(k: Stage) -> None:
    """Two repartition topics of a join name two sizes: status 2."""
    x, y = k.name("x"), k.name("y")
    join(
        k,
        topology(
            part("0", [k.topic("one", 2)], sinks=[x, y]),
            part("1", repartitions=[internal(x, 5), internal(y, 6)], copartitions=[copartitioned([], [0, 1])]),
        ),
    )


@story("S-029", server="streams")
def an_empty_copartition_group(k: Stage) -> None:
    """It asks for nothing."""
    join(k, topology(part("0", [k.topic("one", 2)], copartitions=[copartitioned()])))


@story("S-028 S-011", server="streams")
def internal_topics_that_are_there_already(k: Stage) -> None:
    """Of the right size they are taken as they are; of another they are status 2, and stay."""
    known = counts(k, k.topic(partitions=2))
    k.topic("log", 2)
    join(k, known)
    other = topology(part("0", [k.name("t")], changelogs=[internal(k.name("log2"))]))
    k.topic("log2", 3)
    b = Streams(k, "b", k.name("g2"))
    b.join(other)
    b.beat()
    describe_streams(k, b.group)


@story("S-012", server="streams")
def nothing_is_created_while_a_source_is_missing(k: Stage) -> None:
    """When it comes, the internal topics follow at the next heartbeat."""
    a = join(k, counts(k, k.name("t")))
    k.pause(300)
    sizes(k, "log")
    k.topic(partitions=2)
    a.beat()
    a.beat_until_told(2)
    sizes(k, "log")


@story("S-006", server="streams")
def a_topology_is_not_updated(k: Stage) -> None:
    """A later epoch, or another topology in the same one, is refused, of a member and of a newcomer."""
    known, a = sole_streams(k, 2)
    other = reads(k.topic("other"))
    b = Streams(k, "b")
    a.join({**known, "epoch": 1})
    b.join({**known, "epoch": 1})
    b.join(other)
    b.join({**other, "epoch": 7})
    a.beat()


@story("S-006 S-002", server="streams")
def a_topology_is_not_updated_when_the_group_is_empty(k: Stage) -> None:
    """Only deleting the group helps."""
    known, a = sole_streams(k, 2)
    a.leave()
    a.join({**known, "epoch": 1})
    k.line("admin").call("delete_groups", 2, groups_names=[a.group])
    a.join({**known, "epoch": 1})


@story("S-007", server="streams")
def an_earlier_topology_is_stale(k: Stage) -> None:
    """Whatever it says, the member is told so at each heartbeat, and gets its tasks."""
    known = reads(k.topic(partitions=2))
    a, b = Streams(k, "a"), Streams(k, "b")
    a.join({**known, "epoch": 3})
    b.join({**reads("nothing"), "epoch": 2})
    a.owns()
    a.owns()
    b.owns()
    b.beat()
    describe_streams(k, a.group)


@story("S-008", server="streams")
def the_order_of_a_topology(k: Stage) -> None:
    """Of its subtopologies any; of the topics of one only that of the first join."""
    one, two, three = k.topic("one"), k.topic("two"), k.topic("three")
    a = join(k, topology(part("0", [one, two]), part("1", [three])))
    a.join(topology(part("1", [three]), part("0", [one, two])))
    a.join(topology(part("0", [two, one]), part("1", [three])))


@story("S-008 S-006", server="streams")
def what_makes_another_topology(k: Stage) -> None:
    """A config, a size, a replication factor, a copartition group."""
    topic = k.topic()
    k.topic("log")

    def known(log: dict[str, Any], **more: Any) -> Topology:
        return topology(part("0", [topic], changelogs=[log], **more))

    a = join(k, known(internal(k.name("log"), cleanup_policy="compact")))
    a.join(known(internal(k.name("log"), cleanup_policy="delete")))
    a.join(known(internal(k.name("log"))))
    a.join(known(internal(k.name("log"), 0, 1, cleanup_policy="compact")))
    a.join(known(internal(k.name("log"), cleanup_policy="compact"), copartitions=[copartitioned([0])]))
    a.join(known(internal(k.name("log"), cleanup_policy="compact")))


@story("S-013", server="streams")
def a_source_that_vanishes_takes_all_tasks(k: Stage) -> None:
    """Also those of the subtopology that does not read it; when it is there again they come back."""
    one, two = k.topic("one"), k.topic("two", 2)
    a = join(k, topology(part("0", [one]), part("1", [two])))
    k.delete_topic(one)
    a.beat_until_status(MISSING)
    a.owns()
    describe_streams(k, a.group)
    k.topic("one", 2)
    a.beat_until_told(4)


@story("S-013", server="streams")
def a_source_that_grows_brings_tasks(k: Stage) -> None:
    """Without state there is nothing that would have to fit."""
    _known, a = sole_streams(k, 2)
    k.grow_topic(k.name("t"), 4)
    a.beat_until_told(4)
    describe_streams(k, a.group)


@story("S-013 S-028", server="streams")
def a_source_that_grows_beyond_its_changelog(k: Stage) -> None:
    """The changelog has too few partitions then: not ready, and all tasks are taken away."""
    k.topic("log", 2)
    a = join(k, counts(k, k.topic(partitions=2)))
    k.grow_topic(k.name("t"), 3)
    a.beat_until_status(WRONG_SIZE)
    a.owns()
    describe_streams(k, a.group)
    k.grow_topic(k.name("log"), 3)
    a.beat_until_told(3)


@story("S-013 S-011", server="streams")
def an_internal_topic_that_is_deleted_is_made_again(k: Stage) -> None:
    """The tasks go, and the member is told that the topic is missing; how soon it is there again is Kafka's affair."""
    a = grown(k, counts(k, k.topic(partitions=2)), 2, "log")
    k.delete_topic(k.name("log"))
    a.beat_until_told(0)
    describe_streams(k, a.group)
    for _ in range(40):
        k.pump.run(500)
        if k.line("a").quietly(a.API, 0, **a.identity()).status == []:
            break
    sizes(k, "log")


@story("S-013", server="streams")
def topics_that_a_group_does_not_name_change_nothing(k: Stage) -> None:
    """One that is created, one that grows."""
    _known, a = sole_streams(k, 2)
    k.grow_topic(k.topic("other"), 2)
    a.beat()
    describe_streams(k, a.group)


@story("S-029", server="streams")
def fixed_sizes_of_two_joins(k: Stage) -> None:
    """Two copartition groups, each of a repartition topic that names its size and one that does not."""
    one, two, three, four = (k.name(name) for name in ("one", "two", "three", "four"))
    join(
        k,
        topology(
            part("0", [k.topic()], sinks=[one, two, three, four]),
            part("1", repartitions=[internal(one, 2), internal(two)], copartitions=[copartitioned([], [0, 1])]),
            part("2", repartitions=[internal(three, 3), internal(four)], copartitions=[copartitioned([], [0, 1])]),
        ),
    )


@story("S-028", server="streams")
def a_topic_that_two_subtopologies_read(k: Stage) -> None:
    """Each has its own tasks for it."""
    topic = k.topic(partitions=2)
    a = join(k, topology(part("0", [topic]), part("1", [topic])))
    describe_streams(k, a.group)

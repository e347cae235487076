"""Reading offsets back: OffsetFetch."""

from typing import Any

from tests.conformance.actors import Member, members
from tests.conformance.requests import commit, fetch, fetch_until, part
from tests.conformance.scenes import complete_join, stable
from tests.conformance.stage import Stage
from tests.conformance.story import story


@story("O-207 O-208 O-206 Q-005")
def what_was_never_committed_is_minus_one(k: Stage) -> None:
    """An unknown group, an unknown topic, an unknown partition: offset -1 and no error anywhere."""
    topic, line = k.topic(), k.line("a")
    fetch(line, k.name("none"), topic, 0, 5)
    commit(line, k.name("g"), topic)
    fetch(line, k.name("g"), topic, 0, 5)
    fetch(line, k.name("g"), k.name("missing"))


@story("T-013 G-017 O-203")
def every_fetch_version_reads_the_offset(k: Stage) -> None:
    """Versions 1 to 7 ask for one group, 8 and 9 for several."""
    topic, line = k.topic(), k.line("a")
    commit(line, k.name("g"), topic, part(42, metadata="note", committed_leader_epoch=3))
    for version in range(1, 8):
        line.call("offset_fetch", version, group_id=k.name("g"), topics=[{"name": topic, "partition_indexes": [0, 1]}])
    for version in (8, 9):
        fetch(line, k.name("g"), topic, 0, 1, version=version)


@story("O-205 O-208")
def null_topics_mean_everything(k: Stage) -> None:
    """Null asks for all that the group has; an empty list asks for nothing; an unknown group has nothing."""
    first, second, line = k.topic("first"), k.topic("second", 3), k.line("a")
    commit(line, k.name("g"), first, part(1))
    commit(line, k.name("g"), second, part(2, 2))
    nothing: list[Any] = []
    for topics in (None, nothing):
        for version in (2, 7):
            line.call("offset_fetch", version, group_id=k.name("g"), topics=topics)
        line.call("offset_fetch", 8, groups=[{"group_id": k.name(name), "topics": topics} for name in ("g", "none")])


@story("O-200")
def several_groups_are_answered_in_the_order_asked(k: Stage) -> None:
    """Each with its own topics, also one that is asked twice and one that is not there."""
    topic, line = k.topic(), k.line("a")
    commit(line, k.name("g1"), topic, part(1))
    commit(line, k.name("g2"), topic, part(2))
    one = [{"name": topic, "partition_indexes": [0]}]
    groups = [{"group_id": k.name(name), "topics": one} for name in ("g2", "none", "g1", "g2")]
    line.call("offset_fetch", 9, groups=groups)
    line.call("offset_fetch", 8, groups=[])


@story("O-218")
def a_partition_asked_twice_is_answered_twice(k: Stage) -> None:
    """The list of partitions is answered as it was asked."""
    topic, line = k.topic(), k.line("a")
    commit(line, k.name("g"), topic, part(1))
    fetch(line, k.name("g"), topic, 0, 0)


@story("O-216 K-298")
def a_classic_group_does_not_look_at_the_member(k: Stage) -> None:
    """Any member id and epoch will do, in each state of the group."""
    topic = k.topic()
    a = Member(k, "a")
    commit(a.line, a.group, topic, part(1))
    fetch(a.line, a.group, topic, member_id="anybody", member_epoch=7)
    stable(a)
    fetch(a.line, a.group, topic, member_id="anybody", member_epoch=7)
    fetch(a.line, a.group, topic, member_id="anybody", member_epoch=-1)


@story("O-217")
def offsets_are_read_in_every_state(k: Stage) -> None:
    """Preparing, completing, stable, empty: the fetch needs no membership."""
    topic = k.topic()
    a, b = members(k, "ab")
    watch = k.line("watch")
    commit(watch, a.group, topic, part(3))
    complete_join(a, b)
    fetch(watch, a.group, topic)
    a.sync({a.member_id: b"all"})
    b.sync()
    fetch(watch, a.group, topic)
    a.ask_join()
    k.pause(150)
    fetch(watch, a.group, topic)


@story("K-305 V-005")
def a_topic_made_anew_has_no_offsets(k: Stage) -> None:
    """Deleting a topic takes the offsets with it; the topic of the same name starts without."""
    topic, line = k.topic(), k.line("a")
    commit(line, k.name("g"), topic, part(5))
    line.quietly("delete_topics", 6, topics=[{"name": topic}], timeout_ms=10_000)
    fetch_until(line, k.name("g"), lambda found: found.topics == [])
    k.await_topic(topic, lambda found: found.error_code == "UNKNOWN_TOPIC_OR_PARTITION")
    k.topic()
    fetch(line, k.name("g"), topic)
    line.call("describe_groups", 6, groups=[k.name("g")])


@story("K-303 V-005")
def version_10_lists_everything_by_id(k: Stage) -> None:
    """Null topics in version 10: all offsets, with topic ids in place of names."""
    topic, line = k.topic(), k.line("a")
    commit(line, k.name("g"), topic, part(5, metadata="note"))
    line.call("offset_fetch", 10, groups=[{"group_id": k.name("g"), "topics": None}])


@story("O-212 G-017")
def require_stable_changes_nothing_without_transactions(k: Stage) -> None:
    """From version 7 on it may be asked for; plain commits are stable."""
    topic, line = k.topic(), k.line("a")
    commit(line, k.name("g"), topic, part(5))
    line.call(
        "offset_fetch", 7, group_id=k.name("g"), topics=[{"name": topic, "partition_indexes": [0]}], require_stable=True
    )
    line.call("offset_fetch", 9, groups=[{"group_id": k.name("g"), "topics": None}], require_stable=True)

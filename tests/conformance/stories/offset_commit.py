"""Keeping offsets: OffsetCommit in each state of a classic group, and what it checks."""

from typing import Any

from tests.conformance.actors import Member, members, static_pair
from tests.conformance.requests import UNKNOWN_ID, commit, fetch, named_twice, part
from tests.conformance.scenes import complete_join, join_alone, joining_pair, pending_pair, stable
from tests.conformance.stage import Stage
from tests.conformance.story import story


@story("O-021 C-007 A-102 O-211")
def a_simple_consumer_commits_without_a_group(k: Stage) -> None:
    """A commit without generation makes an empty group, that is listed and described without a protocol type."""
    topic, line = k.topic(), k.line("a")
    commit(line, k.name("g"), topic, part(42, metadata="note"))
    fetch(line, k.name("g"), topic)
    line.call("list_groups", 5, mine="groups.group_id")
    line.call("describe_groups", 5, groups=[k.name("g")])


@story("O-021 O-025 O-029")
def without_generation_the_member_is_not_looked_at(k: Stage) -> None:
    """To an absent or empty group a commit with generation -1 is accepted, whatever member and instance it names."""
    topic, line = k.topic(), k.line("a")
    commit(line, k.name("g"), topic, member_id="anybody", group_instance_id="anything")
    commit(line, k.name("g"), topic, part(2), member_id="somebody else")


@story("O-022 Q-031 G-015")
def a_generation_in_a_group_that_is_not_there(k: Stage) -> None:
    """Version 9 says that the group is not there, older ones that the generation is wrong."""
    topic, line = k.topic(), k.line("a")
    for version in range(2, 10):
        commit(line, k.name("none"), topic, version=version, generation_id_or_member_epoch=0, member_id="somebody")


@story("O-029 T-012")
def commits_to_an_empty_group_that_had_members(k: Stage) -> None:
    """Without a generation it is open to all; with one the member is unknown."""
    topic = k.topic()
    a = join_alone(k, "a")
    a.leave()
    commit(a.line, a.group, topic)
    a.commit(topic)
    commit(a.line, a.group, topic, generation_id_or_member_epoch=2)


@story("O-026 O-027 O-029 Q-007 T-012")
def commits_to_a_stable_group(k: Stage) -> None:
    """Right, no identity, no generation, unknown member, wrong generations: each has its answer."""
    topic = k.topic()
    a = join_alone(k, "a")
    a.commit(topic, 7)
    commit(a.line, a.group, topic)
    commit(a.line, a.group, topic, member_id=a.member_id)
    commit(a.line, a.group, topic, generation_id_or_member_epoch=1, member_id="nobody")
    commit(a.line, a.group, topic, generation_id_or_member_epoch=1)
    for generation in (0, 2):
        a.commit(topic, generation_id_or_member_epoch=generation)
    fetch(a.line, a.group, topic)


@story("O-029 C-132 C-411 T-012")
def commits_with_instance_ids(k: Stage) -> None:
    """The instance must be known and must be this member's."""
    topic = k.topic()
    a, _b = stable(*static_pair(k))
    a.commit(topic)
    a.commit(topic, group_instance_id=None)
    a.commit(topic, group_instance_id="two")
    a.commit(topic, group_instance_id="three")
    commit(a.line, a.group, topic, group_instance_id="one")
    a.commit(topic, member_id="")


@story("O-029 O-051")
def commits_during_a_join_are_fine(k: Stage) -> None:
    """In PreparingRebalance the old generation may still commit, and the rebalance goes on undisturbed."""
    topic = k.topic()
    a, b, waiting = joining_pair(k)
    a.commit(topic)
    a.commit(topic, generation_id_or_member_epoch=2)
    commit(a.line, a.group, topic)
    a.rejoin((b, waiting))


@story("O-028 O-029 Q-003")
def commits_between_join_and_sync_are_refused(k: Stage) -> None:
    """In CompletingRebalance: REBALANCE_IN_PROGRESS for the right generation, ILLEGAL_GENERATION for another."""
    topic = k.topic()
    a, _b = complete_join(*members(k, "ab"))
    a.commit(topic)
    a.commit(topic, generation_id_or_member_epoch=1)
    commit(a.line, a.group, topic)


@story("O-031 C-252")
def a_named_member_that_has_not_joined_cannot_commit(k: Stage) -> None:
    """Its id is no member's yet."""
    topic = k.topic()
    _a, b = pending_pair(k)
    b.commit(topic, generation_id_or_member_epoch=1)


@story("O-003 O-004 O-007 O-032")
def unknown_topics_and_partitions_fail_alone(k: Stage) -> None:
    """What exists is committed; what does not gets UNKNOWN_TOPIC_OR_PARTITION in the same answer."""
    topic, line = k.topic(partitions=2), k.line("a")
    topics = [
        {"name": topic, "partitions": [part(1, 0), part(2, 1), part(3, 2), part(4, -1)]},
        {"name": k.name("missing"), "partitions": [part(5, 0)]},
    ]
    line.call("offset_commit", 8, group_id=k.name("g"), topics=topics)
    fetch(line, k.name("g"), topic, 0, 1, 2)


@story("O-005 Q-008")
def a_commit_of_nothing_valid_is_not_checked(k: Stage) -> None:
    """No valid partition: the member and generation are not looked at, and no group appears."""
    k.topic()
    line = k.line("a")
    commit(line, k.name("g"), k.name("missing"), generation_id_or_member_epoch=7, member_id="nobody")
    line.call("offset_commit", 9, group_id=k.name("g"), generation_id_or_member_epoch=7, topics=[])
    line.call("describe_groups", 6, groups=[k.name("g")])


@story("O-040 O-041 Q-026")
def metadata_may_be_4096_units_long(k: Stage) -> None:
    """Up to the limit it is kept, beyond it that partition is refused; the unit is UTF-16, and null reads back as empty."""
    topic, line = k.topic(partitions=5), k.line("a")
    texts = ["x" * 4096, "x" * 4097, None, "é" * 4096, "😀" * 2049]
    commit(line, k.name("g"), topic, *(part(n, n, text) for n, text in enumerate(texts)))
    answer = line.quietly(
        "offset_fetch",
        9,
        groups=[{"group_id": k.name("g"), "topics": [{"name": topic, "partition_indexes": list(range(5))}]}],
    )
    found = {
        one.partition_index: (one.committed_offset, len(one.metadata)) for one in answer.groups[0].topics[0].partitions
    }
    assert found == {0: (0, 4096), 1: (-1, 0), 2: (2, 0), 3: (3, 4096), 4: (-1, 0)}, found


@story("O-042 O-049 O-043")
def any_number_is_an_offset(k: Stage) -> None:
    """Forwards, backwards, negative: the last commit counts. A leader epoch is kept, -1 is none."""
    topic, line = k.topic(), k.line("a")
    for offset, epoch in ((100, 5), (3, 0), (-1, -1), (-7, 2), (2**62, -1)):
        commit(line, k.name("g"), topic, part(offset, committed_leader_epoch=epoch))
        fetch(line, k.name("g"), topic)


@story("O-046")
def one_partition_twice_in_a_request(k: Stage) -> None:
    """Both get an answer and the later one wins."""
    topic, line = k.topic(), k.line("a")
    commit(line, k.name("g"), topic, part(1), part(2))
    fetch(line, k.name("g"), topic)


@story("O-046")
def topics_that_are_named_twice_or_with_no_partition(k: Stage) -> None:
    """The broker joins the entries of a topic only where it has refused some; a topic without partitions is not answered."""
    line = k.line("a")
    for topics in named_twice(k.topic(), k.name("missing")):
        for generation, member in ((-1, ""), (1, "nobody")):
            known = {"member_id": member, "generation_id_or_member_epoch": generation}
            line.call("offset_commit", 9, group_id=k.name("g"), topics=topics, **known)


@story("G-015 O-043 O-211")
def every_commit_version_keeps_an_offset(k: Stage) -> None:
    """Versions 2 to 9 commit, and version 9 of OffsetFetch reads what each has kept."""
    topic, line = k.topic(), k.line("a")
    for version in range(2, 10):
        epoch = {"committed_leader_epoch": version} if version >= 6 else {}
        commit(line, k.name("g"), topic, part(version, metadata=f"v{version}", **epoch), version=version)
        fetch(line, k.name("g"), topic)


@story("V-005 K-290 K-305")
def version_10_commits_by_topic_id(k: Stage) -> None:
    """A known id is committed, an unknown id and the zero id are not, an unknown partition of a known id is told apart."""
    topic, line = k.topic(), k.line("a")
    topics: list[dict[str, Any]] = [
        {"topic_id": k.topic_id(topic), "partitions": [part(9, 0), part(9, 7)]},
        {"topic_id": UNKNOWN_ID, "partitions": [part(9, 0)]},
        {"topic_id": None, "partitions": [part(9, 0)]},
    ]
    line.call("offset_commit", 10, group_id=k.name("g"), topics=topics)
    wanted = [{"topic_id": one["topic_id"], "partition_indexes": [0, 7]} for one in topics]
    line.call("offset_fetch", 10, groups=[{"group_id": k.name("g"), "topics": wanted}])


@story("O-022 V-005")
def version_10_knows_missing_groups_as_version_9_does(k: Stage) -> None:
    """A generation in a group that is not there: GROUP_ID_NOT_FOUND."""
    topic = k.topic()
    topics = [{"topic_id": k.topic_id(topic), "partitions": [part()]}]
    k.line("a").call(
        "offset_commit", 10, group_id=k.name("none"), generation_id_or_member_epoch=1, member_id="x", topics=topics
    )


@story("G-045 G-032")
def the_empty_group_id_may_commit(k: Stage) -> None:
    """OffsetCommit and OffsetFetch take the empty id for a name like any other; it still has no members."""
    topic, line = k.topic(), k.line("a")
    commit(line, "", topic, part(5))
    fetch(line, "", topic)
    line.call("heartbeat", 4, group_id="", generation_id=0, member_id="somebody")
    line.call("leave_group", 5, group_id="", members=[{"member_id": "somebody"}])


@story("O-050 C-117 Q-006")
def a_member_goes_on_from_what_was_committed(k: Stage) -> None:
    """Offsets committed without membership are there for the group that forms later, and outlive its members."""
    topic = k.topic()
    a = Member(k, "a")
    commit(a.line, a.group, topic, part(11))
    stable(a)
    fetch(a.line, a.group, topic)
    a.commit(topic, 12)
    a.leave()
    fetch(a.line, a.group, topic)


@story("O-001")
def a_commit_to_many_topics_names_each_once(k: Stage) -> None:
    """Several topics in one request come back with each of their partitions."""
    topics, line = [k.topic(name, partitions=2) for name in ("red", "green", "blue")], k.line("a")
    commits = [{"name": name, "partitions": [part(n, 0), part(n, 1)]} for n, name in enumerate(topics)]
    line.call("offset_commit", 9, group_id=k.name("g"), topics=commits)
    line.call("offset_fetch", 9, groups=[{"group_id": k.name("g"), "topics": None}])

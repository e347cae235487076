"""What operators see of consumer groups: ConsumerGroupDescribe, and the older APIs on them."""

from tests.conformance.actors import Member, Modern
from tests.conformance.requests import commit, describe, fetch_until, part
from tests.conformance.scenes import join_consumer, sole_consumer, stable
from tests.conformance.stage import Stage
from tests.conformance.story import story


@story("K-311 K-316 K-318 K-320")
def both_versions_describe_a_group(k: Stage) -> None:
    """Version 1 adds the type of each member; operations are told when asked for."""
    _topic, a = sole_consumer(k, 2, instance="one", rack_id="rack 7", server_assignor="range")
    for version in (0, 1):
        for asked in (False, True):
            k.line("watch").call(
                "consumer_group_describe", version, group_ids=[a.group], include_authorized_operations=asked
            )


@story("K-312 K-313")
def groups_that_are_no_consumer_groups(k: Stage) -> None:
    """Missing, classic, simple and nameless: each has its error."""
    topic = k.topic()
    stable(Member(k, "a", k.name("classic")))
    commit(k.line("a"), k.name("simple"), topic)
    names = [k.name("none"), k.name("classic"), k.name("simple"), ""]
    for version in (0, 1):
        k.line("watch").call("consumer_group_describe", version, group_ids=names)
    k.line("watch").call("consumer_group_describe", 1, group_ids=[])


@story("K-182 K-184 K-185 K-317")
def a_consumer_group_is_described_in_each_state(k: Stage) -> None:
    """Stable, reconciling (with what is to be revoked still shown), assigning, empty."""
    topic, a = sole_consumer(k, 2)
    describe(k, a.group)
    b = join_consumer(k, "b", topic)
    describe(k, a.group)
    a.beat()
    describe(k, a.group)
    b.leave()
    describe(k, a.group)
    a.leave()
    describe(k, a.group)


@story("K-321")
def several_consumer_groups_are_described_at_once(k: Stage) -> None:
    """Each once for each time it was asked for."""
    topic = k.topic()
    Modern(k, "a", k.name("g1")).join(topic)
    Modern(k, "b", k.name("g2")).join(topic)
    k.line("watch").call("consumer_group_describe", 1, group_ids=[k.name("g1"), k.name("g2"), k.name("none")])


@story("K-316 K-310")
def what_was_deleted_is_not_described(k: Stage) -> None:
    """A topic that is gone is left out of the assignments, though the member has not beaten since."""
    stays, goes = k.topic("stays"), k.topic("goes")
    a = join_consumer(k, "a", stays, goes)
    k.delete_topic(goes)
    k.pause(300)
    describe(k, a.group)


@story("K-328 A-301")
def only_an_empty_consumer_group_is_deleted(k: Stage) -> None:
    """With a member it is not; after it has left it is; and then it is not there."""
    a = join_consumer(k, "a", k.topic())
    admin = k.line("admin")
    admin.call("delete_groups", 2, groups_names=[a.group])
    a.leave()
    admin.call("delete_groups", 2, groups_names=[a.group])
    describe(k, a.group)
    admin.call("delete_groups", 2, groups_names=[a.group])
    a.beat()


@story("K-031 K-328")
def a_deleted_consumer_group_starts_again_at_the_first_epoch(k: Stage) -> None:
    """Nothing is left of the old epochs, nor of the offsets."""
    topic, a = sole_consumer(k)
    a.leave()
    commit(k.line("x"), a.group, topic)
    k.line("admin").call("delete_groups", 2, groups_names=[a.group])
    a.join(topic)
    k.line("watch").call("offset_fetch", 8, groups=[{"group_id": a.group, "topics": None}])


@story("K-322 K-324 K-182")
def consumer_groups_are_listed_with_their_state(k: Stage) -> None:
    """Stable, reconciling and empty; filters know the new states."""
    topic = k.topic(partitions=2)
    a, b, c = (
        Modern(k, "a", k.name("stable")),
        Modern(k, "b", k.name("reconciling")),
        Modern(k, "c", k.name("reconciling")),
    )
    a.join(topic)
    b.join(topic)
    c.join(topic)
    d = join_consumer(k, "d", topic, group=k.name("empty"))
    d.leave()
    for states in ([], ["reconciling"], ["STABLE", "empty"], ["Assigning"]):
        k.line("watch").call("list_groups", 5, mine="groups.group_id", states_filter=states)


@story("K-309 O-407", server="expiry")
def an_empty_consumer_group_without_offsets_goes(k: Stage) -> None:
    """The next cleanup after the last member has left takes it away."""
    a = join_consumer(k, "a", k.topic())
    a.leave()
    k.line("watch").eventually(
        "consumer_group_describe",
        1,
        lambda answer: bool(answer.groups[0].error_code == "GROUP_ID_NOT_FOUND"),
        group_ids=[a.group],
    )
    a.join(k.name("t"))


@story("K-308 O-401", server="expiry")
def offsets_of_topics_that_nobody_reads_expire(k: Stage) -> None:
    """An explicit retention counts for the topic that no member reads, and not for the other."""
    mine, other = k.topic("mine"), k.topic("other")
    for topic in (mine, other):
        commit(k.line("x"), k.name("g"), topic, part(5), version=4, retention_time_ms=500)
    a = join_consumer(k, "a", mine)
    fetch_until(k.line("watch"), a.group, lambda found: len(found.topics) < 2)

"""Offsets of consumer groups: commits and fetches with member epochs."""

from typing import Any

from tests.conformance.actors import Modern
from tests.conformance.requests import UNKNOWN_ID, commit, delete, fetch, part
from tests.conformance.scenes import begin_producer, consumer_pair, hand_over, join_consumer, sole_consumer
from tests.conformance.stage import Answer, Stage
from tests.conformance.story import story


def commits(
    a: Modern, topic: str, *parts: dict[str, Any], epoch: int | None = None, version: int = 9, **values: Any
) -> Answer:
    """Commit as this member, at its epoch unless told."""
    at = a.epoch if epoch is None else epoch
    return commit(
        a.line,
        a.group,
        topic,
        *parts,
        version=version,
        **{"member_id": a.member_id, "generation_id_or_member_epoch": at, **values},
    )


@story("K-279 K-280 K-281 K-277 T-20")
def the_epoch_of_a_commit_must_be_the_members(k: Stage) -> None:
    """The right one is accepted, a newer or too old one is stale, a stranger is unknown."""
    topic, a = sole_consumer(k)
    commits(a, topic, part(5))
    commits(a, topic, epoch=a.epoch + 1)
    commits(a, topic, epoch=a.epoch - 1)
    commits(a, topic, epoch=-1)
    commits(a, topic, member_id="nobody")
    fetch(a.line, a.group, topic)


@story("K-277 K-276 T-20")
def without_membership_only_an_empty_group_takes_commits(k: Stage) -> None:
    """With members in it the group refuses; when they have left it accepts, whatever the member id."""
    topic, a = sole_consumer(k)
    commit(k.line("x"), a.group, topic)
    a.leave()
    commit(k.line("x"), a.group, topic)
    commit(k.line("x"), a.group, topic, member_id="anybody")
    commit(k.line("x"), a.group, topic, member_id="anybody", generation_id_or_member_epoch=3)


@story("K-278 T-20")
def old_versions_cannot_commit_for_a_new_member(k: Stage) -> None:
    """Before version 9 a client would not understand the errors: UNSUPPORTED_VERSION."""
    topic, a = sole_consumer(k)
    for version in (2, 5, 8, 9):
        commits(a, topic, version=version)


@story("K-282 T-20")
def an_older_epoch_may_commit_what_it_already_had(k: Stage) -> None:
    """A is one epoch on; partitions it has kept since may still be committed with the old one, others not, and one bad spoils all."""
    topic, a = sole_consumer(k, 4)
    old = a.epoch
    b = join_consumer(k, "b", topic)
    hand_over(a, b)
    kept = a.owned[0]["partitions"]
    lost = (
        b.beat(topic_partitions=[], subscribed_topic_names=[topic], rebalance_timeout_ms=30_000)
        .assignment.topic_partitions[0]
        .partitions
    )
    commits(a, topic, part(1, kept[0]), epoch=old)
    commits(a, topic, part(1, lost[0]), epoch=old)
    commits(a, topic, part(1, kept[0]), part(1, lost[0]), epoch=old)
    commits(a, topic, part(1, lost[0]))
    commits(b, topic, part(1, lost[0]), epoch=old)


@story("K-282 K-317")
def what_is_being_revoked_may_still_be_committed(k: Stage) -> None:
    """While A has not acknowledged, it commits all its old partitions at its epoch."""
    topic, a, _b = consumer_pair(k, 4)
    a.beat()
    commits(a, topic, *(part(1, index) for index in range(4)))


@story("K-285")
def the_instance_is_not_looked_at_in_commits(k: Stage) -> None:
    """Any instance id will do with the right member id and epoch."""
    topic, a = sole_consumer(k, instance="one")
    commits(a, topic, group_instance_id="another")
    commits(a, topic, group_instance_id=None)


@story("K-286")
def a_member_that_left_for_a_while_cannot_commit(k: Stage) -> None:
    """Its epoch is -2, so any epoch is too new."""
    topic, a = sole_consumer(k, instance="one")
    a.leave(-2)
    commits(a, topic)
    commits(a, topic, epoch=-1)


@story("K-292 K-168")
def a_commit_does_not_keep_a_member_of_the_new_protocol_alive(k: Stage) -> None:
    """Only heartbeats do."""
    topic = k.topic()
    k.group_config(k.name("g"), consumer_session_timeout_ms=1600, consumer_heartbeat_interval_ms=100)
    a = join_consumer(k, "a", topic)
    k.pause(800)
    commits(a, topic)
    k.pause(1000)
    a.beat()


@story("K-289 K-290 K-291")
def partitions_of_a_commit_fail_alone(k: Stage) -> None:
    """Unknown topics and partitions, metadata too long: each for itself."""
    topic, a = sole_consumer(k)
    commits(a, topic, part(1), part(1, 9))
    commits(a, k.name("missing"), epoch=99)
    commits(a, topic, part(1, 0, "x" * 4097))
    topics = [
        {"topic_id": k.topic_id(topic), "partitions": [part(3)]},
        {"topic_id": UNKNOWN_ID, "partitions": [part(3)]},
    ]
    commits(a, topic, version=10, topics=topics)


@story("K-298 K-299 K-300")
def a_fetch_may_name_its_member(k: Stage) -> None:
    """If it does, member and epoch must be right; no relaxation for older epochs here."""
    topic, a = sole_consumer(k)
    commits(a, topic, part(5))
    for member, epoch in (
        (a.member_id, a.epoch),
        (a.member_id, a.epoch + 1),
        (a.member_id, a.epoch - 1),
        (a.member_id, -1),
        ("nobody", a.epoch),
        (None, -1),
        ("", -1),
    ):
        fetch(a.line, a.group, topic, member_id=member, member_epoch=epoch)
    a.line.call("offset_fetch", 8, groups=[{"group_id": a.group, "topics": None}])


@story("K-299")
def a_fetch_with_an_epoch_but_no_member(k: Stage) -> None:
    """The server does not know what to make of it."""
    topic, a = sole_consumer(k)
    fetch(a.line, a.group, topic, member_id=None, member_epoch=a.epoch)


@story("K-294 K-295 K-296 K-297 K-282")
def transactional_commits_with_member_epochs(k: Stage) -> None:
    """No identity is accepted, a wrong epoch is an illegal generation, a stranger is unknown."""
    topic, a = sole_consumer(k)
    p = begin_producer(k)
    p.add_offsets(a.group)
    p.commit_offsets(a.group, topic)
    for version in (3, 4, 5):
        p.commit_offsets(a.group, topic, version=version, member_id=a.member_id, generation_id=a.epoch)
        p.commit_offsets(a.group, topic, version=version, member_id=a.member_id, generation_id=a.epoch + 1)
        p.commit_offsets(a.group, topic, version=version, member_id=a.member_id, generation_id=a.epoch - 1)
    p.commit_offsets(a.group, topic, member_id="nobody", generation_id=a.epoch)


@story("K-304 K-303")
def a_stable_fetch_of_a_consumer_group(k: Stage) -> None:
    """A pending offset is unstable for it as for any group, by name and by topic id."""
    topic, a = sole_consumer(k)
    p = begin_producer(k)
    p.add_offsets(a.group)
    p.commit_offsets(a.group, topic, member_id=a.member_id, generation_id=a.epoch)
    me = {"group_id": a.group, "member_id": a.member_id, "member_epoch": a.epoch}
    for version, name in ((9, {"name": topic}), (10, {"topic_id": k.topic_id(topic)})):
        groups = [{**me, "topics": [{**name, "partition_indexes": [0]}]}]
        a.line.call("offset_fetch", version, groups=groups, require_stable=True)


@story("K-307 T-18")
def topics_that_members_read_keep_their_offsets(k: Stage) -> None:
    """OffsetDelete works on a living consumer group, but not for what it reads."""
    mine, other = k.topic("mine"), k.topic("other")
    a = join_consumer(k, "a", mine)
    commits(a, mine)
    commits(a, other)
    for topic in (mine, other, k.name("missing")):
        delete(k.line("admin"), a.group, topic)
    fetch(a.line, a.group, other)

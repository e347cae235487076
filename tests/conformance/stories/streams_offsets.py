"""Offsets of streams groups: commits and fetches with member epochs, transactions, OffsetDelete."""

from typing import Any

from tests.conformance.actors import Streams
from tests.conformance.requests import commit, delete, fetch, part
from tests.conformance.scenes import begin_producer, settle, sole_streams, stateful_streams, streams_pair
from tests.conformance.stage import Answer, Stage
from tests.conformance.story import story
from tests.conformance.topologies import word_count


def commits(
    a: Streams, topic: str, *parts: dict[str, Any], epoch: int | None = None, version: int = 9, **values: Any
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


@story("S-021", server="streams")
def the_epoch_of_a_streams_commit(k: Stage) -> None:
    """The right one is accepted; a newer one, one before the first, none, and a stranger are not."""
    _known, a = sole_streams(k)
    topic = k.name("t")
    commits(a, topic, part(5))
    commits(a, topic, epoch=a.epoch + 1)
    commits(a, topic, epoch=a.epoch - 1)
    commits(a, topic, epoch=-1)
    commits(a, topic, member_id="nobody")
    commits(a, topic, member_id="")
    fetch(a.line, a.group, topic)


@story("S-021", server="streams")
def an_empty_streams_group_takes_commits_of_anybody(k: Stage) -> None:
    """Without an epoch. With members in it the group refuses."""
    _known, a = sole_streams(k)
    topic = k.name("t")
    commit(k.line("x"), a.group, topic)
    a.leave()
    commit(k.line("x"), a.group, topic)
    commit(k.line("x"), a.group, topic, member_id="anybody")
    commit(k.line("x"), a.group, topic, member_id="anybody", generation_id_or_member_epoch=3)
    fetch(a.line, a.group, topic)


@story("S-021", server="streams")
def old_versions_cannot_commit_for_a_streams_member(k: Stage) -> None:
    """Before version 9: UNSUPPORTED_VERSION."""
    _known, a = sole_streams(k)
    for version in (2, 5, 8, 9, 10):
        named = {"topics": [{"topic_id": k.topic_id(k.name("t")), "partitions": [part(3)]}]} if version == 10 else {}
        commits(a, k.name("t"), version=version, **named)


@story("S-021", server="streams")
def an_older_epoch_may_commit_tasks_that_it_already_had(k: Stage) -> None:
    """A is one epoch on; what it has kept may be committed with the old one, other tasks not; one bad spoils all."""
    _known, a, b = streams_pair(k, 4)
    old, topic = a.epoch, k.name("t")
    settle((a, b), 2)
    kept = a.owned["active_tasks"][0].partitions
    lost = b.owned["active_tasks"][0].partitions
    commits(a, topic, part(1, kept[0]), epoch=old)
    commits(a, topic, part(1, lost[0]), epoch=old)
    commits(a, topic, part(1, kept[0]), part(1, lost[0]), epoch=old)
    commits(a, topic, part(1, lost[0]))
    commits(b, topic, part(1, lost[0]), epoch=old)
    commits(a, topic, part(1, kept[0]), epoch=old - 1)


@story("S-021 S-016", server="streams")
def tasks_that_are_given_up_may_still_be_committed(k: Stage) -> None:
    """While A has not acknowledged, it commits all its old partitions at its epoch, and an older one."""
    _known, a, _b = streams_pair(k, 4)
    a.beat()
    commits(a, k.name("t"), *(part(1, index) for index in range(4)))
    a.owns()
    commits(a, k.name("t"), *(part(1, index) for index in range(4)))


@story("S-021", server="streams")
def topics_outside_of_the_topology(k: Stage) -> None:
    """Fine at the exact epoch, stale at an older one, even where a partition has its number."""
    _known, a, b = streams_pair(k, 4)
    old, other = a.epoch, k.topic("other", 4)
    settle((a, b), 2)
    commits(a, other, part(1, a.owned["active_tasks"][0].partitions[0]))
    commits(a, other, part(1, a.owned["active_tasks"][0].partitions[0]), epoch=old)
    commits(a, k.name("missing"), epoch=old)


@story("S-021 S-017", server="streams")
def standbys_commit_nothing_at_an_older_epoch(k: Stage) -> None:
    """Only active tasks count there."""
    _known, (a, b) = stateful_streams(k, "ab", 2, standbys=1)
    old = a.epoch
    a.beat(rack_id="r")
    settle((a, b), 2)
    commits(a, k.name("t"), part(1, a.owned["active_tasks"][0].partitions[0]), epoch=old)
    commits(a, k.name("t"), part(1, a.owned["standby_tasks"][0].partitions[0]), epoch=old)
    commits(a, k.name("log"), part(1, a.owned["active_tasks"][0].partitions[0]), epoch=old)


@story("S-021 S-032", server="streams")
def a_commit_keeps_no_streams_member_alive(k: Stage) -> None:
    """Only heartbeats do."""
    k.group_config(k.name("g"), streams_session_timeout_ms=1600, streams_heartbeat_interval_ms=100)
    _known, a = sole_streams(k)
    k.pause(800)
    commits(a, k.name("t"))
    k.pause(1000)
    a.beat()


@story("S-021", server="streams")
def partitions_of_a_streams_commit_fail_alone(k: Stage) -> None:
    """Unknown topics and partitions, metadata too long: each for itself."""
    _known, a = sole_streams(k)
    commits(a, k.name("t"), part(1), part(1, 9))
    commits(a, k.name("missing"), epoch=99)
    commits(a, k.name("t"), part(1, 0, "x" * 4097))


@story("S-021", server="streams")
def a_fetch_of_a_streams_group_may_name_its_member(k: Stage) -> None:
    """If it does, member and epoch must be right."""
    _known, a = sole_streams(k)
    topic = k.name("t")
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
    fetch(a.line, a.group, topic, member_id=None, member_epoch=a.epoch)


@story("S-021", server="streams")
def transactional_commits_with_streams_epochs(k: Stage) -> None:
    """No identity is accepted, a wrong epoch is an illegal generation, a stranger is unknown."""
    _known, a = sole_streams(k)
    topic = k.name("t")
    p = begin_producer(k)
    p.add_offsets(a.group)
    p.commit_offsets(a.group, topic)
    for version in (3, 4, 5):
        p.commit_offsets(a.group, topic, version=version, member_id=a.member_id, generation_id=a.epoch)
        p.commit_offsets(a.group, topic, version=version, member_id=a.member_id, generation_id=a.epoch + 1)
        p.commit_offsets(a.group, topic, version=version, member_id=a.member_id, generation_id=a.epoch - 1)
    p.commit_offsets(a.group, topic, member_id="nobody", generation_id=a.epoch)
    p.commit_offsets(a.group, topic, part(7), member_id=a.member_id, generation_id=a.epoch)
    p.end(True)
    k.pause(300)
    fetch(a.line, a.group, topic)


@story("S-021", server="streams")
def transactional_commits_of_an_older_epoch(k: Stage) -> None:
    """Fine for tasks that the member has had since, as in plain commits."""
    _known, a, b = streams_pair(k, 4)
    old, topic = a.epoch, k.name("t")
    settle((a, b), 2)
    kept = a.owned["active_tasks"][0].partitions
    lost = b.owned["active_tasks"][0].partitions
    p = begin_producer(k)
    p.add_offsets(a.group)
    p.commit_offsets(a.group, topic, part(1, kept[0]), member_id=a.member_id, generation_id=old)
    p.commit_offsets(a.group, topic, part(1, lost[0]), member_id=a.member_id, generation_id=old)
    p.end(False)


@story("S-022", server="streams")
def offsets_of_sources_of_a_living_streams_group(k: Stage) -> None:
    """Sources and repartition topics keep their offsets; others, changelogs among them, may be deleted."""
    known = word_count(k, k.topic())
    k.topic("again")
    k.topic("log")
    other = k.topic("other")
    a = Streams(k, "a")
    a.join(known)
    for topic in ("t", "again", "log", "other"):
        commits(a, k.name(topic))
    for topic in ("t", "again", "log", "other", "missing"):
        delete(k.line("admin"), a.group, k.name(topic))
    a.leave()
    delete(k.line("admin"), a.group, k.name("t"))
    fetch(a.line, a.group, other)


@story("S-022", server="streams")
def offsets_of_a_streams_group_that_is_not_ready(k: Stage) -> None:
    """Its topology counts as it was sent, ready or not."""
    known = word_count(k, k.name("missing"))
    k.topic("again")
    a = Streams(k, "a")
    a.join(known)
    commits(a, k.name("again"))
    delete(k.line("admin"), a.group, k.name("again"))

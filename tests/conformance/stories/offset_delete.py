"""Taking offsets away: OffsetDelete, and what time takes away."""

from typing import Any

from tests.conformance.actors import Member, subscription
from tests.conformance.requests import commit, delete, fetch, fetch_until, part
from tests.conformance.scenes import join_alone, stable
from tests.conformance.stage import Stage
from tests.conformance.story import story


def reading(topic: str) -> list[dict[str, Any]]:
    return [{"name": "range", "metadata": subscription(topic)}]


@story("O-305 O-306 O-304")
def an_offset_is_deleted_and_reads_minus_one(k: Stage) -> None:
    """A partition without an offset is no error either."""
    topic, line = k.topic(partitions=2), k.line("a")
    commit(line, k.name("g"), topic, part(1, 0), part(2, 1))
    delete(line, k.name("g"), topic, 0)
    fetch(line, k.name("g"), topic, 0, 1)
    delete(line, k.name("g"), topic, 0, 1)


@story("O-303 O-302 G-045")
def there_must_be_a_group_to_delete_from(k: Stage) -> None:
    """A missing group and the empty id are errors at the top, without any partition."""
    topic, line = k.topic(), k.line("a")
    delete(line, k.name("none"), topic)
    delete(line, "", topic)


@story("O-301 O-302")
def unknown_topics_fail_alone(k: Stage) -> None:
    """A topic or partition that does not exist gets its own error, in a group that does."""
    topic, line = k.topic(), k.line("a")
    commit(line, k.name("g"), topic)
    delete(line, k.name("g"), topic, 0, 9)
    delete(line, k.name("g"), k.name("missing"))
    delete(line, k.name("none"), k.name("missing"))


@story("O-304 O-307 T-018")
def subscribed_topics_keep_their_offsets(k: Stage) -> None:
    """While a member reads the topic it is refused; another topic of the same group is not."""
    mine, other = k.topic("mine"), k.topic("other")
    a = join_alone(k, "a", protocols=reading(mine))
    a.commit(mine)
    a.commit(other)
    delete(a.line, a.group, mine)
    delete(a.line, a.group, other)
    a.leave()
    delete(a.line, a.group, mine)


@story("O-307 Q-028")
def an_unreadable_subscription_counts_as_all_topics(k: Stage) -> None:
    """The coordinator cannot know what the member reads, so nothing may be deleted."""
    topic = k.topic()
    a = join_alone(k, "a", protocols=[{"name": "range", "metadata": b"\x00"}])
    a.commit(topic)
    delete(a.line, a.group, topic)


@story("O-303 Q-029")
def another_kind_of_group_must_be_empty(k: Stage) -> None:
    """A group that is not of consumers refuses as a whole while it has members."""
    topic = k.topic()
    a = join_alone(k, "a", protocol_type="connect", protocols=[{"name": "compatible", "metadata": b"m"}])
    a.commit(topic)
    delete(a.line, a.group, topic)
    a.leave()
    delete(a.line, a.group, topic)


@story("O-307 O-304")
def while_the_group_joins_the_subscription_of_before_counts(k: Stage) -> None:
    """In PreparingRebalance a topic of the last generation is still subscribed."""
    topic = k.topic()
    a, b = Member(k, "a", protocols=reading(topic)), Member(k, "b", protocols=reading(topic))
    stable(a)
    b.introduce()
    b.ask_join()
    k.pause(150)
    delete(k.line("admin"), a.group, topic)


@story("O-400 O-407 Q-041 Q-025", server="expiry")
def a_group_without_offsets_goes_at_the_next_pass(k: Stage) -> None:
    """A first join that failed leaves an empty group behind, which the next cleanup takes away."""
    line = k.line("a")
    Member(k, "a", protocols=[]).ask_join().answer()
    line.await_group(k.name("g"), "GROUP_ID_NOT_FOUND", version=6)


@story("O-408 Q-024", server="expiry")
def a_group_of_named_members_only_goes_too(k: Stage) -> None:
    """Its member was named but has not joined when the cleanup comes: the id is unknown then."""
    a = Member(k, "a")
    a.introduce()
    k.pause(150)
    a.line.await_group(k.name("g"), "GROUP_ID_NOT_FOUND", version=6)
    a.ask_join().answer()


@story("O-308 O-407", server="expiry")
def deleting_the_last_offset_lets_the_group_go(k: Stage) -> None:
    """The group is still there after the delete, and gone after the next cleanup."""
    topic, line = k.topic(), k.line("a")
    commit(line, k.name("g"), topic)
    delete(line, k.name("g"), topic)
    line.await_group(k.name("g"), "GROUP_ID_NOT_FOUND", version=6)


@story("O-045 O-401 O-406 O-407 Q-040", server="expiry")
def a_commit_with_its_own_retention_expires_by_it(k: Stage) -> None:
    """Versions 2 to 4 may say how long to keep: half a second; the offset goes, and the group with it."""
    topic, line = k.topic(), k.line("a")
    commit(line, k.name("g"), topic, part(5), version=3, retention_time_ms=1500)
    fetch(line, k.name("g"), topic)
    line.await_group(k.name("g"), "GROUP_ID_NOT_FOUND", version=6)
    fetch(line, k.name("g"), topic)


@story("O-421 O-401", server="expiry")
def a_later_commit_takes_the_retention_back(k: Stage) -> None:
    """A plain commit of the same partition replaces the explicit retention: the offset stays."""
    topic, line = k.topic(), k.line("a")
    commit(line, k.name("g"), topic, part(5), version=3, retention_time_ms=600)
    commit(line, k.name("g"), topic, part(6))
    k.pause(1500)
    fetch(line, k.name("g"), topic)


@story("O-401 O-403", server="expiry")
def explicit_retention_does_not_count_for_subscribed_topics(k: Stage) -> None:
    """In a stable group the topic that a member reads keeps its offset, another topic loses it."""
    mine, other = k.topic("mine"), k.topic("other")
    a = join_alone(k, "a", protocols=reading(mine))
    for topic in (mine, other):
        values = {"generation_id_or_member_epoch": 1, "member_id": a.member_id}
        commit(a.line, a.group, topic, part(5), version=3, retention_time_ms=1500, **values)
    fetch_until(a.line, a.group, lambda found: len(found.topics) < 2)
    fetch(a.line, a.group, mine)


@story("O-402 O-403 T-015 K-012", server="expiry")
def a_plain_commit_expires_after_the_retention(k: Stage) -> None:
    """A minute after its commit the offset of a simple group is gone; that of a group with a reader is not."""
    topic = k.topic()
    a = join_alone(k, "a", group=k.name("read"), protocols=reading(topic), session_timeout_ms=300_000)
    a.commit(topic, 2)
    commit(a.line, k.name("simple"), topic, part(1))
    fetch_until(a.line, k.name("simple"), lambda found: found.topics == [], within_ms=90_000)
    fetch(a.line, a.group, topic)

"""A living group moves from the classic protocol to the new one and back (KIP-848)."""

from typing import Any

from tests.conformance.actors import Member, Modern, Owned, assignment, subscription
from tests.conformance.requests import describe, remove
from tests.conformance.scenes import hand_over, join_alone, join_consumer, stable
from tests.conformance.stage import Stage
from tests.conformance.story import story


def reads(*topics: str, owned: Owned | None = None, name: str = "range") -> list[dict[str, Any]]:
    return [{"name": name, "metadata": subscription(*topics, owned=owned)}]


def join_classic(k: Stage, name: str, topic: str, owned: list[int] | None = None, **values: Any) -> Member:
    """A classic member that has joined and synced; alone in a stable group, it owns these partitions of the topic."""
    one = Member(k, name, protocols=reads(topic), **values)
    one.join_and_sync(None if owned is None else assignment({topic: owned}))
    return one


def upgraded(
    k: Stage, partitions: int, *, rejoins: bool = False, instance: str | None = None, **join: Any
) -> tuple[str, Member, Modern]:
    """A topic, and a classic group whose member `c` owns all of it, upgraded by a consumer member `n`.

    If the classic member `rejoins`, each of them ends with half of the partitions.
    """
    topic = k.topic(partitions=partitions)
    c = join_classic(k, "c", topic, list(range(partitions)), **join)
    n = join_consumer(k, "n", topic, instance=instance)
    if rejoins:
        c.join_and_sync()
        n.beat()
    return topic, c, n


@story("K-214 K-222 K-223 K-225 K-251 K-256 T-16 C-502")
def a_classic_group_is_upgraded_by_its_first_new_member(k: Stage) -> None:
    """The classic member goes on within the consumer group: it is told to rejoin, gives up its half and syncs."""
    topic, c, n = upgraded(k, 6)
    describe(k, n.group)
    c.beat()
    everything: Owned = {topic: [0, 1, 2, 3, 4, 5]}
    c.join_and_sync(protocols=reads(topic, owned=everything))
    c.beat()
    n.beat()
    c.join_and_sync(protocols=reads(topic, owned={topic: [0, 1, 2]}))
    c.beat()
    n.beat()
    describe(k, n.group)


@story("K-241 T-17")
def an_eager_classic_member_owns_nothing_when_it_rejoins(k: Stage) -> None:
    """Its subscription names no owned partitions, so it goes straight to the new epoch."""
    _topic, _c, _n = upgraded(k, 4, rejoins=True)


@story("K-265 K-267 K-268 K-269 K-271 T-18")
def the_last_new_member_leaves_and_the_group_is_classic_again(k: Stage) -> None:
    """The classic member is told to rejoin, and joins the next generation as ever."""
    topic, c, n = upgraded(k, 2, rejoins=True)
    n.leave()
    watch = k.line("watch")
    watch.call("list_groups", 5, mine="groups.group_id")
    watch.call("describe_groups", 6, groups=[c.group])
    c.beat()
    c.join_and_sync(assignment({topic: [0, 1]}))
    c.beat()


@story("K-269 K-268")
def after_a_downgrade_an_older_generation_is_refused(k: Stage) -> None:
    """The classic member had not taken the last epoch: its heartbeat gets ILLEGAL_GENERATION."""
    _topic, c, n = upgraded(k, 2)
    n.leave()
    c.beat()
    c.rejoin()


@story("K-214 K-211 T-19", server="downgrade")
def without_upgrades_a_new_member_finds_no_group(k: Stage) -> None:
    """Policy downgrade: a living classic group is not converted; an empty one is."""
    topic, c, n = upgraded(k, 1)
    c.beat()
    c.leave()
    n.join(topic)


@story("K-266 K-211 T-19", server="upgrade")
def without_downgrades_the_group_stays_new(k: Stage) -> None:
    """Policy upgrade: the last new member leaves, and the group stays a consumer group of one classic member."""
    _topic, c, n = upgraded(k, 2, rejoins=True)
    n.leave()
    describe(k, n.group)
    c.beat()
    c.join_and_sync()


@story("K-211 K-212 K-214 K-232 T-19", server="disabled")
def with_migration_disabled_the_protocols_do_not_mix(k: Stage) -> None:
    """Neither way while there are members; empty groups convert all the same."""
    topic, c, n = upgraded(k, 1)
    c.leave()
    n.join(topic)
    c.member_id = ""
    c.ask_join().answer()
    n.leave()
    c.join()


@story("K-215")
def only_groups_of_consumers_are_upgraded(k: Stage) -> None:
    """A group of Connect workers is not there for a new consumer."""
    c = join_alone(k, "c", protocol_type="connect", protocols=[{"name": "range", "metadata": b"m"}])
    Modern(k, "n").join(k.topic())
    c.beat()


@story("K-217 K-218 K-219")
def assignments_that_cannot_be_carried_over(k: Stage) -> None:
    """Unreadable bytes and user data refuse the upgrade; an empty assignment does not."""
    topic = k.topic()
    for name, share in (("unreadable", b"x"), ("user-data", assignment({topic: [0]}, b"state")), ("empty", b"")):
        c = Member(k, f"c-{name}", k.name(name), protocols=reads(topic))
        c.join_and_sync(share)
        Modern(k, f"n-{name}", k.name(name)).join(topic, server_assignor="range")
        c.beat()


@story("K-214 K-223")
def partitions_that_do_not_exist_cannot_be_carried_over(k: Stage) -> None:
    """The leader assigns partitions that the topic does not have: the upgrade is refused."""
    topic = k.topic(partitions=2)
    for name, partitions in (("next", [0, 2]), ("last", [0, 2**31 - 1]), ("negative", [0, -9])):
        c = Member(k, f"c-{name}", k.name(name), protocols=reads(topic))
        c.join_and_sync(assignment({topic: partitions}))
        Modern(k, f"n-{name}", k.name(name)).join(topic)
        c.beat()


@story("K-214 K-223")
def a_partition_of_two_members_cannot_be_carried_over(k: Stage) -> None:
    """The leader assigns a partition to two members, as some assignors do on purpose: the upgrade is refused."""
    topic = k.topic(partitions=2)
    a, b = Member(k, "a", protocols=reads(topic)), Member(k, "b", protocols=reads(topic))
    stable(a, b, shares=[assignment({topic: [0, 1]}), assignment({topic: [1]})])
    Modern(k, "n").join(topic)
    a.beat()
    b.beat()


@story("K-217")
def a_subscription_that_cannot_be_carried_over(k: Stage) -> None:
    """The member's metadata is no subscription: the upgrade is refused, and the group goes on."""
    topic = k.topic()
    c = Member(k, "c", protocols=[{"name": "range", "metadata": b"\x00"}])
    c.join_and_sync(assignment({topic: [0]}))
    Modern(k, "n").join(topic)
    c.beat()


@story("K-221 C-502")
def parked_members_are_sent_back_by_an_upgrade(k: Stage) -> None:
    """One member waits in JoinGroup when the group is converted: it is told to rejoin at once."""
    topic = k.topic(partitions=2)
    c = join_classic(k, "c", topic, [0, 1])
    d = Member(k, "d", protocols=reads(topic), instance="d")
    parked = d.ask_join()
    k.pause(150)
    Modern(k, "n").join(topic)
    parked.answer()
    c.beat()


@story("K-216 K-037", server="full")
def a_full_classic_group_is_not_upgraded(k: Stage) -> None:
    """Two of two members: the newcomer is refused, and the group stays classic."""
    topic = k.topic(partitions=2)
    a, b = Member(k, "a", protocols=reads(topic)), Member(k, "b", protocols=reads(topic))
    stable(a, b, shares=[assignment({topic: [0]}), assignment({topic: [1]})])
    Modern(k, "n").join(topic)
    a.beat()
    k.line("watch").call("list_groups", 5, mine="groups.group_id")


@story("K-235 K-236 K-244 K-245 K-243 C-500")
def a_classic_member_joins_a_consumer_group(k: Stage) -> None:
    """It is named first, then answered at once: its epoch is the generation, nobody leads, nobody is listed."""
    topic = k.topic(partitions=2)
    n = join_consumer(k, "n", topic)
    c = Member(k, "c", n.group, protocols=reads(topic))
    c.introduce()
    c.join_and_sync()
    hand_over(n, c)
    c.join_and_sync()
    describe(k, n.group)


@story("K-229 K-117")
def an_empty_consumer_group_refuses_a_classic_member_that_it_does_not_know(k: Stage) -> None:
    """The classic member brings a member id: it is refused, and is the empty group still there?"""
    topic = k.topic()
    n = join_consumer(k, "n", topic)
    n.leave()
    Member(k, "c", protocols=reads(topic)).ask_join(member_id="my own").answer()
    k.line("watch").call("list_groups", 5, mine="groups.group_id")
    n.join(topic)


@story("K-236 K-123 K-244")
def a_classic_member_may_bring_its_own_id(k: Stage) -> None:
    """A consumer group takes an id it never gave; old versions are admitted without being named first."""
    topic = k.topic(partitions=2)
    n = join_consumer(k, "n", topic)
    Member(k, "c", n.group, protocols=reads(topic)).ask_join(member_id="my own").answer()
    Member(k, "d", n.group, protocols=reads(topic), version=3).ask_join().answer()
    describe(k, n.group)


@story("K-234 K-231")
def what_a_classic_member_must_offer_to_a_consumer_group(k: Stage) -> None:
    """The type of consumers, at least one protocol, and one that all classic members have; and a proper session."""
    topic = k.topic()
    n = join_consumer(k, "n", topic)
    c = Member(k, "c", n.group, protocols=reads(topic))
    c.ask_join(protocol_type="connect", member_id="c").answer()
    c.ask_join(protocols=[], protocol_type="consumer", member_id="c").answer()
    c.ask_join(protocols=reads(topic), session_timeout_ms=1, member_id="c").answer()
    c.ask_join(session_timeout_ms=30_000, member_id="c").answer()
    Member(k, "d", n.group, protocols=reads(topic, name="sticky")).ask_join(member_id="d").answer()


@story("K-239")
def an_unreadable_subscription_in_a_consumer_group(k: Stage) -> None:
    """A classic member whose metadata ends too early joins a consumer group."""
    n = join_consumer(k, "n", k.topic())
    Member(k, "c", n.group, protocols=[{"name": "range", "metadata": b"\x00"}]).ask_join(member_id="c").answer()
    n.beat()


@story("K-247 K-248 K-249 K-250 C-501")
def syncs_of_a_consumer_group_are_checked(k: Stage) -> None:
    """Stranger, new member, wrong generation, wrong type or name: each has its error."""
    topic = k.topic()
    n = join_consumer(k, "n", topic)
    c = join_classic(k, "c", topic)
    c.sync(member_id="nobody")
    c.sync(member_id=n.member_id, generation_id=n.epoch)
    c.sync(generation_id=99)
    c.sync(protocol_type="connect")
    c.sync(protocol_name="sticky")
    c.sync(group_instance_id="unknown")


@story("K-254 C-501")
def heartbeats_of_a_consumer_group_are_checked(k: Stage) -> None:
    """Stranger, new member, wrong generation and unknown instance in the classic Heartbeat."""
    topic = k.topic()
    n = join_consumer(k, "n", topic)
    c = join_classic(k, "c", topic)
    c.beat(member_id="nobody")
    c.beat(member_id=n.member_id, generation_id=n.epoch)
    c.beat(generation_id=99)
    c.beat(group_instance_id="unknown")


@story("K-257 K-256")
def a_waiting_classic_member_is_left_in_peace(k: Stage) -> None:
    """Its partitions are still held by another: 0. When they are free: rejoin."""
    topic = k.topic(partitions=2)
    n = join_consumer(k, "n", topic)
    c = join_classic(k, "c", topic)
    c.beat()
    n.beat()
    c.beat()
    n.owns()
    c.beat()


@story("K-237 K-052")
def a_static_member_changes_its_protocol(k: Stage) -> None:
    """A classic static member comes back with the new protocol, and then with the old one again, without waiting."""
    topic = k.topic(partitions=2)
    c = join_classic(k, "c", topic, [0, 1], instance="one")
    n = join_consumer(k, "n", topic, instance="one")
    describe(k, n.group)
    c.beat()
    again = Member(k, "c again", protocols=reads(topic), instance="one")
    again.rejoin()
    k.line("watch").call("list_groups", 5, mine="groups.group_id")
    n.beat()


@story("K-237 K-272")
def a_static_member_downgrades_the_group_while_another_is_behind(k: Stage) -> None:
    """The classic member has not heard of the epoch in which it gives up half when the last new member changes over."""
    topic, c, _n = upgraded(k, 4, instance="one")
    again = join_classic(k, "again", topic, instance="one")
    again.beat()
    c.beat()


@story("K-237 K-272")
def a_static_member_downgrades_the_group_while_another_waits(k: Stage) -> None:
    """The classic member waits for its half, and is not told yet that it is free, when the last new member changes over."""
    topic = k.topic(partitions=4)
    n = join_consumer(k, "n", topic, instance="one")
    c = join_classic(k, "c", topic)
    n.beat()
    n.owns()
    again = join_classic(k, "again", topic, instance="one")
    c.beat()
    c.commit(topic, partition=2)
    again.beat()


@story("K-237 K-272")
def a_static_member_downgrades_the_group_with_another_subscription(k: Stage) -> None:
    """The last member of the group, of which another one waits to be admitted."""
    topic = k.topic(partitions=2)
    n = join_consumer(k, "n", topic, k.name("none"), instance="one")
    n.leave(-2)
    again = Member(k, "again", instance="one", protocols=reads(topic))
    again.join()
    describe(k, k.name("g"))
    b = Member(k, "b", version=3, protocols=reads(topic))
    waiting = b.ask_join()
    waiting.silent(200)
    again.rejoin((b, waiting))


@story("K-214 K-268 K-270")
def a_group_that_is_upgraded_again_before_its_member_has_rejoined(k: Stage) -> None:
    """Downgraded and upgraded while the classic member still holds what it had at first."""
    topic, c, n = upgraded(k, 4)
    n.leave()
    m = join_consumer(k, "m", topic)
    m.beat()
    c.beat()
    c.join_and_sync()
    m.beat()


@story("K-259 K-261 K-265")
def a_new_member_is_removed_by_leave_group(k: Stage) -> None:
    """The operator removes the only new member: what is left is classic."""
    _topic, c, n = upgraded(k, 2)
    c.join_and_sync()
    remove(k, n.group, {"member_id": n.member_id})
    k.line("watch").call("list_groups", 5, mine="groups.group_id")
    c.beat()


@story("K-226 K-255")
def a_classic_member_keeps_its_own_session_in_a_consumer_group(k: Stage) -> None:
    """It is silent for its session of a second, and gone; the new member is not."""
    _topic, c, n = upgraded(k, 2, session_timeout_ms=1600)
    k.pause(900)
    c.beat()
    k.pause(900)
    c.beat()
    k.pause(1900)
    c.beat()
    n.beat()


@story("K-256 K-173")
def a_classic_member_that_does_not_rejoin_in_time_is_removed(k: Stage) -> None:
    """It is told to rejoin by its heartbeat and only beats on: after its rebalance timeout it is out."""
    _topic, c, n = upgraded(k, 2, rebalance_timeout_ms=1600)
    c.beat()
    k.pause(700)
    c.beat()
    k.pause(1300)
    c.beat()
    n.beat()


@story("K-246 K-252")
def a_classic_member_that_does_not_sync_in_time_is_removed(k: Stage) -> None:
    """It joined a consumer group and never syncs: after its rebalance timeout it is out."""
    topic = k.topic(partitions=2)
    n = join_consumer(k, "n", topic)
    c = Member(k, "c", n.group, protocols=reads(topic), rebalance_timeout_ms=1000)
    c.join()
    c.beat()
    k.pause(1400)
    c.beat()


@story("K-280 K-277 K-278 C-503")
def a_classic_member_commits_in_a_consumer_group(k: Stage) -> None:
    """By its generation, in old versions too; a wrong one is an illegal generation."""
    topic = k.topic(partitions=2)
    join_consumer(k, "n", topic)
    c = join_classic(k, "c", topic)
    c.commit(topic, 5)
    c.commit(topic, 6, version=7)
    c.commit(topic, generation_id_or_member_epoch=c.generation + 1)
    c.commit(topic, generation_id_or_member_epoch=c.generation - 1)
    c.commit(topic, member_id="nobody")


@story("K-229 K-264 K-300")
def a_classic_member_fetches_with_its_generation(k: Stage) -> None:
    """OffsetFetch v9 with a classic member of a consumer group: right, wrong and unknown."""
    topic = k.topic()
    n = join_consumer(k, "n", topic)
    c = Member(k, "c", n.group, protocols=reads(topic))
    c.join()
    for member, epoch in ((c.member_id, c.generation), (c.member_id, c.generation + 1), ("nobody", c.generation)):
        one = {
            "group_id": c.group,
            "member_id": member,
            "member_epoch": epoch,
            "topics": [{"name": topic, "partition_indexes": [0]}],
        }
        c.line.call("offset_fetch", 9, groups=[one])


@story("K-254 K-256 K-266", server="upgrade")
def the_last_consumer_member_leaves_and_the_classic_member_beats_on(k: Stage) -> None:
    """Policy upgrade: what the classic member's heartbeats get, and who owns what while it does not rejoin."""
    topic, c, n = upgraded(k, 4, rejoins=True)
    n.leave()
    for _ in range(3):
        c.beat()
        k.pause(500)
    describe(k, n.group)
    k.line("watch").call("describe_groups", 6, groups=[c.group])
    c.commit(topic)


@story("K-254 K-256 K-266", server="upgrade")
def a_change_of_topics_gives_the_classic_member_the_rest(k: Stage) -> None:
    """Policy upgrade: after the last consumer member has left, the topic grows; then the classic member rejoins."""
    topic, c, n = upgraded(k, 2, rejoins=True)
    n.leave()
    c.beat()
    k.grow_topic(topic, 4)
    k.pause(1000)
    c.beat()
    describe(k, n.group)
    c.join_and_sync()
    c.beat()
    describe(k, n.group)


@story("K-254 K-256 K-051 K-266", server="upgrade")
def the_last_consumer_member_expires_beside_a_classic_member(k: Stage) -> None:
    """Policy upgrade: its session ends without a word; the classic member beats on."""
    k.group_config(k.name("g"), consumer_session_timeout_ms=1000, consumer_heartbeat_interval_ms=500)
    _topic, c, n = upgraded(k, 2, rejoins=True)
    k.pause(1600)
    for _ in range(2):
        c.beat()
        k.pause(300)
    describe(k, n.group)


@story("K-254 K-256 K-259 K-266", server="upgrade")
def the_last_consumer_member_is_removed_beside_a_classic_member(k: Stage) -> None:
    """Policy upgrade: an operator removes it by LeaveGroup; the classic member beats on, then rejoins."""
    _topic, c, n = upgraded(k, 2, rejoins=True)
    remove(k, n.group, {"member_id": n.member_id})
    for _ in range(2):
        c.beat()
        k.pause(300)
    describe(k, n.group)
    c.join_and_sync()
    c.beat()
    describe(k, n.group)


@story("K-254 K-256 K-266", server="upgrade")
def the_last_consumer_member_leaves_before_the_classic_member_has_rejoined(k: Stage) -> None:
    """Policy upgrade: the classic member still owns all; it beats, rejoins, and keeps what it had."""
    _topic, c, n = upgraded(k, 2)
    c.beat()
    n.leave()
    c.beat()
    describe(k, n.group)
    c.join_and_sync()
    c.beat()
    describe(k, n.group)


@story("K-254 K-256 K-266", server="upgrade")
def one_of_two_classic_members_rejoins_after_the_last_consumer_member_left(k: Stage) -> None:
    """Policy upgrade: the first to rejoin moves the group; the other is then told to rejoin.

    As many partitions as members that stay, so that who gets which is no matter of member ids.
    """
    topic, c, n = upgraded(k, 2, rejoins=True)
    d = join_classic(k, "d", topic)
    n.beat()
    n.owns()
    c.join_and_sync()
    d.join_and_sync()
    n.beat()
    n.leave()
    c.beat()
    d.beat()
    k.pause(500)
    c.beat()
    d.beat()
    describe(k, n.group)
    c.join_and_sync()
    d.beat()
    d.join_and_sync()
    c.beat()
    d.beat()
    describe(k, n.group)


@story("K-254 K-256 K-052 K-266", server="upgrade")
def the_last_consumer_member_is_static_and_away_for_a_while(k: Stage) -> None:
    """Policy upgrade: it leaves with epoch -2 and comes back; its half waits for it."""
    topic, c, n = upgraded(k, 2, rejoins=True, instance="one")
    n.leave(-2)
    c.beat()
    k.pause(300)
    c.beat()
    describe(k, n.group)
    join_consumer(k, "n again", topic, instance="one")
    c.beat()
    describe(k, n.group)


@story("K-254 K-256", server="upgrade")
def one_of_two_consumer_members_leaves_beside_a_classic_member(k: Stage) -> None:
    """Policy upgrade: the consumer member that stays beats, which makes the new assignment.

    It had nothing, so that who gets the partition is no matter of member ids.
    """
    topic, c, n = upgraded(k, 2, rejoins=True)
    m = join_consumer(k, "m", topic)
    c.join_and_sync()
    m.beat()
    n.leave()
    c.beat()
    m.beat()
    c.beat()
    c.join_and_sync()
    c.beat()
    describe(k, m.group)

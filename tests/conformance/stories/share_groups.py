"""Members of share groups (KIP-932): ShareGroupHeartbeat, what is refused, and what the older APIs say of them."""

from tests.conformance.actors import Member, Modern, Sharer
from tests.conformance.requests import UNKNOWN_ID, commit, part
from tests.conformance.scenes import sole_consumer, stable
from tests.conformance.sharing import find_share_coordinators
from tests.conformance.stage import Stage
from tests.conformance.story import story


def describe(k: Stage, *groups: str) -> None:
    k.line("watch").call("share_group_describe", 1, group_ids=list(groups))


def settled(k: Stage, partitions: int = 1, *names: str) -> tuple[str, list[Sharer]]:
    """A topic, and members that share it, each told its part."""
    topic = k.topic(partitions=partitions)
    members = [Sharer(k, name) for name in names or ("a",)]
    for one in members:
        one.settle(topic)
    return topic, members


@story("H-001 H-002")
def the_first_member_gets_every_partition_when_the_states_have_begun(k: Stage) -> None:
    """Its join is told an epoch and an empty assignment; the partitions follow."""
    a = Sharer(k, "a")
    a.join(k.topic(partitions=3))
    a.beat_until_assigned()
    describe(k, a.group)
    a.beat()


@story("H-003")
def a_share_member_must_say_who_it_is(k: Stage) -> None:
    """A member id of 1 to 36 characters; group and rack may not be blank."""
    topic = k.topic()
    a = Sharer(k, "a")
    for bad in (
        {"member_id": ""},
        {"member_id": " "},
        {"member_id": "x" * 37},
        {"group_id": ""},
        {"group_id": "  "},
        {"rack_id": ""},
        {"rack_id": " "},
    ):
        a.join(topic, **bad)
    a.join(topic, member_id="x" * 36)
    a.join(topic, member_id="ü" * 36, group_id=k.name("g2"))


@story("H-003")
def a_share_join_needs_a_subscription(k: Stage) -> None:
    """Null and empty ones are refused in a join; an epoch below -1 always."""
    a = Sharer(k, "a")
    a.join(subscribed_topic_names=None)
    a.join()
    a.beat(member_epoch=-2)
    a.beat(member_epoch=-3)


@story("H-004")
def a_share_member_that_nobody_knows(k: Stage) -> None:
    """It cannot go on or leave, in a group that is there and in one that is not."""
    Sharer(k, "x", k.name("none")).beat(member_epoch=1)
    Sharer(k, "x", k.name("none")).beat(member_epoch=-1)
    _topic, (a,) = settled(k)
    other = Sharer(k, "b")
    other.beat(member_epoch=1)
    other.beat(member_epoch=-1)
    a.beat()


@story("H-005")
def epochs_of_a_share_member(k: Stage) -> None:
    """The one before the current one is taken for a retry; others are fenced."""
    topic, (a,) = settled(k)
    a.beat(member_epoch=a.epoch + 1)
    a.beat(member_epoch=a.epoch - 1)
    a.beat(member_epoch=1)
    b = Sharer(k, "b").settle(topic)
    a.beat_until_assigned()
    old = a.epoch
    a.beat(member_epoch=old - 1)
    a.beat(member_epoch=old - 3)
    a.beat()
    b.beat()


@story("H-006")
def a_share_member_may_join_again_with_epoch_0(k: Stage) -> None:
    """It is told all that it has; with the same subscription the group stays as it is."""
    topic, (a,) = settled(k)
    a.join(topic)
    describe(k, a.group)
    a.join(topic)
    a.beat()


@story("H-007")
def members_share_partitions(k: Stage) -> None:
    """With more members than partitions they share; a member with another topic has that alone."""
    topic, other = k.topic("t1", 1), k.topic("t2", 1)
    members = [Sharer(k, name) for name in "abc"]
    for one in members:
        one.settle(topic)
    describe(k, members[0].group)
    Sharer(k, "d", members[0].group).settle(other)
    for one in members:
        one.beat()
    describe(k, members[0].group)


@story("H-008")
def a_share_member_leaves(k: Stage) -> None:
    """The group's epoch rises; who stays gets the rest at its next heartbeat. The last one leaves an empty group."""
    topic = k.topic(partitions=1)
    a, b = Sharer(k, "a").settle(topic), Sharer(k, "b").settle(topic)
    a.beat()
    b.leave()
    describe(k, a.group)
    a.beat()
    a.leave()
    a.beat()
    describe(k, a.group)
    a.join(topic)
    describe(k, a.group)


@story("H-009")
def a_subscription_changes(k: Stage) -> None:
    """New topics come when their states have begun, others go at once; even all of them may go."""
    first, second = k.topic("t1", 1), k.topic("t2", 2)
    a = Sharer(k, "a").settle(first)
    a.beat(subscribed_topic_names=[first, second])
    a.beat_until_assigned(2)
    a.beat(subscribed_topic_names=[second])
    describe(k, a.group)
    a.beat(subscribed_topic_names=[])
    describe(k, a.group)
    a.beat(subscribed_topic_names=[second])
    a.beat()


@story("H-009")
def the_same_subscription_again_changes_nothing(k: Stage) -> None:
    """A full heartbeat is told all partitions; order and doubles do not matter."""
    first, second = k.topic("t1", 1), k.topic("t2", 1)
    a = Sharer(k, "a")
    a.join(first, second)
    a.beat_until_assigned(2)
    a.beat(subscribed_topic_names=[second, first, second])
    describe(k, a.group)


@story("H-010")
def a_rack_and_a_client_do_not_move_a_share_group(k: Stage) -> None:
    """They are kept, and the epoch stays."""
    _topic, (a,) = settled(k)
    a.beat(rack_id="rack 7")
    describe(k, a.group)
    a.line = k.line("a2", "another client")
    a.beat()
    describe(k, a.group)


@story("H-011")
def a_subscribed_topic_grows(k: Stage) -> None:
    """The new partitions come when their states have begun."""
    topic, (a,) = settled(k, 1)
    k.grow_topic(topic, 3)
    k.pause(300)
    a.beat()
    a.beat_until_assigned()
    describe(k, a.group)


@story("H-011")
def a_subscribed_topic_is_created_later(k: Stage) -> None:
    """A member may subscribe to what is not there; when it comes, so do its partitions."""
    a = Sharer(k, "a")
    a.join(k.name("later"))
    a.beat()
    describe(k, a.group)
    k.topic("later", 2)
    k.pause(300)
    a.beat()
    a.beat_until_assigned()
    describe(k, a.group)


@story("H-012")
def a_subscribed_topic_is_deleted(k: Stage) -> None:
    """Its partitions are taken away at the next heartbeat."""
    first, second = k.topic("t1", 1), k.topic("t2", 1)
    a = Sharer(k, "a")
    a.join(first, second)
    a.beat_until_assigned(2)
    k.delete_topic(first)
    k.pause(500)
    a.beat()
    a.beat()
    describe(k, a.group)


@story("H-013")
def a_silent_share_member_is_removed(k: Stage) -> None:
    """When its session ends it is unknown, and the group empty."""
    k.group_config(k.name("g"), share_session_timeout_ms=600, share_heartbeat_interval_ms=100)
    _topic, (a,) = settled(k)
    k.pause(1_500)
    describe(k, a.group)
    a.beat()


@story("H-013")
def a_heartbeat_prolongs_a_share_session(k: Stage) -> None:
    """Refused ones do not."""
    k.group_config(k.name("g"), share_session_timeout_ms=1_000, share_heartbeat_interval_ms=100)
    topic, (a,) = settled(k)
    b = Sharer(k, "b").settle(topic)
    for _ in range(3):
        k.pause(600)
        a.beat()
        b.beat(member_epoch=99)
    describe(k, a.group)


@story("H-014")
def the_heartbeat_interval_of_a_share_group_is_its_own(k: Stage) -> None:
    """A change is told at the next heartbeat."""
    _topic, (a,) = settled(k)
    k.group_config(a.group, share_heartbeat_interval_ms=7_000)
    a.beat()


@story("H-015", server="full")
def a_share_group_is_full(k: Stage) -> None:
    """Whoever is in it may join again; nobody else, not even with an epoch."""
    topic = k.topic(partitions=2)
    a, b = Sharer(k, "a").settle(topic), Sharer(k, "b").settle(topic)
    c = Sharer(k, "c")
    c.join(topic)
    c.beat(member_epoch=1)
    a.join(topic)
    b.leave()
    c.join(topic)


@story("H-016", server="delay")
def a_share_target_waits_for_the_assignment_interval(k: Stage) -> None:
    """Until then a new member has the epoch of the last target, and nothing."""
    topic = k.topic(partitions=1)
    a = Sharer(k, "a")
    a.join(topic)
    a.beat()
    k.pause(4_000)
    a.beat()
    b = Sharer(k, "b")
    b.join(topic)
    describe(k, a.group)
    k.pause(1_700)
    b.beat()
    a.beat()
    describe(k, a.group)


@story("H-017")
def a_share_group_describes_members_by_kafka_s_fields(k: Stage) -> None:
    """With operations, when asked for; and each group once for each time it was asked for."""
    topic, (a,) = settled(k)
    k.line("watch").call("share_group_describe", 1, group_ids=[a.group], include_authorized_operations=True)
    Sharer(k, "b", k.name("g2")).settle(topic)
    describe(k, k.name("g2"), a.group, a.group)


@story("H-018")
def groups_that_are_no_share_groups(k: Stage) -> None:
    """Missing, classic, simple, consumer and nameless: each has its error."""
    topic, _a = sole_consumer(k, 1)
    stable(Member(k, "c", k.name("classic")))
    commit(k.line("s"), k.name("simple"), topic)
    describe(k, k.name("none"), k.name("classic"), k.name("simple"), k.name("g"), "")
    describe(k)


@story("H-019")
def share_members_of_groups_of_other_kinds(k: Stage) -> None:
    """Even an empty one, and one of mere offsets, refuses them."""
    topic, a = sole_consumer(k, 1)
    stable(Member(k, "c", k.name("classic")))
    commit(k.line("s"), k.name("simple"), topic)
    for group in (a.group, k.name("classic"), k.name("simple")):
        Sharer(k, "x", group).join(topic)
        Sharer(k, "x", group).beat(member_epoch=1)
        Sharer(k, "x", group).leave()
    a.leave()
    Sharer(k, "x", a.group).join(topic)


@story("H-020 C-505")
def classic_members_of_a_share_group(k: Stage) -> None:
    """Every request of the classic protocol is refused, by a group with members and by an empty one."""
    _topic, (a,) = settled(k)
    for _ in range(2):
        member = Member(k, "c", a.group)
        member.ask_join().answer()
        member.ask_join(version=3).answer()
        for api, version in (("heartbeat", 4), ("sync_group", 5), ("leave_group", 5), ("leave_group", 2)):
            member.ask(api, version, member_id="m", generation_id=1).answer()
        a.leave()


@story("H-020 K-230")
def consumer_members_of_a_share_group(k: Stage) -> None:
    """ConsumerGroupHeartbeat is refused, by a group with members and by an empty one."""
    topic, (a,) = settled(k)
    for _ in range(2):
        consumer = Modern(k, "c", a.group)
        consumer.join(topic)
        consumer.beat(member_epoch=1)
        consumer.leave()
        a.leave()


@story("H-021 K-288")
def offsets_of_a_share_group(k: Stage) -> None:
    """Commits and deletions are refused; a fetch finds nothing, and no error."""
    topic, (a,) = settled(k)
    for _ in range(2):
        for version in (2, 8, 9):
            commit(k.line("s"), a.group, topic, version=version)
        for version in (1, 7):
            k.line("s").call(
                "offset_fetch", version, group_id=a.group, topics=[{"name": topic, "partition_indexes": [0]}]
            )
        for member in ({}, {"member_id": "nobody", "member_epoch": 1}):
            topics = [{"name": topic, "partition_indexes": [0]}]
            k.line("s").call("offset_fetch", 9, groups=[{"group_id": a.group, "topics": topics, **member}])
        k.line("s").call("offset_fetch", 9, groups=[{"group_id": a.group, "topics": None}])
        k.line("s").call(
            "offset_delete", 0, group_id=a.group, topics=[{"name": topic, "partitions": [{"partition_index": 0}]}]
        )
        a.leave()


def alter(k: Stage, group: str, *topics: tuple[str, list[tuple[int, int]]]) -> None:
    """Let a share group begin elsewhere, and show where it is then."""
    asked = [
        {"topic_name": name, "partitions": [{"partition_index": index, "start_offset": at} for index, at in parts]}
        for name, parts in topics
    ]
    k.line("admin").call("alter_share_group_offsets", 0, group_id=k.name(group), topics=asked)
    shown = [{"topic_name": name, "partitions": [0, 1]} for name in dict.fromkeys(name for name, _ in topics)]
    groups = [{"group_id": k.name(group), "topics": shown}]
    k.line("admin").send("describe_share_group_offsets", 1, groups=groups).answer(is_timed=False)


@story("V-007")
def offsets_of_topics_that_are_named_twice(k: Stage) -> None:
    """Each partition counts; of one that is there twice the last entry."""
    topic, none = k.topic(partitions=2), k.name("none")
    for group in ("g", "h", "i"):
        find_share_coordinators(k, topic, group, 2)
    alter(k, "g", (topic, [(0, 7)]), (topic, [(1, 8)]))
    alter(k, "g", (topic, [(0, 3), (1, 5)]), (none, [(0, 1)]), (topic, [(1, 6), (9, 1)]))
    alter(k, "h", (topic, [(0, 7)]), (topic, []))
    alter(k, "i", (none, [(0, 1)]), (none, [(1, 1)]))


@story("V-007")
def offsets_of_a_partition_below_zero(k: Stage) -> None:
    """Kafka takes it for a failure of its own, and alters none."""
    topic = k.topic(partitions=2)
    find_share_coordinators(k, topic, "g", 2)
    alter(k, "g", (topic, [(0, 7), (-1, 8)]))


@story("H-022")
def a_share_group_in_the_older_lists(k: Stage) -> None:
    """ListGroups shows it in every version, DescribeGroups shows it as dead."""
    _topic, (a,) = settled(k)
    for version in range(6):
        k.line("watch").call("list_groups", version, mine="groups.group_id")
    for filters in (
        {"types_filter": ["share"]},
        {"types_filter": ["SHARE"]},
        {"types_filter": ["consumer"]},
        {"states_filter": ["stable"]},
        {"states_filter": ["Empty"]},
        {"types_filter": ["share"], "states_filter": ["STABLE"]},
    ):
        k.line("watch").call("list_groups", 5, mine="groups.group_id", **filters)
    for version in (0, 5, 6):
        k.line("watch").call("describe_groups", version, groups=[a.group])
    k.line("watch").call("consumer_group_describe", 1, group_ids=[a.group])
    a.leave()
    k.line("watch").call("list_groups", 5, mine="groups.group_id", states_filter=["empty"])


@story("H-023")
def only_an_empty_share_group_is_deleted(k: Stage) -> None:
    """With its states; a new group of the name begins at the first epoch."""
    topic, (a,) = settled(k)
    k.line("watch").call("delete_groups", 2, groups_names=[a.group])
    a.leave()
    k.line("watch").call("delete_groups", 2, groups_names=[a.group, k.name("none")])
    describe(k, a.group)
    k.line("watch").call("delete_groups", 2, groups_names=[a.group])
    a.join(topic)
    a.beat_until_assigned()
    describe(k, a.group)


@story("H-024")
def transactions_of_a_share_group(k: Stage) -> None:
    """Offsets cannot be committed in a transaction either."""
    topic, (a,) = settled(k)
    producer = k.line("p").call("init_producer_id", 4, transactional_id=k.name("tx"), transaction_timeout_ms=60_000)
    ids = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
    k.line("p").call("add_offsets_to_txn", 3, transactional_id=k.name("tx"), group_id=a.group, **ids)
    topics = [{"name": topic, "partitions": [part()]}]
    k.line("p").call("txn_offset_commit", 3, transactional_id=k.name("tx"), group_id=a.group, topics=topics, **ids)
    k.line("p").call("end_txn", 3, transactional_id=k.name("tx"), committed=False, **ids)


@story("H-025", server="restart")
def a_share_group_after_a_restart(k: Stage) -> None:
    """Members, epochs and assignments are there; sessions begin anew."""
    topic, (a,) = settled(k, 1)
    b = Sharer(k, "b").settle(topic)
    a.beat()
    k.restart(a.group)
    describe(k, a.group)
    a.beat()
    b.beat()
    b.join(topic)


@story("H-026")
def an_unknown_topic_id_is_of_no_interest(k: Stage) -> None:
    """Subscriptions are by name: a name that looks like an id is a name."""
    a = Sharer(k, "a")
    a.join(UNKNOWN_ID, "__consumer_offsets")
    a.beat_until_assigned()
    describe(k, a.group)

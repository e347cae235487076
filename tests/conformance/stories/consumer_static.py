"""Static members of consumer groups, and how members end: leaving, sessions, rebalance timeouts."""

from tests.conformance.actors import Modern
from tests.conformance.requests import describe, remove
from tests.conformance.scenes import consumer_pair, hand_over, join_consumer, sole_consumer
from tests.conformance.stage import Stage
from tests.conformance.story import story


@story("K-045 K-154 K-158 K-043 T-11")
def a_static_member_bounces_and_keeps_its_partitions(k: Stage) -> None:
    """It leaves for a while, comes back with a new member id, and has everything again at the same epoch."""
    topic = k.topic(partitions=4)
    a, b = join_consumer(k, "a", topic, instance="one"), join_consumer(k, "b", topic, instance="two")
    hand_over(a, b)
    a.leave(-2)
    describe(k, a.group)
    b.beat()
    join_consumer(k, "a again", topic, instance="one")
    b.beat()


@story("K-163 K-054 K-046 T-11")
def the_old_self_of_a_bounced_member_is_fenced(k: Stage) -> None:
    """Its old id with the instance is fenced, without it unknown."""
    topic, a = sole_consumer(k, instance="one")
    epoch = a.epoch
    a.leave(-2)
    Modern(k, "a again", instance="one").join(topic)
    a.beat(member_epoch=epoch)
    a.beat(member_epoch=epoch, instance_id=None)
    a.leave(-2)
    a.leave(-1)


@story("K-051 T-12")
def an_instance_that_is_still_there_is_not_released(k: Stage) -> None:
    """Another process joins with the same instance id, even with the same member id: UNRELEASED_INSTANCE_ID."""
    topic, a = sole_consumer(k, instance="one")
    Modern(k, "b", instance="one").join(topic)
    a.join(topic)
    a.beat()


@story("K-053 K-041 K-042 K-049")
def instances_and_members_that_do_not_belong_together(k: Stage) -> None:
    """An unknown instance is unknown, another's is fenced; without instance the member id is enough."""
    topic = k.topic()
    a, _b = join_consumer(k, "a", topic, instance="one"), join_consumer(k, "b", topic, instance="two")
    a.beat(instance_id="three")
    a.beat(instance_id="two")
    a.beat(instance_id=None)
    a.ask(member_epoch=-1, instance_id="three").answer()
    a.ask(member_epoch=-1, instance_id="two").answer()


@story("K-060 K-041")
def a_member_joins_again_under_another_instance(k: Stage) -> None:
    """It keeps its member id, and beats under the former instance id and under the new one."""
    topic, a = sole_consumer(k, instance="one")
    a.join(topic, instance_id="two")
    a.beat(instance_id="one")
    a.beat(instance_id="two")


@story("K-044 K-050 K-164")
def a_static_member_that_leaves_for_good(k: Stage) -> None:
    """Epoch -1 frees the instance; who comes next under it is new, and the group has moved twice."""
    topic, a = sole_consumer(k, instance="one")
    a.leave()
    describe(k, a.group)
    Modern(k, "b", instance="one").join(topic)


@story("K-052 K-160")
def a_bounced_member_may_come_back_under_its_old_id(k: Stage) -> None:
    """The member id need not change."""
    topic, a = sole_consumer(k, 2, instance="one")
    a.leave(-2)
    a.join(topic)
    a.beat()


@story("K-056 K-286")
def a_member_that_left_for_a_while_cannot_go_on_as_if_not(k: Stage) -> None:
    """Its old epoch is greater than -2: fenced."""
    a = join_consumer(k, "a", k.topic(), instance="one")
    a.leave(-2)
    a.beat()


@story("K-159")
def a_bounced_member_may_come_back_with_other_topics(k: Stage) -> None:
    """Then the group moves, and it gets what it reads now."""
    one, two = k.topic("one"), k.topic("two")
    a = join_consumer(k, "a", one, instance="one")
    a.leave(-2)
    Modern(k, "a again", instance="one").join(two)


@story("K-156 K-164 T-13")
def a_static_member_that_does_not_come_back_is_removed(k: Stage) -> None:
    """Its session ends, the group moves on, and its peer gets its partitions."""
    topic = k.topic(partitions=2)
    k.group_config(k.name("g"), consumer_session_timeout_ms=2000, consumer_heartbeat_interval_ms=100)
    a, b = join_consumer(k, "a", topic, instance="one"), join_consumer(k, "b", topic)
    hand_over(a, b)
    a.leave(-2)
    for _ in range(2):
        k.pause(1200)
        b.beat()
    describe(k, a.group)


@story("K-040 K-043 K-075 K-179")
def the_last_member_leaves(k: Stage) -> None:
    """The group is empty at its next epoch; who has left is unknown."""
    a = join_consumer(k, "a", k.topic())
    a.leave()
    describe(k, a.group)
    a.leave()
    a.beat()


@story("K-165 T-08")
def a_silent_consumer_is_removed_when_its_session_ends(k: Stage) -> None:
    """A says nothing for a second: it is gone then, and B gets its partitions at the next heartbeat."""
    topic = k.topic(partitions=2)
    k.group_config(k.name("g"), consumer_session_timeout_ms=1600, consumer_heartbeat_interval_ms=100)
    a, b = join_consumer(k, "a", topic), join_consumer(k, "b", topic)
    k.pause(1000)
    b.beat()
    k.pause(1000)
    b.beat()
    a.beat()


@story("K-165 K-065")
def refused_heartbeats_do_not_keep_alive(k: Stage) -> None:
    """Fenced heartbeats all the time, and the session ends all the same."""
    k.group_config(k.name("g"), consumer_session_timeout_ms=1000, consumer_heartbeat_interval_ms=100)
    a = join_consumer(k, "a", k.topic())
    k.pause(600)
    a.beat(member_epoch=99)
    k.pause(700)
    a.beat()


@story("K-131 K-169 T-09")
def who_does_not_revoke_in_time_is_removed(k: Stage) -> None:
    """A beats but never gives its partitions up: after its rebalance timeout it is out, and B gets all."""
    _topic, a, b = consumer_pair(k, 2, rebalance_timeout_ms=1600)
    a.beat()
    k.pause(700)
    a.beat()
    k.pause(1200)
    a.beat()
    b.beat()


@story("K-131 K-169")
def who_revokes_in_time_stays(k: Stage) -> None:
    """The acknowledgement comes before the rebalance timeout: nothing happens when it is over."""
    _topic, a, b = consumer_pair(k, 2, rebalance_timeout_ms=1600)
    a.beat()
    k.pause(700)
    a.owns()
    k.pause(1200)
    a.beat()
    b.beat()


@story("K-259 K-260 K-261 K-262 K-263")
def leave_group_removes_members_of_the_new_protocol(k: Stage) -> None:
    """An operator may remove them by id or instance; each is answered, and the group moves once."""
    topic = k.topic(partitions=3)
    a, b, c = Modern(k, "a"), Modern(k, "b", instance="two"), Modern(k, "c")
    for one in (a, b, c):
        one.join(topic)
    leavers = [
        {"member_id": a.member_id},
        {"group_instance_id": "two"},
        {"member_id": "nobody"},
        {"group_instance_id": "x"},
        {"member_id": c.member_id, "group_instance_id": "two"},
    ]
    remove(k, a.group, *leavers)
    describe(k, a.group)
    a.beat()
    k.line("admin").call("leave_group", 2, group_id=a.group, member_id=c.member_id)
    k.line("admin").call("leave_group", 2, group_id=a.group, member_id="nobody")

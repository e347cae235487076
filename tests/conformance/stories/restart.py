"""What a broker that is stopped and started again knows of its groups."""

from tests.conformance.actors import Member, Modern, assignment
from tests.conformance.stage import Stage
from tests.conformance.stories.consumer_join import describe
from tests.conformance.stories.migration import classic, half_upgraded, reads
from tests.conformance.story import story


def look(k: Stage, group: str) -> None:
    """The description of the group as a classic one."""
    k.line("watch").call("describe_groups", 6, groups=[group])


@story("K-265 K-268 L-011 L-015", server="restart")
def a_downgraded_group_whose_member_had_taken_the_last_epoch(k: Stage) -> None:
    """The consumer member leaves, and the broker restarts before the classic member, which has half, has rejoined."""
    topic = k.topic(partitions=4)
    c, n = half_upgraded(k, topic, 4)
    n.leave()
    look(k, c.group)
    k.restart(c.group)
    look(k, c.group)
    c.beat()
    c.sync()
    c.commit(topic)
    c.joined(c.ask_join())
    c.sync({c.member_id: assignment({topic: [0, 1, 2, 3]})})
    c.beat()
    look(k, c.group)


@story("K-265 K-268 K-269 L-011 L-015", server="restart")
def a_downgraded_group_whose_member_is_behind(k: Stage) -> None:
    """The classic member has not taken the last epoch when the consumer member leaves and the broker restarts."""
    topic = k.topic(partitions=4)
    c = classic(k, "c", topic, [0, 1, 2, 3])
    n = Modern(k, "n", k.name("g"))
    n.join(topic)
    n.leave()
    k.restart(c.group)
    look(k, c.group)
    c.commit(topic)
    c.sync()
    c.beat()
    c.joined(c.ask_join())
    c.sync({c.member_id: assignment({topic: [0, 1, 2, 3]})})
    c.beat()


@story("K-265 K-268 K-269 L-011 L-015", server="restart")
def a_downgraded_group_of_two_members_of_which_one_is_behind(k: Stage) -> None:
    """One classic member waits in the last epoch for a partition that the other, an epoch behind, still holds."""
    topic = k.topic(partitions=3)
    c, n = half_upgraded(k, topic, 3)
    d = Member(k, "d", k.name("g"), protocols=reads(topic))
    d.join()
    d.sync()
    n.leave()
    k.restart(c.group)
    look(k, c.group)
    d.beat()
    d.sync()
    c.commit(topic)
    c.sync()
    c.beat()


@story("K-237 K-265 L-015", server="restart")
def a_group_downgraded_by_a_static_member_that_returns(k: Stage) -> None:
    """A static member changes from the new protocol to the classic one, and the broker restarts: nobody rebalances."""
    topic = k.topic(partitions=2)
    c = classic(k, "c", topic, [0, 1], instance="one")
    n = Modern(k, "n", k.name("g"), instance="one")
    n.join(topic)
    again = Member(k, "c again", k.name("g"), protocols=reads(topic), instance="one")
    again.joined(again.ask_join())
    look(k, c.group)
    k.restart(c.group)
    look(k, c.group)
    again.beat()
    again.sync()
    again.beat()


@story("K-214 K-222 L-015", server="restart")
def an_upgraded_group_whose_member_has_not_rejoined(k: Stage) -> None:
    """The broker restarts between the upgrade and the classic member's next heartbeat."""
    topic = k.topic(partitions=2)
    c = classic(k, "c", topic, [0, 1])
    n = Modern(k, "n", k.name("g"))
    n.join(topic)
    k.restart(c.group)
    describe(k, c.group)
    c.beat()
    n.beat()
    c.joined(c.ask_join())
    c.sync()
    n.beat()
    describe(k, c.group)


@story("C-100 L-008 L-015", server="restart")
def a_classic_group_in_the_middle_of_a_rebalance(k: Stage) -> None:
    """A second member waits in JoinGroup when the broker restarts: the group is as its last generation left it."""
    topic = k.topic(partitions=2)
    c = classic(k, "c", topic, [0, 1])
    d = Member(k, "d", k.name("g"), protocols=reads(topic))
    d.introduce()
    d.ask_join()
    k.pause(150)
    look(k, c.group)
    k.restart(c.group)
    look(k, c.group)
    c.beat()
    c.sync()
    d.ask_join(member_id=d.member_id).answer()
    c.beat()

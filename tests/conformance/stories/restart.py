"""What a broker that is stopped and started again knows of its groups."""

from tests.conformance.actors import Member, assignment
from tests.conformance.requests import describe
from tests.conformance.scenes import join_consumer
from tests.conformance.stage import Stage
from tests.conformance.stories.migration import join_classic, reads, upgraded
from tests.conformance.story import story


def look(k: Stage, group: str) -> None:
    """The description of the group as a classic one."""
    k.line("watch").call("describe_groups", 6, groups=[group])


@story("K-265 K-268 L-011 L-015", server="restart")
def a_downgraded_group_whose_member_had_taken_the_last_epoch(k: Stage) -> None:
    """The consumer member leaves, and the broker restarts before the classic member, which has half, has rejoined."""
    topic, c, n = upgraded(k, 4, rejoins=True)
    n.leave()
    look(k, c.group)
    k.restart(c.group)
    look(k, c.group)
    c.beat()
    c.sync()
    c.commit(topic)
    c.join_and_sync(assignment({topic: [0, 1, 2, 3]}))
    c.beat()
    look(k, c.group)


@story("K-265 K-268 K-269 L-011 L-015", server="restart")
def a_downgraded_group_whose_member_is_behind(k: Stage) -> None:
    """The classic member has not taken the last epoch when the consumer member leaves and the broker restarts."""
    topic, c, n = upgraded(k, 4)
    n.leave()
    k.restart(c.group)
    look(k, c.group)
    c.commit(topic)
    c.sync()
    c.beat()
    c.join_and_sync(assignment({topic: [0, 1, 2, 3]}))
    c.beat()


@story("K-265 K-268 K-269 L-011 L-015", server="restart")
def a_downgraded_group_of_two_members_of_which_one_is_behind(k: Stage) -> None:
    """One classic member waits in the last epoch for a partition that the other, an epoch behind, still holds."""
    topic, c, n = upgraded(k, 3, rejoins=True)
    d = join_classic(k, "d", topic)
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
    c = join_classic(k, "c", topic, [0, 1], instance="one")
    join_consumer(k, "n", topic, instance="one")
    again = Member(k, "c again", protocols=reads(topic), instance="one")
    again.rejoin()
    look(k, c.group)
    k.restart(c.group)
    look(k, c.group)
    again.beat()
    again.sync()
    again.beat()


@story("K-214 K-222 L-015", server="restart")
def an_upgraded_group_whose_member_has_not_rejoined(k: Stage) -> None:
    """The broker restarts between the upgrade and the classic member's next heartbeat."""
    _topic, c, n = upgraded(k, 2)
    k.restart(c.group)
    describe(k, c.group)
    c.beat()
    n.beat()
    c.join_and_sync()
    n.beat()
    describe(k, c.group)


@story("C-100 L-008 L-015", server="restart")
def a_classic_group_in_the_middle_of_a_rebalance(k: Stage) -> None:
    """A second member waits in JoinGroup when the broker restarts: the group is as its last generation left it."""
    topic = k.topic(partitions=2)
    c = join_classic(k, "c", topic, [0, 1])
    d = Member(k, "d", protocols=reads(topic))
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

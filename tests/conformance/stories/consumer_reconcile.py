"""How partitions move between members of a consumer group: target, revocation, acknowledgement, release."""

from tests.conformance.actors import Modern
from tests.conformance.requests import describe
from tests.conformance.scenes import consumer_pair, hand_over, join_consumer, sole_consumer
from tests.conformance.stage import Stage
from tests.conformance.story import story


@story("K-126 K-128 K-131 K-132 K-134 K-148 T-04")
def partitions_are_handed_over_one_step_at_a_time(k: Stage) -> None:
    """B joins and waits; A is told to give up half, says so when it has, and only then B gets it."""
    topic, a = sole_consumer(k, 6)
    everything = a.owned
    b = join_consumer(k, "b", topic)
    a.beat()
    describe(k, a.group)
    a.beat(topic_partitions=everything)
    b.beat()
    b.beat()
    a.owns()
    b.beat()
    describe(k, a.group)


@story("K-129 K-131")
def silence_about_what_is_owned_acknowledges_nothing(k: Stage) -> None:
    """Heartbeats without a list leave the revocation open."""
    _topic, a, b = consumer_pair(k, 4)
    for _ in range(3):
        a.beat()
    b.beat()
    a.owns()
    b.beat()


@story("K-133")
def an_acknowledgement_may_name_less_than_is_assigned(k: Stage) -> None:
    """Only what was revoked must be gone from the list."""
    _topic, a, b = consumer_pair(k, 4)
    a.beat()
    a.beat(topic_partitions=[])
    b.beat()


@story("K-130")
def who_reports_the_new_share_at_once_goes_on_at_once(k: Stage) -> None:
    """The heartbeat that would revoke already says that nothing is owned: no revocation is needed."""
    _topic, a, b = consumer_pair(k, 4)
    a.beat(topic_partitions=[])
    b.beat()


@story("K-132 K-135 T-07")
def a_newer_target_while_revoking(k: Stage) -> None:
    """A still revokes for B when C comes: the acknowledgement leads to the next revocation, at the same epoch."""
    topic, a, b = consumer_pair(k, 6)
    a.beat()
    c = join_consumer(k, "c", topic)
    a.owns()
    describe(k, a.group)
    a.owns()
    b.beat()
    c.beat()


@story("K-134 K-125 T-06")
def three_members_share_six_partitions(k: Stage) -> None:
    """Two have three each; a third comes and gets one from each, as they give them up."""
    topic, a, b = consumer_pair(k, 6)
    hand_over(a, b)
    c = join_consumer(k, "c", topic)
    a.beat()
    b.beat()
    a.owns()
    c.beat()
    b.owns()
    c.beat()
    describe(k, a.group)


@story("K-178 K-113 K-185")
def freed_partitions_go_to_who_beats_next(k: Stage) -> None:
    """B leaves: nothing moves by itself, the group is assigning until A beats and gets everything."""
    _topic, a, b = consumer_pair(k, 4)
    hand_over(a, b)
    b.leave()
    describe(k, a.group)
    a.beat()
    describe(k, a.group)


@story("K-202 K-109 K-101")
def a_topic_that_grows_is_shared_anew(k: Stage) -> None:
    """Two more partitions are there at the next heartbeat."""
    topic, a = sole_consumer(k, 2)
    k.grow_topic(topic, 4)
    a.beat_until_assigned()


@story("K-109 K-310 K-316")
def a_topic_that_is_deleted_is_taken_away(k: Stage) -> None:
    """The member's next heartbeat takes the partitions of the deleted topic; the other topic stays."""
    stays, goes = k.topic("stays"), k.topic("goes")
    a = join_consumer(k, "a", stays, goes)
    k.delete_topic(goes)
    a.beat_until_assigned()
    a.owns()
    describe(k, a.group)


@story("K-194 K-195 K-199")
def range_gives_neighbours(k: Stage) -> None:
    """Two members vote for range: each gets a contiguous block of each topic, the first the larger one."""
    one, two = k.topic("one", 3), k.topic("two", 3)
    a = join_consumer(k, "a", one, two, server_assignor="range")
    b = join_consumer(k, "b", one, two, server_assignor="range")
    hand_over(a, b)


@story("K-197 K-194")
def range_puts_static_members_first(k: Stage) -> None:
    """A static member takes the first block though its id sorts last."""
    topic = k.topic(partitions=3)
    z = Modern(k, "z", instance="one")
    a = join_consumer(k, "a", topic, server_assignor="range")
    z.join(topic, server_assignor="range")
    hand_over(a, z)


@story("K-117 K-188 K-073")
def members_vote_for_the_assignor(k: Stage) -> None:
    """One vote among members who have none decides; the change alone does not assign anew in 4.3."""
    topic, a = sole_consumer(k, 4)
    describe(k, a.group)
    b = join_consumer(k, "b", topic, server_assignor="range")
    describe(k, a.group)
    hand_over(a, b)


@story("K-117 K-188")
def a_tie_of_votes_for_the_assignor(k: Stage) -> None:
    """One member votes for uniform, and then another one for range, which would give it the first partitions."""
    topic, a = sole_consumer(k, 3, server_assignor="uniform")
    join_consumer(k, "b", topic, instance="one", server_assignor="range")
    a.beat()


@story("K-113 K-112")
def a_member_without_topics_joins_while_a_target_is_due(k: Stage) -> None:
    """One of two members leaves, and a third joins that reads nothing, before the other beats: who gets what is free?"""
    _topic, a, b = consumer_pair(k, 4)
    hand_over(a, b)
    b.leave()
    join_consumer(k, "c")
    a.beat()


@story("K-198 K-190")
def more_members_than_partitions(k: Stage) -> None:
    """Some have nothing, and that is an assignment: an empty one."""
    topic, a = sole_consumer(k, 1, server_assignor="range")
    b = join_consumer(k, "b", topic, server_assignor="range")
    join_consumer(k, "c", topic, server_assignor="range")
    b.beat()
    a.beat()
    describe(k, a.group)


@story("K-191 K-112 K-205")
def members_with_different_topics(k: Stage) -> None:
    """Each gets only of what it reads, and all of what only it reads."""
    one, two = k.topic("one", 2), k.topic("two", 2)
    a, _b = join_consumer(k, "a", one), join_consumer(k, "b", two)
    a.beat()
    describe(k, a.group)


@story("K-114 K-115 T-28", server="delay")
def a_new_target_waits_for_the_assignment_interval(k: Stage) -> None:
    """With an interval of 1.5 seconds B joins at once but is assigned nothing until the interval is over."""
    _topic, a, b = consumer_pair(k, 2)
    describe(k, a.group)
    a.beat()
    k.pause(1700)
    a.beat()
    b.beat()
    a.owns()
    b.beat()


@story("K-114 K-179", server="delay")
def an_empty_group_does_not_wait_for_the_assignment_interval(k: Stage) -> None:
    """The only member leaves and joins again within the interval."""
    topic, a = sole_consumer(k, 2)
    a.leave()
    a.join(topic)


@story("K-114 K-334", server="delay")
def a_group_may_have_its_own_assignment_interval(k: Stage) -> None:
    """An interval of 0 for this group: the second member's target is computed when it joins."""
    topic = k.topic(partitions=2)
    a, b = Modern(k, "a"), Modern(k, "b")
    k.group_config(a.group, consumer_assignment_interval_ms=0)
    a.join(topic)
    b.join(topic)
    a.beat()

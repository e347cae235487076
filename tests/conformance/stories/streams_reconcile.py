"""How tasks move between members of a streams group: hand-over, standbys, delays, endpoints, shutdown."""

from tests.conformance.actors import Streams
from tests.conformance.requests import describe_streams
from tests.conformance.scenes import settle, sole_streams, stateful_streams, streams_pair
from tests.conformance.stage import Stage
from tests.conformance.story import story
from tests.conformance.topologies import counts, internal, part, reads, topology, word_count

ENDPOINT = {"host": "a", "port": 1}


@story("S-016", server="streams")
def tasks_are_handed_over_one_step_at_a_time(k: Stage) -> None:
    """B joins and waits; A is told to give up half, stays at its epoch, says when it has, and only then B gets it."""
    _known, a, b = streams_pair(k, 4)
    everything = a.owned
    a.beat()
    describe_streams(k, a.group)
    a.beat(**everything)
    b.beat()
    a.owns()
    b.beat()
    describe_streams(k, a.group)


@story("S-016", server="streams")
def silence_about_tasks_acknowledges_nothing(k: Stage) -> None:
    """Heartbeats without lists leave the revocation open; a rejoin does not."""
    known, a, b = streams_pair(k, 4)
    for _ in range(3):
        a.beat()
    b.beat()
    a.join(known)
    b.beat()


@story("S-016", server="streams")
def an_acknowledgement_may_name_fewer_tasks(k: Stage) -> None:
    """Only what was revoked must be gone from the lists."""
    _known, a, b = streams_pair(k, 4)
    a.beat()
    a.beat(active_tasks=[], standby_tasks=[], warmup_tasks=[])
    b.beat()


@story("S-016", server="streams")
def who_reports_fewer_tasks_at_once_goes_on_at_once(k: Stage) -> None:
    """The heartbeat that would revoke says already that nothing is owned."""
    _known, a, b = streams_pair(k, 4)
    a.beat(active_tasks=[], standby_tasks=[], warmup_tasks=[])
    b.beat()


@story("S-016", server="streams")
def a_newer_target_while_giving_up(k: Stage) -> None:
    """A still gives up for B when C comes: the acknowledgement leads to the next revocation."""
    known, a, b = streams_pair(k, 6)
    a.beat()
    c = Streams(k, "c")
    c.join(known)
    a.owns()
    describe_streams(k, a.group)
    a.owns()
    b.beat()
    c.beat()
    describe_streams(k, a.group)


@story("S-016", server="streams")
def three_members_share_six_tasks(k: Stage) -> None:
    """Two have three each; a third comes and gets one from each, as they give them up."""
    known, a, b = streams_pair(k, 6)
    settle((a, b), 2)
    c = Streams(k, "c")
    c.join(known)
    a.beat()
    b.beat()
    a.owns()
    c.beat()
    b.owns()
    c.beat()
    describe_streams(k, a.group)


@story("S-016 S-002", server="streams")
def freed_tasks_go_to_who_beats_next(k: Stage) -> None:
    """B leaves: nothing moves by itself; A gets everything at its next heartbeat."""
    _known, a, b = streams_pair(k, 4)
    settle((a, b), 2)
    b.leave()
    describe_streams(k, a.group)
    a.beat()
    describe_streams(k, a.group)


@story("S-016", server="streams")
def a_member_that_leaves_while_it_gives_up(k: Stage) -> None:
    """What it had is free at once."""
    _known, a, b = streams_pair(k, 4)
    a.beat()
    a.leave()
    b.beat()
    b.beat()
    describe_streams(k, a.group)


@story("S-016", server="streams")
def more_streams_members_than_tasks(k: Stage) -> None:
    """Some have nothing, and that is an assignment: an empty one."""
    known, a, b = streams_pair(k, 1)
    c = Streams(k, "c")
    c.join(known)
    settle((a, b, c), 2)
    describe_streams(k, a.group)


@story("S-016 S-017", server="streams")
def members_of_one_process(k: Stage) -> None:
    """Two threads of process one and one of process two."""
    known = reads(k.topic(partitions=6))
    members = [Streams(k, "a", process="one"), Streams(k, "b", process="one"), Streams(k, "c", process="two")]
    for one in members:
        one.join(known)
    settle(members, 3)
    describe_streams(k, members[0].group)


@story("S-017", server="streams")
def a_standby_on_the_other_process(k: Stage) -> None:
    """With one standby each of two processes has the other's tasks as standbys."""
    _known, (a, _b) = stateful_streams(k, "ab", 2, standbys=1)
    describe_streams(k, a.group)


@story("S-017", server="streams")
def no_standby_on_the_same_process(k: Stage) -> None:
    """Two threads of one process: there is nowhere to put a standby, until another process comes."""
    known = counts(k, k.topic(partitions=2))
    k.topic("log", 2)
    k.group_config(k.name("g"), streams_num_standby_replicas=1)
    a, b, c = Streams(k, "a", process="one"), Streams(k, "b", process="one"), Streams(k, "c", process="two")
    for one in (a, b):
        one.join(known)
    settle((a, b), 2)
    describe_streams(k, a.group)
    c.join(known)
    settle((a, b, c), 3)
    describe_streams(k, a.group)


@story("S-017", server="streams")
def standbys_for_state_alone(k: Stage) -> None:
    """A subtopology without a changelog has none."""
    known = topology(
        part("0", [k.topic("one", 2)]),
        part("1", [k.topic("two", 2)], changelogs=[internal(k.name("log"))]),
    )
    k.topic("log", 2)
    k.group_config(k.name("g"), streams_num_standby_replicas=1)
    a, b = Streams(k, "a"), Streams(k, "b")
    a.join(known)
    b.join(known)
    settle((a, b), 3)
    describe_streams(k, a.group)


@story("S-017", server="streams")
def two_standbys_of_three_processes(k: Stage) -> None:
    """Every process has every task, in one role."""
    _known, members = stateful_streams(k, "abc", 3, standbys=2)
    settle(members, 2)
    describe_streams(k, members[0].group)


@story("S-017 S-016", server="streams")
def a_standby_takes_over(k: Stage) -> None:
    """B leaves: its task becomes active where its standby was, in one step."""
    _known, (a, b) = stateful_streams(k, "ab", 2, standbys=1)
    b.leave()
    a.beat()
    a.owns()
    a.owns()
    describe_streams(k, a.group)


@story("S-017 S-016", server="streams")
def standbys_are_given_up_like_active_tasks(k: Stage) -> None:
    """A third process comes: standbys are revoked and acknowledged, too."""
    known, (a, b) = stateful_streams(k, "ab", 3, standbys=1)
    c = Streams(k, "c")
    c.join(known)
    a.beat()
    b.beat()
    describe_streams(k, a.group)
    settle((a, b, c), 3)
    describe_streams(k, a.group)


@story("S-015 S-017", server="streams")
def another_number_of_standbys(k: Stage) -> None:
    """It raises the group's epoch, at a member's next heartbeat."""
    _known, (a, b) = stateful_streams(k, "ab", 2)
    k.group_config(a.group, streams_num_standby_replicas=1)
    describe_streams(k, a.group)
    a.beat()
    settle((a, b), 3)
    describe_streams(k, a.group)
    k.group_config(a.group, streams_num_standby_replicas=0)
    a.owns()
    settle((a, b), 2)
    describe_streams(k, a.group)


@story("S-015 S-017", server="streams")
def a_task_stays_where_it_is_with_its_standby(k: Stage) -> None:
    """A member of a third process leaves again: the others keep what they have."""
    known, (a, b) = stateful_streams(k, "ab", 4, standbys=1)
    c = Streams(k, "c")
    c.join(known)
    settle((a, b, c), 4)
    describe_streams(k, a.group)
    c.leave()
    settle((a, b), 3)
    describe_streams(k, a.group)


@story("S-033 S-001", server="streams-delay")
def an_empty_streams_group_waits_for_more_members(k: Stage) -> None:
    """A second is the initial delay: until then members have epoch 1 and nothing, and the assignment is delayed."""
    _known, a, b = streams_pair(k, 4)
    a.beat()
    describe_streams(k, a.group)
    k.pause(1300)
    describe_streams(k, a.group)
    a.beat()
    b.beat()
    a.owns()
    describe_streams(k, a.group)


@story("S-033", server="streams-delay")
def a_streams_group_that_was_empty_waits_again(k: Stage) -> None:
    """The delay is of each first member of a group without members."""
    known, a = sole_streams(k, 2)
    k.pause(1300)
    a.beat()
    a.leave()
    a.join(known)
    a.beat()
    k.pause(2500)
    a.beat()


@story("S-033", server="streams-delay")
def a_member_that_leaves_within_the_initial_delay(k: Stage) -> None:
    """The group is empty when the delay is over, and nothing is assigned; the next member waits anew."""
    known, a = sole_streams(k, 2)
    a.leave()
    k.pause(1300)
    describe_streams(k, a.group)
    a.join(known)
    k.pause(1300)
    a.beat()


@story("S-033", server="streams-delay")
def a_streams_group_may_have_its_own_initial_delay(k: Stage) -> None:
    """None here: the first member gets its tasks with the join."""
    k.group_config(k.name("g"), streams_initial_rebalance_delay_ms=0)
    _known, a = sole_streams(k, 2)
    a.beat()


@story("S-034", server="streams-delay")
def a_new_streams_target_waits_for_the_assignment_interval(k: Stage) -> None:
    """With an interval of 1.5 seconds B joins at once and is assigned nothing until the interval is over."""
    k.group_config(k.name("g"), streams_initial_rebalance_delay_ms=0)
    _known, a, b = streams_pair(k, 2)
    describe_streams(k, a.group)
    a.beat()
    b.beat()
    k.pause(1700)
    a.beat()
    b.beat()
    a.owns()
    b.beat()


@story("S-034 S-037", server="streams-delay")
def a_streams_group_may_have_its_own_assignment_interval(k: Stage) -> None:
    """An interval of 0 for this group: the second member's target is computed when it joins."""
    k.group_config(k.name("g"), streams_initial_rebalance_delay_ms=0, streams_assignment_interval_ms=0)
    _known, a, b = streams_pair(k, 2)
    a.beat()
    a.owns()
    b.beat()


@story("S-011 S-034", server="streams-delay")
def the_empty_target_before_the_internal_topics_counts(k: Stage) -> None:
    """Real tasks wait for the assignment interval, though the topics are there at once."""
    k.group_config(k.name("g"), streams_initial_rebalance_delay_ms=0)
    a = Streams(k, "a")
    a.join(word_count(k, k.topic(partitions=2)))
    a.beat_until_status(5)
    describe_streams(k, a.group)
    a.beat_until_told(4)


@story("S-011 S-033", server="streams-delay")
def internal_topics_are_created_within_the_initial_delay(k: Stage) -> None:
    """They do not wait for it; after it the first target is a real one."""
    a = Streams(k, "a")
    a.join(word_count(k, k.topic(partitions=2)))
    a.beat_until_status(5)
    k.pause(1300)
    a.beat()
    describe_streams(k, a.group)


@story("S-018", server="streams")
def endpoints_and_their_partitions(k: Stage) -> None:
    """A member with an endpoint that gets an assignment raises the endpoint epoch; the list is sent where epochs differ."""
    _known, a = sole_streams(k, 2, user_endpoint=ENDPOINT)
    a.beat()
    a.beat()
    a.ask(endpoint_information_epoch=99).answer()
    a.ask(endpoint_information_epoch=-1).answer()


@story("S-018", server="streams")
def endpoints_of_two_members(k: Stage) -> None:
    """Each hand-over raises the epoch, and everybody is told all endpoints."""
    known, a = sole_streams(k, 4, user_endpoint=ENDPOINT)
    b = Streams(k, "b")
    b.join(known, user_endpoint={"host": "b", "port": 2})
    a.beat()
    a.owns()
    b.beat()
    a.beat()
    b.beat()


@story("S-018", server="streams")
def a_member_without_an_endpoint_is_told_of_the_others(k: Stage) -> None:
    """It has none itself, and its own tasks raise no endpoint epoch."""
    known, a, b = streams_pair(k, 4, user_endpoint=ENDPOINT)
    a.owns()
    a.owns()
    b.beat()
    b.beat()
    c = Streams(k, "c", k.name("g2"))
    c.join(known)
    c.beat()


@story("S-018", server="streams")
def a_change_of_the_endpoint_alone(k: Stage) -> None:
    """It raises the group's epoch and not the endpoint epoch: who is up to date is told nothing."""
    _known, a = sole_streams(k, 2, user_endpoint=ENDPOINT)
    a.beat()
    a.beat(user_endpoint={"host": "elsewhere", "port": 3})
    a.beat()
    a.ask(endpoint_information_epoch=0).answer()


@story("S-018", server="streams")
def a_new_endpoint_of_a_member_without_tasks(k: Stage) -> None:
    """Where it is behind with the endpoints it is told all of them: by Kafka its former one, and then the new one."""
    known, a = sole_streams(k, user_endpoint=ENDPOINT)
    a.owns()
    b = Streams(k, "b")
    b.join(known, user_endpoint={"host": "b", "port": 2})
    a.ask(endpoint_information_epoch=0).answer()
    b.endpoint_epoch = 0
    b.beat(user_endpoint={"host": "elsewhere", "port": 3})
    b.endpoint_epoch = 0
    b.beat()


@story("S-018 S-017", server="streams")
def endpoints_with_standbys_and_repartitions(k: Stage) -> None:
    """Partitions of sources and repartition topics, by role; changelogs are not among them."""
    known = word_count(k, k.topic(partitions=2))
    k.topic("again", 2)
    k.topic("log", 2)
    k.group_config(k.name("g"), streams_num_standby_replicas=1)
    a, b = Streams(k, "a"), Streams(k, "b")
    a.join(known, user_endpoint=ENDPOINT)
    b.join(known, user_endpoint={"host": "b", "port": 2})
    settle((a, b), 4)
    a.ask(endpoint_information_epoch=0).answer()


@story("S-018", server="streams")
def endpoints_of_topics_of_two_sizes(k: Stage) -> None:
    """The smaller topic has no more partitions than it has."""
    known = reads(k.topic("small", 1), k.topic("large", 3))
    a = Streams(k, "a")
    a.join(known, user_endpoint=ENDPOINT)
    a.beat()


@story("S-018 S-013", server="streams")
def an_endpoint_while_a_source_is_missing(k: Stage) -> None:
    """There are no tasks, and so no partitions at it."""
    a = Streams(k, "a")
    a.join(reads(k.name("missing")), user_endpoint=ENDPOINT)


@story("S-018 S-013", server="streams")
def an_endpoint_when_a_source_vanishes(k: Stage) -> None:
    """The tasks that the member still has are of a topic that is no more."""
    _known, a = sole_streams(k, 2, user_endpoint=ENDPOINT)
    k.delete_topic(k.name("t"))
    a.beat_until_status(1)


@story("S-019", server="streams")
def a_shutdown_is_told_to_everybody(k: Stage) -> None:
    """Until the group is empty, and then it is forgotten."""
    known, a, b = streams_pair(k, 2)
    a.beat(shutdown_application=True)
    b.beat()
    a.beat()
    c = Streams(k, "c")
    c.join(known)
    for one in (a, b, c):
        one.leave()
    a.join(known)


@story("S-019", server="streams")
def a_shutdown_of_a_member_that_leaves(k: Stage) -> None:
    """The others are told; nothing is in the answer of the one that leaves."""
    _known, a, b = streams_pair(k, 2)
    a.leave(shutdown_application=True)
    b.beat()
    describe_streams(k, b.group)


@story("S-019", server="streams")
def a_shutdown_that_creates_its_group(k: Stage) -> None:
    """The join is told of it, and the next heartbeat is not."""
    _known, a = sole_streams(k, 2, shutdown_application=True)
    a.beat()


@story("S-019", server="streams")
def a_shutdown_by_a_stranger(k: Stage) -> None:
    """A leave by somebody who is no member, with a request to stop."""
    _known, a = sole_streams(k, 2)
    a.ask(member_id="stranger", member_epoch=-1, shutdown_application=True).answer()
    a.beat()


@story("S-019", server="streams")
def a_shutdown_by_a_wrong_epoch(k: Stage) -> None:
    """A heartbeat that is refused asks for nothing."""
    _known, a = sole_streams(k, 2)
    a.ask(member_epoch=99, shutdown_application=True).answer()
    a.beat()

"""When a rebalance of a classic group ends: the initial delay, the rebalance timeout, the wait for SyncGroup."""

from tests.conformance.actors import Member, Modern, members, static_pair
from tests.conformance.requests import remove
from tests.conformance.scenes import complete_join, join_alone, stable, sync_all
from tests.conformance.stage import Stage
from tests.conformance.story import story


@story("C-156 C-160 K-003", server="delay")
def a_first_member_waits_for_the_initial_delay(k: Stage) -> None:
    """With a delay of one second the first join is answered after one second."""
    a = Member(k, "a")
    a.join()


@story("C-156 C-157 C-158", server="delay")
def newcomers_prolong_the_initial_delay(k: Stage) -> None:
    """B comes in the first window, so the delay runs once more before both are answered together."""
    a, b = static_pair(k)
    first = a.ask_join()
    k.pause(500)
    second = b.ask_join()
    a.joined(first)
    b.joined(second)


@story("C-158 C-156", server="delay")
def the_initial_delay_ends_at_the_rebalance_timeout(k: Stage) -> None:
    """Somebody new in each window, but never longer than the first member's rebalance timeout."""
    people = [Member(k, name, instance=name, rebalance_timeout_ms=1700) for name in "abcd"]
    waiting = []
    for one in people:
        waiting.append(one.ask_join())
        k.pause(450)
    answers = [one.joined(pending) for one, pending in zip(people, waiting, strict=True)]
    assert {answer.generation_id for answer in answers} == {1}


@story("C-159 Q-018", server="delay")
def the_initial_delay_is_not_cut_short(k: Stage) -> None:
    """All known members wait, and one of two leaves: the delay runs to its end all the same."""
    a, b = static_pair(k)
    first = a.ask_join()
    b.ask_join()
    k.pause(300)
    remove(k, k.name("g"), {"group_instance_id": "two"})
    first.silent(300)
    a.joined(first)


@story("C-307", server="delay")
def all_leave_during_the_initial_delay(k: Stage) -> None:
    """The group goes on preparing until the delay is over, and is empty then."""
    a = Member(k, "a", instance="one")
    parked = a.ask_join()
    k.pause(200)
    remove(k, k.name("g"), {"group_instance_id": "one"})
    parked.answer()
    watch = k.line("watch")
    watch.call("describe_groups", 5, groups=[k.name("g")])
    watch.await_group(k.name("g"), "Empty")


@story("C-160", server="delay")
def the_delay_comes_back_when_the_group_was_empty(k: Stage) -> None:
    """After everybody has left, who comes next waits for the initial delay again."""
    a = join_alone(k, "a")
    a.leave()
    a.member_id = ""
    a.join()


@story("C-153 C-155 C-165 T-005 C-181")
def who_does_not_rejoin_in_time_is_out(k: Stage) -> None:
    """B beats but does not rejoin: after the rebalance timeout A goes on alone and B is unknown."""
    a, b = stable(*members(k, "ab", rebalance_timeout_ms=2000))
    waiting = a.ask_join()
    k.pause(300)
    b.beat()
    a.joined(waiting)
    b.beat()


@story("C-015 C-153")
def the_longest_rebalance_timeout_counts(k: Stage) -> None:
    """A would wait half a second, B two: the group waits for B's."""
    a = Member(k, "a", rebalance_timeout_ms=500)
    b = Member(k, "b", rebalance_timeout_ms=2000)
    stable(a, b)
    a.rejoin()


@story("C-154 C-153 T-020")
def a_named_member_does_not_hold_the_join_beyond_its_timeout(k: Stage) -> None:
    """The pending member never comes: the join completes at the rebalance timeout, and it may still come later."""
    a = Member(k, "a", rebalance_timeout_ms=1000)
    b = Member(k, "b")
    stable(a)
    b.introduce()
    a.join_and_sync(b"all")
    waiting = b.ask_join()
    a.beat_until("REBALANCE_IN_PROGRESS")
    a.rejoin((b, waiting))


@story("C-353 C-122")
def a_named_member_is_forgotten_after_its_session_timeout(k: Stage) -> None:
    """It was given an id and asked for a session of 600 ms; later than that the id is unknown."""
    a = Member(k, "a", session_timeout_ms=600)
    a.introduce()
    k.pause(900)
    a.ask_join().answer()


@story("C-175 C-176 C-182 Q-010")
def who_joins_but_never_syncs_is_out(k: Stage) -> None:
    """B beats all the time but never sends SyncGroup: after the rebalance timeout the group moves on without it."""
    a, b = complete_join(*members(k, "ab", rebalance_timeout_ms=2000))
    a.sync({a.member_id: b"one", b.member_id: b"two"})
    k.pause(800)
    b.beat()
    a.beat_until("REBALANCE_IN_PROGRESS")
    b.beat()
    a.rejoin()


@story("C-177 C-214 T-006")
def a_leader_that_never_syncs_is_out(k: Stage) -> None:
    """B is parked in SyncGroup; the leader never assigns, is removed after the rebalance timeout, and B leads."""
    a, b = complete_join(*members(k, "ab", rebalance_timeout_ms=2000))
    b.sync()
    a.beat()
    b.rejoin()


@story("C-179 C-433")
def a_kept_static_member_that_does_not_sync_is_out(k: Stage) -> None:
    """B missed the join but was kept; it misses the sync too and is removed, though its session is long."""
    a, b = stable(*static_pair(k, rebalance_timeout_ms=800))
    a.join()
    a.sync({a.member_id: b"one", b.member_id: b"two"})
    a.beat_until("REBALANCE_IN_PROGRESS")
    a.rejoin()
    b.beat()


@story("C-354 Q-012")
def the_session_rests_while_a_member_is_parked(k: Stage) -> None:
    """A waits in JoinGroup far longer than its session, and is answered when B's time is over."""
    a = Member(k, "a", session_timeout_ms=500, rebalance_timeout_ms=1500)
    b = Member(k, "b", rebalance_timeout_ms=1500)
    stable(a, b)
    a.rejoin()
    a.beat()


@story("C-180 C-356 C-168")
def when_the_last_awaited_member_expires_the_join_completes(k: Stage) -> None:
    """A has rejoined; B is silent and its session ends before the rebalance timeout: A is answered then."""
    a = Member(k, "a")
    b = Member(k, "b", session_timeout_ms=1000)
    stable(a, b)
    a.rejoin()


@story("C-022 C-020")
def a_leader_that_does_not_rejoin_is_replaced(k: Stage) -> None:
    """The dynamic leader misses the join: the follower that came leads the next generation."""
    a, b = stable(*members(k, "ab", rebalance_timeout_ms=800))
    b.join_and_sync(b"all", protocols=[{"name": "range", "metadata": b""}])
    a.beat()


@story("C-020 C-143 C-166")
def a_static_leader_that_does_not_rejoin_hands_over(k: Stage) -> None:
    """It stays a member, but the follower that came leads."""
    a, b = stable(*static_pair(k, rebalance_timeout_ms=800))
    b.join_and_sync(b"all", protocols=[{"name": "range", "metadata": b""}])
    a.beat()


@story("C-169 C-178")
def a_new_generation_starts_a_new_wait_for_syncs(k: Stage) -> None:
    """B did not sync generation 2, but rejoined for generation 3 in time: the first wait's end does nothing."""
    a, b = complete_join(*members(k, "ab", rebalance_timeout_ms=2000))
    a.sync({a.member_id: b"one", b.member_id: b"two"})
    k.pause(600)
    waiting = a.ask_join()
    k.pause(100)
    b.rejoin((a, waiting))
    sync_all((a, b), (b"one", b"two"))
    k.pause(1500)
    a.beat()
    b.beat()


@story("C-015 C-101")
def rebalance_timeouts_that_are_no_time(k: Stage) -> None:
    """0, -1, the least and the greatest integer: a lone member joins, syncs 0.2 s later, and beats."""
    for timeout in (0, -1, -(2**31), 2**31 - 1):
        a = Member(k, f"a {timeout}", k.name(f"g {timeout}"), rebalance_timeout_ms=timeout, instance="one")
        a.rejoin()
        k.pause(200)
        a.sync({a.member_id: b"all"})
        k.pause(200)
        a.beat()


@story("C-015 C-153 C-180")
def a_static_member_with_no_rebalance_timeout_stays_when_the_other_leaves(k: Stage) -> None:
    """A static member with rebalance timeout 0 and a member with a minute are stable; the other leaves."""
    a = Member(k, "a", instance="one", rebalance_timeout_ms=0)
    b = Member(k, "b", rebalance_timeout_ms=60_000)
    b.join_and_sync(b"all")
    waiting = a.ask_join()
    k.pause(150)
    b.rejoin((a, waiting))
    syncs = [b.ask_sync({a.member_id: b"one", b.member_id: b"two"}), a.ask_sync()]
    for pending in syncs:
        pending.answer()
    b.leave()
    k.pause(300)
    a.beat()
    k.line("watch").call("describe_groups", 6, groups=[a.group])
    a.rejoin()
    k.pause(300)
    k.line("watch").call("describe_groups", 6, groups=[a.group])


@story("C-015 C-153 C-180")
def members_without_a_rebalance_timeout_have_no_time_to_sync(k: Stage) -> None:
    """A member with rebalance timeout 0 joins and is out before it can sync; another fares the same."""
    a = Member(k, "a", rebalance_timeout_ms=0, instance="one")
    b = Member(k, "b", rebalance_timeout_ms=0, instance="two")
    a.rejoin()
    k.pause(300)
    b.rejoin()
    k.pause(300)
    a.beat()
    b.beat()
    k.line("watch").call("describe_groups", 6, groups=[a.group])


@story("K-016 K-019")
def rebalance_timeouts_of_a_consumer_member_that_are_no_time(k: Stage) -> None:
    """-1, the least and the greatest integer, -2 and 0 when it joins; then a member that is to give up a partition."""
    topic = k.topic(partitions=2)
    for timeout in (-1, -(2**31), 2**31 - 1, -2, 0):
        a = Modern(k, f"n {timeout}", k.name(f"g {timeout}"))
        a.join(topic, rebalance_timeout_ms=timeout)
    Modern(k, "b", a.group).join(topic)
    a.beat()
    k.pause(300)
    a.beat()
    k.line("watch").call("consumer_group_describe", 1, group_ids=[a.group])

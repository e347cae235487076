"""Static members (KIP-345, KIP-814): those with an instance id, who may restart without a rebalance."""

from tests.conformance.actors import Member, static_pair, subscription
from tests.conformance.requests import remove
from tests.conformance.scenes import complete_join, join_alone, stable
from tests.conformance.stage import Stage
from tests.conformance.story import story


@story("C-120 C-430 C-011")
def a_static_member_joins_in_one_step(k: Stage) -> None:
    """An instance id that is new makes a member at once, in every version that has one; its id starts with the instance id."""
    for version in range(5, 10):
        a = Member(k, "a", k.name(f"g{version}"), instance="one", version=version)
        a.rejoin()


@story("C-410 C-412 C-420 C-422 T-008")
def a_static_follower_restarts_and_keeps_its_partitions(k: Stage) -> None:
    """It comes back without a member id, gets a new one and its old share; the leader never hears of it."""
    a, _b = stable(*static_pair(k))
    again = Member(k, "b restarted", instance="two")
    again.join_and_sync()
    a.beat()
    again.beat()


@story("C-411 C-253 T-008")
def the_old_self_of_a_restarted_member_is_fenced(k: Stage) -> None:
    """With its instance id the old id is fenced in every request; without it the id is just unknown."""
    topic = k.topic()
    a = join_alone(k, "a", instance="one")
    again = Member(k, "a restarted", instance="one")
    again.join_and_sync()
    a.beat()
    a.sync()
    a.ask_join().answer()
    a.commit(topic)
    a.leave()
    a.beat(group_instance_id=None)
    a.commit(topic, group_instance_id=None)
    again.beat()


@story("C-420 C-423 T-009 Q-020")
def a_restarted_static_leader_is_told_to_skip_the_assignment(k: Stage) -> None:
    """Version 9 tells it that it leads, with all members, and that the assignment stands."""
    _a, b = stable(*static_pair(k))
    again = Member(k, "a restarted", instance="one")
    again.join_and_sync()
    b.beat()


@story("C-421 T-009 Q-020")
def before_version_9_a_restarted_leader_is_told_of_its_old_self(k: Stage) -> None:
    """It sees its own former id as leader and so acts as a follower."""
    _a, b = stable(Member(k, "a", instance="one", version=8), Member(k, "b", instance="two"))
    again = Member(k, "a restarted", instance="one", version=8)
    again.join_and_sync()
    b.beat()


@story("C-413 Q-019")
def a_restart_with_another_subscription_goes_unnoticed(k: Stage) -> None:
    """Under the same protocol name a changed subscription moves nobody; it is stored, and described."""
    a, _b = stable(*static_pair(k))
    again = Member(
        k, "b restarted", k.name("g"), instance="two", protocols=[{"name": "range", "metadata": subscription("other")}]
    )
    again.join_and_sync()
    a.beat()
    k.line("watch").call("describe_groups", 5, groups=[k.name("g")])


@story("C-412")
def a_restart_that_would_change_the_protocol_starts_a_rebalance(k: Stage) -> None:
    """The lone member comes back preferring another protocol: the choice would change, so the group rebalances."""
    both = [{"name": name, "metadata": subscription("x")} for name in ("range", "sticky")]
    join_alone(k, "a", instance="one", protocols=both)
    again = Member(k, "a restarted", instance="one", protocols=list(reversed(both)))
    again.rejoin()


@story("C-412 C-410 C-151 Q-021")
def a_restart_while_the_group_syncs_starts_over(k: Stage) -> None:
    """B waits in SyncGroup and is replaced: its old request is fenced, and the group rebalances."""
    a, b = complete_join(*static_pair(k))
    parked = b.ask_sync()
    k.pause(150)
    again = Member(k, "b restarted", instance="two")
    waiting = again.ask_join()
    parked.answer()
    a.beat_until("REBALANCE_IN_PROGRESS")
    a.rejoin((again, waiting))


@story("C-410 C-412 T-010")
def a_restart_while_the_group_joins_takes_the_place(k: Stage) -> None:
    """B's old JoinGroup is parked when its new self joins: the old one is fenced, the new one waits in its place."""
    a, b = static_pair(k)
    stable(a)
    parked = b.ask_join()
    k.pause(150)
    again = Member(k, "b restarted", instance="two")
    waiting = again.ask_join()
    parked.answer()
    a.rejoin((again, waiting))


@story("C-432 C-132 C-431")
def an_instance_and_a_member_that_do_not_belong_together(k: Stage) -> None:
    """A known instance with another's id is fenced; an unknown instance with a known id is unknown."""
    a, _b = stable(*static_pair(k))
    a.ask_join(group_instance_id="two").answer()
    a.ask_join(group_instance_id="three").answer()
    a.sync(group_instance_id="two")
    a.sync(group_instance_id="three")
    a.beat()


@story("C-431 C-138")
def a_static_follower_that_rejoins_with_its_id_disturbs_nobody(k: Stage) -> None:
    """With its member id it is as any follower: unchanged, so answered at once in the same generation."""
    a, b = stable(*static_pair(k))
    b.ask_join().answer()
    a.beat()


@story("C-166 C-433 C-143")
def a_static_member_that_does_not_rejoin_is_kept(k: Stage) -> None:
    """The rebalance goes on without B after its timeout, but B is in the leader's list and can sync."""
    a, b = stable(*static_pair(k, rebalance_timeout_ms=1000))
    a.join()
    a.sync({a.member_id: b"one", b.member_id: b"two"})
    b.beat()
    b.generation = a.generation
    b.sync()


@story("C-167")
def a_join_in_which_nobody_came_is_tried_again(k: Stage) -> None:
    """One of two static members is removed and the other does not rejoin in time: the group waits on, and the other is still a member."""
    a, _b = stable(*static_pair(k, rebalance_timeout_ms=700))
    remove(k, k.name("g"), {"member_id": "", "group_instance_id": "two"})
    k.pause(1000)
    k.line("watch").call("describe_groups", 5, groups=[k.name("g")])
    a.beat()
    a.rejoin()


@story("C-434 C-435 C-356")
def a_silent_static_member_is_removed_when_its_session_ends(k: Stage) -> None:
    """Static members are removed like others; the old id is then unknown, the instance free."""
    a = join_alone(k, "a", instance="one", session_timeout_ms=800)
    a.k.line("watch").await_group(k.name("g"), "Empty")
    a.ask_join().answer()
    a.joined(a.ask_join(member_id=""))


@story("C-351 C-410 Q-019")
def after_a_restart_the_old_session_timeout_counts_first(k: Stage) -> None:
    """The new self asks for a long session but is silent: it is removed after the short one of its old self."""
    join_alone(k, "a", instance="one", session_timeout_ms=1000)
    again = Member(k, "a restarted", instance="one", session_timeout_ms=60_000)
    again.rejoin()
    k.line("watch").await_group(k.name("g"), "Empty")


@story("C-351 C-359")
def a_beat_after_a_restart_brings_the_new_session_timeout(k: Stage) -> None:
    """Once it has beaten, the long session of the new self counts."""
    join_alone(k, "a", instance="one", session_timeout_ms=800)
    again = Member(k, "a restarted", instance="one", session_timeout_ms=60_000)
    again.rejoin()
    again.beat()
    k.pause(1200)
    again.beat()


@story("C-436 C-437 C-141")
def static_and_dynamic_members_share_a_group(k: Stage) -> None:
    """The leader's list and DescribeGroups show who has an instance id; old versions of the latter do not."""
    _a, _b = stable(Member(k, "a", instance="one"), Member(k, "b"))
    for version in range(6):
        k.line("watch").call("describe_groups", version, groups=[k.name("g")])


@story("C-013 Q-019")
def a_restarted_member_is_described_by_its_old_client(k: Stage) -> None:
    """Client id and host are those of the first admission."""
    join_alone(k, "a", instance="one")
    again = Member(k, "another client", instance="one")
    again.rejoin()
    k.line("watch").call("describe_groups", 5, groups=[k.name("g")])

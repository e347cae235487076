"""Static members (KIP-345, KIP-814): those with an instance id, who may restart without a rebalance."""

from tests.conformance.actors import Member, stable, subscription
from tests.conformance.stage import Stage
from tests.conformance.stories.classic_sync import joined
from tests.conformance.story import story


@story("C-120 C-430 C-011")
def a_static_member_joins_in_one_step(k: Stage) -> None:
    """An instance id that is new makes a member at once, in every version that has one; its id starts with the instance id."""
    for version in range(5, 10):
        a = Member(k, "a", k.name(f"g{version}"), instance="one", version=version)
        a.joined(a.ask_join())


@story("C-410 C-412 C-420 C-422 T-008")
def a_static_follower_restarts_and_keeps_its_partitions(k: Stage) -> None:
    """It comes back without a member id, gets a new one and its old share; the leader never hears of it."""
    a, b = Member(k, "a", k.name("g"), instance="one"), Member(k, "b", k.name("g"), instance="two")
    stable(a, b)
    again = Member(k, "b restarted", k.name("g"), instance="two")
    again.joined(again.ask_join())
    again.sync()
    a.beat()
    again.beat()


@story("C-411 C-253 T-008")
def the_old_self_of_a_restarted_member_is_fenced(k: Stage) -> None:
    """With its instance id the old id is fenced in every request; without it the id is just unknown."""
    topic = k.topic()
    a = Member(k, "a", k.name("g"), instance="one")
    stable(a)
    again = Member(k, "a restarted", k.name("g"), instance="one")
    again.joined(again.ask_join())
    again.sync()
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
    a, b = Member(k, "a", k.name("g"), instance="one"), Member(k, "b", k.name("g"), instance="two")
    stable(a, b)
    again = Member(k, "a restarted", k.name("g"), instance="one")
    again.joined(again.ask_join())
    again.sync()
    b.beat()


@story("C-421 T-009 Q-020")
def before_version_9_a_restarted_leader_is_told_of_its_old_self(k: Stage) -> None:
    """It sees its own former id as leader and so acts as a follower."""
    a, b = Member(k, "a", k.name("g"), instance="one", version=8), Member(k, "b", k.name("g"), instance="two")
    stable(a, b)
    again = Member(k, "a restarted", k.name("g"), instance="one", version=8)
    again.joined(again.ask_join())
    again.sync()
    b.beat()


@story("C-413 Q-019")
def a_restart_with_another_subscription_goes_unnoticed(k: Stage) -> None:
    """Under the same protocol name a changed subscription moves nobody; it is stored, and described."""
    a, b = Member(k, "a", k.name("g"), instance="one"), Member(k, "b", k.name("g"), instance="two")
    stable(a, b)
    again = Member(
        k, "b restarted", k.name("g"), instance="two", protocols=[{"name": "range", "metadata": subscription("other")}]
    )
    again.joined(again.ask_join())
    again.sync()
    a.beat()
    k.line("watch").call("describe_groups", 5, groups=[k.name("g")])


@story("C-412")
def a_restart_that_would_change_the_protocol_starts_a_rebalance(k: Stage) -> None:
    """The lone member comes back preferring another protocol: the choice would change, so the group rebalances."""
    both = [{"name": name, "metadata": subscription("x")} for name in ("range", "sticky")]
    a = Member(k, "a", k.name("g"), instance="one", protocols=both)
    stable(a)
    again = Member(k, "a restarted", k.name("g"), instance="one", protocols=list(reversed(both)))
    again.joined(again.ask_join())


@story("C-412 C-410 C-151 Q-021")
def a_restart_while_the_group_syncs_starts_over(k: Stage) -> None:
    """B waits in SyncGroup and is replaced: its old request is fenced, and the group rebalances."""
    a, b = Member(k, "a", k.name("g"), instance="one"), Member(k, "b", k.name("g"), instance="two")
    joined(k, a, b)
    parked = b.ask_sync()
    k.pause(150)
    again = Member(k, "b restarted", k.name("g"), instance="two")
    waiting = again.ask_join()
    parked.answer()
    a.beat_until("REBALANCE_IN_PROGRESS")
    a.joined(a.ask_join())
    again.joined(waiting)


@story("C-410 C-412 T-010")
def a_restart_while_the_group_joins_takes_the_place(k: Stage) -> None:
    """B's old JoinGroup is parked when its new self joins: the old one is fenced, the new one waits in its place."""
    a, b = Member(k, "a", k.name("g"), instance="one"), Member(k, "b", k.name("g"), instance="two")
    stable(a)
    parked = b.ask_join()
    k.pause(150)
    again = Member(k, "b restarted", k.name("g"), instance="two")
    waiting = again.ask_join()
    parked.answer()
    a.joined(a.ask_join())
    again.joined(waiting)


@story("C-432 C-132 C-431")
def an_instance_and_a_member_that_do_not_belong_together(k: Stage) -> None:
    """A known instance with another's id is fenced; an unknown instance with a known id is unknown."""
    a, b = Member(k, "a", k.name("g"), instance="one"), Member(k, "b", k.name("g"), instance="two")
    stable(a, b)
    a.ask_join(group_instance_id="two").answer()
    a.ask_join(group_instance_id="three").answer()
    a.sync(group_instance_id="two")
    a.sync(group_instance_id="three")
    a.beat()


@story("C-431 C-138")
def a_static_follower_that_rejoins_with_its_id_disturbs_nobody(k: Stage) -> None:
    """With its member id it is as any follower: unchanged, so answered at once in the same generation."""
    a, b = Member(k, "a", k.name("g"), instance="one"), Member(k, "b", k.name("g"), instance="two")
    stable(a, b)
    b.ask_join().answer()
    a.beat()


@story("C-166 C-433 C-143")
def a_static_member_that_does_not_rejoin_is_kept(k: Stage) -> None:
    """The rebalance goes on without B after its timeout, but B is in the leader's list and can sync."""
    a = Member(k, "a", k.name("g"), instance="one", rebalance_timeout_ms=1000)
    b = Member(k, "b", k.name("g"), instance="two", rebalance_timeout_ms=1000)
    stable(a, b)
    a.joined(a.ask_join())
    a.sync({a.member_id: b"one", b.member_id: b"two"})
    b.beat()
    b.generation = a.generation
    b.sync()


@story("C-167")
def a_join_in_which_nobody_came_is_tried_again(k: Stage) -> None:
    """One of two static members is removed and the other does not rejoin in time: the group waits on, and the other is still a member."""
    a = Member(k, "a", k.name("g"), instance="one", rebalance_timeout_ms=700)
    b = Member(k, "b", k.name("g"), instance="two", rebalance_timeout_ms=700)
    stable(a, b)
    k.line("admin").call(
        "leave_group", 5, group_id=k.name("g"), members=[{"member_id": "", "group_instance_id": "two"}]
    )
    k.pause(1000)
    k.line("watch").call("describe_groups", 5, groups=[k.name("g")])
    a.beat()
    a.joined(a.ask_join())


@story("C-434 C-435 C-356")
def a_silent_static_member_is_removed_when_its_session_ends(k: Stage) -> None:
    """Static members are removed like others; the old id is then unknown, the instance free."""
    a = Member(k, "a", k.name("g"), instance="one", session_timeout_ms=800)
    stable(a)
    a.k.line("watch").eventually(
        "describe_groups", 5, lambda answer: answer.groups[0].group_state == "Empty", groups=[k.name("g")]
    )
    a.ask_join().answer()
    a.joined(a.ask_join(member_id=""))


@story("C-351 C-410 Q-019")
def after_a_restart_the_old_session_timeout_counts_first(k: Stage) -> None:
    """The new self asks for a long session but is silent: it is removed after the short one of its old self."""
    a = Member(k, "a", k.name("g"), instance="one", session_timeout_ms=1000)
    stable(a)
    again = Member(k, "a restarted", k.name("g"), instance="one", session_timeout_ms=60_000)
    again.joined(again.ask_join())
    k.line("watch").eventually(
        "describe_groups", 5, lambda answer: answer.groups[0].group_state == "Empty", groups=[k.name("g")]
    )


@story("C-351 C-359")
def a_beat_after_a_restart_brings_the_new_session_timeout(k: Stage) -> None:
    """Once it has beaten, the long session of the new self counts."""
    a = Member(k, "a", k.name("g"), instance="one", session_timeout_ms=800)
    stable(a)
    again = Member(k, "a restarted", k.name("g"), instance="one", session_timeout_ms=60_000)
    again.joined(again.ask_join())
    again.beat()
    k.pause(1200)
    again.beat()


@story("C-436 C-437 C-141")
def static_and_dynamic_members_share_a_group(k: Stage) -> None:
    """The leader's list and DescribeGroups show who has an instance id; old versions of the latter do not."""
    a, b = Member(k, "a", k.name("g"), instance="one"), Member(k, "b", k.name("g"))
    stable(a, b)
    for version in range(6):
        k.line("watch").call("describe_groups", version, groups=[k.name("g")])


@story("C-013 Q-019")
def a_restarted_member_is_described_by_its_old_client(k: Stage) -> None:
    """Client id and host are those of the first admission."""
    a = Member(k, "a", k.name("g"), instance="one")
    stable(a)
    again = Member(k, "another client", k.name("g"), instance="one")
    again.joined(again.ask_join())
    k.line("watch").call("describe_groups", 5, groups=[k.name("g")])

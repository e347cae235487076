"""How members get out of a classic group: LeaveGroup."""

from tests.conformance.actors import Member, members
from tests.conformance.requests import remove
from tests.conformance.scenes import complete_join, join_alone, joining_pair, pending_pair, stable
from tests.conformance.stage import Stage
from tests.conformance.story import story


@story("C-306 R-042 T-007")
def the_last_member_leaves_an_empty_group_behind(k: Stage) -> None:
    """The group is Empty, keeps its protocol type, and the one who left is unknown."""
    a = join_alone(k, "a")
    a.leave()
    k.line("a").call("describe_groups", 5, groups=[k.name("g")])
    a.leave()


@story("C-301 C-310")
def leaving_a_group_that_is_not_there(k: Stage) -> None:
    """Old versions say so at the top, new ones for each member, with no error at the top."""
    line = k.line("a")
    for version in range(3):
        line.call("leave_group", version, group_id=k.name("none"), member_id="somebody")
    for version in (3, 4, 5):
        line.call(
            "leave_group",
            version,
            group_id=k.name("none"),
            members=[{"member_id": "x"}, {"member_id": "", "group_instance_id": "i"}],
        )


@story("C-310 G-014")
def a_single_leave_carries_its_error_at_the_top(k: Stage) -> None:
    """Versions 0 to 2 leave one member by its id."""
    for version in range(3):
        a = Member(k, f"a{version}", k.name(f"g{version}"))
        stable(a)
        line = k.line(f"a{version}")
        line.call("leave_group", version, group_id=a.group, member_id="somebody")
        line.call("leave_group", version, group_id=a.group, member_id=a.member_id)
        line.call("leave_group", version, group_id=a.group, member_id=a.member_id)


@story("C-305 C-150 C-022")
def a_leave_from_a_stable_group_starts_a_rebalance(k: Stage) -> None:
    """B leaves: A hears of it at its next heartbeat and completes the next generation alone."""
    a, b = stable(*members(k, "ab"))
    b.leave("closing time")
    a.beat()
    a.rejoin()


@story("C-304 C-303")
def a_member_that_leaves_while_it_joins_is_answered(k: Stage) -> None:
    """B's JoinGroup is parked when B leaves elsewhere: it is answered UNKNOWN_MEMBER_ID without an id."""
    a, b, parked = joining_pair(k)
    b.line = k.line("b elsewhere")
    b.leave()
    parked.answer()
    a.rejoin()


@story("C-305")
def a_leave_can_complete_a_join(k: Stage) -> None:
    """A has rejoined and waits only for B; B leaves, and A is answered at once."""
    a, b = stable(*members(k, "ab"))
    waiting = a.ask_join()
    waiting.silent(300)
    b.leave()
    a.joined(waiting)


@story("C-303 C-308 C-309 C-312 Q-014")
def a_batch_of_leaves_is_answered_one_by_one(k: Stage) -> None:
    """Members by id, by instance, twice, unknown and wrong: each gets its own answer, in the order asked, and there is one rebalance."""
    a = Member(k, "a")
    b = Member(k, "b", instance="two")
    c = Member(k, "c")
    stable(a, b, c)
    leavers = [
        (b.member_id, "wrong"),
        ("", "two"),
        ("", "two"),
        ("", None),
        ("", "three"),
        (c.member_id, None),
        (c.member_id, None),
        ("nobody", None),
    ]
    members = [{"member_id": member, "group_instance_id": instance} for member, instance in leavers]
    remove(k, k.name("g"), *members)
    a.beat()
    a.rejoin()


@story("C-309 C-305")
def a_batch_in_which_all_fail_starts_nothing(k: Stage) -> None:
    """Nobody was removed, so nobody has to rejoin."""
    a = join_alone(k, "a")
    remove(k, k.name("g"), {"member_id": "x"}, {"group_instance_id": "y"})
    a.beat()


@story("C-311")
def an_empty_batch_is_answered_empty(k: Stage) -> None:
    """No members to remove, no error; the group goes on."""
    a = join_alone(k, "a")
    k.line("admin").call("leave_group", 4, group_id=k.name("g"), members=[])
    a.beat()


@story("C-303 C-315 Q-015")
def a_named_member_that_leaves_moves_a_stable_group(k: Stage) -> None:
    """Leaving with an id that has not joined yet starts a rebalance of those who have."""
    a, b = pending_pair(k)
    b.leave()
    a.beat()
    b.ask_join().answer()


@story("C-303 C-152")
def a_named_member_that_leaves_lets_the_join_complete(k: Stage) -> None:
    """A waits for the member that was only named; it leaves instead of joining, and A is answered."""
    a, b = pending_pair(k)
    waiting = a.ask_join()
    waiting.silent(300)
    b.leave()
    a.joined(waiting)


@story("C-314 C-303 T-010")
def an_operator_removes_a_static_member_by_its_instance(k: Stage) -> None:
    """The instance id alone removes it; its old id is unknown then, and it may come back afresh."""
    a = join_alone(k, "a", instance="one")
    remove(k, k.name("g"), {"member_id": "", "group_instance_id": "one"}, version=3)
    a.beat()
    a.ask_join().answer()
    a.joined(a.ask_join(member_id=""))


@story("C-305 C-151")
def a_leave_while_others_sync_sends_them_back(k: Stage) -> None:
    """C has not synced yet and leaves: B, parked in SyncGroup, must rejoin; A hears of it by heartbeat."""
    a, b, c = complete_join(*members(k, "abc"))
    parked = b.ask_sync()
    k.pause(150)
    c.leave()
    parked.answer()
    a.beat()
    waiting = b.ask_join()
    waiting.silent(200)
    a.rejoin((b, waiting))

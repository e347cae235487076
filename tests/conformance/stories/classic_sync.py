"""How a classic group gets its assignment: SyncGroup."""

from tests.conformance.actors import Member, members, subscription
from tests.conformance.scenes import complete_join, join_alone, joining_pair, stable
from tests.conformance.stage import Stage
from tests.conformance.story import story


@story("C-203 C-204 C-205 C-208")
def followers_wait_for_the_leaders_assignment(k: Stage) -> None:
    """A follower that syncs first is parked until the leader has sent the assignments; one that comes later gets its own at once."""
    a, b, c = complete_join(*members(k, "abc"))
    early = b.ask_sync()
    early.silent(200)
    a.sync({a.member_id: b"one", b.member_id: b"two", c.member_id: b"three"})
    early.answer()
    c.sync()


@story("C-204 C-212")
def members_that_the_leader_forgot_get_nothing(k: Stage) -> None:
    """Unknown members in the assignments are ignored, members that are not mentioned get empty bytes, the last duplicate wins."""
    a, b = complete_join(*members(k, "ab"))
    given = [("nobody", b"lost"), (a.member_id, b"first"), (a.member_id, b"second")]
    leader = a.ask_sync(assignments=[{"member_id": member, "assignment": share} for member, share in given])
    leader.answer()
    b.sync()


@story("C-212")
def a_leader_may_assign_nothing_at_all(k: Stage) -> None:
    """An empty list of assignments makes the group stable all the same."""
    a, b = complete_join(*members(k, "ab"))
    a.sync()
    b.sync()
    k.line("a").call("describe_groups", 5, groups=[k.name("g")])


@story("C-203")
def a_followers_assignments_are_ignored(k: Stage) -> None:
    """A follower that plays the leader only waits for the real one."""
    a, b = complete_join(*members(k, "ab"))
    pretending = b.ask_sync({b.member_id: b"everything"})
    pretending.silent(200)
    a.sync({a.member_id: b"mine", b.member_id: b"yours"})
    pretending.answer()


@story("C-208 C-209 L-018")
def syncing_again_gives_the_stored_assignment(k: Stage) -> None:
    """In a stable group SyncGroup only reads: also the leader that now sends other assignments gets the stored one."""
    a, b = stable(*members(k, "ab"))
    b.sync()
    a.sync({a.member_id: b"changed", b.member_id: b"changed"})
    b.sync()


@story("C-200 Q-002")
def a_group_that_is_not_there_knows_no_member(k: Stage) -> None:
    """SyncGroup to a missing group and to an empty one: UNKNOWN_MEMBER_ID."""
    a = Member(k, "a", k.name("none"))
    a.sync(member_id="somebody", generation_id=1)
    b = join_alone(k, "b")
    b.leave()
    b.sync()


@story("C-201 C-132 C-211")
def a_sync_of_another_generation_is_refused(k: Stage) -> None:
    """Too old, too new and none at all: ILLEGAL_GENERATION; but an unknown member is named first."""
    a = join_alone(k, "a")
    for generation in (0, 2, -1):
        a.sync(generation_id=generation)
    a.sync(member_id="somebody", generation_id=99)


@story("C-201 K-250 Q-039")
def the_protocol_must_be_the_one_that_was_chosen(k: Stage) -> None:
    """From version 5 on the type and name are compared; null is refused, an older version asks for neither."""
    a = join_alone(k, "a")
    a.sync(protocol_type="connect")
    a.sync(protocol_name="sticky")
    a.sync(protocol_type=None)
    a.sync(protocol_name=None)
    a.sync(protocol_type=None, member_id="somebody", generation_id=99)
    a.sync(version=4)


@story("C-202 C-251")
def a_sync_during_the_join_is_told_to_rejoin(k: Stage) -> None:
    """While B waits to join, A still syncs its old generation: REBALANCE_IN_PROGRESS."""
    a, _b, _waiting = joining_pair(k)
    a.sync()
    a.sync(generation_id=0)


@story("C-151 C-301 C-315")
def a_parked_sync_hears_of_a_leave(k: Stage) -> None:
    """B waits in SyncGroup while the leader leaves: B is told to rejoin and leads the next generation."""
    a, b = complete_join(*members(k, "ab"))
    parked = b.ask_sync()
    parked.silent(150)
    a.leave()
    parked.answer()
    b.rejoin()


@story("C-210")
def a_leader_that_syncs_on_a_new_connection_is_answered_there(k: Stage) -> None:
    """The follower's parked SyncGroup is repeated elsewhere: only the latest is answered."""
    a, b = complete_join(*members(k, "ab"))
    first = b.ask_sync()
    k.pause(150)
    b.line = k.line("b again")
    second = b.ask_sync()
    k.pause(150)
    a.sync({a.member_id: b"one", b.member_id: b"two"})
    second.answer()
    first.silent(300)


@story("C-213 Q-013")
def a_member_that_leaves_while_it_syncs_is_never_answered(k: Stage) -> None:
    """B's SyncGroup is parked, then B leaves on another connection; the parked request stays without an answer."""
    a, b = complete_join(*members(k, "ab"))
    parked = b.ask_sync()
    k.pause(150)
    b.line = k.line("b elsewhere")
    b.leave()
    parked.silent(500)
    a.beat()


@story("G-012 C-205")
def every_sync_version_brings_the_assignment(k: Stage) -> None:
    """Versions 0 to 5 read the same assignment; the protocol's names come with version 5."""
    a = join_alone(k, "a")
    for version in range(6):
        a.sync(version=version)


@story("C-151 A-008")
def a_new_rebalance_forgets_assignments_only_when_nobody_had_them(k: Stage) -> None:
    """In PreparingRebalance after Stable the old assignments are still described; after CompletingRebalance they are not."""
    a, b = stable(*members(k, "ab"))
    again = a.ask_join()
    k.pause(150)
    watch = k.line("watch")
    watch.call("describe_groups", 5, groups=[k.name("g")])
    b.rejoin((a, again))
    watch.call("describe_groups", 5, groups=[k.name("g")])
    a.ask_join(protocols=[{"name": "range", "metadata": subscription("other")}])
    k.pause(150)
    watch.call("describe_groups", 5, groups=[k.name("g")])
